//! `rushgate outbox`: tasks from transactions of the shop's own database.
//!
//! The relay is a command of its own, and not a part of `work` or `serve`: it is one process, near the database whose
//! credentials it alone needs, while workers are many and know the store only.

use std::time::Duration;

use anyhow::{Context, Result};
use rushgate::outbox::{Outbox, OutboxMetrics, OutboxRelay, OutboxReport, RefusedTask};
use rushgate::{CancellationToken, Rushgate};
use serde::Serialize;
use serde_json::json;
use tokio::time::sleep;

use crate::args::outbox::{LsArgs, OutboxVerb, RelayArgs, Which};
use crate::exit::Exit;
use crate::globals::Globals;
use crate::log;
use crate::output::{Output, Table};
use crate::queue::{printable, rounded};
use crate::signals::Signals;

/// The longest name in a table, in characters.
const NAME_MAX: usize = 40;
/// How often to look whether the outbox is empty: less and less often while nothing moves, because on Postgres a look is
/// a connection.
const EMPTY_CHECK: Duration = Duration::from_millis(100);
const EMPTY_CHECK_MAX: Duration = Duration::from_secs(5);

pub(crate) async fn run(verb: OutboxVerb, globals: &Globals) -> Result<Exit> {
    let output = globals.output();
    match verb {
        OutboxVerb::Relay(args) => {
            let telemetry = log::start(output)?;
            // Before the store, which a mistyped URL must not make.
            let outbox = Outbox::open(&args.place.url).await?;
            let relayed = globals.with_gate(async |gate| relay(&gate, outbox, args, output).await).await;
            telemetry.end().await;
            relayed
        }
        OutboxVerb::Stats(args) => stats(&Outbox::open(&args.place.url).await?, output).await,
        OutboxVerb::Ls(args) => ls(args, output).await,
        OutboxVerb::Retry(args) => {
            let which = args.which;
            let n = Outbox::open(&which.place.url).await?.retry(positions(&which)).await?;
            output.line(&json!({ "retried": n }), format_args!("put back {n}"))?;
            Ok(exit(&which, n))
        }
        OutboxVerb::Delete(args) => {
            let which = args.which;
            let n = Outbox::open(&which.place.url).await?.delete(positions(&which)).await?;
            output.line(&json!({ "deleted": n }), format_args!("deleted {n}"))?;
            Ok(exit(&which, n))
        }
    }
}

/// Of all if none is named.
fn positions(which: &Which) -> Option<Vec<i64>> {
    (!which.all).then(|| which.at.clone())
}

/// All of none is done; none of those that were named is refused.
fn exit(which: &Which, n: u64) -> Exit {
    Exit::done_if(which.all || n > 0)
}

async fn relay(gate: &Rushgate, outbox: Outbox, args: RelayArgs, output: Output) -> Result<Exit> {
    let (shutdown, second_signal) = Signals::listen().context("signals cannot be listened for")?.cancels();
    let relay = OutboxRelay::new(gate, outbox.clone());
    let metrics = relay.metrics();
    output.note(format_args!("relaying {} into {}", outbox.url(), gate.info().url));
    let running = relay.run(shutdown.clone());
    let emptied = async {
        let emptied = if args.until_empty { until_empty(&outbox, &metrics, &shutdown).await } else { Ok(()) };
        // Empty or unreadable: nothing more to do.
        if args.until_empty {
            shutdown.cancel();
        }
        emptied
    };
    tokio::select! {
        (_, emptied) = async { tokio::join!(running, emptied) } => emptied?,
        _ = second_signal => output.note("stopped at once; what was on its way is sent again by the next relay"),
    }
    say(metrics.report(), output)?;
    Ok(Exit::Done)
}

/// Waits until nothing waits. As long as the relay gets on, nobody need ask; a database that is away is waited for.
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

/// The summary: data for a program, a note for people.
fn say(report: OutboxReport, output: Output) -> Result<()> {
    let OutboxReport { moved, refused, outages, lag_max, .. } = report;
    if output.is_json() {
        let lag_max_us = lag_max.as_micros() as u64;
        let summary =
            json!({ "moved": moved, "refused": refused, "outages": outages, "lag_max_us": lag_max_us });
        return output.line(&json!({ "summary": summary }), "");
    }
    output.note(format_args!(
        "{moved} moved, {refused} set aside, {outages} outages; the longest wait was {}",
        rounded(lag_max)
    ));
    Ok(())
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
    output.line(&view, format_args!("{waiting} waiting{oldest}; {refused} set aside"))?;
    Ok(Exit::Done)
}

/// A task that was set aside, as JSON.
#[derive(Serialize)]
struct RefusedView<'a> {
    position: i64,
    queue: &'a str,
    id: &'a str,
    bytes: u64,
    why: &'a str,
}

impl<'a> From<&'a RefusedTask> for RefusedView<'a> {
    fn from(of: &'a RefusedTask) -> Self {
        Self { position: of.position, queue: &of.queue, id: &of.id, bytes: of.bytes, why: &of.why }
    }
}

async fn ls(args: LsArgs, output: Output) -> Result<Exit> {
    let refused = Outbox::open(&args.place.url).await?.refused(args.after, args.n).await?;
    if let Some(last) = refused.last().filter(|_| refused.len() == args.n as usize) {
        output.note(format_args!("there may be more; go on with --after {}", last.position));
    }
    if refused.is_empty() {
        output.remark("nothing was set aside");
    }
    let views: Vec<_> = refused.iter().map(RefusedView::from).collect();
    // Names that no queue takes may be anything.
    let rows = refused.iter().map(|of| {
        let [queue, id] = [&of.queue, &of.id].map(|name| printable(name, NAME_MAX));
        [of.position.to_string(), queue, id, of.bytes.to_string(), printable(&of.why, usize::MAX)]
    });
    output.data(&views, Table::new(["POSITION", "QUEUE", "ID", "BYTES", "WHY"], rows))?;
    Ok(Exit::Done)
}
