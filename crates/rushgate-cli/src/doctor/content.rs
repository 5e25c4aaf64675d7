//! Checks the content of the store: queues, locks and sales.

use std::time::Duration;

use rushgate::queue::{QueueName, QueueStats};
use rushgate::sale::{DamagedSale, HaltReason, ListedSale, SaleState, SaleStatus};
use rushgate::store::Page;
use rushgate::{Result, Rushgate};

use super::findings::Findings;
use crate::output::{counted, word};
use crate::queue::all_queues;

/// If ready tasks have waited this long and nothing is leased, the queue probably has no worker.
const UNATTENDED: Duration = Duration::from_secs(60);

/// Returns the open sales. A failed read is a finding. All reads run concurrently, because each may take long
/// to fail.
pub(super) async fn look(client: &Rushgate, findings: &mut Findings) -> Vec<SaleState> {
    let page = || Page::first(10_000);
    let (queues, locks, sales) = tokio::join!(queues(client), client.locks(page()), client.sales(page()));
    let queues = read("queues", queues, findings);
    findings.queues = queues.len();
    queues.iter().for_each(|(name, stats)| look_at_queue(name, stats, findings));
    let locks = read("locks", locks, findings);
    findings.locks_held = locks.iter().filter(|lock| !lock.holders.is_empty()).count();
    findings.locks_waited_for = locks.iter().filter(|lock| !lock.waiters.is_empty()).count();
    let listed = read("sales", sales, findings);
    findings.sales = listed.len();
    let mut sales = Vec::new();
    for sale in listed {
        match sale {
            ListedSale::Sound(sale) => sales.push(sale),
            ListedSale::Damaged(DamagedSale { id, damage }) => findings.warn(
                format!("sale {id} is damaged: {damage}"),
                format!(
                    "if keys were removed from Redis, rebuild it from its ledger with `rushgate sale rebuild {id}`; \
                     otherwise restore a backup of the store"
                ),
            ),
        }
    }
    sales.iter().for_each(|sale| look_at_sale(sale, findings));
    sales.retain(|sale| sale.status == SaleStatus::Open);
    sales
}

async fn queues(client: &Rushgate) -> Result<Vec<(QueueName, QueueStats)>> {
    let mut queues = Vec::new();
    for name in all_queues(client).await? {
        let stats = client.queue(&name)?.stats().await?;
        queues.push((name, stats));
    }
    Ok(queues)
}

fn read<T>(what: &str, answer: Result<Vec<T>>, findings: &mut Findings) -> Vec<T> {
    answer.unwrap_or_else(|error| {
        let what = format_args!("cannot read the {what}");
        findings.failed(what, &error.into(), "check the server log");
        Vec::new()
    })
}

fn look_at_queue(name: &QueueName, stats: &QueueStats, findings: &mut Findings) {
    findings.tasks += stats.ready + stats.scheduled + stats.leased + stats.blocked;
    findings.dead_letters += stats.dead;
    let waits = Duration::from_millis(stats.lag_ms);
    if stats.paused {
        findings.warn(
            format!("queue {name} is paused"),
            format!("resume it with `rushgate queue resume {name}`"),
        );
    } else if stats.leased == 0 && stats.rate_until.is_none() && waits > UNATTENDED {
        findings.warn(
            format!("queue {name} has no active worker: a task has been due for {} s", waits.as_secs()),
            format!("start a worker; `rushgate queue why {name} ID` explains one task"),
        );
    }
    if stats.dead > 0 {
        findings.warn(
            format!("queue {name} has {}", counted(stats.dead, "dead letter")),
            format!(
                "run `rushgate queue dead ls {name}` to see the errors, then `dead requeue` or `dead delete`"
            ),
        );
    }
}

fn look_at_sale(sale: &SaleState, findings: &mut Findings) {
    look_at_orders(sale, findings);
    let (id, Some(halt)) = (&sale.spec.id, sale.halted) else { return };
    let why = match halt.reason {
        HaltReason::LostWrites => "the store lost acknowledged writes".to_owned(),
        HaltReason::Operator => "an operator halted it".to_owned(),
        HaltReason::Rebuilding => "a rebuild is in progress".to_owned(),
        other => word(&other),
    };
    findings.warn(
        format!("sale {id} is halted: {why}"),
        format!("run `rushgate sale rebuild {id}` to rebuild it from the ledger"),
    );
}

fn look_at_orders(sale: &SaleState, findings: &mut Findings) {
    let (id, Some(orders)) = (&sale.spec.id, sale.orders) else { return };
    let waits = orders.behind_since.map_or(Duration::ZERO, |since| sale.now.since(since));
    let is_followed = orders.worker_until.is_some_and(|until| until > sale.now);
    if !is_followed && waits > UNATTENDED {
        findings.warn(
            format!(
                "sale {id} has no order worker: an order has waited for the ledger for {} s",
                waits.as_secs()
            ),
            format!("start one with `rushgate sale work {id}`, or a server with --orders"),
        );
    }
    if orders.failed > 0 {
        findings.warn(
            format!("sale {id} has {}", counted(orders.failed.into(), "failed order")),
            format!("run `rushgate sale orders ls {id}` to see why, then `sale orders retry {id}`"),
        );
    }
}
