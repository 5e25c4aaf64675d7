//! The thread that talks to the servers, and the way of steps to it.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rushgate_core::{Error, Result, StoreCalls};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::check::Checked;
use crate::command::{Call, Command};
use crate::inbox::Inbox;
use crate::lane::{Lane, Walk};
use crate::reply::Reply;
use crate::sentinel::Sentinels;
use crate::url::Deployment;
use crate::way::Way;
use crate::work::{Books, What};

/// The way to the servers.
pub(crate) struct Driver {
    lane: Arc<Lane>,
    runtime: Handle,
    books: Arc<Books>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

pub(crate) fn closed() -> Error {
    Error::unavailable("the store is closed")
}

impl Driver {
    /// Starts the thread, makes the first connections and checks the servers.
    pub(crate) async fn start(deployment: Deployment, inbox: Arc<Inbox>) -> Result<Self> {
        let books = Arc::new(Books::default());
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
        let handle = runtime.handle().clone();
        let until = Arc::clone(&books);
        let thread = std::thread::Builder::new().name("rushgate-redis".into()).spawn(move || {
            // Whatever is on its way is answered before the thread ends.
            runtime.block_on(until.done());
        });
        let way = way(deployment, &handle)?;
        let lane = Arc::new(Lane::open(way.clone(), Arc::clone(&books), &handle));
        let thread = Mutex::new(Some(thread.map_err(no_thread)?));
        let driver = Self { lane: Arc::clone(&lane), runtime: handle, books, thread };
        let first = driver.run(async move {
            lane.walk().await?;
            inbox.open(way).await
        });
        first.await?;
        Ok(driver)
    }

    fn send(&self, what: What) -> impl Future<Output = Result<Reply>> + Send + use<> {
        let answer = self.books.enter(what).map(|(work, answer)| {
            self.lane.send(work);
            answer
        });
        async move { answer.ok_or_else(closed)?.await.map_err(|_| closed())? }
    }

    /// Sends a script at once; the answer is awaited later.
    pub(crate) fn call(&self, call: Call) -> impl Future<Output = Result<Reply>> + Send + use<> {
        self.send(What::Call(call))
    }

    /// Sends a command at once.
    pub(crate) fn command(&self, command: Command) -> impl Future<Output = Result<Reply>> + Send + use<> {
        self.send(What::Command(command))
    }

    /// Sends commands between which nothing else happens; gives the list of their answers.
    pub(crate) fn together(
        &self,
        commands: Vec<Command>,
    ) -> impl Future<Output = Result<Reply>> + Send + use<> {
        self.send(What::Together(commands))
    }

    /// The connection behind which a key is.
    pub(crate) async fn walk_to(&self, _key: &[u8]) -> Result<Walk> {
        self.lane.walk().await
    }

    /// Carries out steps that depend on each other, whether or not somebody waits for the answer.
    pub(crate) fn run<T, F>(&self, steps: F) -> impl Future<Output = Result<T>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        self.runtime.spawn(async move {
            let _ = reply.send(steps.await);
        });
        async move { answer.await.map_err(|_| closed())? }
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(task);
    }

    pub(crate) fn counted(&self) -> StoreCalls {
        self.books.counted()
    }

    /// What was found at the latest connection.
    pub(crate) fn checked(&self) -> Checked {
        self.lane.checked().unwrap_or_else(Checked::unknown)
    }

    /// Takes no more steps. Those that were sent are carried out first.
    pub(crate) fn stop(&self) {
        self.books.close();
    }

    /// The thread, to be waited for, once.
    pub(crate) fn take_thread(&self) -> Option<JoinHandle<()>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.stop();
    }
}

pub(crate) fn no_thread(error: std::io::Error) -> Error {
    Error::unavailable("the system did not start a thread").caused_by(error)
}

fn way(deployment: Deployment, runtime: &Handle) -> Result<Way> {
    Ok(match deployment {
        Deployment::Alone(server) => Way::Server(server),
        Deployment::Sentinel { nodes, service } => {
            let sentinels = Sentinels::new(nodes, service);
            for number in 0..sentinels.count() {
                let sentinels = Arc::clone(&sentinels);
                runtime.spawn(async move { sentinels.hear(number).await });
            }
            Way::Primary(sentinels)
        }
        Deployment::Cluster { .. } => {
            return Err(Error::misconfigured("this build does not support a Cluster yet"));
        }
    })
}
