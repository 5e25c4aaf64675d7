//! The JSON of tasks, queues, schedules, sales and rooms, the same over HTTP, with `--json`, and in an export.
//!
//! What a store returns is its own JSON: [`TaskInfo`](crate::queue::TaskInfo), [`LockState`](crate::lock::LockState),
//! [`SaleState`](crate::sale::SaleState), [`Hold`](crate::sale::Hold), and the outcome of every verb, whose field `outcome` says which
//! it is. This module has the types that exist for JSON alone. In all of them, a name that ends in `_us` is a time in
//! microseconds since the Unix epoch, and one that ends in `_ms` is a length of time in milliseconds. A field without a
//! value is left out.
//!
//! ```
//! use rushgate::queue::NewTask;
//! use rushgate::wire::TaskSpec;
//!
//! let spec: TaskSpec = serde_json::from_str(r#"{"id": "ann", "payload": {"to": "ann"}, "delay_ms": 500}"#)?;
//! let task = NewTask::try_from(spec)?;
//! assert_eq!(task.payload.bytes(), br#"{"to": "ann"}"#);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

#[doc(inline)]
#[cfg(feature = "schema")]
pub use rushgate_core::schema;
#[doc(inline)]
pub use rushgate_core::{
    FailureView, Field, HeardView, OnDuplicateSpec, PayloadSpec, PayloadView, QueueReport, RoomReport,
    SteppedView, StoreView, TaskSpec, check_label,
};

pub use crate::schedule::{RecurrenceSpec, ScheduleReport};
