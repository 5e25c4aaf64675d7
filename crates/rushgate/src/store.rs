//! The store behind a client: the trait, what is known about the server or file, and how calls are identified and
//! counted.

#[doc(inline)]
pub use rushgate_core::{
    ClientId, Durability, Op, Page, Spoken, Store, StoreCalls, StoreInfo, Warning, normalized,
};
