//! The connection on which the store's pushes arrive, made again whenever it is lost.

use std::sync::{Arc, Weak};

use rushgate_core::{Notice, QueueName, Result, Token};

use crate::conn::{Pushes, Server};
use crate::driver::Backoff;
use crate::keys;
use crate::listeners::{Listeners, Told};

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

pub(crate) struct Inbox<P> {
    pub(crate) server: Server,
    pub(crate) channel: u64,
    pub(crate) listeners: Arc<Listeners>,
    pub(crate) post: Weak<P>,
}

impl<P: Post> Inbox<P> {
    pub(crate) async fn connect(server: &Server, channel: u64) -> Result<Pushes> {
        server.listen(&keys::inbox(channel)).await
    }

    /// Reads pushes until the store is closed.
    pub(crate) async fn run(self, mut pushes: Pushes) {
        loop {
            while let Some(push) = pushes.next().await {
                let Some(post) = self.post.upgrade() else { return };
                self.deliver(&push, post);
            }
            let mut backoff = Backoff::new();
            pushes = loop {
                if self.post.strong_count() == 0 {
                    return;
                }
                match Self::connect(&self.server, self.channel).await {
                    Ok(pushes) => break pushes,
                    Err(error) => {
                        tracing::debug!(%error, "no connection for pushes yet");
                        tokio::time::sleep(backoff.draw()).await;
                    }
                }
            };
            self.listeners.tell_all();
        }
    }

    fn deliver(&self, push: &[u8], post: Arc<P>) {
        match read(push) {
            Some(Push::Token(token, notice)) => self.listeners.tell_token(token, notice),
            Some(Push::Queue(queue, tasks, seen)) => match self.listeners.tell_queue(&queue, tasks, seen) {
                Told::All => {}
                Told::OthersWait(seen) => post.register(queue, seen),
                Told::Nobody => post.pass_on(queue),
            },
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
