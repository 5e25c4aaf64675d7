//! How tasks end: completed, failed, released, dequeued, canceled, dead.

use super::*;

// ── complete, retry, release, extend ─────────────────────────────────────────────────────────────────────────────

pub(crate) async fn a_stale_ticket_changes_nothing(desk: Desk) {
    desk.put(task("a")).await;
    let seen = desk.store.top(&q(), 1).await.unwrap().remove(0);
    let lost = desk.claim_one().await;
    desk.advance(s(11)).await;
    let present = desk.claim_one().await;
    let mut gone = lost.clone();
    gone.ticket.id = task_id("never");
    for stale in [&lost, &seen, &gone] {
        assert_eq!(complete(&desk, stale).await, Completed::Stale);
        assert_eq!(retry(&desk, failed(stale, Duration::ZERO)).await, Retried::Stale);
        assert_eq!(release(&desk, stale).await, TaskReleased::Stale);
        assert_eq!(extend(&desk, stale, s(99)).await, TaskExtended::Lost);
    }
    assert_eq!(dequeue(&desk, &lost.ticket).await, Dequeued::Stale);
    assert_eq!(desk.info("a").await.task.ticket, present.ticket);
    assert_eq!(complete(&desk, &present).await, Completed::Done);
}

pub(crate) async fn a_batch_of_completions_is_answered_one_by_one(desk: Desk) {
    desk.put_all(vec![task("a"), task("b"), task("c")]).await;
    let tasks = desk.claim(3).await.tasks;
    desk.put(with(task("b"), "new", OnDuplicate::Replace)).await;
    complete(&desk, &tasks[2]).await;
    let tickets = tasks.iter().map(|task| task.ticket.clone().into()).collect();
    let answers = desk.store.complete(desk.op(), &q(), tickets).await.unwrap();
    assert_eq!(answers, [Completed::Done, Completed::Requeued, Completed::Stale]);
}

pub(crate) async fn a_failed_task_waits_for_its_delay(desk: Desk) {
    desk.put(task("a")).await;
    let claimed = desk.claim_one().await;
    let Retried::Scheduled { due } = retry(&desk, failed(&claimed, s(20))).await else {
        panic!("attempts are left")
    };
    let info = desk.info("a").await;
    assert_eq!(
        (info.state, info.task.ticket.due, info.error),
        (TaskState::Scheduled, due, Some("boom".into()))
    );
    assert!(desk.claim(1).await.tasks.is_empty());
    desk.advance(s(21)).await;
    let again = desk.claim_one().await;
    assert_eq!((again.attempt, again.ticket.revision), (2, claimed.ticket.revision));
}

pub(crate) async fn the_last_failure_makes_a_dead_letter(desk: Desk) {
    desk.put(attempts(prio(task("a"), 3), 2)).await;
    retry_once(&desk).await;
    let claimed = desk.claim_one().await;
    assert_eq!(retry(&desk, failed(&claimed, Duration::ZERO)).await, Retried::Dead);
    assert!(desk.is_gone("a").await);
    let letters = desk.store.dead(&q(), Page::first(10)).await.unwrap();
    let letter = &letters[0];
    assert_eq!((letter.attempts, letter.max_attempts, letter.priority.get()), (2, 2, 3));
    assert_eq!((letter.error.as_str(), letter.payload.bytes()), ("boom", b"a".as_slice()));
    assert_eq!(lengths(&desk).await, (0, 0, 0, 1));
}

pub(crate) async fn giving_up_makes_a_dead_letter_at_once_and_the_latest_death_is_kept(desk: Desk) {
    kill(&desk, "a").await;
    desk.put(with(task("a"), "second life", OnDuplicate::Keep)).await;
    let task = desk.claim_one().await;
    let how = Retry { give_up: true, error: "x".repeat(3_000), ..failed(&task, Duration::ZERO) };
    assert_eq!(retry(&desk, how).await, Retried::Dead);
    let letters = desk.store.dead(&q(), Page::first(10)).await.unwrap();
    assert_eq!(letters.len(), 1);
    assert_eq!((letters[0].payload.bytes(), letters[0].error.len()), (b"second life".as_slice(), 2_000));
}

pub(crate) async fn giving_back_does_not_count_the_attempt(desk: Desk) {
    desk.put(attempts(task("a"), 1)).await;
    for _ in 0..3 {
        let claimed = desk.claim_one().await;
        assert_eq!(claimed.attempt, 1);
        assert_eq!(release(&desk, &claimed).await, TaskReleased::Waiting);
    }
    assert_eq!(lengths(&desk).await, (1, 0, 0, 0));
}

pub(crate) async fn a_task_released_or_lost_keeps_its_place_and_a_failed_one_loses_it(desk: Desk) {
    for how in ["release", "expiry", "retry"] {
        desk.put_all(vec![task("a"), task("b"), task("c")]).await;
        let before = desk.info("a").await;
        let claimed = desk.claim(2).await.tasks;
        desk.advance(ms(10)).await;
        desk.put(task("d")).await;
        desk.advance(ms(10)).await;
        match how {
            // The order in which they are released does not matter.
            "release" => {
                for task in claimed.iter().rev() {
                    assert_eq!(release(&desk, task).await, TaskReleased::Waiting);
                }
            }
            "retry" => {
                for task in &claimed {
                    let answer = retry(&desk, failed(task, Duration::ZERO)).await;
                    assert!(matches!(answer, Retried::Scheduled { .. }));
                }
            }
            _ => desk.advance(s(11)).await,
        }
        let due = desk.info("a").await.task.ticket.due;
        let (order, stays) = match how {
            "retry" => (["c", "d", "a", "b"], false),
            _ => (["a", "b", "c", "d"], true),
        };
        assert_eq!(due == before.task.ticket.due, stays, "{how}");
        assert_eq!(pop(&desk, 10).await, order, "{how}");
    }
}

pub(crate) async fn a_task_released_after_a_failure_keeps_the_place_of_its_next_attempt(desk: Desk) {
    desk.put_all(vec![task("a"), task("b")]).await;
    let claimed = desk.claim_one().await;
    assert!(matches!(retry(&desk, failed(&claimed, ms(20))).await, Retried::Scheduled { .. }));
    desk.advance(ms(20)).await;
    desk.put(task("c")).await;
    let claimed = desk.claim(2).await.tasks;
    assert_eq!(texts(&claimed), ["b", "a"]);
    assert_eq!(release(&desk, &claimed[1]).await, TaskReleased::Waiting);
    assert_eq!(pop(&desk, 10).await, ["a", "c"]);
}

pub(crate) async fn a_task_released_for_a_while_comes_again_after_it(desk: Desk) {
    desk.put(attempts(task("a"), 1)).await;
    let claimed = desk.claim_one().await;
    let back = TaskRelease { ticket: claimed.ticket, delay: s(5) };
    let answer = desk.store.release_tasks(desk.op(), &q(), vec![back]).await.unwrap();
    assert_eq!(answer, [TaskReleased::Waiting]);
    assert_eq!(lengths(&desk).await, (0, 1, 0, 0));
    near(desk.claim(1).await.next_due.unwrap(), s(5));
    desk.advance(s(5)).await;
    assert_eq!(desk.claim_one().await.attempt, 1);
}

pub(crate) async fn an_extension_keeps_the_task(desk: Desk) {
    desk.put(task("a")).await;
    let claimed = desk.claim_one().await;
    for _ in 0..3 {
        desk.advance(s(8)).await;
        assert_eq!(extend(&desk, &claimed, s(10)).await, TaskExtended::Extended);
    }
    assert!(desk.claim(1).await.tasks.is_empty());
    desk.advance(s(11)).await;
    assert_eq!(extend(&desk, &claimed, s(10)).await, TaskExtended::Lost);
}

// ── dequeue, cancel ──────────────────────────────────────────────────────────────────────────────────────────────

pub(crate) async fn a_dequeue_removes_only_what_was_read(desk: Desk) {
    desk.put(task("a")).await;
    let seen = desk.store.top(&q(), 1).await.unwrap().remove(0);
    desk.put(with(task("a"), "new", OnDuplicate::Replace)).await;
    assert_eq!(dequeue(&desk, &seen.ticket).await, Dequeued::Stale);
    let seen = desk.store.top(&q(), 1).await.unwrap().remove(0);
    assert_eq!(dequeue(&desk, &seen.ticket).await, Dequeued::Removed);
    assert!(desk.is_gone("a").await);
    assert_eq!(dequeue(&desk, &seen.ticket).await, Dequeued::Stale);
}

pub(crate) async fn a_dequeue_leaves_a_task_at_work_alone(desk: Desk) {
    desk.put(task("a")).await;
    let seen = desk.store.top(&q(), 1).await.unwrap().remove(0);
    let claimed = desk.claim_one().await;
    assert_eq!(dequeue(&desk, &seen.ticket).await, Dequeued::Leased);
    assert_eq!(complete(&desk, &claimed).await, Completed::Done);
}

pub(crate) async fn a_worker_dequeues_its_own_task(desk: Desk) {
    desk.put(task("a")).await;
    let claimed = desk.claim_one().await;
    assert_eq!(dequeue(&desk, &claimed.ticket).await, Dequeued::Removed);
    assert!(desk.is_gone("a").await);
    desk.put(task("b")).await;
    let claimed = desk.claim_one().await;
    desk.put(with(task("b"), "new", OnDuplicate::Replace)).await;
    assert_eq!(dequeue(&desk, &claimed.ticket).await, Dequeued::Removed);
    assert_eq!(pop(&desk, 1).await, ["new"], "the pending replacement stays");
}

pub(crate) async fn a_ticket_of_an_earlier_life_is_stale(desk: Desk) {
    desk.put(task("a")).await;
    let seen = desk.store.top(&q(), 1).await.unwrap().remove(0);
    pop(&desk, 1).await;
    desk.put(task("a")).await;
    assert_eq!(dequeue(&desk, &seen.ticket).await, Dequeued::Stale);
    assert!(!desk.is_gone("a").await);
}

pub(crate) async fn cancelling_removes_a_waiting_task(desk: Desk) {
    desk.put_all(vec![task("a"), after(task("b"), s(50))]).await;
    assert_eq!(cancel(&desk, "a").await, Cancelled::Removed);
    assert_eq!(cancel(&desk, "b").await, Cancelled::Removed);
    assert_eq!(cancel(&desk, "a").await, Cancelled::NotFound);
    assert_eq!(lengths(&desk).await, (0, 0, 0, 0));
}

pub(crate) async fn cancelling_a_task_at_work_tells_its_worker(desk: Desk) {
    desk.put(task("a")).await;
    let claimed = desk.claim_one().await;
    desk.put(with(task("a"), "new", OnDuplicate::Replace)).await;
    assert_eq!(cancel(&desk, "a").await, Cancelled::Marked);
    let info = desk.info("a").await;
    assert!(info.cancelled && !info.replaced);
    assert_eq!(extend(&desk, &claimed, s(10)).await, TaskExtended::Cancelled);
    assert_eq!(complete(&desk, &claimed).await, Completed::Done);
    assert!(desk.is_gone("a").await);
}

pub(crate) async fn what_is_put_in_after_a_cancel_runs_after_the_cancelled_run(desk: Desk) {
    desk.put(task("a")).await;
    let claimed = desk.claim_one().await;
    assert_eq!(cancel(&desk, "a").await, Cancelled::Marked);
    let Enqueued::Replaced { revision } = desk.put(with(task("a"), "new", OnDuplicate::Keep)).await else {
        panic!("what is cancelled is not kept")
    };
    let again = desk.put(with(task("a"), "newer", OnDuplicate::Keep)).await;
    assert_eq!(again, Enqueued::Kept { revision }, "the pending replacement is kept");
    assert_eq!(retry(&desk, failed(&claimed, s(9))).await, Retried::Requeued);
    let next = desk.claim_one().await;
    assert_eq!((next.payload.bytes(), next.attempt), (&b"new"[..], 1));
    assert_eq!(complete(&desk, &next).await, Completed::Done);
}

pub(crate) async fn a_cancelled_task_does_not_run_again(desk: Desk) {
    for how in ["retry", "release", "expiry"] {
        desk.put(attempts(task("a"), 5)).await;
        let claimed = desk.claim_one().await;
        assert_eq!(cancel(&desk, "a").await, Cancelled::Marked);
        match how {
            "retry" => assert_eq!(retry(&desk, failed(&claimed, s(1))).await, Retried::Cancelled),
            "release" => assert_eq!(release(&desk, &claimed).await, TaskReleased::Cancelled),
            _ => desk.advance(s(11)).await,
        }
        assert!(desk.is_gone("a").await, "{how}");
    }
    assert!(dead(&desk).await.is_empty());
}

pub(crate) async fn a_cancelled_task_that_fails_is_gone_and_no_dead_letter(desk: Desk) {
    for (max, give_up) in [(5, false), (5, true), (1, false)] {
        desk.put(attempts(task("a"), max)).await;
        let claimed = desk.claim_one().await;
        assert_eq!(cancel(&desk, "a").await, Cancelled::Marked);
        let how = Retry { give_up, ..failed(&claimed, Duration::ZERO) };
        assert_eq!(retry(&desk, how.clone()).await, Retried::Cancelled, "{how:?}");
        assert_eq!(retry(&desk, how).await, Retried::Stale);
        assert!(desk.is_gone("a").await);
    }
    assert_eq!(lengths(&desk).await, (0, 0, 0, 0), "nothing is left, and nothing is dead");
}

// ── dead letters ─────────────────────────────────────────────────────────────────────────────────────────────────

pub(crate) async fn dead_letters_are_listed_in_pages(desk: Desk) {
    for id in ["c", "a", "b"] {
        kill(&desk, id).await;
    }
    assert_eq!(dead(&desk).await, ["a", "b", "c"]);
    let page = desk.store.dead(&q(), Page::after("a".into(), 1)).await.unwrap();
    assert_eq!(page.iter().map(|letter| letter.id.as_str()).collect::<Vec<_>>(), ["b"]);
}

pub(crate) async fn a_dead_letter_is_found_by_its_id(desk: Desk) {
    let find = |id: &str| desk.store.dead_letter(&q(), &task_id(id));
    assert_eq!(find("a").await.unwrap(), None, "a queue that was never used has none");
    for id in ["a", "ab", "b"] {
        desk.put(attempts(task(id), 1)).await;
    }
    for _ in 0..2 {
        let claimed = desk.claim_one().await;
        retry(&desk, failed(&claimed, s(0))).await;
    }
    let found = find("ab").await.unwrap().expect("it is dead");
    assert_eq!((found.id.as_str(), found.error.as_str(), found.attempts), ("ab", "boom", 1));
    assert_eq!(desk.store.dead(&q(), Page::first(10)).await.unwrap()[1], found);
    assert_eq!(find("b").await.unwrap(), None, "it is live");
    let _lost = desk.claim_one().await;
    desk.advance(s(11)).await;
    assert_eq!(find("b").await.unwrap().expect("it is dead").error, "lease expired");
}

pub(crate) async fn a_requeued_task_has_all_its_attempts(desk: Desk) {
    kill(&desk, "a").await;
    kill(&desk, "b").await;
    let only_a = Selection::Ids(vec![task_id("a"), task_id("unknown")]);
    let answer = desk.store.requeue_dead(desk.op(), &q(), only_a).await.unwrap();
    assert_eq!((answer.requeued, answer.kept), (1, 0));
    assert_eq!(dead(&desk).await, ["b"]);
    let task = desk.claim_one().await;
    assert_eq!((text(&task), task.attempt, task.max_attempts), ("a".into(), 1, NewTask::MAX_ATTEMPTS));
    assert_eq!(desk.store.requeue_dead(desk.op(), &q(), Selection::All).await.unwrap().requeued, 1);
}

pub(crate) async fn a_dead_letter_stays_dead_while_its_id_is_live_or_the_queue_full(desk: Desk) {
    for id in ["a", "b", "c"] {
        kill(&desk, id).await;
    }
    desk.put(task("a")).await;
    desk.store.limit(&q(), QueueLimits { bound: Some(2), ..QueueLimits::default() }).await.unwrap();
    let answer = desk.store.requeue_dead(desk.op(), &q(), Selection::All).await.unwrap();
    assert_eq!((answer.requeued, answer.kept), (1, 2));
    assert_eq!(dead(&desk).await, ["a", "c"]);
}

pub(crate) async fn dead_letters_can_be_deleted(desk: Desk) {
    for id in ["a", "b", "c"] {
        kill(&desk, id).await;
    }
    let some = Selection::Ids(vec![task_id("b"), task_id("unknown")]);
    assert_eq!(desk.store.delete_dead(desk.op(), &q(), some).await.unwrap(), 1);
    assert_eq!(desk.store.delete_dead(desk.op(), &q(), Selection::All).await.unwrap(), 2);
    assert!(dead(&desk).await.is_empty());
}
