//! Events of a queue.

use anyhow::{Context, Result};
use rushgate::Rushgate;
use rushgate::queue::{Followed, TaskChange, TaskEvent, TaskEvents};
use rushgate::store::Page;

use super::shown::printable;
use crate::args::queue::EventsArgs;
use crate::exit::Exit;
use crate::output::{Output, moment};
use crate::signals::Signals;

/// Maximum length of an error on a line, in characters.
const ERROR_MAX: usize = 80;

pub(super) async fn events(client: &Rushgate, args: EventsArgs, output: Output) -> Result<Exit> {
    let queue = client.queue(&args.queue)?;
    let mut after = args.after.unwrap_or_default();
    if queue.stats().await?.limits.events.is_none() {
        output.warn(format_args!(
            "`{0}` keeps no events; to keep the latest 10,000, run `rushgate queue limit {0} --events 10000`",
            args.queue
        ));
    }
    loop {
        let page = queue.events(Page::after(after, TaskEvents::MAX)).await?;
        if page.last < after {
            output.warn(format_args!("event {after} does not exist; the latest is {}", page.last));
        } else if page.is_missed(after) && (args.after.is_some() || after > 0) {
            output.warn(format_args!("events before {} are no longer kept", page.first));
        }
        // Warn about events that are no longer kept only once.
        after = page.first.saturating_sub(1).max(after).min(page.last);
        for event in &page.events {
            after = event.seq;
            show(event, output)?;
        }
        if after >= page.last {
            break;
        }
    }
    if args.follow { follow(client, &args.queue, after, output).await } else { Ok(Exit::Done) }
}

/// Prints events after number `after`, until a signal comes.
async fn follow(client: &Rushgate, queue: &str, after: u64, output: Output) -> Result<Exit> {
    let mut signals = Signals::listen().context("cannot listen for signals")?;
    let mut events = client.queue(queue)?.follow().after(after);
    loop {
        tokio::select! {
            _ = signals.next() => return Ok(Exit::Done),
            next = events.next() => match next {
                Ok(Followed::Event(event)) => show(&event, output)?,
                Ok(Followed::Missed { next }) => {
                    output.warn(format_args!("this reader is too slow: events before {next} are no longer kept"));
                }
                // Keep following: the store may come back.
                Err(error) if error.is_unavailable() => output.warn(format_args!("{error}")),
                Err(error) => return Err(error.into()),
            },
        }
    }
}

fn show(event: &TaskEvent, output: Output) -> Result<()> {
    let text = format_args!("{} {} {} {}", event.seq, moment(event.at), event.id, words(&event.what));
    output.next_line(event, text)
}

fn words(what: &TaskChange) -> String {
    let short = |error: &str| printable(error, ERROR_MAX);
    match what {
        TaskChange::Added { due } => format!("added, due {}", moment(*due)),
        TaskChange::Replaced { due } => format!("replaced, due {}", moment(*due)),
        TaskChange::Claimed { attempt, worker, .. } => {
            format!("claimed by {}, attempt {attempt}", short(worker))
        }
        TaskChange::Done { attempt, .. } => format!("done, attempt {attempt}"),
        TaskChange::Discarded { attempt, .. } => format!("discarded, attempt {attempt}"),
        TaskChange::Requeued { attempt } => format!("requeued after attempt {attempt}"),
        TaskChange::Failed { attempt, due, error } => {
            format!("failed, attempt {attempt}, due again {}: {}", moment(*due), short(error))
        }
        TaskChange::Lost { attempt } => format!("lost, attempt {attempt}"),
        TaskChange::Released { attempt, due } => {
            format!("released, attempt {attempt}, due {}", moment(*due))
        }
        TaskChange::Dead { attempt, error } => format!("dead, attempt {attempt}: {}", short(error)),
        TaskChange::CancelAsked => "cancel requested".to_owned(),
        TaskChange::Cancelled => "cancelled".to_owned(),
        TaskChange::Dropped => "dropped".to_owned(),
        TaskChange::Popped => "popped".to_owned(),
        TaskChange::Deleted => "deleted".to_owned(),
        TaskChange::DeadRequeued => "dead letter requeued".to_owned(),
        TaskChange::DeadDeleted => "dead letter deleted".to_owned(),
    }
}
