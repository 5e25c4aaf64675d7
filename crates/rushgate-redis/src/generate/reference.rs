//! Generates the parts of `docs/protocol.md`, `docs/protocol` and `docs/internals` that follow from the Lua files.

use std::fmt::Write as _;

use rushgate_core::{Coded, EventKind, HoldState};
use serde::Serialize;
use serde_json::json;

use super::groups::{KeyGroup, key_groups};
use super::header::NAMED;
use super::include;
use crate::function::Function;
use crate::keys;

/// Called by Rushgate's own services, and by programs with a ledger of their own. Clients do not need them.
const FOR_SERVICES: [Function; 11] = [
    Function::QueueRelay,
    Function::SaleBeginRebuild,
    Function::SaleCountAttempts,
    Function::SaleFailedOrders,
    Function::SaleFollowOrders,
    Function::SaleHalt,
    Function::SaleLoadOrders,
    Function::SaleLoadUnits,
    Function::SaleRetryOrders,
    Function::SaleSettle,
    Function::SaleSwitch,
];
/// In the description of keys, separates what a client needs from the rest.
const INTERNALS: &str = "\ninternals:\n";

/// Each generated part: its page in `docs`, its marker there, and its text.
pub(super) fn parts() -> Vec<(&'static str, &'static str, String)> {
    vec![
        ("protocol.md", "kinds", kinds()),
        ("protocol.md", "version function", of_area("version")),
        ("protocol/keys.md", "keys", all_keys()),
        ("protocol/locks.md", "lock functions", of_area("lock_")),
        ("protocol/queues.md", "queue functions", of_area("queue_")),
        ("protocol/sales.md", "states", states()),
        ("protocol/sales.md", "sale functions", of_area("sale_")),
        ("protocol/rooms.md", "room functions", of_area("room_")),
        ("internals/redis-reference.md", "records", internals()),
        ("internals/redis-reference.md", "functions", functions(FOR_SERVICES)),
    ]
}

/// The groups of keys that have sections, in the order of these.
pub(super) fn sections() -> impl Iterator<Item = KeyGroup> {
    let order = ["lock", "queue", "answers", "schedules", "workers", "unique", "sale", "attempts", "room"];
    order.into_iter().filter_map(|name| key_groups().into_iter().find(|group| group.name == name))
}

fn all_keys() -> String {
    let mut text = String::new();
    for KeyGroup { title, piece, keys, .. } in sections() {
        let first = String::from_utf8(keys.first()).expect("a key of this group is text");
        let pattern = first.replace(keys.endings()[0], "END").replace(&format!("{:016x}", 0), "CLIENT");
        let description = description(piece);
        let public = description.split_once(INTERNALS).map_or(&*description, |(public, _)| public);
        let public = public.trim_end();
        let _ = writeln!(text, "## The {title}\n\nKeys: `{pattern}`\n\n```text\n{public}\n```\n");
    }
    let _ = writeln!(text, "## The directories\n\nKeys: `{}`, `{}`", keys::QUEUES, keys::SALES);
    text
}

fn internals() -> String {
    let mut text = String::new();
    for KeyGroup { title, piece, .. } in sections() {
        if let Some((_, internals)) = description(piece).split_once(INTERNALS) {
            let _ = writeln!(text, "### The {title}\n\n```text\n{}\n```\n", internals.trim_end());
        }
    }
    text
}

/// What a shared piece says about its keys.
pub(super) fn description(piece: &str) -> String {
    comment(include(piece))
}

/// The comment with which a file begins.
fn comment(file: &str) -> String {
    let lines = file.lines().take_while(|line| !line.starts_with("-- include: "));
    let lines = lines.map_while(|line| line.strip_prefix("--"));
    lines.map(|line| line.strip_prefix(' ').unwrap_or(line).to_owned() + "\n").collect()
}

fn kinds() -> String {
    let mut text = "| kind | valid values |\n|---|---|\n".to_owned();
    for (kind, _, words) in NAMED {
        // What takes more than a sentence has a section of its own. An error has room for the sentence alone.
        let words = match kind {
            "terms" => "[the terms of a task](protocol/queues.md#terms)",
            "specification" => "[the specification of a sale](protocol/sales.md#a-sales-specification)",
            "cart" => "[a cart](protocol/sales.md#carts)",
            _ => words,
        };
        let _ = writeln!(text, "| {kind} | {words} |");
    }
    text
}

fn states() -> String {
    let (states, kinds) = (numbered(HoldState::ALL), numbered(EventKind::ALL));
    format!("States of a hold: {states}.\n\nKinds of events: {kinds}.\n")
}

/// Names with their packed numbers.
fn numbered<T: Serialize>(all: &[T]) -> String {
    let words = all.iter().enumerate().map(|(at, word)| format!("{at} {}", json!(word)).replace('"', ""));
    words.collect::<Vec<_>>().join(", ")
}

/// The functions of one area that clients call, in order of their names.
fn of_area(begin: &str) -> String {
    let found = Function::ALL.iter().copied().filter(|of| of.bare_name().starts_with(begin));
    let mut found: Vec<_> = found.filter(|of| !FOR_SERVICES.contains(of)).collect();
    found.sort_by_key(|of| of.name());
    functions(found)
}

fn functions(all: impl IntoIterator<Item = Function>) -> String {
    all.into_iter().map(function).collect()
}

/// The header of a function, without the numbers of keys and arguments: most callers pass the first key of each group.
fn function(of: Function) -> String {
    let (header, parsed) = (comment(of.file()), of.header());
    let (story, rest) = header.trim_end().split_once("\n\n").expect("a header has a contract");
    let rest = rest.split("\n\nflags: ").next().unwrap_or_default();
    let (inputs, answer) = rest.split_once("\n\n").unwrap_or(("", rest));
    let (keys, arguments): (Vec<_>, Vec<_>) = inputs.lines().partition(|line| line.starts_with("KEYS"));
    let keys = match &keys[..] {
        [] => "none".to_owned(),
        keys => keys.iter().map(|line| without_number(line)).collect::<Vec<_>>().join("; "),
    };
    let flags = parsed.flags.iter().map(|flag| format!(" Flag: `{flag}`.")).collect::<String>();
    let mut arguments: String = arguments.iter().map(|line| without_number(line) + "\n").collect();
    if let Some(full) = Function::ALL.iter().find(|full| full.when_full() == Some(of)) {
        arguments = format!("arguments as {}\n", full.name());
    }
    let space = if arguments.is_empty() { "" } else { "\n" };
    format!(
        "### {}\n\n{story}\n\nKeys: {keys}.{flags}\n\n```text\n{arguments}{space}{answer}\n```\n\n",
        of.name()
    )
}

/// A key or argument. Those that repeat for each item are indented.
fn without_number(line: &str) -> String {
    match line.split_once("] ") {
        Some((_, what)) if line.starts_with(['K', 'A']) => what.trim_start().to_owned(),
        _ => format!("  {}", line.trim_start()),
    }
}
