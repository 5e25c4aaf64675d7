//! Contract of queues.

mod ending;

use std::collections::BTreeSet;
use std::time::Duration;

use rushgate_core::{
    Cancelled, Claim, ClientId, Completed, ContentType, Dequeued, Due, Enqueued, Listing, NewTask,
    OnDuplicate, Op, Page, Payload, Priority, QueueLimits, QueueName, Rescheduled, Retried, Retry, Selection,
    Store, Task, TaskExtended, TaskKey, TaskRelease, TaskReleased, TaskState, Ticket, Timestamp, Verbs,
};

use crate::fixture::*;
pub(super) use ending::*;

fn q() -> QueueName {
    queue_name("q")
}

fn prio(mut task: NewTask, level: u8) -> NewTask {
    task.priority = Priority::new(level).expect("a test's priority is valid");
    task
}

fn attempts(mut task: NewTask, max: u32) -> NewTask {
    task.max_attempts = max;
    task
}

fn failed(task: &Task, delay: Duration) -> Retry {
    Retry { ticket: task.ticket.clone(), delay, error: "boom".into(), give_up: false }
}

async fn complete(fixture: &Fixture, task: &Task) -> Completed {
    fixture.store.complete(fixture.op(), &q(), vec![task.ticket.clone().into()]).await.unwrap()[0]
}

async fn retry(fixture: &Fixture, how: Retry) -> Retried {
    fixture.store.retry(fixture.op(), &q(), vec![how]).await.unwrap()[0]
}

async fn release(fixture: &Fixture, task: &Task) -> TaskReleased {
    fixture.store.release_tasks(fixture.op(), &q(), vec![task.ticket.clone().into()]).await.unwrap()[0]
}

async fn extend(fixture: &Fixture, task: &Task, by: Duration) -> TaskExtended {
    fixture.store.extend_tasks(&q(), vec![task.ticket.clone().into()], lease(by)).await.unwrap()[0]
}

async fn dequeue(fixture: &Fixture, ticket: &Ticket) -> Dequeued {
    fixture.store.dequeue(fixture.op(), &q(), ticket.clone()).await.unwrap()
}

async fn cancel(fixture: &Fixture, id: &str) -> Cancelled {
    fixture.store.cancel(fixture.op(), &q(), &task_id(id)).await.unwrap()
}

async fn top(fixture: &Fixture) -> Vec<String> {
    texts(&fixture.store.top(&q(), 1_000).await.unwrap())
}

async fn pop(fixture: &Fixture, n: u32) -> Vec<String> {
    texts(&fixture.store.pop(fixture.op(), &q(), n).await.unwrap())
}

async fn lengths(fixture: &Fixture) -> (u64, u64, u64, u64) {
    let stats = fixture.store.stats(&q()).await.unwrap();
    (stats.ready, stats.scheduled, stats.leased, stats.dead)
}

async fn kill(fixture: &Fixture, id: &str) {
    fixture.put(task(id)).await;
    let task = fixture.claim_one().await;
    let how = Retry { give_up: true, ..failed(&task, Duration::ZERO) };
    assert_eq!(retry(fixture, how).await, Retried::Dead);
}

async fn dead(fixture: &Fixture) -> Vec<String> {
    let letters = fixture.store.dead(&q(), Page::first(1_000)).await.unwrap();
    letters.into_iter().map(|letter| String::from(letter.id)).collect()
}

// ── enqueue ──────────────────────────────────────────────────────────────────────────────────────────────────────

pub(super) async fn a_task_comes_out_as_it_went_in(fixture: Fixture) {
    let json = Payload::new(ContentType::json(), br#"{"a":1}"#.to_vec()).unwrap();
    let new = NewTask { payload: json.clone(), ..attempts(prio(task("a"), 2), 7) };
    let Enqueued::Added { revision } = fixture.put(new).await else { panic!("it is new") };
    let task = fixture.claim_one().await;
    assert_eq!((&task.payload, task.priority.get(), task.attempt, task.max_attempts), (&json, 2, 1, 7));
    assert_eq!((task.ticket.id.as_str(), task.ticket.revision), ("a", revision));
    assert!(task.ticket.claim.is_some());
    assert_eq!(complete(&fixture, &task).await, Completed::Done);
    assert!(fixture.is_gone("a").await);
}

pub(super) async fn order_is_priority_then_due_time_then_arrival(fixture: Fixture) {
    let base = fixture.store.top(&q(), 1).await.map(|_| Timestamp::from_micros(1_000_000)).unwrap();
    let at = |id: &str, level, us| NewTask { due: Due::At(base + ms(us)), ..prio(task(id), level) };
    fixture.put_all(vec![at("late", 5, 9), at("second", 5, 3), at("third", 5, 3)]).await;
    fixture.put_all(vec![at("idle", 9, 0), at("urgent", 0, 50), at("early", 5, 1)]).await;
    let order = ["urgent", "early", "second", "third", "late", "idle"];
    assert_eq!(top(&fixture).await, order);
    assert_eq!(texts(&fixture.claim(3).await.tasks), order[..3]);
    assert_eq!(pop(&fixture, 10).await, order[3..]);
}

pub(super) async fn a_batch_has_an_answer_per_task_in_order(fixture: Fixture) {
    let answers = fixture.put_all(vec![task("a"), task("b"), task("a")]).await;
    assert!(matches!(answers[0], Enqueued::Added { .. }));
    assert!(matches!(answers[1], Enqueued::Added { .. }));
    assert_eq!(answers[2], Enqueued::Kept { revision: revision(&answers[0]) });
}

pub(super) async fn a_large_batch_is_worked_off_to_its_last_task(fixture: Fixture) {
    // The shortest possible names: a store must not confuse them with its own fields.
    let ids: Vec<_> = (0..100).map(|n| n.to_string()).collect();
    fixture.put_all(ids.iter().map(|id| task(id)).collect()).await;
    let tasks = fixture.claim(100).await.tasks;
    assert_eq!(texts(&tasks), ids);
    let tickets = tasks.into_iter().map(|task| task.ticket.into()).collect();
    let answers = fixture.store.complete(fixture.op(), &q(), tickets).await.unwrap();
    assert_eq!(answers, [Completed::Done; 100]);
    let stats = fixture.store.stats(&q()).await.unwrap();
    assert_eq!((stats.ready, stats.leased), (0, 0));
}

pub(super) async fn nothing_is_claimed_before_its_time(fixture: Fixture) {
    fixture.put(after(task("a"), s(30))).await;
    for passed in [0, 20, 9] {
        fixture.advance(s(passed)).await;
        assert!(top(&fixture).await.is_empty());
        assert!(pop(&fixture, 1).await.is_empty());
        let claimed = fixture.claim(1).await;
        assert!(claimed.tasks.is_empty());
        assert!(claimed.next_due.is_some_and(|wait| wait <= s(30)));
        assert_eq!(fixture.info("a").await.state, TaskState::Scheduled);
    }
    fixture.advance(s(2)).await;
    assert_eq!(fixture.info("a").await.state, TaskState::Ready);
    assert_eq!(texts(&fixture.claim(1).await.tasks), ["a"]);
}

pub(super) async fn keep_leaves_a_waiting_record_as_it_is(fixture: Fixture) {
    let first = revision(fixture.put(after(task("a"), s(30))).await);
    let answer = fixture.put(with(task("a"), "new", OnDuplicate::Keep)).await;
    assert_eq!(answer, Enqueued::Kept { revision: first });
    let info = fixture.info("a").await;
    assert_eq!((text(&info.task), info.state), ("a".into(), TaskState::Scheduled));
}

pub(super) async fn keep_leaves_a_leased_record_as_it_is(fixture: Fixture) {
    let first = revision(fixture.put(task("a")).await);
    let claimed = fixture.claim_one().await;
    let answer = fixture.put(with(task("a"), "new", OnDuplicate::Keep)).await;
    assert_eq!(answer, Enqueued::Kept { revision: first });
    assert_eq!(complete(&fixture, &claimed).await, Completed::Done);
    assert!(fixture.is_gone("a").await);
}

pub(super) async fn replace_takes_the_place_of_a_waiting_record(fixture: Fixture) {
    let first = revision(fixture.put(attempts(task("a"), 3)).await);
    retry_once(&fixture).await;
    let new = attempts(with(prio(after(task("a"), s(5)), 1), "new", OnDuplicate::Replace), 9);
    let Enqueued::Replaced { revision } = fixture.put(new).await else { panic!("it was there") };
    assert!(revision > first);
    let info = fixture.info("a").await;
    assert_eq!((text(&info.task), info.task.attempt, info.task.max_attempts), ("new".into(), 0, 9));
    assert_eq!((info.state, info.error, info.task.priority.get()), (TaskState::Scheduled, None, 1));
}

async fn retry_once(fixture: &Fixture) {
    let task = fixture.claim_one().await;
    let answer = retry(fixture, failed(&task, Duration::ZERO)).await;
    assert!(matches!(answer, Retried::Scheduled { .. }));
}

pub(super) async fn a_replacement_keeps_the_place_of_its_arrival(fixture: Fixture) {
    let at = |id: &str| NewTask { due: Due::At(Timestamp::from_micros(5)), ..task(id) };
    fixture.put_all(vec![at("a"), at("b")]).await;
    fixture.put(with(at("a"), "new a", OnDuplicate::Replace)).await;
    assert_eq!(top(&fixture).await, ["new a", "b"]);
}

pub(super) async fn a_change_during_the_work_is_never_lost(fixture: Fixture) {
    let first = revision(fixture.put(task("a")).await);
    let claimed = fixture.claim_one().await;
    let answer = fixture.put(with(task("a"), "new", OnDuplicate::Replace)).await;
    assert!(matches!(answer, Enqueued::Replaced { revision } if revision > first));
    let info = fixture.info("a").await;
    assert_eq!((info.state, info.replaced, text(&info.task)), (TaskState::Leased, true, "a".into()));
    assert_eq!(complete(&fixture, &claimed).await, Completed::Requeued);
    let again = fixture.claim_one().await;
    assert_eq!((text(&again), again.attempt), ("new".into(), 1));
    assert_eq!(complete(&fixture, &again).await, Completed::Done);
    assert!(fixture.is_gone("a").await);
}

pub(super) async fn the_last_of_several_changes_during_the_work_runs_once(fixture: Fixture) {
    fixture.put(task("a")).await;
    let claimed = fixture.claim_one().await;
    for change in ["one", "two", "three"] {
        fixture.put(with(task("a"), change, OnDuplicate::Replace)).await;
    }
    assert_eq!(complete(&fixture, &claimed).await, Completed::Requeued);
    assert_eq!(pop(&fixture, 10).await, ["three"]);
}

pub(super) async fn a_pending_replacement_runs_after_a_failure_a_release_and_an_expiry_too(fixture: Fixture) {
    for how in ["retry", "give up", "release", "expiry"] {
        fixture.put(task("a")).await;
        let claimed = fixture.claim_one().await;
        fixture.put(with(task("a"), how, OnDuplicate::Replace)).await;
        let requeued = match how {
            "retry" => retry(&fixture, failed(&claimed, s(50))).await == Retried::Requeued,
            "give up" => {
                let give_up = Retry { give_up: true, ..failed(&claimed, s(50)) };
                retry(&fixture, give_up).await == Retried::Requeued
            }
            "release" => release(&fixture, &claimed).await == TaskReleased::Waiting,
            _ => {
                fixture.advance(s(11)).await;
                complete(&fixture, &claimed).await == Completed::Stale
            }
        };
        assert!(requeued, "{how}");
        let info = fixture.info("a").await;
        assert_eq!((info.task.attempt, info.replaced), (0, false), "{how}");
        assert_eq!(pop(&fixture, 1).await, [how]);
    }
    assert!(dead(&fixture).await.is_empty());
}

pub(super) async fn earliest_moves_a_waiting_record_forward_only(fixture: Fixture) {
    let first = revision(fixture.put(after(task("a"), s(30))).await);
    let later = with(after(task("a"), s(60)), "new", OnDuplicate::Earliest);
    assert_eq!(fixture.put(later).await, Enqueued::Kept { revision: first });
    let sooner = with(after(task("a"), s(5)), "new", OnDuplicate::Earliest);
    assert!(matches!(fixture.put(sooner).await, Enqueued::Replaced { revision } if revision > first));
    fixture.advance(s(6)).await;
    assert_eq!(pop(&fixture, 1).await, ["a"], "the payload is unchanged");
}

pub(super) async fn earliest_runs_after_the_present_run(fixture: Fixture) {
    fixture.put(task("a")).await;
    let claimed = fixture.claim_one().await;
    for delay in [30, 5, 60] {
        fixture.put(with(after(task("a"), s(delay)), &format!("in {delay}"), OnDuplicate::Earliest)).await;
    }
    assert_eq!(complete(&fixture, &claimed).await, Completed::Requeued);
    assert!(pop(&fixture, 1).await.is_empty());
    fixture.advance(s(6)).await;
    assert_eq!(pop(&fixture, 1).await, ["in 30"]);
}

async fn reschedule(fixture: &Fixture, id: &str, due: Due) -> Rescheduled {
    fixture.store.reschedule(fixture.op(), &q(), &task_id(id), due).await.unwrap()
}

pub(super) async fn a_rescheduled_task_runs_at_its_new_time_and_is_otherwise_unchanged(fixture: Fixture) {
    fixture.put_all(vec![prio(after(attempts(task("a"), 7), s(60)), 3), task("b")]).await;
    let before = fixture.info("a").await;
    let Rescheduled::Rescheduled { due } = reschedule(&fixture, "a", Due::After(s(5))).await else {
        panic!("it waits");
    };
    let now = fixture.info("a").await;
    assert_eq!((now.task.ticket.due, now.state), (due, TaskState::Scheduled));
    assert!(now.task.ticket.revision > before.task.ticket.revision);
    assert_eq!((now.task.priority, now.task.max_attempts), (before.task.priority, 7));
    assert!(matches!(reschedule(&fixture, "b", Due::After(s(90))).await, Rescheduled::Rescheduled { .. }));
    assert!(pop(&fixture, 2).await.is_empty(), "both wait");
    fixture.advance(s(6)).await;
    assert_eq!(pop(&fixture, 2).await, ["a"]);
    assert!(matches!(reschedule(&fixture, "b", Due::Now).await, Rescheduled::Rescheduled { .. }));
    assert_eq!(pop(&fixture, 2).await, ["b"]);
    let at = Timestamp::from_micros(1);
    fixture.put_all(vec![task("c"), task("d")]).await;
    let answer = reschedule(&fixture, "d", Due::At(at)).await;
    assert_eq!(answer, Rescheduled::Rescheduled { due: at }, "a time in the past is kept");
    assert_eq!(pop(&fixture, 2).await, ["d", "c"]);
}

pub(super) async fn a_rescheduled_retry_keeps_its_attempts_and_errors(fixture: Fixture) {
    fixture.put(task("a")).await;
    let run = fixture.claim_one().await;
    retry(&fixture, failed(&run, s(3600))).await;
    assert!(matches!(reschedule(&fixture, "a", Due::Now).await, Rescheduled::Rescheduled { .. }));
    let info = fixture.info("a").await;
    assert_eq!((info.error.as_deref(), info.past.len()), (Some("boom"), 1));
    assert_eq!(fixture.claim_one().await.attempt, 2);
}

pub(super) async fn a_rescheduled_task_keeps_its_deadline(fixture: Fixture) {
    fixture.put(NewTask { deadline: Some(Due::After(s(60))), ..after(task("a"), s(10)) }).await;
    let deadline = fixture.info("a").await.task.deadline.expect("it has one");
    for due in [Due::At(deadline), Due::After(s(90))] {
        assert_eq!(reschedule(&fixture, "a", due).await, Rescheduled::TooLate { deadline });
    }
    assert!(matches!(reschedule(&fixture, "a", Due::After(s(30))).await, Rescheduled::Rescheduled { .. }));
    fixture.advance(s(61)).await;
    assert_eq!(dead(&fixture).await, ["a"]);
    assert_eq!(
        reschedule(&fixture, "a", Due::Now).await,
        Rescheduled::NotFound,
        "a dead letter does not wait"
    );
}

pub(super) async fn only_a_waiting_task_is_rescheduled_and_a_repeated_call_changes_nothing(fixture: Fixture) {
    assert_eq!(reschedule(&fixture, "a", Due::Now).await, Rescheduled::NotFound);
    assert!(fixture.store.queues(Page::default()).await.unwrap().is_empty(), "no queue was created");
    fixture.put(task("a")).await;
    let op = fixture.op();
    let asked = || fixture.store.reschedule(op, &q(), &task_id("a"), Due::After(s(5)));
    let first = asked().await.unwrap();
    fixture.advance(s(6)).await;
    let run = fixture.claim_one().await;
    assert_eq!(reschedule(&fixture, "a", Due::Now).await, Rescheduled::Leased);
    assert_eq!(asked().await.unwrap(), first);
    assert_eq!(complete(&fixture, &run).await, Completed::Done);
    refused(fixture.store.reschedule(fixture.op(), &q(), &task_id("a"), Due::After(s(401 * 86_400))).await);
}

pub(super) async fn a_rescheduled_task_moves_within_its_key_group(fixture: Fixture) {
    let keyed = |id: &str| NewTask { key: Some(TaskKey::new("k").expect("it is valid")), ..task(id) };
    fixture.put_all(vec![keyed("a"), keyed("b"), keyed("c")]).await;
    reschedule(&fixture, "a", Due::After(s(60))).await;
    let state = async |id: &str| fixture.info(id).await.state;
    assert_eq!((state("a").await, state("b").await), (TaskState::Blocked, TaskState::Ready));
    reschedule(&fixture, "c", Due::At(Timestamp::default())).await;
    assert_eq!((state("b").await, state("c").await), (TaskState::Blocked, TaskState::Ready));
    assert_eq!(texts(&fixture.claim(1).await.tasks), ["c"]);
}

pub(super) async fn debounce_puts_off_until_the_burst_is_over(fixture: Fixture) {
    let mode = OnDuplicate::Debounce { max_wait: s(10) };
    let burst = |n: u64| with(after(task("a"), s(4)), &n.to_string(), mode);
    for n in 0..4 {
        fixture.put(burst(n)).await;
        fixture.advance(s(3)).await;
        // The last one is due 10 s after the first, not 13 s.
        assert_eq!(top(&fixture).await.is_empty(), n < 3, "{n}");
    }
    assert_eq!(pop(&fixture, 1).await, ["3"]);
}

pub(super) async fn debounce_runs_after_the_present_run(fixture: Fixture) {
    fixture.put(task("a")).await;
    let claimed = fixture.claim_one().await;
    let mode = OnDuplicate::Debounce { max_wait: s(6) };
    fixture.put(with(after(task("a"), s(4)), "one", mode)).await;
    fixture.advance(s(3)).await;
    fixture.put(with(after(task("a"), s(9)), "two", mode)).await;
    assert_eq!(complete(&fixture, &claimed).await, Completed::Requeued);
    assert!(top(&fixture).await.is_empty());
    fixture.advance(s(4)).await;
    assert_eq!(pop(&fixture, 1).await, ["two"]);
}

pub(super) async fn revisions_grow_through_the_whole_queue(fixture: Fixture) {
    let mut last = None;
    for n in 0..5 {
        let text = n.to_string();
        let answers = [
            fixture.put(with(task("a"), &text, OnDuplicate::Replace)).await,
            fixture.put(task(&format!("b{n}"))).await,
        ];
        for answer in answers {
            assert!(Some(revision(&answer)) > last, "{answer:?} after {last:?}");
            last = Some(revision(answer));
        }
        fixture.store.pop(fixture.op(), &q(), 100).await.unwrap();
    }
}

pub(super) async fn a_full_queue_says_so_and_takes_nothing(fixture: Fixture) {
    fixture.store.limit(&q(), QueueLimits { bound: Some(2), ..QueueLimits::default() }).await.unwrap();
    let answers = fixture.put_all(vec![task("a"), task("b"), task("c")]).await;
    assert_eq!(answers[2], Enqueued::Full { bound: 2 });
    assert!(fixture.is_gone("c").await);
    let replaced = fixture.put(with(task("a"), "new", OnDuplicate::Replace)).await;
    assert!(matches!(replaced, Enqueued::Replaced { .. }), "what is in can still be replaced");
    let claimed = fixture.claim_one().await;
    assert_eq!(fixture.put(task("c")).await, Enqueued::Full { bound: 2 }, "leased ones count");
    complete(&fixture, &claimed).await;
    assert!(matches!(fixture.put(task("c")).await, Enqueued::Added { .. }));
    assert_eq!(fixture.store.stats(&q()).await.unwrap().limits.bound, Some(2));
}

pub(super) async fn a_task_that_dies_with_its_lease_makes_room_in_a_full_queue(fixture: Fixture) {
    fixture.store.limit(&q(), QueueLimits { bound: Some(1), ..QueueLimits::default() }).await.unwrap();
    for id in ["a", "b"] {
        assert!(matches!(fixture.put(attempts(task(id), 1)).await, Enqueued::Added { .. }), "{id}");
        fixture.claim_one().await;
        fixture.advance(s(10)).await;
    }
    let requeued =
        fixture.store.requeue_dead(fixture.op(), &q(), Selection::Ids(vec![task_id("a")])).await.unwrap();
    assert_eq!((requeued.requeued, requeued.kept), (1, 0));
}

pub(super) async fn a_bound_that_is_lowered_leaves_what_is_in(fixture: Fixture) {
    fixture.put_all(vec![task("a"), task("b")]).await;
    fixture.store.limit(&q(), QueueLimits { bound: Some(1), ..QueueLimits::default() }).await.unwrap();
    assert_eq!(top(&fixture).await, ["a", "b"]);
    assert_eq!(fixture.put(task("c")).await, Enqueued::Full { bound: 1 });
    fixture.store.limit(&q(), QueueLimits { bound: None, ..QueueLimits::default() }).await.unwrap();
    assert!(matches!(fixture.put(task("c")).await, Enqueued::Added { .. }));
}

// ── top, pop, claim ──────────────────────────────────────────────────────────────────────────────────────────────

pub(super) async fn top_looks_and_takes_nothing(fixture: Fixture) {
    fixture.put_all(vec![task("a"), task("b"), task("c")]).await;
    for _ in 0..2 {
        let seen = fixture.store.top(&q(), 2).await.unwrap();
        assert_eq!(texts(&seen), ["a", "b"]);
        assert!(seen.iter().all(|task| task.ticket.claim.is_none() && task.attempt == 0));
    }
    assert_eq!(lengths(&fixture).await, (3, 0, 0, 0));
}

pub(super) async fn pop_takes_for_good(fixture: Fixture) {
    fixture.put_all(vec![task("a"), task("b"), task("c")]).await;
    assert_eq!(pop(&fixture, 2).await, ["a", "b"]);
    assert!(fixture.is_gone("a").await);
    fixture.advance(s(100)).await;
    assert_eq!(pop(&fixture, 2).await, ["c"]);
}

pub(super) async fn a_claimed_task_is_nobody_elses(fixture: Fixture) {
    fixture.put_all(vec![task("a"), task("b")]).await;
    let first = fixture.claim_one().await;
    let second = fixture.claim_one().await;
    assert_eq!((text(&first), text(&second)), ("a".into(), "b".into()));
    assert!(second.ticket.claim > first.ticket.claim);
    assert!(fixture.claim(10).await.tasks.is_empty());
    assert!(top(&fixture).await.is_empty());
    let info = fixture.info("a").await;
    assert_eq!((info.state, info.worker.as_deref()), (TaskState::Leased, Some("w")));
    assert_eq!(info.task.ticket, first.ticket, "a leased task's ticket is the claim's");
}

pub(super) async fn claims_of_a_batch_have_growing_numbers(fixture: Fixture) {
    fixture.put_all((0..20).map(|n| task(&format!("t{n:02}"))).collect()).await;
    let mut last = None;
    for _ in 0..4 {
        for task in fixture.claim(5).await.tasks {
            assert!(task.ticket.claim > last);
            last = task.ticket.claim;
        }
    }
}

pub(super) async fn a_claim_says_when_more_may_be_due(fixture: Fixture) {
    assert_eq!(fixture.claim(1).await.next_due, None);
    fixture.put_all(vec![task("a"), task("b"), after(task("c"), s(5))]).await;
    assert_eq!(fixture.claim(1).await.next_due, Some(Duration::ZERO));
    near(fixture.claim(2).await.next_due.expect("a delay ends"), s(5));
    fixture.advance(s(6)).await;
    let claimed = fixture.claim(2).await;
    assert_eq!(texts(&claimed.tasks), ["c"]);
    near(claimed.next_due.expect("a lease ends"), s(4));
}

pub(super) async fn a_lease_that_ran_out_gives_the_task_back(fixture: Fixture) {
    fixture.put(task("a")).await;
    let first = fixture.claim_one().await;
    fixture.advance(s(11)).await;
    let info = fixture.info("a").await;
    assert_eq!((info.state, info.task.attempt, info.lease_until), (TaskState::Ready, 1, None));
    let second = fixture.claim_one().await;
    assert_eq!(second.attempt, 2);
    assert!(second.ticket.claim > first.ticket.claim);
}

pub(super) async fn a_lease_that_ran_out_is_seen_by_every_question(fixture: Fixture) {
    fixture.put(task("a")).await;
    fixture.claim_one().await;
    fixture.advance(s(11)).await;
    assert_eq!(lengths(&fixture).await, (1, 0, 0, 0));
    assert_eq!(top(&fixture).await, ["a"]);
    let ready = Listing::new(TaskState::Ready, Page::first(10));
    assert_eq!(fixture.store.tasks(&q(), ready).await.unwrap().tasks.len(), 1);
    assert_eq!(pop(&fixture, 1).await, ["a"]);
}

pub(super) async fn a_task_whose_last_attempt_ran_out_is_dead(fixture: Fixture) {
    fixture.put(attempts(task("a"), 2)).await;
    for _ in 0..2 {
        fixture.claim_one().await;
        fixture.advance(s(11)).await;
    }
    assert!(fixture.claim(1).await.tasks.is_empty());
    let letters = fixture.store.dead(&q(), Page::first(10)).await.unwrap();
    assert_eq!((letters[0].id.as_str(), letters[0].attempts), ("a", 2));
    assert_eq!(letters[0].error, "lease expired");
}

pub(super) async fn a_task_dies_when_its_last_lease_ends_and_not_at_the_next_read(fixture: Fixture) {
    fixture.put(attempts(task("a"), 1)).await;
    fixture.claim_one().await;
    let info = fixture.store.task(&q(), &task_id("a")).await.unwrap().expect("it is leased");
    fixture.advance(s(60)).await;
    let letters = fixture.store.dead(&q(), Page::first(10)).await.unwrap();
    assert_eq!(Some(letters[0].died_at), info.lease_until);
}

pub(super) async fn an_empty_queue_has_nothing_and_a_stranger_is_empty(fixture: Fixture) {
    assert!(top(&fixture).await.is_empty() && pop(&fixture, 1).await.is_empty());
    assert!(fixture.claim(1).await.tasks.is_empty());
    assert_eq!(lengths(&fixture).await, (0, 0, 0, 0));
    assert!(fixture.store.queues(Page::default()).await.unwrap().is_empty());
}

pub(super) async fn a_paused_queue_gives_nothing_out_and_takes_in(fixture: Fixture) {
    fixture.put(task("a")).await;
    fixture.store.pause(&q()).await.unwrap();
    fixture.put(task("b")).await;
    let claimed = fixture.claim(1).await;
    assert!(claimed.tasks.is_empty() && claimed.next_due.is_none());
    assert!(pop(&fixture, 1).await.is_empty());
    assert_eq!(top(&fixture).await, ["a", "b"]);
    assert!(fixture.store.stats(&q()).await.unwrap().paused);
    fixture.store.resume(&q()).await.unwrap();
    assert_eq!(pop(&fixture, 9).await, ["a", "b"]);
}

pub(super) async fn a_paused_queue_lets_the_present_work_end(fixture: Fixture) {
    fixture.put(task("a")).await;
    let claimed = fixture.claim_one().await;
    fixture.store.pause(&q()).await.unwrap();
    assert_eq!(extend(&fixture, &claimed, s(10)).await, TaskExtended::Extended);
    assert_eq!(complete(&fixture, &claimed).await, Completed::Done);
}

// ── listings ─────────────────────────────────────────────────────────────────────────────────────────────────────

pub(super) async fn stats_count_by_state_and_know_the_oldest(fixture: Fixture) {
    fixture.put_all(vec![task("a"), task("b"), after(task("c"), s(50))]).await;
    fixture.claim_one().await;
    fixture.advance(s(4)).await;
    assert_eq!(lengths(&fixture).await, (1, 1, 1, 0));
    let lag_ms = fixture.store.stats(&q()).await.unwrap().lag_ms;
    assert!((4_000..6_000).contains(&lag_ms), "{lag_ms}");
}

pub(super) async fn queues_are_listed_by_name(fixture: Fixture) {
    for name in ["zebra", "ant"] {
        fixture.store.enqueue(fixture.op(), &queue_name(name), vec![task("a")]).await.unwrap();
    }
    fixture.store.pause(&queue_name("paused")).await.unwrap();
    fixture
        .store
        .limit(&queue_name("limited"), QueueLimits { bound: Some(1), ..QueueLimits::default() })
        .await
        .unwrap();
    let names = async |page: Page| fixture.store.queues(page).await.unwrap();
    assert_eq!(names(Page::default()).await, ["ant", "limited", "paused", "zebra"].map(queue_name));
    assert_eq!(names(Page::first(2)).await, ["ant", "limited"].map(queue_name));
    assert_eq!(names(Page::after("limited".into(), 1)).await, ["paused"].map(queue_name));
    assert_eq!(names(Page::after("zebra".into(), 1)).await, []);
    let all = Page::first(1).read_all(|page| fixture.store.queues(page), QueueName::as_str).await.unwrap();
    assert_eq!(all.len(), 4);
}

pub(super) async fn queues_do_not_disturb_each_other(fixture: Fixture) {
    fixture.put(task("a")).await;
    let other = queue_name("other");
    fixture
        .store
        .enqueue(fixture.op(), &other, vec![with(task("a"), "other", OnDuplicate::Replace)])
        .await
        .unwrap();
    assert_eq!(pop(&fixture, 10).await, ["a"]);
    assert_eq!(texts(&fixture.store.pop(fixture.op(), &other, 10).await.unwrap()), ["other"]);
}

// ── repetition ───────────────────────────────────────────────────────────────────────────────────────────────────

pub(super) async fn an_enqueue_sent_twice_is_carried_out_once(fixture: Fixture) {
    let op = fixture.op();
    let tasks = vec![with(task("a"), "new", OnDuplicate::Replace)];
    let first = fixture.store.enqueue(op, &q(), tasks.clone()).await.unwrap();
    pop(&fixture, 1).await;
    assert_eq!(fixture.store.enqueue(op, &q(), tasks).await.unwrap(), first);
    assert!(fixture.is_gone("a").await);
}

/// Requests that are sent at the same moment may share a call to the server.
pub(super) async fn claims_sent_at_once_give_each_task_to_one_of_them(fixture: Fixture) {
    fixture.put_all((0..50).map(|n| task(&format!("{n:02}"))).collect()).await;
    let wanted = [1, 2, 30, 3, 20, 4];
    let ask = |n: u32| {
        let claim = Claim { n, lease: lease(s(10)), worker: format!("w{n}") };
        fixture.store.claim(fixture.op(), &q(), claim)
    };
    let mut given = Vec::new();
    for (n, asked) in wanted.into_iter().zip(wanted.map(ask)) {
        let claimed = asked.await.unwrap();
        assert!(claimed.tasks.len() <= n as usize, "{n}");
        for task in claimed.tasks {
            let info = fixture.store.task(&q(), &task.ticket.id).await.unwrap().unwrap();
            assert_eq!(info.worker, Some(format!("w{n}")));
            given.push((text(&task), task.ticket.claim));
        }
    }
    let claims: BTreeSet<_> = given.iter().map(|(_, claim)| *claim).collect();
    let tasks: BTreeSet<_> = given.iter().map(|(id, _)| id).collect();
    assert_eq!((given.len(), claims.len(), tasks.len()), (50, 50, 50), "{given:?}");
}

pub(super) async fn a_pop_and_a_claim_sent_twice_give_the_same_tasks(fixture: Fixture) {
    fixture.put_all(vec![task("a"), task("b"), task("c")]).await;
    let op = fixture.op();
    let first = fixture.store.pop(op, &q(), 1).await.unwrap();
    assert_eq!(fixture.store.pop(op, &q(), 1).await.unwrap(), first);
    let (op, claim) = (fixture.op(), Claim { n: 1, lease: lease(s(10)), worker: "w".into() });
    let first = fixture.store.claim(op, &q(), claim.clone()).await.unwrap();
    assert_eq!(fixture.store.claim(op, &q(), claim).await.unwrap(), first);
    assert_eq!(lengths(&fixture).await, (1, 0, 1, 0));
}

pub(super) async fn endings_sent_twice_are_answered_the_same_way(fixture: Fixture) {
    fixture.put_all(["a", "b", "c", "d"].map(task).to_vec()).await;
    let tickets: Vec<Ticket> = fixture.claim(4).await.tasks.into_iter().map(|task| task.ticket).collect();
    let one = |n: usize| vec![tickets[n].clone().into()];
    let [complete, retry, release, dequeue] = [(); 4].map(|()| fixture.op());
    for _ in 0..2 {
        assert_eq!(fixture.store.complete(complete, &q(), one(0)).await.unwrap(), [Completed::Done]);
        let how = Retry { ticket: tickets[1].clone(), delay: s(1), error: "e".into(), give_up: true };
        assert_eq!(fixture.store.retry(retry, &q(), vec![how]).await.unwrap(), [Retried::Dead]);
        let answer =
            fixture.store.release_tasks(release, &q(), vec![tickets[2].clone().into()]).await.unwrap();
        assert_eq!(answer, [TaskReleased::Waiting]);
        assert_eq!(
            fixture.store.dequeue(dequeue, &q(), tickets[3].clone()).await.unwrap(),
            Dequeued::Removed
        );
    }
    assert_eq!(lengths(&fixture).await, (1, 0, 0, 1));
}

pub(super) async fn a_task_that_is_named_twice_in_one_completion_ends_once(fixture: Fixture) {
    fixture.put_all(["a", "b"].map(task).to_vec()).await;
    let tickets = fixture.claim(2).await.tasks.into_iter().map(|task| task.ticket);
    let [a, b] = &tickets.collect::<Vec<_>>()[..] else { panic!("two tasks") };
    let ends = [a, b, a].map(|ticket| ticket.clone().into()).to_vec();
    let answers = fixture.store.complete(fixture.op(), &q(), ends).await.unwrap();
    assert_eq!(answers, [Completed::Done, Completed::Done, Completed::Stale]);
    assert_eq!(lengths(&fixture).await, (0, 0, 0, 0));
}

pub(super) async fn removals_sent_twice_are_answered_the_same_way(fixture: Fixture) {
    kill(&fixture, "a").await;
    kill(&fixture, "b").await;
    fixture.put(task("c")).await;
    let [cancel, requeue_dead, delete_dead] = [(); 3].map(|()| fixture.op());
    for _ in 0..2 {
        assert_eq!(fixture.store.cancel(cancel, &q(), &task_id("c")).await.unwrap(), Cancelled::Removed);
        let a = Selection::Ids(vec![task_id("a")]);
        assert_eq!(fixture.store.requeue_dead(requeue_dead, &q(), a).await.unwrap().requeued, 1);
        assert_eq!(fixture.store.delete_dead(delete_dead, &q(), Selection::All).await.unwrap(), 1);
    }
}

pub(super) async fn the_thousand_latest_calls_of_a_client_are_remembered(fixture: Fixture) {
    let op = |n| Op::new(ClientId::from_u64(9), n);
    let first = fixture.store.enqueue(op(0), &q(), vec![task("first")]).await.unwrap();
    pop(&fixture, 1).await;
    for n in 1..1_000 {
        fixture.store.cancel(op(n), &q(), &task_id("nothing")).await.unwrap();
    }
    assert_eq!(fixture.store.enqueue(op(0), &q(), vec![task("first")]).await.unwrap(), first);
    assert!(fixture.is_gone("first").await);
}

// ── waiting, limits, races ───────────────────────────────────────────────────────────────────────────────────────

pub(super) async fn a_listener_is_notified_of_a_new_task(fixture: Fixture) {
    let queue = q();
    let heard = fixture.store.ready(&queue);
    let (heard, _) = tokio::join!(soon(heard), fixture.put(task("a")));
    heard.unwrap();
    assert_eq!(pop(&fixture, 1).await, ["a"]);
}

pub(super) async fn a_listener_is_notified_of_a_task_released(fixture: Fixture) {
    fixture.put(task("a")).await;
    let claimed = fixture.claim_one().await;
    let queue = q();
    // A notification of the enqueue may be pending. The one that counts comes after it.
    let stale = tokio::time::timeout(ms(50), fixture.store.ready(&queue)).await;
    drop(stale);
    let heard = fixture.store.ready(&queue);
    let (heard, _) = tokio::join!(soon(heard), release(&fixture, &claimed));
    heard.unwrap();
}

pub(super) async fn a_dropped_listener_does_not_swallow_the_next_ring(fixture: Fixture) {
    let queue = q();
    drop(fixture.store.ready(&queue));
    let heard = fixture.store.ready(&queue);
    let (heard, _) = tokio::join!(soon(heard), fixture.put(task("a")));
    heard.unwrap();
}

pub(super) async fn requests_outside_the_limits_are_refused(fixture: Fixture) {
    let far = NewTask::DELAY_MAX + s(1);
    let debounce = OnDuplicate::Debounce { max_wait: far };
    let wrong = [
        after(task("a"), far),
        with(task("a"), "x", debounce),
        attempts(task("a"), 0),
        attempts(task("a"), 1_001),
    ];
    for wrong in wrong {
        refused(fixture.store.enqueue(fixture.op(), &q(), vec![task("good"), wrong]).await);
    }
    refused(Payload::new(ContentType::bytes(), vec![0; Payload::MAX_BYTES + 1]));
    refused(fixture.store.enqueue(fixture.op(), &q(), Vec::new()).await);
    refused(fixture.store.enqueue(fixture.op(), &q(), vec![task("a"); 1_001]).await);
    for n in [0, 1_001] {
        refused(fixture.store.top(&q(), n).await);
        refused(fixture.store.pop(fixture.op(), &q(), n).await);
        let claim = Claim { n, lease: lease(s(1)), worker: "w".into() };
        refused(fixture.store.claim(fixture.op(), &q(), claim).await);
    }
    let claim = Claim { n: 1, lease: lease(s(1)), worker: "a\u{7}b".into() };
    refused(fixture.store.claim(fixture.op(), &q(), claim).await);
    assert!(fixture.is_gone("good").await, "a batch with a wrong task is refused as a whole");
}

pub(super) async fn batches_and_pages_outside_the_limits_are_refused(fixture: Fixture) {
    fixture.put(task("a")).await;
    let claimed = fixture.claim_one().await;
    refused(fixture.store.complete(fixture.op(), &q(), Vec::new()).await);
    refused(fixture.store.release_tasks(fixture.op(), &q(), Vec::new()).await);
    let back = TaskRelease { ticket: claimed.ticket.clone(), delay: NewTask::DELAY_MAX + s(1) };
    refused(fixture.store.release_tasks(fixture.op(), &q(), vec![back]).await);
    refused(fixture.store.retry(fixture.op(), &q(), Vec::new()).await);
    refused(fixture.store.extend_tasks(&q(), Vec::new(), lease(s(1))).await);
    refused(fixture.store.retry(fixture.op(), &q(), vec![failed(&claimed, NewTask::DELAY_MAX + s(1))]).await);
    for limit in [0, 10_001] {
        refused(fixture.store.tasks(&q(), Listing::new(None, Page::first(limit))).await);
        refused(fixture.store.dead(&q(), Page::first(limit)).await);
        refused(fixture.store.queues(Page::first(limit)).await);
    }
    refused(fixture.store.delete_dead(fixture.op(), &q(), Selection::Ids(Vec::new())).await);
    refused(fixture.store.requeue_dead(fixture.op(), &q(), Selection::Ids(vec![task_id("a"); 1_001])).await);
    assert_eq!(fixture.info("a").await.state, TaskState::Leased);
}

pub(super) async fn a_large_payload_survives(fixture: Fixture) {
    let bytes: Vec<u8> = (0..Payload::MAX_BYTES).map(|n| n as u8).collect();
    let payload = Payload::new(ContentType::bytes(), bytes).unwrap();
    fixture.put(NewTask { payload: payload.clone(), ..task("a") }).await;
    assert_eq!(fixture.claim_one().await.payload, payload);
}

async fn claim_until_empty(fixture: Fixture, store: std::sync::Arc<dyn Store>) -> Vec<String> {
    let mut done = Vec::new();
    loop {
        let claim = Claim { n: 7, lease: lease(s(600)), worker: "w".into() };
        let tasks = store.claim(fixture.op(), &q(), claim).await.unwrap().tasks;
        if tasks.is_empty() {
            return done;
        }
        done.extend(texts(&tasks));
        let tickets = tasks.into_iter().map(|task| task.ticket.into()).collect();
        let answers = store.complete(fixture.op(), &q(), tickets).await.unwrap();
        assert!(answers.iter().all(|answer| *answer == Completed::Done));
    }
}

pub(super) async fn eight_claimers_take_five_hundred_tasks_once_each(fixture: Fixture) {
    fixture.put_all((0..500).map(|n| task(&format!("t{n}"))).collect()).await;
    let stores = [fixture.store.clone(), fixture.peer()];
    let claimers: Vec<_> =
        (0..8).map(|n| tokio::spawn(claim_until_empty(fixture.clone(), stores[n % 2].clone()))).collect();
    let mut taken = Vec::new();
    for claimer in claimers {
        taken.extend(claimer.await.expect("every completion was the claimer's own"));
    }
    assert_eq!(taken.len(), 500);
    assert_eq!(taken.iter().collect::<BTreeSet<_>>().len(), 500);
    assert_eq!(lengths(&fixture).await, (0, 0, 0, 0));
}
