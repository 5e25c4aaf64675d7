//! Generates `lua/rushgate.lua`, the function library, and the parts of `docs/protocol.md` and `docs/protocol` that follow
//! from it. Tests compare them with what is there; `RUSHGATE_WRITE_TABLES=1` rewrites them.
//!
//! The library consists of `lua/library.lua`, the shared pieces in `lua/include`, and the functions. What a header says
//! about the arguments becomes code that checks them, because a caller may be written in any language.

mod contract;
mod groups;
mod header;
mod reference;
mod tests;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use rushgate_core::{
    Coded, EventKind, HaltReason, HoldState, Overflow, PastEnd, SaleId, TaskEnd, WorkerMode,
};
use serde::Serialize;

use self::groups::{KeyGroup, key_groups};
use self::header::{Argument, Each, Header, Keys, Kind, NAMED};
use crate::function::Function;
use crate::library::{self, NAME, PROTOCOL};

/// The lock function that also changes a queue.
const WITH_TASK: Function = Function::LockReleaseWith;
/// Separates a shared piece: what is above the line appears once in the library, what is below in each function.
const AT_EACH_CALL: &str = "-- at each call:\n";
/// Set to rewrite what is generated.
const WRITE: &str = "RUSHGATE_WRITE_TABLES";

fn lua(path: impl AsRef<Path>) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("lua").join(path)
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The source of a shared piece.
fn include(name: &str) -> &'static str {
    read(&lua(format!("include/{name}.lua"))).leak()
}

impl Function {
    /// The name without that of the library.
    fn bare_name(self) -> &'static str {
        &self.name()[NAME.len() + 1..]
    }

    /// The name of its file, such as `lock/acquire`.
    fn path(self) -> String {
        self.bare_name().replacen('_', "/", 1)
    }

    fn header(self) -> Header<'static> {
        Header::of(self.file())
    }
}

/// The functions of one area, without the one that belongs to two.
fn area(begins: &'static str) -> impl Iterator<Item = Function> {
    let of_area = move |of: &Function| of.bare_name().starts_with(begins) && *of != WITH_TASK;
    Function::ALL.iter().copied().filter(of_area)
}

/// The pieces that a file includes, directly or indirectly, each once and after those that it needs.
pub(crate) fn included(file: &'static str) -> Vec<&'static str> {
    let mut pieces = Vec::new();
    add_included(file, &mut pieces);
    pieces
}

fn add_included(file: &'static str, pieces: &mut Vec<&'static str>) {
    for name in file.lines().filter_map(|line| line.strip_prefix("-- include: ")) {
        if !pieces.contains(&name) {
            add_included(include(name), pieces);
            pieces.push(name);
        }
    }
}

/// The library as it is installed.
fn library() -> String {
    let (version, content) = (library::version(), content());
    let build = format!("{:016x}", hash(content.as_bytes()));
    format!(
        "#!lua name={NAME}\n-- Rushgate {version}, protocol {PROTOCOL}, build {build}\n\
         local PROTOCOL, VERSION, BUILD = {PROTOCOL}, '{version}', '{build}'\n{content}"
    )
}

/// FNV-1a, which tells builds of one version apart.
fn hash(bytes: &[u8]) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

fn content() -> String {
    let mut code = Code::default();
    let _ = writeln!(code.text, "{}\n{}", endings(), limits());
    code.text.push_str(&read(&lua("library.lua")));
    code.function(Function::Version);
    code.piece("now");
    // Lua allows 200 local names at a time, so pieces that only some functions need are in blocks. A lock can
    // be released together with an enqueue, so some pieces are shared between areas.
    let of_queues: Vec<_> = area("queue_").flat_map(|of| included(of.file())).collect();
    for name in area("sale_").flat_map(|of| included(of.file())) {
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
            code.function(WITH_TASK);
        });
    });
    code.block(|code| code.area("room_"));
    code.block(|code| code.area("sale_"));
    with_numbers(&code.text)
}

#[derive(Default)]
struct Code {
    text: String,
    /// The shared pieces already included.
    pieces: Vec<&'static str>,
}

impl Code {
    /// The functions of one area, after the pieces that they share.
    fn area(&mut self, begins: &'static str) {
        for name in area(begins).flat_map(|of| included(of.file())) {
            self.piece(name);
        }
        area(begins).for_each(|of| self.function(of));
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
                let codes = line.strip_prefix("-- codes: ").map(codes);
                let _ = writeln!(self.text, "{}", codes.as_deref().unwrap_or(line));
            }
        }
    }

    fn function(&mut self, function: Function) {
        let (file, header) = (function.file(), function.header());
        self.text.push('\n');
        self.text.push_str(&file[..file.len() - header.body.len()]);
        let flags = list(header.flags.iter().map(|flag| format!("'{flag}'")));
        let _ =
            writeln!(self.text, "verb('{}', {flags}, {}, function()", function.bare_name(), groups(&header));
        self.indented(&checks(&header));
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

/// The constants of an enum that stores keep by number: `HoldState`, or `TaskEnd as END_` for names with a prefix.
fn codes(of: &str) -> String {
    let (name, prefix) = of.split_once(" as ").unwrap_or((of, ""));
    let names = match name {
        "TaskEnd" => variants::<TaskEnd>(),
        "PastEnd" => variants::<PastEnd>(),
        "Overflow" => variants::<Overflow>(),
        "WorkerMode" => variants::<WorkerMode>(),
        "HoldState" => variants::<HoldState>(),
        "EventKind" => variants::<EventKind>(),
        "HaltReason" => variants::<HaltReason>(),
        _ => panic!("`{name}` has no codes"),
    };
    let names: Vec<_> = names.iter().map(|name| format!("{prefix}{name}")).collect();
    let codes: Vec<_> = (0..names.len()).map(|code| code.to_string()).collect();
    format!("local {} = {}", names.join(", "), codes.join(", "))
}

/// The names of variants as constants, ordered by code.
fn variants<T: Coded + Serialize>() -> Vec<String> {
    let name = |it: &T| serde_json::to_string(it).expect("a variant has a name");
    T::ALL.iter().map(|it| name(it).trim_matches('"').to_ascii_uppercase()).collect()
}

/// The parts of a shared piece: once per library, and once per function.
fn halves(piece: &str) -> (&str, &str) {
    piece.split_once(AT_EACH_CALL).unwrap_or((piece, ""))
}

fn list(parts: impl Iterator<Item = String>) -> String {
    let parts: Vec<_> = parts.collect();
    if parts.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", parts.join(", ")) }
}

/// The code that refuses wrong arguments before anything is written.
fn checks(header: &Header<'_>) -> String {
    format!("do\n{}end\n", argument_checks(header))
}

/// The valid values of named kinds, in words.
fn limits() -> String {
    let lines = NAMED.iter().map(|(_, check, words)| format!("  {check} = {},\n", quoted(words)));
    format!("local LIMITS = {{\n{}}}\n", lines.collect::<String>())
}

/// The names of the groups of keys, for `verb` in `lua/library.lua`.
fn groups(header: &Header<'_>) -> String {
    let names = header.keys.iter().map(|keys| format!("'{}'", keys.group));
    let is_repeated = header.keys.iter().any(Keys::is_repeated);
    list(names.chain(is_repeated.then(|| "is_repeated = true".to_owned())))
}

fn argument_checks(header: &Header<'_>) -> String {
    let fixed = header.arguments.len();
    let mut text = match &header.each {
        None => format!("  if #ARGV ~= {fixed} then return wrong.count('arguments', #ARGV, {fixed}) end\n"),
        Some(each) => number_of_arguments(header, each),
    };
    for (at, argument) in header.arguments.iter().enumerate() {
        text.push_str(&argument_check("  ", &(at + 1).to_string(), argument));
    }
    if let Some(each) = &header.each {
        if each.parts.iter().any(|of| of.once) {
            text.push_str("  local seen = {}\n");
        }
        let _ = writeln!(text, "  for at = {}, #ARGV, {} do", fixed + 1, each.parts.len());
        for (at, argument) in each.parts.iter().enumerate() {
            let index = if at == 0 { "at".to_owned() } else { format!("at + {at}") };
            text.push_str(&argument_check("    ", &index, argument));
        }
        text.push_str("  end\n");
    }
    text
}

fn number_of_arguments(header: &Header<'_>, each: &Each<'_>) -> String {
    let (fixed, width) = (header.arguments.len(), each.parts.len());
    let Each { what, least, most, .. } = each;
    let wanted = format!("{fixed} and {width} for each {what}, {least} to {most} of them");
    let behind = if fixed == 0 { "#ARGV".to_owned() } else { format!("(#ARGV - {fixed})") };
    let mut text = format!(
        "  local times = {behind} / {width}\n  if times % 1 ~= 0 or times < {least} or times > {most} then\n    \
         return wrong.count('arguments', #ARGV, '{wanted}')\n  end\n"
    );
    if header.keys.first().is_some_and(Keys::is_repeated) {
        let _ = writeln!(
            text,
            "  if times ~= #KEYS then\n    return wrong.count('arguments', #ARGV, #KEYS * {width} .. ', for that \
             number of {what}s')\n  end"
        );
    }
    text
}

fn argument_check(indent: &str, index: &str, of: &Argument<'_>) -> String {
    let value = format!("ARGV[{index}]");
    let wanted =
        if let Kind::Named(name, _) = of.kind { format!("LIMITS.{name}") } else { quoted(of.limits) };
    let refuse = |wanted: &str| format!("return wrong.argument({index}, {}, {wanted})", quoted(of.name));
    let valid = is_valid(&of.kind, &value);
    if of.once {
        return format!(
            "{indent}local meant = {valid}\n{indent}if not meant then {} end\n\
             {indent}if meant ~= -1 and seen[meant] then {} end\n{indent}seen[meant] = true\n",
            refuse(&wanted),
            refuse("'in no other place'")
        );
    }
    let valid = if of.optional { format!("{value} == '' or {valid}") } else { valid };
    let invalid = match valid.strip_prefix(&format!("#{value} == ")) {
        Some(length) => format!("#{value} ~= {length}"),
        None if valid.contains(" or ") || valid.contains(" and ") => format!("not ({valid})"),
        None => format!("not {valid}"),
    };
    format!("{indent}if {invalid} then\n{indent}  {}\n{indent}end\n", refuse(&wanted))
}

/// A condition that holds for valid values. For numbers and names in JSON, which can be written in several ways, it is
/// what they mean.
fn is_valid(kind: &Kind<'_>, value: &str) -> String {
    match kind {
        Kind::Bytes(least, most) if least == most => format!("#{value} == {least}"),
        Kind::Bytes(least, most) => format!("#{value} >= {least} and #{value} <= {most}"),
        Kind::Whole(least, most) => format!("is.whole({value}, {least}, {most})"),
        Kind::Hexadecimal(digits) => format!("is.hexadecimal({value}, {digits})"),
        Kind::Text(most) => format!("is.text({value}, {most})"),
        Kind::Word(words) => {
            let words: Vec<_> = words.iter().map(|word| format!("{value} == {}", quoted(word))).collect();
            words.join(" or ")
        }
        Kind::Named(name, _) => format!("is.{name}({value})"),
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "\\'"))
}

/// The endings of the keys in each group, in order.
fn endings() -> String {
    let endings = |group: &KeyGroup| list(group.keys.endings().iter().map(|ending| format!("'{ending}'")));
    let groups = key_groups();
    let lines = groups.iter().map(|group| format!("  {} = {},\n", group.name, endings(group)));
    format!("local ENDINGS = {{\n{}}}\n", lines.collect::<String>())
}

/// Replaces named numbers by their values, because Lua allows 200 local names at a time and creates functions faster
/// that refer to fewer. The names are in capitals and have one value in all files.
pub(crate) fn with_numbers(code: &str) -> String {
    let named = |line: &str| -> Option<Vec<(String, String)>> {
        let (names, values) = line.strip_prefix("local ")?.split_once(" = ")?;
        let split = |list: &str| list.split(", ").map(str::to_owned).collect::<Vec<_>>();
        let is_number = |value: &String| value.bytes().all(|byte| byte.is_ascii_digit());
        let (names, values) = (split(names), split(values));
        let is_all = names.len() == values.len() && values.iter().all(is_number);
        (is_all && names.iter().all(|name| is_constant(name)))
            .then(|| names.into_iter().zip(values).collect())
    };
    let mut numbers = BTreeMap::new();
    for (name, value) in code.lines().filter_map(named).flatten() {
        let other = numbers.insert(name, value.clone());
        assert!(other.is_none_or(|other| other == value), "one name stands for two numbers in the Lua files");
    }
    let mut text = String::with_capacity(code.len());
    for line in code.lines().filter(|line| named(line).is_none()) {
        if line.trim_start().starts_with("--") {
            text.push_str(line);
        } else {
            // Odd parts are string literals.
            for (at, part) in line.split('\'').enumerate() {
                text.push_str(if at > 0 { "'" } else { "" });
                if at % 2 == 1 { text.push_str(part) } else { put_numbers(&mut text, part, &numbers) }
            }
        }
        text.push('\n');
    }
    text
}

fn is_constant(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

fn put_numbers(text: &mut String, code: &str, numbers: &BTreeMap<String, String>) {
    let mut rest = code;
    while let Some(start) = rest.find(is_word) {
        let end = rest[start..].find(|c| !is_word(c)).map_or(rest.len(), |length| start + length);
        let word = &rest[start..end];
        text.push_str(&rest[..start]);
        text.push_str(numbers.get(word).map_or(word, String::as_str));
        rest = &rest[end..];
    }
    text.push_str(rest);
}

/// The names that a statement defines. A statement that defines none is executed for its effect.
fn defined_by(line: &'static str) -> Vec<&'static str> {
    let Some(rest) = line.strip_prefix("local ") else { return Vec::new() };
    match rest.strip_prefix("function ") {
        Some(rest) => words(rest).take(1).collect(),
        None => words(rest.split_once('=').map_or(rest, |(names, _)| names)).collect(),
    }
}

/// The words of a line outside of string literals.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let code = line.split('\'').step_by(2);
    code.flat_map(|part| part.split(|c| !is_word(c))).filter(|word| !word.is_empty())
}

pub(crate) fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}
