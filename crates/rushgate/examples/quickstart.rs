//! The program of the README: one lock, and the work that it protects.

use rushgate::Rushgate;

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example tells its story")]
async fn main() -> rushgate::Result<()> {
    // Or `sqlite:shop.db`, `redis://127.0.0.1:6379`, `redis+cluster://…`.
    let store = std::env::var("RUSHGATE_STORE").unwrap_or("sqlite::memory:".into());
    let client = Rushgate::connect(&store).await?;
    let lock = client.lock("nightly-report")?;
    // Waits for the lock, renews it while the work runs, and stops the work if the lock is lost.
    let outcome = lock.run(async |held| format!("report written, fence {}", held.fence())).await?;
    println!("{outcome:?}");
    client.close().await
}
