//! Redis keys of a sale, and every change to one of their fields.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// A field and its value, or a member and its score.
type Field = (Vec<u8>, Vec<u8>);

/// Content of a key by type.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    Text(Vec<u8>),
    Hash(Vec<Field>),
    Sorted(Vec<Field>),
    List(Vec<Vec<u8>>),
}

/// One change to a key, with its content before.
pub struct Damage {
    pub label: String,
    pub which: String,
    pub key: Vec<u8>,
    pub harm: Content,
    pub repair: Content,
}

enum Reply {
    Line(String),
    Bytes(Vec<u8>),
    List(Vec<Reply>),
}

pub struct Keys {
    stream: BufReader<TcpStream>,
}

/// Layout of a packed record. A text takes the remaining bytes.
#[derive(Clone, Copy)]
enum Part {
    Number(&'static str, usize),
    Bytes(&'static str, usize),
    Text(&'static str),
    /// Repeats these parts for the remaining bytes.
    Each(&'static [Part]),
}

use Part::{Bytes, Each, Number, Text};

const RANGE: &[Part] = &[Number("sku", 2), Number("first", 4), Number("last", 4)];
const SKU: &[Part] = &[
    Number("total", 4),
    Number("next", 4),
    Number("ahead", 4),
    Number("returned", 4),
    Number("held", 4),
    Number("confirmed", 4),
    Number("withdrawn", 4),
    Number("per_buyer", 2),
];
const DEADLINE: &[Part] = &[Number("event", 6), Bytes("reservation", 16)];

/// Layout of a failed order (`lua/include/failed.lua`).
const FAILED: &[Part] = &[Number("retry at", 7), Number("event", 7), Number("attempts", 4), Text("reason")];

/// Layout of a hold, whose texts are preceded by their lengths.
fn hold(value: &[u8]) -> Vec<Part> {
    let (lines, buyer) = (usize::from(value[18]) << 8 | usize::from(value[19]), usize::from(value[20]));
    vec![
        Number("state", 1),
        Number("deadline", 7),
        Number("event", 6),
        Number("generation", 4),
        Number("lines' length", 2),
        Number("buyer's length", 1),
        Bytes("buyer", buyer),
        Bytes("lines", lines),
        Each(RANGE),
    ]
}

fn event(value: &[u8]) -> Vec<Part> {
    let mut parts = vec![Number("at", 7), Number("kind", 1), Number("of a reservation", 1)];
    if value[8] == 1 {
        parts.push(Bytes("reservation", 16));
    }
    parts.push(Each(RANGE));
    parts
}

/// The bytes with each part changed in turn.
fn packed(parts: &[Part], value: &[u8]) -> Vec<(String, Vec<u8>)> {
    let (mut at, mut changed) = (0, Vec::new());
    for part in parts {
        match *part {
            Number(name, n) => {
                for (how, add) in [("next", 1), ("far", 3_600_000_000_u64)] {
                    let number =
                        value[at..at + n].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
                    let other = (number + if n < 6 { add.min(7) } else { add }).to_be_bytes();
                    changed.push((format!("{name}: {how}"), with(value, at, &other[8 - n..])));
                }
                at += n;
            }
            Bytes(name, n) => {
                if n > 0 {
                    changed
                        .push((format!("{name}: other"), with(value, at + n - 1, &[value[at + n - 1] ^ 1])));
                }
                at += n;
            }
            Text(name) => {
                changed.push((format!("{name}: longer"), [value, b"x"].concat()));
                at = value.len();
            }
            Each(parts) => {
                while at < value.len() {
                    let n =
                        parts.iter().map(|part| if let Number(_, n) = part { *n } else { 0 }).sum::<usize>();
                    let piece = packed(parts, &value[at..at + n]);
                    changed.extend(piece.into_iter().map(|(label, piece)| (label, with(value, at, &piece))));
                    at += n;
                }
                changed.push(("units: fewer".to_owned(), value[..value.len().saturating_sub(10)].to_vec()));
            }
        }
    }
    changed
}

fn with(value: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut value = value.to_vec();
    value[at..at + bytes.len()].copy_from_slice(bytes);
    value
}

/// Changed text, or changed number if the text is one.
fn texts(value: &[u8]) -> Vec<(String, Vec<u8>)> {
    let number = std::str::from_utf8(value).ok().and_then(|text| text.parse::<u64>().ok());
    match number {
        Some(number) => [("next", 1), ("far", 3_600_000_000)]
            .map(|(how, add)| (how.to_owned(), (number + add).to_string().into_bytes()))
            .into(),
        None => vec![("longer".to_owned(), [value, b"x"].concat())],
    }
}

/// The JSON with each value changed in turn.
fn leaves(json: &serde_json::Value) -> Vec<(String, serde_json::Value)> {
    use serde_json::{Value, json};
    match json {
        Value::Object(fields) => {
            let of = |(name, value): (&String, &Value)| {
                let (name, fields) = (name.clone(), fields.clone());
                leaves(value).into_iter().map(move |(label, value)| {
                    let mut fields = fields.clone();
                    fields.insert(name.clone(), value);
                    (format!("{name}{label}"), Value::Object(fields))
                })
            };
            fields.iter().flat_map(of).collect()
        }
        Value::Array(items) => {
            let of = |(at, value): (usize, &Value)| {
                let items = items.clone();
                leaves(value).into_iter().map(move |(label, value)| {
                    let mut items = items.clone();
                    items[at] = value;
                    (label, Value::Array(items))
                })
            };
            items.iter().enumerate().flat_map(of).collect()
        }
        Value::Number(number) => vec![(": next".into(), json!(number.as_u64().unwrap() + 1))],
        // Keeps the secret valid hexadecimal.
        Value::String(text) => vec![(": other".into(), json!(format!("{}0", &text[..text.len() - 1])))],
        _ => vec![(": set".into(), json!(1))],
    }
}

/// Fields that a sale's row has only if the sale is or was halted.
const ABSENT: [&str; 6] =
    ["halted_at", "halt_reason", "rebuild", "stopped_at", "switched_at", "receipts_until"];
/// Field that a sale's row has while a process waits for an event. It is not damaged, because processes poll as well.
const LISTENERS: &[u8] = b"listeners";

/// All changes to a key's content. `name` is the end of the key.
fn changes(name: &str, content: &Content) -> Vec<(String, Content)> {
    let mut found = Vec::new();
    match content {
        Content::Text(text) => {
            let json = serde_json::from_slice(text).expect("it is JSON");
            found.extend(
                leaves(&json)
                    .into_iter()
                    .map(|(label, json)| (format!(".{label}"), Content::Text(json.to_string().into()))),
            );
        }
        Content::List(items) => {
            for (at, item) in items.iter().enumerate() {
                // Index in `EventKind::ALL`.
                let sort = if item[7] == 0 { "" } else { " of another kind" };
                for (label, other) in packed(&event(item), item) {
                    let mut items = items.clone();
                    items[at] = other;
                    found.push((format!("{sort}.{label}"), Content::List(items)));
                }
                let (mut lost, mut added) = (items.clone(), items.clone());
                lost.remove(at);
                added.insert(at, item.clone());
                found.extend([
                    (": lost".to_owned(), Content::List(lost)),
                    (": added".to_owned(), Content::List(added)),
                ]);
            }
        }
        Content::Hash(fields) | Content::Sorted(fields) => {
            let is_hash = matches!(content, Content::Hash(_));
            let made = |fields| if is_hash { Content::Hash(fields) } else { Content::Sorted(fields) };
            for (at, (field, value)) in fields.iter().enumerate() {
                if name == "row" && field == LISTENERS {
                    continue;
                }
                let is_sku = name == "row" && field.starts_with(b"sku:");
                let mut others: Vec<(String, Field)> = Vec::new();
                let values = match name {
                    "row" if is_sku => packed(SKU, value),
                    "holds" => packed(&hold(value), value),
                    _ => texts(value),
                };
                let shown = match name {
                    "row" if !is_sku => format!("{}: ", String::from_utf8_lossy(field)),
                    "row" | "holds" => String::new(),
                    "buyers" => "count: ".to_owned(),
                    _ => "score: ".to_owned(),
                };
                others.extend(
                    values
                        .into_iter()
                        .map(|(label, value)| (format!("{shown}{label}"), (field.clone(), value))),
                );
                let names = match name {
                    "returned" => texts(field),
                    "withdrawn" => packed(RANGE, field),
                    "deadlines" => packed(DEADLINE, field),
                    "holds" => packed(&[Bytes("reservation", 16)], field),
                    "failed" => packed(FAILED, field),
                    "sales" => texts(field),
                    "buyers" => packed(&[Bytes("buyer", 3), Number("NUL", 1), Text("sku")], field),
                    _ => Vec::new(),
                };
                others.extend(
                    names
                        .into_iter()
                        .map(|(label, field)| (format!("member {label}"), (field, value.clone()))),
                );
                for (label, (other, value)) in others {
                    let mut changed = fields.clone();
                    changed[at] = (other.clone(), value.clone());
                    let mut added = fields.clone();
                    added.push((other.clone(), value));
                    let is_new = fields.iter().all(|(field, _)| *field != other);
                    found.push((format!(".{label}"), made(changed)));
                    // A second entry of a failed order differs from one of an order that has not failed.
                    let of = if name == "failed" { format!(".{label}") } else { String::new() };
                    found.extend(is_new.then(|| (format!("{of}: added"), made(added))));
                }
                let mut lost = fields.clone();
                lost.remove(at);
                // Each field of a row has its own meaning, like a column.
                let which = match name {
                    "row" if !is_sku => format!(".{}", String::from_utf8_lossy(field)),
                    _ => String::new(),
                };
                found.push((format!("{which}: lost"), made(lost)));
            }
            for absent in ABSENT.iter().filter(|_| name == "row") {
                let mut added = fields.clone();
                let value = if *absent == "rebuild" { vec![1; 16] } else { b"1".to_vec() };
                added.push((absent.as_bytes().to_vec(), value));
                found.push((format!(".{absent}: added"), made(added)));
            }
        }
    }
    found
}

/// Keys of a sale that are not damaged here, by the beginning of their name, and why.
const LEFT_OUT: &[(&str, &str)] = &[
    ("young:", "answers to calls, which only a repeated call reads"),
    ("old:", "answers to calls, which only a repeated call reads"),
    ("room", "the waiting room holds neither stock nor orders"),
    ("tickets", "the waiting room holds neither stock nor orders"),
];

impl Keys {
    pub fn connect(port: u16) -> Self {
        Self { stream: BufReader::new(TcpStream::connect(("127.0.0.1", port)).unwrap()) }
    }

    /// All changes to all keys of the sale, and to the list of names.
    pub fn damages(&mut self) -> Vec<Damage> {
        let mut keys = self.list(&[b"KEYS", b"rg:{s:launch}:*"]);
        keys.retain(|key| {
            let name = &key["rg:{s:launch}:".len()..];
            !LEFT_OUT.iter().any(|(start, _)| name.starts_with(start.as_bytes()))
        });
        // An ended sale has no deadlines and no failed orders.
        assert!(keys.len() >= 7, "a sale has eight keys and a home: {}", keys.len());
        keys.push(b"rg:sales".to_vec());
        let mut damages = Vec::new();
        for key in keys {
            let name = String::from_utf8(key.rsplit(|byte| *byte == b':').next().unwrap().to_vec()).unwrap();
            let content = self.read(&key);
            let whole = (": lost".to_owned(), Content::List(Vec::new()));
            for (label, harm) in changes(&name, &content).into_iter().chain([whole]) {
                if harm != content {
                    let which = format!("{harm:?}");
                    damages.push(Damage {
                        label: format!("{name}{label}"),
                        which,
                        key: key.clone(),
                        harm,
                        repair: content.clone(),
                    });
                }
            }
        }
        damages
    }

    pub fn read(&mut self, key: &[u8]) -> Content {
        let pairs =
            |list: Vec<Vec<u8>>| list.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
        let Reply::Line(kind) = self.ask(&[b"TYPE", key]) else { panic!("a key has a type") };
        match kind.as_str() {
            "+hash" => Content::Hash(pairs(self.list(&[b"HGETALL", key]))),
            "+zset" => Content::Sorted(pairs(self.list(&[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"]))),
            "+list" => Content::List(self.list(&[b"LRANGE", key, b"0", b"-1"])),
            "+string" => match self.ask(&[b"GET", key]) {
                Reply::Bytes(text) => Content::Text(text),
                _ => panic!("a text"),
            },
            other => panic!("a key of the type {other}"),
        }
    }

    pub fn write(&mut self, key: &[u8], content: &Content) {
        self.ask(&[b"DEL", key]);
        let mut words: Vec<&[u8]> = Vec::new();
        match content {
            Content::Text(text) => words.extend([b"SET", key, text]),
            Content::Hash(fields) => {
                words.extend([b"HSET".as_slice(), key]);
                fields.iter().for_each(|(field, value)| words.extend([field.as_slice(), value]));
            }
            Content::Sorted(members) => {
                words.extend([b"ZADD".as_slice(), key]);
                members.iter().for_each(|(member, score)| words.extend([score.as_slice(), member]));
            }
            Content::List(items) => {
                words.extend([b"RPUSH".as_slice(), key]);
                words.extend(items.iter().map(Vec::as_slice));
            }
        }
        if words.len() > 2 {
            self.ask(&words);
        }
    }

    fn list(&mut self, words: &[&[u8]]) -> Vec<Vec<u8>> {
        let Reply::List(items) = self.ask(words) else { panic!("a list") };
        let bytes = |item| if let Reply::Bytes(bytes) = item { bytes } else { panic!("bytes") };
        items.into_iter().map(bytes).collect()
    }

    fn ask(&mut self, words: &[&[u8]]) -> Reply {
        let mut sent = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            sent.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            sent.extend_from_slice(word);
            sent.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&sent).unwrap();
        self.reply()
    }

    fn reply(&mut self) -> Reply {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        let line = line.trim_end();
        assert!(!line.starts_with('-'), "{line}");
        let n = || line[1..].parse::<usize>().unwrap();
        match line.as_bytes()[0] {
            b'$' => {
                let mut bytes = vec![0; n() + 2];
                self.stream.read_exact(&mut bytes).unwrap();
                bytes.truncate(n());
                Reply::Bytes(bytes)
            }
            b'*' => Reply::List((0..n()).map(|_| self.reply()).collect()),
            _ => Reply::Line(line.to_owned()),
        }
    }
}
