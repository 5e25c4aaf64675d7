//! The facade while the primary is killed: guards and workers continue, or report the loss.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::common::{eventually, ms, secs};
use rushgate::lock::LostReason;
use rushgate::{CancellationToken, Job, Rushgate, Worker};
use rushgate_test::servers::{ClusterSetup, Kind, SentinelSetup};
use tokio::time::{sleep, timeout};

/// With these settings, acknowledged writes are on a replica.
const REPLICATED: [&str; 4] = ["--min-replicas-to-write", "1", "--min-replicas-max-lag", "2"];
const TASKS: u32 = 120;
/// Longer than a failover takes on a busy machine. On an idle one it takes 3 s.
const FAILOVER_MAX: Duration = Duration::from_secs(30);

macro_rules! on_each_kind {
    ($($name:ident)*) => {
        mod on_redis { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { super::$name(super::Kind::Redis).await }
        )* }
        mod on_valkey { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { super::$name(super::Kind::Valkey).await }
        )* }
    };
}

on_each_kind! {
    a_guard_and_a_worker_outlive_the_primary_behind_sentinels
    a_guard_and_a_worker_outlive_their_node_of_a_cluster
}

async fn a_guard_and_a_worker_outlive_the_primary_behind_sentinels(kind: Kind) {
    let mut group = SentinelSetup::new(kind).with(&REPLICATED).start();
    let url = group.url();
    outlive(&url, "door", "till", "mail", async || {
        let primary = group.primary();
        group.servers[primary].kill();
    })
    .await;
}

async fn a_guard_and_a_worker_outlive_their_node_of_a_cluster(kind: Kind) {
    let mut group = ClusterSetup::new(kind).with(&REPLICATED).start();
    let hit = group.owner("rg:{l:door}:lock");
    let on_it = |kind: &str, end: &str| {
        let names = (0..).map(|n| format!("{n}"));
        names.into_iter().find(|name| group.owner(&format!("rg:{{{kind}:{name}}}:{end}")) == hit).unwrap()
    };
    let (till, mail) = (on_it("l", "lock"), on_it("q", "meta"));
    let url = group.url();
    outlive(&url, "door", &till, &mail, async || {
        group.nodes[hit].kill();
        eventually(async || {
            group.is_up() && group.find_owner("rg:{l:door}:lock").is_some_and(|owner| owner != hit)
        })
        .await;
        // The promoted replica acknowledges no write before it has a replica of its own.
        group.nodes[hit].restart();
    })
    .await;
}

/// The killed server owns all three names.
async fn outlive(url: &str, long: &str, short: &str, queue: &str, kill: impl AsyncFnOnce()) {
    let client = Rushgate::connect(url).await.unwrap();
    let other = Rushgate::connect(url).await.unwrap();
    // One lease outlasts the failover; the other ends before the failover can be detected.
    let lease = FAILOVER_MAX * 2;
    let held = client.lock(long).unwrap().lease(lease).acquire().await.unwrap().held().unwrap();
    let lost = client.lock(short).unwrap().lease(ms(300)).acquire().await.unwrap().held().unwrap();
    let numbers = client.queue_of::<u32>(queue).unwrap();
    for n in 0..TASKS / 2 {
        numbers.enqueue(n.to_string(), n).send().await.unwrap();
    }
    let done = Arc::new(Mutex::new(BTreeSet::new()));
    let handler = {
        let done = Arc::clone(&done);
        move |job: Job<u32>| {
            let done = Arc::clone(&done);
            async move {
                sleep(ms(5)).await;
                done.lock().unwrap().insert(job.payload);
            }
        }
    };
    let shutdown = CancellationToken::new();
    let worker = Worker::new(&numbers).concurrency(2).lease(secs(5)).register("*", handler);
    let worker = tokio::spawn(worker.run(shutdown.clone()));
    eventually(async || done.lock().unwrap().len() > 3).await;

    let start = Instant::now();
    kill().await;
    let (mut put, mut last) = (TASKS / 2, None);
    let puts = async {
        while put < TASKS {
            // The facade retries for 5 s. A busy machine may take longer to fail over; enqueueing the same ID
            // again is safe.
            match numbers.enqueue(put.to_string(), put).send().await {
                Ok(_) => put += 1,
                Err(error) => {
                    assert!(error.is_unavailable(), "{error:?}");
                    last = Some((start.elapsed(), error));
                }
            }
        }
        eventually(async || done.lock().unwrap().len() as u32 == TASKS).await;
    };
    if timeout(FAILOVER_MAX, puts).await.is_err() {
        let done = done.lock().unwrap().len();
        panic!(
            "work does not continue after the failover: {put} tasks put, {done} done; last error: {last:?}"
        );
    }
    assert_eq!(lost.lost().await, LostReason::Expired, "it could not be renewed in time");
    assert!(!held.is_lost() && held.is_held().await.unwrap(), "its lease was longer");
    assert!(held.extend(lease).await.unwrap());
    let seen = other.lock(long).unwrap();
    assert_eq!(seen.holders().await.unwrap()[0].fence, held.fence());
    assert!(seen.try_acquire().await.unwrap().held().is_none(), "it has one holder");
    let next = other.lock(short).unwrap().wait(secs(5)).acquire().await.unwrap().held().unwrap();
    assert!(next.fence() > lost.fence());
    assert!(start.elapsed() < FAILOVER_MAX * 2, "{:?}", start.elapsed());

    shutdown.cancel();
    let report = worker.await.unwrap().unwrap();
    assert!(report.dead == 0 && report.done >= TASKS.into(), "{report:?}");
    held.release().await.unwrap();
}
