use std::time::Duration;

use rushgate_core::{HoldTime, Result, SaleId, SaleSecret, SaleSpec, Sku, SkuSpec, Timestamp};

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
    ledger: bool,
    metadata: String,
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
            ledger: false,
            metadata: String::new(),
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

    /// Makes a ledger the system of record for orders. An [`OrderWorker`](super::OrderWorker) writes each reservation
    /// and decision to it. Default: the store's records are final.
    pub fn ledger(mut self) -> Self {
        self.ledger = true;
        self
    }

    /// What shop pages show of the sale: a JSON object of at most 64 KiB. Default: none.
    pub fn metadata(mut self, json: impl Into<String>) -> Self {
        self.metadata = json.into();
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
            ledger: self.ledger,
            metadata: self.metadata,
            secret: SaleSecret::from_bytes(rand::random()),
        };
        spec.check()?;
        Ok(spec)
    }
}
