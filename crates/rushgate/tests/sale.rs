//! The sale API: admission cache, ledger, and the guarantee that exactly N units are sold.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use common::{Bench, eventually, ms, secs};
use rushgate::queue::{Payload, Retry, Selection};
use rushgate::sale::{
    Created, Decision, Foreseen, HoldState, OrderIntent, OrderReport, OrderTask, ReservationId, SaleStatus,
    SkuState, StockChanged, Sweeper, UnitChoice, UnitRange,
};
use rushgate::store::StoreInfo;
use rushgate::{
    BuyerId, CancellationToken, Error, IdempotencyKey, Ledger, Line, OrderWorker, Reserved, Rushgate, Sale,
    SaleBuilder, Sku,
};
use rushgate_core::{Answer, ContentType, LedgerBooks, SaleId};
use rushgate_ledger::{KnownSale, LedgerCalls, LedgerSale, SqliteLedger, Written};
use tokio::task::JoinHandle;

on_each_store! {
    what_is_sold_out_is_answered_from_memory
    what_would_be_answered_is_foreseen_and_nothing_is_taken
    a_replay_passes_the_closed_gate_in_every_process
    all_held_is_not_sold_out
    a_unit_returned_elsewhere_is_found_by_a_probe
    a_hold_that_runs_out_lets_the_next_buyer_in
    a_cart_is_closed_by_any_of_its_lines
    a_sale_that_is_not_open_opens_the_gate_when_it_is
    an_ended_sale_is_answered_from_memory_and_replays_are_not
    bad_carts_go_to_the_store_even_when_it_is_sold_out
    a_crowd_buys_every_unit_once
    seats_have_one_number_over_all_segments
    the_sweeper_gives_units_back_in_time
    orders_reach_the_ledger
    however_many_wait_for_their_orders_the_sale_is_looked_at_once_for_all
    who_waits_for_an_order_goes_on_when_the_runtime_that_looked_is_gone
    a_failing_ledger_loses_nothing
    a_worker_that_dies_between_ledger_and_store_is_replaced
    a_bad_order_is_a_dead_letter_alone
    a_forged_order_is_set_aside_and_the_sale_goes_on
    dead_orders_are_retried_and_deleted_by_the_verbs_of_their_sale_alone
    millions_of_units_are_withdrawn_and_the_ledger_agrees
    units_between_held_ones_are_withdrawn_and_the_ledger_agrees
    sales_that_share_a_queue_and_an_sku_keep_their_stocks_apart
}

on_a_cluster! {
    a_crowd_buys_every_unit_once
    orders_reach_the_ledger
}

fn buyer(name: impl std::fmt::Display) -> BuyerId {
    BuyerId::new(name.to_string()).unwrap()
}

fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey::new(text).unwrap()
}

fn cart(skus: &[&str]) -> Vec<Line> {
    skus.iter().map(|sku| Line { sku: Sku::new(sku).unwrap(), quantity: 1 }).collect()
}

fn phones(units: u32) -> SaleBuilder {
    SaleBuilder::new("phones").sku("phone", units, 1).hold(secs(60))
}

async fn open(gate: &Rushgate, sale: SaleBuilder) -> Sale {
    open_as(gate, "phones", sale).await
}

async fn open_as(gate: &Rushgate, id: &str, sale: SaleBuilder) -> Sale {
    assert_eq!(gate.create_sale(sale).await.unwrap(), Created::Created);
    let sale = gate.sale(id).unwrap();
    assert_eq!(sale.open().await.unwrap(), SaleStatus::Open);
    sale
}

async fn reserve(sale: &Sale, who: impl std::fmt::Display) -> Reserved {
    sale.reserve(&buyer(who), &cart(&["phone"]), &key("k")).await.unwrap()
}

async fn hold(sale: &Sale, who: impl std::fmt::Display) -> rushgate::sale::Hold {
    match reserve(sale, who).await {
        Reserved::Reserved(hold) => hold,
        other => panic!("{other:?}"),
    }
}

async fn what_is_sold_out_is_answered_from_memory(bench: Bench) {
    let sale = open(&bench.client(), phones(1)).await;
    let held = hold(&sale, "ann").await;
    assert!(matches!(sale.confirm(held.id).await.unwrap(), Decision::Done(_)));
    for n in 0..1_000 {
        assert!(matches!(reserve(&sale, n).await, Reserved::SoldOut { free: 0, .. }));
    }
    let stats = sale.gate_stats();
    assert_eq!(stats.from_memory + stats.at_store, 1_001);
    assert!(stats.from_memory > 900, "{stats:?}");
    assert!(sale.audit(None).await.unwrap().ok);
}

async fn what_would_be_answered_is_foreseen_and_nothing_is_taken(bench: Bench) {
    let gate = bench.client();
    gate.create_sale(phones(1)).await.unwrap();
    let (sale, there) = (gate.sale("phones").unwrap(), bench.client().sale("phones").unwrap());
    let (ann, bob, cart, key) = (buyer("ann"), buyer("bob"), cart(&["phone"]), key("k"));
    let foresee = async |who: &BuyerId| sale.foresee(who, &cart, &key).await.unwrap();
    assert_eq!(foresee(&bob).await, Foreseen::Unknown, "the cache is still empty");
    assert_eq!(reserve(&sale, "bob").await, Reserved::NotOpen { opens_at: None });
    assert_eq!(foresee(&bob).await, Foreseen::Answer(Reserved::NotOpen { opens_at: None }));
    there.open().await.unwrap();
    eventually(async || foresee(&bob).await == Foreseen::Unknown).await;
    let held = hold(&there, "ann").await;
    assert!(matches!(reserve(&sale, "bob").await, Reserved::AllHeld { .. }));
    assert!(matches!(foresee(&bob).await, Foreseen::Answer(Reserved::AllHeld { .. })));
    assert_eq!(foresee(&ann).await, Foreseen::Replay);
    there.cancel(held.id).await.unwrap();
    eventually(async || foresee(&bob).await == Foreseen::Unknown).await;
    assert_eq!(sale.state().await.unwrap().skus[0].free, 1);
    there.end().await.unwrap();
    assert_eq!(reserve(&sale, "bob").await, Reserved::Ended);
    assert_eq!(foresee(&bob).await, Foreseen::Answer(Reserved::Ended));
}

async fn a_replay_passes_the_closed_gate_in_every_process(bench: Bench) {
    let here = open(&bench.client(), phones(2)).await;
    let there = bench.client().sale("phones").unwrap();
    let (ann, bob) = (hold(&here, "ann").await, hold(&there, "bob").await);
    for sale in [&here, &there] {
        assert!(matches!(reserve(sale, "cem").await, Reserved::AllHeld { .. }));
        for (name, held) in [("ann", &ann), ("bob", &bob)] {
            let Reserved::Replayed(again) = reserve(sale, name).await else {
                panic!("{name} has a reservation")
            };
            assert_eq!(again.id, held.id);
        }
        assert_eq!(sale.gate_stats().replays, 2);
    }
}

async fn all_held_is_not_sold_out(bench: Bench) {
    let sale = open(&bench.client(), phones(1)).await;
    let held = hold(&sale, "ann").await;
    for n in 0..100 {
        let Reserved::AllHeld { next_expiry, free: 0, .. } = reserve(&sale, n).await else { panic!() };
        assert_eq!(next_expiry, Some(held.deadline));
    }
    assert!(sale.gate_stats().from_memory > 50);
    sale.confirm(held.id).await.unwrap();
    eventually(async || matches!(reserve(&sale, "dee").await, Reserved::SoldOut { .. })).await;
}

async fn a_unit_returned_elsewhere_is_found_by_a_probe(bench: Bench) {
    let (here, there) = (open(&bench.client(), phones(1)).await, bench.client().sale("phones").unwrap());
    let held = hold(&there, "ann").await;
    assert!(matches!(reserve(&here, "bob").await, Reserved::AllHeld { .. }));
    assert!(matches!(reserve(&here, "bob").await, Reserved::AllHeld { .. }));
    assert!(matches!(there.cancel(held.id).await.unwrap(), Decision::Done(_)));
    eventually(async || matches!(reserve(&here, "bob").await, Reserved::Reserved(_))).await;
    assert!(here.gate_stats().probes > 0);
    assert!(here.audit(None).await.unwrap().ok);
}

async fn a_hold_that_runs_out_lets_the_next_buyer_in(bench: Bench) {
    let sale = open(&bench.client(), phones(1).hold(ms(150))).await;
    let held = hold(&sale, "ann").await;
    eventually(async || matches!(reserve(&sale, "bob").await, Reserved::Reserved(_))).await;
    let Decision::Refused(late) = sale.confirm(held.id).await.unwrap() else { panic!("too late") };
    assert_eq!(late.state, HoldState::Expired);
}

async fn a_cart_is_closed_by_any_of_its_lines(bench: Bench) {
    let builder = phones(1).sku("case", 100, 100);
    let sale = open(&bench.client(), builder).await;
    hold(&sale, "ann").await;
    let both = cart(&["case", "phone"]);
    for n in 0..50 {
        let answer = sale.reserve(&buyer(n), &both, &key("k")).await.unwrap();
        let Reserved::AllHeld { sku, .. } = answer else { panic!("{answer:?}") };
        assert_eq!(sku.as_str(), "phone");
    }
    let case = sale.reserve(&buyer("bob"), &cart(&["case"]), &key("k2")).await.unwrap();
    assert!(matches!(case, Reserved::Reserved(_)), "the other SKU still sells");
}

async fn a_sale_that_is_not_open_opens_the_gate_when_it_is(bench: Bench) {
    let gate = bench.client();
    gate.create_sale(phones(1)).await.unwrap();
    let (here, there) = (gate.sale("phones").unwrap(), bench.client().sale("phones").unwrap());
    for n in 0..100 {
        assert_eq!(reserve(&here, n).await, Reserved::NotOpen { opens_at: None });
    }
    assert!(here.gate_stats().from_memory > 50);
    there.open().await.unwrap();
    eventually(async || matches!(reserve(&here, "ann").await, Reserved::Reserved(_))).await;

    let opens_at = here.state().await.unwrap().now + ms(300);
    gate.create_sale(SaleBuilder::new("later").sku("phone", 1, 1).opens_at(opens_at)).await.unwrap();
    let later = gate.sale("later").unwrap();
    later.open().await.unwrap();
    assert_eq!(reserve(&later, "ann").await, Reserved::NotOpen { opens_at: Some(opens_at) });
    assert_eq!(reserve(&later, "ann").await, Reserved::NotOpen { opens_at: Some(opens_at) });
    eventually(async || matches!(reserve(&later, "ann").await, Reserved::Reserved(_))).await;
}

async fn an_ended_sale_is_answered_from_memory_and_replays_are_not(bench: Bench) {
    let sale = open(&bench.client(), phones(2)).await;
    let held = hold(&sale, "ann").await;
    assert_eq!(sale.end().await.unwrap(), SaleStatus::Ended);
    for n in 0..50 {
        assert_eq!(reserve(&sale, n).await, Reserved::Ended);
    }
    assert_eq!(sale.gate_stats().from_memory, 49);
    assert!(matches!(reserve(&sale, "ann").await, Reserved::Replayed(again) if again.id == held.id));
    assert!(matches!(sale.confirm(held.id).await.unwrap(), Decision::Done(_)));
}

async fn bad_carts_go_to_the_store_even_when_it_is_sold_out(bench: Bench) {
    let sale = open(&bench.client(), phones(1)).await;
    hold(&sale, "ann").await;
    assert!(matches!(reserve(&sale, "bob").await, Reserved::AllHeld { .. }));
    let refused = async |lines: &[Line]| sale.reserve(&buyer("cem"), lines, &key("k")).await.unwrap_err();
    assert!(refused(&[]).await.is_invalid());
    assert!(refused(&cart(&["phone", "phone"])).await.is_invalid());
    assert!(refused(&[Line { sku: Sku::new("phone").unwrap(), quantity: 0 }]).await.is_invalid());
    assert!(refused(&cart(&["phone", "tulip"])).await.is_not_found());
    let nowhere = bench.client().sale("nowhere").unwrap();
    let error = nowhere.reserve(&buyer("cem"), &cart(&["phone"]), &key("k")).await.unwrap_err();
    assert!(error.is_not_found());
}

async fn a_crowd_buys_every_unit_once(bench: Bench) {
    const UNITS: u32 = 20;
    let first = open(&bench.client(), phones(UNITS)).await;
    let sales = Arc::new([first, bench.client().sale("phones").unwrap()]);
    let mut crowd = tokio::task::JoinSet::new();
    let sold = Arc::new(AtomicU32::new(0));
    for n in 0..600 {
        let (sales, sold) = (Arc::clone(&sales), Arc::clone(&sold));
        crowd.spawn(async move {
            // Every buyer clicks three times, in alternating processes.
            for click in 0..3 {
                match reserve(&sales[(n + click) % 2], n).await {
                    Reserved::Reserved(hold) => {
                        sold.fetch_add(1, Ordering::SeqCst);
                        sales[n % 2].confirm(hold.id).await.unwrap();
                    }
                    Reserved::Replayed(_) | Reserved::AllHeld { .. } | Reserved::SoldOut { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
        });
    }
    crowd.join_all().await;
    assert_eq!(sold.load(Ordering::SeqCst), UNITS);
    let audit = sales[0].audit(None).await.unwrap();
    assert!(audit.ok, "{audit:?}");
}

async fn seats_have_one_number_over_all_segments(bench: Bench) {
    let gate = bench.client();
    gate.create_sale(SaleBuilder::new("train").sku("a-b", 2, 4).sku("b-c", 2, 4)).await.unwrap();
    let train = gate.sale("train").unwrap();
    train.open().await.unwrap();
    train.reserve(&buyer("ann"), &cart(&["a-b"]), &key("k")).await.unwrap();
    let through = cart(&["a-b", "b-c"]);
    let bob = train.reserve_units(&buyer("bob"), &through, UnitChoice::SameNumber, &key("k")).await.unwrap();
    let Reserved::Reserved(bob) = bob else { panic!("{bob:?}") };
    assert_eq!((bob.units[0].1, bob.units[1].1), (2, 2));
    let cem = train.reserve_units(&buyer("cem"), &through, UnitChoice::SameNumber, &key("k")).await.unwrap();
    assert!(matches!(cem, Reserved::AllHeld { .. }));
    assert!(train.audit(None).await.unwrap().ok);
}

async fn the_sweeper_gives_units_back_in_time(bench: Bench) {
    let sale = open(&bench.client(), phones(5).hold(ms(200))).await;
    let shutdown = CancellationToken::new();
    let sweeper = tokio::spawn(Sweeper::new(sale.clone()).run(shutdown.clone()));
    for n in 0..5 {
        hold(&sale, n).await;
    }
    eventually(async || sale.state().await.unwrap().skus[0].free == 5).await;
    shutdown.cancel();
    let report = sweeper.await.unwrap().unwrap();
    assert_eq!(report.expired, 5);
    assert!(report.rounds < 50, "the sweeper sleeps until the deadline: {report:?}");
    assert!(sale.audit(None).await.unwrap().ok);
}

/// A running order worker.
struct Clerk {
    worker: JoinHandle<rushgate::Result<OrderReport>>,
    shutdown: CancellationToken,
}

impl Clerk {
    fn start(sale: &Sale, ledger: Arc<dyn Ledger>) -> Self {
        let shutdown = CancellationToken::new();
        let worker = OrderWorker::new(sale.clone(), ledger).batch(50).lease(ms(500));
        Self { worker: tokio::spawn(worker.run(shutdown.clone())), shutdown }
    }

    async fn stop(self) -> OrderReport {
        self.shutdown.cancel();
        self.worker.await.unwrap().unwrap()
    }
}

/// Waits until the order queue is empty.
async fn at_rest(sale: &Sale, gate: &Rushgate) {
    let orders = gate.queue(sale.state().await.unwrap().spec.orders.unwrap()).unwrap();
    let is_empty = async || {
        let stats = orders.stats().await.unwrap();
        stats.ready + stats.scheduled + stats.leased == 0
    };
    eventually(is_empty).await;
}

/// Makes ten reservations: five confirmed, two canceled, three held.
async fn some_trade(sale: &Sale) {
    for n in 0..10 {
        let held = hold(sale, n).await;
        let decision = match n {
            0..5 => sale.confirm(held.id).await.unwrap(),
            5..7 => sale.cancel(held.id).await.unwrap(),
            _ => continue,
        };
        assert!(matches!(decision, Decision::Pending(_)), "the ledger decides: {decision:?}");
    }
}

async fn settled(sale: &Sale, gate: &Rushgate, ledger: &dyn Ledger) {
    at_rest(sale, gate).await;
    let audit = sale.audit(Some(ledger)).await.unwrap();
    assert!(audit.ok, "{audit:#?}");
    let sku = sale.state().await.unwrap().skus[0].clone();
    assert_eq!((sku.confirmed, sku.held, sku.free), (5, 3, 12));
}

async fn orders_reach_the_ledger(bench: Bench) {
    let sale = open(&bench.client(), phones(20).orders("orders")).await;
    let ledger: Arc<dyn Ledger> = Arc::new(SqliteLedger::in_memory().unwrap());
    let clerk = Clerk::start(&sale, Arc::clone(&ledger));
    some_trade(&sale).await;
    let (ann, eve) = (hold(&sale, "ann").await, hold(&sale, "eve").await);
    sale.confirm(ann.id).await.unwrap();
    let ann = sale.wait_final(ann.id, std::time::Duration::MAX).await.unwrap().unwrap();
    assert_eq!(ann.state, HoldState::Confirmed);
    let waiting = sale.wait_final(eve.id, ms(20)).await.unwrap().unwrap();
    assert_eq!(waiting.state, HoldState::Held, "the wait ends without a decision");
    sale.cancel(eve.id).await.unwrap();
    sale.wait_final(eve.id, secs(20)).await.unwrap();
    at_rest(&sale, &bench.client()).await;
    let report = clerk.stop().await;
    assert_eq!((report.tasks.dead, report.lost_writes, report.settled), (0, 0, 9));
    assert!(sale.audit(Some(&*ledger)).await.unwrap().ok);
    assert!(!sale.audit(None).await.unwrap().ok, "the audit needs the ledger");
}

async fn however_many_wait_for_their_orders_the_sale_is_looked_at_once_for_all(bench: Bench) {
    const BUYERS: u32 = 200;
    let (gate, elsewhere) = (bench.client(), bench.client());
    let sale = open(&gate, phones(BUYERS)).await;
    let mut holds = Vec::new();
    for n in 0..BUYERS {
        holds.push(hold(&sale, n).await.id);
    }
    let before = gate.calls().calls;
    let all: Vec<_> = holds
        .iter()
        .map(|id| {
            let (sale, id) = (sale.clone(), *id);
            tokio::spawn(async move { sale.wait_final(id, secs(60)).await.unwrap().unwrap().state })
        })
        .collect();
    // Each waiter reads twice before it sleeps.
    eventually(async || gate.calls().calls - before >= 2 * u64::from(BUYERS)).await;
    let there = elsewhere.sale("phones").unwrap();
    for (n, id) in holds.into_iter().enumerate() {
        let at = if n % 2 == 0 { &sale } else { &there };
        assert!(matches!(at.confirm(id).await.unwrap(), Decision::Done(_)));
    }
    for waiting in all {
        assert_eq!(waiting.await.unwrap(), HoldState::Confirmed);
    }
    let calls = gate.calls().calls - before;
    assert!(calls < 15 * u64::from(BUYERS), "{calls} calls for {BUYERS} waiters");
}

async fn who_waits_for_an_order_goes_on_when_the_runtime_that_looked_is_gone(bench: Bench) {
    let gate = bench.client();
    let sale = open(&gate, phones(2)).await;
    let (ann, eve) = (hold(&sale, "ann").await.id, hold(&sale, "eve").await.id);
    let (first, second, stop) = (sale.clone(), sale.clone(), CancellationToken::new());
    let (before, until) = (gate.calls().calls, stop.clone());
    let other = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            tokio::select! {
                over = first.wait_final(ann, secs(60)) => panic!("ended without a decision: {over:?}"),
                () = until.cancelled() => {}
            }
        });
    });
    // By now it has read the reservation twice and the sale once.
    eventually(async || gate.calls().calls - before >= 3).await;
    let waiting = tokio::spawn(async move { second.wait_final(eve, secs(60)).await });
    eventually(async || gate.calls().calls - before >= 5).await;
    stop.cancel();
    other.join().unwrap();
    sale.confirm(eve).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap().unwrap().state, HoldState::Confirmed);
}

async fn a_failing_ledger_loses_nothing(bench: Bench) {
    let sale = open(&bench.client(), phones(20).orders("orders")).await;
    let ledger = Arc::new(Troubled::new(Trouble::DownFor(AtomicU32::new(6))));
    let clerk = Clerk::start(&sale, ledger.clone());
    some_trade(&sale).await;
    settled(&sale, &bench.client(), &*ledger).await;
    let report = clerk.stop().await;
    assert_eq!((report.tasks.retried, report.tasks.dead), (0, 0), "no attempt is counted");
    assert!(report.outages >= 6);
}

async fn a_worker_that_dies_between_ledger_and_store_is_replaced(bench: Bench) {
    let sale = open(&bench.client(), phones(20).orders("orders")).await;
    some_trade(&sale).await;
    let ledger = Arc::new(Troubled::new(Trouble::NoAnswer(AtomicBool::new(true))));
    let clerk = Clerk::start(&sale, ledger.clone());
    eventually(async || !ledger.books(sale.id()).await.is_ok_and(|books| books.orders.is_empty())).await;
    clerk.worker.abort();
    let _ = clerk.worker.await;
    assert_eq!(sale.state().await.unwrap().skus[0].confirmed, 0, "the store has no decision");
    ledger.recover();
    let clerk = Clerk::start(&sale, ledger.clone());
    settled(&sale, &bench.client(), &*ledger).await;
    clerk.stop().await;
}

/// A client with the authority of an order worker, to simulate what a bug or another program could do.
fn with_authority(bench: &Bench) -> Rushgate {
    Rushgate::with_store(bench.store().for_orders())
}

async fn a_bad_order_is_a_dead_letter_alone(bench: Bench) {
    let gate = bench.client();
    let sale = open(&gate, phones(20).orders("orders")).await;
    let garbage = Payload::new(ContentType::bytes(), b"no order".to_vec()).unwrap();
    with_authority(&bench).queue("orders").unwrap().enqueue("garbage", garbage).send().await.unwrap();
    let ledger = Arc::new(Troubled::new(Trouble::None));
    some_trade(&sale).await;
    let clerk = Clerk::start(&sale, ledger.clone());
    settled(&sale, &bench.client(), &*ledger).await;
    assert_eq!(clerk.stop().await.tasks.dead, 1);
    assert_eq!(gate.queue("orders").unwrap().stats().await.unwrap().dead, 1);
}

async fn a_forged_order_is_set_aside_and_the_sale_goes_on(bench: Bench) {
    let gate = bench.client();
    let sale = open(&gate, phones(20).orders("orders")).await;
    let other = SaleBuilder::new("other").sku("phone", 9, 1).orders("orders");
    let other = open_as(&gate, "other", other).await;
    let bought = OrderTask::Reservation {
        sale: sale.id().clone(),
        generation: 1,
        seq: 1,
        id: ReservationId::from_bytes([9; 16]),
        buyer: BuyerId::new("mallory").unwrap(),
        units: vec![(Sku::new("phone").unwrap(), 1)],
        intent: OrderIntent::Confirm,
    };
    let stock = |id: &str| OrderTask::Stock {
        sale: SaleId::new(id).unwrap(),
        sku: Sku::new("phone").unwrap(),
        seq: 1,
        total: 5_000,
        withdrawn: Vec::new(),
        per_buyer: 5_000,
    };
    let anothers = other.state().await.unwrap().spec.secret;
    let unsigned = serde_json::to_vec(&stock("phones")).unwrap();
    let orders = with_authority(&bench).queue("orders").unwrap();
    for (id, payload) in [
        ("unsigned", Payload::new(ContentType::json(), unsigned).unwrap()),
        ("stock", stock("phones").seal(anothers).unwrap()),
        ("bought", bought.seal(anothers).unwrap()),
        ("unknown", stock("nosuch").seal(anothers).unwrap()),
    ] {
        orders.enqueue(id, payload).send().await.unwrap();
    }
    let ledger = Arc::new(Troubled::new(Trouble::None));
    some_trade(&sale).await;
    let clerk = Clerk::start(&sale, ledger.clone());
    settled(&sale, &bench.client(), &*ledger).await;
    let report = clerk.stop().await;
    assert_eq!((report.tasks.dead, report.lost_writes), (4, 0));
    let state = sale.state().await.unwrap();
    assert_eq!((state.halted, state.skus[0].total), (None, 20));
    let books = ledger.books(sale.id()).await.unwrap();
    assert_eq!(books.skus[0].total, 20);
    assert!(books.orders.iter().all(|order| order.buyer.as_str() != "mallory"));
    for (id, why) in [("stock", "was not signed by the sale"), ("unknown", "does not exist")] {
        let letter = gate.queue("orders").unwrap().dead_letter(id).await.unwrap().unwrap();
        assert!(letter.error.contains(why), "{letter:?}");
    }
}

async fn dead_orders_are_retried_and_deleted_by_the_verbs_of_their_sale_alone(bench: Bench) {
    let gate = bench.client();
    let sale = open(&gate, phones(20).orders("orders")).await;
    gate.create_sale(SaleBuilder::new("other").sku("phone", 9, 1).orders("orders")).await.unwrap();
    let other = gate.sale("other").unwrap();
    withdraw(&sale, 1).await;
    withdraw(&other, 1).await;
    withdraw(&other, 1).await;
    let worker = with_authority(&bench).queue("orders").unwrap();
    for _ in 0..3 {
        let ticket = worker.claim(1, secs(10)).await.unwrap().remove(0).ticket;
        worker
            .retry(vec![Retry { ticket, delay: ms(0), error: "boom".into(), give_up: true }])
            .await
            .unwrap();
    }
    let orders = gate.queue("orders").unwrap();
    assert!(orders.requeue_dead(Selection::All).await.unwrap_err().is_queue_reserved());
    assert!(orders.delete_dead(Selection::All).await.unwrap_err().is_queue_reserved());
    assert!(orders.pause().await.unwrap_err().is_queue_reserved());
    for n in [0, 1_001] {
        let ids = Selection::Ids(vec!["stock:phones:1".parse().unwrap(); n]);
        assert!(sale.requeue_orders(ids.clone()).await.unwrap_err().is_invalid(), "{n} IDs");
        assert!(sale.delete_orders(ids).await.unwrap_err().is_invalid(), "{n} IDs");
    }

    assert_eq!(sale.requeue_orders(Selection::All).await.unwrap().requeued, 1);
    assert_eq!(
        other.delete_orders(Selection::Ids(vec!["stock:phones:1".parse().unwrap()])).await.unwrap(),
        0
    );
    let first = orders.dead("", 1).await.unwrap().remove(0).id;
    assert_eq!(other.delete_orders(Selection::Ids(vec![first])).await.unwrap(), 1);
    let stats = orders.stats().await.unwrap();
    assert_eq!((stats.ready, stats.dead), (1, 1));

    other.pause_orders().await.unwrap();
    assert!(orders.stats().await.unwrap().paused);
    sale.resume_orders().await.unwrap();
    assert!(!orders.stats().await.unwrap().paused);
    let alone = open_as(&gate, "alone", SaleBuilder::new("alone").sku("phone", 1, 1)).await;
    assert!(alone.pause_orders().await.unwrap_err().is_invalid());
}

/// Withdrawn units and total of a sale's first SKU, as the ledger has them.
async fn ledger_stock(ledger: &dyn Ledger, sale: &Sale) -> (Vec<UnitRange>, u32) {
    let sku = ledger.books(sale.id()).await.unwrap().skus.remove(0);
    (UnitRange::gather(sku.withdrawn), sku.total)
}

fn range(first: u32, last: u32) -> UnitRange {
    UnitRange::new(first, last).unwrap()
}

async fn withdraw(sale: &Sale, n: u32) -> SkuState {
    match sale.withdraw_stock(&Sku::new("phone").unwrap(), n).await.unwrap() {
        StockChanged::Changed(now) => now,
        other => panic!("{other:?}"),
    }
}

async fn millions_of_units_are_withdrawn_and_the_ledger_agrees(bench: Bench) {
    let sale = open(&bench.client(), phones(2_000_000).orders("orders")).await;
    let ledger: Arc<dyn Ledger> = Arc::new(SqliteLedger::in_memory().unwrap());
    let clerk = Clerk::start(&sale, Arc::clone(&ledger));
    some_trade(&sale).await;
    assert_eq!(withdraw(&sale, 1_000_000).await.withdrawn, 1_000_000);
    sale.add_stock(&Sku::new("phone").unwrap(), 10).await.unwrap();
    let last = hold(&sale, "last").await;
    sale.confirm(last.id).await.unwrap();
    at_rest(&sale, &bench.client()).await;
    let report = clerk.stop().await;
    assert_eq!((report.tasks.dead, report.lost_writes), (0, 0));
    assert_eq!(ledger_stock(&*ledger, &sale).await, (vec![range(1_000_001, 2_000_000)], 2_000_010));
    let audit = sale.audit(Some(&*ledger)).await.unwrap();
    assert!(audit.ok, "{audit:#?}");
}

async fn units_between_held_ones_are_withdrawn_and_the_ledger_agrees(bench: Bench) {
    let sale = open(&bench.client(), phones(400).orders("orders")).await;
    let ledger: Arc<dyn Ledger> = Arc::new(SqliteLedger::in_memory().unwrap());
    let clerk = Clerk::start(&sale, Arc::clone(&ledger));
    let mut holds = Vec::new();
    for n in 0..400 {
        holds.push(hold(&sale, n).await);
    }
    for hold in holds.iter().step_by(2) {
        sale.cancel(hold.id).await.unwrap();
    }
    at_rest(&sale, &bench.client()).await;
    for n in [1, 99, 100] {
        withdraw(&sale, n).await;
    }
    at_rest(&sale, &bench.client()).await;
    let report = clerk.stop().await;
    assert_eq!((report.tasks.dead, report.lost_writes), (0, 0));
    let odd: Vec<_> = (1..400).step_by(2).map(UnitRange::one).collect();
    assert_eq!(ledger_stock(&*ledger, &sale).await, (odd, 400));
    assert!(matches!(reserve(&sale, "late").await, Reserved::AllHeld { free: 0, .. }));
    let audit = sale.audit(Some(&*ledger)).await.unwrap();
    assert!(audit.ok, "{audit:#?}");
}

async fn sales_that_share_a_queue_and_an_sku_keep_their_stocks_apart(bench: Bench) {
    let gate = bench.client();
    let ledger: Arc<dyn Ledger> = Arc::new(SqliteLedger::in_memory().unwrap());
    let mut sales = Vec::new();
    for (name, withdrawn) in [("east", 3), ("west", 5)] {
        gate.create_sale(SaleBuilder::new(name).sku("phone", 10, 1).orders("orders")).await.unwrap();
        let sale = gate.sale(name).unwrap();
        withdraw(&sale, withdrawn).await;
        sales.push(sale);
    }
    let clerk = Clerk::start(&sales[0], Arc::clone(&ledger));
    at_rest(&sales[0], &gate).await;
    clerk.stop().await;
    assert_eq!(ledger_stock(&*ledger, &sales[0]).await, (vec![range(8, 10)], 10));
    assert_eq!(ledger_stock(&*ledger, &sales[1]).await, (vec![range(6, 10)], 10));
}

/// A ledger with one fault.
struct Troubled {
    ledger: SqliteLedger,
    trouble: Trouble,
}

enum Trouble {
    None,
    /// The first `n` writes fail.
    DownFor(AtomicU32),
    /// Writes are committed, but never answered.
    NoAnswer(AtomicBool),
}

impl Troubled {
    fn new(trouble: Trouble) -> Self {
        Self { ledger: SqliteLedger::in_memory().unwrap(), trouble }
    }

    fn recover(&self) {
        if let Trouble::NoAnswer(silent) = &self.trouble {
            silent.store(false, Ordering::SeqCst);
        }
    }
}

impl Ledger for Troubled {
    fn open_sale(&self, sale: LedgerSale) -> Answer<'_, ()> {
        self.ledger.open_sale(sale)
    }

    fn write(&self, entries: Vec<OrderTask>) -> Answer<'_, Vec<Written>> {
        match &self.trouble {
            Trouble::DownFor(left)
                if left.try_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok() =>
            {
                Box::pin(async { Err(Error::unavailable("the ledger is down, on purpose")) })
            }
            Trouble::NoAnswer(silent) if silent.load(Ordering::SeqCst) => {
                let written = self.ledger.write(entries);
                Box::pin(async move {
                    let written = written.await;
                    // Registering an unknown sale must not trigger the fault.
                    if matches!(&written, Ok(w) if w.iter().any(|w| matches!(w, Written::Recorded(_)))) {
                        std::future::pending::<()>().await;
                    }
                    written
                })
            }
            _ => self.ledger.write(entries),
        }
    }

    fn find_sale(&self, sale: &SaleId) -> Answer<'_, Option<KnownSale>> {
        self.ledger.find_sale(sale)
    }

    fn advance(&self, sale: &SaleId) -> Answer<'_, u32> {
        self.ledger.advance(sale)
    }

    fn books(&self, sale: &SaleId) -> Answer<'_, LedgerBooks> {
        self.ledger.books(sale)
    }

    fn ping(&self) -> Answer<'_, ()> {
        self.ledger.ping()
    }

    fn info(&self) -> StoreInfo {
        self.ledger.info()
    }

    fn counters(&self) -> LedgerCalls {
        self.ledger.counters()
    }

    fn close(&self) -> Answer<'_, ()> {
        self.ledger.close()
    }
}
