//! Waits for notifications, and registers this process for them on the server.

use std::sync::Arc;
use std::time::Duration;

use rushgate_core::{Answer, Log, Notification, QueueName, SaleId, Topic};

use super::Inner;
use crate::command::Call;
use crate::listeners::Register;
use crate::reply::Reply;
use crate::sale::Home;
use crate::{queue, sale};

/// How long a listener must wait before it is registered on the server.
const LINGER: Duration = Duration::from_millis(1);

impl Inner {
    /// Waits for a notification of a topic.
    pub(crate) fn listen(self: Arc<Self>, topic: Topic) -> Answer<'static, Option<Notification>> {
        let (listening, told) = self.inbox.listeners.listen(topic.clone());
        let inbox = self.inbox.id;
        let waits = match topic {
            Topic::Token(_) => None,
            Topic::Ready(queue) => {
                self.register(queue);
                None
            }
            Topic::Finished(queue, id) => Some(self.watch(queue::watch(&queue, inbox, &id))),
            Topic::Event(Log::Queue(queue), after) => Some(self.watch(queue::follow(&queue, inbox, after))),
            Topic::Event(Log::Sale(sale), after) => Some(self.follow_sale(sale, after)),
        };
        Box::pin(async move {
            let _listening = listening;
            if let Some(waits) = waits
                && !waits.await?
            {
                return Ok(None);
            }
            told.await.map_err(|_| self.dispatcher.in_flight.ended())
        })
    }

    /// Registers the process for the queue's next wake-up, for a listener that was just added.
    fn register(self: &Arc<Self>, queue: QueueName) {
        match self.inbox.listeners.registration(&queue) {
            Register::Done => {}
            // Sent now, before any later request of the caller.
            Register::From(None) => self.register_first(&queue),
            // A worker that claims in a loop need not register between two claims: the wake-up count shows what it
            // missed.
            Register::From(seen) => {
                let inner = Arc::clone(self);
                self.dispatcher.runtime.spawn(async move {
                    tokio::time::sleep(LINGER).await;
                    inner.register_now(queue, seen).await;
                });
            }
        }
    }

    /// Registers the process. The answer is whether there is something to wait for.
    fn watch(&self, watch: Call) -> Answer<'static, bool> {
        let watched = self.dispatcher.send(watch);
        Box::pin(async move { Ok(watched.await?.int()? == 1) })
    }

    /// Registers the process for the sale's next event. The answer is whether the latest one is `after`.
    fn follow_sale(self: &Arc<Self>, sale: SaleId, after: u64) -> Answer<'static, bool> {
        let (inner, inbox) = (Arc::clone(self), self.inbox.id);
        // Sent now, if the sale's keys are known.
        let watched =
            self.known_home(&sale).map(|home| self.dispatcher.send(sale::listen(&home, inbox, after)));
        Box::pin(async move {
            if let Some(watched) = watched {
                let reply = watched.await?;
                if !reply.is("MISSING") {
                    return Ok(reply.int()? == 1);
                }
            }
            let build = |home: &Home, asked: &(u64, u64)| Ok(sale::listen(home, asked.0, asked.1));
            let read = |_: &Home, _: &(u64, u64), reply: Reply| Ok(reply.int()? == 1);
            inner.step_of_sale(sale, (inbox, after), build, read).await
        })
    }

    fn register_first(self: &Arc<Self>, queue: &QueueName) {
        if !self.inbox.listeners.must_register(queue) {
            return;
        }
        let answer = self.dispatcher.send(queue::listen(queue, self.inbox.id, None));
        let (inner, queue) = (Arc::clone(self), queue.clone());
        self.dispatcher.runtime.spawn(async move {
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
            let answer = self.dispatcher.send(queue::listen(&queue, self.inbox.id, seen)).await;
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
