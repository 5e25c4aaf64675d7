//! How tasks end: completed, failed, released, dequeued, canceled, dead.

use super::*;

// ── complete, retry, release, extend ─────────────────────────────────────────────────────────────────────────────

pub(crate) async fn a_stale_ticket_changes_nothing(fixture: Fixture) {
    fixture.put(task("a")).await;
    let seen = fixture.store.top(&q(), 1).await.unwrap().remove(0);
    let lost = fixture.claim_one().await;
    fixture.advance(s(11)).await;
    let present = fixture.claim_one().await;
    let mut gone = lost.clone();
    gone.ticket.id = task_id("never");
    for stale in [&lost, &seen, &gone] {
        assert_eq!(complete(&fixture, stale).await, Completed::Stale);
        assert_eq!(retry(&fixture, failed(stale, Duration::ZERO)).await, Retried::Stale);
        assert_eq!(release(&fixture, stale).await, TaskReleased::Stale);
        assert_eq!(extend(&fixture, stale, s(99)).await, TaskExtended::Lost);
    }
    assert_eq!(dequeue(&fixture, &lost.ticket).await, Dequeued::Stale);
    assert_eq!(fixture.info("a").await.task.ticket, present.ticket);
    assert_eq!(complete(&fixture, &present).await, Completed::Done);
}

pub(crate) async fn a_batch_of_completions_has_an_answer_per_task(fixture: Fixture) {
    fixture.put_all(vec![task("a"), task("b"), task("c")]).await;
    let tasks = fixture.claim(3).await.tasks;
    fixture.put(with(task("b"), "new", OnDuplicate::Replace)).await;
    complete(&fixture, &tasks[2]).await;
    let tickets = tasks.iter().map(|task| task.ticket.clone().into()).collect();
    let answers = fixture.store.complete(fixture.op(), &q(), tickets).await.unwrap();
    assert_eq!(answers, [Completed::Done, Completed::Requeued, Completed::Stale]);
}

pub(crate) async fn a_failed_task_waits_for_its_delay(fixture: Fixture) {
    fixture.put(task("a")).await;
    let claimed = fixture.claim_one().await;
    let Retried::Scheduled { due } = retry(&fixture, failed(&claimed, s(20))).await else {
        panic!("attempts are left")
    };
    let info = fixture.info("a").await;
    assert_eq!(
        (info.state, info.task.ticket.due, info.error),
        (TaskState::Scheduled, due, Some("boom".into()))
    );
    assert!(fixture.claim(1).await.tasks.is_empty());
    fixture.advance(s(21)).await;
    let again = fixture.claim_one().await;
    assert_eq!((again.attempt, again.ticket.revision), (2, claimed.ticket.revision));
}

pub(crate) async fn the_last_failure_makes_a_dead_letter(fixture: Fixture) {
    fixture.put(attempts(prio(task("a"), 3), 2)).await;
    retry_once(&fixture).await;
    let claimed = fixture.claim_one().await;
    assert_eq!(retry(&fixture, failed(&claimed, Duration::ZERO)).await, Retried::Dead);
    assert!(fixture.is_gone("a").await);
    let letters = fixture.store.dead(&q(), Page::first(10)).await.unwrap();
    let letter = &letters[0];
    assert_eq!((letter.attempts, letter.max_attempts, letter.priority.get()), (2, 2, 3));
    assert_eq!((letter.error.as_str(), letter.payload.bytes()), ("boom", b"a".as_slice()));
    assert_eq!(lengths(&fixture).await, (0, 0, 0, 1));
}

pub(crate) async fn giving_up_makes_a_dead_letter_at_once_and_the_latest_death_is_kept(fixture: Fixture) {
    kill(&fixture, "a").await;
    fixture.put(with(task("a"), "second life", OnDuplicate::Keep)).await;
    let task = fixture.claim_one().await;
    let how = Retry { give_up: true, error: "x".repeat(3_000), ..failed(&task, Duration::ZERO) };
    assert_eq!(retry(&fixture, how).await, Retried::Dead);
    let letters = fixture.store.dead(&q(), Page::first(10)).await.unwrap();
    assert_eq!(letters.len(), 1);
    assert_eq!((letters[0].payload.bytes(), letters[0].error.len()), (b"second life".as_slice(), 2_000));
}

pub(crate) async fn giving_back_does_not_count_the_attempt(fixture: Fixture) {
    fixture.put(attempts(task("a"), 1)).await;
    for _ in 0..3 {
        let claimed = fixture.claim_one().await;
        assert_eq!(claimed.attempt, 1);
        assert_eq!(release(&fixture, &claimed).await, TaskReleased::Waiting);
    }
    assert_eq!(lengths(&fixture).await, (1, 0, 0, 0));
}

pub(crate) async fn a_task_released_or_lost_keeps_its_place_and_a_failed_one_loses_it(fixture: Fixture) {
    for how in ["release", "expiry", "retry"] {
        fixture.put_all(vec![task("a"), task("b"), task("c")]).await;
        let before = fixture.info("a").await;
        let claimed = fixture.claim(2).await.tasks;
        fixture.advance(ms(10)).await;
        fixture.put(task("d")).await;
        fixture.advance(ms(10)).await;
        match how {
            // The order in which they are released does not matter.
            "release" => {
                for task in claimed.iter().rev() {
                    assert_eq!(release(&fixture, task).await, TaskReleased::Waiting);
                }
            }
            "retry" => {
                for task in &claimed {
                    let answer = retry(&fixture, failed(task, Duration::ZERO)).await;
                    assert!(matches!(answer, Retried::Scheduled { .. }));
                }
            }
            _ => fixture.advance(s(11)).await,
        }
        let due = fixture.info("a").await.task.ticket.due;
        let (order, stays) = match how {
            "retry" => (["c", "d", "a", "b"], false),
            _ => (["a", "b", "c", "d"], true),
        };
        assert_eq!(due == before.task.ticket.due, stays, "{how}");
        assert_eq!(pop(&fixture, 10).await, order, "{how}");
    }
}

pub(crate) async fn a_task_released_after_a_failure_keeps_the_place_of_its_next_attempt(fixture: Fixture) {
    fixture.put_all(vec![task("a"), task("b")]).await;
    let claimed = fixture.claim_one().await;
    assert!(matches!(retry(&fixture, failed(&claimed, ms(20))).await, Retried::Scheduled { .. }));
    fixture.advance(ms(20)).await;
    fixture.put(task("c")).await;
    let claimed = fixture.claim(2).await.tasks;
    assert_eq!(texts(&claimed), ["b", "a"]);
    assert_eq!(release(&fixture, &claimed[1]).await, TaskReleased::Waiting);
    assert_eq!(pop(&fixture, 10).await, ["a", "c"]);
}

pub(crate) async fn a_task_released_for_a_while_comes_again_after_it(fixture: Fixture) {
    fixture.put(attempts(task("a"), 1)).await;
    let claimed = fixture.claim_one().await;
    let back = TaskRelease { ticket: claimed.ticket, delay: s(5) };
    let answer = fixture.store.release_tasks(fixture.op(), &q(), vec![back]).await.unwrap();
    assert_eq!(answer, [TaskReleased::Waiting]);
    assert_eq!(lengths(&fixture).await, (0, 1, 0, 0));
    near(fixture.claim(1).await.next_due.unwrap(), s(5));
    fixture.advance(s(5)).await;
    assert_eq!(fixture.claim_one().await.attempt, 1);
}

pub(crate) async fn an_extension_keeps_the_task(fixture: Fixture) {
    fixture.put(task("a")).await;
    let claimed = fixture.claim_one().await;
    for _ in 0..3 {
        fixture.advance(s(8)).await;
        assert_eq!(extend(&fixture, &claimed, s(10)).await, TaskExtended::Extended);
    }
    assert!(fixture.claim(1).await.tasks.is_empty());
    fixture.advance(s(11)).await;
    assert_eq!(extend(&fixture, &claimed, s(10)).await, TaskExtended::Lost);
}

// ── dequeue, cancel ──────────────────────────────────────────────────────────────────────────────────────────────

pub(crate) async fn a_dequeue_removes_only_what_was_read(fixture: Fixture) {
    fixture.put(task("a")).await;
    let seen = fixture.store.top(&q(), 1).await.unwrap().remove(0);
    fixture.put(with(task("a"), "new", OnDuplicate::Replace)).await;
    assert_eq!(dequeue(&fixture, &seen.ticket).await, Dequeued::Stale);
    let seen = fixture.store.top(&q(), 1).await.unwrap().remove(0);
    assert_eq!(dequeue(&fixture, &seen.ticket).await, Dequeued::Removed);
    assert!(fixture.is_gone("a").await);
    assert_eq!(dequeue(&fixture, &seen.ticket).await, Dequeued::Stale);
}

pub(crate) async fn a_dequeue_leaves_a_task_at_work_alone(fixture: Fixture) {
    fixture.put(task("a")).await;
    let seen = fixture.store.top(&q(), 1).await.unwrap().remove(0);
    let claimed = fixture.claim_one().await;
    assert_eq!(dequeue(&fixture, &seen.ticket).await, Dequeued::Leased);
    assert_eq!(complete(&fixture, &claimed).await, Completed::Done);
}

pub(crate) async fn a_worker_dequeues_its_own_task(fixture: Fixture) {
    fixture.put(task("a")).await;
    let claimed = fixture.claim_one().await;
    assert_eq!(dequeue(&fixture, &claimed.ticket).await, Dequeued::Removed);
    assert!(fixture.is_gone("a").await);
    fixture.put(task("b")).await;
    let claimed = fixture.claim_one().await;
    fixture.put(with(task("b"), "new", OnDuplicate::Replace)).await;
    assert_eq!(dequeue(&fixture, &claimed.ticket).await, Dequeued::Removed);
    assert_eq!(pop(&fixture, 1).await, ["new"], "the pending replacement stays");
}

pub(crate) async fn a_ticket_of_an_earlier_life_is_stale(fixture: Fixture) {
    fixture.put(task("a")).await;
    let seen = fixture.store.top(&q(), 1).await.unwrap().remove(0);
    pop(&fixture, 1).await;
    fixture.put(task("a")).await;
    assert_eq!(dequeue(&fixture, &seen.ticket).await, Dequeued::Stale);
    assert!(!fixture.is_gone("a").await);
}

pub(crate) async fn cancelling_removes_a_waiting_task(fixture: Fixture) {
    fixture.put_all(vec![task("a"), after(task("b"), s(50))]).await;
    assert_eq!(cancel(&fixture, "a").await, Cancelled::Removed);
    assert_eq!(cancel(&fixture, "b").await, Cancelled::Removed);
    assert_eq!(cancel(&fixture, "a").await, Cancelled::NotFound);
    assert_eq!(lengths(&fixture).await, (0, 0, 0, 0));
}

pub(crate) async fn cancelling_a_task_at_work_tells_its_worker(fixture: Fixture) {
    fixture.put(task("a")).await;
    let claimed = fixture.claim_one().await;
    fixture.put(with(task("a"), "new", OnDuplicate::Replace)).await;
    assert_eq!(cancel(&fixture, "a").await, Cancelled::Marked);
    let info = fixture.info("a").await;
    assert!(info.cancelled && !info.replaced);
    assert_eq!(extend(&fixture, &claimed, s(10)).await, TaskExtended::Cancelled);
    assert_eq!(complete(&fixture, &claimed).await, Completed::Done);
    assert!(fixture.is_gone("a").await);
}

pub(crate) async fn a_task_enqueued_after_a_cancel_runs_after_the_canceled_run(fixture: Fixture) {
    fixture.put(task("a")).await;
    let claimed = fixture.claim_one().await;
    assert_eq!(cancel(&fixture, "a").await, Cancelled::Marked);
    let Enqueued::Replaced { revision } = fixture.put(with(task("a"), "new", OnDuplicate::Keep)).await else {
        panic!("what is cancelled is not kept")
    };
    let again = fixture.put(with(task("a"), "newer", OnDuplicate::Keep)).await;
    assert_eq!(again, Enqueued::Kept { revision }, "the pending replacement is kept");
    assert_eq!(retry(&fixture, failed(&claimed, s(9))).await, Retried::Requeued);
    let next = fixture.claim_one().await;
    assert_eq!((next.payload.bytes(), next.attempt), (&b"new"[..], 1));
    assert_eq!(complete(&fixture, &next).await, Completed::Done);
}

pub(crate) async fn a_cancelled_task_does_not_run_again(fixture: Fixture) {
    for how in ["retry", "release", "expiry"] {
        fixture.put(attempts(task("a"), 5)).await;
        let claimed = fixture.claim_one().await;
        assert_eq!(cancel(&fixture, "a").await, Cancelled::Marked);
        match how {
            "retry" => assert_eq!(retry(&fixture, failed(&claimed, s(1))).await, Retried::Cancelled),
            "release" => assert_eq!(release(&fixture, &claimed).await, TaskReleased::Cancelled),
            _ => fixture.advance(s(11)).await,
        }
        assert!(fixture.is_gone("a").await, "{how}");
    }
    assert!(dead(&fixture).await.is_empty());
}

pub(crate) async fn a_cancelled_task_that_fails_is_gone_and_no_dead_letter(fixture: Fixture) {
    for (max, give_up) in [(5, false), (5, true), (1, false)] {
        fixture.put(attempts(task("a"), max)).await;
        let claimed = fixture.claim_one().await;
        assert_eq!(cancel(&fixture, "a").await, Cancelled::Marked);
        let how = Retry { give_up, ..failed(&claimed, Duration::ZERO) };
        assert_eq!(retry(&fixture, how.clone()).await, Retried::Cancelled, "{how:?}");
        assert_eq!(retry(&fixture, how).await, Retried::Stale);
        assert!(fixture.is_gone("a").await);
    }
    assert_eq!(lengths(&fixture).await, (0, 0, 0, 0), "nothing is left, and nothing is dead");
}

// ── dead letters ─────────────────────────────────────────────────────────────────────────────────────────────────

pub(crate) async fn dead_letters_are_listed_in_pages(fixture: Fixture) {
    for id in ["c", "a", "b"] {
        kill(&fixture, id).await;
    }
    assert_eq!(dead(&fixture).await, ["a", "b", "c"]);
    let page = fixture.store.dead(&q(), Page::after("a".into(), 1)).await.unwrap();
    assert_eq!(page.iter().map(|letter| letter.id.as_str()).collect::<Vec<_>>(), ["b"]);
}

pub(crate) async fn a_dead_letter_is_found_by_its_id(fixture: Fixture) {
    let find = |id: &str| fixture.store.dead_letter(&q(), &task_id(id));
    assert_eq!(find("a").await.unwrap(), None, "a queue that was never used has none");
    for id in ["a", "ab", "b"] {
        fixture.put(attempts(task(id), 1)).await;
    }
    for _ in 0..2 {
        let claimed = fixture.claim_one().await;
        retry(&fixture, failed(&claimed, s(0))).await;
    }
    let found = find("ab").await.unwrap().expect("it is dead");
    assert_eq!((found.id.as_str(), found.error.as_str(), found.attempts), ("ab", "boom", 1));
    assert_eq!(fixture.store.dead(&q(), Page::first(10)).await.unwrap()[1], found);
    assert_eq!(find("b").await.unwrap(), None, "it is live");
    let _lost = fixture.claim_one().await;
    fixture.advance(s(11)).await;
    assert_eq!(find("b").await.unwrap().expect("it is dead").error, "lease expired");
}

pub(crate) async fn a_requeued_task_has_all_its_attempts(fixture: Fixture) {
    kill(&fixture, "a").await;
    kill(&fixture, "b").await;
    let only_a = Selection::Ids(vec![task_id("a"), task_id("unknown")]);
    let answer = fixture.store.requeue_dead(fixture.op(), &q(), only_a).await.unwrap();
    assert_eq!((answer.requeued, answer.kept), (1, 0));
    assert_eq!(dead(&fixture).await, ["b"]);
    let task = fixture.claim_one().await;
    assert_eq!((text(&task), task.attempt, task.max_attempts), ("a".into(), 1, NewTask::MAX_ATTEMPTS));
    assert_eq!(fixture.store.requeue_dead(fixture.op(), &q(), Selection::All).await.unwrap().requeued, 1);
}

pub(crate) async fn a_dead_letter_stays_dead_while_its_id_is_live_or_the_queue_full(fixture: Fixture) {
    for id in ["a", "b", "c"] {
        kill(&fixture, id).await;
    }
    fixture.put(task("a")).await;
    fixture.store.limit(&q(), QueueLimits { bound: Some(2), ..QueueLimits::default() }).await.unwrap();
    let answer = fixture.store.requeue_dead(fixture.op(), &q(), Selection::All).await.unwrap();
    assert_eq!((answer.requeued, answer.kept), (1, 2));
    assert_eq!(dead(&fixture).await, ["a", "c"]);
}

pub(crate) async fn dead_letters_can_be_deleted(fixture: Fixture) {
    for id in ["a", "b", "c"] {
        kill(&fixture, id).await;
    }
    let some = Selection::Ids(vec![task_id("b"), task_id("unknown")]);
    assert_eq!(fixture.store.delete_dead(fixture.op(), &q(), some).await.unwrap(), 1);
    assert_eq!(fixture.store.delete_dead(fixture.op(), &q(), Selection::All).await.unwrap(), 2);
    assert!(dead(&fixture).await.is_empty());
}
