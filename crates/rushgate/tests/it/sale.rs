//! The sale API: admission cache, ledger, and the guarantee that exactly N units are sold.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::common::{Bench, delivered, eventually, ms, secs};
use rushgate::lock::{Lease, Token};
use rushgate::sale::{
    Created, Decision, Estimate, HoldState, LedgerEntry, OrderReport, SaleStatus, SkuState, StockChanged,
    Sweeper, UnitChoice, UnitRange,
};
use rushgate::store::{Page, StoreInfo};
use rushgate::{
    BuyerId, CancellationToken, Error, IdempotencyKey, Ledger, Line, OrderWorker, Reserved, Rushgate, Sale,
    SaleBuilder, Sku,
};
use rushgate_core::{Answer, Delivery, Failure, Follow, Followed, LedgerSnapshot, SaleId, Verbs};
use rushgate_ledger::{KnownSale, LedgerCalls, LedgerSale, Written, connect as connect_ledger};
use tokio::task::JoinHandle;

on_each_store! {
    what_is_sold_out_is_answered_from_memory
    what_would_be_answered_is_foreseen_and_nothing_is_taken
    a_replay_passes_the_closed_admission_cache_in_every_process
    all_held_is_not_sold_out
    a_unit_returned_elsewhere_is_found_by_a_probe
    a_hold_that_runs_out_lets_the_next_buyer_in
    a_cart_is_closed_by_any_of_its_lines
    a_sale_that_opens_opens_the_admission_cache
    an_ended_sale_is_answered_from_memory_and_replays_are_not
    bad_carts_go_to_the_store_even_when_it_is_sold_out
    a_crowd_buys_every_unit_once
    seats_have_one_number_over_all_segments
    the_sweeper_gives_units_back_in_time
    orders_reach_the_ledger
    one_read_of_the_sale_serves_all_waiters
    a_waiter_for_an_order_continues_when_the_runtime_that_looked_is_gone
    a_failing_ledger_loses_nothing
    a_worker_that_dies_between_ledger_and_store_is_replaced
    one_worker_follows_a_sale_and_another_takes_over
    what_is_behind_is_shown
    an_order_that_the_ledger_rejects_fails_alone
    failed_orders_are_listed_and_retried_for_their_sale_alone
    tasks_of_a_queue_called_orders_are_no_orders
    millions_of_units_are_withdrawn_and_the_ledger_agrees
    units_between_held_ones_are_withdrawn_and_the_ledger_agrees
    sales_with_the_same_sku_keep_their_stocks_apart
}

on_a_cluster! {
    a_crowd_buys_every_unit_once
    orders_reach_the_ledger
    one_worker_follows_a_sale_and_another_takes_over
    an_order_that_the_ledger_rejects_fails_alone
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

async fn open(client: &Rushgate, sale: SaleBuilder) -> Sale {
    open_as(client, "phones", sale).await
}

async fn open_as(client: &Rushgate, id: &str, sale: SaleBuilder) -> Sale {
    assert_eq!(client.create_sale(sale).await.unwrap(), Created::Created);
    let sale = client.sale(id).unwrap();
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
    let stats = sale.admission_stats();
    assert_eq!(stats.from_memory + stats.at_store, 1_001);
    assert!(stats.from_memory > 900, "{stats:?}");
    assert!(sale.audit(None).await.unwrap().ok);
}

async fn what_would_be_answered_is_foreseen_and_nothing_is_taken(bench: Bench) {
    let client = bench.client();
    client.create_sale(phones(1)).await.unwrap();
    let (sale, there) = (client.sale("phones").unwrap(), bench.client().sale("phones").unwrap());
    let (ann, bob, cart, key) = (buyer("ann"), buyer("bob"), cart(&["phone"]), key("k"));
    let estimate = async |who: &BuyerId| sale.estimate(who, &cart, &key).await.unwrap();
    assert_eq!(estimate(&bob).await, Estimate::Unknown, "the cache is still empty");
    assert_eq!(reserve(&sale, "bob").await, Reserved::NotOpen { opens_at: None });
    assert_eq!(estimate(&bob).await, Estimate::Answer(Reserved::NotOpen { opens_at: None }));
    there.open().await.unwrap();
    eventually(async || estimate(&bob).await == Estimate::Unknown).await;
    let held = hold(&there, "ann").await;
    assert!(matches!(reserve(&sale, "bob").await, Reserved::AllHeld { .. }));
    assert!(matches!(estimate(&bob).await, Estimate::Answer(Reserved::AllHeld { .. })));
    assert_eq!(estimate(&ann).await, Estimate::Replay);
    there.cancel(held.id).await.unwrap();
    eventually(async || estimate(&bob).await == Estimate::Unknown).await;
    assert_eq!(sale.state().await.unwrap().skus[0].free, 1);
    there.end().await.unwrap();
    assert_eq!(reserve(&sale, "bob").await, Reserved::Ended);
    assert_eq!(estimate(&bob).await, Estimate::Answer(Reserved::Ended));
}

async fn a_replay_passes_the_closed_admission_cache_in_every_process(bench: Bench) {
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
        assert_eq!(sale.admission_stats().replays, 2);
    }
}

async fn all_held_is_not_sold_out(bench: Bench) {
    let sale = open(&bench.client(), phones(1)).await;
    let held = hold(&sale, "ann").await;
    for n in 0..100 {
        let Reserved::AllHeld { next_expiry, free: 0, .. } = reserve(&sale, n).await else { panic!() };
        assert_eq!(next_expiry, Some(held.deadline));
    }
    assert!(sale.admission_stats().from_memory > 50);
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
    assert!(here.admission_stats().probes > 0);
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

async fn a_sale_that_opens_opens_the_admission_cache(bench: Bench) {
    let client = bench.client();
    client.create_sale(phones(1)).await.unwrap();
    let (here, there) = (client.sale("phones").unwrap(), bench.client().sale("phones").unwrap());
    for n in 0..100 {
        assert_eq!(reserve(&here, n).await, Reserved::NotOpen { opens_at: None });
    }
    assert!(here.admission_stats().from_memory > 50);
    there.open().await.unwrap();
    eventually(async || matches!(reserve(&here, "ann").await, Reserved::Reserved(_))).await;

    let opens_at = here.state().await.unwrap().now + ms(300);
    client.create_sale(SaleBuilder::new("later").sku("phone", 1, 1).opens_at(opens_at)).await.unwrap();
    let later = client.sale("later").unwrap();
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
    assert_eq!(sale.admission_stats().from_memory, 49);
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
    let client = bench.client();
    client.create_sale(SaleBuilder::new("train").sku("a-b", 2, 4).sku("b-c", 2, 4)).await.unwrap();
    let train = client.sale("train").unwrap();
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

async fn settled(sale: &Sale, ledger: &dyn Ledger) {
    delivered(sale).await;
    let audit = sale.audit(Some(ledger)).await.unwrap();
    assert!(audit.ok, "{audit:#?}");
    let sku = sale.state().await.unwrap().skus[0].clone();
    assert_eq!((sku.confirmed, sku.held, sku.free), (5, 3, 12));
}

async fn orders_reach_the_ledger(bench: Bench) {
    let sale = open(&bench.client(), phones(20).ledger()).await;
    let ledger = connect_ledger("sqlite::memory:").unwrap();
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
    delivered(&sale).await;
    let report = clerk.stop().await;
    assert_eq!((report.failed, report.lost_writes, report.settled), (0, 0, 9));
    assert!(sale.audit(Some(&*ledger)).await.unwrap().ok);
    assert!(!sale.audit(None).await.unwrap().ok, "the audit needs the ledger");
}

async fn one_read_of_the_sale_serves_all_waiters(bench: Bench) {
    const BUYERS: u32 = 200;
    let (client, elsewhere) = (bench.client(), bench.client());
    let sale = open(&client, phones(BUYERS)).await;
    let mut holds = Vec::new();
    for n in 0..BUYERS {
        holds.push(hold(&sale, n).await.id);
    }
    let before = client.calls().calls;
    let all: Vec<_> = holds
        .iter()
        .map(|id| {
            let (sale, id) = (sale.clone(), *id);
            tokio::spawn(async move { sale.wait_final(id, secs(60)).await.unwrap().unwrap().state })
        })
        .collect();
    // Each waiter reads twice before it sleeps.
    eventually(async || client.calls().calls - before >= 2 * u64::from(BUYERS)).await;
    let there = elsewhere.sale("phones").unwrap();
    for (n, id) in holds.into_iter().enumerate() {
        let at = if n % 2 == 0 { &sale } else { &there };
        assert!(matches!(at.confirm(id).await.unwrap(), Decision::Done(_)));
    }
    for waiting in all {
        assert_eq!(waiting.await.unwrap(), HoldState::Confirmed);
    }
    let calls = client.calls().calls - before;
    assert!(calls < 15 * u64::from(BUYERS), "{calls} calls for {BUYERS} waiters");
}

async fn a_waiter_for_an_order_continues_when_the_runtime_that_looked_is_gone(bench: Bench) {
    let client = bench.client();
    let sale = open(&client, phones(2)).await;
    let (ann, eve) = (hold(&sale, "ann").await.id, hold(&sale, "eve").await.id);
    let (first, second, stop) = (sale.clone(), sale.clone(), CancellationToken::new());
    let (before, until) = (client.calls().calls, stop.clone());
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
    eventually(async || client.calls().calls - before >= 3).await;
    let waiting = tokio::spawn(async move { second.wait_final(eve, secs(60)).await });
    eventually(async || client.calls().calls - before >= 5).await;
    stop.cancel();
    other.join().unwrap();
    sale.confirm(eve).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap().unwrap().state, HoldState::Confirmed);
}

async fn a_failing_ledger_loses_nothing(bench: Bench) {
    let sale = open(&bench.client(), phones(20).ledger()).await;
    let ledger = Arc::new(Troubled::new(Trouble::DownFor(AtomicU32::new(6))));
    let clerk = Clerk::start(&sale, ledger.clone());
    some_trade(&sale).await;
    settled(&sale, &*ledger).await;
    let report = clerk.stop().await;
    assert_eq!(report.failed, 0, "no attempt is counted");
    assert!(report.outages >= 6);
}

async fn a_worker_that_dies_between_ledger_and_store_is_replaced(bench: Bench) {
    let sale = open(&bench.client(), phones(20).ledger()).await;
    some_trade(&sale).await;
    let ledger = Arc::new(Troubled::new(Trouble::NoAnswer(AtomicBool::new(true))));
    let clerk = Clerk::start(&sale, ledger.clone());
    eventually(async || !ledger.snapshot(sale.id()).await.is_ok_and(|snapshot| snapshot.orders.is_empty()))
        .await;
    clerk.worker.abort();
    let _ = clerk.worker.await;
    assert_eq!(sale.state().await.unwrap().skus[0].confirmed, 0, "the store has no decision");
    ledger.recover();
    let clerk = Clerk::start(&sale, ledger.clone());
    settled(&sale, &*ledger).await;
    clerk.stop().await;
}

async fn one_worker_follows_a_sale_and_another_takes_over(bench: Bench) {
    let sale = open(&bench.client(), phones(20).ledger()).await;
    let ledger = connect_ledger("sqlite::memory:").unwrap();
    let first = Clerk::start(&sale, Arc::clone(&ledger));
    let held = hold(&sale, "ann").await;
    delivered(&sale).await;
    let second = Clerk::start(&bench.client().sale("phones").unwrap(), Arc::clone(&ledger));
    // A worker that dies does not give up its lease.
    first.worker.abort();
    let _ = first.worker.await;
    sale.cancel(held.id).await.unwrap();
    some_trade(&sale).await;
    settled(&sale, &*ledger).await;
    let orders = sale.state().await.unwrap().orders.unwrap();
    assert!(orders.worker_until.is_some(), "the second one has the lease");
    let report = second.stop().await;
    assert_eq!((report.settled, report.failed), (8, 0), "{report:?}");
    let orders = sale.state().await.unwrap().orders.unwrap();
    assert_eq!((orders.worker_until, orders.behind_since), (None, None), "and has given it up");
}

async fn what_is_behind_is_shown(bench: Bench) {
    let sale = open(&bench.client(), phones(20).ledger()).await;
    some_trade(&sale).await;
    let (state, first) =
        (sale.state().await.unwrap(), sale.events(Page::after(1, 1)).await.unwrap().remove(0));
    let orders = state.orders.unwrap();
    assert_eq!((orders.through, orders.failed, orders.worker_until), (0, 0, None));
    let opened = sale.events(Page::first(1)).await.unwrap().remove(0);
    assert_eq!(orders.behind_since, Some(opened.at));
    assert!(first.at >= opened.at && state.seq >= 17);
    let alone = open_as(&bench.client(), "alone", SaleBuilder::new("alone").sku("phone", 1, 1)).await;
    assert_eq!(alone.state().await.unwrap().orders, None, "it has no ledger");
}

/// An order of this buyer makes the ledger reject every transaction with it.
const UNWANTED: &str = "mallory";

async fn an_order_that_the_ledger_rejects_fails_alone(bench: Bench) {
    let sale = open(&bench.client(), phones(20).ledger()).await;
    let ledger = Arc::new(Troubled::new(Trouble::Rejects(AtomicBool::new(true))));
    some_trade(&sale).await;
    let unwanted = hold(&sale, UNWANTED).await;
    sale.confirm(unwanted.id).await.unwrap();
    let clerk = Clerk::start(&sale, ledger.clone());
    eventually(async || {
        let state = sale.state().await.unwrap();
        state.orders.is_some_and(|orders| orders.through == state.seq && orders.failed > 0)
    })
    .await;
    let sku = sale.state().await.unwrap().skus[0].clone();
    assert_eq!((sku.confirmed, sku.held, sku.free), (5, 4, 11), "the others are settled");
    assert_eq!(sale.reservation(unwanted.id).await.unwrap().unwrap().state, HoldState::Confirming);
    let audit = sale.audit(Some(&*ledger)).await.unwrap();
    assert!(audit.ok, "a failed order is not lost: {audit:#?}");

    // It is retried until the ledger accepts it.
    let failed = async || sale.failed_orders(Page::first(10)).await.unwrap();
    eventually(async || failed().await.first().is_some_and(|order| order.attempts > 2)).await;
    for order in failed().await {
        assert!(order.reason.contains("unwanted"), "{order:?}");
        let event = sale.events(Page::after(order.seq - 1, 1)).await.unwrap().remove(0);
        assert_eq!(event.reservation, Some(unwanted.id));
    }
    ledger.recover();
    sale.retry_orders().await.unwrap();
    delivered(&sale).await;
    assert_eq!(failed().await, []);
    let report = clerk.stop().await;
    assert!(report.failed > 2 && report.lost_writes == 0, "{report:?}");
    assert_eq!(sale.reservation(unwanted.id).await.unwrap().unwrap().state, HoldState::Confirmed);
    assert!(sale.audit(Some(&*ledger)).await.unwrap().ok);
}

/// Reports every order of the sale as failed, as a worker does whose ledger accepts none.
async fn all_fail(bench: &Bench, sale: &Sale) {
    let follow = |generation, through, failed| Follow {
        sale: sale.id().clone(),
        worker: Token::from_bytes([7; 16]),
        generation,
        through,
        failed,
        recovered: Vec::new(),
        n: if generation == 0 { 1_000 } else { 0 },
        lease: Lease::new(secs(10)).unwrap(),
    };
    let Followed::Batch(batch) = bench.store().follow_orders(follow(0, 0, Vec::new())).await.unwrap() else {
        panic!("nobody else follows it")
    };
    let failure = |delivery: &Delivery| Failure {
        seq: delivery.seq,
        attempts: 1,
        reason: "boom".into(),
        retry_after: secs(600),
    };
    let failed = batch.entries.iter().map(failure).collect();
    bench.store().follow_orders(follow(batch.generation, batch.through, failed)).await.unwrap();
}

async fn failed_orders_are_listed_and_retried_for_their_sale_alone(bench: Bench) {
    let client = bench.client();
    let sale = open(&client, phones(20).ledger()).await;
    let other = open_as(&client, "other", SaleBuilder::new("other").sku("phone", 9, 1).ledger()).await;
    for _ in 0..3 {
        withdraw(&sale, 1).await;
        withdraw(&other, 1).await;
    }
    all_fail(&bench, &sale).await;
    all_fail(&bench, &other).await;
    let all = sale.failed_orders(Page::first(10)).await.unwrap();
    // The first event opens the sale.
    assert_eq!(all.iter().map(|order| order.seq).collect::<Vec<_>>(), [2, 3, 4]);
    assert!(all.iter().all(|order| order.attempts == 1 && order.reason == "boom"), "{all:?}");
    assert_eq!(sale.failed_orders(Page::after(2, 1)).await.unwrap(), all[1..2]);
    assert_eq!(sale.failed_orders(Page::after(4, 10)).await.unwrap(), []);
    for n in [0, 1_001] {
        assert!(sale.failed_orders(Page::first(n)).await.unwrap_err().is_invalid(), "{n}");
    }

    let theirs = other.failed_orders(Page::first(10)).await.unwrap();
    assert_eq!(sale.retry_orders().await.unwrap(), 3);
    let now = sale.state().await.unwrap().now;
    assert!(sale.failed_orders(Page::first(10)).await.unwrap().iter().all(|order| order.retry_at <= now));
    assert_eq!(other.failed_orders(Page::first(10)).await.unwrap(), theirs);
    let ledger = connect_ledger("sqlite::memory:").unwrap();
    let clerk = Clerk::start(&sale, Arc::clone(&ledger));
    delivered(&sale).await;
    clerk.stop().await;
    assert_eq!(ledger_stock(&*ledger, &sale).await, (vec![range(18, 20)], 20));
    assert_eq!(other.state().await.unwrap().orders.unwrap().failed, 3);

    let alone = open_as(&client, "alone", SaleBuilder::new("alone").sku("phone", 1, 1)).await;
    assert_eq!(
        (alone.failed_orders(Page::first(10)).await.unwrap(), alone.retry_orders().await.unwrap()),
        (vec![], 0)
    );
    let worker = OrderWorker::new(alone, Arc::clone(&ledger)).run(CancellationToken::new()).await;
    assert!(worker.unwrap_err().is_invalid());
    for batch in [0, 1_001] {
        let worker = OrderWorker::new(sale.clone(), Arc::clone(&ledger)).batch(batch);
        assert!(worker.run(CancellationToken::new()).await.unwrap_err().is_invalid(), "a batch of {batch}");
    }
    let nothing = client.sale("nosuch").unwrap();
    assert!(nothing.failed_orders(Page::first(10)).await.unwrap_err().is_not_found());
    assert!(nothing.retry_orders().await.unwrap_err().is_not_found());
}

async fn tasks_of_a_queue_called_orders_are_no_orders(bench: Bench) {
    let client = bench.client();
    let sale = open(&client, phones(20).ledger()).await;
    let orders = client.queue_of::<serde_json::Value>("orders").unwrap();
    let stock = serde_json::json!({
        "order": "stock", "sale": "phones", "sku": "phone", "seq": 1, "total": 5_000, "withdrawn": [],
        "per_buyer": 5_000,
    });
    orders.enqueue("stock:phones:1", stock).send().await.unwrap();
    let ledger = Arc::new(Troubled::new(Trouble::None));
    some_trade(&sale).await;
    let clerk = Clerk::start(&sale, ledger.clone());
    settled(&sale, &*ledger).await;
    clerk.stop().await;
    assert_eq!(orders.stats().await.unwrap().ready, 1, "it is a queue like any other");
    assert_eq!(ledger_stock(&*ledger, &sale).await, (vec![], 20));
}

/// Withdrawn units and total of a sale's first SKU, as the ledger has them.
async fn ledger_stock(ledger: &dyn Ledger, sale: &Sale) -> (Vec<UnitRange>, u32) {
    let sku = ledger.snapshot(sale.id()).await.unwrap().skus.remove(0);
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
    let sale = open(&bench.client(), phones(2_000_000).ledger()).await;
    let ledger = connect_ledger("sqlite::memory:").unwrap();
    let clerk = Clerk::start(&sale, Arc::clone(&ledger));
    some_trade(&sale).await;
    assert_eq!(withdraw(&sale, 1_000_000).await.withdrawn, 1_000_000);
    sale.add_stock(&Sku::new("phone").unwrap(), 10).await.unwrap();
    let last = hold(&sale, "last").await;
    sale.confirm(last.id).await.unwrap();
    delivered(&sale).await;
    let report = clerk.stop().await;
    assert_eq!((report.failed, report.lost_writes), (0, 0));
    assert_eq!(ledger_stock(&*ledger, &sale).await, (vec![range(1_000_001, 2_000_000)], 2_000_010));
    let audit = sale.audit(Some(&*ledger)).await.unwrap();
    assert!(audit.ok, "{audit:#?}");
}

async fn units_between_held_ones_are_withdrawn_and_the_ledger_agrees(bench: Bench) {
    let sale = open(&bench.client(), phones(400).ledger()).await;
    let ledger = connect_ledger("sqlite::memory:").unwrap();
    let clerk = Clerk::start(&sale, Arc::clone(&ledger));
    let mut holds = Vec::new();
    for n in 0..400 {
        holds.push(hold(&sale, n).await);
    }
    for hold in holds.iter().step_by(2) {
        sale.cancel(hold.id).await.unwrap();
    }
    delivered(&sale).await;
    for n in [1, 99, 100] {
        withdraw(&sale, n).await;
    }
    delivered(&sale).await;
    let report = clerk.stop().await;
    assert_eq!((report.failed, report.lost_writes), (0, 0));
    let odd: Vec<_> = (1..400).step_by(2).map(UnitRange::one).collect();
    assert_eq!(ledger_stock(&*ledger, &sale).await, (odd, 400));
    assert!(matches!(reserve(&sale, "late").await, Reserved::AllHeld { free: 0, .. }));
    let audit = sale.audit(Some(&*ledger)).await.unwrap();
    assert!(audit.ok, "{audit:#?}");
}

async fn sales_with_the_same_sku_keep_their_stocks_apart(bench: Bench) {
    let client = bench.client();
    let ledger = connect_ledger("sqlite::memory:").unwrap();
    let (mut sales, mut clerks) = (Vec::new(), Vec::new());
    for (name, withdrawn) in [("east", 3), ("west", 5)] {
        client.create_sale(SaleBuilder::new(name).sku("phone", 10, 1).ledger()).await.unwrap();
        let sale = client.sale(name).unwrap();
        withdraw(&sale, withdrawn).await;
        clerks.push(Clerk::start(&sale, Arc::clone(&ledger)));
        sales.push(sale);
    }
    for (sale, clerk) in sales.iter().zip(clerks) {
        delivered(sale).await;
        clerk.stop().await;
    }
    assert_eq!(ledger_stock(&*ledger, &sales[0]).await, (vec![range(8, 10)], 10));
    assert_eq!(ledger_stock(&*ledger, &sales[1]).await, (vec![range(6, 10)], 10));
}

/// A ledger with one fault.
struct Troubled {
    ledger: Arc<dyn Ledger>,
    trouble: Trouble,
}

enum Trouble {
    None,
    /// The first `n` writes fail.
    DownFor(AtomicU32),
    /// Writes are committed, but never answered.
    NoAnswer(AtomicBool),
    /// Orders of the [unwanted](UNWANTED) buyer are rejected, with all others of their transaction.
    Rejects(AtomicBool),
}

impl Troubled {
    fn new(trouble: Trouble) -> Self {
        Self { ledger: connect_ledger("sqlite::memory:").unwrap(), trouble }
    }

    fn recover(&self) {
        if let Trouble::NoAnswer(on) | Trouble::Rejects(on) = &self.trouble {
            on.store(false, Ordering::SeqCst);
        }
    }
}

fn is_unwanted(entry: &LedgerEntry) -> bool {
    matches!(entry, LedgerEntry::Reservation { buyer, .. } if buyer.as_str() == UNWANTED)
}

impl Ledger for Troubled {
    fn open_sale(&self, sale: LedgerSale) -> Answer<'_, ()> {
        self.ledger.open_sale(sale)
    }

    fn write(&self, entries: Vec<LedgerEntry>) -> Answer<'_, Vec<Written>> {
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
            Trouble::Rejects(on) if on.load(Ordering::SeqCst) && entries.iter().any(is_unwanted) => {
                Box::pin(async { Err(Error::invalid("the order", "is unwanted, on purpose")) })
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

    fn snapshot(&self, sale: &SaleId) -> Answer<'_, LedgerSnapshot> {
        self.ledger.snapshot(sale)
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
