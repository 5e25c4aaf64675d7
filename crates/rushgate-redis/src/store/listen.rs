//! Waits for notifications, and registers this process for them on the server.

use std::sync::Arc;
use std::time::Duration;

use rushgate_core::{Answer, Log, Notice, QueueName, SaleId, Topic};
use tokio::sync::oneshot;

use super::Inner;
use crate::command::Call;
use crate::listeners::{Listening, Register};
use crate::reply::Reply;
use crate::sale::Home;
use crate::{queue, sale};

/// How long a listener must wait before it is registered on the server.
const LINGER: Duration = Duration::from_millis(1);

impl Inner {
    /// Waits for a notification of a topic.
    pub(super) fn listen(self: Arc<Self>, topic: Topic) -> Answer<'static, Option<Notice>> {
        let (listeners, inbox) = (&self.inbox.listeners, self.inbox.id);
        match topic {
            Topic::Token(token) => {
                let (listening, told) = listeners.listen_token(token);
                Box::pin(async move {
                    let _listening = listening;
                    told.await.map(Some).map_err(|_| self.driver.why_ended())
                })
            }
            Topic::Ready(queue) => self.hear_ready(&queue),
            Topic::Over(queue, id) => {
                let heard = listeners.listen_over(&queue, &id);
                self.hear(heard, queue::watch(&queue, inbox, &id))
            }
            Topic::Event(log, after) => {
                let heard = listeners.listen_events(&log, after);
                match log {
                    Log::Queue(queue) => self.hear(heard, queue::follow(&queue, inbox, after)),
                    Log::Sale(sale) => self.hear_sale(heard, sale, after),
                }
            }
        }
    }

    fn hear_ready(self: Arc<Self>, queue: &QueueName) -> Answer<'static, Option<Notice>> {
        let (listening, told, register) = self.inbox.listeners.listen_queue(queue);
        match register {
            Register::Done => {}
            // Sent now, before any later request of the caller.
            Register::From(None) => self.register_first(queue),
            // A worker that claims in a loop need not register between two claims: the wake-up count shows what it
            // missed.
            Register::From(seen) => {
                let (inner, of) = (Arc::clone(&self), queue.clone());
                self.driver.spawn(async move {
                    tokio::time::sleep(LINGER).await;
                    inner.register_now(of, seen).await;
                });
            }
        }
        Box::pin(async move {
            let _listening = listening;
            told.await.map(|()| None).map_err(|_| self.driver.why_ended())
        })
    }

    /// Waits for a notification, if the server's answer is that there is something to wait for.
    fn hear(
        self: Arc<Self>,
        (listening, told): (Listening, oneshot::Receiver<()>),
        watch: Call,
    ) -> Answer<'static, Option<Notice>> {
        let watched = self.driver.call(watch);
        Box::pin(async move {
            let _listening = listening;
            if watched.await?.int()? == 1 {
                told.await.map_err(|_| self.driver.why_ended())?;
            }
            Ok(None)
        })
    }

    /// Waits for an event of a sale, if its latest one is `after`.
    fn hear_sale(
        self: Arc<Self>,
        (listening, told): (Listening, oneshot::Receiver<()>),
        sale: SaleId,
        after: u64,
    ) -> Answer<'static, Option<Notice>> {
        let inbox = self.inbox.id;
        // Sent now, if the sale's keys are known.
        let watched = self.known_home(&sale).map(|home| self.driver.call(sale::listen(&home, inbox, after)));
        Box::pin(async move {
            let _listening = listening;
            let answer = match watched {
                Some(watched) => Some(watched.await?).filter(|reply| !reply.is("MISSING")),
                None => None,
            };
            let waits = match answer {
                Some(reply) => reply.int()? == 1,
                None => {
                    let build = |home: &Home, asked: &(u64, u64)| Ok(sale::listen(home, asked.0, asked.1));
                    let read = |_: &Home, _: &(u64, u64), reply: Reply| Ok(reply.int()? == 1);
                    Arc::clone(&self).step_of_sale(sale, (inbox, after), build, read).await?
                }
            };
            if waits {
                told.await.map_err(|_| self.driver.why_ended())?;
            }
            Ok(None)
        })
    }

    fn register_first(self: &Arc<Self>, queue: &QueueName) {
        if !self.inbox.listeners.must_register(queue) {
            return;
        }
        let answer = self.driver.call(queue::listen(queue, self.inbox.id, None));
        let (inner, queue) = (Arc::clone(self), queue.clone());
        self.driver.spawn(async move {
            if let Err(error) = answer.await {
                tracing::debug!(%queue, %error, "not registered for notifications");
                inner.inbox.listeners.not_registered(&queue);
            }
        });
    }

    /// Registers the process for the queue's next wake-up, if a listener still waits for one.
    pub(super) async fn register_now(self: Arc<Self>, queue: QueueName, seen: Option<u64>) {
        let mut seen = seen;
        while self.inbox.listeners.must_register(&queue) {
            let answer = self.driver.call(queue::listen(&queue, self.inbox.id, seen)).await;
            match answer.and_then(queue::read_listening) {
                Ok((0, _)) => return,
                Ok((missed, wakes)) => {
                    seen = Some(wakes);
                    self.inbox.listeners.tell_queue(&queue, missed, wakes);
                }
                Err(error) => {
                    tracing::debug!(%queue, %error, "not registered for notifications");
                    return self.inbox.listeners.not_registered(&queue);
                }
            }
        }
    }
}
