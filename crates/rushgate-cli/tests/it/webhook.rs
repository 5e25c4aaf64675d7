//! `rushgate work --webhook`: the answer decides the outcome of each task, and requests are signed.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use crate::common::{Request, Said, Shop};
use serde_json::{Value, json};

/// One received request.
struct Seen {
    path: String,
    headers: HashMap<String, String>,
    body: String,
}

/// A receiver that answers each task by its ID and attempt.
fn receiver(answer: fn(&str, &str) -> String) -> (String, Receiver<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (tell, told) = channel();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let tell = tell.clone();
            thread::spawn(move || {
                let mut out = connection.unwrap();
                let mut reader = BufReader::new(out.try_clone().unwrap());
                while let Some(seen) = request(&mut reader) {
                    let answer = answer(&seen.headers["rushgate-task"], &seen.headers["rushgate-attempt"]);
                    let _ = tell.send(seen);
                    out.write_all(answer.as_bytes()).unwrap();
                }
            });
        }
    });
    (url, told)
}

fn request(reader: &mut impl BufRead) -> Option<Seen> {
    let Request { line, headers, body } = Request::read(reader)?;
    let path = line.split(' ').nth(1)?.to_owned();
    Some(Seen { path, headers, body: String::from_utf8(body).ok()? })
}

fn says(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}

fn push(shop: &Shop, id: &str) {
    shop.ok(&["queue", "enqueue", "mail", id, "--payload", "{\"to\":\"ann\"}", "--kind", "mail:welcome"]);
}

#[test]
fn a_webhook_gets_the_content_and_what_it_needs_to_know() {
    let shop = Shop::new();
    push(&shop, "für:ann");
    let (url, seen) = receiver(|_, attempt| match attempt {
        "1" => says("503 Service Unavailable", "Retry-After: 0\r\n", "busy"),
        _ => says("204 No Content", "", ""),
    });
    let work = ["work", "mail", "--until-empty", "--webhook", &format!("{url}/tasks?a=1")];
    let mut command = shop.command(&work);
    command.env("RUSHGATE_WEBHOOK_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    let said = Said::from(command.output().unwrap());
    assert_eq!(said.status, 0, "{}", said.err);
    assert!(!said.err.contains("MfKQ9") && !said.out.contains("MfKQ9"), "the secret is not shown");
    let (first, second) = (seen.recv().unwrap(), seen.recv().unwrap());
    assert_eq!((first.path.as_str(), first.body.as_str()), ("/tasks?a=1", "{\"to\":\"ann\"}"));
    let header = |name| (first.headers[name].as_str(), second.headers[name].as_str());
    assert_eq!(header("rushgate-task"), ("f%C3%BCr:ann", "f%C3%BCr:ann"));
    assert_eq!(header("rushgate-attempt"), ("1", "2"));
    assert_eq!(header("rushgate-queue"), ("mail", "mail"));
    assert_eq!(header("rushgate-kind"), ("mail:welcome", "mail:welcome"));
    assert_eq!(header("content-type"), ("application/json", "application/json"));
    let (fence, next) = header("rushgate-fence");
    assert!(fence.parse::<u64>().unwrap() < next.parse::<u64>().unwrap());
    let (key, again) = header("idempotency-key");
    assert!(key == again && key == first.headers["webhook-id"] && key.starts_with("task_"), "{key}");
    assert!(first.headers["webhook-timestamp"].parse::<u64>().unwrap() > 1_700_000_000);
    assert!(first.headers["webhook-signature"].starts_with("v1,"));
}

#[test]
fn a_task_without_a_payload_has_no_content_type() {
    let shop = Shop::new();
    shop.ok(&["queue", "enqueue", "mail", "a"]);
    let (url, seen) = receiver(|_, _| says("204 No Content", "", ""));
    shop.ok(&["work", "mail", "--until-empty", "--webhook", &url]);
    let request = seen.recv().unwrap();
    assert_eq!((request.body.as_str(), request.headers.get("content-type")), ("", None));
}

#[test]
fn the_answer_decides() {
    let shop = Shop::new();
    ["200", "302", "400", "404", "410", "422", "429", "500"].iter().for_each(|id| push(&shop, id));
    let (url, _seen) = receiver(|id, _| match id {
        "302" => says("302 Found", "Location: http://127.0.0.1:1/\r\n", ""),
        "429" => says("429 Too Many Requests", "Retry-After: 3600\r\n", ""),
        _ => says(&format!("{id} Status"), "", "because\nof this"),
    });
    let mut worker = shop.start(&["--json", "work", "mail", "--webhook", &url]);
    let lines: Vec<_> = (0..8).map(|_| serde_json::from_str::<Value>(&worker.line()).unwrap()).collect();
    let outcome = |id: &str| lines.iter().find(|line| line["task"] == id).unwrap()["outcome"].clone();
    let outcomes: Vec<_> =
        ["200", "302", "400", "404", "410", "422", "429", "500"].map(outcome).into_iter().collect();
    let expected = ["done", "failed", "given_up", "failed", "given_up", "given_up", "later", "failed"];
    assert_eq!(json!(outcomes), json!(expected));
    shop.until(&["queue", "stats", "mail"], |stats| stats["dead"] == 3 && stats["leased"] == 0);
    worker.signal(rustix::process::Signal::TERM);
    assert_eq!(worker.end().status, 0);
    let dead = shop.json(&["queue", "dead", "ls", "mail"]);
    assert_eq!(dead[1]["error"], "410 Gone: because");
    let later = shop.json(&["queue", "ls", "mail"]);
    let due = |id: &str| {
        let task = later.as_array().unwrap().iter().find(|task| task["id"] == id).unwrap();
        task["due_us"].as_u64().unwrap()
    };
    assert!(due("429") - due("500") > 3_000_000_000, "the retry honors Retry-After");
}

#[test]
fn a_receiver_that_is_not_there_costs_attempts_and_nothing_else() {
    let shop = Shop::new();
    push(&shop, "a");
    // A port without a listener: it was free a moment ago.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut worker = shop.start(&["--json", "work", "mail", "--webhook", &format!("http://{free}/")]);
    let line: Value = serde_json::from_str(&worker.line()).unwrap();
    assert_eq!(line["outcome"], "failed", "{line}");
    worker.signal(rustix::process::Signal::TERM);
    assert_eq!(worker.end().status, 0);
    assert_eq!(shop.json(&["queue", "ls", "mail"])[0]["id"], "a");
}

#[test]
fn a_wrong_webhook_is_refused_before_anything_is_claimed() {
    let shop = Shop::new();
    push(&shop, "a");
    std::fs::write(shop.path("short"), "short").unwrap();
    for (args, part) in [
        (&["--webhook", "http://me:secret@localhost/"][..], "must not contain a password"),
        (&["--webhook", "localhost"], "http://"),
        (&["--webhook", "http://localhost/", "--secret-file", "short"], "shorter than 16 bytes"),
        (&["--webhook", "http://localhost/", "--exec", "true"], "cannot be used with"),
        (&[], "required"),
    ] {
        let said = shop.run(&[&["work", "mail"], args].concat());
        assert_eq!(said.status, 2, "{args:?}: {}", said.err);
        assert!(said.err.contains(part), "{args:?}: {}", said.err);
    }
    assert_eq!(shop.json(&["queue", "claim", "mail"])[0]["attempt"], 1);
}
