//! Contract of a store whose clock moves back or forward by an hour.

use std::time::Duration;

use rushgate_core::{
    Acquired, Completed, Extend, Extended, Failure, Follow, Followed, KeyLimits, Lease, QueueLimits,
    QueueName, Rate, Released, Timestamp, Verbs,
};

use crate::fixture::*;

const HOUR: Duration = s(3_600);

fn q() -> QueueName {
    queue_name("q")
}

async fn complete(fixture: &Fixture, ticket: rushgate_core::Ticket) -> Completed {
    fixture.store.complete(fixture.op(), &q(), vec![ticket.into()]).await.unwrap().remove(0)
}

pub(super) async fn put_back_a_lock_is_held_for_longer_and_fences_grow(fixture: Fixture) {
    let (first, second) = (fixture.token(), fixture.token());
    let before = granted(fixture.try_lock(first).await);
    position(&fixture.wait_lock(second).await);
    fixture.put_back(HOUR).await;
    let held = fixture.store.held(&lock_name("l"), first).await.unwrap().expect("its lease lasts longer");
    near(held.lease_left, HOUR + s(10));
    assert_eq!(held.fence, before.fence);
    assert!(matches!(fixture.wait_lock(second).await, Acquired::Queued(_)));
    // A renewed lease counts from the current clock.
    let extend = Extend { name: lock_name("l"), token: first, lease: lease(s(10)) };
    let extended = fixture.store.extend(vec![extend]).await.unwrap().remove(0);
    let Extended::Extended(grant) = extended else { panic!("it is held: {extended:?}") };
    near(grant.lease_left, s(10));
    assert_eq!(fixture.store.release(&lock_name("l"), first).await.unwrap(), Released::Released);
    let after = granted(fixture.wait_lock(second).await);
    assert!(after.fence > before.fence, "{after:?} comes behind {before:?}");
    fixture.advance(s(11)).await;
    let third = granted(fixture.try_lock(fixture.token()).await);
    assert!(third.fence > after.fence, "{third:?} comes behind {after:?}");
}

pub(super) async fn put_forward_a_lock_is_anothers_and_its_holder_is_told(fixture: Fixture) {
    let (first, second) = (fixture.token(), fixture.token());
    let before = granted(fixture.try_lock(first).await);
    fixture.advance(HOUR).await;
    let after = granted(fixture.try_lock(second).await);
    assert!(after.fence > before.fence);
    let extend = Extend { name: lock_name("l"), token: first, lease: lease(s(10)) };
    assert_eq!(fixture.store.extend(vec![extend]).await.unwrap(), [Extended::NotHeld]);
    assert_eq!(fixture.store.release(&lock_name("l"), first).await.unwrap(), Released::NotHeld);
    assert!(fixture.store.held(&lock_name("l"), second).await.unwrap().is_some());
}

pub(super) async fn put_back_a_claim_lasts_longer_and_is_completed(fixture: Fixture) {
    fixture.put(task("a")).await;
    let claimed = fixture.claim_one().await;
    fixture.put_back(HOUR).await;
    fixture.put(task("b")).await;
    let other = fixture.claim_one().await;
    assert_eq!(text(&other), "b", "the first is still claimed");
    assert!(
        other.ticket.claim > claimed.ticket.claim,
        "{:?} comes behind {:?}",
        other.ticket,
        claimed.ticket
    );
    assert_eq!(complete(&fixture, claimed.ticket).await, Completed::Done);
    // The lease of the second task ends on the current clock.
    fixture.advance(s(11)).await;
    let again = fixture.claim_one().await;
    assert!(again.ticket.claim > other.ticket.claim);
    assert_eq!(complete(&fixture, other.ticket).await, Completed::Stale);
    assert_eq!(complete(&fixture, again.ticket).await, Completed::Done);
    assert!(fixture.is_gone("a").await && fixture.is_gone("b").await);
}

pub(super) async fn put_forward_a_claim_is_over_and_its_ticket_stale(fixture: Fixture) {
    fixture.put(task("a")).await;
    let claimed = fixture.claim_one().await;
    fixture.advance(HOUR).await;
    let again = fixture.claim_one().await;
    assert!(again.ticket.claim > claimed.ticket.claim);
    assert_eq!(complete(&fixture, claimed.ticket).await, Completed::Stale);
    assert_eq!(complete(&fixture, again.ticket).await, Completed::Done);
}

pub(super) async fn put_back_a_delay_lasts_longer_and_loses_nothing(fixture: Fixture) {
    fixture.put_all(vec![after(task("late"), s(10)), task("now")]).await;
    fixture.put_back(HOUR).await;
    // A task due at a time that will come again waits for it.
    let claimed = fixture.claim(2).await;
    near(claimed.next_due.expect("something waits"), HOUR);
    assert!(claimed.tasks.is_empty());
    fixture.advance(HOUR).await;
    assert_eq!(text(&fixture.claim_one().await), "now");
    fixture.advance(s(10)).await;
    let mut due = texts(&fixture.claim(2).await.tasks);
    due.sort();
    assert_eq!(due, ["late", "now"], "the first claim's lease is over as well");
}

pub(super) async fn put_back_a_rate_gives_out_no_more(fixture: Fixture) {
    let rate = Some(Rate { n: 2, per: s(10) });
    let limits = QueueLimits { rate, per_key: KeyLimits::default(), ..QueueLimits::default() };
    fixture.store.limit(&q(), limits).await.unwrap();
    fixture.put_all(["a", "b", "c", "d"].map(task).into()).await;
    assert_eq!(fixture.claim(4).await.tasks.len(), 2);
    fixture.put_back(HOUR).await;
    assert_eq!(fixture.claim(4).await.tasks.len(), 0);
    fixture.advance(HOUR + s(11)).await;
    assert_eq!(fixture.claim(4).await.tasks.len(), 2);
}

pub(super) async fn put_back_and_forth_a_sale_sells_what_it_has(fixture: Fixture) {
    fixture.sell(&[("seat", 2, 2)]).await;
    let hold = reserved(fixture.buy("ann", vec![line("seat", 1)]).await);
    let before = last_event(&fixture).await;
    fixture.put_back(HOUR).await;
    reserved(fixture.buy("bob", vec![line("seat", 1)]).await);
    assert_eq!(fixture.places("seat").await, (0, 2, 0, 0), "the first hold lasts longer");
    assert!(last_event(&fixture).await > before);
    let settled = fixture.store.confirm(&sale_id("s"), hold.id).await.unwrap();
    drop(settled);
    fixture.advance(2 * HOUR).await;
    fixture.store.expire(&sale_id("s"), 100).await.unwrap();
    assert_eq!(fixture.places("seat").await, (1, 0, 1, 0), "the unpaid hold has expired");
    fixture.audited().await;
}

pub(super) async fn put_back_far_a_sale_is_followed_by_another_worker(fixture: Fixture) {
    fixture.sell_with_ledger(&[("seat", 2, 2)]).await;
    let hold = reserved(fixture.buy("ann", vec![line("seat", 1)]).await);
    let follow = |worker| Follow {
        sale: sale_id("s"),
        worker,
        generation: 1,
        through: 2,
        failed: vec![Failure { seq: 2, attempts: 1, reason: "no".into(), retry_after: HOUR }],
        recovered: Vec::new(),
        n: 10,
        lease: lease(Lease::MAX),
    };
    let (first, second) = (fixture.token(), fixture.token());
    for _ in 0..2 {
        fixture.store.follow_orders(follow(first)).await.unwrap();
    }
    assert!(matches!(fixture.store.follow_orders(follow(second)).await.unwrap(), Followed::Busy { .. }));
    fixture.put_back(2 * HOUR).await;
    let Followed::Batch(batch) = fixture.store.follow_orders(follow(second)).await.unwrap() else {
        panic!("no lease lasts for a day");
    };
    assert_eq!(
        batch.entries.iter().map(|it| it.seq).collect::<Vec<_>>(),
        [hold.seq],
        "no retry is an hour late"
    );
}

/// Number and time of the last event.
async fn last_event(fixture: &Fixture) -> (u64, Timestamp) {
    let snapshot = fixture.store.snapshot(&sale_id("s")).await.unwrap();
    let last = snapshot.events.last().expect("something has happened");
    (last.seq, last.at)
}
