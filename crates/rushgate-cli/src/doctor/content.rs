//! What is in the store: queues, locks and sales.

use std::time::Duration;

use anyhow::Result;
use rushgate::{Page, PauseReason, QueueName, QueueStats, Rushgate, SaleState, SaleStatus};

use super::Findings;
use crate::output::counted;

/// Tasks that have been due for longer, with nobody at work, wait for a worker that does not come.
const UNATTENDED: Duration = Duration::from_secs(60);

/// Gives the sales that are open.
pub(super) async fn look(gate: &Rushgate, findings: &mut Findings) -> Result<Vec<SaleState>> {
    let queues = gate.queues().await?;
    findings.queues = queues.len();
    for name in &queues {
        let stats = gate.queue(name)?.stats().await?;
        look_at_queue(name, &stats, findings);
    }
    let page = || Page { limit: 10_000, ..Page::default() };
    let locks = gate.locks(page()).await?;
    findings.locks_held = locks.iter().filter(|lock| !lock.holders.is_empty()).count();
    findings.locks_waited_for = locks.iter().filter(|lock| !lock.waiters.is_empty()).count();
    let mut sales = gate.sales(page()).await?;
    findings.sales = sales.len();
    sales.iter().for_each(|sale| look_at_sale(sale, findings));
    sales.retain(|sale| sale.status == SaleStatus::Open);
    Ok(sales)
}

fn look_at_queue(name: &QueueName, stats: &QueueStats, findings: &mut Findings) {
    findings.tasks += stats.ready + stats.scheduled + stats.leased + stats.blocked;
    findings.dead_letters += stats.dead;
    let waits = Duration::from_micros(stats.oldest_due_us);
    if stats.paused {
        findings.warn(format!("queue {name} is paused"), format!("`rushgate queue resume {name}`"));
    } else if stats.leased == 0 && stats.rate_until.is_none() && waits > UNATTENDED {
        findings.warn(
            format!("nobody works on queue {name}: a task has been due for {} s", waits.as_secs()),
            format!("start a worker; `rushgate queue why {name} ID` tells of one task"),
        );
    }
    if stats.dead > 0 {
        findings.warn(
            format!("queue {name} has {}", counted(stats.dead, "dead letter")),
            format!("`rushgate queue dead ls {name}` says why; `dead retry` and `dead delete` end them"),
        );
    }
}

fn look_at_sale(sale: &SaleState, findings: &mut Findings) {
    let (id, Some(pause)) = (&sale.spec.id, sale.paused) else { return };
    let why = match pause.reason {
        PauseReason::LostWrites => "the store lost writes that it had acknowledged",
        PauseReason::Operator => "an operator said so",
        PauseReason::Rebuilding => "it is being rebuilt",
    };
    findings.warn(
        format!("sale {id} is stopped: {why}"),
        format!("`rushgate sale rebuild {id}` goes on from what the ledger knows"),
    );
}
