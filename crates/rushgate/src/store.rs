//! The store behind a client: the trait, what is known about the server or file, and how calls are identified and
//! counted.

#[doc(inline)]
pub use rushgate_core::{
    ClientId, Durability, Effect, HumanDuration, Log, Op, Page, Reply, Request, Store, StoreCalls, StoreInfo,
    Target, Topic, WIRE_VERSION, Warning, hex, normalized, verb,
};
