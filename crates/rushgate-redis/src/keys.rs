//! Every key of the store is built here and nowhere else.
//!
//! All keys of a lock have the hash tag `{l:NAME}`, those of a queue `{q:NAME}`, those of a sale `{s:ID}`.
//!
//! Two directories, `rg:queues` and `rg:sales`, list names. A name is added before the object is created, so a
//! directory may list a name that does not exist, but never misses one.

use rushgate_core::{ClientId, LockName, QueueName, SaleId};

pub(crate) const QUEUES: &str = "rg:queues";
pub(crate) const SALES: &str = "rg:sales";
/// Matches the state keys of all locks.
pub(crate) const LOCK_PATTERN: &str = "rg:{l:*}:lock";

/// The pub/sub channel of one process. Functions build the same name from the 8 bytes of its ID.
pub(crate) fn inbox(id: u64) -> String {
    format!("rg:in:{id:016x}")
}

fn under(tag: &str, suffix: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(5 + tag.len() + suffix.len());
    key.extend_from_slice(b"rg:{");
    key.extend_from_slice(tag.as_bytes());
    key.extend_from_slice(b"}:");
    key.extend_from_slice(suffix.as_bytes());
    key
}

/// The keys of a lock, in the order of `lua/include/lock.lua`.
pub(crate) fn lock(name: &LockName) -> impl Iterator<Item = Vec<u8>> {
    let tag = format!("l:{name}");
    ["lock", "line", "waiters", "ends"].into_iter().map(move |suffix| under(&tag, suffix))
}

pub(crate) fn lock_state(name: &LockName) -> Vec<u8> {
    under(&format!("l:{name}"), "lock")
}

/// The name in a lock's state key.
pub(crate) fn lock_name(key: &[u8]) -> Option<LockName> {
    let text = std::str::from_utf8(key).ok()?;
    LockName::as_stored(text.strip_prefix("rg:{l:")?.strip_suffix("}:lock")?).ok()
}

/// The keys of a queue, in the order of `lua/include/queue.lua`.
pub(crate) fn queue(name: &QueueName) -> impl Iterator<Item = Vec<u8>> {
    const SUFFIXES: [&str; 21] = [
        "meta",
        "records",
        "runs",
        "newcomers",
        "leases",
        "dead",
        "dead_ids",
        "listeners",
        "waiting0",
        "waiting1",
        "waiting2",
        "waiting3",
        "waiting4",
        "waiting5",
        "waiting6",
        "waiting7",
        "waiting8",
        "waiting9",
        "lines",
        "keys",
        "moot",
    ];
    let tag = format!("q:{name}");
    SUFFIXES.into_iter().map(move |suffix| under(&tag, suffix))
}

/// The keys of a queue's schedules, in the order of `lua/include/schedule.lua`.
pub(crate) fn schedules(queue: &QueueName) -> impl Iterator<Item = Vec<u8>> {
    let tag = format!("q:{queue}");
    ["schedules", "schedule_ids", "schedule_moments"].into_iter().map(move |suffix| under(&tag, suffix))
}

/// The uniqueness windows of a queue, as in `lua/include/unique.lua`.
pub(crate) fn unique(queue: &QueueName) -> Vec<u8> {
    under(&format!("q:{queue}"), "unique")
}

/// The key that exists once a queue was used.
pub(crate) fn queue_meta(name: &QueueName) -> Vec<u8> {
    under(&format!("q:{name}"), "meta")
}

/// The kinds of sets that hold a queue's tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueSet {
    /// Tasks that may be claimed now or later, by due time. One set per priority.
    Waiting,
    /// Leased tasks.
    Leases,
    /// Waiting tasks with a key, including the first of each key group.
    Lines,
    /// Finished tasks that are kept, in one set with the dead letters.
    Over,
}

/// The sets that hold a queue's tasks.
pub(crate) fn queue_sets(name: &QueueName) -> Vec<(Vec<u8>, QueueSet)> {
    let of = |at| match at {
        4 => Some(QueueSet::Leases),
        6 => Some(QueueSet::Over),
        8..18 => Some(QueueSet::Waiting),
        18 => Some(QueueSet::Lines),
        _ => None,
    };
    queue(name).enumerate().filter_map(|(at, key)| Some((key, of(at)?))).collect()
}

/// The replay cache of a client for a queue, in the order of `lua/include/once.lua`.
pub(crate) fn replays(queue: &QueueName, client: ClientId) -> [Vec<u8>; 2] {
    replays_under(&format!("q:{queue}"), client)
}

fn replays_under(tag: &str, client: ClientId) -> [Vec<u8>; 2] {
    ["young", "old"].map(|suffix| under(tag, &format!("{suffix}:{:016x}", client.as_u64())))
}

/// The key of a sale's specification.
pub(crate) fn sale_home(id: &SaleId) -> Vec<u8> {
    under(&format!("s:{id}"), "home")
}

/// The keys of a sale's waiting room, in the order of `lua/include/room.lua`. A rebuild of the sale does not touch it.
pub(crate) fn room(sale: &SaleId) -> impl Iterator<Item = Vec<u8>> + use<> {
    let tag = format!("s:{sale}");
    ["room", "tickets"].into_iter().map(move |suffix| under(&tag, suffix))
}

/// The keys of a sale.
#[derive(Clone, Debug)]
pub(crate) struct SaleKeys {
    tag: String,
}

impl SaleKeys {
    pub(crate) fn new(id: &SaleId) -> Self {
        Self { tag: format!("s:{id}") }
    }

    /// The keys of the sale, in the order of `lua/include/sale.lua`.
    pub(crate) fn all(&self) -> impl Iterator<Item = Vec<u8>> {
        self.under("")
    }

    /// The keys in which a rebuild stages the new sale, in the same order.
    pub(crate) fn loaded(&self) -> impl Iterator<Item = Vec<u8>> {
        self.under("new:")
    }

    fn under(&self, part: &'static str) -> impl Iterator<Item = Vec<u8>> {
        let suffixes = ["row", "returned", "withdrawn", "buyers", "holds", "deadlines", "events", "failed"];
        suffixes.into_iter().map(move |suffix| under(&self.tag, &format!("{part}{suffix}")))
    }

    /// The replay cache of a client for changes of the stock.
    pub(crate) fn replays(&self, client: ClientId) -> [Vec<u8>; 2] {
        replays_under(&self.tag, client)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(keys: impl IntoIterator<Item = Vec<u8>>) -> Vec<String> {
        let tag = |key: Vec<u8>| {
            let text = String::from_utf8(key).unwrap();
            text[text.find('{').unwrap()..=text.find('}').unwrap()].to_owned()
        };
        let mut tags: Vec<_> = keys.into_iter().map(tag).collect();
        tags.dedup();
        tags
    }

    #[test]
    fn all_keys_of_one_thing_carry_one_hash_tag() {
        let (orders, sale) = (QueueName::new("orders").unwrap(), SaleId::new("phones").unwrap());
        let client = ClientId::from_u64(1);
        assert_eq!(tags(lock(&LockName::new("a:b").unwrap())), ["{l:a:b}"]);
        assert_eq!(
            tags(queue(&orders).chain(replays(&orders, client)).chain([unique(&orders)])),
            ["{q:orders}"]
        );
        let keys = SaleKeys::new(&sale);
        assert_eq!(tags(keys.all().chain(keys.loaded()).chain(keys.replays(client))), ["{s:phones}"]);
        assert_eq!(tags(room(&sale).chain([sale_home(&sale)])), ["{s:phones}"]);
    }

    #[test]
    fn a_locks_name_is_found_in_its_key() {
        let name = LockName::new("a:s").unwrap();
        let key = lock(&name).next().unwrap();
        assert_eq!(lock_name(&key), Some(name));
        assert_eq!(lock_name(b"other"), None);
    }
}
