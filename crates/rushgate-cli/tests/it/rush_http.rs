//! `rushgate rush --url`: buyers against a server.

use crate::common;
use std::time::{Duration, Instant};

use crate::common::rushes::assert_audited;
use crate::common::{Running, Shop};
use rustix::process::Signal;
use serde_json::Value;

const BOOKS: [&str; 4] = ["--store", "sqlite:store.db", "--orders", "sqlite:orders.db"];
const SHOW: [&str; 5] = ["--store", "sqlite:store.db", "sale", "show", "launch"];

/// Starts a server, and returns its URL.
fn serve(shop: &Shop, args: &[&str]) -> (Running, String) {
    let mut running = shop.start(&[&["serve"], args].concat());
    let url = running.line();
    assert!(url.starts_with("http://127.0.0.1:"), "{url}");
    (running, url)
}

/// Starts a crowd that joins the sale `launch`, and waits until it has created the sale.
fn join_launch(shop: &Shop, url: &str, options: &str) -> Running {
    let rush = ["--json", "--quiet", "rush", "--url", url, "--join", "launch"];
    let crowd = shop.start(&rush.into_iter().chain(options.split(' ')).collect::<Vec<_>>());
    let start = Instant::now();
    while shop.run(&[&["--json"], &SHOW[..]].concat()).status != 0 {
        assert!(start.elapsed() < Duration::from_secs(30), "the crowd creates its sale");
    }
    crowd
}

fn kill(server: Running) {
    server.signal(Signal::KILL);
    server.end();
}

fn stop(server: Running) {
    server.signal(Signal::TERM);
    let said = server.end();
    assert_eq!(said.status, 0, "{}", said.err);
}

/// Report of a simulation that must have passed its audit.
fn report(crowd: Running) -> Value {
    let said = crowd.end();
    let report: Value =
        serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {}{}", said.out, said.err));
    assert_audited(&report);
    assert_eq!(said.status, 0, "{report:#}");
    report
}

fn number(of: &Value) -> u64 {
    of.as_u64().unwrap_or_else(|| panic!("{of} is no number"))
}

#[test]
fn a_crowd_over_http_buys_exactly_what_there_is_and_the_audit_holds() {
    let shop = Shop::new();
    let (server, url) = serve(&shop, &[&["--listen", "127.0.0.1:0"], &BOOKS[..]].concat());
    let crowd = shop.start(&[
        "--json", "--quiet", "rush", "--url", &url, "--stock", "20", "--buyers", "1000", "--within", "1s",
        "--hold", "500ms", "--concurrency", "32",
    ]);
    let report = report(crowd);
    assert_eq!((number(&report["confirmed"]), number(&report["free"])), (20, 0));
    assert_eq!(report["url"], url);
    let answers = report["answers"].as_object().unwrap();
    assert_eq!(answers.values().filter_map(Value::as_u64).sum::<u64>(), number(&report["attempts"]));
    assert_eq!(answers["failed"], 0, "{}", report["first_error"]);
    assert!(number(&report["attempts"]) > 1_000, "some click more than once");
    // Latency includes the wait for a connection.
    let at = |kind: &str, quantile: &str| report[kind][quantile].as_f64().unwrap();
    for quantile in ["p50", "p99", "max"] {
        assert!(at("latency_us", quantile) >= at("served_us", quantile), "{report:#}");
    }
    // A sale that was not joined is ended.
    let sale = report["sale"].as_str().unwrap();
    assert_eq!(shop.json(&["--store", "sqlite:store.db", "sale", "show", sale])["status"], "ended");
    stop(server);
}

#[test]
fn a_server_killed_under_load_loses_no_reservation_and_the_crowd_continues() {
    let shop = Shop::new();
    let (server, url) = serve(&shop, &[&["--listen", "127.0.0.1:0"], &BOOKS[..]].concat());
    let crowd = join_launch(&shop, &url, "--stock 400 --buyers 2000 --within 4s --hold 2s --concurrency 64");
    let sold = |least: u64| move |sale: &Value| sale["skus"][0]["confirmed"].as_u64() > Some(least);
    shop.until(&SHOW, sold(5));
    kill(server);
    let address = url.strip_prefix("http://").unwrap();
    let (server, again) = serve(&shop, &[&["--listen", address], &BOOKS[..]].concat());
    assert_eq!(again, url);
    let report = report(crowd);
    assert!(number(&report["asked_again"]) > 0, "it was away: {report:#}");
    assert_eq!((&report["answers"]["failed"], &report["receipts"]["lost"]), (&0.into(), &0.into()));
    assert!(number(&report["payments"]["confirmed"]) > 5);
    stop(server);
}

#[test]
fn what_the_ledger_has_is_sold_after_a_server_lost_writes_and_the_audit_holds() {
    let shop = Shop::new();
    let (server, url) = serve(&shop, &[&["--listen", "127.0.0.1:0"], &BOOKS[..]].concat());
    let address = url.strip_prefix("http://").unwrap();
    let again = || serve(&shop, &[&["--listen", address], &BOOKS[..]].concat()).0;
    let crowd = join_launch(&shop, &url, "--stock 1000 --buyers 1000 --within 6s --hold 5s --concurrency 32");
    let confirmed = |sale: &Value| number(&sale["skus"][0]["confirmed"]);
    let saved = confirmed(&shop.until(&SHOW, |sale| confirmed(sale) > 5));
    kill(server);
    let files = ["store.db", "store.db-wal"].map(|name| (shop.path(name), shop.path(&format!("old.{name}"))));
    for (file, copy) in files.iter().filter(|(file, _)| file.exists()) {
        std::fs::copy(file, copy).unwrap();
    }
    let server = again();
    let recorded = confirmed(&shop.until(&SHOW, |sale| confirmed(sale) > saved + 50));
    kill(server);
    // As after the restore of a backup. The ledger has the orders that followed.
    let _ = std::fs::remove_file(shop.path("store.db-shm"));
    for (file, copy) in &files {
        let _ = std::fs::remove_file(file);
        if copy.exists() {
            std::fs::copy(copy, file).unwrap();
        }
    }
    let server = again();
    shop.until(&SHOW, |sale| !sale["halted"].is_null());
    shop.ok(&["--store", "sqlite:store.db", "sale", "rebuild", "launch", "--orders", "sqlite:orders.db"]);
    let report = report(crowd);
    let receipts = ["lost", "restored"].map(|outcome| number(&report["receipts"][outcome]));
    assert!(number(&report["generation"]) > 1 && receipts.iter().sum::<u64>() > 0, "{report:#}");
    assert!(number(&report["payments"]["confirmed"]) >= recorded, "{report:#}");
    stop(server);
}

#[test]
fn a_demo_opens_a_sale_of_its_own_and_leaves_nothing_behind() {
    let shop = Shop::new();
    let mut server = shop.start(&["--json", "serve", "--demo", "--listen", "127.0.0.1:0"]);
    let said: Value = serde_json::from_str(&server.line()).unwrap();
    let (url, sale) = (said["url"].as_str().unwrap(), said["sale"].as_str().unwrap());
    assert_eq!(sale, "demo");
    let store = said["store"].as_str().unwrap().trim_start_matches("sqlite:").to_owned();
    let file = std::path::PathBuf::from(store.split('?').next().unwrap());
    assert!(file.exists(), "{}", file.display());
    let crowd = shop.start(&[
        "--json", "--quiet", "rush", "--url", url, "--join", sale, "--buyers", "50", "--within", "0s",
    ]);
    let report = report(crowd);
    assert_eq!((number(&report["units"]), &report["joined"]), (5_000, &true.into()));
    assert!(number(&report["confirmed"]) > 0);
    stop(server);
    assert!(!file.exists(), "{}", file.display());
    assert_eq!(shop.dir.path().read_dir().unwrap().count(), 0);
}

#[test]
fn a_signal_sends_the_crowd_home_and_the_audit_holds() {
    let shop = Shop::new();
    let (server, url) = serve(&shop, &[&["--listen", "127.0.0.1:0"], &BOOKS[..]].concat());
    let crowd = join_launch(&shop, &url, "--stock 100000 --buyers 1000000 --within 1h --hold 1h");
    shop.until(&SHOW, |sale| sale["skus"][0]["confirmed"].as_u64() > Some(0));
    crowd.signal(Signal::INT);
    let report = report(crowd);
    assert_eq!(report["interrupted"], true);
    stop(server);
}

#[test]
fn a_crowd_needs_a_server_and_a_token_of_an_operator_and_says_so() {
    let shop = Shop::new();
    let said = shop.run(&["--json", "rush", "--url", "http://127.0.0.1:1"]);
    assert_eq!((said.status, said.error()["code"].as_str()), (4, Some("unavailable")), "{}", said.err);
    let said = shop.run(&["--json", "rush", "--url", "127.0.0.1:7979"]);
    assert_eq!(said.status, 2, "{}", said.err);
    assert_eq!(shop.run(&["rush", "--within", "1s"]).status, 2, "the option requires --url");
    let said = shop.run(&["rush", "--url", "http://127.0.0.1:1", "--keep"]);
    assert!(said.status == 2 && said.err.contains("--keep and --url exclude each other"), "{}", said.err);

    let token = |role: &str| {
        let made = shop.json(&["token", "create", role, "--role", role]);
        made["token"].as_str().unwrap().to_owned()
    };
    let (buyer, operator) = (token("buyer"), token("operator"));
    let (server, url) =
        serve(&shop, &[&["--listen", "127.0.0.1:0", "--tokens", "tokens.json"], &BOOKS[..]].concat());
    let rush =
        ["--json", "--quiet", "rush", "--url", &url, "--buyers", "20", "--within", "0s", "--hold", "200ms"];
    for wrong in ["", &buyer, "rg_not-a-token"] {
        let said = shop.command(&rush).env("RUSHGATE_TOKEN", wrong).output().unwrap().into();
        let said: common::Said = said;
        assert_eq!(said.status, 3, "{}", said.err);
        assert!(
            wrong.is_empty() || !format!("{}{}", said.out, said.err).contains(wrong),
            "the output contains a token"
        );
    }
    std::fs::write(shop.path("token"), &operator).unwrap();
    let profile = format!("[profiles.there]\nurl = {url:?}\ntoken_file = \"token\"\n");
    std::fs::write(shop.path("rushgate.toml"), profile).unwrap();
    let rush = rush.iter().filter(|word| !["--url", url.as_str()].contains(word)).copied();
    let report = report(shop.start(&rush.chain(["--profile", "there"]).collect::<Vec<_>>()));
    assert_eq!(number(&report["buyers"]), 20);
    stop(server);
}
