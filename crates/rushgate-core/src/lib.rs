//! Types and store contract of Rushgate: locks, queues and sales, and what a backend must do for each.
//!
//! This crate is pure: it performs no I/O, starts no runtime and reads no clock. It defines the types that the other
//! crates exchange. Applications use the `rushgate` crate. The author of a backend implements [`Store`] and tests it
//! with the contract suite, `rushgate-contract`.
//!
//! A held lock, an empty queue and a sold-out sale are outcomes (enums). An [`Error`] means that the store could not
//! answer. [`Error::may_have_happened`] tells whether the step may have taken effect anyway.

mod audit;
mod check;
mod code;
mod declare;
mod draw;
mod error;
mod field;
mod file;
mod ids;
mod kind;
mod listing;
mod lock;
mod name;
mod outbox;
mod pass;
mod payload;
mod queue;
mod receipt;
mod room;
mod sale;
mod schedule;
#[cfg(feature = "schema")]
pub mod schema;
mod signed;
mod spec;
mod store;
mod task_event;
mod task_spec;
mod text;
mod time;
mod units;
pub mod verb;
mod wait;
mod wire;
mod worker;

pub use audit::{
    Audit, BuyerCount, Check, Deadline, LedgerRefusal, LedgerSku, LedgerSnapshot, Meanwhile, ReservationRow,
    SkuCounters, Snapshot, UnitRow, audit, audit_live, audit_store,
};
pub use check::{
    check_batch, check_duration, check_label, check_range, check_skus, check_stock, check_tasks,
};
pub use code::Coded;
pub use declare::{Effect, Target};
pub use draw::{Beacon, Commitment, DrawRecord, DrawSecret, Drawn};
pub use error::{Error, Result, with_causes};
pub use field::{Field, Subject};
pub use file::create_private;
pub use ids::{ClientId, Fence, Op, ReservationId, Revision, SaleSecret, Token};
pub use kind::{Kind, TraceParent};
pub use listing::{Listing, Page, TaskPage};
pub use lock::{
    Acquire, Acquired, Busy, Extend, Extended, Grant, Holder, Left, LockState, Notification, Owner, Queued,
    ReleaseWith, Released, ReleasedWith, WaiterState,
};
pub use name::{
    BuyerId, ContentType, IdempotencyKey, LockName, MAX_NAME_BYTES, OutboxId, QueueName, SaleId, ScheduleId,
    Sku, TaskId, TaskKey, WorkerId, normalized,
};
pub use outbox::{Relay, Relayed};
pub use pass::{BadPass, Pass};
pub use payload::{Payload, PayloadSpec, PayloadView};
pub use queue::{
    Cancelled, Claim, Claimed, Completed, Completion, DeadLetter, DeadRequeued, Dequeued, Due, Enqueued,
    Finish, Finished, Heartbeat, KeyLimits, NewTask, OnDuplicate, Overflow, PastEnd, PastRun, Priority,
    QueueLimits, QueueReport, QueueStats, Rate, Rescheduled, Retention, Retried, Retry, Selection, Task,
    TaskExtended, TaskInfo, TaskProgress, TaskRelease, TaskReleased, TaskState, Ticket, UniqueCleared,
};
pub use receipt::Receipt;
pub use room::{
    AdmissionSchedule, ClosedEntry, Draw, Enter, Entered, Joined, RoomOrder, RoomReport, RoomRules, RoomState,
};
pub use sale::{
    ATTEMPT_ANSWERS_MAX, ATTEMPT_SERVERS_MAX, BadReceipt, Created, DamagedSale, Decision, Delivery, Event,
    EventKind, FailedOrder, Failure, Follow, Followed, Halt, HaltReason, Hold, HoldState, LedgerEntry,
    LedgerOrder, Line, ListedSale, Load, OrderBatch, OrderIntent, OrdersState, Rebuilt, Reserve, Reserved,
    Restored, SaleSpec, SaleState, SaleStatus, Settled, SkuSpec, SkuState, StockChange, StockChanged,
    Stocktake, Switch, UnitChoice, Verdict,
};
pub use schedule::{DueSchedules, Fire, Fired, NewSchedule, Schedule, Scheduled};
pub use store::{Answer, Durability, Log, StoreCalls, StoreInfo, Topic, Warning};
pub use task_event::{TaskChange, TaskEvent, TaskEvents};
pub use task_spec::{OnDuplicateSpec, TaskSpec};
pub use text::hex;
pub use time::{HoldTime, HumanDuration, Lease, Timestamp};
pub use units::{MAX_LINES, MAX_UNITS, MAX_UNITS_PER_LINE, UnitNumber, UnitRange};
pub use verb::{Reply, Request, Store, Verb, Verbs};
pub use wait::{Closed, IfDead, TaskEnd, Unmet, Waited, Waits, WaitsFor};
pub use wire::{FailureView, HeardView, SteppedView, StoreView, WIRE_VERSION};
pub use worker::{Announce, WorkerInfo, WorkerMode};
