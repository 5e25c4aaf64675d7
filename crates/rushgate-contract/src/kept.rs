//! Contract of retained data: results, past runs, progress.

use std::time::Duration;

use rushgate_core::{
    Cancelled, Completed, Completion, ContentType, Finish, Finished, Heartbeat, Listing, OnDuplicate, Page,
    PastEnd, Payload, QueueLimits, QueueName, Retention, Retry, Selection, Task, TaskExtended, TaskInfo,
    TaskProgress, TaskRelease, TaskState, Verbs,
};

use crate::fixture::*;

fn q() -> QueueName {
    queue_name("q")
}

async fn keep(fixture: &Fixture, age: Duration, count: u32) {
    let retention = Some(Retention::new(age, count));
    fixture.store.limit(&q(), QueueLimits { retention, ..QueueLimits::default() }).await.unwrap();
}

fn json(text: &str) -> Payload {
    Payload::new(ContentType::json(), text.as_bytes().to_vec()).expect("a test's payload is small")
}

async fn complete(fixture: &Fixture, done: Completion) -> Completed {
    fixture.store.complete(fixture.op(), &q(), vec![done]).await.unwrap()[0]
}

/// Enqueues a task, claims it and completes it.
async fn do_one(fixture: &Fixture, id: &str, result: &str) -> Task {
    fixture.put(task(id)).await;
    let claimed = fixture.claim_one().await;
    let done = Completion::with(claimed.ticket.clone(), json(result));
    assert_eq!(complete(fixture, done).await, Completed::Done);
    claimed
}

/// The finished tasks, by ID.
async fn done(fixture: &Fixture) -> Vec<TaskInfo> {
    let listing = Listing::new(TaskState::Done, Page::first(1_000));
    let mut done = fixture.store.tasks(&q(), listing).await.unwrap().tasks;
    done.sort_by(|a, b| a.task.ticket.id.cmp(&b.task.ticket.id));
    done
}

fn ids(infos: &[TaskInfo]) -> Vec<&str> {
    infos.iter().map(|info| info.task.ticket.id.as_str()).collect()
}

#[track_caller]
fn finished(info: &TaskInfo) -> &Finished {
    assert_eq!(info.state, TaskState::Done);
    info.finished.as_ref().expect("it is done")
}

async fn fail(fixture: &Fixture, task: &Task, error: &str, give_up: bool) {
    let how = Retry { ticket: task.ticket.clone(), delay: Duration::ZERO, error: error.into(), give_up };
    fixture.store.retry(fixture.op(), &q(), vec![how]).await.unwrap();
}

pub(super) async fn without_a_retention_nothing_is_kept(fixture: Fixture) {
    do_one(&fixture, "a", "1").await;
    assert!(fixture.is_gone("a").await);
    assert!(done(&fixture).await.is_empty());
    assert_eq!(fixture.store.stats(&q()).await.unwrap().done, 0);
}

pub(super) async fn a_task_that_is_done_is_kept_with_its_result(fixture: Fixture) {
    keep(&fixture, s(60), 10).await;
    let claimed = do_one(&fixture, "a", "{\"n\":1}").await;
    let info = fixture.info("a").await;
    assert_eq!(info.task, claimed);
    assert_eq!((info.worker.as_deref(), info.lease_until), (Some("w"), None));
    let of = finished(&info);
    assert_eq!((of.how, of.result.as_ref()), (Finish::Done, Some(&json("{\"n\":1}"))));
    let began = claimed.ticket.claim.expect("it was claimed").as_u64();
    assert!(of.at.as_micros() >= began, "{of:?}");
    let stats = fixture.store.stats(&q()).await.unwrap();
    assert_eq!((stats.done, stats.dead, stats.leased), (1, 0, 0));
    assert!(fixture.store.dead(&q(), Page::first(10)).await.unwrap().is_empty());
}

pub(super) async fn a_task_that_was_discarded_or_cancelled_says_so(fixture: Fixture) {
    keep(&fixture, s(60), 10).await;
    fixture.put_all(["a", "b", "c", "d", "e"].map(task).to_vec()).await;
    let cancel = async |id: &str| fixture.store.cancel(fixture.op(), &q(), &task_id(id)).await.unwrap();
    assert_eq!(cancel("d").await, Cancelled::Removed);
    let claimed = fixture.claim(4).await.tasks;
    let discarded = Completion { discarded: true, ..claimed[0].ticket.clone().into() };
    assert_eq!(complete(&fixture, discarded).await, Completed::Done);
    assert_eq!(cancel("b").await, Cancelled::Marked);
    assert_eq!(
        complete(&fixture, Completion::with(claimed[1].ticket.clone(), json("1"))).await,
        Completed::Done
    );
    assert_eq!(cancel("c").await, Cancelled::Marked);
    fail(&fixture, &claimed[2], "boom", false).await;
    assert_eq!(cancel("e").await, Cancelled::Marked);
    fixture.advance(s(11)).await;
    let infos = done(&fixture).await;
    assert_eq!(ids(&infos), ["a", "b", "c", "d", "e"]);
    let how: Vec<_> = infos.iter().map(|info| finished(info).how).collect();
    let [a, rest @ ..] = &how[..] else { panic!("five are kept") };
    assert_eq!((*a, rest), (Finish::Discarded, &[Finish::Cancelled; 4][..]));
    assert_eq!(infos[1].finished.as_ref().and_then(|of| of.result.clone()), Some(json("1")));
    assert_eq!((infos[3].worker.as_deref(), infos[3].task.ticket.claim), (None, None));
}

pub(super) async fn a_run_that_was_replaced_keeps_no_result(fixture: Fixture) {
    keep(&fixture, s(60), 10).await;
    fixture.put(task("a")).await;
    let claimed = fixture.claim_one().await;
    fixture.put(with(task("a"), "new", OnDuplicate::Replace)).await;
    let answer = complete(&fixture, Completion::with(claimed.ticket, json("1"))).await;
    assert_eq!(answer, Completed::Requeued);
    assert!(done(&fixture).await.is_empty());
    let claimed = fixture.claim_one().await;
    complete(&fixture, Completion::with(claimed.ticket, json("2"))).await;
    assert_eq!(finished(&fixture.info("a").await).result, Some(json("2")));
}

pub(super) async fn no_more_are_kept_than_the_retention_says(fixture: Fixture) {
    keep(&fixture, s(600), 3).await;
    for id in ["e", "d", "c"] {
        do_one(&fixture, id, "1").await;
        fixture.advance(ms(10)).await;
    }
    assert_eq!(ids(&done(&fixture).await), ["c", "d", "e"]);
    do_one(&fixture, "e", "2").await;
    fixture.advance(ms(10)).await;
    assert_eq!(ids(&done(&fixture).await), ["c", "d", "e"], "an id is kept once");
    do_one(&fixture, "f", "1").await;
    assert_eq!(ids(&done(&fixture).await), ["c", "e", "f"]);
    let many: Vec<_> = (0..20).map(|n| task(&format!("m{n:02}"))).collect();
    fixture.put_all(many).await;
    let tickets = fixture.claim(20).await.tasks.into_iter().map(|task| task.ticket.into()).collect();
    fixture.store.complete(fixture.op(), &q(), tickets).await.unwrap();
    assert_eq!(ids(&done(&fixture).await), ["m17", "m18", "m19"]);
    assert_eq!(fixture.store.stats(&q()).await.unwrap().done, 3);
}

pub(super) async fn none_is_kept_for_longer_than_the_retention_says(fixture: Fixture) {
    keep(&fixture, s(30), 10).await;
    do_one(&fixture, "a", "1").await;
    fixture.advance(s(20)).await;
    do_one(&fixture, "b", "1").await;
    assert_eq!(ids(&done(&fixture).await), ["a", "b"]);
    fixture.advance(s(11)).await;
    assert_eq!(ids(&done(&fixture).await), ["b"]);
    assert!(fixture.is_gone("a").await);
    assert_eq!(fixture.store.stats(&q()).await.unwrap().done, 1);
    fixture.advance(s(20)).await;
    assert!(done(&fixture).await.is_empty());
}

pub(super) async fn a_retention_that_shrinks_holds_at_once_and_brings_nothing_back_when_it_grows(
    fixture: Fixture,
) {
    keep(&fixture, s(30), 10).await;
    for id in ["a", "b", "c"] {
        do_one(&fixture, id, "1").await;
        fixture.advance(ms(10)).await;
    }
    keep(&fixture, s(30), 2).await;
    assert_eq!(ids(&done(&fixture).await), ["b", "c"]);
    fixture.advance(s(31)).await;
    keep(&fixture, s(600), 10).await;
    assert!(done(&fixture).await.is_empty(), "what was too old does not come back");
    do_one(&fixture, "d", "1").await;
    fixture.store.limit(&q(), QueueLimits::default()).await.unwrap();
    assert!(fixture.is_gone("d").await);
    keep(&fixture, s(600), 10).await;
    assert!(fixture.is_gone("d").await);
}

pub(super) async fn a_live_task_hides_an_earlier_one_of_its_id(fixture: Fixture) {
    keep(&fixture, s(60), 10).await;
    do_one(&fixture, "a", "1").await;
    fixture.put(with(task("a"), "again", OnDuplicate::Keep)).await;
    assert_eq!(fixture.info("a").await.state, TaskState::Ready);
    assert_eq!(finished(&done(&fixture).await[0]).result, Some(json("1")));
    let all = Listing::new(None, Page::first(10));
    let live = fixture.store.tasks(&q(), all).await.unwrap().tasks;
    assert_eq!((live.len(), live[0].state), (1, TaskState::Ready));
    let claimed = fixture.claim_one().await;
    assert_eq!(complete(&fixture, Completion::with(claimed.ticket, json("2"))).await, Completed::Done);
    assert_eq!(finished(&fixture.info("a").await).result, Some(json("2")));
}

pub(super) async fn what_is_done_is_listed_in_pages(fixture: Fixture) {
    keep(&fixture, s(60), 100).await;
    for id in ["d", "b", "a", "c"] {
        do_one(&fixture, id, "1").await;
    }
    fixture.put(task("dead")).await;
    fail(&fixture, &fixture.claim_one().await, "boom", true).await;
    let listing = Listing::new(TaskState::Done, Page::first(3));
    let first = fixture.store.tasks(&q(), listing.clone()).await.unwrap();
    assert_eq!((first.tasks.len(), first.next.is_some()), (3, true));
    assert_eq!(listing.read_all(|page| fixture.store.tasks(&q(), page)).await.unwrap().len(), 4);
    assert_eq!(ids(&done(&fixture).await), ["a", "b", "c", "d"]);
    let letters = fixture.store.dead(&q(), Page::first(10)).await.unwrap();
    assert_eq!(letters.iter().map(|letter| letter.id.as_str()).collect::<Vec<_>>(), ["dead"]);
    assert_eq!(fixture.store.delete_dead(fixture.op(), &q(), Selection::All).await.unwrap(), 1);
    assert_eq!(fixture.store.requeue_dead(fixture.op(), &q(), Selection::All).await.unwrap().requeued, 0);
    assert_eq!(done(&fixture).await.len(), 4);
}

pub(super) async fn what_was_dequeued_or_popped_leaves_nothing(fixture: Fixture) {
    keep(&fixture, s(60), 10).await;
    fixture.put_all(["a", "b", "c"].map(task).to_vec()).await;
    fixture.store.pop(fixture.op(), &q(), 1).await.unwrap();
    let seen = fixture.store.top(&q(), 1).await.unwrap().remove(0);
    fixture.store.dequeue(fixture.op(), &q(), seen.ticket).await.unwrap();
    let claimed = fixture.claim_one().await;
    fixture.store.dequeue(fixture.op(), &q(), claimed.ticket).await.unwrap();
    assert!(done(&fixture).await.is_empty());
}

pub(super) async fn a_completion_with_a_result_sent_twice_is_carried_out_once(fixture: Fixture) {
    keep(&fixture, s(60), 10).await;
    fixture.put(task("a")).await;
    let (claimed, op) = (fixture.claim_one().await, fixture.op());
    for _ in 0..2 {
        let done = vec![Completion::with(claimed.ticket.clone(), json("1"))];
        assert_eq!(fixture.store.complete(op, &q(), done).await.unwrap(), [Completed::Done]);
    }
    let again = Completion::with(claimed.ticket, json("2"));
    assert_eq!(complete(&fixture, again).await, Completed::Stale);
    assert_eq!(finished(&fixture.info("a").await).result, Some(json("1")));
}

// ── past runs ────────────────────────────────────────────────────────────────────────────────────────────────────

pub(super) async fn failed_lost_and_snoozed_runs_are_remembered(fixture: Fixture) {
    fixture.put(task("a")).await;
    let first = fixture.claim_one().await;
    fail(&fixture, &first, &"é".repeat(150), false).await;
    fixture.claim_one().await;
    fixture.advance(s(11)).await;
    let third = fixture.claim_one().await;
    let back = |delay| vec![TaskRelease { ticket: third.ticket.clone(), delay }];
    fixture.store.release_tasks(fixture.op(), &q(), back(ms(10))).await.unwrap();
    fixture.advance(ms(20)).await;
    let fourth = fixture.claim_one().await;
    fixture.store.release_tasks(fixture.op(), &q(), vec![fourth.ticket.into()]).await.unwrap();
    let past = fixture.info("a").await.past;
    let said: Vec<_> = past.iter().map(|run| (run.attempt, run.how, run.worker.as_str())).collect();
    let w = "w";
    assert_eq!(said, [(1, PastEnd::Failed, w), (2, PastEnd::Lost, w), (3, PastEnd::Snoozed, w)]);
    assert_eq!((past[0].error.as_str(), past[1].error.as_str()), ("é".repeat(100).as_str(), ""));
    assert_eq!(past[0].began.as_micros(), first.ticket.claim.expect("it was claimed").as_u64());
    // An expired lease ended at its expiry, not when the expiry was noticed.
    near(past[1].ended.since(past[1].began), s(10));
    assert!(past.windows(2).all(|two| two[0].ended <= two[1].began));
}

pub(super) async fn the_latest_runs_are_remembered_and_a_dead_letter_has_them(fixture: Fixture) {
    fixture.put(task("a")).await;
    for n in 1..=12 {
        let claimed = fixture.claim_one().await;
        fail(&fixture, &claimed, &format!("no {n}"), n == 12).await;
    }
    let letter = fixture.store.dead_letter(&q(), &task_id("a")).await.unwrap().expect("it is dead");
    let said: Vec<_> = letter.past.iter().map(|run| run.error.as_str()).collect();
    let latest: Vec<_> = (3..=12).map(|n| format!("no {n}")).collect();
    assert_eq!(said, latest);
    assert_eq!((letter.error.as_str(), letter.payload.bytes()), ("no 12", b"a".as_slice()));
}

pub(super) async fn a_new_life_has_no_past(fixture: Fixture) {
    keep(&fixture, s(60), 10).await;
    fixture.put(task("a")).await;
    fail(&fixture, &fixture.claim_one().await, "boom", false).await;
    fixture.put(with(task("a"), "new", OnDuplicate::Earliest)).await;
    assert_eq!(fixture.info("a").await.past.len(), 1);
    fixture.put(with(task("a"), "new", OnDuplicate::Replace)).await;
    assert!(fixture.info("a").await.past.is_empty());
    fail(&fixture, &fixture.claim_one().await, "boom", false).await;
    let claimed = fixture.claim_one().await;
    complete(&fixture, claimed.ticket.into()).await;
    let info = fixture.info("a").await;
    assert_eq!((info.past.len(), info.error.as_deref()), (1, Some("boom")));
    fixture.put(task("a")).await;
    assert!(fixture.info("a").await.past.is_empty());
    fail(&fixture, &fixture.claim_one().await, "boom", true).await;
    fixture.store.requeue_dead(fixture.op(), &q(), Selection::All).await.unwrap();
    assert!(fixture.info("a").await.past.is_empty());
}

// ── waiting for the end ──────────────────────────────────────────────────────────────────────────────────────────

pub(super) async fn a_waiter_for_a_task_is_notified_of_its_end(fixture: Fixture) {
    keep(&fixture, s(60), 10).await;
    let (queue, peer) = (q(), fixture.peer());
    for (id, end) in [("done", 0), ("cancelled", 1), ("dead", 2), ("dequeued", 3), ("popped", 4)] {
        fixture.put(task(id)).await;
        let id = task_id(id);
        let (here, there) = (fixture.store.finished(&queue, &id), peer.finished(&queue, &id));
        let ends = async {
            // The other client's listening call must reach the store before the change.
            peer.task(&queue, &id).await.unwrap();
            match end {
                0 => drop(complete(&fixture, fixture.claim_one().await.ticket.into()).await),
                1 => drop(fixture.store.cancel(fixture.op(), &queue, &id).await.unwrap()),
                2 => fail(&fixture, &fixture.claim_one().await, "boom", true).await,
                3 => {
                    let ticket = fixture.claim_one().await.ticket;
                    fixture.store.dequeue(fixture.op(), &queue, ticket).await.unwrap();
                }
                _ => drop(fixture.store.pop(fixture.op(), &queue, 1).await.unwrap()),
            }
        };
        let (here, there, ()) = tokio::join!(soon(here), soon(there), ends);
        here.unwrap();
        there.unwrap();
    }
}

pub(super) async fn a_wait_without_notifications_ends_at_once(fixture: Fixture) {
    fixture.put(task("a")).await;
    soon(fixture.store.finished(&q(), &task_id("a"))).await.unwrap();
    keep(&fixture, s(60), 10).await;
    soon(fixture.store.finished(&q(), &task_id("stranger"))).await.unwrap();
    let (queue, id) = (q(), task_id("a"));
    let told = fixture.store.finished(&queue, &id);
    let (told, ()) = tokio::join!(soon(told), async {
        fixture.store.limit(&queue, QueueLimits::default()).await.unwrap();
    });
    told.unwrap();
}

// ── progress ─────────────────────────────────────────────────────────────────────────────────────────────────────

fn at(percent: Option<u8>, note: &str) -> TaskProgress {
    TaskProgress { percent, note: note.to_owned() }
}

async fn beat(fixture: &Fixture, task: &Task, progress: Option<TaskProgress>) -> TaskExtended {
    let beat = Heartbeat { ticket: task.ticket.clone(), progress };
    fixture.store.extend_tasks(&q(), vec![beat], lease(s(10))).await.unwrap()[0]
}

pub(super) async fn progress_is_noted_with_the_lease_and_ends_with_the_run(fixture: Fixture) {
    fixture.put(task("a")).await;
    let claimed = fixture.claim_one().await;
    assert_eq!(fixture.info("a").await.progress, None);
    assert_eq!(beat(&fixture, &claimed, Some(at(Some(40), "pages"))).await, TaskExtended::Extended);
    assert_eq!(fixture.info("a").await.progress, Some(at(Some(40), "pages")));
    assert_eq!(beat(&fixture, &claimed, None).await, TaskExtended::Extended);
    assert_eq!(fixture.info("a").await.progress, Some(at(Some(40), "pages")), "what was noted stays");
    beat(&fixture, &claimed, Some(at(None, ""))).await;
    assert_eq!(fixture.info("a").await.progress, Some(at(None, "")));
    beat(&fixture, &claimed, Some(at(Some(100), "é"))).await;
    fail(&fixture, &claimed, "boom", false).await;
    let info = fixture.info("a").await;
    assert_eq!((info.progress, info.error.as_deref()), (None, Some("boom")));
    assert_eq!(beat(&fixture, &claimed, Some(at(Some(1), "late"))).await, TaskExtended::Lost);
    let again = fixture.claim_one().await;
    let info = fixture.info("a").await;
    assert_eq!((info.progress, info.past.len(), info.error.as_deref()), (None, 1, Some("boom")));
    beat(&fixture, &again, Some(at(Some(7), "again"))).await;
    let info = fixture.info("a").await;
    let (progress, worker) = (info.progress, info.worker);
    assert_eq!((progress, worker.as_deref()), (Some(at(Some(7), "again")), Some("w")));
    assert_eq!((info.past.len(), info.error.as_deref()), (1, Some("boom")));
}

pub(super) async fn results_and_progress_outside_the_limits_are_refused(fixture: Fixture) {
    keep(&fixture, s(60), 10).await;
    fixture.put(task("a")).await;
    let claimed = fixture.claim_one().await;
    for wrong in [at(Some(101), ""), at(None, &"x".repeat(201)), at(None, "a\u{7}b")] {
        let beat = Heartbeat { ticket: claimed.ticket.clone(), progress: Some(wrong) };
        refused(fixture.store.extend_tasks(&q(), vec![beat], lease(s(10))).await);
    }
    let content = |n| Payload::new(ContentType::bytes(), vec![7; n]).expect("a test's payload is small");
    let large = Completion::with(claimed.ticket.clone(), content(Completion::RESULT_MAX + 1));
    refused(fixture.store.complete(fixture.op(), &q(), vec![large]).await);
    let none = QueueLimits::default();
    for (age, count) in [(Duration::from_micros(999), 1), (s(401 * 86_400), 1), (s(1), 0), (s(1), 1_000_001)]
    {
        let retention = Some(Retention::new(age, count));
        refused(fixture.store.limit(&q(), QueueLimits { retention, ..none }).await);
    }
    assert_eq!(beat(&fixture, &claimed, None).await, TaskExtended::Extended);
    let largest = Completion::with(claimed.ticket, content(Completion::RESULT_MAX));
    assert_eq!(complete(&fixture, largest).await, Completed::Done);
    let result = finished(&fixture.info("a").await).result.clone();
    assert_eq!(result.map(|result| result.bytes().len()), Some(Completion::RESULT_MAX));
}
