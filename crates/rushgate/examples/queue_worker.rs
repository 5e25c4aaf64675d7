//! A mail queue: one mail fails for good, one needs a second attempt, and the rest are sent.

use std::time::Duration;

use rushgate::store::Page;
use rushgate::worker::{Backoff, Outcome};
use rushgate::{CancellationToken, Job, Rushgate, Worker};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Mail {
    to: String,
}

#[expect(clippy::print_stdout, reason = "an example tells its story")]
async fn send(job: Job<Mail>) -> Outcome {
    match (job.payload.to.as_str(), job.attempt) {
        ("nobody", _) => Outcome::give_up("there is no such address"),
        ("bob", 1) => Outcome::retry("the mail server is busy"),
        (to, attempt) => {
            println!("sent to {to} at attempt {attempt}");
            Outcome::Done
        }
    }
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example tells its story")]
async fn main() -> rushgate::Result<()> {
    let dir = tempfile::tempdir().expect("a place for the store");
    let file = format!("sqlite:{}", dir.path().join("mail.db").display());
    let client = Rushgate::connect(&std::env::var("RUSHGATE_STORE").unwrap_or(file)).await?;

    let mail = client.queue_of::<Mail>("mail")?;
    for to in ["ann", "bob", "nobody"] {
        mail.enqueue(format!("welcome:{to}"), Mail { to: to.to_owned() }).send().await?;
    }

    let shutdown = CancellationToken::new();
    let quickly = Backoff { base: Duration::from_millis(10), ..Backoff::default() };
    let worker = Worker::new(&mail).register("*", send).concurrency(4).retry_policy(quickly);
    let working = tokio::spawn(worker.run(shutdown.clone()));
    loop {
        let stats = mail.stats().await?;
        if stats.ready + stats.scheduled + stats.leased == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    shutdown.cancel();
    let report = working.await.expect("the worker does not panic")?;

    println!("{report:#?}");
    assert_eq!((report.done, report.retried, report.dead), (2, 1, 1));
    for letter in mail.dead(Page::first(10)).await? {
        println!("dead letter {}: {}", letter.id, letter.error);
    }
    client.close().await
}
