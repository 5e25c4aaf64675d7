//! Clients of a store that loses requests and answers.

use rushgate_core::{
    BuyerId, ClientId, ContentType, Error, HoldTime, NewTask, Op, QueueName, ReservationId, Reserve,
    Reserved, SaleId, SaleSpec, Sku, SkuSpec, TaskId, Verbs,
};
use rushgate_test::MemoryStore;
use rushgate_test::faults::{FaultPlan, Faulty};

async fn until_answered<T>(mut call: impl AsyncFnMut() -> Result<T, Error>) -> T {
    loop {
        match call().await {
            Ok(answer) => return answer,
            Err(error) => assert!(error.is_unavailable(), "{error:?}"),
        }
    }
}

fn sale() -> SaleSpec {
    SaleSpec {
        id: SaleId::new("s").unwrap(),
        skus: vec![SkuSpec { sku: Sku::new("a").unwrap(), units: 50, per_buyer: 1 }],
        hold: HoldTime::new(std::time::Duration::from_secs(60)).unwrap(),
        opens_at: None,
        closes_at: None,
        metadata: String::new(),
        ledger: false,
        secret: rushgate_core::SaleSecret::from_bytes([1; 16]),
    }
}

#[tokio::test]
async fn a_client_that_asks_again_by_token_sells_each_unit_once() {
    let plan = FaultPlan { before: 200, reply: 300, twice: 200 };
    let store = Faulty::new(MemoryStore::new(), plan, 7);
    let spec = sale();
    until_answered(async || store.create(spec.clone()).await).await;
    until_answered(async || store.open(&spec.id).await).await;
    for n in 0..50_u8 {
        let wish = Reserve {
            sale: spec.id.clone(),
            id: ReservationId::from_bytes([n; 16]),
            buyer: BuyerId::new(format!("b{n}")).unwrap(),
            lines: vec![rushgate_core::Line { sku: spec.skus[0].sku.clone(), quantity: 1 }],
            choice: Default::default(),
        };
        let answer = until_answered(async || store.reserve(wish.clone()).await).await;
        assert!(matches!(answer, Reserved::Reserved(_) | Reserved::Replayed(_)), "{answer:?}");
    }
    let snapshot = store.behind().snapshot(&spec.id).await.unwrap();
    assert!(rushgate_core::audit(&snapshot, None).ok);
    assert_eq!((snapshot.reservations.len(), snapshot.skus[0].free.len()), (50, 0));
    assert!(store.faults() > 20);
}

#[tokio::test]
async fn an_error_says_whether_the_step_may_have_happened() {
    let (name, op) = (QueueName::new("q").unwrap(), Op::new(ClientId::from_u64(1), 1));
    let payload = rushgate_core::Payload::new(ContentType::bytes(), Vec::new()).unwrap();
    let task = NewTask::new(TaskId::new("t").unwrap(), payload);
    for (plan, happened) in [
        (FaultPlan { before: 1_000, ..FaultPlan::default() }, false),
        (FaultPlan { reply: 1_000, ..FaultPlan::default() }, true),
    ] {
        let store = Faulty::new(MemoryStore::new(), plan, 1);
        let error = store.enqueue(op, &name, vec![task.clone()]).await.unwrap_err();
        assert_eq!(error.may_have_happened(), happened);
        assert_eq!(!store.behind().top(&name, 1).await.unwrap().is_empty(), happened);
    }
}
