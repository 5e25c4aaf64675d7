//! Process images on blocking threads, urgent ones first.

use std::time::Duration;

use rushgate::queue::{Payload, QueueName};
use rushgate::worker::Outcome;
use rushgate::{CancellationToken, Rushgate, Worker};

/// Blocking work. The async runtime and its heartbeats continue meanwhile.
#[expect(clippy::print_stdout, reason = "an example tells its story")]
fn shrink(picture: Payload, queue: QueueName, cancel: CancellationToken) -> Result<(), Outcome> {
    let mut sum = 0_u64;
    for row in picture.bytes().chunks(64) {
        // A thread cannot be stopped from outside: check the token.
        if cancel.is_cancelled() {
            return Err(Outcome::retry("it took too long"));
        }
        sum += row.iter().map(|pixel| u64::from(*pixel)).sum::<u64>();
    }
    println!("a picture of `{queue}` with the sum {sum}");
    Ok(())
}

#[tokio::main]
async fn main() -> rushgate::Result<()> {
    let dir = tempfile::tempdir().expect("a place for the store");
    let file = format!("sqlite:{}", dir.path().join("pictures.db").display());
    let client = Rushgate::connect(&std::env::var("RUSHGATE_STORE").unwrap_or(file)).await?;
    let (urgent, backlog) = (client.queue("urgent")?, client.queue("backlog")?);
    let picture = |n: u8| Payload::new("image/x-raw".parse()?, vec![n; 4_096]);
    for n in 0..10 {
        backlog.enqueue(format!("picture:{n}"), picture(n)?).kind("shrink").send().await?;
    }
    urgent.enqueue("picture:11", picture(11)?).kind("shrink").send().await?;

    let shutdown = CancellationToken::new();
    let worker = Worker::new(&urgent)
        .weight(3)
        .queue(&backlog, 1)
        .register_blocking("shrink", shrink)
        .timeout(Duration::from_secs(60))
        .concurrency(4);
    let metrics = worker.metrics();
    let working = tokio::spawn(worker.run(shutdown.clone()));
    while metrics.snapshot().total().done < 11 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    shutdown.cancel();
    assert_eq!(working.await.expect("the worker does not panic")?.done, 11);
    client.close().await
}
