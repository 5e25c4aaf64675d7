//! `rushgate serve` with its defaults, and requests with only the required fields, because most users run the
//! defaults.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Running, Shop};
use rushgate_test::servers::{Kind, RedisServer, RedisSetup};
use rustix::process::Signal;
use serde_json::{Value, json};

const CLIENTS: u32 = 6;
const ROUNDS: u32 = 8;
const UNITS: u32 = 30;
/// Longer than the default leases. A task whose claim was lost with the server is available only after its
/// lease.
const RETRY_BUDGET: Duration = Duration::from_secs(120);

/// One request on a connection of its own; `None` without an answer.
fn try_ask(address: &str, method: &str, path: &str, key: &str, body: &Value) -> Option<(u16, Value)> {
    let mut stream = TcpStream::connect(address).ok()?;
    let body = body.to_string();
    let key = if key.is_empty() { String::new() } else { format!("Idempotency-Key: {key}\r\n") };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nPrefer: wait=10\r\n{key}\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut said = String::new();
    stream.read_to_string(&mut said).ok()?;
    let (head, body) = said.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, serde_json::from_str(body).ok()?))
}

/// Repeats a request with its key, if it has one, until there is a final answer, as an API client would.
fn ask(address: &str, method: &str, path: &str, key: &str, body: &Value) -> (u16, Value) {
    let start = Instant::now();
    while start.elapsed() < RETRY_BUDGET {
        match try_ask(address, method, path, key, body) {
            Some((status, said)) if status < 500 && said["retryable"] != true => return (status, said),
            _ => thread::yield_now(),
        }
    }
    panic!("{method} {path} under {key} was not answered");
}

/// Progress of the clients, so that the server is killed while all of them are active.
#[derive(Default)]
struct Progress {
    steps: AtomicU32,
}

impl Progress {
    fn step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    fn wait_for(&self, steps: u32) {
        let start = Instant::now();
        while self.steps.load(Ordering::Relaxed) < steps {
            assert!(start.elapsed() < RETRY_BUDGET, "the clients make no progress");
            thread::yield_now();
        }
    }
}

/// Acquires and releases the lock repeatedly, and returns its fences.
fn lock(address: &str, client: u32, holders: &AtomicU32, progress: &Progress) -> Vec<u64> {
    let round = |n: u32| {
        let (status, grant) =
            ask(address, "POST", "/v1/locks/door/acquire", &format!("l-{client}-{n}"), &json!({}));
        assert_eq!(status, 201, "{grant}");
        assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0, "two hold the lock");
        progress.step();
        holders.fetch_sub(1, Ordering::SeqCst);
        let token = json!({ "token": grant["token"] });
        let (status, said) = ask(address, "POST", "/v1/locks/door/release", "", &token);
        // A release whose answer was lost is repeated, and answered as the first was.
        assert_eq!((status, &said["outcome"]), (200, &json!("released")), "{said}");
        grant["fence"].as_u64().unwrap()
    };
    (0..ROUNDS).map(round).collect()
}

/// Enqueues tasks, and runs whatever tasks are due.
fn work(address: &str, client: u32, progress: &Progress) {
    for n in 0..ROUNDS {
        let id = format!("t-{client}-{n}");
        let (status, said) =
            ask(address, "POST", "/v1/queues/mail/tasks", &id, &json!({ "id": id, "payload": n }));
        assert!(matches!(status, 200 | 201), "{said}");
        let (status, claimed) =
            ask(address, "POST", "/v1/queues/mail/claim", &format!("c-{client}-{n}"), &json!({}));
        assert_eq!(status, 200, "{claimed}");
        for task in claimed["tasks"].as_array().unwrap() {
            complete(address, task);
        }
        progress.step();
    }
}

fn complete(address: &str, task: &Value) {
    let ticket = json!({ "ticket": task["ticket"] });
    let (status, said) = ask(address, "POST", "/v1/queues/mail/complete", "", &ticket);
    // If the answer to a completion was lost, the task has already ended.
    assert!(status == 200 || said["code"] == "stale", "{said}");
}

/// Buys as several buyers, and returns the units that were paid for.
fn buy(address: &str, client: u32, progress: &Progress) -> Vec<u64> {
    let mut bought = Vec::new();
    for n in 0..ROUNDS {
        let (buyer, key) = (format!("buyer-{client}-{n}"), format!("r-{client}-{n}"));
        let cart = json!({ "buyer": buyer, "lines": [{ "sku": "phone" }] });
        let (status, hold) = ask(address, "POST", "/v1/sales/s/reservations", &key, &cart);
        if matches!(status, 200 | 202) {
            let path = format!("/v1/sales/s/reservations/{}/confirm", hold["id"].as_str().unwrap());
            let (status, sold) = ask(address, "POST", &path, "", &json!({}));
            assert_eq!((status, sold["state"].as_str()), (200, Some("confirmed")), "{sold}");
            bought.push(sold["units"][0]["unit"].as_u64().unwrap());
        } else {
            assert_eq!(hold["code"], "sold_out", "{hold}");
        }
        progress.step();
    }
    bought
}

/// Starts a server, and returns its address, on which the next server listens too.
fn start(shop: &Shop, store: &[&str], listen: &str) -> (Running, String) {
    let mut running = shop.start(&[store, &["serve", "--listen", listen]].concat());
    let address = running.line().strip_prefix("http://").expect("it serves").to_owned();
    (running, address)
}

fn defaults_survive_a_kill(store: &[&str]) {
    let shop = Shop::new();
    let (first, address) = start(&shop, store, "127.0.0.1:0");
    let sale = json!({ "id": "s", "skus": [{ "sku": "phone", "units": UNITS }] });
    assert_eq!(ask(&address, "POST", "/v1/sales", "sale", &sale).0, 201);
    assert_eq!(ask(&address, "POST", "/v1/sales/s/open", "", &json!({})).0, 200);
    let (holders, progress) = (AtomicU32::new(0), Progress::default());
    let (fences, units) = thread::scope(|scope| {
        let (address, holders, progress) = (address.as_str(), &holders, &progress);
        let lockers: Vec<_> =
            (0..CLIENTS).map(|n| scope.spawn(move || lock(address, n, holders, progress))).collect();
        let buyers: Vec<_> = (0..CLIENTS).map(|n| scope.spawn(move || buy(address, n, progress))).collect();
        let workers: Vec<_> = (0..CLIENTS).map(|n| scope.spawn(move || work(address, n, progress))).collect();
        progress.wait_for(CLIENTS * ROUNDS);
        first.signal(Signal::KILL);
        first.end();
        let second = start(&shop, store, address).0;
        for worker in workers {
            worker.join().unwrap();
        }
        let all = |threads: Vec<thread::ScopedJoinHandle<'_, Vec<u64>>>| -> Vec<u64> {
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        };
        let told = (all(lockers), all(buyers));
        // Claims that were lost with the server expire.
        let start = Instant::now();
        let is_left = || {
            let stats = shop.json(&[store, &["queue", "stats", "mail"]].concat());
            stats["ready"] != 0 || stats["leased"] != 0
        };
        while is_left() {
            let (_, claimed) = ask(address, "POST", "/v1/queues/mail/claim", "", &json!({}));
            claimed["tasks"].as_array().unwrap().iter().for_each(|task| complete(address, task));
            assert!(start.elapsed() < RETRY_BUDGET, "a task is left");
        }
        second.signal(Signal::TERM);
        assert_eq!(second.end().status, 0);
        told
    });
    let distinct = |numbers: &[u64]| numbers.iter().collect::<BTreeSet<_>>().len();
    assert_eq!(distinct(&fences), (CLIENTS * ROUNDS) as usize, "a fence was granted twice: {fences:?}");
    assert_eq!((distinct(&units), units.len()), (UNITS as usize, UNITS as usize), "{units:?}");
    assert_eq!(shop.json(&[store, &["sale", "audit", "s"]].concat())["ok"], true);
    let stats = shop.json(&[store, &["queue", "stats", "mail"]].concat());
    assert_eq!(
        (&stats["ready"], &stats["leased"], &stats["dead"]),
        (&json!(0), &json!(0), &json!(0)),
        "{stats}"
    );
}

#[test]
fn a_server_with_defaults_survives_a_kill_on_a_file() {
    defaults_survive_a_kill(&[]);
}

#[test]
fn a_server_with_defaults_survives_a_kill_on_redis() {
    let redis: RedisServer = RedisSetup::new(Kind::Redis).start();
    defaults_survive_a_kill(&["--store", &redis.url()]);
}

#[test]
fn a_server_with_defaults_survives_a_kill_on_valkey() {
    let valkey: RedisServer = RedisSetup::new(Kind::Valkey).start();
    defaults_survive_a_kill(&["--store", &valkey.url()]);
}
