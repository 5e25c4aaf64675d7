//! Sales on a store that lost acknowledged writes: how the loss is detected, how sales are rebuilt from the
//! ledger, and how buyers recover lost holds.

use rushgate_core::Verbs;
use std::future::Future;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::common::{Bench, delivered, eventually, in_time, secs};
use rushgate::sale::{
    BadReceipt, Created, Decision, HaltReason, Hold, HoldState, LedgerEntry, OrderIntent, OrderReport,
    Rebuild, RebuildOutcome, RebuildReport, ReservationId, Restored, SaleStatus,
};
use rushgate::store::{ClientId, Op};
use rushgate::{
    BuyerId, CancellationToken, IdempotencyKey, Ledger, Line, OrderWorker, Reserved, Rushgate, Sale,
    SaleBuilder, Sku, connect_ledger,
};
use rushgate_test::MemoryStore;
use rushgate_test::faults::{FaultPlan, Faulty};
use rushgate_test::servers::{ClusterSetup, Kind, RedisServer, RedisSetup};
use tokio::task::JoinHandle;

on_each_store! {
    a_rebuild_keeps_what_store_and_ledger_know
    a_rebuild_may_end_at_any_moment_and_is_run_again
    orders_that_the_store_lost_are_found_and_kept
    a_sale_is_rebuilt_by_itself_if_that_is_wished
    of_two_who_rebuild_one_continues
    of_workers_that_rebuild_by_themselves_one_does
    an_unfinished_rebuild_is_restarted_by_a_worker
    a_sale_that_an_operator_stopped_is_rebuilt_by_no_worker
    a_stopped_sale_is_not_called_sold_out
    receipts_of_others_are_not_honoured
    a_sale_without_a_ledger_is_not_rebuilt
    a_wrong_ledger_is_not_rebuilt_from
    orders_that_wait_make_no_ledger_the_wrong_one
    a_store_that_lost_everything_gets_its_sale_and_its_orders_back
    a_sale_that_was_created_again_is_not_rebuilt_as_the_first
    a_time_for_receipts_beyond_the_limit_halts_nothing
}

fn phones(units: u32) -> SaleBuilder {
    SaleBuilder::new("phones").sku("phone", units, 1).hold(secs(60)).ledger()
}

async fn open(client: &Rushgate, sale: SaleBuilder) -> Sale {
    assert_eq!(client.create_sale(sale).await.unwrap(), Created::Created);
    let sale = client.sale("phones").unwrap();
    assert_eq!(sale.open().await.unwrap(), SaleStatus::Open);
    sale
}

async fn reserve(sale: &Sale, who: impl std::fmt::Display) -> Reserved {
    let cart = [Line { sku: Sku::new("phone").unwrap(), quantity: 1 }];
    let (buyer, key) = (BuyerId::new(who.to_string()).unwrap(), IdempotencyKey::new("k").unwrap());
    sale.reserve(&buyer, &cart, &key).await.unwrap()
}

async fn hold(sale: &Sale, who: impl std::fmt::Display) -> Hold {
    match reserve(sale, who).await {
        Reserved::Reserved(hold) => hold,
        other => panic!("{other:?}"),
    }
}

async fn bought(sale: &Sale, who: impl std::fmt::Display) -> Hold {
    let held = hold(sale, who).await;
    assert!(matches!(sale.confirm(held.id).await.unwrap(), Decision::Pending(_)));
    held
}

fn in_memory() -> Arc<dyn Ledger> {
    connect_ledger("sqlite::memory:").unwrap()
}

async fn rebuild(sale: &Sale, ledger: &Arc<dyn Ledger>) -> RebuildReport {
    let run = Rebuild::new(sale.clone(), Arc::clone(ledger)).receipts_first(Duration::ZERO).run();
    match run.await.unwrap() {
        RebuildOutcome::Rebuilt(report) => report,
        RebuildOutcome::Superseded => panic!("nobody else rebuilds it"),
    }
}

struct Clerk {
    worker: JoinHandle<rushgate::Result<OrderReport>>,
    shutdown: CancellationToken,
}

impl Clerk {
    fn start(sale: &Sale, ledger: &Arc<dyn Ledger>) -> Self {
        Self::run(OrderWorker::new(sale.clone(), Arc::clone(ledger)))
    }

    fn run(worker: OrderWorker) -> Self {
        let shutdown = CancellationToken::new();
        Self { worker: tokio::spawn(worker.run(shutdown.clone())), shutdown }
    }

    async fn stop(self) -> OrderReport {
        self.shutdown.cancel();
        self.worker.await.unwrap().unwrap()
    }
}

/// Runs an order worker until the ledger has every order.
async fn carried(sale: &Sale, ledger: &Arc<dyn Ledger>) -> OrderReport {
    let clerk = Clerk::start(sale, ledger);
    delivered(sale).await;
    clerk.stop().await
}

async fn audited(sale: &Sale, ledger: &Arc<dyn Ledger>) {
    let audit = sale.audit(Some(&**ledger)).await.unwrap();
    assert!(audit.ok, "{audit:#?}");
}

/// Free, held and confirmed units.
async fn places(sale: &Sale) -> (u32, u32, u32) {
    let sku = sale.state().await.unwrap().skus[0].clone();
    assert_eq!(sku.free + sku.held + sku.confirmed + sku.withdrawn, sku.total);
    (sku.free, sku.held, sku.confirmed)
}

async fn state(sale: &Sale, hold: &Hold) -> Option<HoldState> {
    sale.reservation(hold.id).await.unwrap().map(|hold| hold.state)
}

/// Reservations in every state, half of them in the ledger.
async fn some_trade(sale: &Sale, ledger: &Arc<dyn Ledger>) -> [Hold; 4] {
    sale.withdraw_stock(&Sku::new("phone").unwrap(), 2).await.unwrap();
    let (sold, held) = (bought(sale, "ann").await, hold(sale, "bob").await);
    let cancelled = hold(sale, "cid").await;
    sale.cancel(cancelled.id).await.unwrap();
    carried(sale, ledger).await;
    sale.add_stock(&Sku::new("phone").unwrap(), 5).await.unwrap();
    let pending = bought(sale, "dee").await;
    hold(sale, "eve").await;
    [sold, held, cancelled, pending]
}

async fn a_rebuild_keeps_what_store_and_ledger_know(bench: Bench) {
    let (client, ledger) = (bench.client(), in_memory());
    let sale = open(&client, phones(10)).await;
    let [sold, held, cancelled, pending] = some_trade(&sale, &ledger).await;
    let report = rebuild(&sale, &ledger).await;
    assert_eq!((report.orders, &report.reassigned, &report.refused), (5, &vec![], &vec![]));
    assert_eq!(sale.state().await.unwrap().generation, report.generation);
    assert_eq!(places(&sale).await, (9, 2, 2));
    audited(&sale, &ledger).await;
    assert_eq!(state(&sale, &sold).await, Some(HoldState::Confirmed));
    assert_eq!(state(&sale, &cancelled).await, Some(HoldState::Cancelled));
    assert_eq!(state(&sale, &pending).await, Some(HoldState::Confirmed), "the ledger has its order");
    let Reserved::Replayed(again) = reserve(&sale, "bob").await else { panic!("bob has a reservation") };
    assert_eq!((again.id, &again.units), (held.id, &held.units));

    // The orders that were undelivered belong to the earlier generation.
    assert!(matches!(sale.confirm(held.id).await.unwrap(), Decision::Pending(_)));
    hold(&sale, "fay").await;
    let late = carried(&sale, &ledger).await;
    assert_eq!((late.lost_writes, late.rejected), (0, 0));
    assert_eq!(state(&sale, &held).await, Some(HoldState::Confirmed));
    assert_eq!(places(&sale).await, (8, 2, 3));
    audited(&sale, &ledger).await;
}

/// Drops a future after `polls` polls.
struct CutShort<F> {
    work: F,
    polls: u32,
}

impl<F: Future + Unpin> Future for CutShort<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(left) = self.polls.checked_sub(1) else { return Poll::Ready(None) };
        self.polls = left;
        Pin::new(&mut self.work).poll(context).map(Some)
    }
}

async fn a_rebuild_may_end_at_any_moment_and_is_run_again(bench: Bench) {
    let (client, ledger) = (bench.client(), in_memory());
    let sale = open(&client, phones(10)).await;
    let [_, held, ..] = some_trade(&sale, &ledger).await;
    let mut cuts = 0;
    // A request may be answered before it is polled, so one rebuild has few points at which it can be
    // dropped. Collect at least three.
    while cuts <= 3 {
        for polls in 0.. {
            let run = Rebuild::new(sale.clone(), Arc::clone(&ledger)).receipts_first(Duration::ZERO).run();
            let cut = CutShort { work: pin!(run), polls }.await;
            let now = sale.state().await.unwrap();
            if let Some(outcome) = cut {
                assert!(matches!(outcome.unwrap(), RebuildOutcome::Rebuilt(_)));
                break;
            }
            // Before the first poll the rebuild has not started.
            cuts += u32::from(polls > 0);
            assert_eq!(
                state(&sale, &held).await,
                Some(HoldState::Held),
                "the reservation is as before, or fully reloaded"
            );
            if now.halted.is_some() {
                assert!(matches!(reserve(&sale, "zoe").await, Reserved::Halted { .. }));
            }
            assert_eq!(places(&sale).await.0, 9);
        }
    }
    assert_eq!(sale.state().await.unwrap().halted, None);
    assert_eq!(places(&sale).await, (9, 2, 2));
    audited(&sale, &ledger).await;
    carried(&sale, &ledger).await;
    audited(&sale, &ledger).await;
}

/// An order that the ledger received before its store lost it.
fn lost_order(n: u8, seq: u64, unit: u32) -> LedgerEntry {
    LedgerEntry::Reservation {
        sale: "phones".parse().unwrap(),
        generation: 1,
        seq,
        id: ReservationId::from_bytes([n; 16]),
        buyer: BuyerId::new(format!("ghost-{n}")).unwrap(),
        units: vec![(Sku::new("phone").unwrap(), unit)],
        intent: OrderIntent::Confirm,
    }
}

async fn with_lost_orders(client: &Rushgate, units: u32) -> (Sale, Arc<dyn Ledger>) {
    let ledger = in_memory();
    let sale = open(client, phones(units)).await;
    hold(&sale, "ann").await;
    carried(&sale, &ledger).await;
    // The next reservation gets this sequence number and this unit.
    let seq = sale.state().await.unwrap().seq + 1;
    let written = ledger.write(vec![lost_order(1, seq, 2), lost_order(2, seq + 7, 3)]).await.unwrap();
    assert!(written.iter().all(|written| !written.shows_lost_writes()), "{written:?}");
    (sale, ledger)
}

async fn orders_that_the_store_lost_are_found_and_kept(bench: Bench) {
    let client = bench.client();
    let (sale, ledger) = with_lost_orders(&client, 10).await;
    let (bob, cid) = (bought(&sale, "bob").await, hold(&sale, "cid").await);
    let report = carried(&sale, &ledger).await;
    assert!(report.lost_writes > 0, "{report:?}");
    let pause = sale.state().await.unwrap().halted.expect("the sale is halted");
    assert_eq!(pause.reason, HaltReason::LostWrites);
    assert!(matches!(reserve(&sale, "dee").await, Reserved::Halted { .. }));
    assert_eq!(sale.confirm(cid.id).await.unwrap(), Decision::Halted);

    rebuild(&sale, &ledger).await;
    carried(&sale, &ledger).await;
    audited(&sale, &ledger).await;
    assert_eq!(state(&sale, &bob).await, Some(HoldState::Confirmed));
    assert_eq!(places(&sale).await, (5, 2, 3));
    let bobs = sale.reservation(bob.id).await.unwrap().unwrap();
    assert_ne!(bobs.units, bob.units, "another order owns the unit");
    assert!(matches!(sale.confirm(cid.id).await.unwrap(), Decision::Pending(_)));
}

async fn a_sale_is_rebuilt_by_itself_if_that_is_wished(bench: Bench) {
    let client = bench.client();
    let (sale, ledger) = with_lost_orders(&client, 10).await;
    let worker = OrderWorker::new(sale.clone(), Arc::clone(&ledger)).auto_rebuild(Duration::ZERO);
    let clerk = Clerk::run(worker);
    goes_on(&sale).await;
    bought(&sale, "bob").await;
    delivered(&sale).await;
    clerk.stop().await;
    audited(&sale, &ledger).await;
    assert_eq!(places(&sale).await, (6, 1, 3));
}

async fn of_two_who_rebuild_one_continues(bench: Bench) {
    let (client, ledger) = (bench.client(), in_memory());
    let sale = open(&client, phones(10)).await;
    some_trade(&sale, &ledger).await;
    let mut rebuilds = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let other = bench.client().sale("phones").unwrap();
        rebuilds.spawn(Rebuild::new(other, Arc::clone(&ledger)).receipts_first(Duration::ZERO).run());
    }
    let mut done = 0;
    while let Some(outcome) = rebuilds.join_next().await {
        done += u32::from(matches!(outcome.unwrap().unwrap(), RebuildOutcome::Rebuilt(_)));
    }
    assert!(done >= 1);
    assert_eq!(sale.state().await.unwrap().halted, None);
    assert_eq!(places(&sale).await, (9, 2, 2));
    audited(&sale, &ledger).await;
}

async fn of_workers_that_rebuild_by_themselves_one_does(bench: Bench) {
    let (sale, ledger) = with_lost_orders(&bench.client(), 10).await;
    let clerks: Vec<_> = (0..4)
        .map(|_| {
            let sale = bench.client().sale("phones").unwrap();
            Clerk::run(OrderWorker::new(sale, Arc::clone(&ledger)).auto_rebuild(Duration::ZERO))
        })
        .collect();
    goes_on(&sale).await;
    for clerk in clerks {
        clerk.stop().await;
    }
    assert_eq!(sale.state().await.unwrap().generation, 3, "a rebuild advances the generation by two");
    audited(&sale, &ledger).await;
}

async fn an_unfinished_rebuild_is_restarted_by_a_worker(bench: Bench) {
    let (sale, ledger) = with_lost_orders(&bench.client(), 10).await;
    let nobody = Op::new(ClientId::from_u64(7), 1);
    bench.store().begin_rebuild(nobody, sale.id()).await.unwrap();
    let worker = OrderWorker::new(sale.clone(), Arc::clone(&ledger)).auto_rebuild(Duration::ZERO);
    let clerk = Clerk::run(worker);
    goes_on(&sale).await;
    clerk.stop().await;
    audited(&sale, &ledger).await;
}

async fn a_sale_that_an_operator_stopped_is_rebuilt_by_no_worker(bench: Bench) {
    let (sale, ledger) = with_lost_orders(&bench.client(), 10).await;
    assert!(sale.halt().await.unwrap());
    let worker = OrderWorker::new(sale.clone(), Arc::clone(&ledger)).auto_rebuild(Duration::ZERO);
    let before = bench.store().calls().calls;
    let clerk = Clerk::run(worker.look_every(Duration::from_millis(1)));
    // Each comparison calls the store once, so a rebuild would have finished by then.
    eventually(async || bench.store().calls().calls > before + 50).await;
    let report = clerk.stop().await;
    assert_eq!(report.rebuilds, 0, "{report:?}");
    let state = sale.state().await.unwrap();
    assert_eq!((state.generation, state.halted.map(|halt| halt.reason)), (1, Some(HaltReason::Operator)));
    rebuild(&sale, &ledger).await;
    audited(&sale, &ledger).await;
}

/// Waits until the sale is rebuilt and sells again.
async fn goes_on(sale: &Sale) {
    eventually(async || {
        let state = sale.state().await.unwrap();
        state.generation > 1 && state.halted.is_none()
    })
    .await;
}

async fn a_stopped_sale_is_not_called_sold_out(bench: Bench) {
    let sale = open(&bench.client(), phones(1)).await;
    hold(&sale, "ann").await;
    assert!(matches!(reserve(&sale, "bob").await, Reserved::AllHeld { .. }));
    bench.client().sale("phones").unwrap().halt().await.unwrap();
    eventually(async || matches!(reserve(&sale, "bob").await, Reserved::Halted { .. })).await;
    for n in 0..50 {
        assert!(matches!(reserve(&sale, n).await, Reserved::Halted { .. }));
    }
    rebuild(&sale, &in_memory()).await;
    eventually(async || matches!(reserve(&sale, "bob").await, Reserved::AllHeld { .. })).await;
}

async fn receipts_of_others_are_not_honoured(bench: Bench) {
    let client = bench.client();
    let sale = open(&client, phones(10)).await;
    let ann = hold(&sale, "ann").await;
    let receipt = sale.receipt(&ann).await.unwrap();
    assert_eq!(sale.restore(&receipt).await.unwrap(), Restored::Known(ann.clone()));
    let elsewhere = SaleBuilder::new("cases").sku("case", 1, 1);
    client.create_sale(elsewhere).await.unwrap();
    let other = client.sale("cases").unwrap().restore(&receipt).await.unwrap();
    assert_eq!(other, Restored::NotHonoured { why: BadReceipt::OtherSale });
    let (content, _) = receipt.rsplit_once('.').unwrap();
    let forged = format!("{content}.AAAA");
    assert_eq!(sale.restore(&forged).await.unwrap(), Restored::NotHonoured { why: BadReceipt::Forged });
    assert_eq!(sale.restore("please").await.unwrap(), Restored::NotHonoured { why: BadReceipt::Unreadable });
}

/// A ledger without the store's orders is accepted only with `new_ledger`.
async fn a_wrong_ledger_is_not_rebuilt_from(bench: Bench) {
    let (client, ledger) = (bench.client(), in_memory());
    let sale = open(&client, SaleBuilder::new("phones").sku("phone", 2, 1).ledger()).await;
    bought(&sale, "ann").await;
    carried(&sale, &ledger).await;
    let other = in_memory();
    let run = || Rebuild::new(sale.clone(), Arc::clone(&other)).receipts_first(Duration::ZERO);
    let error = run().run().await.unwrap_err();
    assert!(error.is_misconfigured() && !error.may_have_happened(), "{error:?}");
    let state = sale.state().await.unwrap();
    assert_eq!((state.halted, state.generation), (None, 1), "nothing has changed");
    assert!(other.find_sale(sale.id()).await.unwrap().is_none());
    let RebuildOutcome::Rebuilt(report) = run().new_ledger(true).run().await.unwrap() else {
        panic!("nobody else rebuilds it")
    };
    assert_eq!((report.orders, report.refused.len()), (1, 0));
    assert!(sale.audit(Some(&*other)).await.unwrap().ok);
}

/// No order was committed yet, so no ledger can know of one.
async fn orders_that_wait_make_no_ledger_the_wrong_one(bench: Bench) {
    let (client, ledger) = (bench.client(), in_memory());
    let sale = open(&client, SaleBuilder::new("phones").sku("phone", 2, 1).ledger()).await;
    bought(&sale, "ann").await;
    rebuild(&sale, &ledger).await;
    carried(&sale, &ledger).await;
    assert!(sale.audit(Some(&*ledger)).await.unwrap().ok);
}

async fn a_sale_that_was_created_again_is_not_rebuilt_as_the_first(bench: Bench) {
    let ledger = in_memory();
    let lost = Bench::model();
    let sale = open(&lost.client(), phones(3)).await;
    bought(&sale, "ann").await;
    carried(&sale, &ledger).await;
    let known = ledger.snapshot(sale.id()).await.unwrap();

    // The program starts again and creates the sale, before anybody rebuilds it.
    let again = open(&bench.client(), phones(3)).await;
    let before = again.state().await.unwrap();
    let error = Rebuild::new(again.clone(), Arc::clone(&ledger)).run().await.unwrap_err();
    assert!(error.is_misconfigured() && !error.may_have_happened(), "{error:?}");
    let now = again.state().await.unwrap();
    assert_eq!((now.halted, now.generation, now.seq), (before.halted, before.generation, before.seq));
    assert_eq!(ledger.snapshot(sale.id()).await.unwrap(), known, "nothing has changed");
}

async fn a_time_for_receipts_beyond_the_limit_halts_nothing(bench: Bench) {
    let ledger = in_memory();
    let sale = open(&bench.client(), phones(3)).await;
    bought(&sale, "ann").await;
    carried(&sale, &ledger).await;
    let known = ledger.snapshot(sale.id()).await.unwrap();
    let run = |time| Rebuild::new(sale.clone(), Arc::clone(&ledger)).receipts_first(time).run();
    let error = run(secs(3_601)).await.unwrap_err();
    assert!(error.is_invalid(), "{error:?}");
    let state = sale.state().await.unwrap();
    assert_eq!((state.halted, state.generation), (None, 1), "the sale is as before");
    assert_eq!(ledger.snapshot(sale.id()).await.unwrap(), known, "nothing has changed");
    assert!(matches!(run(secs(3_600)).await.unwrap(), RebuildOutcome::Rebuilt(_)));
}

async fn a_store_that_lost_everything_gets_its_sale_and_its_orders_back(bench: Bench) {
    let ledger = connect_ledger("sqlite::memory:").unwrap();
    let lost = Bench::model();
    let sale = open(&lost.client(), phones(3)).await;
    let sold = bought(&sale, "ann").await;
    carried(&sale, &ledger).await;

    let sale = bench.client().sale("phones").unwrap();
    rebuild(&sale, &ledger).await;
    assert_eq!(state(&sale, &sold).await, Some(HoldState::Confirmed));
    let now = sale.state().await.unwrap();
    let orders = now.orders.unwrap();
    assert_eq!((orders.through, orders.failed), (now.seq, 0), "what was loaded came from the ledger");
    sale.open().await.unwrap();
    bought(&sale, "bob").await;
    carried(&sale, &ledger).await;
    assert_eq!(places(&sale).await, (1, 0, 2));
    audited(&sale, &ledger).await;
}

async fn a_sale_without_a_ledger_is_not_rebuilt(bench: Bench) {
    let client = bench.client();
    let sale = open(&client, SaleBuilder::new("phones").sku("phone", 1, 1)).await;
    assert!(sale.halt().await.unwrap_err().is_invalid());
    let error = Rebuild::new(sale.clone(), in_memory()).run().await.unwrap_err();
    assert!(error.is_invalid(), "{error}");
    let nobody = Rebuild::new(client.sale("nobody").unwrap(), in_memory()).run().await.unwrap_err();
    assert!(nobody.is_not_found(), "{nobody}");
    hold(&sale, "ann").await;
}

/// A request is in flight when the store fails, and arrives after other requests were answered and the store
/// lost those writes.
#[tokio::test]
async fn a_question_from_before_an_outage_finds_the_loss_too() {
    let store = MemoryStore::new();
    let wire = Arc::new(Faulty::new(store.clone(), FaultPlan::default(), 0));
    let client = Rushgate::with_store(wire.clone());
    let sale = open(&client, phones(10)).await;
    hold(&sale, "ann").await;
    let copy = store.copy();

    wire.set_away(true);
    let mut late = pin!(reserve(&sale, "late"));
    assert!(CutShort { work: &mut late, polls: 1 }.await.is_none(), "it waits");
    wire.set_away(false);
    hold(&sale, "bob").await;
    store.go_back_to(copy);

    assert!(matches!(late.await, Reserved::Reserved(_)), "the loss is not detected yet");
    let pause = sale.state().await.unwrap().halted.expect("the sale is halted");
    assert_eq!(pause.reason, HaltReason::LostWrites);
}

/// A worker that compares once per hour. The orders it writes do not reveal the loss.
fn slow_to_look(sale: &Sale, ledger: &Arc<dyn Ledger>) -> Clerk {
    Clerk::run(OrderWorker::new(sale.clone(), Arc::clone(ledger)).look_every(secs(3_600)))
}

async fn confirmed(sale: &Sale, hold: &Hold) {
    eventually(async || state(sale, hold).await == Some(HoldState::Confirmed)).await;
}

async fn stopped(sale: &Sale, clerk: Clerk) {
    eventually(async || sale.state().await.is_ok_and(|state| state.halted.is_some())).await;
    clerk.stop().await;
    assert_eq!(sale.state().await.unwrap().halted.map(|halt| halt.reason), Some(HaltReason::LostWrites));
}

#[tokio::test]
async fn a_store_with_another_incarnation_is_compared_with_the_ledger_at_once() {
    let (store, ledger) = (MemoryStore::new(), in_memory());
    let client = Rushgate::with_store(Arc::new(store.clone()));
    let sale = open(&client, phones(10)).await;
    let copy = store.copy();
    let clerk = slow_to_look(&sale, &ledger);
    confirmed(&sale, &bought(&sale, "ann").await).await;
    store.go_back_to(copy);
    // A client that has not seen the sale before.
    stopped(&Rushgate::with_store(Arc::new(store)).sale("phones").unwrap(), clerk).await;
}

// ── stores that lose writes ────────────────────────────────────────────────────────────────────────────────

/// A server that had acknowledged more writes is replaced by one that lags. A buyer reserves before the loss
/// is detected, and the rebuild keeps that reservation.
async fn what_took_its_place_is_put_right(
    url: &str,
    ledger: &Arc<dyn Ledger>,
    lost: &[(Hold, String)],
    sold: &[Hold],
) {
    let client = Rushgate::connect(url).await.unwrap();
    let promoted = client.sale("phones").unwrap();
    let Reserved::Reserved(young) = reserve(&promoted, "young").await else {
        panic!("the loss is not detected yet")
    };
    stopped_by_a_look(&client, ledger).await;
    let report = rebuild(&promoted, ledger).await;
    assert_eq!(report.refused, vec![], "the reservation made after the loss is kept too");
    assert_eq!(state(&promoted, &young).await, Some(HoldState::Held));
    all_is_well_again(&client, ledger, lost, sold).await;
    client.close().await.unwrap();
}

/// Checks the reservations that the store had lost.
async fn all_is_well_again(
    client: &Rushgate,
    ledger: &Arc<dyn Ledger>,
    lost: &[(Hold, String)],
    sold: &[Hold],
) {
    let sale = client.sale("phones").unwrap();
    if sale.state().await.is_ok_and(|state| state.status == SaleStatus::Created) {
        sale.open().await.unwrap();
    }
    audited(&sale, ledger).await;
    for hold in sold {
        assert_eq!(state(&sale, hold).await, Some(HoldState::Confirmed), "the ledger had the order");
    }
    for (hold, receipt) in lost {
        assert_eq!(sale.confirm(hold.id).await.unwrap(), Decision::Unknown);
        let Restored::Restored(back) = sale.restore(receipt).await.unwrap() else {
            panic!("its units are free")
        };
        assert_eq!((&back.units, back.id), (&hold.units, hold.id));
        assert!(matches!(sale.confirm(hold.id).await.unwrap(), Decision::Pending(_)));
    }
    carried(&sale, ledger).await;
    audited(&sale, ledger).await;
    let (.., confirmed) = places(&sale).await;
    assert_eq!(confirmed as usize, lost.len() + sold.len());
}

/// Buyers who paid and whose orders are in the ledger, and buyers who only have a receipt.
async fn buyers(client: &Rushgate, ledger: &Arc<dyn Ledger>) -> (Vec<Hold>, Vec<(Hold, String)>) {
    let sale = client.sale("phones").unwrap();
    let (mut sold, mut lost) = (Vec::new(), Vec::new());
    for n in 0..3 {
        sold.push(bought(&sale, format!("paid-{n}")).await);
    }
    carried(&sale, ledger).await;
    for n in 0..3 {
        let hold = hold(&sale, format!("lost-{n}")).await;
        let receipt = sale.receipt(&hold).await.unwrap();
        lost.push((hold, receipt));
    }
    (sold, lost)
}

async fn stopped_by_a_look(client: &Rushgate, ledger: &Arc<dyn Ledger>) {
    let sale = client.sale("phones").unwrap();
    let clerk = Clerk::start(&sale, ledger);
    eventually(async || sale.state().await.unwrap().halted.is_some()).await;
    assert!(clerk.stop().await.lost_writes > 0);
    assert!(matches!(reserve(&sale, "stranger").await, Reserved::Halted { .. }));
}

fn copy(from: &Path, to: &Path) {
    for log in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{log}", to.display()));
    }
    std::fs::copy(from, to).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_backup_of_the_file_is_rebuilt_from_the_ledger() {
    in_time(async {
        let folder = tempfile::tempdir().unwrap();
        let (file, backup) = (folder.path().join("store.db"), folder.path().join("backup.db"));
        let url = format!("sqlite:{}", file.display());
        let ledger = connect_ledger(&format!("sqlite:{}/orders.db", folder.path().display())).unwrap();

        let client = Rushgate::connect(&url).await.unwrap();
        let sale = open(&client, phones(20)).await;
        let early = bought(&sale, "early").await;
        carried(&sale, &ledger).await;
        client.close().await.unwrap();
        copy(&file, &backup);

        let client = Rushgate::connect(&url).await.unwrap();
        let (mut sold, lost) = buyers(&client, &ledger).await;
        client.close().await.unwrap();
        copy(&backup, &file);

        let client = Rushgate::connect(&url).await.unwrap();
        stopped_by_a_look(&client, &ledger).await;
        rebuild(&client.sale("phones").unwrap(), &ledger).await;
        sold.push(early);
        all_is_well_again(&client, &ledger, &lost, &sold).await;
        client.close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_gone_is_made_again_from_the_ledger() {
    in_time(async {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}/store.db", folder.path().display());
        let ledger = connect_ledger(&format!("sqlite:{}/orders.db", folder.path().display())).unwrap();
        let client = Rushgate::connect(&url).await.unwrap();
        open(&client, phones(20)).await;
        let (sold, lost) = buyers(&client, &ledger).await;
        client.close().await.unwrap();
        std::fs::remove_file(folder.path().join("store.db")).unwrap();

        let client = Rushgate::connect(&url).await.unwrap();
        let sale = client.sale("phones").unwrap();
        rebuild(&sale, &ledger).await;
        assert_eq!(
            sale.state().await.unwrap().status,
            SaleStatus::Created,
            "only an operator opens the sale"
        );
        all_is_well_again(&client, &ledger, &lost, &sold).await;
        client.close().await.unwrap();
    })
    .await;
}

/// Waits until the replica has caught up with the primary.
async fn replicated(primary: &RedisServer, replica: &RedisServer) {
    let offset = |server: &RedisServer, field: &str| {
        let script = format!("return string.match(redis.call('INFO', 'replication'), '{field}:(%d+)')");
        let answer =
            server.command(&["EVAL", &format!("return tonumber((function() {script} end)()) or -1"), "0"]);
        answer.strip_prefix(':').and_then(|number| number.parse::<i64>().ok())
    };
    eventually(async || {
        let has = offset(replica, "slave_repl_offset");
        has.is_some_and(|has| has > 0) && has == offset(primary, "master_repl_offset")
    })
    .await;
}

async fn a_failover_loses_writes(kind: Kind) {
    let (mut primary, replica) = (RedisSetup::new(kind).start(), RedisSetup::new(kind).start());
    replica.command(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]);
    let ledger = in_memory();
    let client = Rushgate::connect(&primary.url()).await.unwrap();
    let sale = open(&client, phones(20)).await;
    let early = bought(&sale, "early").await;
    carried(&sale, &ledger).await;
    replicated(&primary, &replica).await;
    // From here on the replica receives nothing, but the primary acknowledges every write.
    replica.command(&["REPLICAOF", "NO", "ONE"]);
    let (mut sold, lost) = buyers(&client, &ledger).await;
    primary.kill();

    sold.push(early);
    what_took_its_place_is_put_right(&replica.url(), &ledger, &lost, &sold).await;
}

/// The node that owns the sale keeps acknowledging writes that its replica does not receive, until it is
/// killed.
async fn a_failover_in_a_cluster_loses_writes(kind: Kind) {
    let (mut group, ledger) = (ClusterSetup::new(kind).start(), in_memory());
    let client = Rushgate::connect(&group.url()).await.unwrap();
    let sale = open(&client, phones(20)).await;
    let early = bought(&sale, "early").await;
    carried(&sale, &ledger).await;
    let key = "rg:{s:phones}:row";
    let owner = group.owner(key);
    replicated(&group.nodes[owner], group.replica_of(owner)).await;
    group.cut_off_replicas(owner);
    let (mut sold, lost) = buyers(&client, &ledger).await;
    group.nodes[owner].kill();
    eventually(async || group.is_up() && group.find_owner(key).is_some_and(|now| now != owner)).await;

    sold.push(early);
    what_took_its_place_is_put_right(&group.url(), &ledger, &lost, &sold).await;
}

/// The server restarts with the files of an earlier backup.
async fn a_restart_loses_writes(kind: Kind) {
    let (mut server, ledger) = (RedisSetup::new(kind).start(), in_memory());
    let client = Rushgate::connect(&server.url()).await.unwrap();
    let sale = open(&client, phones(10)).await;
    let log = server.folder().join("appendonlydir");
    let read = |path: &Path| std::fs::read_dir(path).unwrap().map(|file| file.unwrap().path());
    let copy: Vec<_> = read(&log).map(|file| (file.clone(), std::fs::read(file).unwrap())).collect();
    let clerk = slow_to_look(&sale, &ledger);
    confirmed(&sale, &bought(&sale, "ann").await).await;
    server.kill();
    for (file, content) in copy {
        std::fs::write(file, content).unwrap();
    }
    server.restart();
    let other = Rushgate::connect(&server.url()).await.unwrap();
    stopped(&other.sale("phones").unwrap(), clerk).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_started_again_is_compared_with_the_ledger_at_once() {
    in_time(a_restart_loses_writes(Kind::Redis)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_valkey_that_started_again_is_compared_with_the_ledger_at_once() {
    in_time(a_restart_loses_writes(Kind::Valkey)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_lost_by_a_failover_of_redis_come_back() {
    in_time(a_failover_loses_writes(Kind::Redis)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_lost_by_a_failover_of_valkey_come_back() {
    in_time(a_failover_loses_writes(Kind::Valkey)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_lost_by_a_failover_in_a_cluster_of_redis_come_back() {
    in_time(a_failover_in_a_cluster_loses_writes(Kind::Redis)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_lost_by_a_failover_in_a_cluster_of_valkey_come_back() {
    in_time(a_failover_in_a_cluster_loses_writes(Kind::Valkey)).await;
}
