//! The orders database: the system of record for every unit sold.
//!
//! A store ([`rushgate_core::Store`]) is fast and may lose acknowledged writes. The ledger is slower, and what it has
//! committed is final. A unit has at most one owner and a buyer stays within the limit, because the **schema**
//! rejects anything else, whichever program writes to it. `202 Reserved` is a hold; `confirmed` means that the ledger
//! has committed.
//!
//! The ledger is an SQLite file for the processes of one machine, or a schema on a Postgres server. [`connect`] takes
//! the URL of either, and gives the same guarantees on both.
//!
//! A rush puts little load on the ledger: a few writers send it batches ([`Ledger::write`]), and no buyer's request
//! reads it.
//!
//! ```
//! # async fn example() -> rushgate_core::Result<()> {
//! use rushgate_core::{BuyerId, OrderIntent, LedgerEntry, ReservationId, SaleId, Sku, SkuSpec, Verdict};
//! use rushgate_ledger::{LedgerSale, Written, connect};
//!
//! let ledger = connect("sqlite::memory:")?;
//! let (sale, phone) = (SaleId::new("phones")?, Sku::new("phone")?);
//! let skus = vec![SkuSpec { sku: phone.clone(), units: 10, per_buyer: 1 }];
//! ledger.open_sale(LedgerSale { sale: sale.clone(), generation: 1, skus, spec: None }).await?;
//!
//! let order = LedgerEntry::Reservation {
//!     sale: sale.clone(),
//!     generation: 1,
//!     seq: 1,
//!     id: ReservationId::from_bytes([7; 16]),
//!     buyer: BuyerId::new("ann")?,
//!     units: vec![(phone, 3)],
//!     intent: OrderIntent::Confirm,
//! };
//! let written = ledger.write(vec![order.clone(), order]).await?;
//! assert_eq!(written[0], Written::Recorded(OrderIntent::Confirm));
//! assert_eq!(written[1], written[0], "a redelivery changes nothing");
//! assert_eq!(written[0].verdict(OrderIntent::Confirm), Some(Verdict::Confirmed));
//! assert_eq!(ledger.snapshot(&sale).await?.orders.len(), 1);
//! # Ok(()) }
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
//! ```
//!
//! # Features
//! `sqlite` and `postgres`, both on by default: the databases that [`connect`] supports.
//!
//! # Cancel safety
//! A call is sent when the method is called. Dropping its future does not undo the call. Call again to get the
//! answer, which is safe because every call is idempotent.

#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod check;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod client;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod counters;
mod ledger;
mod open;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod outbox;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod words;

pub use ledger::{KnownSale, Ledger, LedgerCalls, LedgerSale, Refusal, Written};
#[cfg(feature = "sqlite")]
pub use open::connect_at_most;
pub use open::{connect, connect_when_it_can};
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub use outbox::{
    Outbox, OutboxBatches, OutboxEntry, OutboxLead, OutboxStats, OutboxTaken, OutboxTask, OutboxTurn,
    RefusedTask,
};
