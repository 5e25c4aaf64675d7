//! Exports a queue as lines of JSON, and imports them.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use anyhow::Result;
use rushgate::queue::NewTask;
use rushgate::wire::TaskSpec;
use rushgate::{Enqueued, Error, Queue, Rushgate};
use serde::Serialize;

use super::filter::{Chosen, Progress};
use crate::args::queue::{ExportArgs, ImportArgs};
use crate::exit::{Exit, Fault};
use crate::output::{Output, counted};

/// Tasks per call.
const BATCH: usize = 500;
/// Maximum length of a line. A line with the largest content, fully escaped, is shorter.
const LINE_MAX: u64 = 8 << 20;

pub(super) async fn export(client: &Rushgate, args: ExportArgs, output: Output) -> Result<Exit> {
    let queue = client.queue(&args.queue)?;
    let mut chosen = Chosen::new(&queue, &args.filter, args.state);
    let (mut written, mut left_out, mut progress) = (0, 0, Progress::new(output));
    loop {
        let lines: Vec<TaskSpec> = match args.dead {
            true => match chosen.dead().await? {
                Some(letters) => letters.iter().map(TaskSpec::from).collect(),
                None => break,
            },
            false => match chosen.tasks().await? {
                Some(tasks) => {
                    left_out += tasks.iter().filter(|info| info.waits).count() as u64;
                    tasks.iter().filter(|info| !info.waits).map(TaskSpec::from).collect()
                }
                None => break,
            },
        };
        written += lines.len() as u64;
        let text =
            lines.iter().map(|line| Ok(serde_json::to_string(line)? + "\n")).collect::<Result<String>>()?;
        output.text(text)?;
        progress.says(|| format!("{} read, {written} written", chosen.looked));
    }
    drop(progress);
    output.note(format_args!("{} written", counted(written, "task")));
    if left_out > 0 {
        // The target queue may not have the tasks that they wait for.
        output.note(format_args!("{} skipped: they have dependencies", counted(left_out, "task")));
    }
    Ok(Exit::Done)
}

fn parse(line: &[u8]) -> Result<NewTask> {
    let task = NewTask::try_from(serde_json::from_slice::<TaskSpec>(line)?)?;
    task.check()?;
    Ok(task)
}

/// Totals of an import.
#[derive(Default, Serialize)]
struct Tally {
    lines: u64,
    added: u64,
    kept: u64,
    /// Dropped by a queue at capacity.
    #[serde(skip_serializing_if = "Option::is_none")]
    dropped: Option<u64>,
    /// Past their deadlines.
    #[serde(skip_serializing_if = "Option::is_none")]
    late: Option<u64>,
    /// Within their uniqueness window.
    #[serde(skip_serializing_if = "Option::is_none")]
    recent: Option<u64>,
}

pub(super) async fn import(client: &Rushgate, args: ImportArgs, output: Output) -> Result<Exit> {
    let queue = client.queue(&args.queue)?;
    let mut import =
        Import { queue, tally: Tally::default(), waiting: Vec::new(), progress: Progress::new(output) };
    let ended = match args.file.as_path() {
        file if file == Path::new("-") => import.all(std::io::stdin().lock()).await,
        file => match File::open(file) {
            Ok(file) => import.all(BufReader::new(file)).await,
            Err(error) => Err(Fault::usage(format_args!("cannot read `{}`: {error}", file.display())).into()),
        },
    };
    let Import { tally, progress, .. } = import;
    drop(progress);
    let dropped = tally.dropped.map(|n| format!(", dropped {n}")).unwrap_or_default();
    let late = tally.late.map(|n| format!(", skipped {n} past their deadlines")).unwrap_or_default();
    let recent = tally.recent.map(|n| format!(", skipped {n} within uniqueness windows")).unwrap_or_default();
    let Tally { added, kept, .. } = tally;
    output.line(&tally, format_args!("added {added}, kept {kept} existing{dropped}{late}{recent}"))?;
    ended.map(|()| Exit::Done)
}

/// A running import.
struct Import {
    queue: Queue,
    tally: Tally,
    waiting: Vec<NewTask>,
    progress: Progress,
}

impl Import {
    /// Imports all lines. Everything before an unreadable line is enqueued.
    async fn all(&mut self, mut from: impl BufRead) -> Result<()> {
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            let read = (&mut from).take(LINE_MAX).read_until(b'\n', &mut line);
            let task = match read {
                Ok(0) => break,
                Ok(_) if line.trim_ascii().is_empty() => continue,
                Ok(_) => parse(&line),
                Err(error) => Err(error.into()),
            };
            match task {
                Ok(task) => self.waiting.push(task),
                Err(error) => {
                    self.enqueue_waiting().await?;
                    return Err(Fault::usage(format_args!("line {number}: {error}"))
                        .hint("fix this line and import again; earlier lines were imported, and live tasks are skipped")
                        .into());
                }
            }
            if self.waiting.len() == BATCH {
                self.enqueue_waiting().await?;
            }
        }
        self.enqueue_waiting().await
    }

    async fn enqueue_waiting(&mut self) -> Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let waiting = std::mem::take(&mut self.waiting);
        match self.queue.enqueue_all(waiting.clone()).await {
            Ok(answers) => self.count(answers),
            // A task past its deadline by the store's clock fails its whole batch, and nothing was enqueued:
            // send the tasks singly.
            Err(error) if error.is_invalid() && waiting.iter().any(|task| task.deadline.is_some()) => {
                for task in waiting {
                    let has_deadline = task.deadline.is_some();
                    match self.queue.enqueue_all(vec![task]).await {
                        Ok(answers) => self.count(answers)?,
                        Err(error) if error.is_invalid() && has_deadline => {
                            *self.tally.late.get_or_insert(0) += 1;
                        }
                        Err(error) => return Err(error.into()),
                    }
                }
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn count(&mut self, answers: Vec<Enqueued>) -> Result<()> {
        for answer in answers {
            match answer {
                Enqueued::Added { .. } | Enqueued::Displaced { .. } => self.tally.added += 1,
                Enqueued::Dropped { .. } => *self.tally.dropped.get_or_insert(0) += 1,
                Enqueued::Recent { .. } => *self.tally.recent.get_or_insert(0) += 1,
                Enqueued::Kept { .. } | Enqueued::Replaced { .. } => self.tally.kept += 1,
                // Imported tasks have no dependencies, so this should not happen.
                Enqueued::Refused { task, .. } => {
                    return Err(Fault::refused(
                        "refused",
                        format_args!("{task} conflicts with an existing task"),
                    )
                    .into());
                }
                Enqueued::Full { bound } => {
                    let after = self.tally.added + self.tally.kept;
                    return Err(Fault::refused(
                        "full",
                        format_args!("the queue is full at {bound} tasks, after {}", counted(after, "task")),
                    )
                    .hint("import again when the queue has room; live tasks are skipped")
                    .into());
                }
                other => return Err(Error::bug(format_args!("no count for the outcome {other:?}")).into()),
            }
            self.tally.lines += 1;
        }
        let Tally { lines, added, .. } = self.tally;
        self.progress.says(|| format!("{lines} read, {added} added"));
        Ok(())
    }
}
