//! Contract of queues that are reserved for the orders of sales.

use std::time::Duration;

use rushgate_core::{
    Claim, Completed, Completion, Created, Fire, Heartbeat, Listing, NewSchedule, NewTask, OnDuplicate, Page,
    Priority, QueueLimits, QueueName, QueueStats, Relay, ReleaseWith, Result, Retry, SaleSpec, ScheduleId,
    Selection, Task, TaskExtended, TaskRelease, TaskReleased, Timestamp, UniqueCleared, Verbs,
};

use super::desk::*;

fn q() -> QueueName {
    queue_name("q")
}

/// The visible state of the queue.
async fn state(desk: &Desk) -> (QueueStats, Vec<Task>) {
    let stats = QueueStats { lag_ms: 0, ..desk.store.stats(&q()).await.unwrap() };
    (stats, desk.store.top(&q(), 10).await.unwrap())
}

fn a_claim(n: u32) -> Claim {
    Claim { n, lease: lease(s(10)), worker: "w".into() }
}

fn failed(task: &Task, give_up: bool) -> Retry {
    Retry { ticket: task.ticket.clone(), delay: Duration::ZERO, error: "boom".into(), give_up }
}

fn a_schedule() -> NewSchedule {
    NewSchedule {
        id: ScheduleId::new("nightly").unwrap(),
        recurrence: "daily".into(),
        payload: payload(""),
        priority: Priority::default(),
        max_attempts: 1,
        next: Some(Timestamp::from_micros(1)),
        paused: None,
        as_of: None,
    }
}

/// A sale with three orders: waiting, running, and dead.
async fn three_orders(desk: &Desk) -> (Task, Task) {
    desk.sell_with_orders(&[("a", 9, 9)]).await;
    for buyer in ["ann", "bob", "cid"] {
        reserved(desk.buy(buyer, vec![line("a", 1)]).await);
    }
    fail_for_good(desk).await;
    let at_work = desk.claim_one().await;
    let waiting = desk.store.top(&q(), 1).await.unwrap().remove(0);
    (waiting, at_work)
}

pub(super) async fn a_foreign_verb_on_an_orders_queue_is_refused_and_changes_nothing(desk: Desk) {
    #[track_caller]
    fn refused<T: std::fmt::Debug>(verb: &str, answer: Result<T>) {
        let error = answer.expect_err(verb);
        assert!(error.is_queue_reserved() && !error.may_have_happened(), "{verb}: {error:?}");
        assert!(error.hint_text().is_some(), "{verb}: it says what to do");
    }

    let (waiting, at_work) = three_orders(&desk).await;
    let before = state(&desk).await;
    for store in [&*desk.store, &*desk.peer()] {
        let (ticket, held) = (&waiting.ticket, &at_work.ticket);
        refused("enqueue", store.enqueue(desk.op(), &q(), vec![task("a")]).await);
        refused("replace", store.enqueue(desk.op(), &q(), vec![forged(&waiting)]).await);
        refused("pop", store.pop(desk.op(), &q(), 1).await);
        refused("claim", store.claim(desk.op(), &q(), a_claim(1)).await);
        let done = vec![Completion::from(held.clone())];
        refused("complete", store.complete(desk.op(), &q(), done).await);
        let done = vec![Completion { result: Some(payload("r")), ..held.clone().into() }];
        refused("complete with a result", store.complete(desk.op(), &q(), done).await);
        refused("retry", store.retry(desk.op(), &q(), vec![failed(&at_work, true)]).await);
        let back = TaskRelease { ticket: held.clone(), delay: Duration::ZERO };
        refused("release", store.release_tasks(desk.op(), &q(), vec![back]).await);
        let beat = Heartbeat { ticket: held.clone(), progress: None };
        refused("extend", store.extend_tasks(&q(), vec![beat], lease(s(60))).await);
        refused("dequeue", store.dequeue(desk.op(), &q(), ticket.clone()).await);
        refused("dequeue what is at work", store.dequeue(desk.op(), &q(), held.clone()).await);
        refused("cancel", store.cancel(desk.op(), &q(), &ticket.id).await);
        refused("close", store.close_batch(desk.op(), &q(), &ticket.id).await);
        refused("pause", store.pause(&q()).await);
        refused("limit", store.limit(&q(), QueueLimits { bound: Some(1), ..QueueLimits::default() }).await);
        refused("requeue_dead", store.requeue_dead(desk.op(), &q(), Selection::All).await);
        refused("delete_dead", store.delete_dead(desk.op(), &q(), Selection::All).await);
        refused("schedule", store.schedule(&q(), a_schedule()).await);
        let outbox = "shop".parse().unwrap();
        refused("relay", store.relay(&q(), Relay { outbox, tasks: vec![(1, task("a"))] }).await);
        let token = desk.token();
        granted(desk.try_lock(token).await);
        let release = ReleaseWith { name: lock_name("l"), token, queue: q(), task: task("a") };
        refused("release with a task", store.release_with(desk.op(), release).await);
        assert!(store.held(&lock_name("l"), token).await.unwrap().is_some(), "the lock is held as before");
        store.release(&lock_name("l"), token).await.unwrap();

        let fire = Fire { id: a_schedule().id, revision: ticket.revision, runs: Vec::new(), next: None };
        refused("fire", store.fire(&q(), fire).await);
        // Such a queue has neither schedules nor uniqueness windows, so there is nothing to refuse.
        assert!(!store.unschedule(&q(), &a_schedule().id).await.unwrap());
        assert_eq!(store.clear_unique(desk.op(), &q(), &ticket.id).await.unwrap(), UniqueCleared::NotFound);
    }
    assert_eq!(state(&desk).await, before);
    let extended = vec![Heartbeat { ticket: at_work.ticket.clone(), progress: None }];
    let extended = desk.orders.extend_tasks(&q(), extended, lease(s(10))).await.unwrap();
    assert_eq!(extended, [TaskExtended::Extended], "the order worker has its order still");
    desk.audited().await;
}

/// A different payload for a waiting task.
fn forged(of: &Task) -> NewTask {
    let task = NewTask::new(of.ticket.id.clone(), of.payload.clone());
    with(task, "forged", OnDuplicate::Replace)
}

pub(super) async fn an_orders_queue_is_read_by_anybody(desk: Desk) {
    let (waiting, at_work) = three_orders(&desk).await;
    let (id, all) = (&waiting.ticket.id, Listing { state: None, after: String::new(), limit: 10 });
    assert_eq!(desk.store.top(&q(), 5).await.unwrap(), std::slice::from_ref(&waiting));
    assert!(desk.store.task(&q(), &at_work.ticket.id).await.unwrap().is_some());
    assert_eq!(desk.store.tasks(&q(), all).await.unwrap().len(), 2);
    let stats = desk.store.stats(&q()).await.unwrap();
    assert_eq!((stats.ready, stats.leased, stats.dead), (1, 1, 1));
    let dead = desk.store.dead(&q(), "", 5).await.unwrap();
    assert_eq!(desk.store.dead_letter(&q(), &dead[0].id).await.unwrap().as_ref(), dead.first());
    assert!(desk.store.waits(&q(), id).await.unwrap().is_none());
    assert!(desk.store.waited(&q(), id, "", 5).await.unwrap().is_empty());
    assert!(desk.store.unique_until(&q(), id).await.unwrap().is_none());
    assert!(desk.store.task_events(&q(), 0, 5).await.unwrap().events.is_empty());
    assert!(desk.store.schedules(&q(), Page::default()).await.unwrap().is_empty());
    assert!(desk.store.due_schedules(&q(), 5).await.unwrap().due.is_empty());
    let mark = Relay { outbox: "shop".parse().unwrap(), tasks: Vec::new() };
    assert_eq!(desk.store.relay(&q(), mark).await.unwrap().upto, 0);
    // Any read after the expiry of a lease ends the lease, as in any queue.
    desk.advance(s(11)).await;
    assert_eq!(desk.store.stats(&q()).await.unwrap().ready, 2);
}

pub(super) async fn an_order_worker_works_an_orders_queue_off(desk: Desk) {
    let (_, at_work) = three_orders(&desk).await;
    let back = TaskRelease { ticket: at_work.ticket, delay: Duration::ZERO };
    assert_eq!(
        desk.orders.release_tasks(desk.op(), &q(), vec![back]).await.unwrap(),
        [TaskReleased::Waiting]
    );
    let requeued = desk.orders.requeue_dead(desk.op(), &q(), Selection::All).await.unwrap();
    assert_eq!((requeued.requeued, requeued.kept), (1, 0));
    desk.orders.pause(&q()).await.unwrap();
    assert!(desk.claim(3).await.tasks.is_empty());
    desk.orders.resume(&q()).await.unwrap();
    let claimed = desk.claim(3).await.tasks;
    assert_eq!(claimed.len(), 3);
    desk.orders.retry(desk.op(), &q(), vec![failed(&claimed[0], true)]).await.unwrap();
    assert_eq!(desk.orders.delete_dead(desk.op(), &q(), Selection::All).await.unwrap(), 1);
    let done = claimed[1..].iter().map(|task| task.ticket.clone().into()).collect();
    assert_eq!(desk.orders.complete(desk.op(), &q(), done).await.unwrap(), [Completed::Done; 2]);
    let stats = desk.store.stats(&q()).await.unwrap();
    assert_eq!((stats.ready, stats.leased, stats.dead), (0, 0, 0));
}

pub(super) async fn an_orders_queue_must_never_have_been_used(desk: Desk) {
    desk.put(task("anothers")).await;
    refused(desk.store.create(desk.spec(&[("a", 1, 1)], true)).await);
    work_off(&desk).await;
    refused(desk.store.create(desk.spec(&[("a", 1, 1)], true)).await);
    added(desk.store.enqueue(desk.op(), &q(), vec![task("more")]).await.unwrap().remove(0));
}

pub(super) async fn a_sale_that_the_store_lost_takes_its_orders_queue_over(desk: Desk) {
    desk.put(task("anothers")).await;
    let spec = desk.spec(&[("a", 1, 1)], true);
    assert_eq!(desk.orders.create(spec).await.unwrap(), Created::Created);
    let refused = desk.store.pop(desk.op(), &q(), 1).await.unwrap_err();
    assert!(refused.is_queue_reserved(), "{refused:?}");
    desk.orders.pause(&q()).await.unwrap();
    desk.orders.resume(&q()).await.unwrap();
    desk.store.open(&sale_id("s")).await.unwrap();
    reserved(desk.buy("ann", vec![line("a", 1)]).await);
    let claimed = desk.orders.claim(desk.op(), &q(), a_claim(3)).await.unwrap().tasks;
    assert_eq!(claimed.len(), 2, "the other task and the order");
}

pub(super) async fn sales_may_share_an_orders_queue(desk: Desk) {
    desk.sell_with_orders(&[("a", 1, 1)]).await;
    let other = SaleSpec { id: sale_id("t"), ..desk.spec(&[("a", 1, 1)], true) };
    assert_eq!(desk.store.create(other).await.unwrap(), Created::Created);
    assert_eq!(desk.store.create(desk.spec(&[("a", 1, 1)], true)).await.unwrap(), Created::Created);
    reserved(desk.buy("ann", vec![line("a", 1)]).await);
    assert_eq!(desk.store.stats(&q()).await.unwrap().ready, 1);
}

pub(super) async fn a_refused_sale_leaves_nothing(desk: Desk) {
    desk.put(task("anothers")).await;
    refused(desk.store.create(desk.spec(&[("a", 1, 1)], true)).await);
    unknown(desk.store.sale(&sale_id("s")).await);
    assert!(desk.store.sales(Page::default()).await.unwrap().is_empty());
    assert_eq!(desk.store.create(desk.spec(&[("a", 1, 1)], false)).await.unwrap(), Created::Created);
    // An existing sale keeps its queue, and a different sale with its ID reserves none.
    let other = SaleSpec { orders: Some(queue_name("untouched")), ..desk.spec(&[("b", 1, 1)], true) };
    assert_eq!(desk.store.create(other).await.unwrap(), Created::Exists);
    let put = desk.store.enqueue(desk.op(), &queue_name("untouched"), vec![task("a")]).await.unwrap();
    added(put[0].clone());
}
