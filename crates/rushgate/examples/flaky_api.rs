//! Call a flaky API: back off after a failure, honor its Retry-After, and give up on a request that it
//! rejects.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rushgate::store::Page;
use rushgate::worker::{Attempt, Backoff, Outcome, State};
use rushgate::{CancellationToken, Rushgate, TaskId, Worker};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Payment {
    cents: u32,
}

/// An API that is down at first, then busy, and rejects empty payments.
#[derive(Clone, Default)]
struct Bank(Arc<AtomicU32>);

enum Answer {
    Paid,
    Down,
    Busy(Duration),
    Refused,
}

impl Bank {
    async fn pay(&self, cents: u32, _idempotency_key: &str) -> Answer {
        match (cents, self.0.fetch_add(1, Ordering::SeqCst)) {
            (0, _) => Answer::Refused,
            (_, 0) => Answer::Down,
            (_, 1) => Answer::Busy(Duration::from_millis(20)),
            _ => Answer::Paid,
        }
    }
}

#[expect(clippy::print_stdout, reason = "an example tells its story")]
async fn pay(payment: Payment, id: TaskId, attempt: Attempt, State(bank): State<Bank>) -> Outcome {
    // The ID is the same for every attempt, so that the bank recognizes a repeated payment.
    let answer = bank.pay(payment.cents, id.as_str()).await;
    println!("{id}, attempt {} of {}", attempt.number, attempt.max);
    match answer {
        Answer::Paid => Outcome::Done,
        Answer::Down => Outcome::retry("the bank is down"),
        Answer::Busy(wait) => Outcome::retry_after(wait, "the bank is busy"),
        Answer::Refused => Outcome::give_up("the bank refuses it"),
    }
}

#[tokio::main]
async fn main() -> rushgate::Result<()> {
    let dir = tempfile::tempdir().expect("a place for the store");
    let file = format!("sqlite:{}", dir.path().join("pay.db").display());
    let client = Rushgate::connect(&std::env::var("RUSHGATE_STORE").unwrap_or(file)).await?;
    let payments = client.queue_of::<Payment>("payments")?;
    payments.enqueue("order:1", Payment { cents: 995 }).kind("pay").max_attempts(10).send().await?;
    payments.enqueue("order:2", Payment { cents: 0 }).kind("pay").priority(9).send().await?;

    let shutdown = CancellationToken::new();
    let worker = Worker::new(&payments)
        .state(Bank::default())
        .register("pay", pay)
        .retry_policy(Backoff { base: Duration::from_millis(10), ..Backoff::default() })
        .timeout(Duration::from_secs(30))
        .concurrency(1);
    let metrics = worker.metrics();
    let working = tokio::spawn(worker.run(shutdown.clone()));
    while metrics.snapshot().total().done + metrics.snapshot().total().dead < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    shutdown.cancel();
    let report = working.await.expect("the worker does not panic")?;
    assert_eq!(report.done, 1);
    assert_eq!(report.dead, 1);
    assert!(report.retried >= 1);
    assert_eq!(payments.dead(Page::first(10)).await?[0].error, "the bank refuses it");
    client.close().await
}
