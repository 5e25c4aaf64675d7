//! Tasks with a deadline: a login code that is useful only for a moment.

use std::time::Duration;

use rushgate::queue::{DeadLetter, Why};
use rushgate::worker::State;
use rushgate::{CancellationToken, Rushgate, Worker};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

async fn send_code(code: String, State(sent): State<UnboundedSender<String>>) {
    let _ = sent.send(code);
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example tells its story")]
async fn main() -> rushgate::Result<()> {
    let store = std::env::var("RUSHGATE_STORE").unwrap_or("sqlite::memory:".into());
    let client = Rushgate::connect(&store).await?;
    let codes = client.queue_of::<String>("codes")?;
    let put = |id, code: &str, time| codes.enqueue(id, code.to_owned()).kind("code").deadline(time).send();

    put("login:ann", "491-207", Duration::from_millis(20)).await?;
    put("login:bob", "118-350", Duration::from_secs(300)).await?;
    let why = codes.why("login:bob").await?;
    assert!(why.iter().any(|why| matches!(why, Why::Deadline { .. })), "{why:?}");
    let early = codes.enqueue("login:cid", "000-000".to_owned());
    let early = early.delay(Duration::from_secs(60)).deadline(Duration::from_secs(60)).send().await;
    assert!(early.is_err_and(|error| error.is_invalid()), "it would leave no time");

    // No worker has started the first task before its deadline.
    while codes.dead_letter("login:ann").await?.is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (sent, mut phones) = unbounded_channel();
    let shutdown = CancellationToken::new();
    let worker = Worker::new(&codes).state(sent).register("code", send_code);
    let worker = tokio::spawn(worker.run(shutdown.clone()));
    assert_eq!(phones.recv().await.as_deref(), Some("118-350"));
    println!("bob has his code");

    let letter = codes.dead_letter("login:ann").await?.expect("it was there a moment ago");
    assert_eq!((letter.error.as_str(), letter.attempts), (DeadLetter::LATE, 0));
    println!("{}: {}", letter.id, letter.error);

    shutdown.cancel();
    assert_eq!(worker.await.expect("the worker does not panic")?.done, 1);
    client.close().await
}
