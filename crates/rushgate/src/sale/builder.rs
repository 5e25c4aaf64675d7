use std::time::Duration;

use rushgate_core::{HoldTime, QueueName, Result, SaleId, SaleSecret, SaleSpec, Sku, SkuSpec, Timestamp};

/// A sale to make: say what it sells, then hand it to [`Rushgate::create_sale`](crate::Rushgate::create_sale), which
/// checks it.
#[derive(Clone, Debug)]
#[must_use = "nothing is made before `create_sale`"]
pub struct SaleBuilder {
    id: String,
    skus: Vec<(String, u32, u32)>,
    hold: Duration,
    opens_at: Option<Timestamp>,
    closes_at: Option<Timestamp>,
    orders: Option<String>,
}

impl SaleBuilder {
    /// A sale of nothing yet, whose reservations hold for 5 min.
    pub fn new(id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            skus: Vec::new(),
            hold: Duration::from_secs(300),
            opens_at: None,
            closes_at: None,
            orders: None,
        }
    }

    /// Sells `units` (1 to 10,000,000) of `sku`, of which one buyer may have `per_buyer` (1 to 10,000) at a time.
    pub fn sku(mut self, sku: impl Into<String>, units: u32, per_buyer: u32) -> Self {
        self.skus.push((sku.into(), units, per_buyer));
        self
    }

    /// How long a reservation keeps its units without being confirmed: 10 ms to 30 days.
    pub fn hold(mut self, hold: Duration) -> Self {
        self.hold = hold;
        self
    }

    /// Sells nothing before that moment on the store's clock, even if opened.
    pub fn opens_at(mut self, at: Timestamp) -> Self {
        self.opens_at = Some(at);
        self
    }

    /// Sells nothing from that moment on the store's clock on.
    pub fn closes_at(mut self, at: Timestamp) -> Self {
        self.closes_at = Some(at);
        self
    }

    /// Gives a ledger the last word: each reservation and decision becomes a task of that queue, and an
    /// [`OrderWorker`](super::OrderWorker) carries it to the ledger.
    ///
    /// The queue must never have been used, except by other sales. From then on it is reserved: everything can be read
    /// there, but only order workers and the verbs of sales change it
    /// ([`is_queue_reserved`](crate::Error::is_queue_reserved)).
    pub fn orders(mut self, queue: impl Into<String>) -> Self {
        self.orders = Some(queue.into());
        self
    }

    pub(super) fn build(self) -> Result<SaleSpec> {
        let sku = |(sku, units, per_buyer): (String, u32, u32)| {
            Ok(SkuSpec { sku: Sku::new(sku)?, units, per_buyer })
        };
        let spec = SaleSpec {
            id: SaleId::new(self.id)?,
            skus: self.skus.into_iter().map(sku).collect::<Result<_>>()?,
            hold: HoldTime::new(self.hold)?,
            opens_at: self.opens_at,
            closes_at: self.closes_at,
            orders: self.orders.map(QueueName::new).transpose()?,
            secret: SaleSecret::from_bytes(rand::random()),
        };
        spec.check()?;
        Ok(spec)
    }
}
