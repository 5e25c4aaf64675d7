//! Contract of retained data: results, past runs, progress.

use std::time::Duration;

use rushgate_core::{
    Cancelled, Completed, Completion, ContentType, Finish, Finished, Heartbeat, Listing, OnDuplicate, Page,
    PastEnd, Payload, QueueLimits, QueueName, Retention, Retry, Selection, Task, TaskExtended, TaskInfo,
    TaskProgress, TaskRelease, TaskState, Verbs,
};

use crate::desk::*;

fn q() -> QueueName {
    queue_name("q")
}

async fn keep(desk: &Desk, age: Duration, count: u32) {
    let retention = Some(Retention::new(age, count));
    desk.store.limit(&q(), QueueLimits { retention, ..QueueLimits::default() }).await.unwrap();
}

fn json(text: &str) -> Payload {
    Payload::new(ContentType::json(), text.as_bytes().to_vec()).expect("a test's payload is small")
}

async fn complete(desk: &Desk, done: Completion) -> Completed {
    desk.store.complete(desk.op(), &q(), vec![done]).await.unwrap()[0]
}

/// Enqueues a task, claims it and completes it.
async fn do_one(desk: &Desk, id: &str, result: &str) -> Task {
    desk.put(task(id)).await;
    let claimed = desk.claim_one().await;
    let done = Completion::with(claimed.ticket.clone(), json(result));
    assert_eq!(complete(desk, done).await, Completed::Done);
    claimed
}

/// The finished tasks, by ID.
async fn done(desk: &Desk) -> Vec<TaskInfo> {
    let listing = Listing::new(TaskState::Done, Page::first(1_000));
    let mut done = desk.store.tasks(&q(), listing).await.unwrap().tasks;
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

async fn fail(desk: &Desk, task: &Task, error: &str, give_up: bool) {
    let how = Retry { ticket: task.ticket.clone(), delay: Duration::ZERO, error: error.into(), give_up };
    desk.store.retry(desk.op(), &q(), vec![how]).await.unwrap();
}

pub(super) async fn without_a_retention_nothing_is_kept(desk: Desk) {
    do_one(&desk, "a", "1").await;
    assert!(desk.is_gone("a").await);
    assert!(done(&desk).await.is_empty());
    assert_eq!(desk.store.stats(&q()).await.unwrap().done, 0);
}

pub(super) async fn a_task_that_is_done_is_kept_with_its_result(desk: Desk) {
    keep(&desk, s(60), 10).await;
    let claimed = do_one(&desk, "a", "{\"n\":1}").await;
    let info = desk.info("a").await;
    assert_eq!(info.task, claimed);
    assert_eq!((info.worker.as_deref(), info.lease_until), (Some("w"), None));
    let of = finished(&info);
    assert_eq!((of.how, of.result.as_ref()), (Finish::Done, Some(&json("{\"n\":1}"))));
    let began = claimed.ticket.claim.expect("it was claimed").as_u64();
    assert!(of.at.as_micros() >= began, "{of:?}");
    let stats = desk.store.stats(&q()).await.unwrap();
    assert_eq!((stats.done, stats.dead, stats.leased), (1, 0, 0));
    assert!(desk.store.dead(&q(), Page::first(10)).await.unwrap().is_empty());
}

pub(super) async fn a_task_that_was_discarded_or_cancelled_says_so(desk: Desk) {
    keep(&desk, s(60), 10).await;
    desk.put_all(["a", "b", "c", "d", "e"].map(task).to_vec()).await;
    let cancel = async |id: &str| desk.store.cancel(desk.op(), &q(), &task_id(id)).await.unwrap();
    assert_eq!(cancel("d").await, Cancelled::Removed);
    let claimed = desk.claim(4).await.tasks;
    let discarded = Completion { discarded: true, ..claimed[0].ticket.clone().into() };
    assert_eq!(complete(&desk, discarded).await, Completed::Done);
    assert_eq!(cancel("b").await, Cancelled::Marked);
    assert_eq!(
        complete(&desk, Completion::with(claimed[1].ticket.clone(), json("1"))).await,
        Completed::Done
    );
    assert_eq!(cancel("c").await, Cancelled::Marked);
    fail(&desk, &claimed[2], "boom", false).await;
    assert_eq!(cancel("e").await, Cancelled::Marked);
    desk.advance(s(11)).await;
    let infos = done(&desk).await;
    assert_eq!(ids(&infos), ["a", "b", "c", "d", "e"]);
    let how: Vec<_> = infos.iter().map(|info| finished(info).how).collect();
    let [a, rest @ ..] = &how[..] else { panic!("five are kept") };
    assert_eq!((*a, rest), (Finish::Discarded, &[Finish::Cancelled; 4][..]));
    assert_eq!(infos[1].finished.as_ref().and_then(|of| of.result.clone()), Some(json("1")));
    assert_eq!((infos[3].worker.as_deref(), infos[3].task.ticket.claim), (None, None));
}

pub(super) async fn a_run_that_was_replaced_keeps_no_result(desk: Desk) {
    keep(&desk, s(60), 10).await;
    desk.put(task("a")).await;
    let claimed = desk.claim_one().await;
    desk.put(with(task("a"), "new", OnDuplicate::Replace)).await;
    let answer = complete(&desk, Completion::with(claimed.ticket, json("1"))).await;
    assert_eq!(answer, Completed::Requeued);
    assert!(done(&desk).await.is_empty());
    let claimed = desk.claim_one().await;
    complete(&desk, Completion::with(claimed.ticket, json("2"))).await;
    assert_eq!(finished(&desk.info("a").await).result, Some(json("2")));
}

pub(super) async fn no_more_are_kept_than_the_retention_says(desk: Desk) {
    keep(&desk, s(600), 3).await;
    for id in ["e", "d", "c"] {
        do_one(&desk, id, "1").await;
        desk.advance(ms(10)).await;
    }
    assert_eq!(ids(&done(&desk).await), ["c", "d", "e"]);
    do_one(&desk, "e", "2").await;
    desk.advance(ms(10)).await;
    assert_eq!(ids(&done(&desk).await), ["c", "d", "e"], "an id is kept once");
    do_one(&desk, "f", "1").await;
    assert_eq!(ids(&done(&desk).await), ["c", "e", "f"]);
    let many: Vec<_> = (0..20).map(|n| task(&format!("m{n:02}"))).collect();
    desk.put_all(many).await;
    let tickets = desk.claim(20).await.tasks.into_iter().map(|task| task.ticket.into()).collect();
    desk.store.complete(desk.op(), &q(), tickets).await.unwrap();
    assert_eq!(ids(&done(&desk).await), ["m17", "m18", "m19"]);
    assert_eq!(desk.store.stats(&q()).await.unwrap().done, 3);
}

pub(super) async fn none_is_kept_for_longer_than_the_retention_says(desk: Desk) {
    keep(&desk, s(30), 10).await;
    do_one(&desk, "a", "1").await;
    desk.advance(s(20)).await;
    do_one(&desk, "b", "1").await;
    assert_eq!(ids(&done(&desk).await), ["a", "b"]);
    desk.advance(s(11)).await;
    assert_eq!(ids(&done(&desk).await), ["b"]);
    assert!(desk.is_gone("a").await);
    assert_eq!(desk.store.stats(&q()).await.unwrap().done, 1);
    desk.advance(s(20)).await;
    assert!(done(&desk).await.is_empty());
}

pub(super) async fn a_retention_that_shrinks_holds_at_once_and_brings_nothing_back_when_it_grows(desk: Desk) {
    keep(&desk, s(30), 10).await;
    for id in ["a", "b", "c"] {
        do_one(&desk, id, "1").await;
        desk.advance(ms(10)).await;
    }
    keep(&desk, s(30), 2).await;
    assert_eq!(ids(&done(&desk).await), ["b", "c"]);
    desk.advance(s(31)).await;
    keep(&desk, s(600), 10).await;
    assert!(done(&desk).await.is_empty(), "what was too old does not come back");
    do_one(&desk, "d", "1").await;
    desk.store.limit(&q(), QueueLimits::default()).await.unwrap();
    assert!(desk.is_gone("d").await);
    keep(&desk, s(600), 10).await;
    assert!(desk.is_gone("d").await);
}

pub(super) async fn a_live_task_hides_an_earlier_one_of_its_id(desk: Desk) {
    keep(&desk, s(60), 10).await;
    do_one(&desk, "a", "1").await;
    desk.put(with(task("a"), "again", OnDuplicate::Keep)).await;
    assert_eq!(desk.info("a").await.state, TaskState::Ready);
    assert_eq!(finished(&done(&desk).await[0]).result, Some(json("1")));
    let all = Listing::new(None, Page::first(10));
    let live = desk.store.tasks(&q(), all).await.unwrap().tasks;
    assert_eq!((live.len(), live[0].state), (1, TaskState::Ready));
    let claimed = desk.claim_one().await;
    assert_eq!(complete(&desk, Completion::with(claimed.ticket, json("2"))).await, Completed::Done);
    assert_eq!(finished(&desk.info("a").await).result, Some(json("2")));
}

pub(super) async fn what_is_done_is_listed_in_pages(desk: Desk) {
    keep(&desk, s(60), 100).await;
    for id in ["d", "b", "a", "c"] {
        do_one(&desk, id, "1").await;
    }
    desk.put(task("dead")).await;
    fail(&desk, &desk.claim_one().await, "boom", true).await;
    let listing = Listing::new(TaskState::Done, Page::first(3));
    let first = desk.store.tasks(&q(), listing.clone()).await.unwrap();
    assert_eq!((first.tasks.len(), first.next.is_some()), (3, true));
    assert_eq!(listing.read_all(|page| desk.store.tasks(&q(), page)).await.unwrap().len(), 4);
    assert_eq!(ids(&done(&desk).await), ["a", "b", "c", "d"]);
    let letters = desk.store.dead(&q(), Page::first(10)).await.unwrap();
    assert_eq!(letters.iter().map(|letter| letter.id.as_str()).collect::<Vec<_>>(), ["dead"]);
    assert_eq!(desk.store.delete_dead(desk.op(), &q(), Selection::All).await.unwrap(), 1);
    assert_eq!(desk.store.requeue_dead(desk.op(), &q(), Selection::All).await.unwrap().requeued, 0);
    assert_eq!(done(&desk).await.len(), 4);
}

pub(super) async fn what_was_dequeued_or_popped_leaves_nothing(desk: Desk) {
    keep(&desk, s(60), 10).await;
    desk.put_all(["a", "b", "c"].map(task).to_vec()).await;
    desk.store.pop(desk.op(), &q(), 1).await.unwrap();
    let seen = desk.store.top(&q(), 1).await.unwrap().remove(0);
    desk.store.dequeue(desk.op(), &q(), seen.ticket).await.unwrap();
    let claimed = desk.claim_one().await;
    desk.store.dequeue(desk.op(), &q(), claimed.ticket).await.unwrap();
    assert!(done(&desk).await.is_empty());
}

pub(super) async fn a_completion_with_a_result_sent_twice_is_carried_out_once(desk: Desk) {
    keep(&desk, s(60), 10).await;
    desk.put(task("a")).await;
    let (claimed, op) = (desk.claim_one().await, desk.op());
    for _ in 0..2 {
        let done = vec![Completion::with(claimed.ticket.clone(), json("1"))];
        assert_eq!(desk.store.complete(op, &q(), done).await.unwrap(), [Completed::Done]);
    }
    let again = Completion::with(claimed.ticket, json("2"));
    assert_eq!(complete(&desk, again).await, Completed::Stale);
    assert_eq!(finished(&desk.info("a").await).result, Some(json("1")));
}

// ── past runs ────────────────────────────────────────────────────────────────────────────────────────────────────

pub(super) async fn failed_lost_and_snoozed_runs_are_remembered(desk: Desk) {
    desk.put(task("a")).await;
    let first = desk.claim_one().await;
    fail(&desk, &first, &"é".repeat(150), false).await;
    desk.claim_one().await;
    desk.advance(s(11)).await;
    let third = desk.claim_one().await;
    let back = |delay| vec![TaskRelease { ticket: third.ticket.clone(), delay }];
    desk.store.release_tasks(desk.op(), &q(), back(ms(10))).await.unwrap();
    desk.advance(ms(20)).await;
    let fourth = desk.claim_one().await;
    desk.store.release_tasks(desk.op(), &q(), vec![fourth.ticket.into()]).await.unwrap();
    let past = desk.info("a").await.past;
    let said: Vec<_> = past.iter().map(|run| (run.attempt, run.how, run.worker.as_str())).collect();
    let w = "w";
    assert_eq!(said, [(1, PastEnd::Failed, w), (2, PastEnd::Lost, w), (3, PastEnd::Snoozed, w)]);
    assert_eq!((past[0].error.as_str(), past[1].error.as_str()), ("é".repeat(100).as_str(), ""));
    assert_eq!(past[0].began.as_micros(), first.ticket.claim.expect("it was claimed").as_u64());
    // An expired lease ended at its expiry, not when the expiry was noticed.
    near(past[1].ended.since(past[1].began), s(10));
    assert!(past.windows(2).all(|two| two[0].ended <= two[1].began));
}

pub(super) async fn the_latest_runs_are_remembered_and_a_dead_letter_has_them(desk: Desk) {
    desk.put(task("a")).await;
    for n in 1..=12 {
        let claimed = desk.claim_one().await;
        fail(&desk, &claimed, &format!("no {n}"), n == 12).await;
    }
    let letter = desk.store.dead_letter(&q(), &task_id("a")).await.unwrap().expect("it is dead");
    let said: Vec<_> = letter.past.iter().map(|run| run.error.as_str()).collect();
    let latest: Vec<_> = (3..=12).map(|n| format!("no {n}")).collect();
    assert_eq!(said, latest);
    assert_eq!((letter.error.as_str(), letter.payload.bytes()), ("no 12", b"a".as_slice()));
}

pub(super) async fn a_new_life_has_no_past(desk: Desk) {
    keep(&desk, s(60), 10).await;
    desk.put(task("a")).await;
    fail(&desk, &desk.claim_one().await, "boom", false).await;
    desk.put(with(task("a"), "new", OnDuplicate::Earliest)).await;
    assert_eq!(desk.info("a").await.past.len(), 1);
    desk.put(with(task("a"), "new", OnDuplicate::Replace)).await;
    assert!(desk.info("a").await.past.is_empty());
    fail(&desk, &desk.claim_one().await, "boom", false).await;
    let claimed = desk.claim_one().await;
    complete(&desk, claimed.ticket.into()).await;
    let info = desk.info("a").await;
    assert_eq!((info.past.len(), info.error.as_deref()), (1, Some("boom")));
    desk.put(task("a")).await;
    assert!(desk.info("a").await.past.is_empty());
    fail(&desk, &desk.claim_one().await, "boom", true).await;
    desk.store.requeue_dead(desk.op(), &q(), Selection::All).await.unwrap();
    assert!(desk.info("a").await.past.is_empty());
}

// ── waiting for the end ──────────────────────────────────────────────────────────────────────────────────────────

pub(super) async fn who_waits_for_a_task_hears_of_its_end(desk: Desk) {
    keep(&desk, s(60), 10).await;
    let (queue, peer) = (q(), desk.peer());
    for (id, end) in [("done", 0), ("cancelled", 1), ("dead", 2), ("dequeued", 3), ("popped", 4)] {
        desk.put(task(id)).await;
        let id = task_id(id);
        let (here, there) = (desk.store.over(&queue, &id), peer.over(&queue, &id));
        let ends = async {
            // The other client's listening call must reach the store before the change.
            peer.task(&queue, &id).await.unwrap();
            match end {
                0 => drop(complete(&desk, desk.claim_one().await.ticket.into()).await),
                1 => drop(desk.store.cancel(desk.op(), &queue, &id).await.unwrap()),
                2 => fail(&desk, &desk.claim_one().await, "boom", true).await,
                3 => {
                    let ticket = desk.claim_one().await.ticket;
                    desk.store.dequeue(desk.op(), &queue, ticket).await.unwrap();
                }
                _ => drop(desk.store.pop(desk.op(), &queue, 1).await.unwrap()),
            }
        };
        let (here, there, ()) = tokio::join!(soon(here), soon(there), ends);
        here.unwrap();
        there.unwrap();
    }
}

pub(super) async fn who_waits_for_what_nobody_is_told_of_does_not_wait(desk: Desk) {
    desk.put(task("a")).await;
    soon(desk.store.over(&q(), &task_id("a"))).await.unwrap();
    keep(&desk, s(60), 10).await;
    soon(desk.store.over(&q(), &task_id("stranger"))).await.unwrap();
    let (queue, id) = (q(), task_id("a"));
    let told = desk.store.over(&queue, &id);
    let (told, ()) = tokio::join!(soon(told), async {
        desk.store.limit(&queue, QueueLimits::default()).await.unwrap();
    });
    told.unwrap();
}

// ── progress ─────────────────────────────────────────────────────────────────────────────────────────────────────

fn at(percent: Option<u8>, note: &str) -> TaskProgress {
    TaskProgress { percent, note: note.to_owned() }
}

async fn beat(desk: &Desk, task: &Task, progress: Option<TaskProgress>) -> TaskExtended {
    let beat = Heartbeat { ticket: task.ticket.clone(), progress };
    desk.store.extend_tasks(&q(), vec![beat], lease(s(10))).await.unwrap()[0]
}

pub(super) async fn progress_is_noted_with_the_lease_and_ends_with_the_run(desk: Desk) {
    desk.put(task("a")).await;
    let claimed = desk.claim_one().await;
    assert_eq!(desk.info("a").await.progress, None);
    assert_eq!(beat(&desk, &claimed, Some(at(Some(40), "pages"))).await, TaskExtended::Extended);
    assert_eq!(desk.info("a").await.progress, Some(at(Some(40), "pages")));
    assert_eq!(beat(&desk, &claimed, None).await, TaskExtended::Extended);
    assert_eq!(desk.info("a").await.progress, Some(at(Some(40), "pages")), "what was noted stays");
    beat(&desk, &claimed, Some(at(None, ""))).await;
    assert_eq!(desk.info("a").await.progress, Some(at(None, "")));
    beat(&desk, &claimed, Some(at(Some(100), "é"))).await;
    fail(&desk, &claimed, "boom", false).await;
    let info = desk.info("a").await;
    assert_eq!((info.progress, info.error.as_deref()), (None, Some("boom")));
    assert_eq!(beat(&desk, &claimed, Some(at(Some(1), "late"))).await, TaskExtended::Lost);
    let again = desk.claim_one().await;
    let info = desk.info("a").await;
    assert_eq!((info.progress, info.past.len(), info.error.as_deref()), (None, 1, Some("boom")));
    beat(&desk, &again, Some(at(Some(7), "again"))).await;
    let info = desk.info("a").await;
    let (progress, worker) = (info.progress, info.worker);
    assert_eq!((progress, worker.as_deref()), (Some(at(Some(7), "again")), Some("w")));
    assert_eq!((info.past.len(), info.error.as_deref()), (1, Some("boom")));
}

pub(super) async fn results_and_progress_outside_the_limits_are_refused(desk: Desk) {
    keep(&desk, s(60), 10).await;
    desk.put(task("a")).await;
    let claimed = desk.claim_one().await;
    for wrong in [at(Some(101), ""), at(None, &"x".repeat(201)), at(None, "a\u{7}b")] {
        let beat = Heartbeat { ticket: claimed.ticket.clone(), progress: Some(wrong) };
        refused(desk.store.extend_tasks(&q(), vec![beat], lease(s(10))).await);
    }
    let content = |n| Payload::new(ContentType::bytes(), vec![7; n]).expect("a test's payload is small");
    let large = Completion::with(claimed.ticket.clone(), content(Completion::RESULT_MAX + 1));
    refused(desk.store.complete(desk.op(), &q(), vec![large]).await);
    let none = QueueLimits::default();
    for (age, count) in [(Duration::from_micros(999), 1), (s(401 * 86_400), 1), (s(1), 0), (s(1), 1_000_001)]
    {
        let retention = Some(Retention::new(age, count));
        refused(desk.store.limit(&q(), QueueLimits { retention, ..none }).await);
    }
    assert_eq!(beat(&desk, &claimed, None).await, TaskExtended::Extended);
    let largest = Completion::with(claimed.ticket, content(Completion::RESULT_MAX));
    assert_eq!(complete(&desk, largest).await, Completed::Done);
    let result = finished(&desk.info("a").await).result.clone();
    assert_eq!(result.map(|result| result.bytes().len()), Some(Completion::RESULT_MAX));
}
