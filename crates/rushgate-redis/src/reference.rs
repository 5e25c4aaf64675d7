//! The parts of `docs/protocol.md` that follow from the Lua files.

use std::fmt::Write as _;

use rushgate_core::{ClientId, EventKind, HoldState, LockName, QueueName, SaleId};
use serde::Serialize;
use serde_json::json;

use crate::functions::function_name;
use crate::header::{Argument, Header, NAMED};
use crate::keys::{self, SaleKeys};
use crate::library::FUNCTIONS;
use crate::scripts::include;

/// Each part, and the name of its place.
pub(crate) fn parts() -> Vec<(&'static str, String)> {
    vec![
        ("keys", all_keys()),
        ("kinds", kinds()),
        ("states", states()),
        ("lock functions", functions("lock_")),
        ("queue functions", functions("queue_")),
        ("sale functions", functions("sale_")),
        ("room functions", functions("room_")),
        ("version function", functions("version")),
    ]
}

fn all_keys() -> String {
    let (lock, queue) = (LockName::new("LOCK"), QueueName::new("QUEUE"));
    let (Ok(lock), Ok(queue), Ok(sale)) = (lock, queue, SaleId::new("SALE")) else {
        unreachable!("they are names")
    };
    let client = |mut keys: Vec<Vec<u8>>| {
        for key in &mut keys {
            key.truncate(key.len() - 16);
            key.extend_from_slice(b"CLIENT");
        }
        keys
    };
    let nobody = ClientId::from_u64(0);
    let (alone, with_orders) = (SaleKeys::new(&sale, None), SaleKeys::new(&sale, Some(&queue)));
    let of_queue = client(keys::replays(&queue, nobody).to_vec());
    let of_sale = client(alone.replays(nobody).to_vec());
    let mut text = String::new();
    described(&mut text, "The lock", keys::lock(&lock).collect(), "lock");
    described(&mut text, "The queue", keys::queue(&queue).collect(), "queue");
    described(&mut text, "The client's latest answers", of_queue, "once");
    described(&mut text, "The schedules", keys::schedules(&queue).collect(), "schedule");
    described(&mut text, "The unique ids", vec![keys::unique(&queue)], "unique");
    described(&mut text, "The sale", alone.all().collect(), "sale");
    described(&mut text, "The room", keys::room(&sale).collect(), "room");
    let more = [
        ("The sale, if it has an orders' queue", with_orders.all().collect()),
        ("The client's latest answers, of a sale", of_sale),
        ("The sale's home", vec![keys::sale_home(&sale)]),
        ("The directories of queues and of sales", vec![keys::QUEUES.into(), keys::SALES.into()]),
    ];
    for (title, keys) in more {
        let _ = writeln!(text, "**{title}**: {}\n", names(keys));
    }
    text
}

fn names(keys: Vec<Vec<u8>>) -> String {
    let quoted: Vec<_> = keys.iter().map(|key| format!("`{}`", String::from_utf8_lossy(key))).collect();
    quoted.join(", ")
}

/// Keys, and what the shared piece says that is behind them.
fn described(text: &mut String, title: &str, keys: Vec<Vec<u8>>, piece: &str) {
    let _ = writeln!(text, "**{title}**: {}\n\n```text", names(keys));
    let lines = include(piece).lines().take_while(|line| !line.starts_with("-- include: "));
    for line in lines.map_while(|line| line.strip_prefix("--")) {
        let _ = writeln!(text, "{}", line.strip_prefix(' ').unwrap_or(line));
    }
    text.push_str("```\n\n");
}

fn kinds() -> String {
    let mut text = "| kind | what it must be |\n|---|---|\n".to_owned();
    for (kind, _, words) in NAMED {
        let _ = writeln!(text, "| {kind} | {words} |");
    }
    text
}

fn states() -> String {
    let (states, kinds) = (numbered(&HoldState::ALL), numbered(&EventKind::ALL));
    format!("States of a hold: {states}.\n\nKinds of events: {kinds}.\n")
}

/// Words with the numbers by which they are packed.
fn numbered<T: Serialize>(all: &[T]) -> String {
    let words = all.iter().enumerate().map(|(at, word)| format!("{at} {}", json!(word)).replace('"', ""));
    words.collect::<Vec<_>>().join(", ")
}

fn functions(begin: &str) -> String {
    let mut text = String::new();
    for of in FUNCTIONS.iter().filter(|of| of.name.starts_with(begin)) {
        function(&mut text, &function_name(of.name), &of.header);
    }
    text
}

fn function(text: &mut String, name: &str, header: &Header<'_>) {
    let _ = writeln!(text, "### {name}\n\n{}\n", header.story.join("\n"));
    let keys: Vec<_> = header.keys.iter().map(|keys| format!("{} {}", keys.numbers, keys.words())).collect();
    let keys = if keys.is_empty() { "none".to_owned() } else { keys.join("; ") };
    let flags = header.flags.iter().map(|flag| format!(" Flag: {flag}.")).collect::<String>();
    let _ = writeln!(text, "Keys: {keys}.{flags}\n");
    arguments(text, header);
    let _ = writeln!(text, "```text\n{}\n```\n", header.answers.join("\n"));
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
