//! What one store is, and what a client has sent to it.

#[doc(inline)]
pub use rushgate_core::{
    ClientId, Durability, Op, Page, Spoken, Store, StoreCalls, StoreInfo, Warning, normalized,
};
