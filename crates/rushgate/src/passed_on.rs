//! Requests that a server passes on to its store for clients of its own.

use std::time::Duration;

use rushgate_core::{Due, Notification, QueueName, Reply, Request, Result, Target, Topic, Verbs};

use crate::Rushgate;
use crate::queue::Ready;

impl Rushgate {
    /// Carries out the request of any verb, once. The client that made it holds its tokens, and repeats it.
    ///
    /// # Errors
    /// [`is_invalid`](crate::Error::is_invalid) for a request outside its limits; otherwise those of the verb.
    pub async fn pass_on(&self, request: Request) -> Result<Reply> {
        let queue = moves_due_times(&request);
        let is_schedule = matches!(request, Request::Schedule(_) | Request::Unschedule(_));
        let answer = self.store().carry_out(request).await;
        if let Some(queue) = queue {
            self.next_due_changed(&queue);
        }
        if is_schedule {
            self.schedules_changed().notify_waiters();
        }
        answer
    }

    /// Waits for a notification, as [`Store::listen`](rushgate_core::Store::listen) does. Listening starts at the
    /// call.
    ///
    /// # Errors
    /// The store cannot notify. Nothing was changed.
    pub fn listen(
        &self,
        topic: Topic,
    ) -> impl Future<Output = Result<Option<Notification>>> + Send + 'static {
        // Of the listeners of a process, the store wakes one. This one shares that turn with the others.
        let heard = match topic {
            Topic::Ready(queue) => Err(Ready::listen(self, &queue)),
            topic => Ok(self.store().listen(topic)),
        };
        async move {
            match heard {
                Ok(heard) => heard.await,
                Err(mut ready) => ready.heard().await.map(|()| None),
            }
        }
    }
}

/// The queue in which the request may change when the next task is due. The store notifies other processes of that,
/// and not the one that sends the request.
fn moves_due_times(request: &Request) -> Option<QueueName> {
    let moves = match request {
        Request::Enqueue(v) => v.tasks.iter().any(|task| task.due != Due::Now || task.deadline.is_some()),
        Request::ReleaseTasks(v) => v.back.iter().any(|back| back.delay != Duration::ZERO),
        Request::ReleaseWith(_)
        | Request::Relay(_)
        | Request::CloseBatch(_)
        | Request::Fire(_)
        | Request::RequeueDead(_)
        | Request::Retry(_) => true,
        _ => false,
    };
    match request.target() {
        Target::Queue(queue) | Target::LockAndQueue(_, queue) if moves => Some(queue.clone()),
        _ => None,
    }
}
