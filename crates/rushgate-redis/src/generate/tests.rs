//! The library and the protocol pages are what the Lua files make of them, and the Lua files follow the rules.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use rushgate_core::{Acquire, BuyerId, IdempotencyKey, ReservationId, SaleSecret};

use super::*;

/// Commands that write nothing.
const READS: [&str; 16] = [
    "EXISTS", "GET", "HGET", "HGETALL", "HKEYS", "HLEN", "HMGET", "LINDEX", "LRANGE", "TIME", "ZCARD",
    "ZRANGE", "ZRANGEBYLEX", "ZRANGEBYSCORE", "ZSCORE", "ZCOUNT",
];

/// Functions whose argument is the position of the first of several keys, and the number of these keys.
const OPENERS: [(&str, usize); 8] = [
    ("lock_of(KEYS[", 4),
    ("queue_keys(", 37),
    ("replay_keys(", 2),
    ("room_keys(", 2),
    ("sale_keys(", 8),
    ("schedule_keys(", 3),
    ("worker_keys(", 3),
    ("attempt_keys(", 3),
];

/// The names of the shared pieces.
fn pieces() -> Vec<&'static str> {
    let files = std::fs::read_dir(lua("include")).unwrap();
    let name = |file: std::fs::DirEntry| file.file_name().into_string().unwrap();
    files.map(|file| &*name(file.unwrap()).leak()).map(|file| file.strip_suffix(".lua").unwrap()).collect()
}

fn compare(path: &Path, content: &str) {
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(path, content).unwrap();
    } else {
        assert!(read(path) == content, "{} is out of date; set {WRITE}=1 to rewrite it", path.display());
    }
}

#[test]
fn the_library_is_what_the_lua_files_make_of_it() {
    compare(&lua("rushgate.lua"), &library());
}

#[test]
fn the_contract_of_the_clients_is_what_the_lua_files_say() {
    compare(&docs("../clients/contract.json"), &contract::contract());
}

fn docs(page: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page)
}

#[test]
fn the_page_on_the_protocol_says_what_the_lua_files_say() {
    let mut pages = BTreeMap::new();
    for (name, place, part) in reference::parts() {
        let page = pages.entry(name).or_insert_with(|| read(&docs(name)));
        let (begin, end) = (format!("<!-- {place}: generated -->\n"), format!("<!-- {place}: end -->\n"));
        let from = page.find(&begin).unwrap_or_else(|| panic!("docs/{name} has no place for {place}"));
        let from = from + begin.len();
        let to = page.find(&end).unwrap_or_else(|| panic!("docs/{name}: the place for {place} has no end"));
        page.replace_range(from..to, &format!("{}\n", part.trim_end()));
    }
    pages.iter().for_each(|(name, page)| compare(&docs(name), page));
}

/// The key that a line describes: two spaces, its name, its type.
fn described_key(line: &str) -> Option<&str> {
    let mut words = line.strip_prefix("  ")?.split(' ').filter(|word| !word.is_empty());
    let (name, kind) = (words.next()?, words.next()?);
    ["STRING", "HASH", "ZSET", "LIST"].contains(&kind).then_some(name)
}

#[test]
fn the_keys_of_a_group_are_described_in_their_order() {
    for KeyGroup { title, piece, keys, .. } in reference::sections() {
        let description = reference::description(piece);
        let described: Vec<_> = description.lines().filter_map(described_key).collect();
        let is_digit = |c: char| c.is_ascii_digit();
        let mut keys: Vec<_> = keys.endings().iter().map(|end| end.trim_end_matches(is_digit)).collect();
        keys.dedup();
        assert_eq!(described, keys, "{title}");
    }
}

#[test]
fn the_page_has_a_reservation_to_compare_with() {
    let secret = SaleSecret::from_bytes(std::array::from_fn(|at| at as u8));
    let sale = SaleId::new("phones").unwrap();
    let (buyer, key) = (BuyerId::new("ann").unwrap(), IdempotencyKey::new("click-1").unwrap());
    let id = ReservationId::derive(secret, &sale, &buyer, &key);
    assert!(read(&docs("protocol/sales.md")).contains(&format!("`{id}`")), "{id}");
}

/// The bodies of all functions in shared pieces, by name.
fn shared() -> BTreeMap<&'static str, String> {
    let mut bodies: BTreeMap<_, String> = BTreeMap::new();
    for piece in pieces() {
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
    for of in Function::ALL {
        let (name, header) = (of.name(), of.header());
        let flagged = header.flags.contains(&"no-writes");
        assert_eq!(flagged, of.only_looks(), "{name}: `reads` in function.rs");
        // It calls another function.
        if *of == Function::SaleReserveByKey {
            continue;
        }
        let mut found = BTreeSet::new();
        commands(header.body, &shared, &mut BTreeSet::new(), &mut found);
        let writes: Vec<_> = found.iter().filter(|command| !READS.contains(&command.as_str())).collect();
        assert_eq!(flagged, writes.is_empty(), "{name}: {writes:?}");
    }
}

/// The server refuses a function without the flag when its memory is full.
#[test]
fn what_puts_something_in_is_not_allowed_on_a_full_server() {
    for of in Function::ALL {
        let Header { body, flags, .. } = of.header();
        assert!(!(body.contains("touch(") && flags.contains(&"allow-oom")), "{}", of.name());
    }
}

#[test]
fn a_lock_is_handed_over_for_the_claim_window() {
    let window = format!("CLAIM_WINDOW_US = {}\n", Acquire::CLAIM_WINDOW.as_micros());
    assert!(include("line").contains(&window), "{window}");
}

#[test]
fn every_verb_is_a_function_once_and_every_piece_is_there_once() {
    let library = library();
    for of in Function::ALL {
        let registered = format!("verb('{}',", of.bare_name());
        assert_eq!(library.matches(&registered).count(), 1, "{}", of.name());
    }
    for name in shared().keys() {
        assert_eq!(library.matches(&format!("local function {name}(")).count(), 1, "{name}");
    }
}

/// Hash of the headers, of the key descriptions in the shared pieces, and of the formats of packed records.
const CONTRACT: &str = "67b303186ad21ed3";

#[test]
fn the_protocol_has_another_number_when_the_contract_is_another() {
    let headers =
        Function::ALL.iter().flat_map(|of| of.file().lines().take_while(|line| line.starts_with("--")));
    let mut contract: String = headers.collect();
    let mut pieces = pieces();
    pieces.sort_unstable();
    for line in pieces.iter().flat_map(|name| include(name).lines()) {
        if line.starts_with("--   ") || line.contains("'>I") {
            contract.push_str(line);
        }
    }
    let sum = format!("{:016x}", hash(contract.as_bytes()));
    let why = format!("raise PROTOCOL if a call that was right is wrong now, then write {sum} here");
    assert_eq!(sum, CONTRACT, "{why}");
}

/// The positions in `KEYS[1]`, `KEYS[1-37]` or `KEYS[2..]`. `..` means all that follow.
fn described(header: &[&str], word: &str) -> (Vec<usize>, Option<usize>) {
    let (mut found, mut open) = (Vec::new(), None);
    for line in header {
        let Some(rest) = line.strip_prefix("-- ").and_then(|line| line.strip_prefix(word)) else {
            continue;
        };
        let (range, _) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')).expect("a range");
        let number = |text: &str| text.parse::<usize>().expect("a number");
        match (range.strip_suffix(".."), range.split_once('-')) {
            (Some(from), _) => open = Some(number(from)),
            (None, Some((from, to))) => found.extend(number(from)..=number(to)),
            (None, None) => found.push(number(range)),
        }
    }
    (found, open)
}

fn indexed(body: &str, word: &str) -> Vec<usize> {
    let open = format!("{word}[");
    let parts = body.split(&open).skip(1);
    parts.filter_map(|part| part.split(']').next()?.parse().ok()).collect()
}

fn opened(body: &str) -> Vec<usize> {
    let mut keys = Vec::new();
    for (opener, n) in OPENERS {
        for part in body.split(opener).skip(1) {
            let first: String = part.chars().take_while(char::is_ascii_digit).collect();
            let first: usize = first.parse().expect("the first key is a number");
            keys.extend(first..first + n);
        }
    }
    keys
}

fn sorted(mut numbers: Vec<usize>) -> Vec<usize> {
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

#[test]
fn headers_describe_every_key_and_argument_and_no_other() {
    // These take the keys and arguments of another function, but do not use them all.
    let exempt = [Function::SaleReserveByKey, Function::SaleReplay, Function::QueueReplay];
    for of in Function::ALL.iter().filter(|of| !exempt.contains(of)) {
        let lines: Vec<_> = of.file().lines().collect();
        let end = lines.iter().position(|line| !line.starts_with("--")).expect("a body");
        let (header, body) = (&lines[..end], lines[end..].join("\n"));
        let name = of.name();
        assert!(header[0].ends_with('.') || header[1].starts_with("-- "), "{name}: says what it does");

        if header.iter().any(|line| line.starts_with("-- KEYS[1-4..]")) {
            assert!(body.contains("#KEYS do"), "{name}: the keys are repeated");
        } else {
            let (keys, _) = described(header, "KEYS");
            let used = [indexed(&body, "KEYS"), opened(&body)].concat();
            assert_eq!(sorted(keys), sorted(used), "{name}: the keys of header and body");
        }

        let (args, open) = described(header, "ARGV");
        let mut used = sorted(indexed(&body, "ARGV"));
        if let Some(open) = open {
            used.retain(|number| *number < open);
            let rest = ["#ARGV", "unpack(ARGV", "arguments(", "ARGV[n]"].iter().any(|all| body.contains(all));
            assert!(rest, "{name}: the arguments from {open} on are used");
        } else {
            assert!(!body.contains("#ARGV"), "{name}: the header ends, the arguments do not");
        }
        assert_eq!(sorted(args), used, "{name}: the arguments of header and body");
    }
}

/// Each function and each shared piece, with its name.
fn sources() -> Vec<(String, &'static str)> {
    let functions = Function::ALL.iter().map(|of| (of.path(), of.header().body));
    functions.chain(pieces().into_iter().map(|name| (format!("include/{name}"), include(name)))).collect()
}

#[test]
fn functions_build_no_keys_read_the_clock_once_and_make_no_text_of_large_numbers() {
    for (name, code) in sources() {
        assert!(!code.contains("'rg:{"), "{name}: keys are passed, not built");
        assert!(
            name == "include/now" || !code.contains("'TIME'"),
            "{name}: the clock is read once, in now.lua"
        );
        assert!(!code.contains("tostring("), "{name}: `tostring` loses digits above 10^14");
    }
}

/// Names of numbers that count microseconds since 1970, or grow with them.
const LARGE: [&str; 8] = ["now", "till", "due", "deadline", "fence", "seq", "lease", "highest"];

/// A large number that a line concatenates without `int`.
fn large_as_text(line: &str) -> Option<&str> {
    let is_path = |c: char| is_word(c) || c == '.';
    let code = line.split("--").next().unwrap_or_default();
    code.match_indices("..").find_map(|(at, _)| {
        let before = code[..at].trim_end().rsplit(|c| !is_path(c)).next().unwrap_or_default();
        let rest = code[at + 2..].trim_start();
        let after = &rest[..rest.find(|c| !is_path(c)).unwrap_or(rest.len())];
        let is_call = rest[after.len()..].starts_with('(');
        let is_large = |path: &&str| path.rsplit('.').next().is_some_and(|name| LARGE.contains(&name));
        Some(before).filter(is_large).or_else(|| Some(after).filter(is_large).filter(|_| !is_call))
    })
}

#[test]
fn no_large_number_becomes_text_by_being_put_beside_one() {
    assert_eq!(large_as_text("x = 'a' .. s.seq .. ','"), Some("s.seq"));
    assert_eq!(large_as_text("x = now .. id -- why"), Some("now"));
    assert_eq!(large_as_text("x = 'a' .. int(s.seq) .. ',' .. lease(now)"), None);
    for (name, code) in sources() {
        for line in code.lines() {
            assert_eq!(large_as_text(line), None, "{name}: {line}; use int()");
        }
    }
}

#[test]
fn a_constant_is_defined_where_it_is_used() {
    let is_constant = |word: &str| word.len() > 1 && !word.contains(|c: char| c.is_ascii_lowercase());
    let library: &str = library().leak();
    let mut known: HashSet<_> = ["KEYS", "ARGV"].into();
    // Sentences may have apostrophes, which `words` takes for the ends of literals.
    let is_sentence = |line: &&str| line.trim_start().starts_with("--") || line.ends_with("',");
    for line in library.lines().filter(|line| !is_sentence(line)) {
        known.extend(defined_by(line.trim_start()));
        let unknown = words(line)
            .find(|word| is_constant(word) && word.starts_with(char::is_alphabetic) && !known.contains(word));
        assert_eq!(unknown, None, "{line}");
    }
}

#[test]
fn every_lua_file_is_a_function_or_a_piece_of_one() {
    let used: HashSet<_> = Function::ALL.iter().flat_map(|of| included(of.file())).collect();
    for area in std::fs::read_dir(lua("")).unwrap().map(|area| area.unwrap()) {
        if !area.file_type().unwrap().is_dir() {
            continue;
        }
        let area = area.file_name().into_string().unwrap();
        for file in std::fs::read_dir(lua(&area)).unwrap() {
            let file = file.unwrap().file_name().into_string().unwrap();
            let name = file.strip_suffix(".lua").unwrap();
            let path = format!("{area}/{name}");
            let is_used = match area.as_str() {
                "include" => used.contains(name),
                _ => Function::ALL.iter().any(|of| of.path() == path),
            };
            assert!(is_used, "{path} is used by nobody");
        }
    }
}
