//! At most once per hour: an expensive report, and a page that requests it on every visit.

use std::time::Duration;

use rushgate::queue::{UniqueCleared, Why};
use rushgate::worker::State;
use rushgate::{CancellationToken, Enqueued, Rushgate, Worker};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

const HOUR: Duration = Duration::from_secs(3_600);

async fn report(shop: String, State(written): State<UnboundedSender<String>>) {
    let _ = written.send(format!("the report of {shop}"));
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example tells its story")]
async fn main() -> rushgate::Result<()> {
    let store = std::env::var("RUSHGATE_STORE").unwrap_or("sqlite::memory:".into());
    let client = Rushgate::connect(&store).await?;
    let reports = client.queue_of::<String>("reports")?;
    let (written, mut desk) = unbounded_channel();
    let shutdown = CancellationToken::new();
    let worker = Worker::new(&reports).state(written).register("report", report);
    let worker = tokio::spawn(worker.run(shutdown.clone()));
    let visit = || reports.enqueue("shop:7", "shop 7".to_owned()).kind("report").unique_for(HOUR).send();

    assert!(matches!(visit().await?, Enqueued::Added { .. }));
    println!("{}", desk.recv().await.unwrap_or_default());
    while !reports.why("shop:7").await?.iter().all(|why| matches!(why, Why::Unique { .. })) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    // The task is done and removed, and its uniqueness window still applies.
    for _ in 0..100 {
        assert!(matches!(visit().await?, Enqueued::Recent { .. }));
    }
    println!("a hundred visits later there is no other");

    // The source data were fixed: clear the window.
    assert!(matches!(reports.clear_unique("shop:7").await?, UniqueCleared::Cleared { .. }));
    assert!(matches!(visit().await?, Enqueued::Added { .. }));
    println!("{}", desk.recv().await.unwrap_or_default());

    shutdown.cancel();
    assert_eq!(worker.await.expect("the worker does not panic")?.done, 2);
    client.close().await
}
