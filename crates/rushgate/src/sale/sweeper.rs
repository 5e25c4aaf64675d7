use std::time::Duration;

use rushgate_core::Result;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::Sale;
use crate::retry::{Pauses, will_pass};

/// Holds ended per call.
const BATCH: u32 = 500;
/// Longest sleep, because clocks drift and machines suspend.
const SLEEP_MAX: Duration = Duration::from_secs(60);
const SLEEP_MIN: Duration = Duration::from_millis(2);

/// Expires the holds of one sale on time, which releases their units.
///
/// It sleeps until the next deadline. While nothing is held, it sleeps for one hold time at most, because no
/// hold can expire earlier. Any number of processes may sweep the same sale. Without a sweeper, requests for
/// sold-out SKUs expire holds as well, slightly later.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> rushgate::Result<()> {
/// # let client = rushgate::Rushgate::connect("sqlite::memory:").await?;
/// # client.create_sale(rushgate::SaleBuilder::new("phones").sku("phone", 1, 1)).await?;
/// use rushgate::CancellationToken;
/// use rushgate::sale::Sweeper;
///
/// let shutdown = CancellationToken::new();
/// let sweeper = tokio::spawn(Sweeper::new(client.sale("phones")?).run(shutdown.clone()));
/// shutdown.cancel();
/// assert_eq!(sweeper.await.expect("no panic")?.expired, 0);
/// # client.close().await
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a sweeper does nothing until it runs"]
pub struct Sweeper {
    sale: Sale,
}

/// Totals of a sweeper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Holds expired.
    pub expired: u64,
    /// Number of wake-ups.
    pub rounds: u64,
    /// Calls that failed because the store was unreachable or full, and were retried.
    pub outages: u64,
}

impl Sweeper {
    /// A sweeper for `sale`.
    pub fn new(sale: Sale) -> Self {
        Self { sale }
    }

    /// Sweeps until `shutdown` is canceled. Cancel safe.
    ///
    /// # Errors
    /// [`is_not_found`](crate::Error::is_not_found) if there is no such sale, and other lasting errors.
    /// Outages and a full store are not errors: the sweeper waits until they end.
    pub async fn run(self, shutdown: CancellationToken) -> Result<SweepReport> {
        let mut report = SweepReport::default();
        let mut pauses = Pauses::new();
        loop {
            let pause = match self.round(&mut report).await {
                Ok(pause) => {
                    pauses = Pauses::new();
                    pause
                }
                Err(error) if will_pass(&error) && !self.is_closed() => {
                    report.outages += 1;
                    tracing::warn!(sale = %self.sale.id(), %error, "the store is unavailable; the sweeper is retrying");
                    pauses.draw()
                }
                Err(error) => return Err(error),
            };
            tokio::select! {
                () = shutdown.cancelled() => return Ok(report),
                () = sleep(pause) => {}
            }
        }
    }

    fn is_closed(&self) -> bool {
        self.sale.client().closing().is_cancelled()
    }

    /// Expires the due holds, and returns the time until the next round.
    async fn round(&self, report: &mut SweepReport) -> Result<Duration> {
        report.rounds += 1;
        loop {
            let ended = self.sale.expire(BATCH).await?;
            report.expired += u64::from(ended);
            if ended < BATCH {
                break;
            }
        }
        let state = self.sale.state().await?;
        let hold = state.spec.hold.get();
        let next = state.next_expiry.map_or(hold, |at| at.since(state.now));
        Ok(next.clamp(SLEEP_MIN, SLEEP_MAX))
    }
}
