//! `rushgate doctor` on servers with weak settings, and on some that refuse writes.

use crate::common::Shop;
use rushgate_test::servers::{Kind, PostgresServer, RedisServer, RedisSetup, SentinelSetup};
use serde_json::Value;

const KINDS: [Kind; 2] = [Kind::Redis, Kind::Valkey];

/// Warnings of `doctor`, and whether `--strict` passed.
fn found(url: &str, more: &[&str]) -> (Vec<(String, String)>, bool) {
    let said = Shop::new().run(&[&["--json", "--store", url, "doctor", "--strict"], more].concat());
    let found: Value =
        serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {}", said.err));
    assert!(found["server"].as_str().is_some_and(|server| !server.is_empty()), "{found}");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let warnings = found["warnings"].as_array().unwrap();
    let warnings = warnings.iter().map(|warning| (text(&warning["what"]), text(&warning["fix"]))).collect();
    (warnings, said.status == 0)
}

fn all_is_well(url: &str) -> bool {
    let (warnings, passed) = found(url, &[]);
    warnings.is_empty() && passed
}

fn assert_write_fails(server: &RedisServer, hint: &str) {
    let (warnings, passed) = found(&server.url(), &[]);
    let (what, fix) = &warnings[0];
    assert!(what.starts_with("a test write failed: ") && fix.contains(hint) && !passed, "{warnings:?}");
}

fn set(server: &RedisServer, name: &str, value: &str) {
    assert_eq!(server.command(&["CONFIG", "SET", name, value]), "+OK");
}

/// A server without findings.
fn durable(kind: Kind) -> RedisServer {
    RedisSetup::new(kind).with(&["--appendfsync", "always", "--enable-protected-configs", "yes"]).start()
}

#[test]
fn what_a_failover_may_lose_is_said() {
    let group = SentinelSetup::new(Kind::Redis).of(1, 1).with(&["--appendfsync", "always"]).start();
    let (warnings, passed) = found(&group.url(), &[]);
    let [(what, fix)] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(what.contains("failover may lose") && fix.contains("min-replicas-to-write") && !passed);
    group.servers.iter().for_each(|server| set(server, "min-replicas-to-write", "1"));
    assert!(all_is_well(&group.url()));
}

#[test]
fn only_settings_that_are_missing_are_advised() {
    let server = durable(Kind::Redis);
    let advice = || found(&server.url(), &[]).0.into_iter().map(|(_, fix)| fix).collect::<Vec<_>>().concat();
    set(&server, "appendfsync", "everysec");
    let fix = advice();
    assert!(fix.contains("set `appendfsync always`") && !fix.contains("appendonly"), "{fix}");
    set(&server, "appendfsync", "always");
    set(&server, "appendonly", "no");
    let fix = advice();
    assert!(fix.starts_with("set `appendonly yes`"), "{fix}");
    assert!(!fix.contains("min-replicas"), "replicas do not help without a log: {fix}");
    set(&server, "appendonly", "yes");
    assert_eq!(advice(), "");
}

#[test]
fn the_state_of_the_functions_is_said_in_words() {
    let server = durable(Kind::Redis);
    let url = server.url();
    let shop = Shop::new();
    let text = shop.ok(&["--store", &url, "doctor"]);
    let line = text.lines().find_map(|line| line.strip_prefix("functions ")).unwrap().trim();
    assert_eq!(line, format!("version {}, up to date", env!("CARGO_PKG_VERSION")));
    let newer = shop.ok(&["functions", "print"]).replace(env!("CARGO_PKG_VERSION"), "99.0.0");
    assert_eq!(server.command(&["FUNCTION", "LOAD", "REPLACE", &newer]), "$10");
    let (warnings, passed) = found(&url, &[]);
    let [(what, fix)] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(what.contains("99.0.0, which is newer than") && !passed, "{what}");
    assert!(fix.contains("install --force"), "{fix}");
    shop.ok(&["--store", &url, "functions", "install", "--force"]);
    assert!(all_is_well(&url));
}

#[test]
fn a_foreign_library_of_the_same_name_is_said_and_kept() {
    let server = durable(Kind::Redis);
    server.command(&["FUNCTION", "LOAD", FOREIGN]);
    let said = Shop::new().run(&["--store", &server.url(), "doctor", "--json"]);
    let error = said.error();
    assert_eq!(error["code"], "misconfigured", "{error}");
    assert!(error["hint"].as_str().unwrap().contains("FUNCTION DELETE rushgate_1"), "{error}");
    assert!(server.ask(&["FUNCTION", "LIST"]).concat().contains("other"));
}

/// A foreign library with the same name.
const FOREIGN: &str = "#!lua name=rushgate_1\nredis.register_function('other', function() return 1 end)";

#[test]
fn settings_that_cannot_be_read_are_said() {
    let server = durable(Kind::Valkey);
    let rules =
        ["ACL", "SETUSER", "shop", "on", ">word", "~rg:*", "&rg:in:*", "+@all", "-@dangerous", "+info"];
    assert_eq!(server.command(&rules), "+OK");
    let (warnings, passed) = found(&server.url().replace("//", "//shop:word@"), &[]);
    let [(_, fix)] = &warnings[..] else { panic!("`appendfsync always` is set: {warnings:?}") };
    assert!(fix == "grant the user +config|get" && !passed, "{warnings:?}");
}

#[test]
fn a_server_without_memory_is_found_out() {
    for server in KINDS.map(durable) {
        assert!(all_is_well(&server.url()));
        set(&server, "maxmemory", "1");
        assert_write_fails(&server, "raise `maxmemory`");
    }
}

#[test]
fn a_server_without_its_replicas_is_found_out() {
    for server in KINDS.map(durable) {
        set(&server, "min-replicas-to-write", "1");
        assert_write_fails(&server, "min-replicas-to-write");
    }
}

#[test]
fn a_server_that_cannot_save_is_found_out() {
    for server in KINDS.map(durable) {
        set(&server, "save", "3600 1");
        std::fs::remove_dir_all(server.folder()).unwrap();
        while !server.ask(&["INFO", "persistence"]).concat().contains("rdb_last_bgsave_status:err") {
            server.command(&["BGSAVE"]);
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert_write_fails(&server, "disk");
    }
}

#[test]
fn a_ledger_that_cannot_be_used_is_said_with_what_helps() {
    let server = durable(Kind::Redis);
    let ledger = PostgresServer::start();
    let cases = [
        ("postgres://u@127.0.0.1/x?foo=2".to_owned(), "is malformed", "use postgres://USER"),
        ("mysql://u@127.0.0.1/x".to_owned(), "which is not supported", "use sqlite:PATH"),
        (
            format!("postgres://nobody:word@127.0.0.1:{}/x", ledger.port()),
            "rejected the user",
            "the password in the URL",
        ),
    ];
    for (url, word, hint) in cases {
        let (warnings, _) = found(&server.url(), &["--orders", &url]);
        let (what, fix) = &warnings[0];
        assert!(what.starts_with("cannot use the ledger: ") && what.contains(word), "{warnings:?}");
        assert!(fix.contains(hint), "{warnings:?}");
    }
}
