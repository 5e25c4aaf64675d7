//! The runtime that carries out what the store does.

use rushgate_core::{Error, Result};
use tokio::runtime::{Builder, Handle, RuntimeFlavor};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// That of whoever opens the store, if it has threads of its own: callers and connections that share a thread need not
/// wake each other, which takes longer than anything else about a step. One that is driven only now and then, by
/// whoever blocks on it, would leave pushes unread meanwhile; so there, and where there is none, the store has a thread
/// with its own.
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

    /// Starts a thread with a runtime.
    fn start(end: CancellationToken, tasks: TaskTracker) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
        let started = Self { handle: runtime.handle().clone(), end, tasks };
        let ended = started.ended();
        let thread = std::thread::Builder::new().name("rushgate-redis".into());
        thread.spawn(move || runtime.block_on(ended)).map_err(no_thread)?;
        Ok(started)
    }

    /// Carries out a task until the end.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let end = self.end.clone();
        self.spawn_whole(async move {
            end.run_until_cancelled_owned(task).await;
        });
    }

    /// Carries out a task that ends by itself when the end comes.
    pub(crate) fn spawn_whole(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn_on(task, &self.handle);
    }

    /// Carries out steps whether or not somebody waits for what they give, which is nothing if the end comes first.
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

    /// The end, which comes when this is cancelled.
    pub(crate) fn end(&self) -> &CancellationToken {
        &self.end
    }

    /// Ends when the last task has ended.
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
    Error::unavailable("the system did not start a thread").caused_by(error)
}
