//! `rushgate sale audit`.

use std::fmt::Write;

use anyhow::Result;
use rushgate::{Audit, Rushgate};

use crate::args::sale::AuditArgs;
use crate::exit::Exit;
use crate::globals::Globals;
use crate::output::{Output, Paint};

pub(super) async fn audit(gate: &Rushgate, args: AuditArgs, globals: &Globals) -> Result<Exit> {
    let (sale, output) = (gate.sale(&args.id)?, globals.output());
    // A ledger that was named for other sales says nothing about this one.
    let has_ledger = sale.state().await?.spec.orders.is_some() && globals.orders.is_some();
    let audit = if has_ledger {
        let ledger = globals.ledger_to_look_at().await?;
        let audit = sale.audit(Some(&*ledger)).await;
        ledger.close().await?;
        audit?
    } else {
        sale.audit(None).await?
    };
    output.data(&audit, audit_text(&audit, output))?;
    Ok(Exit::done_if(audit.ok))
}

/// The audit for people, in full.
pub(crate) fn audit_text(audit: &Audit, output: Output) -> String {
    let mut text = String::new();
    let mark = |ok| if ok { output.paint(Paint::Good, "ok  ") } else { output.paint(Paint::Bad, "FAIL") };
    for check in &audit.checks {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{} {}: {}", mark(check.ok), check.claim, check.figures);
    }
    text += if audit.ok { "The audit holds.\n" } else { "The audit FAILS.\n" };
    text
}
