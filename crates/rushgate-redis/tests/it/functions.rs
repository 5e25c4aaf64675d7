//! The function library: how it gets on a server and is upgraded, and what it refuses.

use crate::common;
use std::collections::BTreeMap;
use std::time::Duration;

use rushgate_core::{
    BuyerId, HoldTime, IdempotencyKey, Line, ReservationId, Reserve, Reserved, SaleId, SaleSecret, SaleSpec,
    Sku, SkuSpec, TaskId, UnitChoice, Verbs,
};
use rushgate_redis::functions::{Functions, Installed, State, code, functions, version};
use rushgate_test::servers::{ClusterSetup, Kind, RedisServer, RedisSetup};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::compose;

async fn with_library(kind: Kind) -> (RedisServer, Functions) {
    let server = RedisSetup::new(kind).start();
    let library = Functions::connect(&server.url()).await.unwrap();
    assert_eq!(library.install(false).await.unwrap(), Installed::Done { was: State::Missing });
    (server, library)
}

fn load_as(server: &RedisServer, text: &str, said: &str) {
    assert_eq!(server.command(&["FUNCTION", "LOAD", "REPLACE", text]), said, "the server takes it");
}

/// Replaces the library by this text.
fn load(server: &RedisServer, text: &str) {
    load_as(server, text, "$10");
}

async fn a_library_is_replaced_by_a_newer_one_alone(kind: Kind) {
    let (server, library) = with_library(kind).await;
    assert_eq!(library.state().await.unwrap(), State::Same);
    assert_eq!(library.install(false).await.unwrap(), Installed::Unchanged);

    load(&server, &code().replace(version(), "0.0.1"));
    let older = State::Older { version: "0.0.1".into() };
    assert_eq!(library.install(false).await.unwrap(), Installed::Done { was: older });

    load(&server, &code().replace(version(), "99.0.0"));
    let newer = State::Newer { version: "99.0.0".into() };
    assert_eq!(library.install(false).await.unwrap(), Installed::Refused { is: newer.clone() });
    assert_eq!(library.state().await.unwrap(), newer);
    assert_eq!(library.install(true).await.unwrap(), Installed::Done { was: newer });

    let build = code().lines().nth(1).unwrap().rsplit(' ').next().unwrap();
    load(&server, &code().replace(build, "0123456789abcdef"));
    assert_eq!(library.install(false).await.unwrap(), Installed::Done { was: State::OtherBuild });

    server.command(&["FUNCTION", "FLUSH", "SYNC"]);
    load_as(&server, "#!lua name=rushgate_1\nredis.register_function('f', function() return 1 end)", "$10");
    let error = library.install(false).await.unwrap_err();
    assert!(error.is_misconfigured() && error.to_string().contains("a library named rushgate_1"), "{error}");
}

#[tokio::test]
async fn a_library_is_replaced_by_a_newer_one_alone_on_redis() {
    a_library_is_replaced_by_a_newer_one_alone(Kind::Redis).await;
}

#[tokio::test]
async fn a_library_is_replaced_by_a_newer_one_alone_on_valkey() {
    a_library_is_replaced_by_a_newer_one_alone(Kind::Valkey).await;
}

#[tokio::test]
async fn the_library_survives_a_restart() {
    let (mut server, _) = with_library(Kind::Redis).await;
    server.restart();
    let library = Functions::connect(&server.url()).await.unwrap();
    assert_eq!(library.state().await.unwrap(), State::Same);
}

#[tokio::test]
async fn a_replica_has_the_library_too_and_answers_what_only_reads() {
    let (server, _) = with_library(Kind::Redis).await;
    let primary = server.port().to_string();
    let replica = RedisSetup::new(Kind::Redis).with(&["--replicaof", "127.0.0.1", &primary]).start();
    common::until(|| replica.command(&["FCALL_RO", "rushgate_1_version", "0"]) == "*3").await;
}

#[tokio::test]
async fn every_primary_of_a_cluster_has_the_library() {
    let cluster = ClusterSetup::new(Kind::Valkey).of(3, 0).start();
    let library = Functions::connect(&cluster.url()).await.unwrap();
    assert_eq!(library.state().await.unwrap(), State::Missing);
    assert_eq!(library.install(false).await.unwrap(), Installed::Done { was: State::Missing });
    for node in &cluster.nodes {
        assert_eq!(node.command(&["FCALL_RO", "rushgate_1_version", "0"]), "*3");
    }
    cluster.nodes[2].command(&["FUNCTION", "FLUSH", "SYNC"]);
    assert_eq!(library.state().await.unwrap(), State::Missing);
    load(&cluster.nodes[1], &code().replace(version(), "99.0.0"));
    let newer = State::Newer { version: "99.0.0".into() };
    assert_eq!(library.install(false).await.unwrap(), Installed::Refused { is: newer.clone() });
    assert_eq!(cluster.nodes[2].command(&["FUNCTION", "LIST"]), "*0", "no node is changed");
    assert_eq!(library.install(true).await.unwrap(), Installed::Done { was: newer });
    assert_eq!(library.state().await.unwrap(), State::Same);
    assert_eq!(library.install(false).await.unwrap(), Installed::Unchanged);
}

#[tokio::test]
async fn a_function_of_another_library_in_the_way_is_named() {
    let server = RedisSetup::new(Kind::Redis).start();
    let other = "#!lua name=other\nredis.register_function('rushgate_1_lock_held', function() return 1 end)";
    assert_eq!(server.command(&["FUNCTION", "LOAD", other]), "$5");
    let error = Functions::connect(&server.url()).await.unwrap().install(false).await.unwrap_err();
    assert!(error.is_misconfigured() && error.to_string().contains("rushgate_1_lock_held"), "{error}");
}

/// Calls a function with the words of a line. `''` is an empty argument, and `·` a space within one.
fn call(server: &RedisServer, line: &str) -> String {
    let meant = |word: &str| if word == "''" { String::new() } else { word.replace('·', " ") };
    let words: Vec<_> = line.split(' ').map(meant).collect();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    server.command(&[&["FCALL"], &words[..]].concat())
}

const TOKEN: &str = "0123456789abcdef";
const TERMS: &str = "+0·5·0·0·20";
/// The ends of the keys of a queue and of a sale.
const QUEUE: &str = "meta records runs newcomers leases listeners at_once waiting0 waiting1 waiting2 waiting3 waiting4 \
    waiting5 waiting6 waiting7 waiting8 waiting9 blocked held groups key_leases starts starts_until dead dead_ids done \
    done_ids by_age by_deadline dependents dependencies results result_ids unsettled unsettled_ids events watchers";
const SALE: &str = "row returned withdrawn buyers holds deadlines events failed";
const LOCK: &str = "4 rg:{l:a}:lock rg:{l:a}:line rg:{l:a}:waiters rg:{l:a}:ends";

fn queue_keys(name: &str) -> String {
    let ends = format!("{QUEUE} young:00000000000000ff old:00000000000000ff");
    let keys: Vec<_> = ends.split(' ').map(|end| format!("rg:{{q:{name}}}:{end}")).collect();
    format!("39 {}", keys.join(" "))
}

/// The same keys, followed by that of the uniqueness windows.
fn enqueue_keys(name: &str) -> String {
    format!("{} rg:{{q:{name}}}:unique", queue_keys(name).replacen("39", "40", 1))
}

#[tokio::test]
async fn what_is_outside_its_limits_is_refused_in_words_that_name_it_and_changes_nothing() {
    let (server, _) = with_library(Kind::Redis).await;
    let queue = queue_keys("q");
    let to_enqueue = enqueue_keys("q");
    let enqueue = format!("rushgate_1_queue_enqueue {to_enqueue} 12345678");
    let with_terms = |terms: &str| format!("{enqueue} a {terms} \0x");
    let (wrong_client, swapped) = (
        to_enqueue.replace("ff ", "FF "),
        to_enqueue
            .replace(":waiting0 ", ":W ")
            .replace(":waiting1 ", ":waiting0 ")
            .replace(":W ", ":waiting1 "),
    );
    let listen = queue.replacen("39", "37", 1).split(" rg:{q:q}:young").next().unwrap().to_owned();
    let ends = SALE.split(' ').map(|end| format!("rg:{{s:a}}:{end}"));
    let of_sale = ends.collect::<Vec<_>>().join(" ");
    let sale = format!("8 {of_sale}");
    let secret = "a".repeat(32);
    let create = |spec: &str| {
        format!("rushgate_1_sale_create 9 rg:{{s:a}}:home {of_sale} {spec} {TOKEN} 10000 '' '' 0")
    };
    let created = create(&format!("{{\"skus\":[],\"secret\":\"{secret}\"}}"));
    let owner = "\0\0\0\u{1}\u{1}hlabel";
    let inbox = "\0\0\0\0\0\0\0\0";
    let acquire = |token: &str, lease: &str, inbox: &str, owner: &str| {
        format!("rushgate_1_lock_acquire {LOCK} {token} {lease} 0 0 {inbox} {owner}")
    };
    for (asked, said) in [
        (
            format!("rushgate_1_lock_held 2 rg:{{l:a}}:lock rg:{{l:a}}:line {TOKEN}"),
            "the number of keys is `2`; it must be 1 or 4",
        ),
        (
            format!("rushgate_1_lock_held 1 rg:{{l:a}}:line {TOKEN}"),
            "KEYS[1] is `rg:{l:a}:line`; it must be `rg:{l:NAME}:lock`",
        ),
        (
            format!("rushgate_1_lock_release 2 rg:{{l:a}}:lock rg:{{l:b}}:line {TOKEN} {TOKEN}"),
            "KEYS[2] is `rg:{l:b}:line`",
        ),
        (
            "rushgate_1_queue_pop 2 rg:{q:a}:meta rg:{q:b}:young:00000000000000ff 12345678 1".to_owned(),
            "KEYS[2] is `rg:{q:b}:young:00000000000000ff`; it must be `rg:{q:a}:young:00000000000000ff`",
        ),
        (format!("rushgate_1_lock_held {} {TOKEN}", LOCK.replace(":line", ":x")), "KEYS[2] is `rg:{l:a}:x`"),
        (format!("rushgate_1_lock_held {} {TOKEN}", LOCK.replace("l:a", "l:{")), "`rg:{l:NAME}:lock`"),
        (
            format!("rushgate_1_lock_held 5 {} extra {TOKEN}", &LOCK[2..]),
            "the number of keys is `5`; it must be 1 or 4",
        ),
        (format!("rushgate_1_lock_held {LOCK}"), "the number of arguments is `0`; it must be 1"),
        (format!("rushgate_1_lock_held {LOCK} short"), "ARGV[1], the token, is `short`; it must be 16 bytes"),
        (
            acquire(TOKEN, "9999", inbox, owner),
            "ARGV[2], the lease, is `9999`; it must be 10,000 to 86,400,000,000 µs",
        ),
        (acquire(TOKEN, "1e6", inbox, owner), "the lease, is `1e6`"),
        (
            format!("rushgate_1_queue_claim {queue} 00000001 600 10000 w 00000002 401 10000 w"),
            "the requests are for more than 1,000 tasks together",
        ),
        (
            format!("rushgate_1_lock_release 8 {} {} {TOKEN}", &LOCK[2..], LOCK[2..].replace("l:a", "l:b")),
            "the number of arguments is `1`; it must be 2, for that number of locks",
        ),
        (acquire(TOKEN, "0x9999", inbox, owner), "the lease, is `0x9999`"),
        (acquire(TOKEN, "10000", "short", owner), "the inbox, is `short`; it must be 8 bytes"),
        (acquire(TOKEN, "10000", inbox, "php"), "it must be a process id in 4 bytes"),
        (format!("{enqueue} a +0"), "0 and 4 for each task"),
        (
            format!("rushgate_1_queue_enqueue {to_enqueue} '' a {TERMS} \0x"),
            "the first op is empty; it must be 8 bytes",
        ),
        (
            format!("{enqueue} a {TERMS} \0x 12345678 b {TERMS} \0x"),
            "two requests have the same op; each must have its own",
        ),
        (
            format!("rushgate_1_queue_limit {listen} '' '' '' '' 2 '' '' 1 '' '' 0 ''"),
            "ARGV[5], the concurrency per key, is `2`; it must be 1 or ''",
        ),
        (with_terms("+0·10·0·0·20"), "the terms, is `+0 10 0 0 20`; it must be five numbers"),
        (with_terms("+0·5·4·0·20"), "the terms, is"),
        (with_terms("+0·5·0·0·1001"), "the terms, is"),
        (with_terms("+34560000000001·5·0·0·20"), "the terms, is"),
        (with_terms("soon·5·0·0·20"), "the terms, is"),
        (with_terms("+0·5·0·0·20!999"), "the terms, is"),
        (with_terms("+0·5·0·0·20!+5000"), "the terms, is"),
        (with_terms("+0·5·0·0·20!5000<+9"), "the terms, is"),
        (
            format!("rushgate_1_queue_enqueue {queue} 12345678 a {TERMS} \0x"),
            "the number of keys is `39`; it must be 3 or 40",
        ),
        ("rushgate_1_queue_unique_until 1 rg:{q:q}:v a".to_owned(), "`rg:{q:NAME}:unique`"),
        (format!("{enqueue} a {TERMS} ''"), "it must be a byte 0"),
        (format!("{enqueue} a\u{2003}b {TERMS} \0x"), "the id, is `a\u{2003}b`; it must be 1 to 200 bytes"),
        (format!("{enqueue} {} {TERMS} \0x", "x".repeat(201)), "the id, is"),
        (format!("{enqueue} {} {TERMS} \0x", "ä".repeat(101)), "ä…` (202 bytes); it must be 1 to 200 bytes"),
        (
            format!("{enqueue} a {TERMS} \0{}", "x".repeat((1 << 20) + 1)),
            "x…` (1048578 bytes); it must be a byte 0 (application/octet-stream), 255 (application/json) or the \
             length of a content type and that type, and then the payload, at most 1 MiB",
        ),
        (acquire(TOKEN, "10000", "\0\n\0", owner), "is `\\x00\\x0a\\x00`; it must be 8 bytes"),
        (enqueue.clone(), "1 to 1000 of them"),
        (format!("rushgate_1_queue_enqueue {wrong_client} 12345678 a {TERMS} \0x"), "16 hexadecimal digits"),
        (format!("rushgate_1_queue_enqueue {swapped} 12345678 a {TERMS} \0x"), "KEYS[8]"),
        (format!("rushgate_1_queue_listen {listen} 00000000000000fg ''"), "it must be 16 hexadecimal digits"),
        (format!("{enqueue} a {TERMS} \u{5}a/bx"), "it must be a byte 0"),
        (format!("rushgate_1_queue_pause {listen} 2"), "the stop, is `2`; it must be 0 or 1"),
        (
            format!("rushgate_1_sale_confirm {sale} {TOKEN} short"),
            "the reservation, is `short`; it must be 16 bytes",
        ),
        (
            format!("rushgate_1_sale_settle {sale} {TOKEN} 1 {TOKEN} sold"),
            "is `sold`; it must be confirmed, cancelled",
        ),
        (format!("rushgate_1_sale_end {} {TOKEN}", sale.replace(":row", ":rows")), "`rg:{s:SALE}:row`"),
        (
            format!("rushgate_1_sale_confirm {} {TOKEN} {TOKEN}", sale.replace("{s:a}", "{q:a}")),
            "`rg:{s:SALE}:row`",
        ),
        (
            format!("rushgate_1_sale_follow_orders {sale} {TOKEN} {TOKEN} 1 0 1001 10000"),
            "the events, is `1001`; it must be 0 to 1,000",
        ),
        (
            format!(
                "rushgate_1_sale_follow_orders {sale} {TOKEN} {TOKEN} 1 0 1 10000 7 1 0 {}",
                "x".repeat(501)
            ),
            "the reason, is",
        ),
        (format!("{created} 0 1"), "it must be 1 to 10,000,000"),
        (format!("{} 1 1", create("{}")), "a JSON object"),
        (format!("{} 1 1", created.replace("{s:a}:home", "{q:a}:home")), "`rg:{s:SALE}:home`"),
        (format!("{} 1 1", created.replace("{s:a}:home", "{s:b}:home")), "`rg:{s:b}:row`"),
    ] {
        let answer = call(&server, &asked);
        assert!(answer.starts_with("-INVALID ") && answer.contains(said), "{asked}: {answer}");
    }
    assert_eq!(server.command(&["DBSIZE"]), ":0");
    assert_eq!(call(&server, &acquire(TOKEN, "10000", inbox, owner)), "*1");
    assert_eq!(call(&server, &format!("{enqueue} 用户 +5·9·3·1000·20 \0x")), "*1");
}

#[tokio::test]
async fn the_first_keys_of_groups_stand_for_all_keys() {
    let (server, _) = with_library(Kind::Redis).await;
    let firsts = "3 rg:{q:q}:meta rg:{q:q}:young:00000000000000ff rg:{q:q}:unique";
    let ids = ["a", "b", "c", "d"];
    for (at, id) in ids.into_iter().enumerate() {
        // In turns: the library derives the names once, and remembers them for both forms.
        let keys = if at % 2 == 0 { firsts.to_owned() } else { enqueue_keys("q") };
        let op = at + 10_000_000;
        assert_eq!(call(&server, &format!("rushgate_1_queue_enqueue {keys} {op} {id} {TERMS} \0x")), "*1");
    }
    for (ending, command, count) in [("records", "HLEN", 4), ("at_once", "LLEN", 4)] {
        assert_eq!(server.command(&[command, &format!("rg:{{q:q}}:{ending}")]), format!(":{count}"));
    }
    let owner = "\0\0\0\u{1}\u{1}hlabel";
    let acquire = "rushgate_1_lock_acquire 2 rg:{l:a}:lock rg:{l:b}:lock";
    let item = |token: &str| format!("{token} 10000000 0 0 \0\0\0\0\0\0\0\0 {owner}");
    assert_eq!(call(&server, &format!("{acquire} {} {}", item(TOKEN), item("fedcba9876543210"))), "*2");
    assert_eq!(call(&server, &format!("rushgate_1_lock_held {LOCK} {TOKEN}")), "*3");
    assert_eq!(call(&server, "rushgate_1_lock_held 1 rg:{l:b}:lock fedcba9876543210"), "*3");
    assert_eq!(server.command(&["DBSIZE"]), ":6", "no key has another name");
}

#[tokio::test]
async fn text_that_is_no_utf8_gets_into_no_name() {
    let (server, _) = with_library(Kind::Redis).await;
    // `server.command` sends only text, so a script on the server makes the bytes.
    let script = "
        for _, id in ipairs({ '\\255', '\\192\\128', '\\237\\160\\128', '\\244\\144\\128\\128', 'a\\128', '\\226\\130', '\\194\\133' }) do
            redis.call('RPUSH', 'names', id)
        end
        return redis.call('LLEN', 'names')";
    assert_eq!(server.command(&["EVAL", script, "0"]), ":7");
    let mut line = format!("rushgate_1_queue_cancel {} 12345678", queue_keys("q"));
    for at in 0..7 {
        let id = lindex(&server, at);
        let words: Vec<Vec<u8>> = line.split(' ').map(|word| word.as_bytes().to_vec()).chain([id]).collect();
        let answer = send(server.port(), &[vec![b"FCALL".to_vec()], words].concat());
        assert!(
            answer.starts_with(b"-INVALID ARGV[2], the id,"),
            "{at}: {}",
            String::from_utf8_lossy(&answer)
        );
    }
    line.push_str(" good");
    assert_eq!(call(&server, &line), "*1");
}

/// The character list in the library and the one in Rust are maintained separately.
#[tokio::test]
async fn the_library_takes_the_characters_that_rust_takes() {
    let (server, _) = with_library(Kind::Redis).await;
    let head = format!("rushgate_1_queue_cancel {} 12345678", queue_keys("q"));
    // They would differ at the edges of ranges. Line feeds are left out, because they end an answer.
    let edges = [
        0x20, 0x7b, 0x7d, 0x7f, 0x9f, 0xa0, 0xad, 0x34f, 0x61c, 0x115f, 0x1160, 0x1680, 0x17b4, 0x17b5,
        0x180b, 0x180f, 0x2000, 0x200a, 0x200b, 0x200f, 0x2028, 0x202a, 0x202e, 0x202f, 0x205f, 0x2060,
        0x2066, 0x206f, 0x3000, 0x3164, 0xfdd0, 0xfdef, 0xfe00, 0xfe0f, 0xfeff, 0xffa0, 0xfff0, 0xfffb,
        0x1bca0, 0x1bca3, 0x1d173, 0x1d17a, 0xe0000, 0xe0fff,
    ];
    let mut ids: Vec<_> = [".", "..", "...", "a.b"].map(str::to_owned).into();
    ids.extend(
        (edges.iter().flat_map(|at| [at - 1, *at, at + 1])).filter_map(char::from_u32).map(String::from),
    );
    let mut refused = 0;
    for id in ids {
        let words = head.split(' ').map(|word| word.as_bytes().to_vec()).chain([id.clone().into_bytes()]);
        let answer = send(server.port(), &[vec![b"FCALL".to_vec()], words.collect()].concat());
        let takes = !answer.starts_with(b"-INVALID ARGV[2], the id,");
        assert_eq!(takes, TaskId::new(&id).is_ok(), "{id:?}: {}", String::from_utf8_lossy(&answer));
        refused += u32::from(!takes);
    }
    assert!(refused > 60, "{refused}");
}

/// The library refuses a name that Rust would spell differently, for every character that NFC composes or replaces.
#[tokio::test]
async fn the_library_refuses_the_spellings_that_rust_normalizes() {
    let (server, _) = with_library(Kind::Redis).await;
    let head = format!("rushgate_1_queue_cancel {} 12345678", queue_keys("q"));
    let takes = |id: &str| {
        let words = head.split(' ').map(|word| word.as_bytes().to_vec()).chain([id.as_bytes().to_vec()]);
        let answer = send(server.port(), &[vec![b"FCALL".to_vec()], words.collect()].concat());
        !answer.starts_with(b"-INVALID ARGV[2], the id,")
    };
    let latin =
        ('A'..='Z').chain('a'..='z').flat_map(|c| ('\u{300}'..='\u{36f}').map(move |m| format!("{c}{m}")));
    let others = [
        "Zo\u{eb}",
        "\u{915}\u{93c}",
        "\u{ac01}",
        "\u{1112}\u{1161}\u{11ab}",
        "\u{ac00}\u{11a8}",
        "\u{ac01}\u{11a8}",
    ];
    let composed = (replaced().chain(composed())).flat_map(|c| [c.to_string(), c.nfd().collect()]);
    for id in latin.chain(others.map(String::from)).chain(composed) {
        let is_same = TaskId::new(&id).is_ok_and(|name| name.as_str() == id);
        assert_eq!(takes(&id), is_same, "{id:?}");
    }
    // The order of marks takes larger tables. The store keeps such a name as another one.
    assert!(
        takes("q\u{308}\u{323}") && TaskId::new("q\u{308}\u{323}").unwrap().as_str() == "q\u{323}\u{308}"
    );
}

/// Characters that NFC replaces by others.
fn replaced() -> impl Iterator<Item = char> {
    ('\0'..=char::MAX).filter(|c| !c.nfc().eq([*c]))
}

/// Characters that NFC composes of two, without the Hangul syllables.
fn composed() -> impl Iterator<Item = char> {
    ('\0'..=char::MAX)
        .filter(|c| !('\u{ac00}'..='\u{d7a3}').contains(c) && c.nfc().eq([*c]) && c.nfd().count() > 1)
}

/// The tables of `library.lua` are those of the crate with which Rust normalizes. `RUSHGATE_WRITE_TABLES=1` rewrites
/// them.
#[test]
fn the_tables_for_nfc_are_those_of_rust() {
    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/lua/library.lua");
    const WIDTH: usize = 118;
    let mut pairs = BTreeMap::<u32, Vec<u32>>::new();
    for c in composed() {
        let whole: Vec<char> = c.nfd().collect();
        let (second, first) = whole.split_last().unwrap();
        let first: Vec<char> = first.iter().copied().nfc().collect();
        assert_eq!((first.len(), compose(first[0], *second)), (1, Some(c)), "{c:?}");
        pairs.entry(u32::from(*second)).or_default().push(first[0].into());
    }
    let mut ranges = Vec::<[u32; 2]>::new();
    for c in replaced().map(u32::from) {
        match ranges.last_mut().filter(|range| range[1] + 1 == c) {
            Some(range) => range[1] = c,
            None => ranges.push([c, c]),
        }
    }
    let wrapped = |head: &str, words: &mut dyn Iterator<Item = u32>, tail: &str| {
        let (mut text, mut line) = (String::new(), head.to_owned());
        for word in words {
            let word = format!(" {word},");
            if line.len() + word.len() > WIDTH {
                text += &format!("{line}\n");
                line = "   ".to_owned();
            }
            line += &word;
        }
        format!("{text}{line}{tail}\n")
    };
    let mut tables = String::from(
        "-- Each line: a character, and those before it with which NFC composes it. Without Hangul.\n",
    );
    tables += "local COMPOSED = {\n";
    for (second, firsts) in pairs {
        tables += &wrapped("  {", &mut [second].into_iter().chain(firsts), " },");
    }
    tables += "}\n-- First and last of each range of characters that NFC replaces.\n";
    tables += &wrapped("local REPLACED_RANGES = {", &mut ranges.into_iter().flatten(), "\n}");

    let text = std::fs::read_to_string(FILE).unwrap();
    let (before, rest) = text.split_once("-- nfc: generated\n").unwrap();
    let (found, after) = rest.split_once("-- nfc: end\n").unwrap();
    if std::env::var_os("RUSHGATE_WRITE_TABLES").is_some() {
        std::fs::write(FILE, format!("{before}-- nfc: generated\n{tables}-- nfc: end\n{after}")).unwrap();
        return;
    }
    assert!(found == tables, "{FILE} is out of date; set RUSHGATE_WRITE_TABLES=1 to rewrite it");
}

fn lindex(server: &RedisServer, at: usize) -> Vec<u8> {
    let answer = send(server.port(), &[b"LINDEX".to_vec(), b"names".to_vec(), at.to_string().into_bytes()]);
    let content = answer.split(|byte| *byte == b'\n').nth(1).expect("a bulk string");
    content.strip_suffix(b"\r").expect("it ends with a line").to_vec()
}

/// Sends a command and returns everything that the server answers until it closes the connection.
fn send(port: u16, words: &[Vec<u8>]) -> Vec<u8> {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    for words in [words, &[b"QUIT".to_vec()]] {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend(format!("${}\r\n", word.len()).bytes());
            bytes.extend(word);
            bytes.extend(b"\r\n");
        }
        stream.write_all(&bytes).unwrap();
    }
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

#[tokio::test]
async fn on_a_full_server_functions_put_nothing_in_and_let_work_end() {
    let (server, _) = with_library(Kind::Redis).await;
    let queue = queue_keys("q");
    let enqueue = |op: u32, id: &str| {
        format!("rushgate_1_queue_enqueue {} {op:08} {id} {TERMS} \0x", enqueue_keys("q"))
    };
    assert_eq!(call(&server, &enqueue(1, "a")), "*1");
    let next = "fedcba9876543210";
    let acquire = |token: &str| {
        let owner = "\0\0\0\u{1}\0";
        call(&server, &format!("rushgate_1_lock_acquire {LOCK} {token} 60000000 1000000 0 inbox... {owner}"))
    };
    assert_eq!((acquire(TOKEN).as_str(), acquire(next).as_str()), ("*1", "*1"), "granted, and in line");
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_eq!(call(&server, &format!("rushgate_1_lock_release {LOCK} {TOKEN}")), "*1");
    assert!(acquire(next).starts_with("-OOM"));
    assert_eq!(call(&server, &format!("rushgate_1_lock_extend {LOCK} {next} 60000000")), "*3");
    assert!(call(&server, &enqueue(2, "b")).starts_with("-OOM"));
    assert_eq!(call(&server, &format!("rushgate_1_queue_claim {queue} 00000003 1 1000000 me")), "*1");
    assert_eq!(server.command(&["HLEN", "rg:{q:q}:records"]), ":1");
}

#[tokio::test]
async fn functions_that_only_read_may_be_called_as_such() {
    let (server, _) = with_library(Kind::Redis).await;
    for (name, may) in functions() {
        let answer = server.command(&["FCALL_RO", name, "0"]);
        assert_eq!(answer.contains("write flag"), !may, "{name}: {answer}");
    }
}

fn phones(secret: [u8; 16]) -> SaleSpec {
    let sku = |name: &str| SkuSpec { sku: Sku::new(name).unwrap(), units: 100, per_buyer: 4 };
    SaleSpec {
        id: SaleId::new("phones").unwrap(),
        skus: vec![sku("phone"), sku("\"cover\\")],
        hold: HoldTime::new(Duration::from_secs(60)).unwrap(),
        opens_at: None,
        closes_at: None,
        metadata: String::new(),
        ledger: false,
        secret: SaleSecret::from_bytes(secret),
    }
}

#[tokio::test]
async fn a_buyers_key_leads_to_the_same_reservation_by_the_function_and_by_the_store() {
    const SECRET: &str = "0123456789abcdef";
    let (server, _) = with_library(Kind::Valkey).await;
    let store = common::open(&server).await;
    let spec = phones(*SECRET.as_bytes().first_chunk().unwrap());
    store.create(spec.clone()).await.unwrap();
    store.open(&spec.id).await.unwrap();
    let ends: Vec<_> = SALE.split(' ').map(|end| format!("rg:{{s:phones}}:{end}")).collect();
    for number in 0..24 {
        let (buyer, key) = ("b".repeat(number % 12 + 1) + &number.to_string(), format!("click-{number}"));
        let line = |at: usize, quantity| Line { sku: spec.skus[at].sku.clone(), quantity };
        let id = ReservationId::derive(
            spec.secret,
            &spec.id,
            &BuyerId::new(&buyer).unwrap(),
            &IdempotencyKey::new(&key).unwrap(),
        );
        let by_function = || {
            call(
                &server,
                &format!(
                    "rushgate_1_sale_reserve_by_key 8 {} {SECRET} {key} {buyer} 0 1 2 0 1",
                    ends.join(" ")
                ),
            )
        };
        let request = Reserve {
            sale: spec.id.clone(),
            id,
            buyer: BuyerId::new(&buyer).unwrap(),
            lines: vec![line(1, 2), line(0, 1)],
            choice: UnitChoice::Any,
        };
        // The function is first for even numbers, the store for odd ones.
        if number % 2 == 0 {
            assert_eq!(by_function(), "*3");
            assert!(
                matches!(store.reserve(request).await.unwrap(), Reserved::Replayed(hold) if hold.id == id)
            );
        } else {
            assert!(matches!(store.reserve(request.clone()).await.unwrap(), Reserved::Reserved(_)));
            assert_eq!(by_function(), "*3");
        }
    }
    assert_eq!(store.sale(&spec.id).await.unwrap().skus[0].held, 24);
    let twice = format!("rushgate_1_sale_reserve_by_key 8 {} {SECRET} key ann 0 1 2 01 1", ends.join(" "));
    assert!(call(&server, &twice).contains("in no other place"));
    let strange = format!("rushgate_1_sale_reserve_by_key 8 {} {SECRET} key ann 0 7 2", ends.join(" "));
    assert_eq!(call(&server, &strange), "*2", "a line, and that its SKU is not in the sale");
}
