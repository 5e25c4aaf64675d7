//! `rushgate sale audit`.

use std::fmt::Write;

use anyhow::Result;
use rushgate::Rushgate;
use rushgate::sale::Audit;

use crate::args::names::OfSale;
use crate::exit::{Exit, Fault};
use crate::globals::Globals;
use crate::output::{Output, Paint};

pub(super) async fn audit(client: &Rushgate, args: OfSale, globals: &Globals) -> Result<Exit> {
    let (sale, output) = (client.sale(&args.id)?, globals.output);
    let ledger = match globals.orders.is_some() {
        true => match globals.ledger_to_look_at().await {
            // A sale without a ledger can be audited even if the named ledger is unavailable.
            Err(_) if !sale.state().await?.spec.ledger => None,
            ledger => Some(ledger?),
        },
        false if sale.state().await?.spec.ledger => {
            return Err(Fault::usage("the sale has a ledger, which the audit must read")
                .hint("pass --orders URL, or set RUSHGATE_ORDERS or `orders` in rushgate.toml")
                .into());
        }
        false => None,
    };
    let audit = sale.audit(ledger.as_deref()).await;
    if let Some(ledger) = ledger {
        ledger.close().await?;
    }
    let audit = audit?;
    output.data(&audit, audit_text(&audit, output))?;
    Ok(Exit::done_if(audit.ok))
}

/// The whole audit as text.
pub(crate) fn audit_text(audit: &Audit, output: Output) -> String {
    let mut text = String::new();
    let mark = |ok| if ok { output.paint(Paint::Good, "ok  ") } else { output.paint(Paint::Bad, "FAIL") };
    for check in &audit.checks {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{} {}: {}", mark(check.ok), check.claim, check.figures);
    }
    let passed = audit.checks.iter().filter(|check| check.ok).count();
    let verdict = if audit.ok { "passed" } else { "FAILED" };
    text += &format!("Audit {verdict} ({passed} of {})\n", audit.checks.len());
    text
}
