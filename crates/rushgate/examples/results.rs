//! A task with a result: a handler returns it, the queue retains it, and a client waits for it.

use std::time::Duration;

use rushgate::queue::{QueueLimits, Retention};
use rushgate::worker::{Output, Progress};
use rushgate::{CancellationToken, Rushgate, Worker};

async fn sum(numbers: Vec<u64>, progress: Progress) -> Output<u64> {
    let mut total = 0;
    for (n, number) in numbers.iter().enumerate() {
        progress.percent(n * 100 / numbers.len());
        total += number;
    }
    Output(total)
}

#[expect(clippy::print_stdout, reason = "an example tells its story")]
#[tokio::main]
async fn main() -> rushgate::Result<()> {
    let dir = tempfile::tempdir().expect("a place for the store");
    let file = format!("sqlite:{}", dir.path().join("results.db").display());
    let client = Rushgate::connect(&std::env::var("RUSHGATE_STORE").unwrap_or(file)).await?;
    let sums = client.queue_of::<Vec<u64>>("sums")?;
    // Results are kept for one hour, and at most the latest 10,000.
    let retention = Some(Retention::new(Duration::from_secs(3_600), 10_000));
    sums.limit(QueueLimits { retention, ..QueueLimits::default() }).await?;
    sums.enqueue("first", vec![1, 2, 3]).send().await?;

    let stop = CancellationToken::new();
    let worker = Worker::new(&sums).register("*", sum);
    let (report, over) = tokio::join!(worker.run(stop.clone()), async {
        let over = sums.wait_for("first", Duration::from_secs(30)).await;
        stop.cancel();
        over
    });
    report?;
    let total: Option<u64> = over?.map(|over| over.result()).transpose()?.flatten();
    println!("the sum is {total:?}");
    assert_eq!(total, Some(6));
    client.close().await
}
