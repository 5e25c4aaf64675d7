//! The queue API: typed content, blocking claims, and rollback of dropped claims.

use std::time::Duration;

use crate::common::{Bench, eventually, ms, secs};
use rushgate::queue::{
    Closed, Completed, Dequeued, Followed, IfDead, KeyLimits, OnDuplicate, QueueLimits, Rate, Retried, Retry,
    Selection, Task, TaskKey, UniqueCleared, Unmet, Why,
};
use rushgate::store::Page;
use rushgate::{Enqueued, Error, Queue, Rushgate};
use serde::{Deserialize, Serialize};

on_each_store! {
    content_survives_as_json
    a_second_enqueue_is_kept_or_replaces_as_asked
    what_is_outside_its_range_is_refused
    a_delayed_task_is_claimed_when_it_is_due_and_not_before
    a_blocking_claim_wakes_when_a_task_comes
    blocking_claims_wake_for_delays_that_began_after_them
    every_blocking_claim_gets_its_task
    a_dropped_claim_gives_its_tasks_back
    a_ticket_acts_on_its_own_revision_only
    dead_letters_can_be_retried_and_deleted
    a_paused_queue_gives_nothing_out
    a_task_that_waits_says_for_what
    a_task_says_why_it_is_not_running
    a_task_says_which_limit_of_its_key_it_waits_for
    a_task_says_who_keeps_the_queue_busy_and_who_is_first_in_its_line
    an_id_is_taken_once_in_its_period_unless_its_window_is_cleared
    a_follower_of_a_queue_is_notified_of_each_event_once_and_of_what_was_missed
}

on_a_cluster! {
    every_blocking_claim_gets_its_task
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Mail {
    to: String,
    copies: u32,
}

fn mail(client: &Rushgate) -> Queue<Mail> {
    client.queue_of("mail").unwrap()
}

fn to(name: &str) -> Mail {
    Mail { to: name.to_owned(), copies: 1 }
}

async fn claim_one<T>(queue: &Queue<T>) -> Task {
    queue.claim_wait(1, secs(30), secs(20)).await.unwrap().pop().expect("a task is due")
}

async fn content_survives_as_json(bench: Bench) {
    let queue = mail(&bench.client());
    queue.enqueue("1", to("ann")).send().await.unwrap();
    let task = claim_one(&queue).await;
    assert_eq!(queue.read(&task.payload).unwrap(), to("ann"));
    assert_eq!(task.payload.content_type().as_str(), "application/json");
    let other = bench.client().queue_of::<u64>("mail").unwrap();
    assert!(other.read(&task.payload).unwrap_err().is_invalid());
}

async fn a_second_enqueue_is_kept_or_replaces_as_asked(bench: Bench) {
    let queue = mail(&bench.client());
    assert!(matches!(queue.enqueue("1", to("ann")).send().await.unwrap(), Enqueued::Added { .. }));
    assert!(matches!(queue.enqueue("1", to("bob")).send().await.unwrap(), Enqueued::Kept { .. }));
    let replacing = queue.enqueue("1", to("cem")).on_duplicate(OnDuplicate::Replace).priority(0);
    assert!(matches!(replacing.send().await.unwrap(), Enqueued::Replaced { .. }));
    let top = queue.top(10).await.unwrap();
    assert_eq!((top.len(), queue.read(&top[0].payload).unwrap()), (1, to("cem")));
    assert_eq!(top[0].priority.get(), 0);
}

async fn what_is_outside_its_range_is_refused(bench: Bench) {
    let queue = mail(&bench.client());
    let refused = |answer: Result<Enqueued, Error>| assert!(answer.unwrap_err().is_invalid());
    refused(queue.enqueue("a b", to("ann")).send().await);
    refused(queue.enqueue("1", to("ann")).priority(10).send().await);
    refused(queue.enqueue("1", to("ann")).max_attempts(0).send().await);
    refused(queue.enqueue("1", to("ann")).delay(Duration::MAX).send().await);
    assert!(queue.claim(0, secs(1)).await.unwrap_err().is_invalid());
    assert!(queue.claim(1, ms(1)).await.unwrap_err().is_invalid());
    assert_eq!(queue.stats().await.unwrap().ready, 0);
}

async fn a_delayed_task_is_claimed_when_it_is_due_and_not_before(bench: Bench) {
    let queue = mail(&bench.client());
    queue.enqueue("1", to("ann")).delay(ms(300)).send().await.unwrap();
    assert!(queue.claim(1, secs(30)).await.unwrap().is_empty());
    let task = claim_one(&queue).await;
    assert_eq!(task.attempt, 1);
}

async fn a_blocking_claim_wakes_when_a_task_comes(bench: Bench) {
    let queue = mail(&bench.client());
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { claim_one(&queue).await }
    });
    tokio::task::yield_now().await;
    mail(&bench.client()).enqueue("1", to("ann")).send().await.unwrap();
    assert_eq!(waiting.await.unwrap().ticket.id.as_str(), "1");
    assert!(queue.claim_wait(1, secs(30), ms(20)).await.unwrap().is_empty(), "the wait ends");
}

async fn blocking_claims_wake_for_delays_that_began_after_them(bench: Bench) {
    let queue = mail(&bench.client());
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..3 {
        let queue = queue.clone();
        waiting.spawn(async move { claim_one(&queue).await.ticket.id });
    }
    tokio::task::yield_now().await;
    for id in ["1", "2", "3"] {
        queue.enqueue(id, to("ann")).delay(ms(50)).send().await.unwrap();
    }
    assert_eq!(waiting.join_all().await.len(), 3);
}

async fn every_blocking_claim_gets_its_task(bench: Bench) {
    let queue = mail(&bench.client());
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let queue = queue.clone();
        waiting.spawn(async move { claim_one(&queue).await.ticket.id });
    }
    let tasks = (0..8).map(|n| queue.new_task(n.to_string(), to("ann")).unwrap());
    queue.enqueue_all(tasks.collect()).await.unwrap();
    let mut got = waiting.join_all().await;
    got.sort();
    got.dedup();
    assert_eq!(got.len(), 8);
}

async fn a_dropped_claim_gives_its_tasks_back(bench: Bench) {
    let queue = mail(&bench.client());
    queue.enqueue("1", to("ann")).send().await.unwrap();
    for round in 0..40 {
        // Dropped somewhere between request and answer. If it finished first, release the tasks here.
        let claiming = tokio::spawn({
            let queue = queue.clone();
            async move { queue.claim_wait(1, secs(3600), Duration::MAX).await.unwrap() }
        });
        for _ in 0..round % 4 {
            tokio::task::yield_now().await;
        }
        claiming.abort();
        for task in claiming.await.unwrap_or_default() {
            queue.release(vec![task.ticket.into()]).await.unwrap();
        }
    }
    eventually(async || queue.stats().await.unwrap().ready == 1).await;
    assert_eq!(claim_one(&queue).await.attempt, 1);
}

async fn a_ticket_acts_on_its_own_revision_only(bench: Bench) {
    let queue = mail(&bench.client());
    queue.enqueue("1", to("ann")).send().await.unwrap();
    let seen = queue.top(1).await.unwrap().remove(0);
    queue.enqueue("1", to("bob")).on_duplicate(OnDuplicate::Replace).send().await.unwrap();
    assert_eq!(queue.dequeue(seen.ticket).await.unwrap(), Dequeued::Stale);
    let task = claim_one(&queue).await;
    assert_eq!(queue.complete(vec![task.ticket.clone()]).await.unwrap(), [Completed::Done]);
    assert_eq!(queue.complete(vec![task.ticket]).await.unwrap(), [Completed::Stale]);
}

async fn dead_letters_can_be_retried_and_deleted(bench: Bench) {
    let queue = mail(&bench.client());
    for id in ["1", "2"] {
        queue.enqueue(id, to("ann")).send().await.unwrap();
        let ticket = claim_one(&queue).await.ticket;
        let failed = Retry { ticket, delay: ms(0), error: "no such address".to_owned(), give_up: true };
        assert_eq!(queue.retry(vec![failed]).await.unwrap(), [Retried::Dead]);
    }
    let dead = queue.dead(Page::first(10)).await.unwrap();
    assert_eq!((dead.len(), dead[0].error.as_str()), (2, "no such address"));
    let one = Selection::Ids(vec![dead[0].id.clone()]);
    assert_eq!(queue.requeue_dead(one).await.unwrap().requeued, 1);
    assert_eq!(queue.delete_dead(Selection::All).await.unwrap(), 1);
    let stats = queue.stats().await.unwrap();
    assert_eq!((stats.ready, stats.dead), (1, 0));
}

async fn a_paused_queue_gives_nothing_out(bench: Bench) {
    let queue = mail(&bench.client());
    queue.pause().await.unwrap();
    queue.enqueue("1", to("ann")).send().await.unwrap();
    assert!(queue.claim(1, secs(30)).await.unwrap().is_empty());
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { claim_one(&queue).await }
    });
    tokio::task::yield_now().await;
    queue.resume().await.unwrap();
    assert_eq!(waiting.await.unwrap().attempt, 1);
}

async fn an_id_is_taken_once_in_its_period_unless_its_window_is_cleared(bench: Bench) {
    let queue = mail(&bench.client());
    let put = || queue.enqueue("1", to("ann")).unique_for(secs(60));
    assert!(matches!(put().send().await.unwrap(), Enqueued::Added { .. }));
    let until = queue.unique_until("1").await.unwrap().expect("the ID has a uniqueness window");
    assert!(!queue.why("1").await.unwrap().iter().any(|why| matches!(why, Why::Unique { .. })), "it is live");
    queue.pop(1).await.unwrap();
    for again in [put(), queue.enqueue("1", to("bob"))] {
        assert_eq!(again.send().await.unwrap(), Enqueued::Recent { until });
    }
    let why = queue.why("1").await.unwrap();
    let [Why::Unique { until: told, left }] = &why[..] else { panic!("{why:?}") };
    assert!(*told == until && *left <= secs(60), "{why:?}");
    assert_eq!(queue.clear_unique("1").await.unwrap(), UniqueCleared::Cleared { until });
    assert_eq!(queue.clear_unique("1").await.unwrap(), UniqueCleared::NotFound);
    assert_eq!(queue.why("1").await.unwrap(), [Why::Unknown]);
    assert!(matches!(put().send().await.unwrap(), Enqueued::Added { .. }));
    let failed = claim_one(&queue).await;
    let retry = Retry { ticket: failed.ticket, delay: ms(0), error: "boom".into(), give_up: true };
    queue.retry(vec![retry]).await.unwrap();
    let why = queue.why("1").await.unwrap();
    assert!(matches!(why[..], [Why::Dead { .. }, Why::Unique { .. }]), "{why:?}");
    assert!(put().unique_for(Duration::ZERO).send().await.unwrap_err().is_invalid());
    assert!(put().unique_for(Duration::MAX).send().await.unwrap_err().is_invalid());
}

/// Number and task of the next event.
#[track_caller]
fn told(next: Followed) -> (u64, String) {
    match next {
        Followed::Event(event) => (event.seq, event.id.to_string()),
        Followed::Missed { next } => panic!("events before {next} were missed"),
    }
}

async fn a_follower_of_a_queue_is_notified_of_each_event_once_and_of_what_was_missed(bench: Bench) {
    let (client, other) = (bench.client(), bench.client());
    let queue = mail(&client);
    queue.limit(QueueLimits { events: Some(3), ..QueueLimits::default() }).await.unwrap();
    queue.enqueue("before", to("ann")).send().await.unwrap();
    let mut events = mail(&other).follow().after(1);
    // A dropped call loses no event.
    assert!(tokio::time::timeout(ms(50), events.next()).await.is_err());
    for (n, id) in ["a", "b"].into_iter().enumerate() {
        let (next, put) = tokio::join!(events.next(), queue.enqueue(id, to("ann")).send());
        put.unwrap();
        assert_eq!(told(next.unwrap()), (n as u64 + 2, id.to_owned()));
    }
    let many = (0..5).map(|n| queue.new_task(n.to_string(), to("ann")).unwrap()).collect();
    queue.enqueue_all(many).await.unwrap();
    assert_eq!(events.next().await.unwrap(), Followed::Missed { next: 6 });
    for n in 2..5 {
        assert_eq!(told(events.next().await.unwrap()), (n + 4, n.to_string()));
    }
    let page = queue.events(Page::after(7, 10)).await.unwrap();
    assert_eq!((page.events.len(), page.first, page.last), (1, 6, 8));
    // A follower ahead of the queue gets `Missed`: the store may have lost writes.
    let mut ahead = queue.follow().after(100);
    assert_eq!(ahead.next().await.unwrap(), Followed::Missed { next: 9 });
    queue.enqueue("c", to("ann")).send().await.unwrap();
    assert_eq!(told(ahead.next().await.unwrap()), (9, "c".to_owned()));
}

async fn a_task_that_waits_says_for_what(bench: Bench) {
    let client = bench.client();
    let queue: Queue<u32> = client.queue_of("waits").unwrap();
    queue.enqueue("a", 1).send().await.unwrap();
    queue.enqueue("b", 2).after(["a"]).after(["a"]).send().await.unwrap();
    let typo = queue.enqueue("c", 3).after(["a", "typo"]).send().await.unwrap();
    assert!(matches!(typo, Enqueued::Refused { ref task, why: Unmet::Unknown } if task.as_str() == "typo"));
    let why = queue.why("b").await.unwrap();
    let [Why::WaitsFor { left: 1, dead: 0, first, open: false, .. }] = &why[..] else { panic!("{why:?}") };
    assert_eq!((first[0].id.as_str(), &first[0].error), ("a", &None));
    let failed = claim_one(&queue).await;
    let retry = Retry { ticket: failed.ticket, delay: ms(0), error: "boom".into(), give_up: true };
    queue.retry(vec![retry]).await.unwrap();
    let why = queue.why("b").await.unwrap();
    let [Why::WaitsFor { dead: 1, first, .. }] = &why[..] else { panic!("{why:?}") };
    assert_eq!(first[0].error.as_deref(), Some("boom"));

    queue.enqueue("whole", 4).held_open().delay(secs(60)).if_dead(IfDead::Run).send().await.unwrap();
    let why = queue.why("whole").await.unwrap();
    assert!(matches!(why[..], [Why::WaitsFor { left: 0, open: true, .. }, Why::NotDue { .. }]), "{why:?}");
    queue.enqueue("part", 5).part_of("whole").send().await.unwrap();
    let waits = queue.waits("whole").await.unwrap().expect("the batch is open");
    assert_eq!((waits.open, waits.left, waits.if_dead), (true, 1, IfDead::Run));
    assert_eq!(queue.close_batch("whole").await.unwrap(), Closed::Closed { left: 1 });
    assert!(queue.enqueue("d", 6).part_of("no name").send().await.unwrap_err().is_invalid());
}

async fn a_task_says_why_it_is_not_running(bench: Bench) {
    let client = bench.client();
    let queue: Queue<u32> = client.queue_of("why").unwrap();
    assert_eq!(queue.why("a").await.unwrap(), [Why::Unknown]);

    queue.enqueue("a", 1).delay(secs(600)).send().await.unwrap();
    let why = queue.why("a").await.unwrap();
    let [Why::NotDue { wait, error: None, attempts: 0, .. }] = &why[..] else { panic!("{why:?}") };
    assert!(*wait > secs(590) && *wait <= secs(600), "{wait:?}");
    queue.pause().await.unwrap();
    let why = queue.why("a").await.unwrap();
    assert!(matches!(why[..], [Why::Paused, Why::NotDue { .. }]), "{why:?}");
    queue.enqueue("b", 2).max_attempts(2).send().await.unwrap();
    assert_eq!(queue.why("b").await.unwrap(), [Why::Paused]);
    queue.resume().await.unwrap();

    queue.enqueue("urgent", 3).priority(0).send().await.unwrap();
    let why = queue.why("b").await.unwrap();
    assert!(matches!(why[..], [Why::Waiting { ahead: Some(1), leased: 0, last_claim: None, .. }]), "{why:?}");

    let claimed = queue.claim(10, secs(60)).await.unwrap();
    queue.enqueue("c", 4).send().await.unwrap();
    let why = queue.why("c").await.unwrap();
    let [Why::Waiting { leased: 2, last_claim: Some(last), .. }] = &why[..] else { panic!("{why:?}") };
    // A claim's number is its time, or slightly later.
    assert!(last.as_micros() <= claimed[1].ticket.claim.unwrap().as_u64(), "{why:?}");
    assert_eq!(queue.claim(1, secs(60)).await.unwrap().len(), 1);
    let why = queue.why("b").await.unwrap();
    let [Why::Running { attempt: 1, lease_left, fence, .. }] = &why[..] else { panic!("{why:?}") };
    let ticket = claimed[1].ticket.clone();
    assert!(*lease_left <= secs(60) && Some(*fence) == ticket.claim, "{why:?}");

    let failed = |ticket, delay| Retry { ticket, delay, error: "boom".into(), give_up: false };
    queue.retry(vec![failed(ticket, secs(300))]).await.unwrap();
    let why = queue.why("b").await.unwrap();
    let [Why::NotDue { error, attempts: 1, max_attempts: 2, .. }] = &why[..] else { panic!("{why:?}") };
    assert_eq!(error.as_deref(), Some("boom"));

    let urgent = Retry { give_up: true, ..failed(claimed[0].ticket.clone(), secs(0)) };
    queue.retry(vec![urgent]).await.unwrap();
    let why = queue.why("urgent").await.unwrap();
    assert!(matches!(&why[..], [Why::Dead { error, attempts: 1, .. }] if error == "boom"), "{why:?}");
    assert!(queue.why("two words").await.unwrap_err().is_invalid());
}

async fn a_task_says_which_limit_of_its_key_it_waits_for(bench: Bench) {
    let queue: Queue<u32> = bench.client().queue_of("why").unwrap();
    let ann: TaskKey = "ann".parse().unwrap();
    let put = async |id: &str| queue.enqueue(id, 1).key("ann").send().await.unwrap();
    let per_key = |per_key| QueueLimits { per_key, ..QueueLimits::default() };

    queue.limit(per_key(KeyLimits { concurrency: Some(1), ..KeyLimits::default() })).await.unwrap();
    put("a").await;
    put("b").await;
    let held = queue.claim(10, secs(60)).await.unwrap();
    assert_eq!(held.len(), 1);
    let why = queue.why("b").await.unwrap();
    let [Why::KeyBusy { key, running }] = &why[..] else { panic!("{why:?}") };
    let until = queue.task("a").await.unwrap().unwrap().lease_until.unwrap();
    assert_eq!((key, running.len(), running[0].id.as_str(), running[0].lease_until), (&ann, 1, "a", until));
    assert!(!running[0].worker.is_empty(), "a worker holds it");
    queue.complete(vec![held[0].ticket.clone()]).await.unwrap();

    let rate = Some(Rate::new(1, secs(60)));
    queue.limit(per_key(KeyLimits { rate, ..KeyLimits::default() })).await.unwrap();
    assert_eq!(queue.claim(10, secs(60)).await.unwrap().len(), 1, "the one that waited");
    put("c").await;
    let why = queue.why("c").await.unwrap();
    let [Why::RateLimited { key: Some(key), until, wait }] = &why[..] else { panic!("{why:?}") };
    assert!(*key == ann && *wait > secs(0) && *wait <= secs(60), "{why:?}");
    let not_before = queue.task("c").await.unwrap().unwrap().not_before;
    assert_eq!(Some(*until), not_before);
}

async fn a_task_says_who_keeps_the_queue_busy_and_who_is_first_in_its_line(bench: Bench) {
    let queue: Queue<u32> = bench.client().queue_of("why").unwrap();
    queue.limit(QueueLimits { concurrency: Some(1), ..QueueLimits::default() }).await.unwrap();
    let put = async |id: &str| queue.enqueue(id, 1).key("ann").send().await.unwrap();
    put("a").await;
    put("b").await;
    let held = queue.claim(1, secs(60)).await.unwrap();
    let until = queue.task("a").await.unwrap().unwrap().lease_until.unwrap();
    let why = queue.why("b").await.unwrap();
    let [Why::QueueBusy { concurrency: 1, running }] = &why[..] else { panic!("{why:?}") };
    assert_eq!((running.len(), running[0].id.as_str(), running[0].lease_until), (1, "a", until));
    assert!(!running[0].worker.is_empty(), "a worker holds it");

    // The first task of a FIFO key group waits for its next attempt and blocks those behind it.
    queue
        .limit(QueueLimits {
            per_key: KeyLimits { fifo: true, ..KeyLimits::default() },
            ..QueueLimits::default()
        })
        .await
        .unwrap();
    let later =
        Retry { ticket: held[0].ticket.clone(), delay: secs(300), error: "boom".into(), give_up: false };
    queue.retry(vec![later]).await.unwrap();
    let why = queue.why("b").await.unwrap();
    let [Why::InLine { first: Some(first), .. }] = &why[..] else { panic!("{why:?}") };
    assert_eq!(first.as_str(), "a");
}
