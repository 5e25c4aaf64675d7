//! One action on many tasks.

use anyhow::Result;
use rushgate::queue::{Cancelled, Selection, TaskState};
use rushgate::{Error, Queue, Rushgate};
use serde::Serialize;
use tokio::task::JoinSet;

use super::filter::{Chosen, Progress};
use crate::args::queue::{CancelArgs, Which};
use crate::exit::Exit;
use crate::output::{Output, counted};

/// Maximum number of concurrent calls. Keeps a remote store busy.
const AT_ONCE: usize = 64;
/// Dead letters per call.
const STEP: usize = 1_000;
/// A task that waits for a canceled one becomes a dead letter, so those that wait are canceled first. The others follow
/// in the order in which they change their state.
pub(super) const UNFINISHED: [TaskState; 4] =
    [TaskState::Blocked, TaskState::Scheduled, TaskState::Ready, TaskState::Leased];

/// Outcome for the selected tasks.
#[derive(Default, Serialize)]
pub(super) struct Tally {
    looked: u64,
    chosen: u64,
    pub(super) removed: u64,
    /// Running tasks, whose workers are asked to stop.
    pub(super) marked: u64,
    /// Not canceled: the task ended meanwhile, or became a dead letter with one that it waited for.
    gone: u64,
    dry_run: bool,
}

pub(super) async fn cancel(client: &Rushgate, args: CancelArgs, output: Output) -> Result<Exit> {
    let queue = client.queue(&args.queue)?;
    let (mut tally, mut progress) =
        (Tally { dry_run: args.dry_run, ..Tally::default() }, Progress::new(output));
    for state in args.state.as_ref().map_or(&UNFINISHED[..], std::slice::from_ref) {
        let mut chosen = Chosen::new(&queue, &args.filter, Some(*state));
        cancel_chosen(&queue, &mut chosen, &mut tally, &mut progress).await?;
    }
    drop(progress);
    let text = match &tally {
        Tally { dry_run: true, chosen, looked, .. } => {
            format!("would cancel {chosen} of {}", counted(*looked, "task"))
        }
        Tally { removed, marked, gone: 0, .. } => format!("removed {removed}, asked {marked} to stop"),
        Tally { removed, marked, gone, .. } => format!(
            "removed {removed}, asked {marked} to stop; {gone} had ended or became a dead letter: see `queue dead ls`"
        ),
    };
    output.line(&tally, text)
}

/// Cancels the chosen tasks, or counts them for a dry run.
pub(super) async fn cancel_chosen(
    queue: &Queue,
    chosen: &mut Chosen<'_>,
    tally: &mut Tally,
    progress: &mut Progress,
) -> Result<()> {
    while let Some(tasks) = chosen.tasks().await? {
        tally.chosen += tasks.len() as u64;
        if tally.dry_run {
            continue;
        }
        for batch in tasks.chunks(AT_ONCE) {
            let ids = batch.iter().map(|info| info.task.ticket.id.as_str().to_owned());
            cancel_all(queue, ids, tally).await?;
            progress.says(|| format!("{} read, {} canceled", chosen.looked, tally.removed + tally.marked));
        }
    }
    tally.looked += chosen.looked;
    Ok(())
}

async fn cancel_all(queue: &Queue, ids: impl Iterator<Item = String>, tally: &mut Tally) -> Result<()> {
    let mut calls = JoinSet::new();
    for id in ids {
        let queue = queue.clone();
        calls.spawn(async move { queue.cancel(id).await });
    }
    while let Some(answer) = calls.join_next().await {
        match answer?? {
            Cancelled::Removed => tally.removed += 1,
            Cancelled::Marked => tally.marked += 1,
            Cancelled::NotFound => tally.gone += 1,
            other => return Err(Error::bug(format_args!("no count for the outcome {other:?}")).into()),
        }
    }
    Ok(())
}

/// Action on dead letters.
#[derive(Clone, Copy)]
pub(super) enum Dead {
    Requeue,
    Delete,
}

/// Outcome for the selected dead letters.
#[derive(Default, Serialize)]
struct DeadTally {
    looked: u64,
    chosen: u64,
    /// Requeued or deleted.
    done: u64,
    /// Not requeued: a live task has the ID, or the queue is full.
    kept: u64,
    dry_run: bool,
}

pub(super) async fn dead(client: &Rushgate, verb: Dead, which: &Which, output: Output) -> Result<Exit> {
    let queue = client.queue(&which.queue)?;
    let mut chosen = Chosen::new(&queue, &which.filter, None);
    let (mut tally, mut progress) =
        (DeadTally { dry_run: which.dry_run, ..DeadTally::default() }, Progress::new(output));
    while let Some(letters) = chosen.dead().await? {
        tally.chosen += letters.len() as u64;
        for some in letters.chunks(STEP).filter(|_| !which.dry_run) {
            let ids = Selection::Ids(some.iter().map(|letter| letter.id.clone()).collect());
            match verb {
                Dead::Requeue => {
                    let requeued = queue.requeue_dead(ids).await?;
                    tally.done += requeued.requeued;
                    tally.kept += requeued.kept;
                }
                Dead::Delete => tally.done += queue.delete_dead(ids).await?,
            }
            progress.says(|| format!("{} read, {} done", chosen.looked, tally.done));
        }
    }
    drop(progress);
    tally.looked = chosen.looked;
    let (would, did) = match verb {
        Dead::Requeue => ("requeue", "requeued"),
        Dead::Delete => ("delete", "deleted"),
    };
    let text = match which.dry_run {
        true => format!("would {would} {} of {}", tally.chosen, counted(tally.looked, "dead letter")),
        false if tally.kept > 0 => format!("{did} {}, kept {}", tally.done, tally.kept),
        false => format!("{did} {}", tally.done),
    };
    output.line(&tally, text)
}
