//! Parses the header of a Lua file. The header is the contract of an operation: the argument checks of its function and
//! its section in `docs/protocol` are generated from it.
//!
//! ```text
//! -- What it does.
//! --
//! -- KEYS[1-37]   the queue
//! -- ARGV[1]      lease: 10,000 to 86,400,000,000 µs; from now
//! -- ARGV[2..]    for each task, 1 to 1,000 of them:
//! --                id: name
//! --
//! -- {outcome, ...}  0 lost, 1 extended
//! --
//! -- flags: allow-oom
//! ```

use super::groups::key_groups;

/// A parsed header.
#[derive(Debug)]
pub(super) struct Header<'a> {
    pub(super) keys: Vec<Keys<'a>>,
    pub(super) arguments: Vec<Argument<'a>>,
    pub(super) each: Option<Each<'a>>,
    /// The function's flags on the server: `no-writes`, or `allow-oom` for an operation that ends existing work.
    pub(super) flags: Vec<&'a str>,
    /// The file after the header.
    pub(super) body: &'a str,
}

/// A group of keys of a function.
#[derive(Debug)]
pub(super) struct Keys<'a> {
    /// The name of the group.
    pub(super) group: &'static str,
    /// Positions of the keys, such as `1-37`.
    pub(super) numbers: &'a str,
}

/// One argument.
#[derive(Debug)]
pub(super) struct Argument<'a> {
    pub(super) name: &'a str,
    /// The valid values, in words.
    pub(super) limits: &'a str,
    pub(super) kind: Kind<'a>,
    /// Whether '' is valid, meaning "none".
    pub(super) optional: bool,
    /// Whether values must be distinct.
    pub(super) once: bool,
}

/// A group of arguments that repeats.
#[derive(Debug)]
pub(super) struct Each<'a> {
    /// What the group describes, such as `task`.
    pub(super) what: &'a str,
    pub(super) least: i64,
    pub(super) most: i64,
    pub(super) parts: Vec<Argument<'a>>,
}

#[derive(Debug, PartialEq)]
pub(super) enum Kind<'a> {
    Bytes(i64, i64),
    /// Limits as text, because the greatest exceeds i64.
    Whole(String, String),
    Hexadecimal(i64),
    Text(i64),
    Word(Vec<&'a str>),
    /// One of [`NAMED`]: the check, and the valid values in words.
    Named(&'static str, &'static str),
}

/// Named kinds: the name, the check in `lua/library.lua`, and the valid values in words.
pub(super) const NAMED: [(&str, &str, &str); 7] = [
    (
        "name",
        "name",
        "1 to 200 bytes of UTF-8, without white space, control characters, invisible characters or braces, neither `.` nor \
         `..`, and in Normalization Form C (NFC)",
    ),
    ("label", "label", "at most 200 bytes of UTF-8 without control characters"),
    (
        "terms",
        "terms",
        "five numbers separated by single spaces (due time, priority, mode, max wait, max attempts), and then the optional \
         parts: see \"Terms\" in docs/protocol/queues.md",
    ),
    (
        "body",
        "body",
        "a byte 0 (application/octet-stream), 255 (application/json) or the length of a content type and that type, \
         and then the payload, at most 1 MiB",
    ),
    (
        "owner",
        "owner",
        "a process id in 4 bytes, the length of a host's name in 1, the name, and a label; name and label at most \
         200 bytes of UTF-8 each, without control characters",
    ),
    (
        "specification",
        "specification",
        "a JSON object with `skus` and `secret`, as described under \"A sale's specification\"",
    ),
    (
        "cart",
        "cart",
        "`any`, or `same` for the same number in every line; then for each line, 1 to 32 of them, a space, the number \
         of its SKU in the sale (-1 if the sale has none such, each other once), `*` and a quantity of 1 to 1,000",
    ),
];

impl<'a> Header<'a> {
    /// Parses the header of a file.
    ///
    /// # Panics
    /// If the file has no valid header. A test parses every file.
    pub(super) fn of(file: &'a str) -> Self {
        let is_header = |line: &&str| line.starts_with("--") && !line.starts_with("-- include: ");
        let length = file.split_inclusive('\n').take_while(is_header).map(str::len).sum();
        let (text, body) = file.split_at(length);
        let flags = text.lines().find_map(|line| line.strip_prefix("-- flags: "));
        let flags = flags.map(|flags| flags.split(", ").collect()).unwrap_or_default();
        let mut header = Header { keys: Vec::new(), arguments: Vec::new(), each: None, flags, body };
        // The paragraphs are: what it does, keys and arguments, answers, flags.
        for line in text.split("\n--\n").nth(1).expect("keys and arguments").lines() {
            header.read(line.trim_start_matches("--").trim());
        }
        header
    }

    fn read(&mut self, text: &'a str) {
        if let Some(rest) = text.strip_prefix("KEYS[") {
            self.keys.push(Keys::read(rest));
        } else if let Some(rest) = text.strip_prefix("ARGV[") {
            self.read_argument(rest);
        } else if let Some(each) = &mut self.each {
            each.parts.push(Argument::read(text));
        }
    }

    fn read_argument(&mut self, rest: &'a str) {
        let (numbers, what) = rest.split_once(']').expect("a number in brackets");
        match what.trim().strip_prefix("for each ") {
            Some(each) if numbers.ends_with("..") => self.each = Some(Each::read(each)),
            _ => self.arguments.push(Argument::read(what.trim())),
        }
    }
}

impl<'a> Keys<'a> {
    fn read(rest: &'a str) -> Self {
        let (numbers, what) = rest.split_once(']').expect("numbers in brackets");
        let what = what.trim().trim_start_matches("the ").split(',').next().unwrap_or_default();
        // The keys of a staged sale have the endings of a sale's.
        let group = if what == "staged sale" { "staged" } else { Self::known(what) };
        Self { group, numbers }
    }

    fn known(what: &str) -> &'static str {
        let begins = |title: &str| format!("{title} ").starts_with(&format!("{what} "));
        key_groups().iter().find(|group| begins(group.title)).expect("keys of a known group").name
    }

    /// Whether the group repeats for each item.
    pub(super) fn is_repeated(&self) -> bool {
        self.numbers.ends_with("..")
    }

    /// The number of keys in the group.
    pub(super) fn count(&self) -> usize {
        let number = |text: &str| text.parse::<usize>().expect("a number");
        self.numbers
            .trim_end_matches("..")
            .split_once('-')
            .map_or(1, |(first, last)| number(last) + 1 - number(first))
    }
}

impl<'a> Each<'a> {
    fn read(text: &'a str) -> Self {
        let (what, bounds) = text.split_once(", ").expect("for each what, and how often");
        let (least, rest) = bounds.split_once(" to ").expect("a least number");
        let most = rest.split_once(" of them").expect("a greatest number").0;
        Self { what, least: whole(least), most: whole(most), parts: Vec::new() }
    }
}

impl<'a> Argument<'a> {
    fn read(text: &'a str) -> Self {
        let (name, rest) = text.split_once(": ").unwrap_or_else(|| panic!("`{text}` is not a limit"));
        let limits = rest.split_once("; ").map_or(rest, |(limits, _)| limits);
        let (bare, once) = limits.strip_suffix(", each once").map_or((limits, false), |bare| (bare, true));
        let (bare, optional) = bare.strip_suffix(" or ''").map_or((bare, false), |bare| (bare, true));
        Self { name, limits, kind: Kind::read(bare), optional, once }
    }
}

impl<'a> Kind<'a> {
    fn read(text: &'a str) -> Self {
        if let Some((_, check, words)) = NAMED.iter().find(|(word, ..)| *word == text) {
            return Self::Named(check, words);
        }
        if let Some(digits) = text.strip_suffix(" hexadecimal digits") {
            return Self::Hexadecimal(whole(digits));
        }
        if let Some(most) = text.strip_prefix("text of at most ").and_then(|rest| rest.strip_suffix(" bytes"))
        {
            return Self::Text(whole(most));
        }
        if let Some(exact) = text.strip_suffix(" bytes") {
            let (least, most) = exact.split_once(" to ").unwrap_or((exact, exact));
            return Self::Bytes(whole(least), whole(most));
        }
        if text == "0 or 1" {
            return Self::Whole("0".into(), "1".into());
        }
        if let Some((least, most)) = text.trim_end_matches(" µs").split_once(" to ") {
            return Self::Whole(digits(least), digits(most));
        }
        let words: Vec<_> = text.split(", ").flat_map(|part| part.split(" or ")).collect();
        assert!(words.len() > 1, "`{text}` is not a kind of argument");
        Self::Word(words)
    }
}

/// A number as Lua has it. `2^53 - 1` is the greatest that Lua has exactly.
fn digits(text: &str) -> String {
    match text {
        "2^53 - 1" => ((1_u64 << 53) - 1).to_string(),
        "2^64 - 1" => u64::MAX.to_string(),
        _ => text.replace(',', ""),
    }
}

fn whole(text: &str) -> i64 {
    digits(text).parse().unwrap_or_else(|_| panic!("`{text}` is not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_to_its_last_word() {
        let file = "\
-- Does this
-- and that.
--
-- KEYS[1-37]   the queue
-- KEYS[38-39]  the replay cache
-- ARGV[1]      lease: 10,000 to 86,400,000,000 µs or ''; from now
-- ARGV[2]      token: 16 bytes
-- ARGV[3..]    for each task, 1 to 1,000 of them:
--                id: name, each once
--                verdict: yes, no or perhaps
--
-- {outcome, ...}  0 lost
--                 and more
--
-- flags: allow-oom
-- include: now
local x = 1
";
        let header = Header::of(file);
        let keys: Vec<_> = header.keys.iter().map(|keys| (keys.group, keys.count())).collect();
        assert_eq!(keys, [("queue", 37), ("answers", 2)]);
        let [lease, token] = &header.arguments[..] else { panic!("two arguments") };
        assert_eq!((lease.name, lease.optional), ("lease", true));
        assert_eq!(lease.kind, Kind::Whole("10000".into(), "86400000000".into()));
        assert_eq!(token.kind, Kind::Bytes(16, 16));
        let each = header.each.expect("arguments for each task");
        assert_eq!((each.what, each.least, each.most), ("task", 1, 1_000));
        assert!(each.parts[0].once);
        assert_eq!(each.parts[1].kind, Kind::Word(vec!["yes", "no", "perhaps"]));
        assert_eq!(header.flags, ["allow-oom"]);
        assert_eq!(header.body, "-- include: now\nlocal x = 1\n");
    }
}
