//! Tokens, roles and scopes of the store API.

use std::sync::Arc;
use std::time::Duration;

use crate::common::Stand;
use rushgate_core::{
    Acquire, Acquired, BuyerId, ClientId, ContentType, Error, Extend, HoldTime, Lease, LockName, NewTask, Op,
    Owner, Page, Payload, QueueName, ReleaseWith, ReservationId, Result, SaleId, SaleSecret, SaleSpec, Sku,
    SkuSpec, Store, TaskId, Token, Verbs,
};
use rushgate_http::HttpStore;
use rushgate_server::{NewToken, Role, Server, TokenFile};
use rushgate_test::MemoryStore;
use tempfile::TempDir;

/// A server with tokens and an audit log.
struct Office {
    stand: Stand,
    tokens: TokenFile,
    dir: TempDir,
}

impl Office {
    fn new(memory: &MemoryStore) -> Self {
        let dir = TempDir::new().unwrap();
        let tokens = TokenFile::at(dir.path().join("tokens.json"));
        tokens.create(new_token(Role::Operator, &[])).unwrap();
        let log = dir.path().join("audit.jsonl");
        let stand = Stand::serve(Arc::new(memory.clone()), |server| Server {
            tokens: Some(tokens.clone()),
            audit_log: Some(log),
            ..server
        });
        Self { stand, tokens, dir }
    }

    async fn client(&self, role: Role, scopes: &[&str]) -> HttpStore {
        self.client_with(new_token(role, scopes)).await
    }

    async fn client_with(&self, token: NewToken) -> HttpStore {
        let (_, secret) = self.tokens.create(token).unwrap();
        // The server rereads the file within a fraction of a second.
        loop {
            match HttpStore::open(&format!("http://{secret}@{}", self.stand.address)).await {
                Ok(store) => return store,
                Err(error) => assert!(error.to_string().contains("valid API token"), "{error:?}"),
            }
        }
    }

    fn audit_log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("audit.jsonl")).unwrap()
    }
}

fn new_token(role: Role, scopes: &[&str]) -> NewToken {
    let scopes = scopes.iter().map(|scope| scope.parse().unwrap()).collect();
    NewToken { label: role.word().to_owned(), role, scopes, buyer: None }
}

fn lock(name: &str) -> LockName {
    LockName::new(name).unwrap()
}

fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

fn op(number: u64) -> Op {
    Op::new(ClientId::from_u64(1), number)
}

fn task() -> NewTask {
    NewTask::new(TaskId::new("t").unwrap(), Payload::new(ContentType::bytes(), Vec::new()).unwrap())
}

fn acquire(name: &str) -> Acquire {
    Acquire {
        name: lock(name),
        token: Token::new(ClientId::from_u64(1), 7),
        lease: Lease::new(Duration::from_secs(30)).unwrap(),
        wait: Duration::ZERO,
        barging: false,
        owner: Owner::default(),
    }
}

#[track_caller]
fn refused<T>(answer: Result<T>, words: &str) -> Error {
    let Err(error) = answer else { panic!("expected a refusal: {words}") };
    assert!(error.is_forbidden() && error.to_string().contains(words), "{error:?}");
    assert!(error.hint_text().is_some() && !error.may_have_happened(), "{error:?}");
    error
}

#[tokio::test]
async fn a_missing_or_unknown_token_is_refused_and_no_error_names_it() {
    let office = Office::new(&MemoryStore::new());
    let address = office.stand.address;
    refused(HttpStore::open(&format!("http://{address}")).await, "requires a valid API token");
    let wrong =
        refused(HttpStore::open(&format!("http://rg_secret@{address}")).await, "requires a valid API token");
    assert!(!format!("{wrong:?}").contains("rg_secret"), "{wrong:?}");
    let store = office.client(Role::Worker, &[]).await;
    assert_eq!(store.info().url, format!("http://{address}"));
}

#[tokio::test]
async fn a_worker_uses_locks_and_queues_and_an_operator_all() {
    let memory = MemoryStore::new();
    let office = Office::new(&memory);
    let worker = office.client(Role::Worker, &[]).await;
    assert!(matches!(worker.acquire(acquire("l")).await.unwrap(), Acquired::Granted(_)));
    worker.enqueue(op(1), &queue("q"), vec![task()]).await.unwrap();
    assert_eq!(worker.queues(Page::first(10)).await.unwrap(), [queue("q")]);
    refused(worker.pause(&queue("q")).await, "`pause` requires the role operator; the token has worker");
    refused(worker.force_release(&lock("l")).await, "`force_release` requires the role operator");
    refused(worker.sale(&SaleId::new("s").unwrap()).await, "`sale` requires the role operator");
    refused(worker.next_event(&queue("q"), 0).await, "requires the role operator");
    let held = &worker.show(&lock("l")).await.unwrap().holders[0];
    assert_eq!(held.token, Token::from_bytes([0; 16]), "the token is the holder's secret");
    let operator = office.client(Role::Operator, &[]).await;
    assert_eq!(operator.show(&lock("l")).await.unwrap().holders[0].token, acquire("l").token);
    operator.pause(&queue("q")).await.unwrap();
    operator.force_release(&lock("l")).await.unwrap();
    refused(HttpStore::open(&buyer(&office).await).await, "requires the role worker");
}

#[tokio::test]
async fn a_token_for_one_buyer_does_not_act_for_others_through_the_store_api() {
    let memory = MemoryStore::new();
    let office = Office::new(&memory);
    let buyer = Some(BuyerId::new("ann").unwrap());
    let of_ann = NewToken { buyer, ..new_token(Role::Operator, &[]) };
    let store = office.client_with(of_ann).await;
    let sale = SaleId::new("s").unwrap();
    let words = "a token for one buyer cannot use sales through the store API";
    refused(store.sale(&sale).await, words);
    refused(store.sales(Page::first(10)).await, words);
    refused(store.cancel_hold(&sale, ReservationId::from_bytes([1; 16])).await, words);
    store.enqueue(op(1), &queue("q"), vec![task()]).await.unwrap();
}

/// URL with a buyer's token that the server knows.
async fn buyer(office: &Office) -> String {
    let (_, secret) = office.tokens.create(new_token(Role::Buyer, &[])).unwrap();
    // A later token is known only together with the earlier one.
    office.client(Role::Worker, &[]).await;
    format!("http://{secret}@{}", office.stand.address)
}

#[tokio::test]
async fn scopes_cover_every_name_of_a_request_and_filter_the_lists() {
    let memory = MemoryStore::new();
    for (n, name) in (10..).zip(["mail-1", "mail-2", "other"]) {
        memory.enqueue(op(n), &queue(name), vec![task()]).await.unwrap();
    }
    let office = Office::new(&memory);
    let store = office.client(Role::Worker, &["queue:mail*", "lock:mine"]).await;
    assert_eq!(store.queues(Page::first(10)).await.unwrap(), [queue("mail-1"), queue("mail-2")]);
    assert_eq!(store.queues(Page::first(1)).await.unwrap(), [queue("mail-1")]);
    assert_eq!(store.queues(Page::after("mail-1".into(), 1)).await.unwrap(), [queue("mail-2")]);
    assert_eq!(store.queues(Page::after("mail-2".into(), 1)).await.unwrap(), []);
    store.stats(&queue("mail-1")).await.unwrap();
    refused(store.stats(&queue("other")).await, "do not cover this queue");
    refused(store.ready(&queue("other")).await, "do not cover this queue");
    refused(store.acquire(acquire("theirs")).await, "do not cover this lock");
    refused(store.release_all(ClientId::from_u64(1)).await, "do not cover this lock");
    let lease = |name| Extend { name: lock(name), token: acquire(name).token, lease: acquire(name).lease };
    refused(store.extend(vec![lease("mine"), lease("theirs")]).await, "do not cover this lock");
    store.acquire(acquire("mine")).await.unwrap();
    let release =
        |name, queue| ReleaseWith { name: lock(name), token: acquire("mine").token, queue, task: task() };
    refused(store.release_with(op(2), release("mine", queue("other"))).await, "do not cover this queue");
    refused(store.release_with(op(2), release("theirs", queue("mail-3"))).await, "do not cover this lock");
    store.release_with(op(3), release("mine", queue("mail-3"))).await.unwrap();
    let sale = SaleId::new("theirs").unwrap();
    refused(store.reservation(&sale, ReservationId::from_bytes([1; 16])).await, "do not cover this sale");
    assert_eq!(memory.stats(&queue("other")).await.unwrap().ready, 1);
}

#[tokio::test]
async fn what_an_operator_changes_is_in_the_audit_log_and_nothing_else_is() {
    let office = Office::new(&MemoryStore::new());
    let worker = office.client(Role::Worker, &[]).await;
    let operator = office.client(Role::Operator, &[]).await;
    worker.enqueue(op(1), &queue("q"), vec![task()]).await.unwrap();
    operator.snapshot(&SaleId::new("s").unwrap()).await.unwrap_err();
    operator.pause(&queue("q")).await.unwrap();
    refused(worker.resume(&queue("q")).await, "`resume` requires the role operator");
    let spec = SaleSpec {
        id: SaleId::new("s").unwrap(),
        skus: vec![SkuSpec { sku: Sku::new("a").unwrap(), units: 1, per_buyer: 1 }],
        hold: HoldTime::new(Duration::from_secs(60)).unwrap(),
        opens_at: None,
        closes_at: None,
        metadata: String::new(),
        ledger: false,
        secret: SaleSecret::from_bytes([231; 16]),
    };
    operator.create(spec).await.unwrap();
    let log = office.audit_log();
    assert!(!log.contains("231,231") && log.contains("\"secret\":\"hidden\""), "{log}");
    let paths: Vec<String> = log
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["path"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(paths, ["/v1/store/pause", "/v1/store/resume", "/v1/store/create"]);
}

#[tokio::test]
async fn a_page_of_large_tasks_comes_in_parts_and_complete() {
    let memory = MemoryStore::new();
    let large = Payload::new(ContentType::bytes(), vec![7; Payload::MAX_BYTES]).unwrap();
    for n in 0..24 {
        let task = NewTask::new(TaskId::new(format!("t{n:02}")).unwrap(), large.clone());
        memory.enqueue(op(n), &queue("q"), vec![task]).await.unwrap();
    }
    let office = Office::new(&memory);
    let store = office.client(Role::Worker, &["queue:q"]).await;
    let list = |limit| rushgate_core::Listing::new(None, Page::first(limit));
    let all = memory.tasks(&queue("q"), list(1_000)).await.unwrap().tasks;
    let page = store.tasks(&queue("q"), list(1_000)).await.unwrap();
    assert!(page.tasks.len() < all.len() && page.next.is_some(), "{} tasks", page.tasks.len());
    let tasks = list(1_000).read_all(|page| store.tasks(&queue("q"), page)).await.unwrap();
    assert_eq!(tasks, all);
    let first = list(20).fill(|page| store.tasks(&queue("q"), page)).await.unwrap();
    assert_eq!((&first.tasks[..], first.next.is_some()), (&all[..20], true));
}
