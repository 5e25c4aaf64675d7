//! Fan out and collect: one task counts each page, and a callback sums up when all are done.

use rushgate::queue::{Closed, TaskState};
use rushgate::worker::{Output, Results, State};
use rushgate::{CancellationToken, Rushgate, Worker};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

async fn count(page: String) -> Output<usize> {
    Output(page.split_whitespace().count())
}

async fn bind(
    title: String,
    results: Results,
    State(told): State<UnboundedSender<String>>,
) -> rushgate::Result<()> {
    let pages = results.read::<usize>().await?;
    let words: usize = pages.iter().map(|(_, words)| words).sum();
    let _ = told.send(format!("{title} has {words} words on {} pages", pages.len()));
    Ok(())
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example tells its story")]
async fn main() -> rushgate::Result<()> {
    let store = std::env::var("RUSHGATE_STORE").unwrap_or("sqlite::memory:".into());
    let client = Rushgate::connect(&store).await?;
    let books = client.queue_of::<String>("books")?;

    // The batch stays open while its members are enqueued.
    books.enqueue("haiku", "Haiku".to_owned()).kind("bind").held_open().send().await?;
    for (n, page) in ["an old silent pond", "a frog jumps into the pond", "splash"].iter().enumerate() {
        books.enqueue(format!("page:{n}"), (*page).to_owned()).kind("count").part_of("haiku").send().await?;
    }
    assert_eq!(books.close_batch("haiku").await?, Closed::Closed { left: 3 });
    assert_eq!(books.task("haiku").await?.map(|info| info.state), Some(TaskState::Blocked));

    let (told, mut desk) = unbounded_channel();
    let shutdown = CancellationToken::new();
    let worker = Worker::new(&books).state(told).register("count", count).register("bind", bind);
    let worker = tokio::spawn(worker.run(shutdown.clone()));
    let story = desk.recv().await.unwrap_or_default();
    println!("{story}");
    assert_eq!(story, "Haiku has 11 words on 3 pages");

    shutdown.cancel();
    assert_eq!(worker.await.expect("the worker does not panic")?.done, 4);
    client.close().await
}
