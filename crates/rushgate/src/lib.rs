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
//! let gate = Rushgate::connect("sqlite::memory:").await?;
//!
//! // A lock: hold, run, release on every path out.
//! let outcome = gate.lock("order:42")?.run(|held| async move { held.fence() }).await?;
//! assert!(matches!(outcome, RunOutcome::Done(_)));
//!
//! // A queue: one record per ID, however often it is enqueued.
//! let mail = gate.queue_of::<String>("mail")?;
//! mail.enqueue("order:42", "Thank you".to_owned()).delay(Duration::from_secs(60)).send().await?;
//! assert_eq!(mail.stats().await?.scheduled, 1);
//!
//! // A sale: two phones, one for each buyer.
//! gate.create_sale(SaleBuilder::new("phones").sku("phone", 2, 1)).await?;
//! let sale = gate.sale("phones")?;
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
//! gate.close().await
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
//! - `postgres`: ledgers and outboxes on Postgres.
//!
//! # Runtime
//! The crate runs on [Tokio](https://tokio.rs) with timers enabled. Dropping a guard never blocks and needs
//! no runtime.

mod client;
mod clock;
mod connect;
mod patience;

pub mod lock;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub mod outbox;
pub mod queue;
pub mod sale;
pub mod schedule;
pub mod trace;
pub mod wire;
pub mod worker;

pub use client::Rushgate;
pub use lock::fence;

pub use lock::{
    Busy, BusyPolicy, ExtendOutcome, Held, Lock, LockGuard, LockOutcome, LostReason, ReleaseWithOutcome,
    Released, RunOutcome,
};
pub use queue::{Enqueue, Followed, Follower, KeyRun, Over, Queue, Why};
pub use sale::{
    Foreseen, GateStats, NoPass, OrderReport, OrderWorker, Rebuild, RebuildOutcome, RebuildReport, Room,
    RoomTicket, Sale, SaleBuilder, SweepReport, Sweeper, Turn,
};
pub use schedule::{Missed, Recurrence, Scheduler, SchedulerReport, Scheduling};
pub use worker::{
    Attempt, Backoff, FromJob, IntoOutcome, Job, Outcome, Output, Progress, Results, State, Worker,
    WorkerMetrics, WorkerReport,
};

pub use rushgate_ledger::{
    Ledger, connect as connect_ledger, connect_when_it_can as connect_ledger_when_it_can,
};
pub use tokio_util::sync::CancellationToken;

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

#[doc(no_inline)]
pub use rushgate_core::{
    Audit, BadPass, BadReceipt, Beacon, Books, BuyerId, Cancelled, Check, ClientId, Closed, ClosedEntry,
    Commitment, Completed, Completion, ContentType, Created, DeadLetter, DeadRequeued, Decision, Dequeued,
    Draw, DrawRecord, DrawSecret, Drawn, Due, Durability, Enqueued, Error, Event, EventKind, Fence, Finish,
    Finished, Grant, Halt, HaltReason, Heartbeat, Hold, HoldState, HoldTime, Holder, IdempotencyKey, IfDead,
    KeyLimits, Kind, Lease, Line, Listing, LockName, LockState, NewTask, OnDuplicate, Op, OrderIntent,
    OrderTask, Overflow, Owner, Pace, Page, Pass, PastEnd, PastRun, Payload, Priority, QueueLimits,
    QueueName, QueueStats, Rate, Receipt, ReleasedWith, ReservationId, Reserved, Restored, Result, Retention,
    Retried, Retry, Revision, RoomOrder, RoomRules, RoomState, SaleId, SaleSpec, SaleState, SaleStatus,
    Schedule, ScheduleId, Scheduled, Selection, Sku, SkuCounters, SkuSpec, SkuState, Spoken, StockChange,
    StockChanged, Store, StoreCalls, StoreInfo, Task, TaskChange, TaskEnd, TaskEvent, TaskEvents,
    TaskExtended, TaskId, TaskInfo, TaskKey, TaskProgress, TaskRelease, TaskReleased, TaskState, Ticket,
    Timestamp, Token, TraceParent, UniqueCleared, UnitChoice, UnitNumber, UnitRange, Unmet, Waited,
    WaiterState, Waits, WaitsFor, Warning, normalized,
};
