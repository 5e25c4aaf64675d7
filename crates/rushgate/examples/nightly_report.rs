//! A nightly report in a fleet: three machines save the same schedule, and one of them runs each occurrence.

use rushgate::schedule::Missed;
use rushgate::worker::State;
use rushgate::{CancellationToken, Recurrence, Rushgate, TaskId, Worker};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

async fn report(of: String, id: TaskId, State(written): State<UnboundedSender<String>>) {
    let _ = written.send(format!("{of} by {id}"));
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example tells its story")]
async fn main() -> rushgate::Result<()> {
    let dir = tempfile::tempdir().expect("a place for the store");
    let file = format!("sqlite:{}", dir.path().join("reports.db").display());
    let url = std::env::var("RUSHGATE_STORE").unwrap_or(file);
    let (written, mut reports) = unbounded_channel();
    let shutdown = CancellationToken::new();
    let mut fleet = Vec::new();
    for _ in 0..3 {
        let client = Rushgate::connect(&url).await?;
        let queue = client.queue_of::<String>("reports")?;
        let nightly = Recurrence::cron("30 3 * * *")?.in_zone("Europe/Berlin")?.missed(Missed::Once);
        queue.schedule("sales", "sales of the day".to_owned(), nightly).kind("report").save().await?;
        let worker = Worker::new(&queue).state(written.clone()).register("report", report);
        fleet.push((client, tokio::spawn(worker.run(shutdown.clone()))));
    }

    // Enqueue one now instead of waiting for the night.
    let queue = fleet[0].0.queue("reports")?;
    assert_eq!(
        queue.schedules(rushgate::store::Page::default()).await?.len(),
        1,
        "three machines, one schedule"
    );
    queue.run_schedule("sales").await?;
    println!("{}", reports.recv().await.unwrap_or_default());

    shutdown.cancel();
    let mut written = 0;
    for (client, worker) in fleet {
        written += worker.await.expect("the worker does not panic")?.done;
        client.close().await?;
    }
    assert_eq!(written, 1, "one of the three has written it");
    Ok(())
}
