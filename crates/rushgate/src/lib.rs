//! Distributed locks, a durable task queue and oversell-proof inventory for flash sales.
//!
//! Three primitives share one store:
//! - a [lock](crate::Rushgate::lock): one holder at a time, FIFO waiters and a fencing token per grant;
//! - a [queue](crate::Rushgate::queue): one record per task ID, claimed by [`Worker`]s under a lease that
//!   survives a crash;
//! - a [sale](crate::Rushgate::sale): a stock of numbered units with a purchase limit per buyer, and an audit
//!   that proves that exactly N units were sold.
//!
//! ```
//! use std::time::Duration;
//! use rushgate::{BuyerId, IdempotencyKey, Line, Reserved, Rushgate, RunOutcome, SaleBuilder, Sku};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> rushgate::Result<()> {
//! let client = Rushgate::connect("sqlite::memory:").await?;
//!
//! // A lock: hold, run, release on every path out.
//! let outcome = client.lock("order:42")?.run(|held| async move { held.fence() }).await?;
//! assert!(matches!(outcome, RunOutcome::Done(_)));
//!
//! // A queue: one record per ID, however often it is enqueued.
//! let mail = client.queue_of::<String>("mail")?;
//! mail.enqueue("order:42", "Thank you".to_owned()).delay(Duration::from_secs(60)).send().await?;
//! assert_eq!(mail.stats().await?.scheduled, 1);
//!
//! // A sale: two phones, one for each buyer.
//! client.create_sale(SaleBuilder::new("phones").sku("phone", 2, 1)).await?;
//! let sale = client.sale("phones")?;
//! sale.open().await?;
//! let cart = [Line { sku: Sku::new("phone")?, quantity: 1 }];
//! let key = IdempotencyKey::new("click-1")?;
//! for buyer in ["ann", "bob", "cem"] {
//!     match sale.reserve(&BuyerId::new(buyer)?, &cart, &key).await? {
//!         Reserved::Reserved(hold) => drop(sale.confirm(hold.id).await?),
//!         other => assert!(matches!(other, Reserved::SoldOut { .. })),
//!     }
//! }
//! assert!(sale.audit(None).await?.ok);
//! client.close().await
//! # }
//! ```
//!
//! # Outcomes and errors
//! A held lock, an empty queue and a sold-out sale are outcomes, not errors. An [`Error`] means that the
//! store could not answer. [`Error::may_have_happened`] says whether the call may have taken effect anyway.
//! Each call carries a token, so it is safe to repeat: while an outcome is unknown, the client retries for up
//! to 5 s.
//!
//! # Features
//! - `sqlite` (default): stores, ledgers and outboxes in SQLite files.
//! - `redis`: stores on Redis and Valkey.
//! - `http`: the store of a Rushgate server.
//! - `postgres`: ledgers and outboxes on Postgres.
//! - `schema`: JSON schemas of the types in [`wire`].
//!
//! # Runtime
//! The crate runs on [Tokio](https://tokio.rs) with timers enabled. Dropping a guard never blocks and needs
//! no runtime.

mod cache;
mod client;
mod clock;
mod connect;
mod counters;
mod held;
mod passed_on;
mod renewal;
mod retry;

pub mod lock;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub mod outbox;
pub mod queue;
pub mod sale;
pub mod schedule;
pub mod store;
pub mod trace;
pub mod wire;
pub mod worker;

#[doc(inline)]
pub use client::Rushgate;
#[doc(inline)]
pub use lock::{Lock, LockGuard, LockOutcome, RunOutcome};
#[doc(inline)]
pub use queue::{Enqueued, Queue, TaskId};
#[doc(inline)]
pub use rushgate_core::{Error, Result, Timestamp};
#[doc(inline)]
pub use sale::{
    BuyerId, IdempotencyKey, Ledger, Line, OrderWorker, Reserved, Sale, SaleBuilder, Sku, connect_ledger,
};
#[doc(inline)]
pub use schedule::Recurrence;
#[doc(inline)]
pub use tokio_util::sync::CancellationToken;
#[doc(inline)]
pub use worker::{Job, Worker};

/// Every page with Rust code. Its samples are documentation tests.
#[cfg(doctest)]
mod guides {
    macro_rules! pages {
        ($($name:ident $page:literal)*) => {
            $(#[doc = include_str!(concat!("../../../", $page))] mod $name {})*
        };
    }
    pages! {
        readme "README.md"
        readme_zh "README.zh-CN.md"
        crate_readme "crates/rushgate/README.md"
        start "docs/start/rust.md"
        cron "docs/how-to/cron.md"
        flash_sale "docs/how-to/flash-sale.md"
        locks "docs/how-to/locks.md"
        outbox "docs/how-to/outbox.md"
        rate_limits "docs/how-to/rate-limits.md"
        unique_jobs "docs/how-to/unique-jobs.md"
        workers "docs/how-to/workers.md"
        workflows "docs/how-to/workflows.md"
    }
}
