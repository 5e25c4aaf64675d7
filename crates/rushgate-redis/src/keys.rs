//! Every key that this store uses, built here and nowhere else.
//!
//! All keys of one lock carry the hash tag `{l:NAME}`, those of one queue `{q:NAME}`, those of one sale `{s:ID}`. A
//! sale with an orders' queue lives under **the queue's** tag, because a reservation and its order are one step. A
//! sale's home key, which says under which tag it lives, is always under `{s:ID}`.
//!
//! Two directories, `rg:queues` and `rg:sales`, list names. They may list one too many, never one too few: a name is
//! entered before the thing is made.

use rushgate_core::{ClientId, LockName, QueueName, SaleId};

pub(crate) const QUEUES: &str = "rg:queues";
pub(crate) const SALES: &str = "rg:sales";
/// All locks' state keys.
pub(crate) const LOCK_PATTERN: &str = "rg:{l:*}:s";

/// The pub/sub channel of one process. Scripts build the same name from the eight bytes of its id.
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
    ["s", "q", "w", "x"].into_iter().map(move |suffix| under(&tag, suffix))
}

/// The first of them.
pub(crate) fn lock_state(name: &LockName) -> Vec<u8> {
    under(&format!("l:{name}"), "s")
}

/// The name in a lock's state key.
pub(crate) fn lock_name(key: &[u8]) -> Option<LockName> {
    let text = std::str::from_utf8(key).ok()?;
    LockName::new(text.strip_prefix("rg:{l:")?.strip_suffix("}:s")?).ok()
}

/// The keys of a queue, in the order of `lua/include/queue.lua`.
pub(crate) fn queue(name: &QueueName) -> impl Iterator<Item = Vec<u8>> {
    const SUFFIXES: [&str; 21] = [
        "m", "r", "t", "n", "l", "x", "xi", "y", "d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7", "d8", "d9",
        "g", "gh", "gm",
    ];
    let tag = format!("q:{name}");
    SUFFIXES.into_iter().map(move |suffix| under(&tag, suffix))
}

/// The records of a queue's tasks, and those that were put in while a task was leased.
pub(crate) fn queue_records(name: &QueueName) -> impl Iterator<Item = Vec<u8>> {
    let tag = format!("q:{name}");
    ["r", "n"].into_iter().map(move |suffix| under(&tag, suffix))
}

/// The keys of a queue's schedules, in the order of `lua/include/schedule.lua`.
pub(crate) fn schedules(queue: &QueueName) -> impl Iterator<Item = Vec<u8>> {
    let tag = format!("q:{queue}");
    ["c", "ci", "cm"].into_iter().map(move |suffix| under(&tag, suffix))
}

/// The ids of a queue that are unique for a period, as `lua/include/unique.lua` describes them.
pub(crate) fn unique(queue: &QueueName) -> Vec<u8> {
    under(&format!("q:{queue}"), "u")
}

/// The key of a queue that is there from its first use on.
pub(crate) fn queue_meta(name: &QueueName) -> Vec<u8> {
    under(&format!("q:{name}"), "m")
}

/// What a call carries as its last key that has authority over a queue that is reserved for orders. Nothing is there.
pub(crate) fn for_orders(queue: &QueueName) -> Vec<u8> {
    under(&format!("q:{queue}"), "m:orders")
}

/// A kind of set in which a queue's tasks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueSet {
    /// Those that may be given out some day, by when; one for each priority.
    Waiting,
    /// Those that are leased.
    Leases,
    /// Those with a key that wait, the first of each line among them.
    Lines,
    /// Those that are over and kept, among the dead.
    Over,
}

/// The sets in which a queue's tasks are.
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

/// The answers to a client's latest calls on a queue, in the order of `lua/include/once.lua`.
pub(crate) fn replays(queue: &QueueName, client: ClientId) -> [Vec<u8>; 2] {
    replays_under(&format!("q:{queue}"), client)
}

fn replays_under(tag: &str, client: ClientId) -> [Vec<u8>; 2] {
    ["o", "p"].map(|suffix| under(tag, &format!("{suffix}:{:016x}", client.as_u64())))
}

/// Where a sale's specification is, whatever its tag.
pub(crate) fn sale_home(id: &SaleId) -> Vec<u8> {
    under(&format!("s:{id}"), "home")
}

/// The keys of a sale's waiting room, in the order of `lua/include/room.lua`: under the sale's tag whatever that of its
/// stock is, so a crowd that waits and the orders' queue may be on different nodes, and a rebuild leaves it alone.
pub(crate) fn room(sale: &SaleId) -> impl Iterator<Item = Vec<u8>> + use<> {
    let tag = format!("s:{sale}");
    ["room", "tickets"].into_iter().map(move |suffix| under(&tag, suffix))
}

/// In the keys of a sale that buyers use. It stays the same when a rebuild renames what it has loaded.
const LIVE: &str = "1";

/// The place of a sale: its tag, and what its keys begin with behind the tag.
#[derive(Clone, Debug)]
pub(crate) struct SaleKeys {
    tag: String,
    stem: String,
}

impl SaleKeys {
    pub(crate) fn new(id: &SaleId, orders: Option<&QueueName>) -> Self {
        let tag = orders.map_or_else(|| format!("s:{id}"), |queue| format!("q:{queue}"));
        Self { tag, stem: format!("sale:{id}:") }
    }

    /// The keys of the sale, in the order of `lua/include/sale.lua`.
    pub(crate) fn all(&self) -> impl Iterator<Item = Vec<u8>> {
        self.part(LIVE)
    }

    /// Where a rebuild loads what will take their place, in the same order.
    pub(crate) fn loaded(&self) -> impl Iterator<Item = Vec<u8>> {
        self.part("new")
    }

    fn part(&self, part: &'static str) -> impl Iterator<Item = Vec<u8>> {
        let suffixes = ["c", "f", "w", "b", "h", "d", "e"];
        suffixes.into_iter().map(move |suffix| under(&self.tag, &format!("{}{part}:{suffix}", self.stem)))
    }

    /// The answers to a client's latest changes of the stock.
    pub(crate) fn replays(&self, client: ClientId) -> [Vec<u8>; 2] {
        ["o", "p"]
            .map(|suffix| under(&self.tag, &format!("{}{LIVE}:{suffix}:{:016x}", self.stem, client.as_u64())))
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
        let alone = SaleKeys::new(&sale, None);
        assert_eq!(tags(alone.all().chain(alone.loaded()).chain(alone.replays(client))), ["{s:phones}"]);
        assert_eq!(tags(room(&sale).chain([sale_home(&sale)])), ["{s:phones}"]);
        let with_orders = SaleKeys::new(&sale, Some(&orders));
        assert_eq!(tags(with_orders.all().chain(with_orders.loaded()).chain(queue(&orders))), ["{q:orders}"]);
    }

    #[test]
    fn a_locks_name_is_found_in_its_key() {
        let name = LockName::new("a:s").unwrap();
        let key = lock(&name).next().unwrap();
        assert_eq!(lock_name(&key), Some(name));
        assert_eq!(lock_name(b"other"), None);
    }
}
