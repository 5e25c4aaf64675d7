//! What simulated buyers do: calls of this process, or requests over HTTP.

use std::time::{Duration, Instant};

use rushgate::sale::{Decision, Hold, ReservationId};
use rushgate::{BuyerId, IdempotencyKey, Line, Reserved, Sale};

use super::retry::with_retries;
use super::tally::Told;

/// A buyer's connection to the sale. Clones share it.
pub(super) trait Connection: Clone + Send + Sync + 'static {
    /// Number of buyers that a connection takes from the sequence at a time.
    const STRETCH: u64;
    /// Pause before a buyer retries after "all on hold".
    const COME_BACK: Duration;

    /// A new connection to the same sale.
    fn another(&self) -> Self;

    /// Reserves the units of a line. Also returns the duration of the last request alone.
    fn click(
        &self,
        buyer: &BuyerId,
        line: &Line,
        key: &IdempotencyKey,
    ) -> impl Future<Output = (Answer, Duration)> + Send;

    /// Confirms or cancels a hold.
    fn decide(&self, id: ReservationId, choice: Choice) -> impl Future<Output = Decided> + Send;
}

/// Answer to a click.
pub(super) enum Answer {
    Reserved(Hold),
    Told(Told),
    Failed(String),
}

impl From<rushgate::Result<Reserved>> for Answer {
    fn from(answer: rushgate::Result<Reserved>) -> Self {
        match answer {
            Ok(Reserved::Reserved(hold)) => Self::Reserved(hold),
            Ok(answer) => Self::Told(Told::from(&answer)),
            Err(error) => Self::Failed(error.to_string()),
        }
    }
}

/// A buyer's decision on a hold.
#[derive(Clone, Copy, Debug)]
pub(super) enum Choice {
    Confirm,
    Cancel,
}

/// Answer to a decision.
pub(super) enum Decided {
    /// Done, or waiting for the ledger.
    Done,
    /// Decided otherwise before.
    Refused,
    /// There is no such hold.
    Unknown,
    /// Not decided while the sale is halted.
    Halted,
    NoAnswer,
}

impl From<rushgate::Result<Decision>> for Decided {
    fn from(decision: rushgate::Result<Decision>) -> Self {
        match decision {
            Ok(Decision::Done(_) | Decision::Pending(_)) => Self::Done,
            Ok(Decision::Refused(_)) => Self::Refused,
            Ok(Decision::Unknown) => Self::Unknown,
            Ok(Decision::Halted) => Self::Halted,
            Ok(_) | Err(_) => Self::NoAnswer,
        }
    }
}

/// A sale of this process.
impl Connection for Sale {
    const STRETCH: u64 = 64;
    const COME_BACK: Duration = Duration::from_millis(25);

    fn another(&self) -> Self {
        self.clone()
    }

    async fn click(&self, buyer: &BuyerId, line: &Line, key: &IdempotencyKey) -> (Answer, Duration) {
        let start = Instant::now();
        let answer = self.reserve(buyer, std::slice::from_ref(line), key).await;
        let took = start.elapsed();
        (answer.into(), took)
    }

    async fn decide(&self, id: ReservationId, choice: Choice) -> Decided {
        match choice {
            Choice::Confirm => with_retries(|| self.confirm(id)).await.into(),
            Choice::Cancel => with_retries(|| self.cancel(id)).await.into(),
        }
    }
}
