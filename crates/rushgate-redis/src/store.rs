//! The public store: connects, and sends calls. The verbs that take several calls are in the modules below it.

mod apart;
mod listen;
mod locks;
mod queues;
mod sales;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

use rushgate_core::{Answer, Error, Op, QueueName, ReleaseWith, Reply as Answered, Result, SaleId};

use crate::command::Call;
use crate::dispatcher::Dispatcher;
use crate::inbox::{Inbox, Post};
use crate::library::Library;
use crate::reply::Reply;
use crate::sale::Home;
use crate::url::Url;
use crate::{lock, queue};

use apart::Apart;

/// A store on a Redis or Valkey server, on a Sentinel service or on a Cluster.
///
/// It runs on the multi-threaded runtime in which it was opened, and is unavailable after that runtime has ended.
/// Without such a runtime it starts a thread of its own. It is cheap to share as an [`Arc`]. After the last one is
/// dropped, requests that were sent are still executed in the background; [`close`](rushgate_core::Store::close) waits
/// for them.
pub struct RedisStore {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) url: String,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) inbox: Arc<Inbox>,
    entered: Mutex<HashMap<QueueName, Instant>>,
    homes: Mutex<HashMap<SaleId, Arc<Home>>>,
    apart: Mutex<Apart>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.inbox.listeners.close();
    }
}

impl Post for Inner {
    fn register(self: Arc<Self>, queue: QueueName, seen: u64) {
        let inner = Arc::clone(&self);
        self.dispatcher.runtime.spawn(async move { inner.register_now(queue, Some(seen)).await });
    }

    fn pass_on(self: Arc<Self>, queue: QueueName) {
        drop(self.dispatcher.send(queue::ring(&queue)));
    }
}

impl RedisStore {
    /// Connects to a server, `redis://[user[:password]@]host[:port][/database]`; to the primary of a Sentinel service,
    /// `redis+sentinel://[user[:password]@]host[:port],…/service[/database]`; or to a Cluster through some of its
    /// nodes, `redis+cluster://[user[:password]@]host[:port],…`. Use `rediss` in place of `redis` for TLS. Every
    /// server is checked.
    ///
    /// # Errors
    /// - [`is_invalid`](Error::is_invalid): the URL is invalid.
    /// - [`is_unavailable`](Error::is_unavailable): the server cannot be reached, or is loading its data.
    /// - [`is_misconfigured`](Error::is_misconfigured): the password is wrong; the certificate is trusted neither by
    ///   this machine nor by the file in `SSL_CERT_FILE`; the server is too old, a replica, or has a
    ///   `maxmemory-policy` that evicts keys; no sentinel knows the service; or the server is not a Cluster.
    ///
    /// None of these errors changes data.
    pub async fn open(url: &str) -> Result<Self> {
        let Url { deployment, shown } = Url::parse(url)?;
        let inbox = Inbox::new();
        let dispatcher = Dispatcher::start(deployment, Arc::clone(&inbox), Library::Install).await;
        let dispatcher = dispatcher.map_err(|error| error.doing(format_args!("open the store `{shown}`")))?;
        let (entered, homes, apart) = (Mutex::default(), Mutex::default(), Mutex::default());
        let inner = Arc::new(Inner { url: shown, dispatcher, inbox, entered, homes, apart });
        let post: Weak<Inner> = Arc::downgrade(&inner);
        inner.inbox.is_read_for(post);
        Ok(Self { inner })
    }

    /// Sends a call.
    pub(crate) fn send<T: 'static>(
        &self,
        call: Call,
        read: impl FnOnce(Reply) -> Result<T> + Send + 'static,
        reply: fn(T) -> Answered,
    ) -> Answer<'static, Answered> {
        let answer = self.inner.dispatcher.send(call);
        Box::pin(async move { answer.await.and_then(read).map(reply) })
    }

    /// Sends a call that may be the first use of a queue.
    pub(crate) fn put<T: 'static>(
        &self,
        queue: &QueueName,
        call: Call,
        read: impl FnOnce(Reply) -> Result<T> + Send + 'static,
        reply: fn(T) -> Answered,
    ) -> Answer<'static, Answered> {
        let entered = self.inner.enter_queue(queue);
        let answer = self.send(call, read, reply);
        Box::pin(async move {
            let entered = entered.await;
            let answer = answer.await?;
            // The directory may be on another node. A queue that it does not list was not acknowledged.
            entered.map(|()| answer).map_err(Error::maybe_happened)
        })
    }

    /// Runs several steps, even if the caller drops the returned future.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        steps: impl Future<Output = Result<T>> + Send + 'static,
        reply: fn(T) -> Answered,
    ) -> Answer<'static, Answered> {
        let answer = self.inner.dispatcher.run(steps);
        Box::pin(async move { answer.await.map(reply) })
    }

    pub(crate) fn release_with(&self, op: Op, release: ReleaseWith) -> Answer<'static, Answered> {
        if !self.inner.dispatcher.is_cluster() {
            let call = lock::release_with(op, &release);
            return self.put(&release.queue, call, lock::read_released_with, Answered::ReleaseWith);
        }
        let put = queue::enqueue(op, &release.queue, std::slice::from_ref(&release.task));
        self.run(Arc::clone(&self.inner).release_apart(op, release, put), Answered::ReleaseWith)
    }
}
