//! The store behind a client: the trait, what is known about the server or file, and how calls are identified and
//! counted.

#[doc(inline)]
pub use rushgate_core::{
    ClientId, Durability, Effect, FailureView, HeardView, Log, Op, Page, Reply, Request, Spoken, SteppedView,
    Store, StoreCalls, StoreInfo, StoreView, Topic, WIRE_VERSION, Warning, normalized, verb,
};
