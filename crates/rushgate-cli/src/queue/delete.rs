//! `queue delete`: removes everything of a queue.

use anyhow::Result;
use rushgate::queue::{QueueLimits, QueueStats, Selection};
use rushgate::schedule::Schedule;
use rushgate::store::Page;
use rushgate::{Queue, Rushgate};
use serde::Serialize;

use super::bulk::{Tally, UNFINISHED, cancel_chosen};
use super::filter::{Chosen, Progress};
use crate::args::queue::{DeleteArgs, FilterArgs};
use crate::exit::{Exit, Fault};
use crate::output::{Output, counted};

/// What was deleted.
#[derive(Serialize)]
struct Deleted {
    /// Tasks removed.
    removed: u64,
    /// Running tasks, whose workers are asked to stop.
    marked: u64,
    dead: u64,
    schedules: usize,
    dry_run: bool,
}

pub(super) async fn delete(client: &Rushgate, args: DeleteArgs, output: Output) -> Result<Exit> {
    let queue = client.queue(&args.queue)?;
    let stats = queue.stats().await?;
    if stats.leased > 0 && !args.force {
        let why = format_args!("{} running in `{}`", are(stats.leased), args.queue);
        return Err(Fault::refused("leased", why)
            .hint("stop the workers of the queue, or pass --force to ask them to stop")
            .into());
    }
    let schedules = schedules(&queue).await?;
    let deleted = match args.dry_run {
        true => estimate(&stats, schedules.len()),
        false => carry_out(&queue, &stats, schedules, output).await?,
    };
    let Deleted { removed, marked, dead, schedules, .. } = deleted;
    let (would, ask) = if args.dry_run { ("would delete", "would ask") } else { ("deleted", "asked") };
    let text = format!(
        "{would} {}, {}, {}; {ask} {marked} to stop",
        counted(removed, "task"),
        counted(dead, "dead letter"),
        counted(schedules as u64, "schedule"),
    );
    output.line(&deleted, text)
}

fn are(leased: u64) -> String {
    format!("{} {}", counted(leased, "task"), if leased == 1 { "is" } else { "are" })
}

fn estimate(stats: &QueueStats, schedules: usize) -> Deleted {
    let removed = stats.ready + stats.scheduled + stats.blocked + stats.done;
    Deleted { removed, marked: stats.leased, dead: stats.dead, schedules, dry_run: true }
}

/// Schedules go first, because they enqueue tasks, and limits last, because they keep finished tasks.
async fn carry_out(
    queue: &Queue,
    stats: &QueueStats,
    schedules: Vec<Schedule>,
    output: Output,
) -> Result<Deleted> {
    for schedule in &schedules {
        queue.unschedule(&schedule.id).await?;
    }
    let filter = FilterArgs { id_prefix: None, kind: None };
    let (mut tally, mut progress) = (Tally::default(), Progress::new(output));
    for state in UNFINISHED {
        let mut chosen = Chosen::new(queue, &filter, Some(state));
        cancel_chosen(queue, &mut chosen, &mut tally, &mut progress).await?;
    }
    let dead = queue.delete_dead(Selection::All).await?;
    queue.limit(QueueLimits::default()).await?;
    queue.resume().await?;
    // A retention keeps canceled tasks too, so the finished ones were counted before.
    let (removed, marked) = (tally.removed + stats.done, tally.marked);
    Ok(Deleted { removed, marked, dead, schedules: schedules.len(), dry_run: false })
}

async fn schedules(queue: &Queue) -> Result<Vec<Schedule>> {
    Ok(Page::default().read_all(|page| queue.schedules(page), |schedule| schedule.id.as_str()).await?)
}
