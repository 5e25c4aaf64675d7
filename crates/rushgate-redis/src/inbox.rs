//! The connection on which the store's notifications arrive. It reconnects whenever it is lost.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use rushgate_core::{
    Fence, Grant, LockName, Log, Notification, QueueName, Result, SaleId, TaskId, Timestamp, Token,
};

use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::keys;
use crate::listeners::{Listeners, Told};
use crate::reply::Packed;
use crate::resolver::Resolver;
use crate::runtime::Runtime;
use crate::slot::slot;
use crate::transport::{Address, Pushes};

/// A notification.
#[derive(Debug, PartialEq, Eq)]
enum Push {
    /// A lock was granted to a waiter for the claim window, in which the waiter must confirm that it is alive.
    Handed { lock: LockName, token: Token, grant: Grant },
    /// A lock was force-released.
    Revoked { lock: LockName, token: Token },
    /// Tasks can be claimed from a queue: how many, and the queue's wake-up count.
    Queue { queue: QueueName, tasks: u64, seen: u64 },
    /// A task has finished.
    Finished { queue: QueueName, id: TaskId },
    /// The number of a log's latest event.
    Events { log: Log, last: u64 },
}

impl Push {
    fn slot(&self) -> u16 {
        match self {
            Self::Handed { lock, .. } | Self::Revoked { lock, .. } => slot(&keys::lock_state(lock)),
            Self::Queue { queue, .. }
            | Self::Finished { queue, .. }
            | Self::Events { log: Log::Queue(queue), .. } => slot(&keys::queue_meta(queue)),
            Self::Events { log: Log::Sale(sale), .. } => slot(&keys::sale_home(sale).first()),
        }
    }
}

/// The formats of notifications, by their first byte:
///
/// - `A`: token, grant (fence, lease until, lease left), a key of the lock.
/// - `R`: token, a key of the lock.
/// - `Q`: tasks, wake-up count, queue.
/// - `T`: task ID, queue.
/// - `E`: number of the latest event, queue.
/// - `S`: number of the latest event, sale.
fn read(push: &[u8]) -> Option<Push> {
    let (kind, rest) = push.split_first()?;
    match kind {
        b'A' => {
            let (token, rest) = rest.split_first_chunk()?;
            let mut rest = Packed(rest);
            let grant = Grant {
                fence: Fence::from_u64(rest.number(7).ok()?),
                lease_until: Timestamp::from_micros(rest.number(7).ok()?),
                lease_left: Duration::from_micros(rest.number(7).ok()?),
            };
            Some(Push::Handed { lock: keys::lock_name(rest.0)?, token: Token::from_bytes(*token), grant })
        }
        b'R' => {
            let (token, key) = rest.split_first_chunk()?;
            Some(Push::Revoked { lock: keys::lock_name(key)?, token: Token::from_bytes(*token) })
        }
        b'Q' => {
            let mut parts = std::str::from_utf8(rest).ok()?.splitn(3, ' ');
            let (tasks, seen) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            Some(Push::Queue { queue: QueueName::as_stored(parts.next()?).ok()?, tasks, seen })
        }
        b'T' => {
            let (id, queue) = std::str::from_utf8(rest).ok()?.split_once(' ')?;
            Some(Push::Finished { queue: QueueName::as_stored(queue).ok()?, id: TaskId::as_stored(id).ok()? })
        }
        b'E' => {
            let (last, queue) = std::str::from_utf8(rest).ok()?.split_once(' ')?;
            let log = Log::Queue(QueueName::as_stored(queue).ok()?);
            Some(Push::Events { log, last: last.parse().ok()? })
        }
        b'S' => {
            let (last, sale) = std::str::from_utf8(rest).ok()?.split_once(' ')?;
            let log = Log::Sale(SaleId::as_stored(sale).ok()?);
            Some(Push::Events { log, last: last.parse().ok()? })
        }
        _ => None,
    }
}

/// Requests that the inbox makes of the store when a queue's notification does not end with its listeners.
pub(crate) trait Post: Send + Sync + 'static {
    /// Listeners of this process still wait, so the process must be registered again.
    fn register(self: Arc<Self>, queue: QueueName, seen: u64);
    /// No listener of this process waits, so another process must be woken.
    fn pass_on(self: Arc<Self>, queue: QueueName);
}

/// The notification channel of a process, with its listeners.
pub(crate) struct Inbox {
    /// The ID in the name of the channel.
    pub(crate) id: u64,
    pub(crate) listeners: Arc<Listeners>,
    post: OnceLock<Weak<dyn Post>>,
}

impl Inbox {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { id: rand::random(), listeners: Arc::default(), post: OnceLock::new() })
    }

    /// Sets the receiver of requests to the store. Only the first call counts.
    pub(crate) fn is_read_for(&self, post: Weak<dyn Post>) {
        let _ = self.post.set(post);
    }

    /// Subscribes, and reads notifications from then on.
    pub(crate) async fn open(self: &Arc<Self>, resolver: Resolver, runtime: &Runtime) -> Result<()> {
        let connected = resolver.listen(&keys::inbox(self.id)).await?;
        self.go_on(resolver, Some(connected), runtime);
        Ok(())
    }

    /// Reads notifications until the endpoint or the runtime ends.
    pub(crate) fn go_on(
        self: &Arc<Self>,
        resolver: Resolver,
        from: Option<(Pushes, Address)>,
        runtime: &Runtime,
    ) {
        runtime.spawn_whole(Arc::clone(self).read(resolver, from, runtime.end().clone()));
    }

    async fn read(
        self: Arc<Self>,
        resolver: Resolver,
        from: Option<(Pushes, Address)>,
        end: CancellationToken,
    ) {
        let mut connected = from;
        loop {
            if let Some((pushes, at)) = &mut connected {
                tokio::select! {
                    () = self.read_until_lost(&resolver, pushes, at) => {}
                    // After UNSUBSCRIBE, the server skips this process when it looks for one to wake.
                    () = end.cancelled() => return pushes.leave(&keys::inbox(self.id)).await,
                }
            }
            let again = end.run_until_cancelled(self.connect(&resolver)).await.flatten();
            let Some(again) = again else { return };
            connected = Some(again);
            self.listeners.tell_all();
        }
    }

    async fn read_until_lost(&self, resolver: &Resolver, pushes: &mut Pushes, at: &Address) {
        loop {
            tokio::select! {
                push = pushes.next() => match push {
                    Some(push) => self.deliver(&push, resolver),
                    None => return,
                },
                () = resolver.left(at) => return,
            }
        }
    }

    /// Connects, retrying until it succeeds. `None` if the endpoint has ended.
    async fn connect(&self, resolver: &Resolver) -> Option<(Pushes, Address)> {
        let mut backoff = Backoff::new();
        while !resolver.has_ended() {
            match resolver.listen(&keys::inbox(self.id)).await {
                Ok(connected) => return Some(connected),
                Err(error) => {
                    tracing::debug!(%error, "not connected for notifications yet");
                    tokio::time::sleep(backoff.draw()).await;
                }
            }
        }
        None
    }

    fn deliver(&self, push: &[u8], resolver: &Resolver) {
        let Some(push) = read(push) else { return tracing::debug!("cannot parse a notification") };
        if !resolver.takes_pushes_of(push.slot()) {
            return;
        }
        let post = self.post.get().and_then(Weak::upgrade);
        match push {
            Push::Handed { token, grant, .. } => {
                self.listeners.tell_token(token, Notification::Handed(grant))
            }
            Push::Revoked { token, .. } => self.listeners.tell_token(token, Notification::Revoked),
            Push::Finished { queue, id } => self.listeners.tell_finished(queue, id),
            Push::Events { log, last } => self.listeners.tell_events(log, last),
            Push::Queue { queue, tasks, seen } => {
                let told = self.listeners.tell_queue(&queue, tasks, seen);
                let Some(post) = post else { return };
                match told {
                    Told::All => {}
                    Told::OthersWait(seen) => post.register(queue, seen),
                    Told::Nobody => post.pass_on(queue),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rushgate_core::ClientId;

    use super::*;

    #[test]
    fn pushes_are_read_and_others_are_left_alone() {
        let token = Token::new(ClientId::from_u64(1), 2);
        let lock = LockName::new("foo").unwrap();
        let push = |kind: &[u8], grant: &[u8]| [kind, &token.to_bytes(), grant, b"rg:{l:foo}:lock"].concat();
        let grant = Grant {
            fence: Fence::from_u64(7),
            lease_until: Timestamp::from_micros(1 << 50),
            lease_left: Duration::from_secs(2),
        };
        let packed: Vec<_> =
            [7u64, 1 << 50, 2_000_000].iter().flat_map(|n| n.to_be_bytes()[1..].to_vec()).collect();
        let handed = Push::Handed { lock: lock.clone(), token, grant };
        assert_eq!(handed.slot(), slot(b"l:foo"));
        assert_eq!(read(&push(b"A", &packed)), Some(handed));
        assert_eq!(read(&push(b"R", b"")), Some(Push::Revoked { lock, token }));
        let queue = QueueName::new("mail").unwrap();
        assert_eq!(read(b"Q3 17 mail"), Some(Push::Queue { queue: queue.clone(), tasks: 3, seen: 17 }));
        assert_eq!(
            read(b"Tann mail"),
            Some(Push::Finished { queue: queue.clone(), id: TaskId::new("ann").unwrap() })
        );
        assert_eq!(read(b"E12 mail"), Some(Push::Events { log: Log::Queue(queue), last: 12 }));
        let log = Log::Sale(SaleId::new("phones").unwrap());
        assert_eq!(read(b"S12 phones"), Some(Push::Events { log, last: 12 }));
        for other in [&b""[..], b"A123", b"Q", b"Q3 mail", b"Tann", b"E12", b"Ex mail", b"Z"] {
            assert_eq!(read(other), None);
        }
    }
}
