//! A report per second in a fleet of three: every occurrence runs once.

use std::time::Duration;

use rushgate::schedule::Missed;
use rushgate::{CancellationToken, Job, Recurrence, Rushgate, Worker};
use tokio::sync::mpsc;

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example tells its story")]
async fn main() -> rushgate::Result<()> {
    let dir = tempfile::tempdir().expect("a place for the store");
    let file = format!("sqlite:{}", dir.path().join("reports.db").display());
    let url = std::env::var("RUSHGATE_STORE").unwrap_or(file);
    let shutdown = CancellationToken::new();
    let (written, mut reports) = mpsc::unbounded_channel();

    let mut fleet = Vec::new();
    for machine in ["one", "two", "three"] {
        let client = Rushgate::connect(&url).await?;
        let queue = client.queue_of::<String>("reports")?;
        // All three save the same schedule at startup. A nightly one would be
        // `Recurrence::cron("30 3 * * *")?.in_zone("Europe/Berlin")?`.
        let each_second = Recurrence::every(Duration::from_secs(1))?.missed(Missed::All);
        queue.schedule("sales", "sales of the second".to_owned(), each_second).save().await?;

        let written = written.clone();
        let handler = move |job: Job<String>| {
            let _ = written.send((job.id().to_string(), machine));
            async { Ok::<_, std::io::Error>(()) }
        };
        let worker = Worker::new(&queue).register("*", handler);
        let worker = worker.run(shutdown.clone());
        fleet.push((client, tokio::spawn(worker)));
    }

    let mut ids = Vec::new();
    while ids.len() < 3 {
        let Some((id, machine)) = reports.recv().await else { break };
        println!("{id} by machine {machine}");
        ids.push(id);
    }
    shutdown.cancel();
    for (client, worker) in fleet {
        worker.await.expect("the worker does not panic")?;
        client.close().await?;
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 3, "no moment has two reports");
    Ok(())
}
