//! The connection on which the store's pushes arrive, made again whenever it is lost.

use std::sync::{Arc, OnceLock, Weak};

use rushgate_core::{Notice, QueueName, Result, Token};

use crate::backoff::Backoff;
use crate::conn::{Address, Pushes};
use crate::keys;
use crate::listeners::{Listeners, Told};
use crate::way::Way;

/// What one push says.
#[derive(Debug, PartialEq, Eq)]
enum Push {
    Token(Token, Notice),
    /// So many tasks of a queue, and its count of wake-ups.
    Queue(QueueName, u64, u64),
}

/// `A` and `R` are followed by a token: ask, or lost by force. `Q` by tasks, wake-ups and the queue's name.
fn read(push: &[u8]) -> Option<Push> {
    let (kind, rest) = push.split_first()?;
    match kind {
        b'A' | b'R' => {
            let notice = if *kind == b'A' { Notice::Ask } else { Notice::Revoked };
            Some(Push::Token(Token::from_bytes(rest.try_into().ok()?), notice))
        }
        b'Q' => {
            let mut parts = std::str::from_utf8(rest).ok()?.splitn(3, ' ');
            let (tasks, seen) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            Some(Push::Queue(QueueName::new(parts.next()?).ok()?, tasks, seen))
        }
        _ => None,
    }
}

/// What an inbox does with a push that concerns others than its listeners.
pub(crate) trait Post: Send + Sync + 'static {
    /// Others of this process still wait: the store must be told so.
    fn register(self: Arc<Self>, queue: QueueName, seen: u64);
    /// Nobody here waits any more: another process may.
    fn pass_on(self: Arc<Self>, queue: QueueName);
}

/// One process's letter box: what is pushed to it, and who waits for that.
pub(crate) struct Inbox {
    /// The number of its channel.
    pub(crate) id: u64,
    pub(crate) listeners: Listeners,
    post: OnceLock<Weak<dyn Post>>,
}

impl Inbox {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { id: rand::random(), listeners: Listeners::default(), post: OnceLock::new() })
    }

    /// Says who does what the listeners cannot do. There is one only.
    pub(crate) fn is_read_for(&self, post: Weak<dyn Post>) {
        let _ = self.post.set(post);
    }

    /// Connects, and reads from then on, until the runtime ends.
    pub(crate) async fn open(self: &Arc<Self>, way: Way) -> Result<()> {
        let (pushes, at) = way.listen(&keys::inbox(self.id)).await?;
        tokio::spawn(Arc::clone(self).read(way, pushes, at));
        Ok(())
    }

    async fn read(self: Arc<Self>, way: Way, mut pushes: Pushes, mut at: Address) {
        loop {
            loop {
                tokio::select! {
                    push = pushes.next() => match push {
                        Some(push) => self.deliver(&push),
                        None => break,
                    },
                    () = way.left(&at) => break,
                }
            }
            (pushes, at) = self.connect_again(&way).await;
            self.listeners.tell_all();
        }
    }

    async fn connect_again(&self, way: &Way) -> (Pushes, Address) {
        let mut backoff = Backoff::new();
        loop {
            match way.listen(&keys::inbox(self.id)).await {
                Ok(connected) => return connected,
                Err(error) => {
                    tracing::debug!(%error, "no connection for pushes yet");
                    tokio::time::sleep(backoff.draw()).await;
                }
            }
        }
    }

    fn deliver(&self, push: &[u8]) {
        match read(push) {
            Some(Push::Token(token, notice)) => self.listeners.tell_token(token, notice),
            Some(Push::Queue(queue, tasks, seen)) => {
                let told = self.listeners.tell_queue(&queue, tasks, seen);
                let Some(post) = self.post.get().and_then(Weak::upgrade) else { return };
                match told {
                    Told::All => {}
                    Told::OthersWait(seen) => post.register(queue, seen),
                    Told::Nobody => post.pass_on(queue),
                }
            }
            None => tracing::debug!("a push that cannot be read"),
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
        let mut push = b"A".to_vec();
        push.extend(token.to_bytes());
        assert_eq!(read(&push), Some(Push::Token(token, Notice::Ask)));
        push[0] = b'R';
        assert_eq!(read(&push), Some(Push::Token(token, Notice::Revoked)));
        let queue = QueueName::new("mail").unwrap();
        assert_eq!(read(b"Q3 17 mail"), Some(Push::Queue(queue, 3, 17)));
        for other in [&b""[..], b"A123", b"Q", b"Q3 mail", b"Z"] {
            assert_eq!(read(other), None);
        }
    }
}
