//! The groups of keys.

use rushgate_core::{ClientId, LockName, QueueName, SaleId};

use crate::keys;

/// A group of keys.
pub(super) struct KeyGroup {
    /// The name in the library and in the contract of the clients.
    pub(super) name: &'static str,
    /// What the documentation calls it. A header may have only the first words.
    pub(super) title: &'static str,
    /// The shared piece that describes its keys.
    pub(super) piece: &'static str,
    pub(super) keys: keys::Group,
}

/// All groups of keys, in the order of the library.
pub(super) fn key_groups() -> [KeyGroup; 10] {
    let (lock, queue) = (LockName::new("LOCK"), QueueName::new("QUEUE"));
    let (Ok(lock), Ok(queue), Ok(sale)) = (lock, queue, SaleId::new("SALE")) else {
        unreachable!("they are names")
    };
    [
        ("lock", "lock", "lock", keys::lock(&lock)),
        ("queue", "queue", "queue", keys::queue(&queue)),
        ("answers", "replay cache", "once", keys::replays(&queue, ClientId::from_u64(0))),
        ("schedules", "schedules", "schedule", keys::schedules(&queue)),
        ("workers", "workers", "worker", keys::workers(&queue)),
        ("attempts", "attempts at the sale", "attempts", keys::attempts(&sale)),
        ("unique", "uniqueness windows", "unique", keys::unique(&queue)),
        ("room", "room", "room", keys::room(&sale)),
        ("home", "sale's home", "sale", keys::sale_home(&sale)),
        ("sale", "sale", "sale", keys::sale(&sale)),
    ]
    .map(|(name, title, piece, keys)| KeyGroup { name, title, piece, keys })
}
