//! Every key of the store is built here and nowhere else.
//!
//! All keys of a lock have the hash tag `{l:NAME}`, those of a queue `{q:NAME}`, those of a sale `{s:ID}`.
//!
//! Two directories, `rg:queues` and `rg:sales`, list names. A name is added before the object is created, so a
//! directory may list a name that does not exist, but never misses one.

use std::sync::Arc;

use rushgate_core::{ClientId, LockName, QueueName, SaleId};

pub(crate) const QUEUES: &str = "rg:queues";
pub(crate) const SALES: &str = "rg:sales";
/// Matches the state keys of all locks.
pub(crate) const LOCK_PATTERN: &str = "rg:{l:*}:lock";

/// The pub/sub channel of one process. Functions build the same name from the 8 bytes of its ID.
pub(crate) fn inbox(id: u64) -> String {
    format!("rg:in:{id:016x}")
}

/// The keys of one thing, such as a lock. They have one hash tag. A function takes whole groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    tag: Arc<str>,
    /// What stands before each ending.
    part: &'static str,
    endings: &'static [&'static str],
    /// The client whose keys these are.
    client: Option<ClientId>,
}

impl Group {
    fn new(tag: impl Into<Arc<str>>, endings: &'static [&'static str]) -> Self {
        Self { tag: tag.into(), part: "", endings, client: None }
    }

    fn replays(tag: &Arc<str>, client: ClientId) -> Self {
        Self { tag: Arc::clone(tag), part: "", endings: &["young", "old"], client: Some(client) }
    }

    /// The ends of the keys behind the tag, without the client.
    #[cfg(test)]
    pub(crate) fn endings(&self) -> &'static [&'static str] {
        self.endings
    }

    /// The first key, from which the library derives the others.
    pub(crate) fn first(&self) -> Vec<u8> {
        self.key(self.endings[0])
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = Vec<u8>> {
        self.endings.iter().map(|ending| self.key(ending))
    }

    fn key(&self, ending: &str) -> Vec<u8> {
        let mut key = Vec::with_capacity(64);
        for part in ["rg:{", &self.tag, "}:", self.part, ending] {
            key.extend_from_slice(part.as_bytes());
        }
        if let Some(client) = self.client {
            key.extend_from_slice(format!(":{:016x}", client.as_u64()).as_bytes());
        }
        key
    }
}

/// The keys of a lock, in the order of `lua/include/lock.lua`.
pub(crate) fn lock(name: &LockName) -> Group {
    Group::new(format!("l:{name}"), &["lock", "line", "waiters", "ends"])
}

pub(crate) fn lock_state(name: &LockName) -> Vec<u8> {
    lock(name).first()
}

/// The name in a lock's state key.
pub(crate) fn lock_name(key: &[u8]) -> Option<LockName> {
    let text = std::str::from_utf8(key).ok()?;
    LockName::as_stored(text.strip_prefix("rg:{l:")?.strip_suffix("}:lock")?).ok()
}

fn queue_tag(name: &QueueName) -> Arc<str> {
    format!("q:{name}").into()
}

/// The keys of a queue, in the order of `lua/include/queue.lua`.
pub(crate) fn queue(name: &QueueName) -> Group {
    const ENDINGS: &[&str] = &[
        "meta", "records", "runs", "newcomers", "leases", "listeners", "at_once", "waiting0", "waiting1",
        "waiting2", "waiting3", "waiting4", "waiting5", "waiting6", "waiting7", "waiting8", "waiting9",
        "blocked", "held", "groups", "key_leases", "starts", "starts_until", "dead", "dead_ids", "done",
        "done_ids", "by_age", "by_deadline", "dependents", "dependencies", "results", "result_ids",
        "unsettled", "unsettled_ids", "events", "watchers",
    ];
    Group::new(queue_tag(name), ENDINGS)
}

/// The keys of a queue's schedules, in the order of `lua/include/schedule.lua`.
pub(crate) fn schedules(queue: &QueueName) -> Group {
    Group::new(queue_tag(queue), &["schedules", "schedule_ids", "schedule_moments"])
}

/// The keys of a queue's workers, in the order of `lua/include/worker.lua`.
pub(crate) fn workers(queue: &QueueName) -> Group {
    Group::new(queue_tag(queue), &["workers", "worker_ids", "worker_ends"])
}

/// The uniqueness windows of a queue, as in `lua/include/unique.lua`.
pub(crate) fn unique(queue: &QueueName) -> Group {
    Group::new(queue_tag(queue), &["unique"])
}

/// The key that exists once a queue was used.
pub(crate) fn queue_meta(name: &QueueName) -> Vec<u8> {
    queue(name).first()
}

/// The replay cache of a client for a queue, in the order of `lua/include/once.lua`.
pub(crate) fn replays(queue: &QueueName, client: ClientId) -> Group {
    Group::replays(&queue_tag(queue), client)
}

fn sale_tag(id: &SaleId) -> Arc<str> {
    format!("s:{id}").into()
}

/// The key of a sale's specification.
pub(crate) fn sale_home(id: &SaleId) -> Group {
    Group::new(sale_tag(id), &["home"])
}

/// The keys of a sale, in the order of `lua/include/sale.lua`.
pub(crate) fn sale(id: &SaleId) -> Group {
    const ENDINGS: &[&str] =
        &["row", "returned", "withdrawn", "buyers", "holds", "deadlines", "events", "failed"];
    Group::new(sale_tag(id), ENDINGS)
}

/// The keys in which a rebuild stages the new sale, in the same order.
pub(crate) fn staged_sale(id: &SaleId) -> Group {
    Group { part: "new:", ..sale(id) }
}

/// The replay cache of a client for changes of a sale's stock.
pub(crate) fn stock_replays(id: &SaleId, client: ClientId) -> Group {
    Group::replays(&sale_tag(id), client)
}

/// The keys of the attempts at a sale, in the order of `lua/include/attempts.lua`.
pub(crate) fn attempts(sale: &SaleId) -> Group {
    Group::new(sale_tag(sale), &["attempts", "attempts_of", "attempt_servers"])
}

/// The keys of a sale's waiting room, in the order of `lua/include/room.lua`. A rebuild of the sale does not touch it.
pub(crate) fn room(sale: &SaleId) -> Group {
    Group::new(sale_tag(sale), &["room", "tickets"])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(groups: impl IntoIterator<Item = Group>) -> Vec<String> {
        let tag = |key: Vec<u8>| {
            let text = String::from_utf8(key).unwrap();
            text[text.find('{').unwrap()..=text.find('}').unwrap()].to_owned()
        };
        let mut tags: Vec<_> =
            groups.into_iter().flat_map(|group| group.all().collect::<Vec<_>>()).map(tag).collect();
        tags.dedup();
        tags
    }

    #[test]
    fn all_keys_of_one_thing_carry_one_hash_tag() {
        let (orders, id) = (QueueName::new("orders").unwrap(), SaleId::new("phones").unwrap());
        let client = ClientId::from_u64(1);
        assert_eq!(tags([lock(&LockName::new("a:b").unwrap())]), ["{l:a:b}"]);
        let of_queue = [queue(&orders), replays(&orders, client), unique(&orders), schedules(&orders)];
        assert_eq!(tags(of_queue), ["{q:orders}"]);
        let of_sale = [sale(&id), staged_sale(&id), stock_replays(&id, client), room(&id), sale_home(&id)];
        assert_eq!(tags(of_sale), ["{s:phones}"]);
    }

    #[test]
    fn a_client_has_keys_of_its_own() {
        let keys: Vec<_> = replays(&QueueName::new("mail").unwrap(), ClientId::from_u64(255)).all().collect();
        assert_eq!(keys, [&b"rg:{q:mail}:young:00000000000000ff"[..], b"rg:{q:mail}:old:00000000000000ff"]);
    }

    #[test]
    fn a_locks_name_is_found_in_its_key() {
        let name = LockName::new("a:s").unwrap();
        let key = lock_state(&name);
        assert_eq!(lock_name(&key), Some(name));
        assert_eq!(lock_name(b"other"), None);
    }
}
