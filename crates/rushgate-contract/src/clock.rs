//! Contract of a store whose clock moves back or forward by an hour.

use std::time::Duration;

use rushgate_core::{
    Acquired, Completed, Extend, Extended, Failure, Follow, Followed, KeyLimits, Lease, QueueLimits,
    QueueName, Rate, Released, Timestamp, Verbs,
};

use crate::desk::*;

const HOUR: Duration = s(3_600);

fn q() -> QueueName {
    queue_name("q")
}

async fn complete(desk: &Desk, ticket: rushgate_core::Ticket) -> Completed {
    desk.store.complete(desk.op(), &q(), vec![ticket.into()]).await.unwrap().remove(0)
}

pub(super) async fn put_back_a_lock_is_held_for_longer_and_fences_grow(desk: Desk) {
    let (first, second) = (desk.token(), desk.token());
    let before = granted(desk.try_lock(first).await);
    position(&desk.wait_lock(second).await);
    desk.put_back(HOUR).await;
    let held = desk.store.held(&lock_name("l"), first).await.unwrap().expect("its lease lasts longer");
    near(held.lease_left, HOUR + s(10));
    assert_eq!(held.fence, before.fence);
    assert!(matches!(desk.wait_lock(second).await, Acquired::Queued(_)));
    // A renewed lease counts from the current clock.
    let extend = Extend { name: lock_name("l"), token: first, lease: lease(s(10)) };
    let extended = desk.store.extend(vec![extend]).await.unwrap().remove(0);
    let Extended::Extended(grant) = extended else { panic!("it is held: {extended:?}") };
    near(grant.lease_left, s(10));
    assert_eq!(desk.store.release(&lock_name("l"), first).await.unwrap(), Released::Released);
    let after = granted(desk.wait_lock(second).await);
    assert!(after.fence > before.fence, "{after:?} comes behind {before:?}");
    desk.advance(s(11)).await;
    let third = granted(desk.try_lock(desk.token()).await);
    assert!(third.fence > after.fence, "{third:?} comes behind {after:?}");
}

pub(super) async fn put_forward_a_lock_is_anothers_and_its_holder_is_told(desk: Desk) {
    let (first, second) = (desk.token(), desk.token());
    let before = granted(desk.try_lock(first).await);
    desk.advance(HOUR).await;
    let after = granted(desk.try_lock(second).await);
    assert!(after.fence > before.fence);
    let extend = Extend { name: lock_name("l"), token: first, lease: lease(s(10)) };
    assert_eq!(desk.store.extend(vec![extend]).await.unwrap(), [Extended::NotHeld]);
    assert_eq!(desk.store.release(&lock_name("l"), first).await.unwrap(), Released::NotHeld);
    assert!(desk.store.held(&lock_name("l"), second).await.unwrap().is_some());
}

pub(super) async fn put_back_a_claim_lasts_longer_and_is_completed(desk: Desk) {
    desk.put(task("a")).await;
    let claimed = desk.claim_one().await;
    desk.put_back(HOUR).await;
    desk.put(task("b")).await;
    let other = desk.claim_one().await;
    assert_eq!(text(&other), "b", "the first is still claimed");
    assert!(
        other.ticket.claim > claimed.ticket.claim,
        "{:?} comes behind {:?}",
        other.ticket,
        claimed.ticket
    );
    assert_eq!(complete(&desk, claimed.ticket).await, Completed::Done);
    // The lease of the second task ends on the current clock.
    desk.advance(s(11)).await;
    let again = desk.claim_one().await;
    assert!(again.ticket.claim > other.ticket.claim);
    assert_eq!(complete(&desk, other.ticket).await, Completed::Stale);
    assert_eq!(complete(&desk, again.ticket).await, Completed::Done);
    assert!(desk.is_gone("a").await && desk.is_gone("b").await);
}

pub(super) async fn put_forward_a_claim_is_over_and_its_ticket_stale(desk: Desk) {
    desk.put(task("a")).await;
    let claimed = desk.claim_one().await;
    desk.advance(HOUR).await;
    let again = desk.claim_one().await;
    assert!(again.ticket.claim > claimed.ticket.claim);
    assert_eq!(complete(&desk, claimed.ticket).await, Completed::Stale);
    assert_eq!(complete(&desk, again.ticket).await, Completed::Done);
}

pub(super) async fn put_back_a_delay_lasts_longer_and_loses_nothing(desk: Desk) {
    desk.put_all(vec![after(task("late"), s(10)), task("now")]).await;
    desk.put_back(HOUR).await;
    // A task due at a time that will come again waits for it.
    let claimed = desk.claim(2).await;
    near(claimed.next_due.expect("something waits"), HOUR);
    assert!(claimed.tasks.is_empty());
    desk.advance(HOUR).await;
    assert_eq!(text(&desk.claim_one().await), "now");
    desk.advance(s(10)).await;
    let mut due = texts(&desk.claim(2).await.tasks);
    due.sort();
    assert_eq!(due, ["late", "now"], "the first claim's lease is over as well");
}

pub(super) async fn put_back_a_rate_gives_out_no_more(desk: Desk) {
    let rate = Some(Rate { n: 2, per: s(10) });
    let limits = QueueLimits { rate, per_key: KeyLimits::default(), ..QueueLimits::default() };
    desk.store.limit(&q(), limits).await.unwrap();
    desk.put_all(["a", "b", "c", "d"].map(task).into()).await;
    assert_eq!(desk.claim(4).await.tasks.len(), 2);
    desk.put_back(HOUR).await;
    assert_eq!(desk.claim(4).await.tasks.len(), 0);
    desk.advance(HOUR + s(11)).await;
    assert_eq!(desk.claim(4).await.tasks.len(), 2);
}

pub(super) async fn put_back_and_forth_a_sale_sells_what_it_has(desk: Desk) {
    desk.sell(&[("seat", 2, 2)]).await;
    let hold = reserved(desk.buy("ann", vec![line("seat", 1)]).await);
    let before = last_event(&desk).await;
    desk.put_back(HOUR).await;
    reserved(desk.buy("bob", vec![line("seat", 1)]).await);
    assert_eq!(desk.places("seat").await, (0, 2, 0, 0), "the first hold lasts longer");
    assert!(last_event(&desk).await > before);
    let settled = desk.store.confirm(&sale_id("s"), hold.id).await.unwrap();
    drop(settled);
    desk.advance(2 * HOUR).await;
    desk.store.expire(&sale_id("s"), 100).await.unwrap();
    assert_eq!(desk.places("seat").await, (1, 0, 1, 0), "the unpaid hold has expired");
    desk.audited().await;
}

pub(super) async fn put_back_far_a_sale_is_followed_by_another_worker(desk: Desk) {
    desk.sell_with_ledger(&[("seat", 2, 2)]).await;
    let hold = reserved(desk.buy("ann", vec![line("seat", 1)]).await);
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
    let (first, second) = (desk.token(), desk.token());
    for _ in 0..2 {
        desk.store.follow_orders(follow(first)).await.unwrap();
    }
    assert!(matches!(desk.store.follow_orders(follow(second)).await.unwrap(), Followed::Busy { .. }));
    desk.put_back(2 * HOUR).await;
    let Followed::Batch(batch) = desk.store.follow_orders(follow(second)).await.unwrap() else {
        panic!("no lease lasts for a day");
    };
    assert_eq!(
        batch.entries.iter().map(|it| it.seq).collect::<Vec<_>>(),
        [hold.seq],
        "no retry is an hour late"
    );
}

/// Number and time of the last event.
async fn last_event(desk: &Desk) -> (u64, Timestamp) {
    let books = desk.store.books(&sale_id("s")).await.unwrap();
    let last = books.events.last().expect("something has happened");
    (last.seq, last.at)
}
