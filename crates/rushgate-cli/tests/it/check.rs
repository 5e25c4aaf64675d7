//! `rushgate serve --check-url`: which requests are checked, and how the service's answers are used.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::common::{Request, Running, Shop};
use rustix::process::Signal;
use serde_json::{Value, json};

/// One request to the check service.
struct Seen {
    headers: HashMap<String, String>,
    body: Value,
}

/// A check service that takes its answer from the proof: the status code at its start, or no answer for
/// `silence`.
fn service() -> (String, Arc<Mutex<Vec<Seen>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/check", listener.local_addr().unwrap());
    let told = Arc::<Mutex<Vec<Seen>>>::default();
    let tell = Arc::clone(&told);
    thread::spawn(move || {
        for connection in listener.incoming() {
            let tell = Arc::clone(&tell);
            thread::spawn(move || {
                let mut out = connection.unwrap();
                let mut reader = BufReader::new(out.try_clone().unwrap());
                while let Some(seen) = question(&mut reader) {
                    let status = seen.body["proof"].as_str().unwrap().split('-').next().unwrap().to_owned();
                    tell.lock().unwrap().push(seen);
                    if status != "silence" {
                        write!(out, "HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n").unwrap();
                    }
                }
            });
        }
    });
    (url, told)
}

fn question(reader: &mut impl BufRead) -> Option<Seen> {
    let Request { line, headers, body } = Request::read(reader)?;
    assert_eq!(line, "POST /check HTTP/1.1");
    Some(Seen { headers, body: serde_json::from_slice(&body).ok()? })
}

/// A server with a bot check, a sale `phones` of two units, and tokens for the callers.
struct Fixture {
    shop: Shop,
    running: Running,
    address: String,
    buyer: String,
    operator: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Fixture {
    fn new(more: &[&str]) -> Self {
        let shop = Shop::new();
        let token = |role| {
            shop.json(&["token", "create", role, "--role", role])["token"].as_str().unwrap().to_owned()
        };
        let (buyer, operator) = (token("buyer"), token("operator"));
        shop.ok(&["sale", "create", "phones", "--sku", "phone=2"]);
        shop.ok(&["sale", "open", "phones"]);
        let (url, seen) = service();
        let serve = ["serve", "--listen", "127.0.0.1:0", "--tokens", "tokens.json", "--check-url", &url];
        let mut command = shop.command(&[&serve, more].concat());
        command.env("RUSHGATE_CHECK_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let mut running = Running::of(command);
        let address = running.line().strip_prefix("http://").unwrap().to_owned();
        Self { shop, running, address, buyer, operator, seen }
    }

    fn ask(&self, method: &str, path: &str, headers: &str, body: &Value) -> (u16, Value) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let body = body.to_string();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n{headers}\r\n{body}",
            self.address,
            body.len()
        )
        .unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        let (head, body) = said.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), serde_json::from_str(body).unwrap())
    }

    fn headers(token: &str, key: &str, proof: Option<&str>) -> String {
        let proof = proof.map(|proof| format!("Rushgate-Proof: {proof}\r\n")).unwrap_or_default();
        format!("Authorization: Bearer {token}\r\nIdempotency-Key: {key}\r\n{proof}")
    }

    /// Outcome of a buyer's attempt: the status code, and the code of a refusal.
    fn reserve(&self, buyer: &str, proof: Option<&str>) -> (u16, Value) {
        let body = json!({ "buyer": buyer, "lines": [{ "sku": "phone" }] });
        let headers = Self::headers(&self.buyer, "k", proof);
        let (status, said) = self.ask("POST", "/v1/sales/phones/reservations", &headers, &body);
        (status, said.get("code").cloned().unwrap_or(said["state"].clone()))
    }

    fn join(&self, buyer: &str, proof: Option<&str>) -> (u16, Value) {
        let headers = Self::headers(&self.buyer, "k", proof);
        self.ask("POST", "/v1/sales/phones/tickets", &headers, &json!({ "buyer": buyer }))
    }

    /// Requests to the check service since the last call.
    fn asked(&self) -> Vec<Seen> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }

    fn end(self) {
        self.running.signal(Signal::TERM);
        let said = self.running.end();
        assert_eq!(said.status, 0, "{}", said.err);
        assert!(!said.err.contains("MfKQ9") && !said.err.contains("-proof-of"), "{}", said.err);
        drop(self.shop);
    }
}

fn refused(status: u16, code: &str) -> (u16, Value) {
    (status, code.into())
}

#[test]
fn a_buyer_is_asked_about_by_a_signed_post_and_remembered() {
    let fixture = Fixture::new(&["--check-page", "https://shop.example/prove"]);
    let (status, said) = fixture.join("ann", Some("200-x"));
    assert_eq!((status, said["code"].as_str()), (404, Some("not_found")), "there is no room to join");
    assert_eq!(fixture.reserve("ann", None), refused(403, "proof_needed"));
    assert!(fixture.asked().is_empty(), "without a proof the service is not asked");
    assert_eq!(fixture.reserve("ann", Some("200-proof-of-ann")).0, 202);
    let asked = fixture.asked();
    let [seen] = &asked[..] else { panic!("{} questions", asked.len()) };
    assert_eq!(
        seen.body,
        json!({ "sale": "phones", "buyer": "ann", "address": "127.0.0.1", "proof": "200-proof-of-ann" })
    );
    assert!(seen.headers["webhook-id"].starts_with("check_"));
    assert!(seen.headers["webhook-signature"].starts_with("v1,"));
    assert!(seen.headers["webhook-timestamp"].parse::<u64>().unwrap() > 1_700_000_000);
    assert_eq!(fixture.reserve("ann", None).0, 200, "the verdict is cached, and this is a replay");
    assert!(fixture.asked().is_empty());
    let (_, said) = fixture.ask(
        "POST",
        "/v1/sales/phones/reservations",
        &Fixture::headers(&fixture.buyer, "k", None),
        &json!({ "buyer": "bob", "lines": [{ "sku": "phone" }] }),
    );
    assert_eq!(said["prove_at"], "https://shop.example/prove");
    assert!(said["hint"].as_str().unwrap().contains("Rushgate-Proof"), "{said}");
    fixture.end();
}

#[test]
fn a_refused_buyer_gets_nothing_and_the_same_proof_is_not_checked_again() {
    let fixture = Fixture::new(&[]);
    assert_eq!(fixture.reserve("bob", Some("403-proof-of-bob")), refused(403, "proof_refused"));
    assert_eq!(fixture.reserve("bob", Some("403-proof-of-bob")), refused(403, "proof_refused"));
    assert_eq!(fixture.asked().len(), 1);
    assert_eq!(fixture.reserve("bob", Some("two words")), refused(422, "invalid"));
    assert_eq!(fixture.reserve("bob", Some(&"x".repeat(8_193))), refused(422, "invalid"));
    assert!(fixture.asked().is_empty());
    assert_eq!(fixture.shop.json(&["sale", "show", "phones"])["skus"][0]["free"], 2);
    assert_eq!(fixture.reserve("bob", Some("200-another")).0, 202, "another proof is checked again");
    fixture.end();
}

#[test]
fn the_bot_check_is_skipped_for_futile_requests_and_for_sellers() {
    let fixture = Fixture::new(&[]);
    let body = |buyer: &str| json!({ "buyer": buyer, "lines": [{ "sku": "phone" }] });
    let path = "/v1/sales/phones/reservations";
    for buyer in ["ann", "bob"] {
        let headers = Fixture::headers(&fixture.operator, "k", None);
        assert_eq!(fixture.ask("POST", path, &headers, &body(buyer)).0, 202, "operators are not checked");
    }
    assert_eq!(fixture.reserve("cid", Some("200-cid")), refused(409, "all_held"));
    assert_eq!(fixture.asked().len(), 1, "the server did not know yet that nothing is free");
    for n in 0..50 {
        assert_eq!(fixture.reserve(&format!("bot{n}"), Some("403-bot")), refused(409, "all_held"));
    }
    assert!(fixture.asked().is_empty(), "a known refusal skips the check");
    assert_eq!(fixture.reserve("ann", None).0, 200, "a replay returns the reservation");
    fixture.end();
}

#[test]
fn the_bot_check_of_a_sale_with_a_room_is_at_the_room() {
    let fixture = Fixture::new(&[]);
    fixture.shop.ok(&["sale", "room", "set", "phones", "--rate", "100/1s"]);
    fixture.shop.until(&["sale", "room", "show", "phones"], |room| room["joined"] == 0);
    let until_known = || fixture.join("eve", Some("403-eve")).1["code"] == "proof_refused";
    while !until_known() {
        thread::yield_now();
    }
    fixture.asked();
    assert_eq!(fixture.join("ann", None).1["code"], "proof_needed");
    assert_eq!(fixture.join("ann", Some("204-ann")).0, 201);
    assert_eq!(fixture.asked().len(), 1);
    let headers = format!("{}Prefer: wait=10\r\n", Fixture::headers(&fixture.buyer, "k", None));
    let (status, said) = fixture.ask("POST", "/v1/sales/phones/passes", &headers, &json!({ "buyer": "ann" }));
    assert_eq!(status, 201, "{said}");
    let body = json!({ "buyer": "ann", "lines": [{ "sku": "phone" }], "pass": said["pass"] });
    let headers = Fixture::headers(&fixture.buyer, "k", None);
    assert_eq!(fixture.ask("POST", "/v1/sales/phones/reservations", &headers, &body).0, 202);
    assert!(fixture.asked().is_empty());
    fixture.shop.ok(&["sale", "end", "phones"]);
    while fixture.join("dan", None).1["code"] != "room_closed" {
        thread::yield_now();
    }
    assert!(fixture.asked().is_empty(), "a closed room skips the check");
    fixture.end();
}

#[test]
fn a_service_that_is_away_lets_nobody_in_unless_it_is_told_to() {
    let fixture = Fixture::new(&["--check-timeout", "200ms"]);
    for proof in ["500-x", "302-x", "429-x", "silence-x"] {
        assert_eq!(fixture.reserve("ann", Some(proof)), refused(503, "check_unavailable"), "{proof}");
    }
    assert_eq!(fixture.shop.json(&["sale", "show", "phones"])["skus"][0]["free"], 2);
    fixture.end();
    let fixture = Fixture::new(&["--check-timeout", "200ms", "--check-open"]);
    assert_eq!(fixture.reserve("ann", Some("silence-x")).0, 202);
    assert_eq!(
        fixture.reserve("bob", Some("403-x")),
        refused(403, "proof_refused"),
        "a clear refusal stays a refusal"
    );
    assert_eq!(fixture.reserve("bob", None), refused(403, "proof_needed"));
    fixture.end();
}

#[test]
fn many_who_ask_at_once_with_one_proof_are_one_question() {
    let fixture = Fixture::new(&[]);
    thread::scope(|scope| {
        let same: Vec<_> =
            (0..8).map(|_| scope.spawn(|| fixture.reserve("ann", Some("200-once")).0)).collect();
        let mut statuses: Vec<_> = same.into_iter().map(|one| one.join().unwrap()).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 200, 200, 200, 200, 200, 200, 202]);
    });
    assert_eq!(fixture.asked().len(), 1);
    fixture.end();
}

#[test]
fn a_check_that_cannot_be_is_said_before_anything_is_served() {
    let shop = Shop::new();
    let said = shop.run(&["serve", "--listen", "127.0.0.1:0", "--check-url", "http://localhost:1/"]);
    assert!(said.status == 2 && said.err.contains("`check_url` requires `tokens`"), "{}", said.err);
    shop.json(&["token", "create", "x", "--role", "operator"]);
    let serve = ["serve", "--listen", "127.0.0.1:0", "--tokens", "tokens.json"];
    for (more, why) in [
        (&["--check-url", "ftp://x/"][..], "http://"),
        (&["--check-url", "http://me:pw@x/"], "password"),
        (&["--check-page", "https://x/"], "check_url"),
        (&["--check-url", "http://x/", "--check-secret-file", "none"], "cannot read the secret"),
    ] {
        let said = shop.run(&[&serve, more].concat());
        assert!(said.status == 2 && said.err.contains(why), "{more:?}: {}", said.err);
    }
}
