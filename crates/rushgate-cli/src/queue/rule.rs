//! Pauses, resumes and limits queues.

use anyhow::Result;
use rushgate::Rushgate;
use rushgate::queue::{KeyLimits, Overflow, QueueLimits, Rate};
use serde_json::json;

use super::shown::rounded;
use crate::args::queue::{LimitArgs, OfQueue};
use crate::exit::Exit;
use crate::output::Output;

/// Pauses a queue, or resumes it.
pub(super) async fn pause(client: &Rushgate, args: OfQueue, paused: bool, output: Output) -> Result<Exit> {
    let queue = client.queue(&args.queue)?;
    if paused {
        queue.pause().await?
    } else {
        queue.resume().await?
    }
    let verb = if paused { "is paused" } else { "runs" };
    output.line(&json!({ "queue": args.queue, "paused": paused }), format_args!("{} {verb}", args.queue))
}

/// Sets the given limits, and prints all.
pub(super) async fn limit(client: &Rushgate, args: LimitArgs, output: Output) -> Result<Exit> {
    let queue = client.queue(&args.queue)?;
    let old = queue.stats().await?.limits;
    let limits = changed(old, &args);
    if limits != old {
        queue.limit(limits).await?;
    }
    output.line(&json!({ "queue": args.queue, "limits": limits }), words(&limits))
}

fn changed(old: QueueLimits, args: &LimitArgs) -> QueueLimits {
    let per_key = KeyLimits {
        concurrency: args.key_concurrency.map_or(old.per_key.concurrency, |limit| limit.0),
        rate: args.key_rate.map_or(old.per_key.rate, |limit| limit.0),
        fifo: args.fifo.unwrap_or(old.per_key.fifo),
    };
    QueueLimits {
        bound: args.bound.map_or(old.bound, |limit| limit.0),
        overflow: args.overflow.unwrap_or(old.overflow),
        concurrency: args.concurrency.map_or(old.concurrency, |limit| limit.0),
        rate: args.rate.map_or(old.rate, |limit| limit.0),
        per_key,
        retention: args.keep.map_or(old.retention, |keep| keep.0),
        events: args.events.map_or(old.events, |events| events.0),
    }
}

/// Limits that are set, or `none`.
pub(super) fn words(limits: &QueueLimits) -> String {
    let QueueLimits { bound, overflow, concurrency, rate, per_key, retention, events } = *limits;
    let in_words = |rate: Rate| format!("{} per {}", rate.n, rounded(rate.per));
    let all = [
        bound.map(|n| format!("{n} tasks")),
        concurrency.map(|n| format!("{n} at a time")),
        rate.map(in_words),
        per_key.concurrency.map(|n| format!("{n} per key at a time")),
        per_key.rate.map(|rate| format!("{} per key", in_words(rate))),
    ];
    let set: Vec<_> = all.into_iter().flatten().collect();
    let kept = retention.map(|keep| format!("keeps {} for {}", keep.count, rounded(keep.age)));
    let drops = match overflow {
        Overflow::Refuse => None,
        Overflow::DropNew => Some("drops new tasks".to_owned()),
        Overflow::DropOldest => Some("drops the oldest tasks".to_owned()),
    };
    let most = (!set.is_empty()).then(|| format!("at most {}", set.join(", ")));
    let fifo = per_key.fifo.then(|| "FIFO per key".to_owned());
    let events = events.map(|n| format!("keeps {n} events"));
    let drops = drops.filter(|_| bound.is_some());
    let all: Vec<_> = [most, fifo, drops, kept, events].into_iter().flatten().collect();
    if all.is_empty() { "none".to_owned() } else { all.join("; ") }
}
