//! Contract of order workers, which follow the log of a sale.

use std::time::Duration;

use rushgate_core::{
    Decision, Delivery, FailedOrder, Failure, Follow, Followed, HaltReason, Hold, LedgerEntry, LedgerOrder,
    Load, Op, OrderBatch, OrderIntent, OrdersState, Page, Rebuilt, Receipt, ReservationId, Restored, SaleId,
    SaleStatus, Settled, StockChange, Stocktake, Switch, Token, Verbs, Verdict,
};

use crate::fixture::*;

fn id() -> SaleId {
    sale_id("s")
}

/// An order worker: its token, and what it reports next.
struct Worker<'d> {
    fixture: &'d Fixture,
    token: Token,
    generation: u32,
    through: u64,
    failed: Vec<Failure>,
    recovered: Vec<u64>,
}

impl<'d> Worker<'d> {
    fn new(fixture: &'d Fixture) -> Self {
        let token = fixture.token();
        Self { fixture, token, generation: 0, through: 0, failed: Vec::new(), recovered: Vec::new() }
    }

    async fn ask(&self, n: u32, of: Duration) -> Followed {
        let follow = Follow {
            sale: id(),
            worker: self.token,
            generation: self.generation,
            through: self.through,
            failed: self.failed.clone(),
            recovered: self.recovered.clone(),
            n,
            lease: lease(of),
        };
        self.fixture.store.follow_orders(follow).await.unwrap()
    }

    /// Reports the batch before, and gets the next one of up to `n` events.
    async fn next_of(&mut self, n: u32) -> OrderBatch {
        match self.ask(n, s(10)).await {
            Followed::Batch(batch) => {
                (self.generation, self.through) = (batch.generation, batch.through);
                (self.failed, self.recovered) = (Vec::new(), Vec::new());
                batch
            }
            Followed::Busy { until } => panic!("another worker follows the sale until {until:?}"),
        }
    }

    async fn next(&mut self) -> OrderBatch {
        self.next_of(Follow::EVENTS_MAX).await
    }

    async fn entries(&mut self) -> Vec<LedgerEntry> {
        self.next().await.entries.into_iter().map(|delivery| delivery.entry).collect()
    }

    /// Reports a failed entry with the next request.
    fn fails(&mut self, seq: u64, attempts: u32, retry_after: Duration) {
        self.failed.push(Failure { seq, attempts, reason: "no".into(), retry_after });
    }

    async fn is_busy(&self) -> bool {
        matches!(self.ask(10, s(10)).await, Followed::Busy { .. })
    }
}

async fn buy_one(fixture: &Fixture, buyer: &str) -> Hold {
    reserved(fixture.buy(buyer, vec![line("a", 1)]).await)
}

async fn confirm(fixture: &Fixture, hold: &Hold) {
    let decision = fixture.store.confirm(&id(), hold.id).await.unwrap();
    assert!(matches!(decision, Decision::Pending(_)), "{decision:?}");
}

async fn settle(fixture: &Fixture, hold: &Hold, verdict: Verdict) {
    assert_eq!(fixture.store.settle(&id(), 1, vec![(hold.id, verdict)]).await.unwrap(), [Settled::Settled]);
}

async fn state(fixture: &Fixture) -> OrdersState {
    fixture.store.sale(&id()).await.unwrap().orders.expect("the sale has a ledger")
}

async fn failed(fixture: &Fixture) -> Vec<FailedOrder> {
    fixture.store.failed_orders(&id(), Page::first(1_000)).await.unwrap()
}

fn entry(hold: &Hold, intent: OrderIntent) -> LedgerEntry {
    LedgerEntry::Reservation {
        sale: id(),
        generation: hold.generation,
        seq: hold.seq,
        id: hold.id,
        buyer: hold.buyer.clone(),
        units: hold.units.clone(),
        intent,
    }
}

/// The event numbers and failed attempts of a batch.
fn numbers_of(batch: &OrderBatch) -> Vec<(u64, u32)> {
    batch.entries.iter().map(|Delivery { seq, attempts, .. }| (*seq, *attempts)).collect()
}

pub(super) async fn a_worker_gets_each_reservation_once_with_its_current_decision(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 3, 1)]).await;
    let (ann, bob) = (buy_one(&fixture, "ann").await, buy_one(&fixture, "bob").await);
    confirm(&fixture, &ann).await;
    let mut worker = Worker::new(&fixture);
    let batch = worker.next().await;
    assert_eq!((batch.generation, batch.through, batch.latest), (1, 4, 4));
    let expected = [entry(&ann, OrderIntent::Confirm), entry(&bob, OrderIntent::Hold)];
    assert_eq!(batch.entries.iter().map(|it| it.entry.clone()).collect::<Vec<_>>(), expected);
    assert_eq!(numbers_of(&batch), [(2, 0), (3, 0)]);
    settle(&fixture, &ann, Verdict::Confirmed).await;
    let batch = worker.next().await;
    assert_eq!((batch.entries, batch.through, batch.latest), (vec![], 5, 5));
    fixture.advance(s(11)).await;
    assert_eq!(fixture.store.expire(&id(), 10).await.unwrap(), 1);
    assert_eq!(worker.entries().await, [entry(&bob, OrderIntent::Expire)]);
}

pub(super) async fn a_decision_made_during_the_write_is_delivered_after_it(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 1, 1)]).await;
    let ann = buy_one(&fixture, "ann").await;
    let mut worker = Worker::new(&fixture);
    assert_eq!(worker.entries().await, [entry(&ann, OrderIntent::Hold)]);
    confirm(&fixture, &ann).await;
    assert_eq!(worker.entries().await, [entry(&ann, OrderIntent::Confirm)]);
    assert_eq!(state(&fixture).await.through, 2);
}

pub(super) async fn what_was_not_reported_is_handed_out_again(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 3, 1)]).await;
    let ann = buy_one(&fixture, "ann").await;
    let mut worker = Worker::new(&fixture);
    for _ in 0..2 {
        assert_eq!(worker.entries().await, [entry(&ann, OrderIntent::Hold)]);
        assert_eq!(state(&fixture).await.through, 0);
        worker.through = 0;
    }
    worker.through = 2;
    assert_eq!(worker.entries().await, []);
    assert_eq!(state(&fixture).await.through, 2);
    worker.through = 1;
    assert_eq!(worker.entries().await, [], "a position never goes back");
    worker.through = 1_000;
    assert_eq!(worker.entries().await, []);
    assert_eq!(state(&fixture).await.through, 2, "nothing is delivered before it happens");
}

pub(super) async fn events_without_entries_need_no_report(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 3, 1)]).await;
    let mut worker = Worker::new(&fixture);
    assert_eq!(worker.next().await.entries, []);
    let now = state(&fixture).await;
    assert_eq!((now.through, now.behind_since, now.failed), (1, None, 0));
    buy_one(&fixture, "ann").await;
    let event = fixture.store.events(&id(), Page::after(1, 1)).await.unwrap().remove(0);
    assert_eq!(state(&fixture).await.behind_since, Some(event.at));
}

pub(super) async fn a_batch_has_a_maximum_number_of_events(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 9, 1)]).await;
    for buyer in ["ann", "bob", "cid", "dan"] {
        buy_one(&fixture, buyer).await;
    }
    let mut worker = Worker::new(&fixture);
    let mut seen = Vec::new();
    loop {
        let batch = worker.next_of(2).await;
        seen.push(numbers_of(&batch));
        if batch.through == batch.latest {
            break;
        }
    }
    assert_eq!(seen, [vec![(2, 0)], vec![(3, 0), (4, 0)], vec![(5, 0)]]);
}

pub(super) async fn a_batch_of_large_carts_ends_early(fixture: Fixture) {
    let skus: Vec<_> = (0..4).map(|n| format!("sku-{n}")).collect();
    let stock: Vec<_> = skus.iter().map(|sku| (sku.as_str(), 20_000, 1_000)).collect();
    fixture.sell_with_ledger(&stock).await;
    for n in 0..12 {
        let lines = skus.iter().map(|sku| line(sku, 1_000)).collect();
        reserved(fixture.buy(&format!("buyer-{n}"), lines).await);
    }
    let mut worker = Worker::new(&fixture);
    let (first, second) = (worker.next().await, worker.next().await);
    assert_eq!((first.entries.len(), first.through), (8, 9), "32,000 units, of 4,000 in each cart");
    assert_eq!((second.entries.len(), second.through), (4, 13));
    for delivery in first.entries.iter().chain(&second.entries) {
        worker.fails(delivery.seq, 1, Duration::ZERO);
    }
    reserved(fixture.buy("last", vec![line("sku-0", 1)]).await);
    let retried = worker.next().await;
    assert_eq!((retried.entries.len(), retried.through), (8, 13), "failed entries have the same limit");
    worker.recovered = retried.entries.iter().map(|delivery| delivery.seq).collect();
    let rest = worker.next().await;
    assert_eq!((rest.entries.len(), rest.through), (5, 14), "four failed ones, and the last cart");
}

pub(super) async fn stock_changes_are_entries(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 5, 9), ("b", 5, 9)]).await;
    for change in [StockChange::Add(3), StockChange::Withdraw(2)] {
        fixture.store.stock(fixture.op(), &id(), &sku("a"), change).await.unwrap();
    }
    let change = |seq, withdrawn| LedgerEntry::Stock {
        sale: id(),
        sku: sku("a"),
        seq,
        total: 8,
        withdrawn,
        per_buyer: 9,
    };
    let entries = Worker::new(&fixture).entries().await;
    assert_eq!(entries, [change(2, vec![]), change(3, vec![range(7, 8)])], "each with the current total");
}

pub(super) async fn one_worker_at_a_time_follows_a_sale(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 3, 1)]).await;
    buy_one(&fixture, "ann").await;
    let (mut first, mut second) = (Worker::new(&fixture), Worker::new(&fixture));
    first.next().await;
    let until = state(&fixture).await.worker_until.expect("a worker follows it");
    assert!(matches!(second.ask(10, s(10)).await, Followed::Busy { until: told } if told == until));
    fixture.advance(s(11)).await;
    assert_eq!(second.next().await.entries.len(), 1, "the lease of the first has ended");
    assert!(first.is_busy().await);
    assert_eq!(state(&fixture).await.through, 0, "the report of the first is ignored");
    second.next().await;
    assert_eq!(state(&fixture).await.through, 2);
}

pub(super) async fn a_worker_whose_lease_ended_continues_unless_another_took_over(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 3, 1)]).await;
    buy_one(&fixture, "ann").await;
    let mut worker = Worker::new(&fixture);
    worker.next().await;
    fixture.advance(s(11)).await;
    worker.next().await;
    assert_eq!(state(&fixture).await.through, 2);
}

pub(super) async fn a_report_of_a_worker_that_was_replaced_is_ignored(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 3, 1)]).await;
    buy_one(&fixture, "ann").await;
    let (mut first, mut second) = (Worker::new(&fixture), Worker::new(&fixture));
    first.next().await;
    fixture.advance(s(11)).await;
    second.next().await;
    fixture.advance(s(11)).await;
    first.fails(2, 1, s(1));
    assert_eq!(numbers_of(&first.next().await), [(2, 0)], "the second worker was the latest");
    assert_eq!((state(&fixture).await.through, failed(&fixture).await), (0, vec![]));
    first.through = 0;
    first.next_of(0).await;
    first.through = 2;
    first.fails(2, 1, s(1));
    assert_eq!(numbers_of(&first.next().await), [(2, 0)], "it gave up its lease");
    assert_eq!((state(&fixture).await.through, failed(&fixture).await), (0, vec![]));
}

pub(super) async fn a_worker_that_stops_makes_room(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 3, 1)]).await;
    buy_one(&fixture, "ann").await;
    let (mut first, mut second) = (Worker::new(&fixture), Worker::new(&fixture));
    first.next().await;
    let left = first.next_of(0).await;
    assert_eq!((left.entries, left.through, left.latest), (vec![], 2, 2), "what it wrote is reported");
    assert_eq!(state(&fixture).await.worker_until, None);
    assert_eq!(second.next().await.entries, []);
    let told = first.ask(0, s(10)).await;
    assert!(matches!(told, Followed::Busy { .. }), "it has no lease to give up: {told:?}");
}

pub(super) async fn a_report_for_another_generation_is_ignored(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 3, 1)]).await;
    buy_one(&fixture, "ann").await;
    let mut worker = Worker::new(&fixture);
    worker.next().await;
    for generation in [0, 2] {
        worker.generation = generation;
        worker.fails(2, 1, s(1));
        worker.next().await;
        assert_eq!(state(&fixture).await.through, 0);
        assert_eq!(failed(&fixture).await, []);
    }
}

pub(super) async fn a_failed_entry_is_retried_when_due_and_stops_no_other(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 3, 1)]).await;
    let (ann, bob) = (buy_one(&fixture, "ann").await, buy_one(&fixture, "bob").await);
    let mut worker = Worker::new(&fixture);
    assert_eq!(numbers_of(&worker.next().await), [(2, 0), (3, 0)]);
    worker.fails(2, 1, s(5));
    let cid = buy_one(&fixture, "cid").await;
    assert_eq!(worker.entries().await, [entry(&cid, OrderIntent::Hold)]);
    let aside = failed(&fixture).await.remove(0);
    assert_eq!((aside.seq, aside.attempts, aside.reason.as_str()), (2, 1, "no"));
    assert_eq!((state(&fixture).await.through, state(&fixture).await.failed), (3, 1));
    assert_eq!(numbers_of(&worker.next().await), [], "it is not due");
    fixture.advance(s(6)).await;
    confirm(&fixture, &bob).await;
    let batch = worker.next().await;
    assert_eq!(numbers_of(&batch), [(2, 1), (5, 0)], "what failed comes first");
    assert_eq!(batch.entries[0].entry, entry(&ann, OrderIntent::Hold));
    worker.fails(2, 2, s(5));
    worker.next().await;
    assert_eq!(failed(&fixture).await[0].attempts, 2);
    fixture.advance(s(6)).await;
    worker.next().await;
    worker.recovered = vec![2];
    worker.next().await;
    assert_eq!(failed(&fixture).await, []);
}

pub(super) async fn a_failed_entry_with_nothing_left_to_record_is_dropped(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 3, 1)]).await;
    let ann = buy_one(&fixture, "ann").await;
    let mut worker = Worker::new(&fixture);
    worker.next().await;
    worker.fails(2, 1, Duration::ZERO);
    confirm(&fixture, &ann).await;
    let batch = worker.next().await;
    assert_eq!(numbers_of(&batch), [(2, 1)], "a reservation is in a batch once");
    assert_eq!(batch.through, 3);
    settle(&fixture, &ann, Verdict::Confirmed).await;
    assert_eq!(numbers_of(&worker.next().await), []);
    assert_eq!(failed(&fixture).await, []);
}

pub(super) async fn the_reason_of_a_failure_is_cut(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 3, 1)]).await;
    buy_one(&fixture, "ann").await;
    let mut worker = Worker::new(&fixture);
    worker.next().await;
    let reason = "ä".repeat(Failure::REASON_MAX);
    worker.failed = vec![Failure { seq: 2, attempts: 1, reason, retry_after: Failure::RETRY_MAX }];
    worker.next().await;
    assert_eq!(failed(&fixture).await[0].reason, "ä".repeat(Failure::REASON_MAX / 2));
    let late = Failure::RETRY_MAX + Duration::from_micros(1);
    let failure = Failure { seq: 2, attempts: 1, reason: String::new(), retry_after: late };
    let follow = |n, failed| Follow {
        sale: id(),
        worker: worker.token,
        generation: 1,
        through: 0,
        failed,
        recovered: vec![],
        n,
        lease: lease(s(10)),
    };
    refused(fixture.store.follow_orders(follow(1, vec![failure])).await);
    refused(fixture.store.follow_orders(follow(1_001, vec![])).await);
    refused(fixture.store.failed_orders(&id(), Page::first(0)).await);
    refused(fixture.store.failed_orders(&id(), Page::first(1_001)).await);
}

pub(super) async fn a_failure_of_what_was_not_delivered_is_ignored(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 3, 1)]).await;
    buy_one(&fixture, "ann").await;
    let mut worker = Worker::new(&fixture);
    worker.next().await;
    worker.through = 1;
    for seq in [0, 2, 3, u64::MAX >> 11] {
        worker.fails(seq, 1, s(1));
    }
    worker.next().await;
    assert_eq!(failed(&fixture).await, []);
}

pub(super) async fn many_failed_entries_hold_up_the_log(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 1_002, 1)]).await;
    for n in 0..1_001 {
        buy_one(&fixture, &format!("buyer-{n}")).await;
    }
    let mut worker = Worker::new(&fixture);
    let batch = worker.next().await;
    assert_eq!((batch.entries.len(), batch.through), (999, 1_000));
    for delivery in &batch.entries {
        worker.fails(delivery.seq, 1, s(60));
    }
    let batch = worker.next_of(1).await;
    assert_eq!(numbers_of(&batch), [(1_001, 0)], "999 have failed");
    worker.fails(1_001, 1, s(60));
    let batch = worker.next().await;
    assert_eq!((numbers_of(&batch), batch.through, batch.latest), (vec![], 1_001, 1_002));
    fixture.advance(s(61)).await;
    assert_eq!(worker.next().await.entries.len(), 100, "up to 100 failed ones in a batch");
    worker.recovered = vec![2];
    assert_eq!(worker.next().await.entries.last().unwrap().seq, 1_002);
}

pub(super) async fn failed_entries_are_paged_and_made_due_at_once(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 5, 1)]).await;
    for buyer in ["ann", "bob", "cid"] {
        buy_one(&fixture, buyer).await;
    }
    let mut worker = Worker::new(&fixture);
    worker.next().await;
    for seq in [4, 2, 3] {
        worker.fails(seq, 1, s(60));
    }
    worker.next().await;
    let page = async |after, limit| {
        let page = fixture.store.failed_orders(&id(), Page::after(after, limit)).await.unwrap();
        page.iter().map(|failed| failed.seq).collect::<Vec<_>>()
    };
    assert_eq!((page(0, 2).await, page(3, 2).await, page(4, 2).await), (vec![2, 3], vec![4], vec![]));
    assert_eq!(numbers_of(&worker.next().await), []);
    assert_eq!(fixture.store.retry_orders(&id()).await.unwrap(), 3);
    let due = failed(&fixture).await;
    fixture.advance(s(1)).await;
    assert_eq!(fixture.store.retry_orders(&id()).await.unwrap(), 3);
    assert_eq!(failed(&fixture).await, due, "what is due already stays as it is");
    assert_eq!(numbers_of(&worker.next().await), [(2, 1), (3, 1), (4, 1)]);
}

pub(super) async fn a_sale_without_a_ledger_is_not_followed(fixture: Fixture) {
    fixture.sell(&[("a", 3, 1)]).await;
    let follow = Follow {
        sale: id(),
        worker: fixture.token(),
        generation: 0,
        through: 0,
        failed: vec![],
        recovered: vec![],
        n: 1,
        lease: lease(s(10)),
    };
    refused(fixture.store.follow_orders(follow.clone()).await);
    assert_eq!(fixture.store.sale(&id()).await.unwrap().orders, None);
    assert_eq!(failed(&fixture).await, []);
    assert_eq!(fixture.store.retry_orders(&id()).await.unwrap(), 0);
    let unknown = Follow { sale: sale_id("other"), ..follow };
    assert!(fixture.store.follow_orders(unknown).await.unwrap_err().is_not_found());
    assert!(fixture.store.failed_orders(&sale_id("other"), Page::first(1)).await.unwrap_err().is_not_found());
    assert!(fixture.store.retry_orders(&sale_id("other")).await.unwrap_err().is_not_found());
    assert!(fixture.store.next_sale_event(&sale_id("other"), 0).await.unwrap_err().is_not_found());
}

pub(super) async fn a_halted_sale_is_followed_too(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 3, 1)]).await;
    let ann = buy_one(&fixture, "ann").await;
    assert!(fixture.store.halt_sale(&id(), 1, HaltReason::Operator).await.unwrap());
    let mut worker = Worker::new(&fixture);
    assert_eq!(worker.entries().await, [entry(&ann, OrderIntent::Hold)]);
    worker.next().await;
    assert_eq!(state(&fixture).await.through, 3);
}

/// Begins a rebuild of the sale, and loads this hold.
async fn begin_with(fixture: &Fixture, hold: &Hold) -> Op {
    let by = fixture.op();
    fixture.store.begin_rebuild(by, &id()).await.unwrap();
    let order = LedgerOrder {
        id: hold.id,
        buyer: hold.buyer.clone(),
        state: OrderIntent::Hold,
        generation: 1,
        seq: hold.seq,
        units: hold.units.clone(),
        returned: Vec::new(),
    };
    assert_eq!(fixture.store.load(by, &id(), 3, Load::Orders(vec![order])).await.unwrap(), Rebuilt::Done);
    by
}

async fn switch(fixture: &Fixture, by: Op) {
    let stock = vec![Stocktake { total: 3, handed_out: 1, ahead: 0 }];
    let switch = Switch { generation: 3, grace: Duration::ZERO, stock };
    assert_eq!(fixture.store.switch(by, &id(), switch).await.unwrap(), Rebuilt::Done);
}

pub(super) async fn a_rebuilt_sale_is_followed_from_behind_what_was_loaded(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 3, 1)]).await;
    let (ann, bob) = (buy_one(&fixture, "ann").await, buy_one(&fixture, "bob").await);
    let mut worker = Worker::new(&fixture);
    worker.next().await;
    worker.fails(2, 1, s(1));
    worker.next().await;
    let before = state(&fixture).await;
    let by = begin_with(&fixture, &ann).await;
    let halted = fixture.store.events(&id(), Page::after(3, 1)).await.unwrap().remove(0).at;
    let unchanged = OrdersState { behind_since: Some(halted), ..before };
    assert_eq!((before.through, state(&fixture).await), (3, unchanged), "until the switch");
    switch(&fixture, by).await;
    let now = fixture.store.sale(&id()).await.unwrap();
    let loaded = OrdersState { through: now.seq, behind_since: None, failed: 0, worker_until: None };
    assert_eq!(now.orders, Some(loaded));
    assert_eq!(fixture.store.snapshot(&id()).await.unwrap().through, now.seq);
    worker.through = 1_000;
    assert_eq!(worker.next().await.entries, []);
    assert_eq!(worker.generation, 3);
    let Restored::Restored(hold) = fixture.store.restore(Receipt::of(&id(), &bob)).await.unwrap() else {
        panic!("its units are free");
    };
    assert_eq!(worker.entries().await, [entry(&hold, OrderIntent::Hold)], "the ledger does not know it");
    fixture.audited().await;
}

/// Asserts that a change of the sale wakes the clients that wait for its next event.
async fn wakes(fixture: &Fixture, what: &str, change: impl Future<Output = ()>) {
    let (sale, peer) = (id(), fixture.peer());
    let after = fixture.store.sale(&sale).await.unwrap().seq;
    let (here, there) = (fixture.store.next_sale_event(&sale, after), peer.next_sale_event(&sale, after));
    let change = async {
        // The other client's listening call must reach the store before the change.
        peer.sale(&sale).await.unwrap();
        change.await;
    };
    let (here, there, ()) = tokio::join!(soon(here), soon(there), change);
    here.unwrap();
    there.unwrap();
    assert_ne!(fixture.store.sale(&sale).await.unwrap().seq, after, "{what}");
    // A client that knows another number than the latest need not wait.
    soon(fixture.store.next_sale_event(&sale, after)).await.unwrap();
}

pub(super) async fn every_verb_that_changes_a_sale_wakes_its_followers(fixture: Fixture) {
    let (store, sale) = (fixture.store.clone(), id());
    store.create(fixture.spec(&[("a", 9, 9)], true)).await.unwrap();
    wakes(&fixture, "open", async { assert_eq!(store.open(&sale).await.unwrap(), SaleStatus::Open) }).await;
    wakes(&fixture, "reserve", async { drop(buy_one(&fixture, "ann").await) }).await;
    let ann = buy_one(&fixture, "ann").await;
    wakes(&fixture, "confirm", confirm(&fixture, &ann)).await;
    wakes(&fixture, "settle", settle(&fixture, &ann, Verdict::Confirmed)).await;
    let bob = buy_one(&fixture, "bob").await;
    wakes(&fixture, "cancel", async { drop(store.cancel_hold(&sale, bob.id).await.unwrap()) }).await;
    let add = StockChange::Add(1);
    wakes(&fixture, "stock", async { drop(store.stock(fixture.op(), &sale, &sku("a"), add).await.unwrap()) })
        .await;
    fixture.advance(s(11)).await;
    wakes(&fixture, "expire", async { assert_eq!(store.expire(&sale, 10).await.unwrap(), 1) }).await;
    wakes(&fixture, "end", async { assert_eq!(store.end(&sale).await.unwrap(), SaleStatus::Ended) }).await;
}

pub(super) async fn a_halt_a_rebuild_and_a_receipt_wake_the_followers_of_a_sale(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 3, 1)]).await;
    let (ann, bob) = (buy_one(&fixture, "ann").await, buy_one(&fixture, "bob").await);
    let (store, operator) = (fixture.store.clone(), HaltReason::Operator);
    wakes(&fixture, "halt", async { assert!(store.halt_sale(&id(), 1, operator).await.unwrap()) }).await;
    let by = begin_with(&fixture, &ann).await;
    wakes(&fixture, "switch", switch(&fixture, by)).await;
    let restore = async || store.restore(Receipt::of(&id(), &bob)).await.unwrap();
    wakes(&fixture, "restore", async { assert!(matches!(restore().await, Restored::Restored(_))) }).await;
    let lost = Hold { id: ReservationId::from_bytes([8; 16]), generation: 3, ..ann };
    let prove = async || store.restore(Receipt::of(&id(), &lost)).await.unwrap();
    wakes(&fixture, "a lost write", async { assert!(matches!(prove().await, Restored::Halted { .. })) })
        .await;
}

pub(super) async fn a_rebuild_that_begins_wakes_the_followers_of_a_sale(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 3, 1)]).await;
    let begin = async { fixture.store.begin_rebuild(fixture.op(), &id()).await.unwrap() };
    wakes(&fixture, "begin a rebuild", begin).await;
}
