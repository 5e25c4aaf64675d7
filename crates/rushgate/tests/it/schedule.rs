//! Schedules: each occurrence fires once, however many schedulers run.

use rushgate_core::Verbs;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::common::{Bench, eventually, secs};
use rushgate::queue::{NewTask, Task};
use rushgate::schedule::{Missed, Scheduled, Scheduler};
use rushgate::store::Page;
use rushgate::{CancellationToken, Enqueued, Queue, Recurrence, Rushgate, Timestamp, Worker};
use tokio::sync::mpsc;

on_each_store! {
    three_schedulers_put_each_moment_in_once
    a_worker_fires_the_schedules_of_its_queue
    a_restarted_fleet_changes_nothing
    a_scheduler_that_was_away_makes_up_for_what_was_missed_as_it_was_told
    a_paused_schedule_continues_from_now
    a_schedule_can_be_run_at_once
    a_schedule_that_cannot_be_read_stops_no_other
    what_is_outside_its_range_is_refused
}

on_a_cluster! {
    three_schedulers_put_each_moment_in_once
}

fn pulse(client: &Rushgate) -> Queue<u32> {
    client.queue_of("pulse").unwrap()
}

fn each_second() -> Recurrence {
    Recurrence::every(secs(1)).unwrap().missed(Missed::All)
}

fn yearly() -> Recurrence {
    Recurrence::cron("@yearly").unwrap()
}

/// Claims tasks until `n` are claimed.
async fn claim_all(queue: &Queue<u32>, n: usize) -> Vec<Task> {
    let mut tasks = Vec::new();
    while tasks.len() < n {
        tasks.extend(queue.claim_wait(10, secs(60), secs(20)).await.unwrap());
    }
    tasks
}

async fn three_schedulers_put_each_moment_in_once(bench: Bench) {
    let clients: Vec<_> = (0..3).map(|_| bench.client()).collect();
    let shutdown = CancellationToken::new();
    let schedulers: Vec<_> = clients
        .iter()
        .map(|client| tokio::spawn(Scheduler::new(pulse(client)).run(shutdown.clone())))
        .collect();
    let queue = pulse(&clients[0]);
    queue.schedule("beat", 7, each_second()).priority(3).save().await.unwrap();
    let mut tasks = claim_all(&queue, 3).await;
    shutdown.cancel();
    let mut put_in = 0;
    for scheduler in schedulers {
        put_in += scheduler.await.unwrap().unwrap().tasks;
    }
    // Tasks enqueued while the schedulers stopped.
    tasks.extend(queue.claim(100, secs(60)).await.unwrap());
    assert_eq!(tasks.len() as u64, put_in);
    let moments: BTreeSet<_> = tasks.iter().map(|task| task.ticket.due).collect();
    assert_eq!(moments.len(), tasks.len(), "each moment once");
    let first = *moments.first().unwrap();
    for (at, moment) in moments.iter().enumerate() {
        assert_eq!(*moment, first + secs(at as u64), "no occurrence is missing");
    }
    for task in &tasks {
        assert_eq!((queue.read(&task.payload).unwrap(), task.priority.get()), (7, 3));
        assert!(task.ticket.id.as_str().starts_with("beat@20"), "{}", task.ticket.id);
    }
}

async fn a_worker_fires_the_schedules_of_its_queue(bench: Bench) {
    let queue = pulse(&bench.client());
    queue.schedule("beat", 7, each_second()).save().await.unwrap();
    let (shutdown, (heard, mut hears)) = (CancellationToken::new(), mpsc::unbounded_channel());
    let handler = move |job: rushgate::Job<u32>| {
        let heard = heard.clone();
        async move {
            heard.send(job.payload).unwrap();
            Ok::<_, std::io::Error>(())
        }
    };
    let worker = Worker::new(&queue).register("*", handler);
    let worker = tokio::spawn(worker.run(shutdown.clone()));
    assert_eq!((hears.recv().await, hears.recv().await), (Some(7), Some(7)));
    shutdown.cancel();
    assert!(worker.await.unwrap().unwrap().done >= 2);
}

async fn a_restarted_fleet_changes_nothing(bench: Bench) {
    let clients: Vec<_> = (0..3).map(|_| bench.client()).collect();
    let mut answers = Vec::new();
    for client in &clients {
        answers.push(pulse(client).schedule("new-year", 1, yearly()).save().await.unwrap());
    }
    let [Scheduled::Added { revision }, others @ ..] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(others, [Scheduled::Unchanged { revision: *revision }; 2]);
    let queue = pulse(&clients[0]);
    let changed = queue.schedule("new-year", 2, yearly()).save().await.unwrap();
    assert!(matches!(changed, Scheduled::Changed { .. }), "{changed:?}");
    assert_eq!(queue.schedules(Page::default()).await.unwrap().len(), 1);
    assert!(queue.unschedule("new-year").await.unwrap());
    assert!(!queue.unschedule("new-year").await.unwrap());
}

async fn a_paused_schedule_continues_from_now(bench: Bench) {
    let queue = pulse(&bench.client());
    queue.schedule("beat", 7, each_second()).paused(true).save().await.unwrap();
    queue.schedule("new-year", 1, yearly()).save().await.unwrap();
    let saved = queue.schedule("beat", 7, each_second()).save().await.unwrap();
    assert!(
        matches!(saved, Scheduled::Unchanged { .. }),
        "saving again does not resume the schedule: {saved:?}"
    );
    assert!(queue.pause_schedule("beat", false).await.unwrap());
    let beat = queue.find_schedule("beat").await.unwrap().unwrap();
    assert!(!beat.paused && beat.next.is_some());
    assert!(queue.pause_schedule("beat", true).await.unwrap());
    let shutdown = CancellationToken::new();
    let scheduler = tokio::spawn(Scheduler::new(queue.clone()).run(shutdown.clone()));
    assert!(queue.claim_wait(1, secs(60), secs(2)).await.unwrap().is_empty(), "the schedule is paused");
    assert!(queue.pause_schedule("beat", false).await.unwrap());
    let task = claim_all(&queue, 1).await.remove(0);
    assert!(Some(task.ticket.due) > beat.next, "occurrences during a pause do not count as missed");
    shutdown.cancel();
    scheduler.await.unwrap().unwrap();
    assert!(!queue.pause_schedule("nothing", true).await.unwrap());
}

/// No scheduler ran for the last hours. The last occurrence is more than a minute ago.
async fn a_scheduler_that_was_away_makes_up_for_what_was_missed_as_it_was_told(bench: Bench) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64;
    // Choose an interval whose last and next occurrences are both far from now.
    let far = |every: &Duration| {
        let gone = now % every.as_micros() as u64;
        gone > 600_000_000 && every.as_micros() as u64 - gone > 600_000_000
    };
    let every = [secs(86_400), secs(90_000)].into_iter().find(far).unwrap();
    let (now, recurrence) = (Timestamp::from_micros(now), Recurrence::every(every).unwrap());
    let last = recurrence.latest_until(now).unwrap();
    let before = |n: u64| Timestamp::from_micros(last.as_micros() - n * every.as_micros() as u64);
    let missed = [4, 3, 2, 1, 0].map(before);
    let policies = [("skip", Missed::Skip), ("once", Missed::Once), ("all", Missed::All)];
    let queue = pulse(&bench.client());
    for (id, policy) in policies {
        let task = queue.new_task("x", 0).unwrap();
        let new = rushgate_core::NewSchedule {
            id: id.parse().unwrap(),
            recurrence: serde_json::to_string(&recurrence.clone().missed(policy)).unwrap(),
            payload: task.payload,
            priority: task.priority,
            max_attempts: 1,
            next: Some(missed[0]),
            paused: None,
            as_of: None,
        };
        bench.store().schedule(queue.name(), new).await.unwrap();
    }
    let shutdown = CancellationToken::new();
    let scheduler = tokio::spawn(Scheduler::new(queue.clone()).run(shutdown.clone()));
    let all_fired = async || {
        let schedules = queue.schedules(Page::default()).await.unwrap();
        schedules.iter().all(|schedule| schedule.next == recurrence.next_after(now))
    };
    eventually(all_fired).await;
    shutdown.cancel();
    assert_eq!(scheduler.await.unwrap().unwrap().tasks, 6);
    let mut moments: BTreeMap<String, Vec<Timestamp>> = BTreeMap::new();
    for task in claim_all(&queue, 6).await {
        let id = task.ticket.id.as_str().split('@').next().unwrap().to_owned();
        moments.entry(id).or_default().push(task.ticket.due);
    }
    assert_eq!(moments, BTreeMap::from([("all".into(), missed.to_vec()), ("once".into(), vec![last])]));
}

async fn a_schedule_can_be_run_at_once(bench: Bench) {
    let queue = pulse(&bench.client());
    queue.schedule("new-year", 1, yearly()).max_attempts(2).paused(true).save().await.unwrap();
    let run = queue.run_schedule("new-year").await.unwrap();
    assert!(matches!(run, Some(Enqueued::Added { .. })), "{run:?}");
    let task = claim_all(&queue, 1).await.remove(0);
    assert_eq!((queue.read(&task.payload).unwrap(), task.max_attempts), (1, 2));
    assert_eq!(queue.run_schedule("nothing").await.unwrap(), None);
}

async fn a_schedule_that_cannot_be_read_stops_no_other(bench: Bench) {
    let queue = pulse(&bench.client());
    // A schedule saved by a newer program, with a recurrence that this one cannot parse.
    let task: NewTask = queue.new_task("x", 0).unwrap();
    let new = rushgate_core::NewSchedule {
        id: "a-strange-one".parse().unwrap(),
        recurrence: "when the moon is full".into(),
        payload: task.payload,
        priority: task.priority,
        max_attempts: 1,
        next: Some(Timestamp::from_micros(1)),
        paused: None,
        as_of: None,
    };
    bench.store().schedule(queue.name(), new).await.unwrap();
    queue.schedule("beat", 7, each_second()).save().await.unwrap();
    let shutdown = CancellationToken::new();
    let scheduler = tokio::spawn(Scheduler::new(queue.clone()).run(shutdown.clone()));
    assert_eq!(claim_all(&queue, 2).await.len(), 2);
    assert!(queue.pause_schedule("a-strange-one", true).await.unwrap(), "it can be paused");
    assert!(queue.pause_schedule("a-strange-one", false).await.unwrap_err().is_invalid());
    shutdown.cancel();
    scheduler.await.unwrap().unwrap();
}

async fn what_is_outside_its_range_is_refused(bench: Bench) {
    let queue = pulse(&bench.client());
    let long = "x".repeat(171);
    for schedule in [
        queue.schedule(&long, 1, yearly()),
        queue.schedule("two words", 1, yearly()),
        queue.schedule("a", 1, yearly()).priority(10),
        queue.schedule("a", 1, yearly()).max_attempts(0),
    ] {
        assert!(schedule.save().await.unwrap_err().is_invalid());
    }
    assert_eq!(queue.schedules(Page::default()).await.unwrap(), []);
}
