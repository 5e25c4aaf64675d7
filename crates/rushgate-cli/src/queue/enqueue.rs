//! `queue enqueue`: enqueues tasks.

use std::io::Read;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use rushgate::queue::{ContentType, Kind, OnDuplicate, Payload, TaskId, Unmet};
use rushgate::{Enqueued, Error, Rushgate};
use serde::Serialize;

use crate::args::queue::{ContentArgs, EnqueueArgs};
use crate::exit::{Exit, Fault};
use crate::output::{Output, moment, word};

pub(super) async fn enqueue(client: &Rushgate, args: EnqueueArgs, output: Output) -> Result<Exit> {
    let queue = client.queue(&args.queue)?;
    if let Some(id) = &args.id {
        let refused =
            |error: Error| error.hint("the second argument is the ID; pass the payload with --payload");
        TaskId::new(id).map_err(refused)?;
    }
    let made = args.id.is_none().then(new_id);
    let mut task = queue
        .enqueue(args.id.as_ref().or(made.as_ref()).map_or("", String::as_str), payload(&args.content)?)
        .priority(args.priority)
        .max_attempts(args.max_attempts)
        .on_duplicate(on_duplicate(&args));
    if let Some(key) = &args.key {
        task = task.key(key);
    }
    if let Some(delay) = args.delay {
        task = task.delay(delay);
    }
    if let Some(at) = args.at {
        task = task.at(at);
    }
    if let Some(time) = args.deadline {
        task = task.deadline(time);
    }
    if let Some(at) = args.deadline_at {
        task = task.deadline_at(at);
    }
    if let Some(period) = args.unique_for {
        task = task.unique_for(period);
    }
    if !args.after.is_empty() {
        task = task.after(&args.after);
    }
    if args.open {
        task = task.held_open();
    }
    if let Some(whole) = &args.part_of {
        task = task.part_of(whole);
    }
    let answer = task.if_dead(args.if_dead).send().await?;
    let text = match &made {
        Some(id) if answer.is_in() => format!("{}, ID {id}", words(&answer)),
        _ => words(&answer),
    };
    output.line(&Answered { id: made.as_deref(), answer: &answer }, text)?;
    Ok(Exit::done_if(!matches!(answer, Enqueued::Full { .. } | Enqueued::Refused { .. })))
}

/// The outcome, with the ID if the command made it.
#[derive(Serialize)]
struct Answered<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(flatten)]
    answer: &'a Enqueued,
}

/// A new ID, in the order of time.
fn new_id() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{:012x}-{:016x}", since.as_millis(), rand::random::<u64>())
}

pub(super) fn words(answer: &Enqueued) -> String {
    match answer {
        Enqueued::Added { revision } => format!("added revision {}", revision.as_u64()),
        Enqueued::Kept { revision } => format!("kept revision {}", revision.as_u64()),
        Enqueued::Replaced { revision } => format!("replaced revision {}", revision.as_u64()),
        Enqueued::Displaced { revision, dropped } => {
            format!("added revision {}, dropped {dropped}", revision.as_u64())
        }
        Enqueued::Dropped { bound } => format!("dropped capacity {bound}"),
        Enqueued::Full { bound } => format!("full capacity {bound}"),
        Enqueued::Recent { until } => format!("recent until {}", moment(*until)),
        Enqueued::Refused { task, why } => {
            let why = match why {
                Unmet::Unknown => "does not exist".to_owned(),
                Unmet::NotOpen => "is not an open batch".to_owned(),
                Unmet::Taken => "is already taken".to_owned(),
                other => word(other),
            };
            format!("refused: {task} {why}")
        }
        other => word(other),
    }
}

fn on_duplicate(args: &EnqueueArgs) -> OnDuplicate {
    match args.debounce {
        Some(max_wait) => OnDuplicate::Debounce { max_wait },
        None if args.replace => OnDuplicate::Replace,
        None if args.earliest => OnDuplicate::Earliest,
        None => OnDuplicate::Keep,
    }
}

pub(super) fn payload(args: &ContentArgs) -> Result<Payload> {
    let bytes = match (&args.payload, &args.payload_file) {
        (Some(text), _) if text != "-" => text.clone().into_bytes(),
        (_, Some(file)) if file != Path::new("-") => {
            read(&mut std::fs::File::open(file).map_err(|error| unreadable(file, &error))?, file)?
        }
        (None, None) => return of_kind(Payload::empty(), args),
        _ => read(&mut std::io::stdin().lock(), Path::new("stdin"))?,
    };
    of_kind(content(bytes, &args.content_type)?, args)
}

/// A payload of this type. JSON is validated.
pub(super) fn content(bytes: Vec<u8>, content_type: &str) -> Result<Payload> {
    let content_type = ContentType::new(content_type)?;
    if content_type.is_json() && bytes.len() <= Payload::MAX_BYTES {
        serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).map_err(|error| {
            Fault::usage(format_args!("the payload is not JSON: {error}"))
                .hint("pass its type, such as --content-type text/plain")
        })?;
    }
    Ok(Payload::new(content_type, bytes)?)
}

fn of_kind(payload: Payload, args: &ContentArgs) -> Result<Payload> {
    Ok(match &args.kind {
        Some(kind) => payload.with_kind(&Kind::new(kind)?)?,
        None => payload,
    })
}

/// Reads up to one byte beyond the limit, which is enough to detect that the content is too large.
fn read(from: &mut dyn Read, name: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = Payload::MAX_BYTES as u64 + 1;
    from.take(most).read_to_end(&mut bytes).map_err(|error| unreadable(name, &error))?;
    if bytes.len() > Payload::MAX_BYTES {
        let why = format_args!("the payload exceeds the maximum of {} bytes", Payload::MAX_BYTES);
        return Err(Fault::usage(why)
            .hint("store the content elsewhere and enqueue a reference to it")
            .into());
    }
    Ok(bytes)
}

fn unreadable(name: &Path, error: &std::io::Error) -> Fault {
    Fault::usage(format_args!("cannot read the payload from `{}`: {error}", name.display()))
}
