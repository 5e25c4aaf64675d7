//! The executor of the store's background work.

use std::pin::Pin;

use rushgate_core::{Error, Result};
use tokio::runtime::{Builder, EnterGuard, Handle, RuntimeFlavor};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The runtime of the caller that opens the store, if it is multi-threaded: then callers and connections often share a
/// thread and need not wake each other, which would take longer than the rest of a request. A current-thread runtime
/// runs only while something blocks on it, and notifications would stay unread. There, and without a runtime, the store
/// starts a thread with its own.
#[derive(Clone)]
pub(crate) struct Runtime {
    handle: Handle,
    end: CancellationToken,
    tasks: TaskTracker,
}

impl Runtime {
    pub(crate) fn find() -> Result<Self> {
        let (end, tasks) = (CancellationToken::new(), TaskTracker::new());
        let of_caller = Handle::try_current().ok();
        match of_caller.filter(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread) {
            Some(handle) => Ok(Self { handle, end, tasks }),
            None => Self::start(end, tasks),
        }
    }

    /// Starts a thread with its own runtime.
    fn start(end: CancellationToken, tasks: TaskTracker) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
        let started = Self { handle: runtime.handle().clone(), end, tasks };
        let ended = started.ended();
        let thread = std::thread::Builder::new().name("rushgate-redis".into());
        thread.spawn(move || runtime.block_on(ended)).map_err(no_thread)?;
        Ok(started)
    }

    /// Runs a task until it completes or the store ends.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.spawn_pinned(Box::pin(task));
    }

    /// One type for all tasks: a task of its own type is compiled with all of Tokio's scheduling.
    fn spawn_pinned(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        let end = self.end.clone();
        self.spawn_whole(async move {
            end.run_until_cancelled_owned(task).await;
        });
    }

    /// Runs a task that watches for the end itself.
    pub(crate) fn spawn_whole(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn_on(task, &self.handle);
    }

    /// Runs a future even if the caller drops the returned one. `None` if the store ends first.
    pub(crate) fn run<T, F>(&self, steps: F) -> impl Future<Output = Option<T>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        self.spawn(async move {
            let _ = reply.send(steps.await);
        });
        async move { answer.await.ok() }
    }

    /// Lets the current thread start timers of this runtime while the returned guard lives.
    pub(crate) fn enter(&self) -> EnterGuard<'_> {
        self.handle.enter()
    }

    /// Cancelled when the store ends.
    pub(crate) fn end(&self) -> &CancellationToken {
        &self.end
    }

    /// Completes when the store has ended and its last task has completed.
    pub(crate) fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        let Self { end, tasks, .. } = self.clone();
        async move {
            end.cancelled().await;
            tasks.close();
            tasks.wait().await;
        }
    }
}

fn no_thread(error: std::io::Error) -> Error {
    Error::unavailable("cannot start a thread").caused_by(error)
}
