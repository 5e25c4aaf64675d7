//! The thread that talks to the servers, and the way of steps to it.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rushgate_core::{Error, Result, StoreCalls};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::check::Checked;
use crate::cluster::Cluster;
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
    servers: Servers,
    runtime: Handle,
    books: Arc<Books>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// One server, whichever it is at the time, or several that share the keys.
#[derive(Clone)]
enum Servers {
    One(Arc<Lane>),
    Cluster(Arc<Cluster>),
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
        let (opened, first) = oneshot::channel();
        let of_thread = Arc::clone(&books);
        let thread = std::thread::Builder::new().name("rushgate-redis".into()).spawn(move || {
            runtime.block_on(async {
                let servers = Servers::open(deployment, inbox, Arc::clone(&of_thread)).await;
                let up = servers.is_ok();
                if opened.send(servers).is_ok() && up {
                    // Whatever is on its way is answered before the thread ends.
                    of_thread.done().await;
                }
            });
        });
        let thread = Mutex::new(Some(thread.map_err(no_thread)?));
        let servers = first.await.map_err(|_| closed())??;
        Ok(Self { servers, runtime: handle, books, thread })
    }

    /// Whether keys may be on several servers, so that no step can be about any two of them.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.servers, Servers::Cluster(_))
    }

    fn send(&self, what: What) -> impl Future<Output = Result<Reply>> + Send + use<> {
        let answer = self.books.enter(what).map(|(work, answer)| {
            match &self.servers {
                Servers::One(lane) => lane.send(work),
                Servers::Cluster(cluster) => cluster.route(work),
            }
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

    /// The connection behind which a key is. To be called on the driver's own thread.
    pub(crate) async fn walk_to(&self, key: &[u8]) -> Result<Walk> {
        match &self.servers {
            Servers::One(lane) => lane.walk().await,
            Servers::Cluster(cluster) => cluster.walk_to(key).await,
        }
    }

    /// The connections behind which all keys are. To be called on the driver's own thread.
    pub(crate) async fn walks(&self) -> Result<Vec<Walk>> {
        match &self.servers {
            Servers::One(lane) => Ok(vec![lane.walk().await?]),
            Servers::Cluster(cluster) => cluster.walks().await,
        }
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
        self.servers.checked()
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

impl Servers {
    async fn open(deployment: Deployment, inbox: Arc<Inbox>, books: Arc<Books>) -> Result<Self> {
        let way = match deployment {
            Deployment::Alone(server) => {
                return Ok(Self::open_one(Way::Server(server), inbox, books).await?.warned(false));
            }
            Deployment::Sentinel { nodes, service } => Way::Primary(Sentinels::start(nodes, service)),
            Deployment::Cluster { nodes } => {
                let cluster = Cluster::start(nodes, inbox, books, Handle::current()).await?;
                return Ok(Self::Cluster(cluster).warned(true));
            }
        };
        Ok(Self::open_one(way, inbox, books).await?.warned(true))
    }

    async fn open_one(way: Way, inbox: Arc<Inbox>, books: Arc<Books>) -> Result<Self> {
        let lane = Lane::open(way.clone(), books, &Handle::current());
        lane.walk().await?;
        inbox.open(way).await?;
        Ok(Self::One(Arc::new(lane)))
    }

    /// Says what is not as it could be. Another server may take the place of one that is not alone.
    fn warned(self, may_fail_over: bool) -> Self {
        for warning in self.checked().warnings(may_fail_over) {
            tracing::warn!("{warning}");
        }
        self
    }

    /// What was found at the latest connections.
    fn checked(&self) -> Checked {
        let checked = match self {
            Self::One(lane) => lane.checked(),
            Self::Cluster(cluster) => cluster.checked(),
        };
        checked.unwrap_or_else(Checked::unknown)
    }
}
