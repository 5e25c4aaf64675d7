//! `rushgate rush --join`: a sale that already exists, or that several processes sell.

use crate::common::{Said, Shop};
use serde_json::Value;

/// Joins the sale `launch`, and returns the outcome with the report.
fn join(shop: &Shop, more: &[&str]) -> (Said, Value) {
    let said = shop.run(&[&["--json", "rush", "--join", "launch"][..], more].concat());
    let report = serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {}", said.err));
    (said, report)
}

/// A shop whose store is configured in rushgate.toml.
fn shop() -> Shop {
    let shop = Shop::new();
    std::fs::write(shop.path("rushgate.toml"), "store = \"sqlite:store.db\"\n").unwrap();
    shop
}

/// Status of the sale.
fn status(shop: &Shop) -> Value {
    shop.json(&["sale", "show", "launch"])["status"].clone()
}

#[test]
fn a_joined_sale_is_audited_against_its_own_stock() {
    let shop = shop();
    let (first, report) = join(&shop, &["--stock", "150", "--buyers", "20", "--hold", "200ms"]);
    assert_eq!(first.status, 0, "{report:#}");
    // Ten times the default stock, and exactly as many buyers as units.
    let (said, report) = join(&shop, &["--buyers", "150"]);
    assert_eq!((said.status, &report["units"]), (0, &150.into()), "{report:#}");
    assert!(!said.err.contains("warning"), "{}", said.err);
}

#[test]
fn options_that_a_joined_sale_does_not_have_are_told() {
    let shop = shop();
    shop.ok(&["sale", "create", "launch", "--sku", "phone=5:1", "--hold", "1s"]);
    let given = ["--buyers", "20", "--stock", "7", "--hold", "2s", "--per-buyer", "3"];
    let (said, _) = join(&shop, &given);
    assert!(said.err.contains("warning: sale `launch` already exists"), "{}", said.err);
    for part in ["5 units, not 7", "1 per buyer, not 3", "holds of 1s, not 2s"] {
        assert!(said.err.contains(part), "{part}: {}", said.err);
    }
    let (said, _) = join(&shop, &["--buyers", "20", "--stock", "5", "--hold", "1s", "--per-buyer", "1"]);
    assert!(!said.err.contains("warning"), "{}", said.err);
}

#[test]
fn other_goods_of_a_joined_sale_may_stay() {
    let shop = shop();
    shop.ok(&["sale", "create", "launch", "--sku", "phone=2", "--sku", "hat=5", "--hold", "200ms"]);
    let (said, report) = join(&shop, &["--buyers", "100"]);
    assert_eq!((said.status, &report["confirmed"]), (0, &2.into()), "{report:#}");
}

#[test]
fn a_sale_that_is_over_is_no_failure_of_the_audit() {
    let shop = shop();
    shop.ok(&["sale", "create", "launch", "--sku", "phone=2"]);
    shop.ok(&["sale", "open", "launch"]);
    shop.ok(&["sale", "end", "launch"]);
    let (said, report) = join(&shop, &["--buyers", "100"]);
    assert_eq!((said.status, &report["free"]), (0, &2.into()), "{report:#}");
}

#[test]
fn a_sale_without_the_goods_is_refused_and_stays_closed() {
    let shop = shop();
    shop.ok(&["sale", "create", "launch", "--sku", "hat=5"]);
    let said = shop.run(&["--json", "rush", "--join", "launch", "--buyers", "50"]);
    assert_eq!((said.status, said.error()["code"].as_str()), (1, Some("not_found")), "{}", said.err);
    assert!(said.err.contains("has no SKU `phone`"), "{}", said.err);
    assert_eq!(status(&shop), "created");
}

#[test]
fn a_bad_ledger_leaves_no_sale_behind() {
    let shop = shop();
    let said = shop.run(&["rush", "--join", "launch", "--orders", "sqlite:/tmp"]);
    assert_eq!(said.status, 4, "{}", said.err);
    assert_eq!(shop.run(&["sale", "show", "launch"]).status, 1, "there is no such sale");
}

#[test]
fn a_bad_name_is_refused_before_a_file_is_made() {
    let shop = Shop::new();
    for name in ["", "a b"] {
        let said = shop.run(&["rush", "--join", name, "--store", "sqlite:x.db"]);
        assert_eq!(said.status, 2, "{}", said.err);
    }
    assert!(!shop.path("x.db").exists());
}

#[test]
fn the_store_to_join_on_is_required_and_may_come_from_the_file() {
    let named = shop();
    let (said, _) = join(&named, &["--stock", "1", "--buyers", "20"]);
    assert_eq!(said.status, 0, "{}", said.err);
    assert!(named.path("store.db").exists());
    let said = Shop::new().run(&["rush", "--join", "launch"]);
    assert_eq!(said.status, 2, "{}", said.err);
    assert!(said.err.contains("--join requires a store"), "{}", said.err);
}

#[test]
fn carts_that_nobody_comes_back_for_are_told_with_their_end() {
    let shop = shop();
    shop.ok(&["sale", "create", "launch", "--sku", "phone=50", "--hold", "3s"]);
    let said = shop.run(&["rush", "--join", "launch", "--buyers", "50", "--seed", "1"]);
    assert_eq!(said.status, 0, "{}", said.err);
    assert!(
        said.err.contains("waiting until ") && said.err.contains(" to be paid for or to expire"),
        "{}",
        said.err
    );
    assert!(!said.out.contains("sold again"), "units stayed free: {}", said.out);
}
