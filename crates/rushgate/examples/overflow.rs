//! A queue with an overflow policy: keeps the newest samples while the workers are busy.

use rushgate::queue::{Overflow, QueueLimits};
use rushgate::{Enqueued, Rushgate};

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example tells its story")]
async fn main() -> rushgate::Result<()> {
    let store = std::env::var("RUSHGATE_STORE").unwrap_or("sqlite::memory:".into());
    let client = Rushgate::connect(&store).await?;
    let samples = client.queue_of::<u32>("samples")?;
    let at_most = |bound, overflow| QueueLimits { bound: Some(bound), overflow, ..QueueLimits::default() };

    samples.limit(at_most(3, Overflow::DropOldest)).await?;
    for n in 1..=10 {
        match samples.enqueue(format!("cpu:{n}"), n).send().await? {
            Enqueued::Displaced { dropped, .. } => println!("{dropped} gave way to cpu:{n}"),
            other => assert!(matches!(other, Enqueued::Added { .. }), "{other:?}"),
        }
    }
    let newest = samples.pop(10).await?;
    let newest: Vec<u32> = newest.iter().map(|task| samples.read(&task.payload)).collect::<Result<_, _>>()?;
    assert_eq!(newest, [8, 9, 10]);

    // Tasks that must not be lost: the queue refuses, and the client retries later.
    let orders = client.queue_of::<u32>("orders")?;
    orders.limit(at_most(1, Overflow::Refuse)).await?;
    orders.enqueue("order:1", 1).send().await?;
    assert_eq!(orders.enqueue("order:2", 2).send().await?, Enqueued::Full { bound: 1 });
    println!("order:2 waits outside");

    // Tasks that are worthless when late: the queue drops the new one.
    let pings = client.queue_of::<u32>("pings")?;
    pings.limit(at_most(1, Overflow::DropNew)).await?;
    pings.enqueue("ping:1", 1).send().await?;
    assert_eq!(pings.enqueue("ping:2", 2).send().await?, Enqueued::Dropped { bound: 1 });
    println!(
        "of pings {} was dropped, of samples {}",
        pings.stats().await?.dropped,
        samples.stats().await?.dropped
    );
    client.close().await
}
