//! Retries of the simulation.

use std::time::{Duration, Instant};

use tokio::time::sleep;

/// Maximum length of an outage.
pub(super) const OUTAGE_MAX: Duration = Duration::from_secs(30);

/// Retries while the store or the ledger is unreachable, so that the simulation outlasts a failover.
pub(super) async fn with_retries<T, F: Future<Output = rushgate::Result<T>>>(
    ask: impl Fn() -> F,
) -> rushgate::Result<T> {
    retry(OUTAGE_MAX, ask).await
}

/// Retries for up to `most` while the store, the ledger or the server is unreachable.
pub(super) async fn retry<T, F>(most: Duration, ask: impl Fn() -> F) -> rushgate::Result<T>
where
    F: Future<Output = rushgate::Result<T>>,
{
    let end = Instant::now() + most;
    loop {
        match ask().await {
            Err(error) if error.is_unavailable() && Instant::now() < end => {
                sleep(Duration::from_millis(100)).await;
            }
            answer => return answer,
        }
    }
}
