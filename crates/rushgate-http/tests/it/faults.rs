//! Lost answers, servers that refuse for the moment, and servers that are gone.

use std::sync::Arc;
use std::time::Duration;

use crate::common::Stand;
use rushgate_core::{
    Acquire, Acquired, ClientId, ContentType, Enqueued, Lease, LockName, NewTask, Op, Owner, Payload,
    QueueName, Store, TaskId, Token, Verbs, verb,
};
use rushgate_http::HttpStore;
use rushgate_test::MemoryStore;
use rushgate_test::faults::{FaultPlan, Faulty};
use rushgate_test::servers::Wire;

fn queue() -> QueueName {
    QueueName::new("q").unwrap()
}

fn op(number: u64) -> Op {
    Op::new(ClientId::from_u64(1), number)
}

fn task(id: &str) -> NewTask {
    let payload = Payload::new(ContentType::bytes(), Vec::new()).unwrap();
    NewTask::new(TaskId::new(id).unwrap(), payload)
}

fn acquire(token: u64) -> Acquire {
    Acquire {
        name: LockName::new("l").unwrap(),
        token: Token::new(ClientId::from_u64(1), token),
        lease: Lease::new(Duration::from_secs(30)).unwrap(),
        wait: Duration::ZERO,
        barging: false,
        owner: Owner::default(),
    }
}

#[tokio::test]
async fn a_step_whose_answer_is_lost_may_have_happened_and_is_answered_when_repeated() {
    let memory = MemoryStore::new();
    let stand = Stand::serve(Arc::new(memory.clone()), |server| server);
    let wire = Wire::to(stand.address.port());
    let store = HttpStore::open(&format!("http://127.0.0.1:{}", wire.port())).await.unwrap();
    wire.lose_answers(true);
    let error = store.enqueue(op(1), &queue(), vec![task("t")]).await.unwrap_err();
    assert!(error.is_unavailable() && error.may_have_happened(), "{error:?}");
    let error = store.stats(&queue()).await.unwrap_err();
    assert!(error.is_unavailable() && !error.may_have_happened(), "a read changes nothing: {error:?}");
    assert_eq!(memory.stats(&queue()).await.unwrap().ready, 1);
    wire.lose_answers(false);
    let again = store.enqueue(op(1), &queue(), vec![task("t")]).await.unwrap();
    assert!(matches!(again[..], [Enqueued::Added { .. }]), "{again:?}");
    assert_eq!((store.stats(&queue()).await.unwrap().ready, wire.lost()), (1, 2));
}

#[tokio::test]
async fn a_client_repeats_a_step_until_its_answer_arrives() {
    let stand = Stand::serve(Arc::new(MemoryStore::new()), |server| server);
    let wire = Arc::new(Wire::to(stand.address.port()));
    let store = HttpStore::open(&format!("http://127.0.0.1:{}", wire.port())).await.unwrap();
    let client = rushgate::Rushgate::with_store(Arc::new(store));
    wire.lose_answers(true);
    let heal = {
        let wire = Arc::clone(&wire);
        tokio::spawn(async move {
            while wire.lost() < 2 {
                tokio::task::yield_now().await;
            }
            wire.lose_answers(false);
        })
    };
    let added = client.queue("q").unwrap().enqueue("t", Payload::empty()).send().await.unwrap();
    heal.await.unwrap();
    assert!(matches!(added, Enqueued::Added { .. }), "{added:?}");
    assert_eq!(client.queue("q").unwrap().stats().await.unwrap().ready, 1);
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_server_without_its_store_is_asked_again_as_it_says() {
    let faulty = Arc::new(Faulty::new(MemoryStore::new(), FaultPlan::default(), 1));
    let stand = Stand::serve(faulty.clone(), |server| server);
    let store = stand.client().await;
    faulty.set_away(true);
    let answer = store.acquire(acquire(1));
    while faulty.calls_of::<verb::Acquire>() == 0 {
        tokio::task::yield_now().await;
    }
    faulty.set_away(false);
    assert!(matches!(answer.await.unwrap(), Acquired::Granted(_)));
    assert_eq!(faulty.calls_of::<verb::Acquire>(), 2);
}

#[tokio::test]
async fn a_store_that_stays_away_is_an_error_within_the_retry_budget() {
    let faulty = Arc::new(Faulty::new(MemoryStore::new(), FaultPlan::default(), 1));
    let stand = Stand::serve(faulty.clone(), |server| server);
    let store = stand.client().await;
    faulty.set_away(true);
    let error = store.acquire(acquire(1)).await.unwrap_err();
    assert!(error.is_unavailable() && !error.may_have_happened(), "{error:?}");
    let calls = faulty.calls_of::<verb::Acquire>();
    assert!((2..=5).contains(&calls), "{calls} requests in five seconds, one after each Retry-After");
}

#[tokio::test]
async fn a_step_whose_outcome_was_unknown_stays_so_when_the_server_refuses_its_repeat() {
    // Every answer of the store is lost, and then it is away.
    let plan = FaultPlan { reply: 1_000, ..FaultPlan::default() };
    let faulty = Arc::new(Faulty::new(MemoryStore::new(), plan, 1));
    let stand = Stand::serve(faulty.clone(), |server| server);
    let store = stand.client().await;
    let answer = store.enqueue(op(1), &queue(), vec![task("t")]);
    while faulty.calls_of::<verb::Enqueue>() == 0 {
        tokio::task::yield_now().await;
    }
    faulty.set_away(true);
    let error = answer.await.unwrap_err();
    assert!(error.is_unavailable() && error.may_have_happened(), "{error:?}");
    assert_eq!(faulty.behind().stats(&queue()).await.unwrap().ready, 1);
}

#[tokio::test]
async fn a_server_that_is_gone_is_unavailable_and_nothing_happened() {
    let stand = Stand::serve(Arc::new(MemoryStore::new()), |server| server);
    let (store, url) = (stand.client().await, stand.url());
    drop(stand);
    let gone = async || store.acquire(acquire(1)).await.unwrap_err();
    // The first request may meet a connection that the server is about to close.
    let mut error = gone().await;
    while error.may_have_happened() {
        error = gone().await;
    }
    assert!(error.is_unavailable(), "{error:?}");
    let error = HttpStore::open(&url).await.err().unwrap();
    assert!(error.is_unavailable() && error.to_string().contains(&url), "{error}");
    assert!(error.hint_text().unwrap().contains("rushgate serve"), "{error:?}");
}

#[tokio::test]
async fn a_closed_store_answers_what_was_sent_and_takes_no_more() {
    let memory = MemoryStore::new();
    let stand = Stand::serve(Arc::new(memory.clone()), |server| server);
    let store = stand.client().await;
    let listening = store.ready(&queue());
    let sent = store.enqueue(op(1), &queue(), vec![task("t")]);
    store.close().await.unwrap();
    assert!(matches!(sent.await.unwrap()[..], [Enqueued::Added { .. }]));
    assert_eq!(memory.stats(&queue()).await.unwrap().ready, 1);
    // The notification may have come before the end.
    if let Err(error) = listening.await {
        assert!(error.is_unavailable(), "{error:?}");
    }
    for error in [store.stats(&queue()).await.unwrap_err(), store.ready(&queue()).await.unwrap_err()] {
        assert!(error.is_unavailable() && !error.may_have_happened(), "{error:?}");
    }
}

#[test]
fn a_step_is_sent_from_outside_a_runtime_and_outlives_its_store() {
    let memory = MemoryStore::new();
    let stand = Stand::serve(Arc::new(memory.clone()), |server| server);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store = runtime.block_on(stand.client());
    drop(store.enqueue(op(1), &queue(), vec![task("t")]));
    drop(store);
    runtime.block_on(async {
        while memory.stats(&queue()).await.unwrap().ready == 0 {
            tokio::task::yield_now().await;
        }
    });
}
