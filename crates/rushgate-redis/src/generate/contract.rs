//! Generates `clients/contract.json`: what a client of the functions has to know and no program should write by hand.
//! `clients/generate` writes the constants of each client from it.

use rushgate_core::OnDuplicateSpec::{Debounce, Earliest, Keep, Replace};
use rushgate_core::{
    Coded, Completion, ContentType, EventKind, HaltReason, HoldState, IfDead, Kind as TaskKind,
    MAX_NAME_BYTES, NewSchedule, NewTask, Overflow, PastEnd, Payload, Priority, Receipt, Retry, SaleStatus,
    TaskEnd, TaskProgress, WorkerMode,
};
use serde_json::{Map, Value, json};

use super::groups::{KeyGroup, key_groups};
use super::header::{Argument, Header, Kind};
use super::{lua, read, reference};
use crate::function::Function;
use crate::keys::{self, Group};
use crate::library::{NAME, PROTOCOL};
use crate::queue::row;

/// Longest line of the file.
const WIDTH: usize = 200;

/// Each packed record: its name here, the file that describes it, and what precedes its fields there.
const RECORDS: [(&str, &str, &str); 15] = [
    ("dead_letter", "include/queue", "dead letter "),
    ("finished", "include/queue", "done "),
    ("hold", "include/sale", "hold "),
    ("holder", "lock/show", "lease until, "),
    ("leases_head", "include/queue", "leases "),
    ("owner", "include/lock", "owner "),
    ("past", "include/queue", "without success: "),
    ("record", "include/queue", "record "),
    ("run", "include/queue", "run "),
    ("schedule", "include/schedule", "-> "),
    ("sku", "include/sale", "sku "),
    ("units", "include/sale", "each "),
    ("waiter", "include/lock", "waiter "),
    ("waiting_head", "include/queue", "waiting "),
    ("worker", "include/worker", "-> "),
];
/// An owner, which the files describe in words.
const OWNER: &str = "pid(4) host's length(1) host label";
/// Longest field that is a number. Longer ones are IDs.
const NUMBER_MAX: u64 = 7;

/// Outcomes of functions: the words that clients use, and those of the answer where they differ.
const OUTCOMES: [(&str, &str, &str); 17] = [
    ("acquired", "lock_acquire", "granted | waiting | busy"),
    ("canceled", "queue_cancel", "not_found | removed | marked"),
    ("closed", "queue_close_batch", "not_found | closed | not_open"),
    ("completed", "queue_complete", "stale | done | requeued"),
    ("created", "sale_create", "exists = another sale | created"),
    (
        "decided",
        "sale_confirm",
        "unknown = no such reservation | done | pending = decided; the ledger \
         | refused = decided otherwise | halted = the sale is halted",
    ),
    ("dequeued", "queue_dequeue", "stale | removed | leased"),
    (
        "enqueued",
        "queue_enqueue",
        "added | kept | replaced | full | dropped | displaced = added, and the task \
         | recent = enqueued recently | refused",
    ),
    ("released", "lock_release", "not_held | released"),
    ("rescheduled", "queue_reschedule", "not_found | rescheduled | leased | too_late"),
    (
        "reserved",
        "sale_reserve_by_key",
        "reserved | replayed = idempotent replay | key_reused = the key was used | sold_out \
         | all_held = all on hold | limit_reached = purchase limit | not_open | ended \
         | no_such_sku = no such SKU | halted = retry later",
    ),
    (
        "restored",
        "sale_restore",
        "restored | known = not lost | none_left = too few units | none_left = the same, and some \
         | limit_reached = purchase limit | halted = the sale is halted \
         | expired = the hold would have",
    ),
    ("retried", "queue_retry", "stale | scheduled | dead | requeued | cancelled = canceled"),
    (
        "scheduled",
        "queue_schedule",
        "added | changed | unchanged | full = the queue has | stale = the schedule has",
    ),
    ("task_extended", "queue_extend", "lost | extended | cancelled = extended, and its"),
    ("task_released", "queue_release", "stale | waiting | cancelled = canceled"),
    ("unmet", "queue_enqueue", "unknown = the dependency | not_open = the batch | taken = a task with"),
];

/// The bits of the flags of a run, likewise.
const RUN_FLAGS: &str = "canceled | failed = failed before | leased | past = has a past | progress = has a note \
    | replaced = has a pending";

/// Numbers whose limits the argument of a function has.
const RANGES: [(&str, &str, &str); 25] = [
    ("attempts", "queue_schedule", "max attempts"),
    ("batch", "queue_claim", "how many"),
    ("bound", "queue_limit", "bound"),
    ("concurrency", "queue_limit", "concurrency"),
    ("dead_page", "queue_dead", "at most"),
    ("delay_us", "queue_retry", "delay"),
    ("events", "queue_limit", "events"),
    ("expire", "sale_expire", "at most"),
    ("hold_us", "sale_create", "hold time"),
    ("lease_us", "lock_acquire", "lease"),
    ("lines", "sale_reserve_by_key", "line"),
    ("moment_us", "queue_reschedule", "due"),
    ("per_buyer", "sale_create", "limit per buyer"),
    ("percent", "queue_extend", "percent"),
    ("period_us", "queue_limit", "time"),
    ("priority", "queue_schedule", "priority"),
    ("quantity", "sale_reserve_by_key", "quantity"),
    ("rate", "queue_limit", "rate"),
    ("retained", "queue_limit", "count kept"),
    ("schedules_page", "queue_schedules", "limit"),
    ("skus", "sale_create", "SKU"),
    ("units", "sale_create", "units"),
    ("wait_us", "lock_acquire", "wait"),
    ("waited_page", "queue_waited", "at most"),
    ("workers_page", "queue_workers", "limit"),
];

pub(super) fn contract() -> String {
    let functions: Map<_, _> =
        Function::ALL.iter().map(|of| (of.bare_name().to_owned(), function(&of.header()))).collect();
    let (layouts, sizes) = layouts();
    let (inbox, queue) = (keys::inbox(0), reference::description("queue"));
    let final_states: Vec<_> = HoldState::ALL.iter().filter(|state| state.is_final()).collect();
    let contract = json!({
        "protocol": PROTOCOL,
        "library": NAME,
        // A key is `rg:{TAG:NAME}:ENDING`. Clients read the keys of leases and of waiting tasks without a function.
        "names": {
            "again_status": "AGAIN",
            "bytes_type": ContentType::bytes().as_str(),
            "inbox_prefix": inbox.trim_end_matches('0'),
            "json_type": ContentType::json().as_str(),
            "key_prefix": "rg:",
            "leases_key": "leases",
            "missing_status": "MISSING",
            "receipt_domain": Receipt::DOMAIN,
            "receipt_prefix": Receipt::PREFIX,
            "waiting_key": "waiting",
        },
        // First bytes of notifications, as `inbox` reads them.
        "notifications": { "events": "E", "finished": "T", "granted": "A", "revoked": "R", "sale": "S", "tasks": "Q" },
        // First bytes of a body of these types, and the percentage of a progress without one.
        "values": { "bytes_code": 0, "json_code": 255, "no_percent": number(&queue, "for none") },
        "ids": {
            "client": size("lock_release_all", "client"),
            "inbox": size("lock_acquire", "inbox"),
            "op": size("queue_cancel", "op"),
            "reservation": size("sale_reservation", "reservation"),
            "secret": size("sale_open", "secret"),
            "token": size("lock_extend", "token"),
        },
        "directories": { "queue": keys::QUEUES, "sale": keys::SALES },
        "groups": groups(),
        // The fields of fixed size with which each packed record begins, and the sizes of those that follow.
        "layouts": layouts,
        "sizes": sizes,
        // The words of each number.
        "codes": {
            "event_kind": EventKind::ALL,
            "final_state": final_states,
            "halt_reason": HaltReason::ALL,
            "hold_state": HoldState::ALL,
            "if_dead": IfDead::ALL,
            "on_duplicate": [Keep, Replace, Earliest, Debounce],
            "overflow": Overflow::ALL,
            "past_end": PastEnd::ALL,
            "sale_status": SaleStatus::ALL,
            "task_end": TaskEnd::ALL,
            "worker_mode": WorkerMode::ALL,
        },
        "outcomes": OUTCOMES.map(|(name, function, words)| (name.to_owned(), outcomes(function, words))).into_iter().collect::<Map<_, _>>(),
        "run_flags": run_flags(&queue),
        "priority_flags": { "at_once": row::AT_ONCE, "deadline": row::DATED, "keyed": row::KEYED, "past": row::PAST_BEFORE, "waits": row::HELD },
        "invisible": invisible(),
        "bytes": {
            "content_type": MAX_NAME_BYTES,
            "error": Retry::ERROR_MAX,
            "kind": TaskKind::MAX_BYTES,
            "label": TaskProgress::NOTE_MAX,
            "name": MAX_NAME_BYTES,
            "payload": Payload::MAX_BYTES,
            "recurrence": NewSchedule::RECURRENCE_MAX,
            "result": Completion::RESULT_MAX,
            "schedule_id": NewSchedule::ID_MAX,
        },
        "limits": limits(),
        "defaults": { "attempts": NewTask::MAX_ATTEMPTS, "priority": Priority::default() },
        "functions": functions,
    });
    let mut text = String::new();
    write(&contract, 0, &mut text);
    text + "\n"
}

/// Writes a value on one line if there is room.
fn write(value: &Value, indent: usize, text: &mut String) {
    let line = value.to_string().replace("\":", "\": ").replace(",\"", ", \"").replace("],[", "], [");
    let Value::Object(fields) = value else { return text.push_str(&line) };
    let used = text.len() - text.rfind('\n').map_or(0, |at| at + 1);
    if used + line.len() < WIDTH && indent > 0 {
        return text.push_str(&line);
    }
    text.push('{');
    for (at, (name, field)) in fields.iter().enumerate() {
        let comma = if at > 0 { "," } else { "" };
        text.push_str(&format!("{comma}\n{:1$}\"{name}\": ", "", indent + 2));
        write(field, indent + 2, text);
    }
    text.push_str(&format!("\n{:indent$}}}", ""));
}

/// The layouts of the packed records, and the sizes of the fields that follow them. A size has the name of its field, or
/// also that of the record if it differs between records.
fn layouts() -> (Value, Value) {
    let (mut layouts, mut sizes) = (Map::new(), Vec::new());
    for (name, file, before) in RECORDS {
        let file = read(&lua(format!("{file}.lua")));
        let text = if name == "owner" { OWNER.to_owned() } else { record(&file, before) };
        let (fixed, more): (Vec<_>, Vec<_>) = fields(&text).into_iter().partition(|field| field.is_fixed);
        let fixed: Vec<_> = fixed.iter().map(|field| json!([field.name, field.size])).collect();
        layouts.insert(name.to_owned(), fixed.into());
        sizes.extend(more.into_iter().map(|field| (name, field.name, field.size)));
    }
    let differs = |field: &str, size| sizes.iter().any(|(_, other, of)| other == field && *of != size);
    let named = sizes.iter().map(|(name, field, size)| {
        let field = if differs(field, *size) { format!("{name}_{field}") } else { field.clone() };
        (field, json!(size))
    });
    (layouts.into(), named.collect::<Map<_, _>>().into())
}

/// The description of a packed record: from the first field with a size to the sentences that follow.
fn record(file: &str, before: &str) -> String {
    let lines: Vec<_> = file.lines().map_while(|line| line.strip_prefix("--")).collect();
    let starts = |line: &str| {
        let (_, rest) = line.split_once(before)?;
        let name = rest.trim_start().split_once('(')?.0;
        name.chars().all(|c| c.is_ascii_lowercase() || c == ' ').then(|| rest.trim_start().to_owned())
    };
    let found = lines.iter().enumerate().find_map(|(at, line)| Some((at, starts(line)?)));
    let (at, mut text) = found.unwrap_or_else(|| panic!("no record follows `{before}`"));
    for line in lines[at + 1..].iter().take_while(|line| line.starts_with("      ")) {
        text = format!("{text} {}", line.trim_start());
    }
    let end = [": ", ". ", " -> "].iter().filter_map(|end| text.find(end)).min();
    text.truncate(end.unwrap_or(text.len()));
    text
}

/// A number of a packed record.
struct Field {
    name: String,
    size: u64,
    /// Whether only fields of fixed size precede it.
    is_fixed: bool,
}

/// The fields that have a size.
fn fields(text: &str) -> Vec<Field> {
    let (mut fields, mut is_fixed) = (Vec::new(), true);
    for (at, _) in text.match_indices('(') {
        let Some((size, after)) = text[at + 1..].split_once(')') else { continue };
        let Ok(size) = size.parse::<u64>() else { continue };
        let before = text[..at].rsplit([')', '[', ']']).next().unwrap_or_default().trim();
        // Of `lines' length` and `buyer's length`, the buyer follows its length at once.
        let owner = before.strip_suffix(" length").map(|of| of.trim_end_matches('s').trim_end_matches('\''));
        let owner = owner.and_then(|of| of.rsplit(' ').next());
        let is_sized = owner.is_some_and(|of| after.trim_start().starts_with(&format!("{of} ")));
        is_fixed &= !text[..at].contains('[') && !is_sized && size <= NUMBER_MAX;
        let name = owner.map_or_else(|| before.replace(' ', "_"), |of| format!("{of}_length"));
        if size <= NUMBER_MAX {
            fields.push(Field { name, size, is_fixed });
        }
    }
    fields
}

/// The number that a text has for a phrase: the one before it, or the first of its line.
fn number(text: &str, phrase: &str) -> usize {
    let whole = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let before = whole.match_indices(phrase).find_map(|(at, _)| {
        let word = whole[..at].strip_suffix(' ')?.rsplit(' ').next()?;
        word.trim_end_matches(':').parse().ok()
    });
    let first = || {
        let line = text.lines().find(|line| line.contains(&format!("  {phrase}")))?;
        line.trim_start_matches([' ', '-', '{']).split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    before.or_else(first).unwrap_or_else(|| panic!("`{phrase}` has no number in {text}"))
}

/// Words with their numbers in a text.
fn numbered(text: &str, words: &'static str) -> impl Iterator<Item = (&'static str, usize)> {
    words.split(" | ").map(|word| {
        let (word, phrase) = word.split_once(" = ").unwrap_or((word, word));
        (word, number(text, &phrase.replace('_', " ")))
    })
}

/// Words by their numbers. A number without a meaning has an empty word.
fn outcomes(function: &str, words: &'static str) -> Value {
    let of = named(function);
    let answer = of.file().split("\n--\n").nth(2).unwrap_or_else(|| panic!("{function} has no answer"));
    let mut outcomes = Vec::new();
    for (word, at) in numbered(answer, words) {
        outcomes.resize(outcomes.len().max(at + 1), "");
        outcomes[at] = word;
    }
    outcomes.into()
}

fn run_flags(queue: &str) -> Value {
    let (_, flags) = queue.split_once("  flags: ").expect("the flags of a run");
    numbered(flags, RUN_FLAGS).map(|(word, bit)| (word.to_owned(), json!(bit))).collect::<Map<_, _>>().into()
}

/// First and last of each range of characters that a name may not contain because they are invisible.
fn invisible() -> Value {
    let library = read(&lua("library.lua"));
    let (_, list) = library.split_once("local INVISIBLE = {").expect("the invisible characters");
    let (list, _) = list.split_once('}').expect("an end");
    let codes: Vec<u32> = list.split(',').filter_map(|code| code.trim().parse().ok()).collect();
    codes.chunks(2).map(|range| json!(range)).collect()
}

fn named(function: &str) -> Function {
    let of = Function::ALL.iter().find(|of| of.bare_name() == function);
    *of.unwrap_or_else(|| panic!("there is no function {function}"))
}

/// The smallest and the largest value of each number.
fn limits() -> Value {
    let limits =
        RANGES.iter().map(|(name, function, argument)| ((*name).to_owned(), range(function, argument)));
    limits
        .chain([("after".to_owned(), json!({ "min": 0, "max": NewTask::AFTER_MAX }))])
        .collect::<Map<_, _>>()
        .into()
}

/// Limits of an argument, or of the number of items.
fn range(function: &str, argument: &str) -> Value {
    let header = named(function).header();
    if let Some(each) = header.each.as_ref().filter(|each| each.what == argument) {
        return json!({ "min": each.least, "max": each.most });
    }
    let Kind::Whole(min, max) = kind(&header, argument) else {
        panic!("{argument} of {function} is no number")
    };
    let [min, max]: [u64; 2] = [min, max].map(|limit| limit.parse().expect("a number"));
    json!({ "min": min, "max": max })
}

/// The length of an argument that is an ID, in bytes.
fn size(function: &str, argument: &str) -> i64 {
    let header = named(function).header();
    let Kind::Bytes(size, _) = kind(&header, argument) else { panic!("{argument} of {function} is no ID") };
    *size
}

fn kind<'a>(header: &'a Header<'_>, argument: &str) -> &'a Kind<'a> {
    let each = header.each.iter().flat_map(|each| &each.parts);
    let found = header.arguments.iter().chain(each).find(|of| of.name == argument);
    &found.unwrap_or_else(|| panic!("there is no argument {argument}")).kind
}

/// The endings of the keys of each group. A key is `rg:{TAG:NAME}:ENDING`, in the replay cache with `:CLIENT` behind it.
fn groups() -> Value {
    let tag = |keys: &Group| char::from(keys.first()["rg:{".len()]).to_string();
    let of = |KeyGroup { name, keys, .. }| (name, json!({ "tag": tag(&keys), "endings": keys.endings() }));
    key_groups().into_iter().map(of).collect()
}

fn function(header: &Header<'_>) -> Value {
    let groups: Vec<_> = header.keys.iter().map(|keys| keys.group).collect();
    let names = |of: &[Argument<'_>]| of.iter().map(|of| of.name.to_owned()).collect::<Vec<_>>();
    let mut function =
        json!({ "groups": groups, "arguments": names(&header.arguments), "flags": header.flags });
    if let Some(each) = &header.each {
        function["each"] =
            json!({ "of": each.what, "min": each.least, "max": each.most, "arguments": names(&each.parts) });
    }
    function
}
