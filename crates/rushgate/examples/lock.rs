//! Two clients, one order: only one may work on it at a time.

use std::time::Duration;

use rushgate::lock::BusyPolicy;
use rushgate::{RunOutcome, Rushgate};

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example tells its story")]
async fn main() -> rushgate::Result<()> {
    let dir = tempfile::tempdir().expect("a place for the store");
    let file = format!("sqlite:{}", dir.path().join("shop.db").display());
    let client = Rushgate::connect(&std::env::var("RUSHGATE_STORE").unwrap_or(file)).await?;

    let order = client.lock("order:42")?.lease(Duration::from_secs(15));
    let ann = order.acquire().await?.held().expect("nobody else has it");
    println!("Ann works on the order, with fence {}.", ann.fence());
    let bob = order.clone().on_busy(BusyPolicy::Fail).run(async |_| "shipped").await?;
    assert!(matches!(bob, RunOutcome::Busy(_)));
    println!("Bob finds the order busy: {bob:?}.");

    ann.release().await?;
    let bob = order.run(async |held| format!("shipped with fence {}", held.fence())).await?;
    assert!(matches!(bob, RunOutcome::Done(_)));
    println!("Ann is done, so Bob's work is: {bob:?}.");
    client.close().await
}
