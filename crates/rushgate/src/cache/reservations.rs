use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use rushgate_core::{ReservationId, Reserved};

const SHARDS: usize = 16;

/// Reservations of one sale that this process knows of: made, read from the events, or in flight. At least 16
/// bytes each.
pub(crate) struct ReservationCache([RwLock<Shard>; SHARDS]);

type Shard = HashMap<ReservationId, Mark, BuildHasherDefault<IdHasher>>;

#[derive(Default)]
struct Mark {
    /// The reservation exists or may exist.
    stays: bool,
    /// Number of requests in flight.
    asking: u32,
}

impl ReservationCache {
    pub fn new() -> Self {
        Self(std::array::from_fn(|_| RwLock::default()))
    }

    pub fn contains(&self, id: ReservationId) -> bool {
        self.read(id).contains_key(&id)
    }

    pub fn add(&self, id: ReservationId) {
        self.write(id).entry(id).or_default().stays = true;
    }

    /// Marks the reservation as in flight. Unless the store refuses it, it counts as known from now on. Keep the guard
    /// while the store is asked.
    pub fn asking(&self, id: ReservationId) -> Asking<'_> {
        self.write(id).entry(id).or_default().asking += 1;
        Asking { known: self, id, refused: false }
    }

    fn read(&self, id: ReservationId) -> RwLockReadGuard<'_, Shard> {
        self.0[shard(id)].read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, id: ReservationId) -> RwLockWriteGuard<'_, Shard> {
        self.0[shard(id)].write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn shard(id: ReservationId) -> usize {
    usize::from(id.to_bytes()[15]) % SHARDS
}

/// A request in flight. Without an answer the reservation stays known, because it may exist.
pub(crate) struct Asking<'a> {
    known: &'a ReservationCache,
    id: ReservationId,
    refused: bool,
}

impl Asking<'_> {
    pub fn answered(mut self, answer: &Reserved) {
        self.refused = !matches!(answer, Reserved::Reserved(_) | Reserved::Replayed(_) | Reserved::KeyReused);
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut shard = self.known.write(self.id);
        let Some(mark) = shard.get_mut(&self.id) else { return };
        mark.asking -= 1;
        mark.stays |= !self.refused;
        if mark.asking == 0 && !mark.stays {
            shard.remove(&self.id);
        }
    }
}

/// Uses the first half of the ID as its hash: the ID is a keyed hash itself.
#[derive(Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Some(half) = bytes.first_chunk() {
            self.0 = u64::from_ne_bytes(*half);
        }
    }

    // The length prefix of the array carries no information.
    fn write_usize(&mut self, _: usize) {}
}
