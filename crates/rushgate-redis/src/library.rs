//! Builds the function library from the Lua files: each shared piece once, and each operation behind its argument
//! checks.

use std::fmt::Write as _;
use std::sync::LazyLock;

use rushgate_core::{LockName, QueueName, SaleId};

use crate::header::{Argument, Each, Group, Header, Kind};
use crate::keys::{self, SaleKeys};
use crate::scripts::{Script, include, included, sha1, with_numbers};

/// The name of the library on the server, and the prefix of its functions.
pub(crate) const NAME: &str = "rushgate";
/// The version of the library, which is the version of this crate.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Raised with each incompatible change: of keys, arguments, answers or packed records.
pub(crate) const PROTOCOL: u32 = 1;

/// The lock operation that also changes a queue.
const WITH_TASK: Script = Script::LockReleaseWith;

const LIBRARY: &str = include_str!("../lua/functions/library.lua");
const SIPHASH: &str = include_str!("../lua/functions/siphash.lua");
const RESERVE_BY_KEY: &str = include_str!("../lua/functions/sale_reserve_by_key.lua");
const VERSION_OF: &str = include_str!("../lua/functions/version.lua");
/// Separates a shared piece: what is above the line appears once in the library, what is below in each function.
const AT_EACH_CALL: &str = "-- at each call:\n";

/// A function of the library.
pub(crate) struct Function {
    /// The name on the server, without the name of the library.
    pub(crate) name: &'static str,
    pub(crate) header: Header<'static>,
}

/// Every function, in the order of the library.
pub(crate) static FUNCTIONS: LazyLock<Vec<Function>> = LazyLock::new(|| {
    let verb = |script: &Script| (script.function(), script.file());
    let added = [("version", VERSION_OF), ("sale_reserve_by_key", RESERVE_BY_KEY)];
    let all = Script::ALL.iter().map(verb).chain(added);
    all.map(|(name, file)| Function { name, header: Header::of(file) }).collect()
});

/// The source of the library as it is loaded.
pub(crate) static CODE: LazyLock<String> = LazyLock::new(|| {
    let content = content();
    format!("{}{}\n{content}", first_lines(), sha1(content.as_bytes()))
});

/// The first two lines, up to the hash of the rest.
fn first_lines() -> String {
    format!("#!lua name={NAME}\n-- {NAME} {VERSION}, protocol {PROTOCOL}, sha1 ")
}

fn content() -> String {
    let mut code = Code::default();
    let _ = write!(code.text, "local PROTOCOL, VERSION = {PROTOCOL}, '{VERSION}'\n{}\n", endings());
    code.text.push_str(LIBRARY);
    code.verb("version", VERSION_OF);
    code.piece("now");
    // Lua allows 200 local names at a time, so pieces that only some operations need are in blocks. Sales enqueue
    // orders, and a lock can be released together with an enqueue, so some pieces are shared between areas.
    let of_queues: Vec<_> = verbs("queue_").flat_map(|verb| included(verb.file())).collect();
    for name in verbs("sale_").flat_map(|verb| included(verb.file())) {
        if of_queues.contains(&name) {
            code.piece(name);
        }
    }
    code.block(|code| {
        code.piece("lock");
        code.piece("line");
        code.block(|code| code.area("lock_"));
        code.block(|code| {
            code.area("queue_");
            code.verb(WITH_TASK.function(), WITH_TASK.file());
        });
    });
    code.block(|code| code.area("room_"));
    code.block(|code| {
        code.area("sale_");
        code.text.push('\n');
        code.text.push_str(SIPHASH);
        code.verb("sale_reserve_by_key", RESERVE_BY_KEY);
    });
    with_numbers(&code.text)
}

/// The operations of one area, without the one that belongs to two.
fn verbs(begins: &'static str) -> impl Iterator<Item = &'static Script> {
    Script::ALL.iter().filter(move |script| script.function().starts_with(begins) && **script != WITH_TASK)
}

#[derive(Default)]
struct Code {
    text: String,
    /// The shared pieces already included.
    pieces: Vec<&'static str>,
}

impl Code {
    /// The operations of one area, after the pieces that they share.
    fn area(&mut self, begins: &'static str) {
        for verb in verbs(begins) {
            for name in included(verb.file()) {
                self.piece(name);
            }
        }
        for verb in verbs(begins) {
            self.verb(verb.function(), verb.file());
        }
    }

    /// A block with its own local names.
    fn block(&mut self, within: impl FnOnce(&mut Self)) {
        self.text.push_str("\ndo\n");
        within(self);
        self.text.push_str("end\n");
    }

    fn piece(&mut self, name: &'static str) {
        if !self.pieces.contains(&name) {
            self.pieces.push(name);
            self.text.push('\n');
            for line in halves(include(name)).0.lines().filter(|line| !line.starts_with("-- include: ")) {
                let _ = writeln!(self.text, "{line}");
            }
        }
    }

    fn verb(&mut self, name: &str, file: &'static str) {
        let header = Header::of(file);
        self.text.push('\n');
        self.text.push_str(&file[..file.len() - header.body.len()]);
        let _ = writeln!(
            self.text,
            "verb('{name}', {}, {}, {}, function()",
            list(header.flags.iter().map(|flag| format!("'{flag}'"))),
            groups(&header),
            arguments(&header)
        );
        for name in included(file) {
            self.indented(halves(include(name)).1);
        }
        self.indented(header.body);
        self.text.push_str("end)\n");
    }

    fn indented(&mut self, lines: &str) {
        for line in lines.lines().filter(|line| !line.starts_with("-- include: ")) {
            let _ = writeln!(self.text, "{}{line}", if line.is_empty() { "" } else { "  " });
        }
    }
}

/// The parts of a shared piece: once per library, and once per function.
fn halves(piece: &str) -> (&str, &str) {
    piece.split_once(AT_EACH_CALL).unwrap_or((piece, ""))
}

fn list(parts: impl Iterator<Item = String>) -> String {
    let parts: Vec<_> = parts.collect();
    if parts.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", parts.join(", ")) }
}

/// The endings of the keys in each group, in order.
fn endings() -> String {
    let ends = |keys: &mut dyn Iterator<Item = Vec<u8>>| {
        list(keys.map(|key| {
            let key = String::from_utf8(key).expect("a key is text");
            format!("'{}'", key.rsplit_once(':').expect("a key has parts").1)
        }))
    };
    let name = "NAME";
    let lock = LockName::new(name).expect("it is a name");
    let queue = QueueName::new(name).expect("it is a name");
    let id = SaleId::new(name).expect("it is a name");
    let sale = SaleKeys::new(&id, None);
    format!(
        "local ENDINGS = {{\n  lock = {},\n  queue = {},\n  schedules = {},\n  unique = {},\n  room = {},\n  sale = {},\n}}\n",
        ends(&mut keys::lock(&lock)),
        ends(&mut keys::queue(&queue)),
        ends(&mut keys::schedules(&queue)),
        ends(&mut std::iter::once(keys::unique(&queue))),
        ends(&mut keys::room(&id)),
        ends(&mut sale.all()),
    )
}

fn groups(header: &Header<'_>) -> String {
    list(header.keys.iter().map(|keys| {
        let name = match keys.group {
            Group::Lock => "lock",
            Group::Queue => "queue",
            Group::Answers => "answers",
            Group::Schedules => "schedules",
            Group::Unique => "unique",
            Group::Sale => "sale",
            Group::Loaded => "loaded",
            Group::Orders => "orders",
            Group::Home => "home",
            Group::Room => "room",
        };
        let each = if keys.is_repeated() { ", each = true" } else { "" };
        format!("{{ '{name}', {}{each} }}", keys.count())
    }))
}

fn arguments(header: &Header<'_>) -> String {
    let fixed = header.arguments.iter().map(|of| format!("  {},\n", argument(of)));
    let each = header.each.iter().map(repeated);
    let lines: String = fixed.chain(each).collect();
    if lines.is_empty() { "{}".to_owned() } else { format!("{{\n{lines}}}") }
}

fn repeated(each: &Each<'_>) -> String {
    let Each { what, least, most, parts, .. } = each;
    let parts: String = parts.iter().map(|of| format!("    {},\n", argument(of))).collect();
    format!("  each = {{ what = '{what}', least = {least}, most = {most},\n{parts}  }},\n")
}

fn argument(of: &Argument<'_>) -> String {
    let limits = if let Kind::Named(_, words) = of.kind { words } else { of.limits };
    let mut parts = vec![quoted(of.name), quoted(limits), check(&of.kind)];
    parts.extend(of.optional.then(|| "none = true".to_owned()));
    parts.extend(of.once.then(|| "once = true".to_owned()));
    list(parts.into_iter())
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "\\'"))
}

fn check(kind: &Kind<'_>) -> String {
    match kind {
        Kind::Bytes(least, most) => format!("is.bytes, {least}, {most}"),
        Kind::Whole(least, most) => format!("is.whole, {least}, {most}"),
        Kind::Hexadecimal(digits) => format!("is.hexadecimal, {digits}"),
        Kind::Text(most) => format!("is.text, {most}"),
        Kind::Word(words) => {
            let words: Vec<_> = words.iter().map(|word| quoted(word)).collect();
            format!("is.word, {}", words.join(", "))
        }
        Kind::Named(name, _) => format!("is.{name}"),
    }
}

/// What the first lines of a library say about it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) version: String,
    pub(crate) protocol: u32,
    /// Whether the hash matches the content.
    pub(crate) is_intact: bool,
}

impl Label {
    /// Parses the label of a library. `None` if it has none.
    pub(crate) fn of(code: &str) -> Option<Self> {
        let (_, rest) = code.split_once('\n')?;
        let (label, content) = rest.split_once('\n')?;
        let rest = label.strip_prefix("-- ")?.strip_prefix(NAME)?.strip_prefix(' ')?;
        let (version, rest) = rest.split_once(", protocol ")?;
        let (protocol, sum) = rest.split_once(", sha1 ")?;
        Some(Self {
            version: version.to_owned(),
            protocol: protocol.parse().ok()?,
            is_intact: sum == sha1(content.as_bytes()),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::scripts::{INCLUDES, is_word};

    /// Commands that write nothing.
    const READS: [&str; 15] = [
        "EXISTS",
        "GET",
        "HGET",
        "HGETALL",
        "HKEYS",
        "HLEN",
        "HMGET",
        "LRANGE",
        "TIME",
        "ZCARD",
        "ZRANGE",
        "ZRANGEBYLEX",
        "ZRANGEBYSCORE",
        "ZSCORE",
        "ZCOUNT",
    ];

    /// The bodies of all functions in shared pieces, by name.
    fn shared() -> BTreeMap<&'static str, String> {
        let mut bodies: BTreeMap<_, String> = BTreeMap::new();
        for piece in INCLUDES {
            let mut name = None;
            for line in include(piece).lines() {
                if let Some(rest) = line.strip_prefix("local function ") {
                    name = rest.split_once('(').map(|(name, _)| name);
                } else if line == "end" {
                    name = None;
                } else if let Some(name) = name {
                    *bodies.entry(name).or_default() += &format!("{line}\n");
                }
            }
        }
        bodies
    }

    /// Adds the commands that a text calls, directly or through functions of shared pieces.
    fn commands(
        text: &str,
        shared: &BTreeMap<&str, String>,
        seen: &mut BTreeSet<String>,
        found: &mut BTreeSet<String>,
    ) {
        for part in text.split("redis.call(").skip(1) {
            let word = part.trim_start_matches('\'').split('\'').next().unwrap_or_default();
            found.extend(word.chars().all(|c| c.is_ascii_uppercase()).then(|| word.to_owned()));
        }
        // It executes the command that it is given. All its callers write.
        found.extend(text.contains("in_chunks(").then(|| "in_chunks".to_owned()));
        for before in text.split('(') {
            let word = before.rsplit(|c| !is_word(c)).next().unwrap_or_default();
            if let Some(body) = shared.get(word).filter(|_| seen.insert(word.to_owned())) {
                commands(body, shared, seen, found);
            }
        }
    }

    #[test]
    fn what_has_the_flag_no_writes_writes_nothing_and_nothing_else_has_it() {
        let shared = shared();
        for of in FUNCTIONS.iter().filter(|of| of.name != "sale_reserve_by_key") {
            let mut found = BTreeSet::new();
            commands(of.header.body, &shared, &mut BTreeSet::new(), &mut found);
            let writes: Vec<_> = found.iter().filter(|command| !READS.contains(&command.as_str())).collect();
            let flagged = of.header.flags.contains(&"no-writes");
            assert_eq!(flagged, writes.is_empty(), "{}: {writes:?}", of.name);
        }
    }

    #[test]
    fn what_puts_something_in_is_not_allowed_on_a_full_server_and_what_works_it_off_is() {
        for of in FUNCTIONS.iter() {
            let (body, flagged) = (of.header.body, of.header.flags.contains(&"allow-oom"));
            let refuses = body.contains("touch(") || body.contains("refuse_when_full(");
            assert!(!(refuses && flagged), "{}", of.name);
            assert!(flagged || !body.contains("allow_when_full"), "{}", of.name);
        }
    }

    #[test]
    fn every_verb_is_a_function_once_and_every_piece_is_there_once() {
        for of in FUNCTIONS.iter() {
            assert_eq!(CODE.matches(&format!("verb('{}',", of.name)).count(), 1, "{}", of.name);
        }
        for name in shared().keys() {
            assert_eq!(CODE.matches(&format!("local function {name}(")).count(), 1, "{name}");
        }
    }

    /// SHA-1 of the headers, of the key descriptions in the shared pieces, and of the formats of packed records.
    const CONTRACT: &str = "da0fbb2dc111c4fc74931d4a9e84caaadf988489";

    #[test]
    fn the_protocol_has_another_number_when_the_contract_is_another() {
        let files = Script::ALL.iter().map(|script| script.file()).chain([RESERVE_BY_KEY, VERSION_OF]);
        let headers = files.flat_map(|file| file.lines().take_while(|line| line.starts_with("--")));
        let mut contract: String = headers.collect();
        for line in INCLUDES.iter().flat_map(|name| include(name).lines()) {
            if line.starts_with("--   ") || line.contains("'>I") {
                contract.push_str(line);
            }
        }
        let sum = sha1(contract.as_bytes());
        let why = format!("raise PROTOCOL if a call that was right is wrong now, then write {sum} here");
        assert_eq!(sum, CONTRACT, "{why}");
    }

    #[test]
    fn the_label_is_read_and_an_edit_is_seen() {
        let label = Label::of(&CODE).unwrap();
        assert_eq!((label.version.as_str(), label.protocol, label.is_intact), (VERSION, PROTOCOL, true));
        assert!(!Label::of(&CODE.replace("KEPT_US", "kept_us")).unwrap().is_intact);
        assert_eq!(Label::of("#!lua name=rushgate\nlocal x = 1\n"), None);
    }
}
