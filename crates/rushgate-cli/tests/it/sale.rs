//! `rushgate sale`: N units, exactly N sold, and an audit that proves it.

use crate::common::{Said, Shop};
use serde_json::{Value, json};

/// A shop with an open sale.
fn open(sku: &str, more: &[&str]) -> Shop {
    let shop = Shop::new();
    shop.ok(&[&["sale", "create", "phones", "--sku", sku][..], more].concat());
    shop.ok(&["sale", "open", "phones"]);
    shop
}

fn reserve<'a>(buyer: &'a str, key: &'a str) -> [&'a str; 9] {
    ["sale", "reserve", "phones", "--buyer", buyer, "--line", "phone", "--key", key]
}

fn id(reserved: &Value) -> &str {
    reserved["id"].as_str().unwrap()
}

#[test]
fn two_phones_are_sold_to_two_buyers_and_to_nobody_else() {
    let shop = open("phone=2:1", &[]);
    let ann = shop.json(&reserve("ann", "k"));
    assert_eq!((&ann["outcome"], &ann["state"]), (&"reserved".into(), &"held".into()));
    assert_eq!(ann["units"], json!([{ "sku": "phone", "unit": 1 }]));
    let again = shop.json(&reserve("ann", "k"));
    assert_eq!((&again["outcome"], &again["id"]), (&"replayed".into(), &ann["id"]));
    assert_eq!(shop.json_as(1, &reserve("ann", "k2"))["outcome"], "limit_reached");
    let bob = shop.json(&reserve("bob", "k"));
    assert_eq!(shop.json_as(1, &reserve("cem", "k"))["outcome"], "all_held");
    for buyer in [&ann, &bob] {
        assert_eq!(shop.json(&["sale", "confirm", "phones", id(buyer)])["outcome"], "done");
    }
    assert_eq!(shop.json_as(1, &reserve("cem", "k"))["outcome"], "sold_out");
    let refused = shop.json_as(1, &["sale", "cancel", "phones", id(&ann)]);
    assert_eq!((&refused["outcome"], &refused["state"]), (&"refused".into(), &"confirmed".into()));
    let sku = &shop.json(&["sale", "show", "phones"])["skus"][0];
    assert_eq!((&sku["free"], &sku["confirmed"]), (&0.into(), &2.into()));
    let audit = shop.json(&["sale", "audit", "phones"]);
    assert_eq!(audit["ok"], true);
    assert!(audit["checks"].as_array().unwrap().len() >= 7);
}

#[test]
fn a_cart_of_several_skus_is_all_or_nothing() {
    let shop = open("phone=1:1", &["--sku", "case=5:2"]);
    let cart = ["--line", "case=2", "--line", "phone", "--key", "k"];
    let ann = shop.json(&[&["sale", "reserve", "phones", "--buyer", "ann"][..], &cart].concat());
    assert_eq!(ann["units"].as_array().unwrap().len(), 3);
    let bob = shop.json_as(1, &[&["sale", "reserve", "phones", "--buyer", "bob"][..], &cart].concat());
    assert_eq!((&bob["outcome"], &bob["sku"]), (&"all_held".into(), &"phone".into()));
    assert_eq!(shop.json(&["sale", "show", "phones"])["skus"][1]["free"], 3);
    let other = ["sale", "reserve", "phones", "--buyer", "ann", "--line", "case", "--key", "k"];
    assert_eq!(shop.json_as(1, &other)["outcome"], "key_reused");
}

#[test]
fn one_seat_is_taken_over_all_segments() {
    let shop = Shop::new();
    shop.ok(&["sale", "create", "train", "--sku", "a-b=3:3", "--sku", "b-c=3:3"]);
    shop.ok(&["sale", "open", "train"]);
    let take = |buyer, lines: &[&str]| {
        let args = [&["sale", "reserve", "train", "--buyer", buyer, "--key", "k"][..], lines].concat();
        shop.json(&args)["units"].clone()
    };
    take("short", &["--line", "a-b"]);
    let units = take("long", &["--line", "a-b", "--line", "b-c", "--same-number"]);
    assert_eq!(units, json!([{ "sku": "a-b", "unit": 2 }, { "sku": "b-c", "unit": 2 }]));
}

#[test]
fn a_cancelled_unit_is_sold_again_under_the_same_number() {
    let shop = open("phone=1:1", &[]);
    let ann = shop.json(&reserve("ann", "k"));
    assert_eq!(shop.json(&["sale", "cancel", "phones", id(&ann)])["state"], "cancelled");
    assert_eq!(shop.json(&reserve("bob", "k"))["units"], ann["units"]);
}

#[test]
fn holds_that_run_out_are_expired() {
    let shop = open("phone=1:1", &["--hold", "10ms"]);
    let ann = shop.json(&reserve("ann", "k"));
    shop.until(&["sale", "expire", "phones"], |said| said["expired"] == 1);
    let late = shop.json_as(1, &["sale", "confirm", "phones", id(&ann)]);
    assert_eq!((&late["outcome"], &late["state"]), (&"refused".into(), &"expired".into()));
    let kinds: Vec<_> = shop.json(&["sale", "events", "phones"]).as_array().unwrap().clone();
    let kinds: Vec<_> = kinds.iter().map(|event| event["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["opened", "reserved", "expired"]);
}

#[test]
fn stock_is_added_and_withdrawn() {
    let shop = open("phone=1:1", &[]);
    assert_eq!(shop.json(&["sale", "stock", "add", "phones", "phone", "2"])["total"], 3);
    assert_eq!(shop.json(&["sale", "stock", "withdraw", "phones", "phone", "3"])["free"], 0);
    let events = shop.json(&["sale", "events", "phones", "--after", "1"]);
    let units: Vec<_> = events.as_array().unwrap().iter().map(|event| event["units"].clone()).collect();
    let range = |first, last| json!([{ "sku": "phone", "first": first, "last": last }]);
    assert_eq!(units, [range(2, 3), range(1, 3)]);
    assert!(shop.ok(&["sale", "events", "phones"]).contains("phone#1-3"));
    let said = shop.run(&["--json", "sale", "stock", "withdraw", "phones", "phone", "1"]);
    assert_eq!((said.status, said.error()["code"].as_str()), (1, Some("not_enough")));
}

#[test]
fn metadata_comes_from_a_file_and_must_be_an_object() {
    let shop = Shop::new();
    let file = |text: &str| std::fs::write(shop.path("about.json"), text).unwrap();
    let create = ["sale", "create", "phones", "--sku", "phone=1", "--metadata", "about.json"];
    assert_eq!(shop.run(&create).status, 2, "there is no file");
    file("[]");
    let said = shop.run(&create);
    assert!(
        said.status == 2 && said.err.contains("the metadata is not a JSON object"),
        "{} {}",
        said.status,
        said.err
    );
    file(r#"{"title":"Drop"}"#);
    shop.ok(&create);
    assert_eq!(shop.run(&create).status, 1);
}

#[test]
fn a_sale_sells_only_between_its_opening_and_its_end() {
    let shop = Shop::new();
    let year_2100_ms = "4102444800000";
    shop.ok(&["sale", "create", "phones", "--sku", "phone=1", "--opens-at", year_2100_ms]);
    assert_eq!(shop.json_as(1, &reserve("ann", "k"))["outcome"], "not_open");
    shop.ok(&["sale", "open", "phones"]);
    let early = shop.json_as(1, &reserve("ann", "k"));
    assert_eq!(early["opens_at_us"], 4_102_444_800_000_000_u64);
    assert_eq!(shop.json(&["sale", "end", "phones"])["status"], "ended");
    assert_eq!(shop.json_as(1, &reserve("ann", "k"))["outcome"], "ended");
    assert_eq!(shop.json_as(1, &["sale", "open", "phones"])["status"], "ended");

    shop.ok(&["sale", "create", "hats", "--sku", "hat=1", "--closes-at", "1s"]);
    shop.ok(&["sale", "open", "hats"]);
    shop.until(&["sale", "show", "hats"], |state| state["closes_at_us"].as_u64() <= state["now_us"].as_u64());
    let shown = shop.ok(&["sale", "show", "hats"]);
    assert!(shown.starts_with("hats is closed, closed at "), "{shown}");
}

#[test]
fn what_does_not_exist_is_refused() {
    let shop = open("phone=1:1", &[]);
    let refused = |args: &[&str]| {
        let said = shop.run(&[&["--json"][..], args].concat());
        assert_eq!(said.status, 1, "{args:?}: {}", said.err);
        said
    };
    let code = |said: Said| said.error()["code"].clone();
    assert_eq!(code(refused(&["sale", "show", "nope"])), "not_found");
    assert_eq!(code(refused(&["sale", "audit", "nope"])), "not_found");
    let unknown_sku = ["sale", "reserve", "phones", "--buyer", "a", "--line", "car", "--key", "k"];
    assert_eq!(code(refused(&unknown_sku)), "not_found");
    refused(&["sale", "confirm", "phones", &"0".repeat(32)]);
    assert_eq!(shop.json_as(1, &["sale", "create", "phones", "--sku", "phone=1"])["outcome"], "exists");
    assert_eq!(shop.json(&["sale", "ls"])[0]["id"], "phones");
    assert_eq!(shop.run(&["sale", "ls", "--after", "phones"]).err, "no more sales\n");
}

#[test]
fn with_a_ledger_orders_are_carried_and_the_audit_reads_it() {
    let shop = open("phone=2:1", &["--ledger", "true"]);
    let ann = shop.json(&reserve("ann", "k"));
    assert_eq!(shop.json(&["sale", "confirm", "phones", id(&ann)])["outcome"], "pending");
    assert_eq!(shop.run(&["sale", "work", "phones", "--until-empty"]).status, 2, "no ledger is named");
    let work = shop.json(&["sale", "work", "phones", "--until-empty", "--orders", "sqlite:orders.db"]);
    assert_eq!(work["settled"], 1);
    assert_eq!(shop.json(&["sale", "confirm", "phones", id(&ann)])["outcome"], "done");
    let without = shop.run(&["sale", "audit", "phones"]);
    assert!(without.status == 2 && without.err.contains("pass --orders URL"), "{}", without.err);
    std::fs::write(shop.path("rushgate.toml"), "orders = \"sqlite:orders.db\"\n").unwrap();
    assert_eq!(shop.json(&["sale", "audit", "phones"])["ok"], true);
    shop.ok(&["sale", "work", "phones", "--until-empty", "--orders", "sqlite:another.db"]);
    std::fs::write(shop.path("rushgate.toml"), "orders = \"sqlite:another.db\"\n").unwrap();
    let text = shop.run(&["sale", "audit", "phones"]);
    assert_eq!(text.status, 1, "another ledger does not agree");
    assert!(text.out.contains("FAIL store and ledger agree"), "{}", text.out);
    assert!(text.out.contains("\nAudit FAILED ("), "{}", text.out);
}

#[test]
fn a_confirmation_can_wait_for_the_ledger() {
    let shop = open("phone=1:1", &["--ledger", "true"]);
    let ann = shop.json(&reserve("ann", "k"));
    let worker = shop.start(&["sale", "work", "phones", "--orders", "sqlite:orders.db"]);
    let done = shop.json(&["sale", "confirm", "phones", id(&ann), "--wait", "1m"]);
    assert_eq!((&done["outcome"], &done["state"]), (&"done".into(), &"confirmed".into()));
    worker.signal(rustix::process::Signal::TERM);
    let said = worker.end();
    assert_eq!(said.status, 0, "{}", said.err);
}

#[test]
fn a_sale_that_was_stopped_is_rebuilt_and_a_receipt_brings_a_lost_hold_back() {
    let shop = open("phone=3:1", &["--ledger", "true"]);
    let ledger = format!("sqlite:{}", shop.path("ledger.db").display());
    let ann = shop.json(&reserve("ann", "k"));
    let receipt = ann["receipt"].as_str().unwrap();
    assert_eq!(shop.json(&["sale", "restore", "phones", receipt])["outcome"], "known");
    assert_eq!(shop.json_as(1, &["sale", "restore", "phones", "rg1.e30.AAAA"])["why"], "unreadable");

    assert_eq!(shop.json(&["sale", "halt", "phones"])["halted"], true);
    assert_eq!(shop.json_as(1, &reserve("bob", "k"))["outcome"], "halted");
    assert_eq!(shop.json_as(1, &["sale", "confirm", "phones", id(&ann)])["outcome"], "halted");
    assert_eq!(shop.json(&["sale", "show", "phones"])["halted"]["reason"], "operator");
    let work = shop.run(&["sale", "work", "phones", "--orders", &ledger, "--until-empty"]);
    assert_eq!(work.status, 1, "{}", work.err);
    assert!(work.err.contains("the sale is halted and sells nothing"), "{}", work.err);
    let rebuild =
        ["sale", "rebuild", "phones", "--orders", &ledger, "--receipts-first", "0s", "--new-ledger"];
    let rebuilt = shop.json(&rebuild);
    assert_eq!((&rebuilt["outcome"], &rebuilt["orders"]), (&"rebuilt".into(), &1.into()));
    let shown = shop.json(&["sale", "show", "phones"]);
    assert_eq!((&shown["halted"], &shown["generation"]), (&Value::Null, &rebuilt["generation"]));
    assert_eq!(shop.json(&reserve("bob", "k"))["outcome"], "reserved");
    shop.ok(&["sale", "work", "phones", "--orders", &ledger, "--until-empty"]);
    assert_eq!(shop.json(&["sale", "audit", "phones", "--orders", &ledger])["ok"], true);
}

#[test]
fn orders_that_the_ledger_cannot_record_are_listed_and_retried() {
    let shop = open("phone=3:1", &["--ledger", "true"]);
    let work = ["sale", "work", "phones", "--until-empty", "--orders", "sqlite:orders.db"];
    let ann = shop.json(&reserve("ann", "k"));
    assert_eq!(shop.json(&work)["failed"], 0);
    let snapshot = rusqlite::Connection::open(shop.path("orders.db")).unwrap();
    let refuse = "CREATE TRIGGER refuse BEFORE INSERT ON orders WHEN NEW.buyer = 'eve'
                  BEGIN SELECT RAISE(ABORT, 'out of ink'); END";
    snapshot.execute_batch(refuse).unwrap();
    let eve = shop.json(&reserve("eve", "k"));
    shop.ok(&["sale", "confirm", "phones", id(&ann)]);
    shop.ok(&["sale", "confirm", "phones", id(&eve)]);
    let said = shop.run(&work);
    assert_eq!(said.status, 1, "{}", said.err);
    assert!(
        said.err.contains("1 failed order left: `rushgate sale orders ls phones` says why"),
        "{}",
        said.err
    );
    assert!(said.out.contains("1 reservation settled, 0 rejected, "), "{}", said.out);

    let failed = shop.json(&["sale", "orders", "ls", "phones"]);
    let seq = failed[0]["seq"].as_u64().unwrap();
    assert!(failed.as_array().unwrap().len() == 1 && failed[0]["attempts"].as_u64() >= Some(1), "{failed}");
    assert!(failed[0]["reason"].as_str().unwrap().contains("refused a statement of the ledger"), "{failed}");
    let after = seq.to_string();
    assert_eq!(shop.json(&["sale", "orders", "ls", "phones", "--after", &after]), json!([]));
    let text = shop.ok(&["sale", "orders", "ls", "phones"]);
    assert!(text.starts_with("SEQ  ATTEMPTS  RETRY AT") && text.contains("refused a statement"), "{text}");
    let shown = shop.json(&["sale", "show", "phones"]);
    assert_eq!((&shown["orders"]["failed"], &shown["orders"]["through"]), (&1.into(), &shown["seq"]));
    let text = shop.ok(&["sale", "show", "phones"]);
    assert!(text.contains("no order worker runs; 1 failed order, see `sale orders ls`"), "{text}");
    let warnings = shop.json(&["doctor", "--orders", "sqlite:orders.db"])["warnings"].clone();
    assert!(warnings.to_string().contains("sale phones has 1 failed order"), "{warnings}");

    snapshot.execute_batch("DROP TRIGGER refuse").unwrap();
    assert_eq!(shop.json(&["sale", "orders", "retry", "phones"])["failed"], 1);
    assert_eq!(shop.json(&work)["settled"], 1);
    assert_eq!(shop.json(&["sale", "orders", "ls", "phones"]), json!([]));
    assert_eq!(shop.ok(&["sale", "orders", "retry", "phones"]), "0 failed orders due now\n");
    assert_eq!(shop.json(&["sale", "audit", "phones", "--orders", "sqlite:orders.db"])["ok"], true);
}

#[test]
fn a_queue_called_orders_is_a_queue_like_any_other() {
    let shop = open("phone=2:1", &["--ledger", "true"]);
    let ann = shop.json(&reserve("ann", "k"));
    shop.ok(&["queue", "enqueue", "orders", id(&ann)]);
    assert_eq!(shop.json(&["queue", "stats", "orders"])["ready"], 1);
    shop.ok(&["queue", "pause", "orders"]);
    shop.ok(&["sale", "work", "phones", "--orders", "sqlite:orders.db", "--until-empty"]);
    assert_eq!(shop.json(&["sale", "audit", "phones", "--orders", "sqlite:orders.db"])["ok"], true);
    assert_eq!(shop.json(&["queue", "stats", "orders"])["ready"], 1);
}

#[test]
fn a_mistyped_ledger_is_not_rebuilt_from() {
    let shop = open("phone=2:1", &["--ledger", "true"]);
    shop.json(&["sale", "confirm", "phones", id(&shop.json(&reserve("ann", "k")))]);
    shop.ok(&["sale", "work", "phones", "--orders", "sqlite:orders.db", "--until-empty"]);
    let rebuild = |ledger| ["sale", "rebuild", "phones", "--receipts-first", "0s", "--orders", ledger];
    for verb in
        [&rebuild("sqlite:odrers.db")[..], &["sale", "audit", "phones", "--orders", "sqlite:odrers.db"]]
    {
        let said = shop.run(verb);
        assert_eq!(said.status, 4, "{}", said.err);
        assert!(
            said.err.contains("file `odrers.db` does not exist") && said.err.contains("--orders"),
            "{}",
            said.err
        );
        assert!(!shop.path("odrers.db").exists());
    }
    // A ledger of another sale.
    shop.ok(&["sale", "create", "hats", "--sku", "hat=1", "--ledger", "true"]);
    shop.ok(&["sale", "work", "hats", "--orders", "sqlite:hats.db", "--until-empty"]);
    let said = shop.run(&rebuild("sqlite:hats.db"));
    assert_eq!(said.status, 4, "{}{}", said.out, said.err);
    assert!(
        said.err.contains("has no record of the sale") && said.err.contains("--new-ledger"),
        "{}",
        said.err
    );
    let shown = shop.json(&["sale", "show", "phones"]);
    assert_eq!((&shown["halted"], &shown["generation"]), (&Value::Null, &1.into()), "the sale continues");

    assert_eq!(shop.json(&rebuild("sqlite:orders.db"))["orders"], 1);
    let moved = [&rebuild("sqlite:moved.db")[..], &["--new-ledger"]].concat();
    assert_eq!(shop.json(&moved)["orders"], 1);
    assert_eq!(shop.json(&["sale", "audit", "phones", "--orders", "sqlite:moved.db"])["ok"], true);
}

#[test]
fn a_sale_that_is_created_where_a_ledger_is_named_has_it() {
    let shop = Shop::new();
    let create = ["sale", "create", "phones", "--sku", "phone=1", "--orders", "sqlite:orders.db"];
    assert_eq!(shop.run(&create).status, 0);
    std::fs::write(shop.path("rushgate.toml"), "orders = \"sqlite:orders.db\"\n").unwrap();
    shop.ok(&["sale", "create", "hats", "--sku", "hat=1"]);
    shop.ok(&["sale", "create", "caps", "--sku", "cap=1", "--ledger", "false"]);
    assert_eq!(shop.json(&["sale", "show", "caps"])["ledger"], false);
    for (sale, sku) in [("phones", "phone"), ("hats", "hat")] {
        shop.ok(&["sale", "open", sale]);
        shop.ok(&["sale", "reserve", sale, "--buyer", "ann", "--line", sku, "--key", "click"]);
        shop.ok(&["sale", "work", sale, "--until-empty"]);
        let audit = shop.json(&["sale", "audit", sale]);
        let checks = audit["checks"].as_array().unwrap().iter();
        assert!(
            audit["ok"] == true && checks.clone().any(|check| check["name"] == "ledger_agrees"),
            "{audit}"
        );
    }
}

#[test]
fn a_reservation_that_has_ended_is_told_as_what_it_is_and_refused() {
    let shop = open("phone=2:1", &["--hold", "2s"]);
    let ann = shop.json(&reserve("ann", "k"));
    shop.ok(&["sale", "confirm", "phones", id(&ann)]);
    let kept = shop.json(&reserve("ann", "k"));
    assert_eq!((&kept["outcome"], &kept["state"]), (&"replayed".into(), &"confirmed".into()));
    let bob = shop.json(&reserve("bob", "k"));
    shop.ok(&["sale", "cancel", "phones", id(&bob)]);
    let gone = shop.json_as(1, &reserve("bob", "k"));
    assert_eq!((&gone["outcome"], &gone["state"]), (&"replayed".into(), &"cancelled".into()));
    // Without a sweep, the store still shows the expired hold as held.
    let cem = shop.json(&reserve("cem", "k"));
    shop.until(&["sale", "show", "phones"], |sale| sale["now_us"].as_u64() > cem["deadline_us"].as_u64());
    let late = shop.run(&reserve("cem", "k"));
    assert_eq!(late.status, 1, "{}", late.out);
    assert_eq!(late.out, format!("replayed {} phone#2 expired\n", id(&cem)));
}

#[test]
fn a_receipt_is_printed_and_read_again() {
    let shop = open("phone=1:1", &[]);
    let said = shop.ok(&reserve("ann", "k"));
    let receipt = said.lines().find_map(|line| line.strip_prefix("receipt ")).unwrap();
    assert_eq!(shop.json(&["sale", "restore", "phones", receipt])["outcome"], "known");
}

#[test]
fn a_hold_lasts_five_minutes_unless_said_otherwise() {
    let shop = open("phone=1:1", &[]);
    assert_eq!(shop.json(&["sale", "show", "phones"])["hold_ms"], 300_000);
    assert!(shop.ok(&["sale", "show", "phones"]).contains("holds last 5m;"));
}
