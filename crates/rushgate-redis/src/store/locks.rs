//! The verbs of locks that take several calls.

use std::collections::BTreeSet;
use std::sync::{Arc, MutexGuard, PoisonError};

use rushgate_core::{
    ClientId, Enqueued, Error, Extend, Extended, LockName, LockState, Op, Page, QueueName, ReleaseWith,
    ReleasedWith, Result,
};

use super::Inner;
use super::apart::{Apart, Released};
use crate::command::{Call, Command};
use crate::link::PinnedConnection;
use crate::{keys, lock, queue};

/// COUNT of each SCAN.
const SCAN_COUNT: &str = "1000";

impl Inner {
    /// The names of all locks with keys on the servers, whether or not they are held.
    async fn lock_names(&self) -> Result<BTreeSet<LockName>> {
        let pinned = self.dispatcher.pinned().await?;
        // A key that migrates during the scan could be missed. Two rounds in opposite order find it on one node or the
        // other.
        let back = if pinned.len() > 1 { &pinned[..] } else { &[] };
        let mut names = BTreeSet::new();
        for pinned in pinned.iter().chain(back.iter().rev()) {
            scan_locks(pinned, &mut names).await?;
        }
        Ok(names)
    }

    pub(crate) async fn list(self: Arc<Self>, page: Page) -> Result<Vec<LockState>> {
        let names = self.lock_names().await?.into_iter();
        let names: Vec<_> = names.filter(|name| name.as_str() > page.after.as_str()).collect();
        let mut states = Vec::new();
        for some in names.chunks(100) {
            let asked: Vec<_> = some.iter().map(|name| self.dispatcher.send(lock::show(name))).collect();
            for (name, answer) in some.iter().zip(asked) {
                states.extend(Some(lock::read_state(name.clone(), answer.await?)?).filter(lock::is_used));
            }
            if states.len() >= page.limit as usize {
                break;
            }
        }
        states.truncate(page.limit as usize);
        Ok(states)
    }

    /// Releases a lock with a task when the two are on different servers: checks that the token holds the lock,
    /// enqueues the task, then releases the lock. A retry of the call continues where the earlier one failed.
    pub(super) async fn release_apart(
        self: Arc<Self>,
        op: Op,
        release: ReleaseWith,
        put: Call,
    ) -> Result<ReleasedWith> {
        let ReleaseWith { name, token, queue, .. } = release;
        let grant = lock::read_held(self.dispatcher.send(lock::held(&name, token)).await?)?;
        let (holds, fence) = (grant.is_some(), grant.map(|grant| grant.fence));
        let known = self.apart().get(op);
        let is_later_grant = holds && known.as_ref().is_some_and(|known| known.fence != fence);
        let enqueued = match known {
            Some(known) if !is_later_grant => known.enqueued,
            _ => {
                if is_later_grant {
                    self.forget_replay(op, &queue).await?;
                }
                if !holds && !self.is_replay(op, &queue).await? {
                    return Ok(ReleasedWith::NotHeld);
                }
                self.enter_queue(&queue).await?;
                let answers = self.dispatcher.send(put).await?;
                match queue::read_enqueued(answers)?.pop() {
                    Some(refused @ (Enqueued::Full { .. } | Enqueued::Refused { .. })) => {
                        self.forget_replay(op, &queue).await?;
                        return Ok(if holds {
                            ReleasedWith::NotTaken(refused)
                        } else {
                            ReleasedWith::NotHeld
                        });
                    }
                    Some(enqueued) => enqueued,
                    None => return Err(Error::bug("the store returned no answer for an enqueued task")),
                }
            }
        };
        self.apart().keep(op, Released { enqueued: enqueued.clone(), fence });
        // If the lease has expired by now, the lock counts as released.
        self.dispatcher.send(lock::release(&name, token)).await?;
        Ok(ReleasedWith::Released(enqueued))
    }

    /// Whether the queue's replay cache has the answer to `op`, perhaps of another process.
    async fn is_replay(&self, op: Op, queue: &QueueName) -> Result<bool> {
        for key in keys::replays(queue, op.client()).all() {
            let ask = Command::new("HEXISTS").arg(key).arg(&op.to_bytes()[8..]);
            if self.dispatcher.send(ask).await?.int()? == 1 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes the answer to `op` from the queue's replay cache, so that the call can be repeated.
    async fn forget_replay(&self, op: Op, queue: &QueueName) -> Result<()> {
        for key in keys::replays(queue, op.client()).all() {
            self.dispatcher.send(Command::new("HDEL").arg(key).arg(&op.to_bytes()[8..])).await?;
        }
        Ok(())
    }

    fn apart(&self) -> MutexGuard<'_, Apart> {
        self.apart.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends all extensions at once.
    pub(crate) fn extend(
        &self,
        leases: &[Extend],
    ) -> impl Future<Output = Result<Vec<Extended>>> + Send + use<> {
        let asked: Vec<_> = leases.iter().map(|lease| self.dispatcher.send(lock::extend(lease))).collect();
        async move {
            let mut answers = Vec::with_capacity(asked.len());
            for answer in asked {
                answers.push(lock::read_extended(answer.await?)?);
            }
            Ok(answers)
        }
    }

    pub(crate) async fn release_all(self: Arc<Self>, client: ClientId) -> Result<u64> {
        let names: Vec<_> = self.lock_names().await?.into_iter().collect();
        let mut released = 0;
        for some in names.chunks(100) {
            let asked: Vec<_> =
                some.iter().map(|name| self.dispatcher.send(lock::release_all(name, client))).collect();
            for answer in asked {
                released += answer.await?.int()?;
            }
        }
        Ok(released)
    }
}

/// Adds the names of the locks on one server.
async fn scan_locks(pinned: &PinnedConnection, names: &mut BTreeSet<LockName>) -> Result<()> {
    let mut cursor = "0".to_owned();
    loop {
        let scan = Command::new("SCAN").arg(&cursor).arg("MATCH").arg(keys::LOCK_PATTERN);
        let mut page = pinned.ask(scan.arg("COUNT").arg(SCAN_COUNT)).await?.list()?;
        cursor = page.text()?;
        let found = page.list()?.each(|found| keys::lock_name(&found.bytes()?).ok_or_else(lock::bad_key))?;
        names.extend(found);
        if cursor == "0" {
            return Ok(());
        }
    }
}
