//! Transactional outbox: an order and its task are committed together, and a relay moves the task into the
//! queue.

use rushgate::outbox::{Outbox, OutboxEntry, OutboxRelay};
use rushgate::queue::NewTask;
use rushgate::worker::State;
use rushgate::{CancellationToken, Rushgate, Worker};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

async fn thank(buyer: String, State(letters): State<UnboundedSender<String>>) {
    let _ = letters.send(format!("Thank you, {buyer}"));
}

/// Commits the order and its letter, or neither.
fn order(shop: &mut rusqlite::Connection, buyer: &str, letter: &NewTask, pays: bool) -> rusqlite::Result<()> {
    let mail = "mail".parse().expect("the name of a queue");
    let row = OutboxEntry::new(&mail, letter).expect("a task that a queue takes");
    let transaction = shop.transaction()?;
    transaction.execute("INSERT INTO orders (buyer) VALUES (?1)", [buyer])?;
    transaction.execute(
        OutboxEntry::SQLITE,
        rusqlite::params![
            row.queue, row.id, row.payload, row.content_type, row.due_at_ms, row.priority, row.max_attempts,
            row.key, row.on_duplicate, row.max_wait_ms,
        ],
    )?;
    if pays { transaction.commit() } else { transaction.rollback() }
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example tells its story")]
async fn main() -> rushgate::Result<()> {
    let dir = tempfile::tempdir().expect("a place for the shop");
    let path = dir.path().join("shop.db");
    let mut shop = rusqlite::Connection::open(&path).expect("the shop's own database");
    shop.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY, buyer TEXT)").expect("a table");

    let store = std::env::var("RUSHGATE_STORE").unwrap_or("sqlite::memory:".into());
    let client = Rushgate::connect(&store).await?;
    let mail = client.queue_of::<String>("mail")?;
    let outbox = Outbox::open(&format!("sqlite:{}", path.display())).await?;
    for (n, (buyer, pays)) in [("ann", true), ("bob", false), ("cem", true)].into_iter().enumerate() {
        let letter = mail.new_task(format!("thank:{n}"), buyer.to_owned())?;
        order(&mut shop, buyer, &letter, pays).expect("the shop's database is at hand");
    }

    let (letters, mut written) = unbounded_channel();
    let shutdown = CancellationToken::new();
    let relay = tokio::spawn(OutboxRelay::new(&client, outbox.clone()).run(shutdown.clone()));
    let worker = Worker::new(&mail).state(letters).register("*", thank);
    let worker = tokio::spawn(worker.run(shutdown.clone()));
    for _ in 0..2 {
        println!("{}", written.recv().await.unwrap_or_default());
    }
    shutdown.cancel();
    let moved = relay.await.expect("the relay does not panic").moved;
    worker.await.expect("the worker does not panic")?;
    assert_eq!(moved, 2, "bob did not pay, so there was never a letter");
    assert_eq!(outbox.stats().await?.waiting, 0);
    client.close().await
}
