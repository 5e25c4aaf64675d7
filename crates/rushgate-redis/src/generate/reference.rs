//! Generates the parts of `docs/protocol.md` and `docs/protocol` that follow from the Lua files.

use std::fmt::Write as _;

use rushgate_core::{ClientId, Coded, EventKind, HoldState, LockName, QueueName, SaleId};
use serde::Serialize;
use serde_json::json;

use super::header::{Argument, Header, Keys, NAMED};
use super::include;
use crate::function::Function;
use crate::keys::{self, Group};

/// Each generated part: its page in `docs`, its marker there, and its text.
pub(super) fn parts() -> Vec<(&'static str, &'static str, String)> {
    vec![
        ("protocol.md", "kinds", kinds()),
        ("protocol.md", "version function", functions("version")),
        ("protocol/keys.md", "keys", all_keys()),
        ("protocol/locks.md", "lock functions", indexed_functions("lock_")),
        ("protocol/queues.md", "queue functions", indexed_functions("queue_")),
        ("protocol/sales.md", "states", states()),
        ("protocol/sales.md", "sale functions", indexed_functions("sale_")),
        ("protocol/rooms.md", "room functions", indexed_functions("room_")),
    ]
}

fn all_keys() -> String {
    let (lock, queue) = (LockName::new("LOCK"), QueueName::new("QUEUE"));
    let (Ok(lock), Ok(queue), Ok(sale)) = (lock, queue, SaleId::new("SALE")) else {
        unreachable!("they are names")
    };
    let nobody = ClientId::from_u64(0);
    let mut text = String::new();
    described(&mut text, "The lock", &keys::lock(&lock), "lock");
    described(&mut text, "The queue", &keys::queue(&queue), "queue");
    described(&mut text, "The client's replay cache", &keys::replays(&queue, nobody), "once");
    listed(&mut text, "For changes of a sale's stock", &keys::stock_replays(&sale, nobody));
    described(&mut text, "The schedules", &keys::schedules(&queue), "schedule");
    described(&mut text, "The uniqueness windows", &keys::unique(&queue), "unique");
    described(&mut text, "The sale", &keys::sale(&sale), "sale");
    listed(&mut text, "The staged sale of a rebuild", &keys::staged_sale(&sale));
    listed(&mut text, "The sale's home", &keys::sale_home(&sale));
    described(&mut text, "The room", &keys::room(&sale), "room");
    let _ = writeln!(text, "## The directories\n\nKeys: `{}`, `{}`", keys::QUEUES, keys::SALES);
    text
}

/// The keys of a group, with `CLIENT` for its client.
fn names(of: &Group) -> String {
    let quoted =
        |key: Vec<u8>| format!("`{}`", String::from_utf8_lossy(&key).replace("0000000000000000", "CLIENT"));
    of.all().map(quoted).collect::<Vec<_>>().join(", ")
}

/// Keys of another place that have the layout described before.
fn listed(text: &mut String, title: &str, of: &Group) {
    let _ = writeln!(text, "{title}: {}\n", names(of));
}

/// Keys, and their description in the shared piece.
fn described(text: &mut String, title: &str, of: &Group, piece: &str) {
    let _ = writeln!(text, "## {title}\n\nKeys: {}\n\n```text", names(of));
    let lines = include(piece).lines().take_while(|line| !line.starts_with("-- include: "));
    for line in lines.map_while(|line| line.strip_prefix("--")) {
        let _ = writeln!(text, "{}", line.strip_prefix(' ').unwrap_or(line));
    }
    text.push_str("```\n\n");
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

/// The functions of one area, after a table of them.
fn indexed_functions(begin: &str) -> String {
    let mut text = "| function | what it does |\n|---|---|\n".to_owned();
    for (name, header) in with_prefix(begin) {
        let story = header.story.join(" ");
        let first = story.split_once(". ").map_or(story.as_str(), |(first, _)| first);
        let _ = writeln!(text, "| [{name}](#{name}) | {}. |", first.trim_end_matches('.'));
    }
    text.push('\n');
    text + &functions(begin)
}

fn functions(begin: &str) -> String {
    let mut text = String::new();
    for (name, header) in with_prefix(begin) {
        function(&mut text, name, &header);
    }
    text
}

/// The functions whose names have a prefix, in order of their names.
fn with_prefix(begin: &str) -> Vec<(&'static str, Header<'static>)> {
    let found = Function::ALL.iter().filter(|of| of.bare_name().starts_with(begin));
    let mut found: Vec<_> = found.map(|of| (of.name(), of.header())).collect();
    found.sort_by_key(|(name, _)| *name);
    found
}

fn function(text: &mut String, name: &str, header: &Header<'_>) {
    let _ = writeln!(text, "### {name}\n\n{}\n", header.story.join("\n"));
    let of_group = |keys: &Keys<'_>| match keys.count() {
        1 => keys.words(),
        count => format!("{} ({count} keys)", keys.words()),
    };
    let keys: Vec<_> = header.keys.iter().map(of_group).collect();
    let keys = if keys.is_empty() { "none".to_owned() } else { keys.join("; ") };
    let flags = header.flags.iter().map(|flag| format!(" Flag: `{flag}`.")).collect::<String>();
    let _ = writeln!(text, "Keys: {keys}.{flags}\n");
    arguments(text, header);
    let _ = writeln!(text, "Answer:\n\n```text\n{}\n```\n", header.answers.join("\n"));
}

fn arguments(text: &mut String, header: &Header<'_>) {
    if header.arguments.is_empty() && header.each.is_none() {
        return;
    }
    text.push_str("| argument | limits | |\n|---|---|---|\n");
    for (at, of) in header.arguments.iter().enumerate() {
        row(text, &format!("{} {}", at + 1, of.name), of);
    }
    if let Some(each) = &header.each {
        let _ = writeln!(text, "| {}.. for each {} | | |", header.arguments.len() + 1, each.words);
        for of in &each.parts {
            row(text, &format!("· {}", of.name), of);
        }
    }
    text.push('\n');
}

fn row(text: &mut String, name: &str, of: &Argument<'_>) {
    let _ = writeln!(text, "| {name} | {} | {} |", of.limits, of.remark);
}
