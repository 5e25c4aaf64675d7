//! `rushgate outbox`: relays tasks from transactions of the application's database.
//!
//! The relay is a command of its own, separate from `work` and `serve`. One relay runs near the database and
//! is the only process with its credentials; workers are many and know only the store.

use std::time::Duration;

use anyhow::{Context, Result};
use rushgate::outbox::{Outbox, OutboxMetrics, OutboxRelay, OutboxReport, RefusedTask};
use rushgate::{CancellationToken, Rushgate};
use serde_json::json;
use tokio::time::sleep;

use crate::args::outbox::{LsArgs, OutboxVerb, RelayArgs, Which};
use crate::exit::Exit;
use crate::globals::Globals;
use crate::log;
use crate::output::{Output, Table};
use crate::queue::{printable, rounded};
use crate::signals::Signals;

/// Maximum length of a name in a table, in characters.
const NAME_MAX: usize = 40;
/// Interval for checking whether the outbox is empty. It doubles while no task moves, because on Postgres
/// each check takes a connection.
const EMPTY_CHECK: Duration = Duration::from_millis(100);
const EMPTY_CHECK_MAX: Duration = Duration::from_secs(5);

pub(crate) async fn run(verb: OutboxVerb, globals: &Globals) -> Result<Exit> {
    let output = globals.output;
    match verb {
        OutboxVerb::Relay(args) => {
            let telemetry = log::start(output)?;
            // Before the store, so that a mistyped URL does not create a store.
            let outbox = Outbox::open(&args.place.database).await?;
            let relayed =
                globals.with_client(async |client| relay(&client, outbox, args, output).await).await;
            telemetry.end().await;
            relayed
        }
        OutboxVerb::Stats(place) => stats(&Outbox::open(&place.database).await?, output).await,
        OutboxVerb::Ls(args) => ls(args, output).await,
        OutboxVerb::Retry(which) => {
            let n = Outbox::open(&which.place.database).await?.retry(positions(&which)).await?;
            output.line(&json!({ "retried": n }), format_args!("retried {n}"))?;
            Ok(exit(&which, n))
        }
        OutboxVerb::Delete(which) => {
            let n = Outbox::open(&which.place.database).await?.delete(positions(&which)).await?;
            output.line(&json!({ "deleted": n }), format_args!("deleted {n}"))?;
            Ok(exit(&which, n))
        }
    }
}

/// Selected positions; `None` selects all.
fn positions(which: &Which) -> Option<Vec<i64>> {
    (!which.all).then(|| which.at.clone())
}

/// Selecting all succeeds even if there are none; selecting positions fails if none exists.
fn exit(which: &Which, n: u64) -> Exit {
    Exit::done_if(which.all || n > 0)
}

async fn relay(client: &Rushgate, outbox: Outbox, args: RelayArgs, output: Output) -> Result<Exit> {
    let (shutdown, second_signal) = Signals::listen().context("cannot listen for signals")?.cancels();
    let relay = OutboxRelay::new(client, outbox.clone());
    let metrics = relay.metrics();
    output.note(format_args!("relaying {} into {}", outbox.url(), client.info().url));
    let running = relay.run(shutdown.clone());
    let emptied = async {
        let emptied = if args.until_empty { until_empty(&outbox, &metrics, &shutdown).await } else { Ok(()) };
        // Nothing is left to do, or the outbox cannot be read.
        if args.until_empty {
            shutdown.cancel();
        }
        emptied
    };
    tokio::select! {
        (_, emptied) = async { tokio::join!(running, emptied) } => emptied?,
        _ = second_signal => output.note("stopped immediately; the next relay sends unfinished tasks again"),
    }
    say(metrics.report(), output)
}

/// Waits until the outbox is empty. While the relay makes progress, no check is needed; an unreachable
/// database is waited for.
async fn until_empty(outbox: &Outbox, metrics: &OutboxMetrics, shutdown: &CancellationToken) -> Result<()> {
    let (mut before, mut pause) = (None, EMPTY_CHECK);
    while !shutdown.is_cancelled() {
        let moved = metrics.moved();
        if before.replace(moved) == Some(moved) {
            match outbox.stats().await {
                Ok(stats) if stats.waiting == 0 => break,
                Err(error) if !error.is_unavailable() => return Err(error.into()),
                _ => pause = (pause * 2).min(EMPTY_CHECK_MAX),
            }
        } else {
            pause = EMPTY_CHECK;
        }
        tokio::select! {
            () = sleep(pause) => {}
            () = shutdown.cancelled() => {}
        }
    }
    Ok(())
}

/// Prints the summary: as data in JSON, as a note in text.
fn say(report: OutboxReport, output: Output) -> Result<Exit> {
    let OutboxReport { moved, refused, outages, lag_max, .. } = report;
    if output.json {
        let lag_max_us = lag_max.as_micros() as u64;
        let summary =
            json!({ "moved": moved, "refused": refused, "outages": outages, "lag_max_us": lag_max_us });
        return output.line(&json!({ "summary": summary }), "");
    }
    output.note(format_args!(
        "{moved} moved, {refused} set aside, {outages} outages; longest wait {}",
        rounded(lag_max)
    ));
    Ok(Exit::Done)
}

async fn stats(outbox: &Outbox, output: Output) -> Result<Exit> {
    let stats = outbox.stats().await?;
    let (waiting, refused) = (stats.waiting, stats.refused);
    let view =
        json!({ "waiting": waiting, "refused": refused, "oldest_ms": stats.oldest.as_millis() as u64 });
    let oldest = match waiting {
        0 => String::new(),
        _ => format!(", the oldest for {}", rounded(stats.oldest)),
    };
    output.line(&view, format_args!("{waiting} waiting{oldest}; {refused} set aside"))
}

async fn ls(args: LsArgs, output: Output) -> Result<Exit> {
    let refused = Outbox::open(&args.place.database).await?.refused(args.after, args.n).await?;
    output.page_end(&refused, args.n, |of| &of.position, "nothing was set aside");
    let view = |of: &RefusedTask| {
        let RefusedTask { position, queue, id, bytes, why, .. } = of;
        json!({ "position": position, "queue": queue, "id": id, "bytes": bytes, "why": why })
    };
    let views: Vec<_> = refused.iter().map(view).collect();
    // A row that no queue accepts may have any name.
    let rows = refused.iter().map(|of| {
        let [queue, id] = [&of.queue, &of.id].map(|name| printable(name, NAME_MAX));
        [of.position.to_string(), queue, id, of.bytes.to_string(), of.why.clone()]
    });
    output.data(&views, Table::new(["POSITION", "QUEUE", "ID", "BYTES", "WHY"], rows))
}
