//! `rushgate functions` on a server.

use crate::common::Shop;
use rushgate_test::servers::{Kind, RedisSetup};

#[test]
fn the_library_is_printed_as_text_and_as_json() {
    let shop = Shop::new();
    let printed = shop.ok(&["functions", "print"]);
    assert!(printed.starts_with("#!lua name=rushgate_1\n"), "{printed}");
    let json = shop.json(&["functions", "print"]);
    assert_eq!(json["code"], printed);
    assert_eq!((&json["version"], &json["protocol"]), (&env!("CARGO_PKG_VERSION").into(), &1.into()));
    let names: Vec<_> = json["functions"].as_array().unwrap().iter().map(|of| of["name"].clone()).collect();
    assert!(names.contains(&"rushgate_1_lock_acquire".into()), "{names:?}");
}

#[test]
fn the_library_is_installed_once_and_checked_by_the_exit_status() {
    let (shop, server) = (Shop::new(), RedisSetup::new(Kind::Redis).start());
    let url = server.url();
    let on = |args: &[&'static str]| [&["functions"], args, &["--store", &url]].concat();
    let missing = shop.json_as(1, &on(&["check"]));
    assert_eq!((&missing["state"], &missing["installed"]), (&"missing".into(), &().into()));
    let installed = shop.json(&on(&["install"]));
    assert_eq!((&installed["outcome"], &installed["was"]), (&"installed".into(), &"missing".into()));
    assert_eq!(shop.json(&on(&["check"]))["state"], "same");
    assert_eq!(shop.json(&on(&["install"]))["outcome"], "unchanged");
    assert!(shop.ok(&on(&["check"])).starts_with("same: "));
}

#[test]
fn a_newer_library_is_kept_unless_it_is_forced_away() {
    let (shop, server) = (Shop::new(), RedisSetup::new(Kind::Valkey).start());
    let url = server.url();
    let on = |args: &[&'static str]| [&["functions"], args, &["--store", &url]].concat();
    let newer = shop.ok(&["functions", "print"]).replace(env!("CARGO_PKG_VERSION"), "99.1.0");
    server.command(&["FUNCTION", "LOAD", &newer]);
    assert_eq!(shop.json_as(1, &on(&["check"]))["state"], "newer");
    let refused = shop.run(&on(&["install", "--json"]));
    assert_eq!((refused.status, refused.error()["code"].clone()), (1, "newer".into()));
    assert_eq!(shop.json_as(1, &on(&["check"]))["installed"], "99.1.0");
    assert_eq!(shop.json(&on(&["install", "--force"]))["was_version"], "99.1.0");
    assert_eq!(shop.json(&on(&["check"]))["state"], "same");
}

#[test]
fn a_file_has_no_functions() {
    let said = Shop::new().run(&["functions", "check"]);
    assert_eq!(said.status, 2);
    assert!(said.err.contains("--store redis://"), "{}", said.err);
}
