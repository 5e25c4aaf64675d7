//! Lists every error message and hint of the source in one file, `messages.txt`, so that they can be reviewed
//! together.
//!
//! The list is a snapshot: a new or changed message fails this test until `RUSHGATE_WRITE_TABLES=1` has rewritten the
//! file. The titles of HTTP problems are in the API reference.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

const WRITE: &str = "RUSHGATE_WRITE_TABLES";

/// The calls that create a message, and their labels in the list.
const CALLS: [(&str, &str); 9] = [
    ("Error::invalid(", "invalid"),
    ("Error::not_found(", "not found"),
    ("Error::unavailable(", "unavailable"),
    ("Error::full(", "full"),
    ("Error::misconfigured(", "misconfigured"),
    ("Error::corrupt(", "corrupt"),
    ("Error::bug(", "bug"),
    (".hint(", "  hint"),
    (".doing(", "  while"),
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

/// The string literals in the arguments of a call, from the text after its opening parenthesis.
fn literals(arguments: &str) -> Vec<String> {
    let (mut found, mut depth) = (Vec::new(), 1);
    let mut rest = arguments.chars();
    while let Some(next) = rest.next() {
        match next {
            '(' => depth += 1,
            ')' => depth -= 1,
            '"' => found.push(literal(&mut rest)),
            '\'' => skip_char(&mut rest),
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    found
}

/// Skips a character literal such as `'('`, but not a lifetime.
fn skip_char(rest: &mut std::str::Chars<'_>) {
    let mut ahead = rest.clone();
    if ahead.next() == Some('\\') {
        ahead.next();
    }
    if ahead.next() == Some('\'') {
        *rest = ahead;
    }
}

/// Reads a string literal up to its closing quote. Escapes are kept, and continued lines are joined.
fn literal(rest: &mut std::str::Chars<'_>) -> String {
    let mut text = String::new();
    while let Some(next) = rest.next() {
        match next {
            '"' => break,
            '\\' => match rest.next() {
                Some('\n') => *rest = rest.as_str().trim_start().chars(),
                Some(escaped) => text.extend(['\\', escaped]),
                None => break,
            },
            other => text.push(other),
        }
    }
    text
}

fn messages(source: &str) -> String {
    let code = source.split("\n#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let mut listed = String::new();
    for (at, _) in code.char_indices() {
        let call = CALLS.iter().find(|(call, _)| code[at..].starts_with(call));
        let Some((call, kind)) = call else { continue };
        let line = code[..at].rsplit('\n').next().unwrap_or_default();
        let texts = literals(&code[at + call.len()..]);
        if texts.is_empty() || line.trim_start().starts_with("//") {
            continue;
        }
        writeln!(listed, "  {kind}: {}", texts.join(" | ")).unwrap();
    }
    listed
}

#[test]
fn every_message_is_listed() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    for entry in fs::read_dir(crates).unwrap() {
        let source = entry.unwrap().path().join("src");
        if source.is_dir() && !source.starts_with(env!("CARGO_MANIFEST_DIR")) {
            sources(&source, &mut files);
        }
    }
    files.sort();
    let mut listed = String::new();
    for file in files {
        let messages = messages(&fs::read_to_string(&file).unwrap());
        if !messages.is_empty() {
            writeln!(listed, "{}\n{messages}", file.strip_prefix(crates).unwrap().display()).unwrap();
        }
    }
    assert!(listed.lines().count() > 300, "the messages were not found");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/messages.txt");
    if std::env::var_os(WRITE).is_some() {
        fs::write(&path, &listed).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    for (now, before) in listed.lines().zip(kept.lines()) {
        assert_eq!(now, before, "{} lists other messages; {WRITE}=1 rewrites it", path.display());
    }
    assert_eq!(listed.lines().count(), kept.lines().count(), "{WRITE}=1 rewrites {}", path.display());
}
