//! Fair queueing for tenants: they take turns, and each has its own limits.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rushgate::queue::{KeyLimits, QueueLimits, Rate, TaskKey};
use rushgate::worker::State;
use rushgate::{CancellationToken, Rushgate, TaskId, Worker};

/// IDs of the tasks, in order of completion.
type Log = Arc<Mutex<Vec<String>>>;

#[expect(clippy::print_stdout, reason = "an example tells its story")]
async fn rebuild(_page: u32, id: TaskId, tenant: Option<TaskKey>, State(log): State<Log>) {
    let tenant = tenant.expect("every task of this queue has a key");
    println!("{id} for {tenant}");
    log.lock().expect("the lock is not poisoned").push(id.to_string());
}

#[tokio::main]
async fn main() -> rushgate::Result<()> {
    let dir = tempfile::tempdir().expect("a place for the store");
    let file = format!("sqlite:{}", dir.path().join("tenants.db").display());
    let client = Rushgate::connect(&std::env::var("RUSHGATE_STORE").unwrap_or(file)).await?;
    let pages = client.queue_of::<u32>("pages")?;
    // Per tenant: one at a time, in order, at most 100 per second. Whole queue: at most 1,000 per second.
    pages
        .limit(QueueLimits {
            rate: Some(Rate::new(1_000, Duration::from_secs(1))),
            per_key: KeyLimits {
                fifo: true,
                rate: Some(Rate::new(100, Duration::from_secs(1))),
                ..KeyLimits::default()
            },
            ..QueueLimits::default()
        })
        .await?;
    for page in 1..=50 {
        pages.enqueue(format!("acme:{page}"), page).key("acme").send().await?;
    }
    pages.enqueue("globex:1", 1).key("globex").send().await?;

    let (log, shutdown) = (Log::default(), CancellationToken::new());
    let worker = Worker::new(&pages).state(Arc::clone(&log)).register("*", rebuild);
    let working = tokio::spawn(worker.run(shutdown.clone()));
    while log.lock().expect("the lock is not poisoned").len() < 51 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    shutdown.cancel();
    working.await.expect("the worker does not panic")?;

    let log = log.lock().expect("the lock is not poisoned").clone();
    let place = |id: &str| log.iter().position(|done| done == id);
    assert!(place("globex:1") < place("acme:10"), "one tenant with much to do does not starve another");
    let of_acme: Vec<_> = log.iter().filter(|id| id.starts_with("acme:")).cloned().collect();
    assert_eq!(of_acme, (1..=50).map(|page| format!("acme:{page}")).collect::<Vec<_>>());
    client.close().await
}
