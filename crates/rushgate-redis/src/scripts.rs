//! Assembles scripts from the Lua files and the shared pieces that they include.

use std::collections::{BTreeMap, HashSet};
use std::sync::OnceLock;

use sha1::{Digest, Sha1};

macro_rules! scripts {
    (includes { $($include:literal)* } $($area:ident { $($name:ident = $verb:literal)* })*) => {
        /// The script of an operation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Script { $($(
            #[doc = concat!("`lua/", stringify!($area), "/", $verb, ".lua`")]
            $name,
        )*)* }

        impl Script {
            pub(crate) const ALL: &[Self] = &[$($(Self::$name),*),*];

            /// The source file.
            pub(crate) fn file(self) -> &'static str {
                match self { $($(
                    Self::$name => include_str!(concat!("../lua/", stringify!($area), "/", $verb, ".lua")),
                )*)* }
            }

            /// Whether the script never writes.
            pub(crate) fn only_looks(self) -> bool {
                self.file().contains("\n-- flags: no-writes\n")
            }

            /// The name, such as `lock/acquire`.
            #[cfg(test)]
            pub(crate) fn name(self) -> &'static str {
                match self { $($(Self::$name => concat!(stringify!($area), "/", $verb),)*)* }
            }

            /// The name of the corresponding function, without the name of the library, such as `lock_acquire`.
            pub(crate) fn function(self) -> &'static str {
                match self { $($(Self::$name => concat!(stringify!($area), "_", $verb),)*)* }
            }
        }

        /// The names of the shared pieces.
        #[cfg(test)]
        pub(crate) const INCLUDES: &[&str] = &[$($include),*];

        /// The source of a shared piece.
        pub(crate) fn include(name: &str) -> &'static str {
            match name {
                $($include => include_str!(concat!("../lua/include/", $include, ".lua")),)*
                _ => panic!("there is no lua/include/{name}.lua"),
            }
        }
    };
}

scripts! {
    includes {
        "asked" "complete" "decide" "draft" "give" "line" "lock" "now" "once" "put" "queue" "room" "sale" "schedule"
        "take" "unique" "wait"
    }
    lock {
        LockAcquire = "acquire"
        LockExtend = "extend"
        LockForceRelease = "force_release"
        LockHeld = "held"
        LockLeave = "leave"
        LockRelease = "release"
        LockReleaseAll = "release_all"
        LockReleaseWith = "release_with"
        LockShow = "show"
    }
    queue {
        QueueDeleteDead = "delete_dead"
        QueueCancel = "cancel"
        QueueClaim = "claim"
        QueueCloseBatch = "close_batch"
        QueueComplete = "complete"
        QueueDead = "dead"
        QueueDeadLetter = "dead_letter"
        QueueDequeue = "dequeue"
        QueueEnqueue = "enqueue"
        QueueDueSchedules = "due_schedules"
        QueueEvents = "events"
        QueueExtend = "extend"
        QueueFinish = "finish"
        QueueFire = "fire"
        QueueFollow = "follow"
        QueueRelease = "release"
        QueueClearUnique = "clear_unique"
        QueueLimit = "limit"
        QueueListen = "listen"
        QueuePause = "pause"
        QueuePop = "pop"
        QueueReap = "reap"
        QueueRelay = "relay"
        QueueRetry = "retry"
        QueueRequeueDead = "requeue_dead"
        QueueRing = "ring"
        QueueSchedule = "schedule"
        QueueSchedules = "schedules"
        QueueStats = "stats"
        QueueTasks = "tasks"
        QueueTop = "top"
        QueueUniqueUntil = "unique_until"
        QueueUnschedule = "unschedule"
        QueueWaited = "waited"
        QueueWaits = "waits"
        QueueWatch = "watch"
    }
    room {
        RoomClose = "close"
        RoomCloseEntry = "close_entry"
        RoomDraw = "draw"
        RoomEnter = "enter"
        RoomJoin = "join"
        RoomSet = "set"
        RoomShow = "show"
    }
    sale {
        SaleBeginRebuild = "begin_rebuild"
        SaleCancelHold = "cancel_hold"
        SaleConfirm = "confirm"
        SaleCreate = "create"
        SaleEnd = "end"
        SaleEvents = "events"
        SaleExpire = "expire"
        SaleHome = "home"
        SaleLoadOrders = "load_orders"
        SaleLoadUnits = "load_units"
        SaleOpen = "open"
        SaleOrders = "orders"
        SaleHalt = "halt"
        SaleReservation = "reservation"
        SaleReserve = "reserve"
        SaleRestore = "restore"
        SaleSettle = "settle"
        SaleShow = "show"
        SaleStock = "stock"
        SaleSwitch = "switch"
    }
}

/// A script as it is loaded.
pub(crate) struct Loaded {
    pub(crate) body: String,
    /// Its SHA-1, by which the server identifies it.
    pub(crate) sha: String,
}

impl Loaded {
    fn new(body: String) -> Self {
        Self { sha: sha1(body.as_bytes()), body }
    }
}

/// Scripts are assembled on first use, because a process calls only a few of them.
static LOADED: [OnceLock<Loaded>; Script::ALL.len()] = [const { OnceLock::new() }; Script::ALL.len()];

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

/// Assembles a script: each piece at the place where it is included, without comments and without the functions that
/// the script does not use, because the server creates every function of a script at each call.
fn assemble(file: &'static str) -> String {
    let mut statements = Vec::new();
    add_statements(file, false, &mut Vec::new(), &mut statements);
    // A name must be defined before its use, so usage is collected from the end.
    let mut used = HashSet::new();
    let mut kept: Vec<_> = statements.into_iter().rev().filter(|of| of.is_used(&mut used)).collect();
    kept.reverse();
    let lines = kept.iter().flat_map(|of| &of.lines);
    with_numbers(&lines.flat_map(|line| [line.trim_start(), "\n"]).collect::<String>())
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

/// Lines that form one top-level statement. It begins at the margin and ends with `end` or `}` at the margin, or on one
/// line.
struct Statement {
    lines: Vec<&'static str>,
    is_shared: bool,
}

fn add_statements(
    file: &'static str,
    is_shared: bool,
    pieces: &mut Vec<&'static str>,
    all: &mut Vec<Statement>,
) {
    for line in file.lines() {
        if let Some(name) = line.strip_prefix("-- include: ") {
            if !pieces.contains(&name) {
                pieces.push(name);
                add_statements(include(name), true, pieces, all);
            }
        } else if line.trim_start().starts_with("--") || line.trim().is_empty() {
        } else if line.starts_with([' ', '}']) || line == "end" {
            all.last_mut().expect("a statement continues").lines.push(line);
        } else {
            all.push(Statement { lines: vec![line], is_shared });
        }
    }
}

impl Statement {
    /// Whether a later statement uses a name that this one defines. If so, the names in this one are used as well.
    fn is_used(&self, used: &mut HashSet<&'static str>) -> bool {
        let defined = if self.is_shared { defined_by(self.lines[0]) } else { Vec::new() };
        let is_used = defined.is_empty() || defined.iter().any(|name| used.contains(name));
        if is_used {
            used.extend(self.lines.iter().flat_map(|line| words(line)));
        }
        is_used
    }
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

impl Script {
    fn loaded(self) -> &'static Loaded {
        LOADED[self as usize].get_or_init(|| Loaded::new(assemble(self.file())))
    }

    /// The source as it is loaded.
    pub(crate) fn body(self) -> &'static str {
        &self.loaded().body
    }

    /// The SHA-1 by which the server identifies the script.
    pub(crate) fn sha(self) -> &'static str {
        &self.loaded().sha
    }
}

/// SHA-1, by which Redis identifies scripts. It protects nothing here.
pub(crate) fn sha1(message: &[u8]) -> String {
    Sha1::digest(message).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Functions whose argument is the position of the first of several keys, and the number of these keys.
    const OPENERS: [(&str, usize); 6] = [
        ("lock_keys", 4),
        ("queue_keys", 21),
        ("replay_keys", 2),
        ("room_keys", 2),
        ("sale_keys", 7),
        ("schedule_keys", 3),
    ];

    /// The positions in `KEYS[1]`, `KEYS[1-21]` or `KEYS[2..]`. `..` means all that follow.
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
            for part in body.split(&format!("{opener}(")).skip(1) {
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
        for script in Script::ALL {
            let lines: Vec<_> = script.file().lines().collect();
            let end = lines.iter().position(|line| !line.starts_with("--")).expect("a body");
            let (header, body) = (&lines[..end], lines[end..].join("\n"));
            let name = script.name();
            assert!(header[0].ends_with('.') || header[1].starts_with("-- "), "{name}: says what it does");

            if header.iter().any(|line| line.starts_with("-- KEYS[1-4..]")) {
                assert!(body.contains("#KEYS / 4"), "{name}: the keys come again and again");
            } else {
                let (keys, _) = described(header, "KEYS");
                let used = [indexed(&body, "KEYS"), opened(&body)].concat();
                assert_eq!(sorted(keys), sorted(used), "{name}: the keys of header and body");
            }

            let (args, open) = described(header, "ARGV");
            let mut used = sorted(indexed(&body, "ARGV"));
            if let Some(open) = open {
                used.retain(|number| *number < open);
                let rest = ["#ARGV", "unpack(ARGV", "arguments(", "ARGV[2 * n]"]
                    .iter()
                    .any(|all| body.contains(all));
                assert!(rest, "{name}: the arguments from {open} on are used");
            } else {
                assert!(!body.contains("#ARGV"), "{name}: the header ends, the arguments do not");
            }
            assert_eq!(sorted(args), used, "{name}: the arguments of header and body");
        }
    }

    #[test]
    fn scripts_build_no_keys_read_the_clock_once_and_make_no_text_of_large_numbers() {
        for script in Script::ALL {
            let (name, body) = (script.name(), script.body());
            assert!(!body.contains("'rg:{"), "{name}: keys are passed, not built");
            assert!(body.matches("'TIME'").count() <= 1, "{name}: the clock is read once");
            assert!(!body.contains("tostring("), "{name}: `tostring` loses digits above 10^14");
            assert!(!body.contains("include:"), "{name}: every piece is spliced in");
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
        for script in Script::ALL {
            for line in script.body().lines() {
                assert_eq!(large_as_text(line), None, "{}: {line}; use int()", script.name());
            }
        }
    }

    #[test]
    fn a_script_has_the_functions_that_it_calls_and_no_other() {
        let lines = INCLUDES.iter().flat_map(|name| include(name).lines());
        let functions: Vec<_> = lines.filter_map(|line| line.strip_prefix("local function ")).collect();
        for script in Script::ALL {
            for function in &functions {
                let name = function.split('(').next().unwrap();
                let before = script.body().split('(').map(|before| before.rsplit(|c| !is_word(c)).next());
                let seen = before.filter(|word| *word == Some(name)).count();
                let defined = script.body().contains(&format!("local function {function}"));
                let own = script.file().contains(&format!("local function {name}("));
                assert!(own || defined == (seen > 0) && seen != 1, "{}: {name}", script.name());
            }
        }
    }

    #[test]
    fn a_constant_is_defined_where_it_is_used() {
        let is_constant = |word: &str| word.len() > 1 && !word.contains(|c: char| c.is_ascii_lowercase());
        for script in Script::ALL {
            let mut known: HashSet<_> = ["KEYS", "ARGV"].into();
            for line in script.body().lines() {
                known.extend(defined_by(line));
                let unknown = words(line).find(|word| {
                    is_constant(word) && word.starts_with(char::is_alphabetic) && !known.contains(word)
                });
                assert_eq!(unknown, None, "{}: {line}", script.name());
            }
        }
    }

    #[test]
    fn every_lua_file_is_a_script_or_a_piece_of_one() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("lua");
        let areas =
            std::fs::read_dir(&folder).unwrap().map(|area| area.unwrap().file_name().into_string().unwrap());
        // Not the shared pieces and the parts of the library, which have their own tests.
        let areas: Vec<_> = areas.filter(|area| !["include", "functions"].contains(&area.as_str())).collect();
        assert!(areas.iter().any(|area| area == "room") && areas.len() > 3, "{areas:?}");
        for area in areas {
            for file in std::fs::read_dir(folder.join(&area)).unwrap() {
                let file = file.unwrap().file_name().into_string().unwrap();
                let name = format!("{area}/{}", file.strip_suffix(".lua").unwrap());
                assert!(Script::ALL.iter().any(|script| script.name() == name), "{name} is used by nobody");
            }
        }
        for file in std::fs::read_dir(folder.join("include")).unwrap() {
            let file = file.unwrap().file_name().into_string().unwrap();
            let name = file.strip_suffix(".lua").unwrap();
            let used = Script::ALL.iter().any(|script| included(script.file()).contains(&name));
            assert!(used && INCLUDES.contains(&name), "include/{file} is used by nobody");
        }
    }
}
