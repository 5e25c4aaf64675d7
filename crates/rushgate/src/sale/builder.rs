use std::time::Duration;

use rushgate_core::{HoldTime, QueueName, Result, SaleId, SaleSecret, SaleSpec, Sku, SkuSpec, Timestamp};

/// Specification of a new sale, to pass to [`Rushgate::create_sale`](crate::Rushgate::create_sale), which
/// validates it.
#[derive(Clone, Debug)]
#[must_use = "nothing is created before `create_sale`"]
pub struct SaleBuilder {
    id: String,
    skus: Vec<(String, u32, u32)>,
    hold: Duration,
    opens_at: Option<Timestamp>,
    closes_at: Option<Timestamp>,
    orders: Option<String>,
}

impl SaleBuilder {
    /// A sale without SKUs and with a hold time of 5 min.
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

    /// Adds a SKU with `units` (1 to 10,000,000) and a purchase limit of `per_buyer` units (1 to 10,000).
    pub fn sku(mut self, sku: impl Into<String>, units: u32, per_buyer: u32) -> Self {
        self.skus.push((sku.into(), units, per_buyer));
        self
    }

    /// Hold time of a reservation: 10 ms to 30 days. Units that are not confirmed by then are released.
    /// Default: 5 min.
    pub fn hold(mut self, hold: Duration) -> Self {
        self.hold = hold;
        self
    }

    /// Earliest time to sell, on the store's clock. The sale also has to be opened.
    pub fn opens_at(mut self, at: Timestamp) -> Self {
        self.opens_at = Some(at);
        self
    }

    /// Time at which selling ends, on the store's clock.
    pub fn closes_at(mut self, at: Timestamp) -> Self {
        self.closes_at = Some(at);
        self
    }

    /// Makes a ledger the system of record for orders. Each reservation and decision becomes a task of this
    /// queue, and an [`OrderWorker`](super::OrderWorker) writes it to the ledger.
    ///
    /// The queue must never have been used, except by other sales. It is reserved from now on: any client can
    /// read it, but only order workers and the methods of sales change it
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
