//! PHP, Python, Node and Rust programs on the same lock, queue and sale, each with an ordinary Redis client
//! of its language.
//!
//! Each scenario has a server with the function library, and one process per language: the clients under
//! `examples/`, driven by the programs in `tests/foreign/`, and this test binary, which runs one ignored
//! test.

mod common;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use common::Shop;
use rushgate::queue::{ContentType, Payload};
use rushgate::sale::{Decision, Rebuild};
use rushgate::{
    BuyerId, CancellationToken, Enqueued, IdempotencyKey, Job, Line, OrderWorker, Reserved, Rushgate, Sale,
    SaleBuilder, Sku, Worker, connect_ledger,
};
use rushgate_test::servers::{Kind, RedisServer, RedisSetup};
use serde_json::{Value, json};

const PART: &str = "RUSHGATE_TEST_PART";
const WAIT: Duration = Duration::from_secs(60);
const LEASE: Duration = Duration::from_secs(30);

// ── the programs ────────────────────────────────────────────────────────────────────────────────────────────────────

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A language: its name, its interpreter, and a check of its requirements.
struct Language {
    name: &'static str,
    program: PathBuf,
    check: &'static [&'static str],
    install: &'static str,
}

fn languages() -> [Language; 3] {
    [
        Language {
            name: "php",
            program: "php".into(),
            check: &["-r", "exit(extension_loaded('redis') && extension_loaded('pcntl') ? 0 : 1);"],
            install: "apt-get install php-cli php-redis",
        },
        Language {
            name: "python",
            program: here("../../examples/python/.venv/bin/python"),
            check: &["-c", "import redis"],
            install: "python3 -m venv examples/python/.venv && \
                      examples/python/.venv/bin/pip install -r examples/python/requirements.txt",
        },
        Language {
            name: "node",
            program: "node".into(),
            check: &["-e", "require('ioredis')"],
            install: "apt-get install nodejs npm, then npm ci --prefix examples/node",
        },
    ]
}

impl Language {
    /// The interpreter. Panics if a requirement is missing.
    fn program(&self) -> Command {
        let mut check = Command::new(&self.program);
        let found = check.args(self.check).current_dir(here("../../examples/node")).output();
        if !found.is_ok_and(|found| found.status.success()) {
            panic!("{} is not ready; this test needs it: {}", self.name, self.install);
        }
        Command::new(&self.program)
    }

    fn file(&self) -> PathBuf {
        let ending = match self.name {
            "python" => "py",
            "node" => "js",
            other => other,
        };
        here("tests/foreign/peer").with_extension(ending)
    }

    fn play(&self, port: u16, part: &[&str]) -> Part {
        Part::start(self.program().arg(self.file()).arg(port.to_string()).args(part))
    }
}

/// The same role in Rust: this binary again.
fn play_in_rust(port: u16, part: &str) -> Part {
    let mut again = Command::new(std::env::current_exe().expect("a test has a binary"));
    again.args(["rust_part", "--exact", "--ignored", "--nocapture"]);
    Part::start(again.env(PART, format!("{port} {part}")))
}

/// A child process. Killed on drop.
struct Part(Option<Child>);

impl Part {
    fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
        Self(Some(command.spawn().expect("the program starts")))
    }

    /// Waits for the process to end, and returns the JSON that it printed on a line that starts with `» `.
    fn end(mut self) -> Value {
        let child = self.0.take().expect("a part is played once");
        let Output { status, stdout, .. } = child.wait_with_output().expect("it can be waited for");
        let said = String::from_utf8_lossy(&stdout);
        assert!(status.success(), "{status}: {said}");
        let line = said.lines().find_map(|line| Some(line.split_once("» ")?.1));
        line.map_or(Value::Null, |line| serde_json::from_str(line).expect("it says JSON"))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Starts one process per language. All begin when the last of them is ready.
fn play_in_all(port: u16, part: impl Fn(&str) -> Vec<String>) -> Vec<Part> {
    let words = |name: &str| part(name).join(" ");
    let mut parts: Vec<_> = languages()
        .iter()
        .map(|language| language.play(port, &words(language.name).split(' ').collect::<Vec<_>>()))
        .collect();
    parts.push(play_in_rust(port, &words("rust")));
    for _ in &parts {
        assert_ne!(ask(port, &["BLPOP", "ready", "30"]), "", "every part gets ready");
    }
    for _ in &parts {
        ask(port, &["RPUSH", "go", "now"]);
    }
    parts
}

/// A server on which `rushgate functions install` was run.
fn server(kind: Kind) -> RedisServer {
    let server = RedisSetup::new(kind).start();
    Shop::new().ok(&["functions", "install", "--store", &server.url()]);
    server
}

/// Sends a command, and returns its answer as text; a list is joined by line breaks.
fn ask(port: u16, words: &[&str]) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
    let mut request = format!("*{}\r\n", words.len());
    words.iter().for_each(|word| request += &format!("${}\r\n{word}\r\n", word.len()));
    stream.write_all(request.as_bytes()).expect("the server reads");
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).expect("the server answers");
    read_answer(&mut reader, line.trim_end())
}

fn read_answer(reader: &mut BufReader<TcpStream>, head: &str) -> String {
    let (kind, rest) = head.split_at(1);
    match kind {
        "$" | "*" if rest == "-1" => String::new(),
        "$" => {
            let mut text = vec![0; rest.parse::<usize>().expect("a length") + 2];
            reader.read_exact(&mut text).expect("the server answers");
            String::from_utf8(text).expect("it is text").trim_end().to_owned()
        }
        "*" => {
            let mut one = || {
                let mut line = String::new();
                reader.read_line(&mut line).expect("the server answers");
                read_answer(reader, line.trim_end())
            };
            (0..rest.parse::<usize>().expect("a length")).map(|_| one()).collect::<Vec<_>>().join("\n")
        }
        "-" => panic!("the server refuses: {rest}"),
        _ => rest.to_owned(),
    }
}

// ── the scenes ──────────────────────────────────────────────────────────────────────────────────────────────────────

fn one_lock_guards_one_counter(kind: Kind) {
    const TIMES: usize = 100;
    let server = server(kind);
    let parts = play_in_all(server.port(), |_| vec!["count".into(), "counter".into(), TIMES.to_string()]);
    let languages = parts.len();
    parts.into_iter().for_each(|part| drop(part.end()));
    assert_eq!(ask(server.port(), &["GET", "counter"]), (languages * TIMES).to_string());
    let fences = ask(server.port(), &["LRANGE", "fences", "0", "-1"]);
    let fences: Vec<u64> = fences.lines().map(|fence| fence.parse().unwrap()).collect();
    assert_eq!(fences.len(), languages * TIMES);
    assert!(fences.is_sorted_by(|a, b| a < b), "every fence is greater than all before it");
}

#[test]
fn four_languages_share_one_lock_on_redis() {
    one_lock_guards_one_counter(Kind::Redis);
}

#[test]
fn four_languages_share_one_lock_on_valkey() {
    one_lock_guards_one_counter(Kind::Valkey);
}

/// Children of one process use one lock and one queue through objects inherited from their parent.
async fn forked_processes_are_clients_of_their_own(language: Language) {
    const CHILDREN: usize = 4;
    const TIMES: usize = 25;
    let server = server(Kind::Redis);
    ask(server.port(), &["RPUSH", "go", "now"]);
    language.play(server.port(), &["fork", &CHILDREN.to_string(), &TIMES.to_string()]).end();
    let everyone = (1 + CHILDREN) * TIMES;
    assert_eq!(ask(server.port(), &["GET", "counter"]), everyone.to_string(), "the lock had two holders");
    let fences = ask(server.port(), &["LRANGE", "fences", "0", "-1"]);
    let fences: Vec<u64> = fences.lines().map(|fence| fence.parse().unwrap()).collect();
    assert!(fences.is_sorted_by(|a, b| a < b), "each fence is unique: {fences:?}");
    let gate = Rushgate::connect(&server.url()).await.unwrap();
    let stats = gate.queue("jobs").unwrap().stats().await.unwrap();
    assert_eq!(stats.ready, everyone as u64, "no task is lost");
    gate.close().await.unwrap();
}

#[tokio::test]
async fn forked_php_processes_are_clients_of_their_own() {
    let [php, ..] = languages();
    forked_processes_are_clients_of_their_own(php).await;
}

#[tokio::test]
async fn forked_python_processes_are_clients_of_their_own() {
    let [_, python, _] = languages();
    forked_processes_are_clients_of_their_own(python).await;
}

/// Node's cluster starts new programs: they inherit neither a client nor a connection.
#[tokio::test]
async fn the_workers_of_a_node_cluster_are_clients_of_their_own() {
    let [.., node] = languages();
    forked_processes_are_clients_of_their_own(node).await;
}

#[test]
fn an_interrupted_python_acquire_leaves_the_line() {
    let [_, python, _] = languages();
    let server = server(Kind::Redis);
    ask(server.port(), &["RPUSH", "go", "now"]);
    python.play(server.port(), &["interrupt", "door"]).end();
}

/// PHP is left out: its class has no block that holds a lock.
#[test]
fn a_lost_lock_does_not_hide_the_error_of_the_work() {
    let [_, python, node] = languages();
    for language in [python, node] {
        let server = server(Kind::Redis);
        ask(server.port(), &["RPUSH", "go", "now"]);
        language.play(server.port(), &["lose", "door"]).end();
    }
}

/// PHP is left out: its class has no debounce.
#[test]
fn a_burst_is_debounced_by_its_delay_and_its_longest_wait() {
    let [_, python, node] = languages();
    for language in [python, node] {
        let server = server(Kind::Redis);
        ask(server.port(), &["RPUSH", "go", "now"]);
        language.play(server.port(), &["debounce", "jobs"]).end();
    }
}

/// A Rust worker selects its handler by the kind of a task from any language, and other languages see the
/// kind of its tasks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_kind_of_a_task_crosses_languages_http_and_the_command() {
    let (server, shop) = (server(Kind::Redis), Shop::new());
    let url = server.url();
    let gate = Rushgate::connect(&url).await.unwrap();
    let back = gate.clone();
    let welcome = move |job: Job<Value>| {
        let back = back.clone();
        async move {
            let name = job.payload["from"].as_str().ok_or("nobody")?;
            let back = back.queue(format!("back-{name}"))?;
            let thanks = Payload::new(ContentType::json(), json!({ "to": name }).to_string().into_bytes())?;
            back.enqueue("thanks", thanks).kind("mail:thanks").send().await?;
            let note = Payload::new(ContentType::new("text/plain")?, b"f\xc3\xbcr dich".to_vec())?;
            back.enqueue("note", note).priority(9).send().await?;
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
        }
    };
    let stop = CancellationToken::new();
    let worker = Worker::new(&gate.queue("in").unwrap()).register("mail:welcome", welcome);
    let worker = tokio::spawn(worker.run(stop.clone()));

    let port = server.port();
    tokio::task::spawn_blocking(move || {
        for language in languages() {
            ask(port, &["RPUSH", "go", "now"]);
            language.play(port, &["kinds", language.name]).end();
        }
        let wait = ["--store", &url, "--wait", "60s"];
        let push = ["queue", "enqueue", "in", "cli", "--store", &url, "--kind", "mail:welcome"];
        shop.ok(&[&push[..], &["--payload", r#"{"from":"cli"}"#]].concat());
        let claimed = [0, 1].map(|_| shop.json(&[&["queue", "claim", "back-cli"][..], &wait].concat()));
        assert_eq!(claimed.map(|tasks| of_interest(&tasks[0])), expected("cli"));

        let (running, address) = common::serve(&shop, &["--store", &url]);
        let task = r#"{"id":"http","payload":{"from":"http"},"kind":"mail:welcome"}"#;
        assert_eq!(common::ask(&address, "POST", "/v1/queues/in/tasks", "", task).0, 201);
        let claimed = [0, 1].map(|_| {
            common::ask(&address, "POST", "/v1/queues/back-http/claim", "Prefer: wait=30\r\n", "{}").1
        });
        assert_eq!(claimed.map(|answer| of_interest(&answer["tasks"][0])), expected("http"));
        drop(running);
    })
    .await
    .unwrap();
    stop.cancel();
    let report = worker.await.unwrap().unwrap();
    assert_eq!((report.done, report.retried, report.unknown), (5, 0, 0));
    gate.close().await.unwrap();
}

fn expected(name: &str) -> [Value; 2] {
    [
        json!({ "payload": { "to": name }, "content_type": "application/json", "kind": "mail:thanks" }),
        json!({ "payload": "für dich", "content_type": "text/plain", "kind": null }),
    ]
}

fn of_interest(task: &Value) -> Value {
    json!({ "payload": task["payload"], "content_type": task["content_type"], "kind": task["kind"] })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_goes_through_the_hands_of_four_languages() {
    const TASKS: usize = 20;
    let server = server(Kind::Redis);
    let way = ["php", "python", "node", "rust", "end"];
    let parts = play_in_all(server.port(), |name| {
        let at = way.iter().position(|other| *other == name).unwrap();
        vec!["relay".into(), way[at].into(), way[at + 1].into(), TASKS.to_string()]
    });
    let gate = Rushgate::connect(&server.url()).await.unwrap();
    let (first, last) =
        (gate.queue_of::<Vec<String>>("php").unwrap(), gate.queue_of::<Vec<String>>("end").unwrap());
    for number in 0..TASKS {
        first.enqueue(format!("task:{number}"), Vec::new()).send().await.unwrap();
    }
    parts.into_iter().for_each(|part| drop(part.end()));
    let tasks = last.claim(100, LEASE).await.unwrap();
    assert_eq!(tasks.len(), TASKS);
    for task in tasks {
        let hands: Vec<String> = serde_json::from_slice(task.payload.bytes()).unwrap();
        assert_eq!(hands, ["php", "python", "node", "rust"], "{}", task.ticket.id);
    }
    for name in &way[..4] {
        let stats = gate.queue(name).unwrap().stats().await.unwrap();
        assert_eq!((stats.ready, stats.leased, stats.dead), (0, 0, 0), "{name}");
    }
    // The programs before Rust enqueue with a uniqueness window of one minute.
    for name in &way[1..4] {
        let again = gate.queue(name).unwrap().enqueue("task:0", Payload::empty()).send().await.unwrap();
        assert!(matches!(again, Enqueued::Recent { .. }), "{name}: {again:?}");
    }
    gate.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_languages_do_every_task_of_one_queue_once() {
    const TASKS: usize = 400;
    let server = server(Kind::Valkey);
    let parts = play_in_all(server.port(), |_| vec!["work".into(), "jobs".into()]);
    let gate = Rushgate::connect(&server.url()).await.unwrap();
    let queue = gate.queue("jobs").unwrap();
    for number in 0..TASKS {
        queue.enqueue(format!("task:{number}"), Payload::empty()).send().await.unwrap();
    }
    for number in 0..parts.len() {
        // Last in order: each worker takes one and ends.
        queue.enqueue(format!("stop:{number}"), Payload::empty()).priority(9).send().await.unwrap();
    }
    let workers = parts.len();
    parts.into_iter().for_each(|part| drop(part.end()));
    let done = ask(server.port(), &["HVALS", "done"]);
    assert_eq!(done.lines().count(), TASKS + workers);
    assert!(done.lines().all(|times| times == "1"), "each was done once");
    let stats = queue.stats().await.unwrap();
    assert_eq!((stats.ready, stats.scheduled, stats.leased, stats.dead), (0, 0, 0, 0));
    gate.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_languages_sell_exactly_what_there_is() {
    const UNITS: u32 = 200;
    let (server, shop) = (server(Kind::Redis), Shop::new());
    let gate = Rushgate::connect(&server.url()).await.unwrap();
    let sale = SaleBuilder::new("launch").sku("cover", 1, 1).sku("phone", UNITS, 1).ledger();
    gate.create_sale(sale).await.unwrap();
    let sale = gate.sale("launch").unwrap();
    sale.open().await.unwrap();
    let ledger = connect_ledger(&format!("sqlite:{}", shop.path("orders.db").display())).unwrap();
    let stop = CancellationToken::new();
    let worker = tokio::spawn(OrderWorker::new(sale.clone(), Arc::clone(&ledger)).run(stop.clone()));

    let port = server.port();
    let parts = play_in_all(port, |name| vec!["buy".into(), "launch".into(), name.into()]);
    let told =
        tokio::task::spawn_blocking(|| parts.into_iter().map(Part::end).collect::<Vec<_>>()).await.unwrap();
    let ids = |end: &str| -> Vec<String> {
        told.iter()
            .flat_map(|told| told[end].as_array().unwrap().clone())
            .map(|id| id.as_str().unwrap().into())
            .collect()
    };
    let (confirmed, cancelled) = (ids("confirmed"), ids("cancelled"));
    let numbers = told.iter().flat_map(|told| told["units"].as_array().unwrap());
    let numbers: BTreeSet<_> = numbers.map(|number| number.as_u64().unwrap()).collect();
    assert!(numbers.into_iter().eq(1..=u64::from(UNITS)), "each number was sold");
    assert_eq!(confirmed.len(), UNITS as usize, "each unit has exactly one buyer");
    assert!(
        told.iter().all(|told| !told["confirmed"].as_array().unwrap().is_empty()),
        "every language sold some"
    );

    // The last cancellations may still be in flight.
    delivered(&sale).await;
    stop.cancel();
    worker.await.unwrap().unwrap();
    let phone = sale.state().await.unwrap().skus[1].clone();
    assert_eq!((phone.confirmed, phone.held, phone.free), (UNITS, 0, 0));
    let books = ledger.books(sale.id()).await.unwrap();
    assert_eq!(books.orders.len(), confirmed.len() + cancelled.len());
    let audit = sale.audit(Some(&*ledger)).await.unwrap();
    assert!(audit.ok, "{audit:#?}");
    let url = server.url();
    let file = format!("sqlite:{}", shop.path("orders.db").display());
    assert_eq!(shop.json(&["sale", "audit", "launch", "--store", &url, "--orders", &file])["ok"], true);
    gate.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_sale_says_so_in_four_languages() {
    let (server, shop) = (server(Kind::Redis), Shop::new());
    let (port, url) = (server.port(), server.url());
    let gate = Rushgate::connect(&url).await.unwrap();
    gate.create_sale(SaleBuilder::new("launch").sku("phone", 30, 2).ledger()).await.unwrap();
    let sale = gate.sale("launch").unwrap();
    sale.open().await.unwrap();
    let Reserved::Reserved(hold) = reserve(&sale, "ann").await else { panic!("there are phones") };
    assert!(sale.halt().await.unwrap());
    let stopped = sale.state().await.unwrap().halted.unwrap().since.as_micros();
    let ask_in_all = |answers: [&str; 3]| {
        let words = |name: &str| vec!["meet".into(), "launch".into(), name.into(), hold.id.to_string()];
        for told in play_in_all(port, words).into_iter().map(Part::end) {
            assert_eq!([&told["reserve"], &told["confirm"], &told["cancel"]], answers, "{told}");
            assert!(told["retry_at_us"].as_u64().unwrap() > stopped, "{told}");
        }
    };
    ask_in_all(["halted"; 3]);
    let file = format!("sqlite:{}", shop.path("orders.db").display());
    shop.ok(&[
        "sale",
        "rebuild",
        "launch",
        "--store",
        &url,
        "--orders",
        &file,
        "--new-ledger",
        "--receipts-first",
        "1h",
    ]);
    ask_in_all(["halted", "pending", "refused"]);
    gate.close().await.unwrap();
}

/// Names in two spellings of Unicode are one name in every language: one buyer, one lock, one task.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_spellings_of_a_name_are_one_name_in_every_language() {
    let (server, shop) = (server(Kind::Redis), Shop::new());
    let (port, url) = (server.port(), server.url());
    let gate = Rushgate::connect(&url).await.unwrap();
    gate.create_sale(SaleBuilder::new("soir\u{e9}e").sku("caf\u{e9}", 20, 1).ledger()).await.unwrap();
    let sale = gate.sale("soir\u{e9}e").unwrap();
    sale.open().await.unwrap();
    let ledger = connect_ledger(&format!("sqlite:{}", shop.path("orders.db").display())).unwrap();
    let stop = CancellationToken::new();
    let worker = tokio::spawn(OrderWorker::new(sale.clone(), Arc::clone(&ledger)).run(stop.clone()));

    let said = tokio::task::spawn_blocking(move || {
        languages().map(|language| {
            ask(port, &["RPUSH", "go", "now"]);
            (language.name, language.play(port, &["spell", language.name]).end())
        })
    });
    let reserve = async |buyer: &str| {
        let cart = [Line { sku: Sku::new("cafe\u{301}").unwrap(), quantity: 1 }];
        let key = IdempotencyKey::new("other").unwrap();
        sale.reserve(&BuyerId::new(buyer).unwrap(), &cart, &key).await.unwrap()
    };
    let mut sold = 0;
    for (name, said) in said.await.unwrap() {
        if said == "refused" {
            assert_eq!(name, "php", "only PHP may lack the tables of Unicode");
            continue;
        }
        sold += 1;
        let again = reserve(&format!("{name}-Zo\u{eb}")).await;
        assert!(matches!(again, Reserved::LimitReached { .. }), "{name}: {again:?}");
        let lock = gate.lock(format!("{name}-porte\u{301}e")).unwrap().wait(Duration::ZERO);
        assert!(lock.acquire().await.unwrap().held().is_none(), "{name} holds it");
        let stats = gate.queue(format!("{name}-caf\u{e9}")).unwrap().stats().await.unwrap();
        assert_eq!((stats.ready, stats.leased), (0, 0), "{name}");
    }
    assert!(sold >= 2);

    // A client that does not normalize cannot halt the sale. The library refuses what it notices. Two spellings that it
    // does not notice are two buyers in the store, in the ledger and in the audit.
    let strangers: [(&str, bool); 4] =
        [("Zoe\u{308}", false), ("\u{212b}sa", false), ("q\u{308}\u{323}", true), ("q\u{323}\u{308}", true)];
    let said =
        tokio::task::spawn_blocking(move || strangers.map(|(buyer, _)| reserve_as_stranger(port, buyer)));
    for ((buyer, takes), said) in strangers.into_iter().zip(said.await.unwrap()) {
        assert_eq!(!said.starts_with('-'), takes, "{buyer:?}: {said}");
        assert!(takes || said.contains("in Normalization Form C"), "{buyer:?}: {said}");
        sold += u32::from(takes);
    }
    delivered(&sale).await;
    stop.cancel();
    worker.await.unwrap().unwrap();
    assert!(sale.state().await.unwrap().halted.is_none());
    assert_eq!(ledger.books(sale.id()).await.unwrap().orders.len(), sold as usize);
    let audit = sale.audit(Some(&*ledger)).await.unwrap();
    assert!(audit.ok, "{audit:#?}");
    gate.close().await.unwrap();
}

/// Waits until the ledger has every order of the sale.
async fn delivered(sale: &Sale) {
    let has_all = async || {
        let state = sale.state().await.unwrap();
        state.orders.is_some_and(|orders| orders.through == state.seq && orders.failed == 0)
    };
    while !has_all().await {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Reserves a unit as a client does that sends names as they are. Returns the refusal, or another text.
fn reserve_as_stranger(port: u16, buyer: &str) -> String {
    let home: Value = serde_json::from_str(&ask(port, &["GET", "rg:{s:soir\u{e9}e}:home"])).unwrap();
    let secret = u128::from_str_radix(home["secret"].as_str().unwrap(), 16).unwrap().to_be_bytes();
    let sale = ["row", "returned", "withdrawn", "buyers", "holds", "deadlines", "events", "failed"]
        .map(|end| format!("rg:{{s:soir\u{e9}e}}:{end}"));
    let words = ["FCALL", "rushgate_1_sale_reserve_by_key", "8"].map(str::to_owned).into_iter().chain(sale);
    let mut words: Vec<_> = words.map(String::into_bytes).collect();
    words.push(secret.to_vec());
    words.extend(["click", buyer, "0", "0", "1"].map(|word| word.as_bytes().to_vec()));
    let mut request = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        request.extend(format!("${}\r\n", word.len()).bytes().chain(word).chain(*b"\r\n"));
    }
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
    stream.write_all(&request).expect("the server reads");
    let mut line = Vec::new();
    BufReader::new(stream).read_until(b'\n', &mut line).expect("the server answers");
    String::from_utf8(line).expect("it is text")
}

/// The store lost the rows of a sale, but not its specification. No client sells before the sale is rebuilt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_whose_rows_were_lost_is_sold_by_no_language_until_it_is_rebuilt() {
    let server = server(Kind::Redis);
    let port = server.port();
    let gate = Rushgate::connect(&server.url()).await.unwrap();
    gate.create_sale(SaleBuilder::new("launch").sku("phone", 3, 1).ledger()).await.unwrap();
    let sale = gate.sale("launch").unwrap();
    let ledger = connect_ledger("sqlite::memory:").unwrap();
    let stop = CancellationToken::new();
    let worker = tokio::spawn(OrderWorker::new(sale.clone(), Arc::clone(&ledger)).run(stop.clone()));
    sale.withdraw_stock(&Sku::new("phone").unwrap(), 1).await.unwrap();
    delivered(&sale).await;
    stop.cancel();
    worker.await.unwrap().unwrap();
    ask(port, &["DEL", "rg:{s:launch}:row"]);

    let said_by_all = || {
        languages().map(|language| {
            ask(port, &["RPUSH", "go", "now"]);
            let said = tokio::task::block_in_place(|| language.play(port, &["try", "launch"]).end());
            (language.name, said)
        })
    };
    for (name, said) in said_by_all() {
        assert_eq!(said, "the keys of the sale `launch` are missing", "{name}");
    }
    let error = sale.state().await.unwrap_err();
    assert!(
        error.is_corrupt() && error.hint_text().is_some_and(|hint| hint.contains("rebuild")),
        "{error:?}"
    );
    Rebuild::new(sale.clone(), ledger).receipts_first(Duration::ZERO).run().await.unwrap();
    for (name, said) in said_by_all() {
        assert_eq!(said, "not_open", "{name}");
    }
    sale.open().await.unwrap();
    assert!(matches!(reserve(&sale, "ann").await, Reserved::Reserved(_)));
    gate.close().await.unwrap();
}

#[test]
fn the_articles_classes_do_what_the_article_says() {
    let server = server(Kind::Redis);
    let [php, ..] = languages();
    let said =
        php.program().arg(here("tests/foreign/article.php")).arg(server.port().to_string()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    assert!(said.status.success() && out.lines().count() == 14, "{out}{err}");
}

// ── the parts in Rust ───────────────────────────────────────────────────────────────────────────────────────────────

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a part: started by the scenes above"]
async fn rust_part() {
    let part = std::env::var(PART).expect("a part is started by a scene");
    let words: Vec<_> = part.split(' ').collect();
    let [port, part, arguments @ ..] = &words[..] else { panic!("{part}") };
    let gate = Rushgate::connect(&format!("redis://127.0.0.1:{port}")).await.unwrap();
    let port = port.parse().unwrap();
    ask(port, &["RPUSH", "ready", "rust"]);
    ask(port, &["BLPOP", "go", "50"]);
    match (*part, arguments) {
        ("count", [name, times]) => count(&gate, port, name, times.parse().unwrap()).await,
        ("work", [name]) => work(&gate, port, name).await,
        ("relay", [from, to, tasks]) => relay(&gate, from, to, tasks.parse().unwrap()).await,
        ("buy", [sale, name]) => buy(&gate, sale, name).await,
        ("meet", [sale, name, hold]) => meet(&gate, sale, name, hold).await,
        other => panic!("{other:?}"),
    }
    gate.close().await.unwrap();
}

async fn count(gate: &Rushgate, port: u16, name: &str, times: usize) {
    let lock = gate.lock(name).unwrap().wait(WAIT);
    for _ in 0..times {
        let guard = lock.acquire().await.unwrap().held().expect("granted in time");
        let before: u64 = ask(port, &["GET", "counter"]).parse().unwrap_or(0);
        ask(port, &["SET", "counter", &(before + 1).to_string()]);
        ask(port, &["RPUSH", "fences", &guard.fence().to_string()]);
        guard.release().await.unwrap();
    }
}

async fn work(gate: &Rushgate, port: u16, name: &str) {
    let queue = gate.queue(name).unwrap();
    loop {
        let tasks = queue.claim_wait(1, LEASE, WAIT).await.unwrap();
        let id = tasks[0].ticket.id.to_string();
        ask(port, &["HINCRBY", "done", &id, "1"]);
        queue.complete(tasks.into_iter().map(|task| task.ticket).collect()).await.unwrap();
        if id.starts_with("stop:") {
            return;
        }
    }
}

async fn relay(gate: &Rushgate, from: &str, to: &str, tasks: usize) {
    let (from, to) = (gate.queue(from).unwrap(), gate.queue_of::<Vec<String>>(to).unwrap());
    for _ in 0..tasks {
        let task = from.claim_wait(1, LEASE, WAIT).await.unwrap().remove(0);
        let mut hands: Vec<String> = serde_json::from_slice(task.payload.bytes()).unwrap();
        hands.push("rust".into());
        to.enqueue(task.ticket.id.as_str(), hands).send().await.unwrap();
        from.complete(vec![task.ticket]).await.unwrap();
    }
}

async fn reserve(sale: &Sale, buyer: &str) -> Reserved {
    let cart = [Line { sku: Sku::new("phone").unwrap(), quantity: 1 }];
    let key = IdempotencyKey::new("click").unwrap();
    sale.reserve(&BuyerId::new(buyer).unwrap(), &cart, &key).await.unwrap()
}

#[allow(clippy::print_stdout)]
async fn buy(gate: &Rushgate, sale: &str, name: &str) {
    let sale = gate.sale(sale).unwrap();
    let (mut confirmed, mut cancelled, mut units) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0.. {
        let buyer = format!("{name}-{number}");
        let hold = match reserve(&sale, &buyer).await {
            Reserved::Reserved(hold) => hold,
            Reserved::SoldOut { .. } => break,
            Reserved::AllHeld { .. } => {
                tokio::time::sleep(Duration::from_millis(2)).await;
                continue;
            }
            other => panic!("{other:?}"),
        };
        let again = reserve(&sale, &buyer).await;
        assert!(matches!(again, Reserved::Replayed(same) if same.id == hold.id));
        let decision = if number % 5 == 4 {
            cancelled.push(hold.id);
            sale.cancel(hold.id).await.unwrap()
        } else {
            confirmed.push(hold.id);
            units.push(hold.units[0].1);
            sale.confirm(hold.id).await.unwrap()
        };
        assert!(matches!(decision, Decision::Pending(_)), "{decision:?}");
    }
    println!("» {}", json!({ "confirmed": confirmed, "cancelled": cancelled, "units": units }));
}

#[allow(clippy::print_stdout)]
async fn meet(gate: &Rushgate, sale: &str, name: &str, hold: &str) {
    let (sale, hold) = (gate.sale(sale).unwrap(), hold.parse().unwrap());
    let Reserved::Halted { retry_at } = reserve(&sale, name).await else { panic!("the sale is not halted") };
    let word = |decision| match decision {
        Decision::Halted => "halted",
        Decision::Pending(_) => "pending",
        Decision::Refused(_) => "refused",
        other => panic!("{other:?}"),
    };
    let (confirm, cancel) = (sale.confirm(hold).await.unwrap(), sale.cancel(hold).await.unwrap());
    let told = json!({
        "reserve": "halted", "retry_at_us": retry_at.as_micros(), "confirm": word(confirm), "cancel": word(cancel)
    });
    println!("» {told}");
}
