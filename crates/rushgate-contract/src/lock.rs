//! Contract of locks.

use std::time::Duration;

use rushgate_core::{
    Acquire, Acquired, Due, Enqueued, Extend, Extended, Lease, Left, NewTask, Notification, OnDuplicate, Op,
    Overflow, Page, QueueLimits, ReleaseWith, Released, ReleasedWith, Store, Token, Verbs,
};

use crate::fixture::*;

const L: &str = "l";

async fn release(fixture: &Fixture, token: Token) -> Released {
    fixture.store.release(&lock_name(L), token).await.unwrap()
}

fn extend_by(token: Token, by: Duration) -> Extend {
    Extend { name: lock_name(L), token, lease: lease(by) }
}

async fn extend(fixture: &Fixture, token: Token, by: Duration) -> Extended {
    fixture.store.extend(vec![extend_by(token, by)]).await.unwrap()[0]
}

async fn holder(fixture: &Fixture) -> Option<Token> {
    let state = fixture.store.show(&lock_name(L)).await.unwrap();
    state.holders.first().map(|holder| holder.token)
}

async fn line_of(fixture: &Fixture) -> Vec<Token> {
    let state = fixture.store.show(&lock_name(L)).await.unwrap();
    state.waiters.iter().map(|waiter| waiter.token).collect()
}

/// Four tokens: the first holds the lock, the others wait for it in order.
async fn line_up(fixture: &Fixture) -> [Token; 4] {
    let tokens = [(); 4].map(|()| fixture.token());
    granted(fixture.try_lock(tokens[0]).await);
    for (token, place) in tokens[1..].iter().zip(1..) {
        assert_eq!(position(&fixture.wait_lock(*token).await), place);
    }
    tokens
}

pub(super) async fn a_free_lock_is_granted_at_once(fixture: Fixture) {
    let token = fixture.token();
    let grant = granted(fixture.try_lock(token).await);
    near(grant.lease_left, s(10));
    assert_eq!(holder(&fixture).await, Some(token));
    assert_eq!(line_of(&fixture).await, []);
}

pub(super) async fn a_held_lock_answers_busy_with_the_rest_of_the_lease(fixture: Fixture) {
    line_up(&fixture).await;
    fixture.advance(s(4)).await;
    let Acquired::Busy(busy) = fixture.try_lock(fixture.token()).await else { panic!("the lock is held") };
    near(busy.retry_after, s(6));
    assert_eq!(busy.waiters, 3);
    assert_eq!(line_of(&fixture).await.len(), 3, "who does not wait is not in line");
}

pub(super) async fn asking_again_confirms_and_restarts_the_lease(fixture: Fixture) {
    let token = fixture.token();
    let first = granted(fixture.try_lock(token).await);
    fixture.advance(s(6)).await;
    let second = granted(fixture.try_lock(token).await);
    assert_eq!(second.fence, first.fence);
    near(second.lease_left, s(10));
    fixture.advance(s(6)).await;
    assert_eq!(holder(&fixture).await, Some(token));
}

pub(super) async fn a_waiter_has_one_place_however_often_it_asks(fixture: Fixture) {
    let [_, a, b, c] = line_up(&fixture).await;
    for _ in 0..3 {
        assert_eq!(position(&fixture.wait_lock(b).await), 2);
    }
    assert_eq!(line_of(&fixture).await, [a, b, c]);
    let Acquired::Queued(queued) = fixture.wait_lock(c).await else { panic!("it is in the wait queue") };
    near(queued.check_after, s(10));
    let state = fixture.store.show(&lock_name(L)).await.unwrap();
    assert_eq!(queued.fence, state.holders[0].fence);
}

pub(super) async fn a_waiter_that_asks_without_waiting_keeps_its_place(fixture: Fixture) {
    let [_, a, b, c] = line_up(&fixture).await;
    assert!(matches!(fixture.try_lock(a).await, Acquired::Busy(_)));
    assert_eq!(line_of(&fixture).await, [a, b, c]);
}

pub(super) async fn a_release_hands_over_to_the_first_waiter(fixture: Fixture) {
    let [first, a, b, c] = line_up(&fixture).await;
    let mut before = first;
    for next in [a, b, c] {
        assert_eq!(release(&fixture, before).await, Released::Released);
        assert_eq!(holder(&fixture).await, Some(next));
        granted(fixture.wait_lock(next).await);
        before = next;
    }
    assert_eq!(release(&fixture, c).await, Released::Released);
    assert_eq!(holder(&fixture).await, None);
}

pub(super) async fn a_release_with_a_foreign_token_changes_nothing(fixture: Fixture) {
    let [first, a, b, c] = line_up(&fixture).await;
    for foreign in [fixture.token(), a, fixture.token_of(2)] {
        assert_eq!(release(&fixture, foreign).await, Released::NotHeld);
    }
    assert_eq!(holder(&fixture).await, Some(first));
    assert_eq!(line_of(&fixture).await, [a, b, c]);
}

pub(super) async fn a_release_sent_twice_is_answered_twice_and_done_once(fixture: Fixture) {
    let [first, a, b, _] = line_up(&fixture).await;
    assert_eq!(release(&fixture, first).await, Released::Released);
    assert_eq!(release(&fixture, first).await, Released::Released);
    assert_eq!(holder(&fixture).await, Some(a));
    assert_eq!(line_of(&fixture).await[0], b);
}

pub(super) async fn a_release_sent_again_after_those_of_others_is_answered_as_the_first(fixture: Fixture) {
    let [first, a, b, c] = line_up(&fixture).await;
    for token in [first, a, b] {
        assert_eq!(release(&fixture, token).await, Released::Released);
    }
    for token in [first, a, b] {
        assert_eq!(release(&fixture, token).await, Released::Released, "its answer was lost");
        assert_eq!(holder(&fixture).await, Some(c));
    }
    assert_eq!(fixture.store.leave(&lock_name(L), c).await.unwrap(), Left::Lock);
    assert_eq!(release(&fixture, first).await, Released::Released, "the oldest that is remembered");
    granted(fixture.try_lock(fixture.token()).await);
    assert_eq!(release(&fixture, first).await, Released::Released);
    fixture.store.force_release(&lock_name(L)).await.unwrap();
    let last = fixture.token();
    granted(fixture.try_lock(last).await);
    assert_eq!(release(&fixture, last).await, Released::Released);
    assert_eq!(release(&fixture, first).await, Released::NotHeld, "older releases are forgotten");
    assert_eq!(release(&fixture, a).await, Released::Released);
}

pub(super) async fn a_release_of_a_lock_never_used_is_not_held(fixture: Fixture) {
    assert_eq!(release(&fixture, fixture.token()).await, Released::NotHeld);
}

async fn release_with(fixture: &Fixture, op: Op, token: Token, task: NewTask) -> ReleasedWith {
    let release = ReleaseWith { name: lock_name(L), token, queue: queue_name("q"), task };
    fixture.store.release_with(op, release).await.unwrap()
}

#[track_caller]
fn enqueued_by(answer: ReleasedWith) -> Enqueued {
    match answer {
        ReleasedWith::Released(enqueued) => enqueued,
        other => panic!("expected to be released, not {other:?}"),
    }
}

pub(super) async fn a_release_with_a_task_does_both_and_wakes_both(fixture: Fixture) {
    let [holder_token, next, ..] = line_up(&fixture).await;
    let mut ready = fixture.store.ready(&queue_name("q"));
    assert!(fixture.claim(1).await.tasks.is_empty());
    let heard = fixture.store.notification(next);
    let enqueued = enqueued_by(release_with(&fixture, fixture.op(), holder_token, task("a")).await);
    assert!(matches!(enqueued, Enqueued::Added { .. }), "{enqueued:?}");
    assert!(matches!(
        soon(heard).await.unwrap(),
        Notification::Granted(_) | Notification::Handed(_) | Notification::Ask
    ));
    soon(&mut ready).await.unwrap();
    assert_eq!(holder(&fixture).await, Some(next));
    assert_eq!(line_of(&fixture).await.len(), 2);
    assert_eq!(text(&fixture.claim_one().await), "a");
    // Its token counts as released, as after any release.
    assert_eq!(release(&fixture, holder_token).await, Released::Released);
    assert_eq!(holder(&fixture).await, Some(next));
}

pub(super) async fn a_release_with_a_task_by_who_holds_nothing_puts_nothing_in(fixture: Fixture) {
    let nobody = fixture.token();
    assert_eq!(release_with(&fixture, fixture.op(), nobody, task("a")).await, ReleasedWith::NotHeld);
    let [first, second, ..] = line_up(&fixture).await;
    assert_eq!(release_with(&fixture, fixture.op(), second, task("a")).await, ReleasedWith::NotHeld);
    assert_eq!(holder(&fixture).await, Some(first));
    assert_eq!(line_of(&fixture).await.len(), 3, "the waiters keep waiting");
    fixture.advance(s(11)).await;
    assert_eq!(release_with(&fixture, fixture.op(), first, task("a")).await, ReleasedWith::NotHeld);
    let late = fixture.token();
    assert_eq!(release(&fixture, second).await, Released::NotHeld);
    assert_eq!(release_with(&fixture, fixture.op(), late, task("a")).await, ReleasedWith::NotHeld);
    assert!(fixture.is_gone("a").await);
}

pub(super) async fn a_release_with_a_task_for_a_full_queue_keeps_the_lock(fixture: Fixture) {
    let limit = async |overflow| {
        let limits = QueueLimits { bound: Some(1), overflow, ..QueueLimits::default() };
        fixture.store.limit(&queue_name("q"), limits).await.unwrap();
    };
    limit(Overflow::Refuse).await;
    fixture.put(task("a")).await;
    let [token, next, ..] = line_up(&fixture).await;
    let refused = release_with(&fixture, fixture.op(), token, task("b")).await;
    assert_eq!(refused, ReleasedWith::NotTaken(Enqueued::Full { bound: 1 }));
    let orphan = NewTask { after: vec![task_id("nobody")], ..task("b") };
    let refused = release_with(&fixture, fixture.op(), token, orphan).await;
    assert!(matches!(refused, ReleasedWith::NotTaken(Enqueued::Refused { .. })), "{refused:?}");
    assert_eq!(holder(&fixture).await, Some(token));
    assert!(fixture.is_gone("b").await);
    // A task that the overflow policy drops counts as accepted.
    limit(Overflow::DropNew).await;
    let enqueued = enqueued_by(release_with(&fixture, fixture.op(), token, task("b")).await);
    assert_eq!(enqueued, Enqueued::Dropped { bound: 1 });
    assert_eq!(holder(&fixture).await, Some(next));
    limit(Overflow::DropOldest).await;
    let enqueued = enqueued_by(release_with(&fixture, fixture.op(), next, task("c")).await);
    assert!(
        matches!(enqueued, Enqueued::Displaced { ref dropped, .. } if *dropped == task_id("a")),
        "{enqueued:?}"
    );
}

pub(super) async fn a_release_with_a_task_that_is_in_already_releases(fixture: Fixture) {
    fixture.put(with(task("a"), "old", OnDuplicate::Keep)).await;
    let [first, second, third, _] = line_up(&fixture).await;
    let enqueued = enqueued_by(
        release_with(&fixture, fixture.op(), first, with(task("a"), "new", OnDuplicate::Keep)).await,
    );
    assert!(matches!(enqueued, Enqueued::Kept { .. }), "{enqueued:?}");
    let enqueued = enqueued_by(
        release_with(&fixture, fixture.op(), second, with(task("a"), "new", OnDuplicate::Replace)).await,
    );
    assert!(matches!(enqueued, Enqueued::Replaced { .. }), "{enqueued:?}");
    assert_eq!(holder(&fixture).await, Some(third));
    assert_eq!(text(&fixture.claim_one().await), "new");
    let unique = |id| NewTask { unique_for: Some(s(60)), ..task(id) };
    enqueued_by(release_with(&fixture, fixture.op(), third, unique("u")).await);
    fixture.store.pop(fixture.op(), &queue_name("q"), 1).await.unwrap();
    let token = fixture.token();
    fixture.store.release_all(third.client()).await.unwrap();
    granted(fixture.try_lock(token).await);
    let enqueued = enqueued_by(release_with(&fixture, fixture.op(), token, unique("u")).await);
    assert!(matches!(enqueued, Enqueued::Recent { .. }), "{enqueued:?}");
}

pub(super) async fn a_release_with_a_task_sent_twice_is_answered_twice_and_done_once(fixture: Fixture) {
    let token = fixture.token();
    granted(fixture.try_lock(token).await);
    let op = fixture.op();
    let first = release_with(&fixture, op, token, task("a")).await;
    assert_eq!(text(&fixture.claim_one().await), "a");
    granted(fixture.try_lock(fixture.token()).await);
    assert_eq!(release_with(&fixture, op, token, task("a")).await, first);
    assert!(fixture.claim(1).await.tasks.is_empty());
    // This is another call: the token no longer holds the lock.
    assert_eq!(release_with(&fixture, fixture.op(), token, task("b")).await, ReleasedWith::NotHeld);
}

pub(super) async fn a_release_with_a_task_sent_again_through_another_client_is_answered_as_the_first(
    fixture: Fixture,
) {
    let token = fixture.token();
    granted(fixture.try_lock(token).await);
    let release = |id| ReleaseWith { name: lock_name(L), token, queue: queue_name("q"), task: task(id) };
    let op = release("a").op();
    assert_ne!(release("b").op(), op);
    // A refusal is not remembered: the holder tries again under the same `op`.
    fixture.put(task("z")).await;
    let limits = QueueLimits { bound: Some(1), ..QueueLimits::default() };
    fixture.store.limit(&queue_name("q"), limits).await.unwrap();
    let refused = fixture.store.release_with(op, release("a")).await.unwrap();
    assert_eq!(refused, ReleasedWith::NotTaken(Enqueued::Full { bound: 1 }));
    complete(&fixture, fixture.claim_one().await).await;
    let first = fixture.store.release_with(op, release("a")).await.unwrap();
    assert!(matches!(first, ReleasedWith::Released(Enqueued::Added { .. })), "{first:?}");
    complete(&fixture, fixture.claim_one().await).await;
    let other = fixture.token();
    granted(fixture.try_lock(other).await);
    for store in [fixture.peer(), fixture.store.clone()] {
        assert_eq!(store.release_with(op, release("a")).await.unwrap(), first, "its answer was lost");
        let another = store.release_with(release("b").op(), release("b")).await.unwrap();
        assert_eq!(another, ReleasedWith::NotHeld, "this is another call");
    }
    assert_eq!(holder(&fixture).await, Some(other));
    assert!(fixture.claim(1).await.tasks.is_empty());
    // The same acquisition again, as over HTTP under the same key, is released again.
    assert_eq!(fixture.store.release(&lock_name(L), other).await.unwrap(), Released::Released);
    granted(fixture.try_lock(token).await);
    assert!(matches!(fixture.store.release_with(op, release("a")).await.unwrap(), ReleasedWith::Released(_)));
    assert_eq!(holder(&fixture).await, None);
}

pub(super) async fn a_release_with_a_task_without_time_left_changes_nothing(fixture: Fixture) {
    let token = fixture.token();
    granted(fixture.try_lock(token).await);
    let past = NewTask { deadline: Some(Due::At(rushgate_core::Timestamp::from_micros(1))), ..task("a") };
    let release = ReleaseWith { name: lock_name(L), token, queue: queue_name("q"), task: past };
    let refused = fixture.store.release_with(fixture.op(), release).await.unwrap_err();
    assert!(refused.is_invalid(), "{refused}");
    assert_eq!(holder(&fixture).await, Some(token));
    assert!(fixture.is_gone("a").await);
}

pub(super) async fn an_expired_holder_releases_nothing_and_the_line_is_served(fixture: Fixture) {
    let [first, a, ..] = line_up(&fixture).await;
    fixture.advance(s(11)).await;
    assert_eq!(release(&fixture, first).await, Released::NotHeld);
    assert_eq!(holder(&fixture).await, Some(a));
}

pub(super) async fn a_late_release_leaves_the_next_holder_alone(fixture: Fixture) {
    let (late, next) = (fixture.token(), fixture.token());
    granted(fixture.try_lock(late).await);
    fixture.advance(s(11)).await;
    granted(fixture.try_lock(next).await);
    assert_eq!(release(&fixture, late).await, Released::NotHeld);
    assert_eq!(holder(&fixture).await, Some(next));
}

pub(super) async fn an_extension_restarts_the_lease_with_the_same_fence(fixture: Fixture) {
    let token = fixture.token();
    let first = granted(fixture.try_lock(token).await);
    fixture.advance(s(8)).await;
    let Extended::Extended(grant) = extend(&fixture, token, s(20)).await else { panic!("it holds the lock") };
    assert_eq!(grant.fence, first.fence);
    near(grant.lease_left, s(20));
    fixture.advance(s(15)).await;
    assert_eq!(holder(&fixture).await, Some(token));
}

pub(super) async fn a_lapsed_lease_is_not_extended(fixture: Fixture) {
    let token = fixture.token();
    granted(fixture.try_lock(token).await);
    fixture.advance(s(11)).await;
    assert_eq!(extend(&fixture, token, s(10)).await, Extended::NotHeld);
    assert_eq!(holder(&fixture).await, None);
}

pub(super) async fn a_foreign_token_extends_nothing(fixture: Fixture) {
    let [_, a, ..] = line_up(&fixture).await;
    assert_eq!(extend(&fixture, a, s(100)).await, Extended::NotHeld);
    assert_eq!(extend(&fixture, fixture.token(), s(100)).await, Extended::NotHeld);
    fixture.advance(s(11)).await;
    assert_eq!(holder(&fixture).await, None);
}

pub(super) async fn extensions_have_an_answer_per_lock_in_order(fixture: Fixture) {
    let (a, b) = (fixture.token(), fixture.token());
    granted(fixture.try_lock(a).await);
    let other = Acquire { name: lock_name("m"), ..fixture.ask(b, Duration::ZERO) };
    granted(fixture.store.acquire(other).await.unwrap());
    let batch = vec![
        extend_by(b, s(5)),
        extend_by(a, s(5)),
        Extend { name: lock_name("m"), token: b, lease: lease(s(5)) },
        Extend { name: lock_name("never-used"), token: b, lease: lease(s(5)) },
    ];
    let answers = fixture.store.extend(batch).await.unwrap();
    let held: Vec<bool> = answers.iter().map(|answer| *answer != Extended::NotHeld).collect();
    assert_eq!(held, [false, true, true, false]);
}

pub(super) async fn every_grant_has_a_greater_fence(fixture: Fixture) {
    let mut last = 0;
    let mut grows = |fence: u64| {
        assert!(fence > last, "{fence} after {last}");
        last = fence;
    };
    let [first, a, b, c] = line_up(&fixture).await;
    grows(granted(fixture.try_lock(first).await).fence.as_u64());
    release(&fixture, first).await;
    grows(granted(fixture.wait_lock(a).await).fence.as_u64());
    fixture.advance(s(11)).await;
    grows(granted(fixture.wait_lock(b).await).fence.as_u64());
    fixture.store.force_release(&lock_name(L)).await.unwrap();
    grows(granted(fixture.wait_lock(c).await).fence.as_u64());
    release(&fixture, c).await;
    for _ in 0..20 {
        let token = fixture.token();
        grows(granted(fixture.try_lock(token).await).fence.as_u64());
        release(&fixture, token).await;
    }
    granted(fixture.try_lock(fixture.token()).await);
    fixture.advance(s(11)).await;
    let held = fixture.token();
    let fence = granted(fixture.try_lock(held).await).fence;
    assert!(fence.as_u64() > last);
    assert_eq!(fixture.store.held(&lock_name(L), held).await.unwrap().unwrap().fence, fence);
}

pub(super) async fn an_expired_lock_has_a_new_fence_even_at_the_same_moment(fixture: Fixture) {
    // A fencing token from the clock alone repeats when the clock does not move between two grants.
    let mut fences = Vec::new();
    for _ in 0..50 {
        let token = fixture.token();
        fences.push(granted(fixture.try_lock(token).await).fence);
        release(&fixture, token).await;
    }
    assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
}

pub(super) async fn an_expired_lock_goes_to_the_first_waiter_and_not_to_the_caller(fixture: Fixture) {
    let [_, a, b, _] = line_up(&fixture).await;
    fixture.advance(s(11)).await;
    let stranger = fixture.token();
    assert!(matches!(fixture.try_lock(stranger).await, Acquired::Busy(_)));
    assert_eq!(holder(&fixture).await, Some(a));
    assert_eq!(position(&fixture.wait_lock(b).await), 1);
    assert_eq!(position(&fixture.wait_lock(stranger).await), 3);
}

pub(super) async fn a_first_waiter_that_asks_after_the_expiry_gets_its_full_lease(fixture: Fixture) {
    let [_, a, ..] = line_up(&fixture).await;
    fixture.advance(s(11)).await;
    near(granted(fixture.wait_lock(a).await).lease_left, s(10));
}

pub(super) async fn a_hand_over_gives_no_more_than_the_claim_window(fixture: Fixture) {
    let [first, a, ..] = line_up(&fixture).await;
    release(&fixture, first).await;
    let grant = fixture.store.held(&lock_name(L), a).await.unwrap().expect("it was handed the lock");
    near(grant.lease_left, Acquire::CLAIM_WINDOW);
    near(granted(fixture.wait_lock(a).await).lease_left, s(10));
}

pub(super) async fn a_waiter_that_does_not_confirm_costs_one_claim_window(fixture: Fixture) {
    let [first, _, b, c] = line_up(&fixture).await;
    release(&fixture, first).await;
    fixture.advance(Acquire::CLAIM_WINDOW + ms(200)).await;
    granted(fixture.wait_lock(b).await);
    assert_eq!(release(&fixture, b).await, Released::Released);
    assert_eq!(holder(&fixture).await, Some(c), "the silent waiter is skipped");
}

pub(super) async fn a_lapsed_waiter_keeps_its_place_and_is_served_when_it_asks_again(fixture: Fixture) {
    let [first, a, b, c] = line_up(&fixture).await;
    release(&fixture, first).await;
    fixture.advance(Acquire::CLAIM_WINDOW + ms(200)).await;
    granted(fixture.wait_lock(b).await);
    assert_eq!(position(&fixture.wait_lock(a).await), 1);
    release(&fixture, b).await;
    assert_eq!(holder(&fixture).await, Some(a));
    assert_eq!(line_of(&fixture).await, [c]);
}

pub(super) async fn a_waiter_is_overtaken_only_while_it_is_silent_after_its_claim_window(fixture: Fixture) {
    let [first, a, b, c] = line_up(&fixture).await;
    let d = fixture.token();
    assert_eq!(position(&fixture.wait_lock(d).await), 4);
    // Within the window no waiter gets ahead, even one that asks.
    release(&fixture, first).await;
    assert_eq!(position(&fixture.wait_lock(b).await), 1);
    assert_eq!(holder(&fixture).await, Some(a));
    // After it, the waiters behind are served in order as long as it is silent.
    fixture.advance(Acquire::CLAIM_WINDOW + ms(200)).await;
    granted(fixture.wait_lock(b).await);
    release(&fixture, b).await;
    granted(fixture.wait_lock(c).await);
    // Once it asks, it is ahead of all waiters that joined later.
    assert_eq!(position(&fixture.wait_lock(a).await), 1);
    assert_eq!(position(&fixture.wait_lock(d).await), 2);
    release(&fixture, c).await;
    assert_eq!(holder(&fixture).await, Some(a));
    granted(fixture.wait_lock(a).await);
    release(&fixture, a).await;
    assert_eq!(holder(&fixture).await, Some(d));
}

pub(super) async fn a_first_waiter_that_asks_as_its_claim_window_ends_is_not_overtaken(fixture: Fixture) {
    let [first, a, b, _] = line_up(&fixture).await;
    release(&fixture, first).await;
    fixture.advance(Acquire::CLAIM_WINDOW + ms(200)).await;
    // Its window is over, but no other waiter has asked, so it has lost nothing.
    near(granted(fixture.wait_lock(a).await).lease_left, s(10));
    release(&fixture, a).await;
    assert_eq!(holder(&fixture).await, Some(b));
}

pub(super) async fn nobody_stands_behind_a_lapsed_waiter_but_it_is_shown(fixture: Fixture) {
    let [first, a, b, c] = line_up(&fixture).await;
    release(&fixture, first).await;
    fixture.advance(Acquire::CLAIM_WINDOW + ms(200)).await;
    let listed = fixture.store.list(Page::default()).await.unwrap();
    assert_eq!(listed[0].waiters.len(), 3, "its grant has lapsed, its wait has not");
    granted(fixture.wait_lock(b).await);
    assert_eq!(position(&fixture.wait_lock(c).await), 1);
    let Acquired::Busy(busy) = fixture.try_lock(fixture.token()).await else { panic!("the lock is held") };
    assert_eq!(busy.waiters, 1);
    assert_eq!(line_of(&fixture).await, [a, c]);
}

pub(super) async fn a_lapsed_waiter_alone_in_the_queue_is_still_listed(fixture: Fixture) {
    let (held, waits) = (fixture.token(), fixture.token());
    granted(fixture.try_lock(held).await);
    fixture.wait_lock(waits).await;
    release(&fixture, held).await;
    fixture.advance(Acquire::CLAIM_WINDOW + ms(200)).await;
    let listed = fixture.store.list(Page::default()).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].holders.len(), listed[0].waiters[0].token), (0, waits));
}

pub(super) async fn a_waiter_whose_wait_is_over_leaves_nothing(fixture: Fixture) {
    let (held, waits) = (fixture.token(), fixture.token());
    granted(fixture.try_lock(held).await);
    fixture.store.acquire(fixture.ask(waits, s(2))).await.unwrap();
    fixture.advance(s(3)).await;
    assert_eq!(fixture.store.leave(&lock_name(L), waits).await.unwrap(), Left::Nothing);
}

pub(super) async fn a_confirmation_by_extension_ends_the_claim_window(fixture: Fixture) {
    let [first, a, ..] = line_up(&fixture).await;
    release(&fixture, first).await;
    assert!(matches!(extend(&fixture, a, s(10)).await, Extended::Extended(_)));
    fixture.advance(Acquire::CLAIM_WINDOW + s(1)).await;
    assert_eq!(holder(&fixture).await, Some(a));
}

pub(super) async fn a_waiter_whose_wait_is_over_is_passed_over(fixture: Fixture) {
    let tokens = [(); 3].map(|()| fixture.token());
    granted(fixture.try_lock(tokens[0]).await);
    fixture.store.acquire(fixture.ask(tokens[1], s(2))).await.unwrap();
    fixture.wait_lock(tokens[2]).await;
    fixture.advance(s(3)).await;
    assert_eq!(line_of(&fixture).await, [tokens[2]]);
    assert_eq!(position(&fixture.wait_lock(tokens[2]).await), 1);
    release(&fixture, tokens[0]).await;
    assert_eq!(holder(&fixture).await, Some(tokens[2]));
}

pub(super) async fn asking_again_does_not_prolong_the_wait(fixture: Fixture) {
    let (held, waits) = (fixture.token(), fixture.token());
    granted(fixture.try_lock(held).await);
    fixture.store.acquire(fixture.ask(waits, s(4))).await.unwrap();
    fixture.advance(s(3)).await;
    fixture.store.acquire(fixture.ask(waits, s(4))).await.unwrap();
    fixture.advance(s(2)).await;
    assert_eq!(line_of(&fixture).await, []);
}

pub(super) async fn nobody_overtakes_the_line_unless_barging(fixture: Fixture) {
    let [_, a, ..] = line_up(&fixture).await;
    fixture.advance(s(11)).await;
    let polite = fixture.token();
    assert!(matches!(fixture.try_lock(polite).await, Acquired::Busy(_)));
    release(&fixture, a).await;
    fixture.advance(s(11)).await;
    let rude = fixture.token();
    let barging = Acquire { barging: true, ..fixture.ask(rude, Duration::ZERO) };
    granted(fixture.store.acquire(barging).await.unwrap());
    assert_eq!(holder(&fixture).await, Some(rude));
}

pub(super) async fn barging_does_not_take_a_held_lock(fixture: Fixture) {
    let [first, ..] = line_up(&fixture).await;
    let barging = Acquire { barging: true, ..fixture.ask(fixture.token(), Duration::ZERO) };
    assert!(matches!(fixture.store.acquire(barging).await.unwrap(), Acquired::Busy(_)));
    assert_eq!(holder(&fixture).await, Some(first));
}

pub(super) async fn leaving_removes_the_waiter(fixture: Fixture) {
    let [first, a, b, c] = line_up(&fixture).await;
    assert_eq!(fixture.store.leave(&lock_name(L), a).await.unwrap(), Left::Line);
    assert_eq!(line_of(&fixture).await, [b, c]);
    assert_eq!(fixture.store.leave(&lock_name(L), a).await.unwrap(), Left::Nothing);
    release(&fixture, first).await;
    assert_eq!(holder(&fixture).await, Some(b));
}

pub(super) async fn leaving_after_the_grant_releases_the_lock(fixture: Fixture) {
    let [first, a, b, _] = line_up(&fixture).await;
    release(&fixture, first).await;
    assert_eq!(fixture.store.leave(&lock_name(L), a).await.unwrap(), Left::Lock);
    assert_eq!(holder(&fixture).await, Some(b));
}

pub(super) async fn a_stranger_leaves_nothing(fixture: Fixture) {
    let [first, ..] = line_up(&fixture).await;
    assert_eq!(fixture.store.leave(&lock_name(L), fixture.token()).await.unwrap(), Left::Nothing);
    assert_eq!(fixture.store.leave(&lock_name("m"), fixture.token()).await.unwrap(), Left::Nothing);
    assert_eq!(holder(&fixture).await, Some(first));
}

pub(super) async fn release_all_releases_what_one_client_holds_and_nothing_else(fixture: Fixture) {
    let (mine, other) = (fixture.token_of(1), fixture.token_of(2));
    for name in ["a", "b", "c"] {
        let token = if name == "c" { other } else { fixture.token_of(1) };
        let ask = Acquire { name: lock_name(name), ..fixture.ask(token, Duration::ZERO) };
        granted(fixture.store.acquire(ask).await.unwrap());
    }
    let waits = |token, name| Acquire { name: lock_name(name), ..fixture.ask(token, s(60)) };
    fixture.store.acquire(waits(other, "a")).await.unwrap();
    fixture.store.acquire(waits(mine, "c")).await.unwrap();
    assert_eq!(fixture.store.release_all(mine.client()).await.unwrap(), 2);
    let a = fixture.store.show(&lock_name("a")).await.unwrap();
    assert_eq!(a.holders[0].token, other, "the next waiter was granted the lock");
    let c = fixture.store.show(&lock_name("c")).await.unwrap();
    assert_eq!((c.holders[0].token, c.waiters.len()), (other, 0));
    assert_eq!(fixture.store.release_all(mine.client()).await.unwrap(), 0);
}

pub(super) async fn release_all_does_not_count_what_has_expired(fixture: Fixture) {
    let token = fixture.token();
    granted(fixture.try_lock(token).await);
    fixture.advance(s(11)).await;
    assert_eq!(fixture.store.release_all(token.client()).await.unwrap(), 0);
}

pub(super) async fn a_forced_release_names_the_loser_and_hands_on(fixture: Fixture) {
    let [first, a, ..] = line_up(&fixture).await;
    let lost = fixture.store.force_release(&lock_name(L)).await.unwrap().expect("the lock had a holder");
    assert_eq!((lost.token, lost.owner.label.as_str()), (first, "test"));
    assert_eq!(holder(&fixture).await, Some(a));
    assert_eq!(extend(&fixture, first, s(10)).await, Extended::NotHeld);
    assert_eq!(release(&fixture, first).await, Released::NotHeld);
}

pub(super) async fn a_forced_release_of_a_free_lock_is_nothing(fixture: Fixture) {
    assert_eq!(fixture.store.force_release(&lock_name(L)).await.unwrap(), None);
    granted(fixture.try_lock(fixture.token()).await);
    fixture.advance(s(11)).await;
    assert_eq!(fixture.store.force_release(&lock_name(L)).await.unwrap(), None);
}

pub(super) async fn held_answers_for_this_token_only(fixture: Fixture) {
    let [first, a, ..] = line_up(&fixture).await;
    let held = |token| fixture.store.held(&lock_name(L), token);
    assert!(held(first).await.unwrap().is_some());
    assert!(held(a).await.unwrap().is_none());
    fixture.advance(s(11)).await;
    assert!(fixture.store.held(&lock_name(L), first).await.unwrap().is_none());
}

pub(super) async fn show_tells_who_holds_and_who_waits(fixture: Fixture) {
    let [first, a, b, c] = line_up(&fixture).await;
    let state = fixture.store.show(&lock_name(L)).await.unwrap();
    assert_eq!(state.name, lock_name(L));
    let holder = &state.holders[0];
    assert_eq!((holder.token, holder.owner.host.as_str(), holder.owner.pid), (first, "h", 1));
    near(holder.lease_until.since(holder.since), s(10));
    let waiters: Vec<Token> = state.waiters.iter().map(|waiter| waiter.token).collect();
    assert_eq!(waiters, [a, b, c]);
    near(state.waiters[0].wait_until.since(state.waiters[0].since), s(60));
}

pub(super) async fn list_has_the_used_locks_by_name_in_pages(fixture: Fixture) {
    for name in ["b", "a", "c", "released"] {
        let token = fixture.token();
        let ask = Acquire { name: lock_name(name), ..fixture.ask(token, Duration::ZERO) };
        granted(fixture.store.acquire(ask).await.unwrap());
        if name == "released" {
            fixture.store.release(&lock_name(name), token).await.unwrap();
        }
    }
    let names = |page: Page| async {
        let states = fixture.store.list(page).await.unwrap();
        states.into_iter().map(|state| String::from(state.name)).collect::<Vec<_>>()
    };
    assert_eq!(names(Page::default()).await, ["a", "b", "c"]);
    assert_eq!(names(Page::first(2)).await, ["a", "b"]);
    assert_eq!(names(Page::after("b".into(), 2)).await, ["c"]);
    fixture.advance(s(11)).await;
    assert!(names(Page::default()).await.is_empty());
}

pub(super) async fn locks_do_not_disturb_each_other(fixture: Fixture) {
    let [first, ..] = line_up(&fixture).await;
    let token = fixture.token();
    let other = Acquire { name: lock_name("m"), ..fixture.ask(token, Duration::ZERO) };
    granted(fixture.store.acquire(other).await.unwrap());
    fixture.store.release(&lock_name("m"), token).await.unwrap();
    assert_eq!(holder(&fixture).await, Some(first));
}

pub(super) async fn a_listening_waiter_is_notified_of_its_grant(fixture: Fixture) {
    let [first, a, ..] = line_up(&fixture).await;
    let heard = fixture.store.notification(a);
    let (notification, _) = tokio::join!(soon(heard), release(&fixture, first));
    let told = match notification.unwrap() {
        Notification::Granted(grant) => Some((grant, s(10))),
        Notification::Handed(grant) => Some((grant, Acquire::CLAIM_WINDOW)),
        Notification::Ask => None,
        Notification::Revoked => panic!("no lock was force-released"),
    };
    let confirmed = granted(fixture.wait_lock(a).await);
    near(confirmed.lease_left, s(10));
    if let Some((grant, left)) = told {
        near(grant.lease_left, left);
        assert_eq!(grant.fence, confirmed.fence);
    }
}

pub(super) async fn a_holder_that_loses_by_force_is_notified(fixture: Fixture) {
    let [first, ..] = line_up(&fixture).await;
    let heard = fixture.store.notification(first);
    let name = lock_name(L);
    let (notification, lost) = tokio::join!(soon(heard), fixture.store.force_release(&name));
    assert_eq!((notification.unwrap(), lost.unwrap().unwrap().token), (Notification::Revoked, first));
}

pub(super) async fn a_listener_that_leaves_takes_no_other_of_its_token_along(fixture: Fixture) {
    let [first, ..] = line_up(&fixture).await;
    let left = fixture.store.notification(first);
    let heard = fixture.store.notification(first);
    drop(left);
    let name = lock_name(L);
    let (notification, lost) = tokio::join!(soon(heard), fixture.store.force_release(&name));
    assert_eq!((notification.unwrap(), lost.unwrap().unwrap().token), (Notification::Revoked, first));
}

pub(super) async fn a_waiter_is_found_through_another_client(fixture: Fixture) {
    let [first, a, ..] = line_up(&fixture).await;
    let peer = fixture.peer();
    assert_eq!(peer.release(&lock_name(L), first).await.unwrap(), Released::Released);
    granted(fixture.wait_lock(a).await);
}

pub(super) async fn a_step_is_sent_at_the_call_and_not_undone_by_dropping_the_future(fixture: Fixture) {
    let dropped = fixture.token();
    drop(fixture.store.acquire(fixture.ask(dropped, Duration::ZERO)));
    assert!(matches!(fixture.try_lock(fixture.token()).await, Acquired::Busy(_)));
    assert_eq!(holder(&fixture).await, Some(dropped));
}

pub(super) async fn a_step_comes_behind_those_on_its_lock_that_were_sent_before(fixture: Fixture) {
    let mut holder = fixture.token();
    granted(fixture.try_lock(holder).await);
    for _ in 0..20 {
        let others = (0..20).map(|n| {
            let name = lock_name(&format!("other-{n}"));
            fixture.store.acquire(Acquire { name, ..fixture.ask(fixture.token(), Duration::ZERO) })
        });
        let others: Vec<_> = others.collect();
        let released = fixture.store.release(&lock_name(L), holder);
        holder = fixture.token();
        let acquired = fixture.store.acquire(fixture.ask(holder, Duration::ZERO));
        assert_eq!(released.await.unwrap(), Released::Released);
        granted(acquired.await.unwrap());
        for other in others {
            other.await.unwrap();
        }
    }
}

pub(super) async fn questions_outside_the_limits_are_refused(fixture: Fixture) {
    refused(Lease::new(Duration::ZERO));
    refused(Lease::new(s(86_401)));
    refused(fixture.store.acquire(fixture.ask(fixture.token(), s(86_401))).await);
    for label in ["x".repeat(201), "a\nb".to_owned()] {
        let mut ask = fixture.ask(fixture.token(), s(1));
        ask.owner.label = label;
        refused(fixture.store.acquire(ask).await);
    }
    refused(fixture.store.extend(Vec::new()).await);
    refused(fixture.store.extend(vec![extend_by(fixture.token(), s(1)); 1_001]).await);
    refused(fixture.store.list(Page::first(0)).await);
    refused(fixture.store.list(Page::first(10_001)).await);
    assert_eq!(holder(&fixture).await, None);
}

/// The protected resource: it refuses writes with a smaller fencing token, and counts the others without a lock of
/// its own.
#[derive(Default)]
struct Register {
    fence: std::sync::atomic::AtomicU64,
    inside: std::sync::atomic::AtomicU64,
    writes: std::sync::atomic::AtomicU64,
}

impl Register {
    async fn write(&self, fence: u64) {
        use std::sync::atomic::Ordering::SeqCst;
        assert_eq!(self.inside.fetch_add(1, SeqCst), 0, "two hold the lock");
        assert!(self.fence.swap(fence, SeqCst) < fence, "the fencing token decreased");
        tokio::task::yield_now().await;
        self.writes.fetch_add(1, SeqCst);
        self.inside.fetch_sub(1, SeqCst);
    }
}

async fn hold_once(fixture: Fixture, store: std::sync::Arc<dyn Store>, register: std::sync::Arc<Register>) {
    let token = fixture.token();
    let fence = loop {
        let heard = store.notification(token);
        match store.acquire(fixture.ask(token, s(60))).await.unwrap() {
            Acquired::Granted(grant) => break grant.fence,
            // A notification is a hint: a client that misses it asks again.
            _ => drop(tokio::time::timeout(ms(500), heard).await),
        }
    };
    register.write(fence.as_u64()).await;
    assert_eq!(store.release(&lock_name(L), token).await.unwrap(), Released::Released);
}

pub(super) async fn sixty_four_tasks_never_hold_it_together(fixture: Fixture) {
    let register = std::sync::Arc::new(Register::default());
    let stores = [fixture.store.clone(), fixture.peer()];
    let tasks: Vec<_> = (0..64)
        .map(|n| tokio::spawn(hold_once(fixture.clone(), stores[n % 2].clone(), register.clone())))
        .collect();
    for task in tasks {
        task.await.expect("no two holders overlapped");
    }
    assert_eq!(register.writes.load(std::sync::atomic::Ordering::SeqCst), 64);
}
