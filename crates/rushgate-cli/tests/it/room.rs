//! `rushgate sale room` and `rushgate sale draw`: position, turn, admission token, and a verifiable draw.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::common::Shop;
use serde_json::{Value, json};

fn open() -> Shop {
    let shop = Shop::new();
    shop.ok(&["sale", "create", "phones", "--sku", "phone=2"]);
    shop.ok(&["sale", "open", "phones"]);
    shop
}

fn set<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["sale", "room", "set", "phones", "--rate"][..], more].concat()
}

fn of<'a>(verb: &'a str, buyer: &'a str) -> [&'a str; 6] {
    ["sale", "room", verb, "phones", "--buyer", buyer]
}

#[test]
fn the_first_is_let_in_and_the_second_waits() {
    let shop = open();
    assert_eq!(shop.json_as(1, &["sale", "room", "show", "phones"])["outcome"], "no_room");
    let room = shop.json(&set(&["1/1h"]));
    assert_eq!(
        (&room["rate"], &room["order"]),
        (&json!({ "n": 1, "per_ms": 3_600_000 }), &"first_come".into())
    );
    assert_eq!(shop.json_as(1, &of("enter", "ann"))["state"], "not_in");
    assert_eq!(shop.json(&of("join", "ann"))["serial"], 0);
    let bob = shop.json(&of("join", "bob"));
    assert_eq!((&bob["state"], &bob["ahead"]), (&"waiting".into(), &0.into()));
    assert_eq!(shop.json(&of("join", "bob"))["serial"], bob["serial"], "he keeps his place");
    let ann = shop.json(&of("enter", "ann"));
    assert_eq!(ann["state"], "admitted");
    assert!(ann["pass"].as_str().unwrap().starts_with("rgp1."));
    assert!(shop.ok(&of("enter", "ann")).contains(ann["pass"].as_str().unwrap()));
    assert_eq!(shop.json_as(1, &of("enter", "bob"))["state"], "waiting");
    let shown = shop.ok(&["sale", "room", "show", "phones"]);
    assert!(
        shown.starts_with("2 joined, 1 served, 1 admitted\n1 per 1h, admission tokens last 1m\n"),
        "{shown}"
    );
    assert_eq!(shop.json(&["sale", "room", "close", "phones"])["closed"], true);
    assert_eq!(shop.json_as(1, &["sale", "room", "close", "phones"])["closed"], false);
    assert_eq!(shop.json(&of("enter", "bob"))["state"], "no_room");
}

#[test]
fn a_waiter_is_let_in_and_a_sold_out_sale_is_closed() {
    let shop = open();
    shop.ok(&set(&["5/1s"]));
    for buyer in ["ann", "bob"] {
        shop.ok(&of("join", buyer));
    }
    let bob = shop.json(&[&of("enter", "bob")[..], &["--wait", "20s"]].concat());
    assert_eq!(bob["state"], "admitted");
    shop.ok(&["sale", "end", "phones"]);
    assert_eq!(shop.json_as(1, &of("join", "cid"))["state"], "closed");
}

#[test]
fn rules_outside_their_range_are_refused() {
    let shop = open();
    for rules in [&["0/1s"][..], &["1/0s"], &["x"], &["1/1s", "--pass", "1ms"], &["1/1s", "--from", "7"]] {
        assert_eq!(shop.run(&set(rules)).status, 2, "{rules:?}");
    }
    shop.ok(&set(&["1/1s"]));
    let said = shop.run(&set(&["1/1s", "--draw"]));
    assert!(said.status == 2 && said.err.contains("close the room first"), "{}", said.err);
    let room = shop.json(&set(&["2/1s", "--pass", "5m"]));
    let slower = shop.json(&set(&["1/1s"]));
    assert_eq!(
        (&slower["pass_ms"], &slower["rate"]["n"]),
        (&room["pass_ms"], &1.into()),
        "what is not said stays"
    );
    let said = shop.run(&["sale", "room", "draw", "phones", "--beacon", "b"]);
    assert!(said.status == 2 && said.err.contains("without a draw"), "{}", said.err);
    assert_eq!(shop.run(&["sale", "room", "close-entry", "phones"]).status, 2);
    shop.ok(&["sale", "room", "close", "phones"]);
    assert_eq!(shop.json_as(1, &["sale", "room", "close-entry", "phones"])["outcome"], "no_room");
}

/// A room with five buyers after its draw; returns its record as JSON.
fn drawn(shop: &Shop) -> Value {
    let commitment = shop.json(&set(&["1/1s", "--draw"]))["commitment"].clone();
    for buyer in ["ann", "bob", "cid", "dan", "eve"] {
        let joined = shop.json(&of("join", buyer));
        assert_eq!((&joined["state"], &joined["place"]), (&"waiting".into(), &Value::Null));
    }
    let draw = |beacon| ["sale", "room", "draw", "phones", "--beacon", beacon];
    let open = shop.json_as(1, &draw("07 12 18"));
    assert_eq!((&open["outcome"], &open["joined"]), (&"entry_open".into(), &5.into()));
    let closed = shop.json(&["sale", "room", "close-entry", "phones"]);
    assert_eq!((&closed["entrants"], &closed["beacon"]), (&5.into(), &Value::Null));
    let late = shop.json(&of("join", "fay"));
    assert_eq!((&late["place"], &late["ahead"], &late["wait_ms"]), (&5.into(), &5.into(), &Value::Null));
    let again = shop.json(&["sale", "room", "close-entry", "phones"]);
    assert_eq!((&again["entry_closed_us"], &again["joined"]), (&closed["entry_closed_us"], &6.into()));
    let told = shop.ok(&["sale", "room", "show", "phones"]);
    assert!(told.contains(": 5 entrants; 1 wait behind them\n"), "{told}");
    let record = shop.json(&draw("07 12 19"));
    assert_eq!((&record["commitment"], &record["entrants"]), (&commitment, &5.into()));
    assert_eq!(record["entry_closed_us"], closed["entry_closed_us"]);
    assert_eq!(shop.json_as(1, &draw("other"))["beacon"], "07 12 19");
    record
}

/// Result of the documented Python program for a record.
fn by_python(record: &Value) -> Value {
    let docs = include_str!("../../../../docs/draw.md");
    let program = docs.split("```python\n").nth(1).unwrap().split("```").next().unwrap();
    let mut python = Command::new("python3");
    python.args(["-c", program]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut python = python.spawn().expect("python3 is installed");
    python.stdin.take().unwrap().write_all(record.to_string().as_bytes()).unwrap();
    serde_json::from_slice(&python.wait_with_output().unwrap().stdout).unwrap()
}

#[test]
fn a_draw_is_checked_by_anybody_and_a_forged_one_is_found_out() {
    let shop = open();
    let mut record = drawn(&shop);
    let verify = |record: &Value, status: i32, more: &[&str]| {
        std::fs::write(shop.path("draw.json"), record.to_string()).unwrap();
        shop.json_as(status, &[&["sale", "draw", "verify", "draw.json"][..], more].concat())
    };
    let said = verify(
        &record,
        0,
        &["--serial", "0", "--serial", "1", "--serial", "2", "--serial", "3", "--serial", "4"],
    );
    let places: Vec<_> = said["places"].as_array().unwrap().iter().map(|of| of["place"].clone()).collect();
    assert_eq!(Value::from(places.clone()), by_python(&record));
    let first = places.iter().position(|place| *place == 0).unwrap();
    let buyer = ["ann", "bob", "cid", "dan", "eve"][first];
    assert_eq!(shop.json(&of("enter", buyer))["state"], "admitted");
    let published = record["commitment"].as_str().unwrap().to_owned();
    let said = verify(&record, 0, &["--commitment", &published, "--entrants", "5"]);
    assert_eq!((&said["commitment"], &said["beacon"]), (&record["commitment"], &record["beacon"]));
    assert_eq!(said["entry_closed_us"], record["entry_closed_us"]);
    // Anyone can verify a draw, without access to the store.
    std::fs::create_dir(shop.path("elsewhere")).unwrap();
    let checked = shop
        .command(&["sale", "draw", "verify", "../draw.json"])
        .current_dir(shop.path("elsewhere"))
        .output()
        .unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    // If buyers were added after the number was published, the published number reveals it.
    let said = verify(&record, 1, &["--entrants", "4"]);
    assert_eq!(said["why"], "it has 5 entrants, but 4 were published");
    // A beacon that differs from the announced one in a single byte is refused.
    let beacon = record["beacon"].as_str().unwrap().to_owned();
    verify(&record, 0, &["--beacon", &beacon]);
    let said = verify(&record, 1, &["--beacon", &format!("{beacon} ")]);
    assert_eq!(said["why"], format!("its beacon is `{beacon}`, not `{beacon} `"));
    let checked = shop.run(&["sale", "draw", "verify", "draw.json", "--commitment", &published]);
    assert!(checked.status == 0 && checked.err.contains("--entrants"), "{}", checked.err);
    assert!(checked.err.contains("--beacon"), "{}", checked.err);
    let mut open = record.clone();
    open.as_object_mut().unwrap().remove("entry_closed_us");
    verify(&open, 0, &[]);
    let checked = shop.run(&["sale", "draw", "verify", "draw.json", "--commitment", &published]);
    assert!(checked.err.contains("the entry was not closed before the draw"), "{}", checked.err);
    // If the secret and its commitment are replaced together, the commitment published before reveals it.
    let mut exchanged = record.clone();
    exchanged["secret"] = "00".repeat(32).into();
    exchanged["commitment"] = "66687aadf862bd776c8fc18b8e9f8e20089714856ee233b3902a591d0d5f2925".into();
    verify(&exchanged, 0, &[]);
    let said = verify(&exchanged, 1, &["--commitment", &published]);
    assert!(said["why"].as_str().unwrap().contains("published"), "{said}");
    record["places"] = json!([[0, places[0]], [1, places[2]]]);
    assert!(verify(&record, 1, &[])["why"].as_str().unwrap().contains("serial 1 has position"));
    record["places"] = json!([]);
    record["secret"] = "00".repeat(32).into();
    assert!(verify(&record, 1, &[])["why"].as_str().unwrap().contains("does not match its commitment"));
    let said = shop.with_stdin(&["sale", "draw", "verify", "-"], b"{}");
    assert!(said.status == 2 && said.err.contains("is not a draw record"), "{}", said.err);
}

#[test]
fn the_vectors_of_the_documents_hold() {
    let secret: String = (0..32).map(|byte| format!("{byte:02x}")).collect();
    let commitment = "630dcd2966c4336691125448bbb25b4ff412a49c732db2c8abc1b8581bd710dd";
    let docs = include_str!("../../../../docs/draw.md");
    for entrants in [2, 5, 10] {
        let record = json!({
            "sale": "s", "secret": secret, "commitment": commitment, "beacon": "07 12 19 23 38 41",
            "entrants": entrants,
        });
        let places = by_python(&record).to_string();
        let row = format!("| {entrants} | {} |", places.trim_matches(['[', ']']).replace(',', ", "));
        assert!(docs.contains(&row), "{row}");
    }
}
