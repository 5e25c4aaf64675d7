//! The dispatcher, which sends requests to the servers.

use std::sync::Arc;
use std::time::Duration;

use rushgate_core::{Error, Result, Warning};
use tokio_util::sync::DropGuard;

use crate::backoff::Opening;
use crate::check::Checked;
use crate::cluster::Cluster;
use crate::connection::Connection;
use crate::inbox::Inbox;
use crate::library::Library;
use crate::link::PinnedConnection;
use crate::reply::Reply;
use crate::resolver::Resolver;
use crate::runtime::Runtime;
use crate::sentinel::Sentinels;
use crate::url::Deployment;
use crate::work::{InFlight, What, closed};

/// How long closing the store waits for replies. A server that hangs must not keep a process from ending.
const CLOSE_MAX: Duration = Duration::from_secs(2);

/// The dispatcher of a store's requests.
pub(crate) struct Dispatcher {
    pub(crate) servers: Servers,
    pub(crate) runtime: Runtime,
    pub(crate) in_flight: Arc<InFlight>,
}

/// Dropped when no more requests are executed, because the store was closed or its runtime has ended.
struct Ending {
    inbox: Arc<Inbox>,
    servers: Servers,
    _end: DropGuard,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.inbox.listeners.close();
        self.servers.disconnect();
    }
}

/// One server, which a failover may replace, or a Cluster.
#[derive(Clone)]
pub(crate) enum Servers {
    One(Arc<Connection>),
    Cluster(Arc<Cluster>),
}

impl Dispatcher {
    /// Connects to the servers, checks them, and installs the function library if told so.
    pub(crate) async fn start(deployment: Deployment, inbox: Arc<Inbox>, library: Library) -> Result<Self> {
        let (runtime, in_flight) = (Runtime::find()?, Arc::new(InFlight::default()));
        // Dropping this future ends the attempt to open.
        let end = runtime.end().clone().drop_guard();
        let opened =
            Servers::open(deployment, library, Arc::clone(&inbox), Arc::clone(&in_flight), runtime.clone());
        let opened = runtime.run(opened);
        let servers = opened.await.ok_or_else(no_runtime)??;
        for Warning { what, fix } in servers.warnings() {
            tracing::warn!("{what}: {fix}");
        }
        let ending = Ending { inbox, servers: servers.clone(), _end: end };
        let to_answer = Arc::clone(&in_flight);
        runtime.spawn(async move {
            // Wait for pending replies first.
            to_answer.done(CLOSE_MAX).await;
            drop(ending);
        });
        Ok(Self { servers, runtime, in_flight })
    }

    /// Whether keys may be on several servers, so that one step cannot use any two of them.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.servers, Servers::Cluster(_))
    }

    /// Sends a call, a command or a transaction immediately. The returned future is the reply.
    pub(crate) fn send<W: Into<What>>(&self, what: W) -> impl Future<Output = Result<Reply>> + Send + use<W> {
        let what = what.into();
        let only_looks = what.only_looks();
        let answer = self.in_flight.enter(what).map(|(work, answer)| {
            match &self.servers {
                Servers::One(connection) => connection.send(work),
                Servers::Cluster(cluster) => cluster.route(work),
            }
            answer
        });
        let in_flight = Arc::clone(&self.in_flight);
        async move {
            let answer = answer.ok_or_else(closed)?.await;
            let answer = answer.unwrap_or_else(|_| Err(in_flight.ended().maybe_happened()));
            // A request that only reads changed nothing, even if its reply was lost.
            answer.map_err(|error| if only_looks { error.of_a_look() } else { error })
        }
    }

    /// A pinned connection to each server. Must be called on the store's runtime.
    pub(crate) async fn pinned(&self) -> Result<Vec<PinnedConnection>> {
        match &self.servers {
            Servers::One(connection) => Ok(vec![connection.pinned().await?]),
            Servers::Cluster(cluster) => cluster.pinned().await,
        }
    }

    /// Runs steps that depend on each other, even if the caller drops the returned future.
    pub(crate) fn run<T, F>(&self, steps: F) -> impl Future<Output = Result<T>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let in_flight = Arc::clone(&self.in_flight);
        let answer = (!in_flight.are_closed()).then(|| self.runtime.run(steps));
        async move {
            let answered = answer.ok_or_else(closed)?.await;
            answered.ok_or_else(|| in_flight.ended().maybe_happened())?
        }
    }
}

impl Drop for Dispatcher {
    fn drop(&mut self) {
        self.in_flight.close();
    }
}

fn no_runtime() -> Error {
    Error::unavailable("the runtime that opens the store has ended, or lacks I/O or time")
        .hint("build the runtime with `enable_all()`")
}

async fn open_connection(
    connection: &Connection,
    resolver: &Resolver,
    library: Library,
    inbox: &Arc<Inbox>,
    runtime: &Runtime,
) -> Result<()> {
    library.prepare(&connection.pinned().await?).await?;
    inbox.open(resolver.clone(), runtime).await
}

impl Servers {
    async fn open(
        deployment: Deployment,
        library: Library,
        inbox: Arc<Inbox>,
        in_flight: Arc<InFlight>,
        runtime: Runtime,
    ) -> Result<Self> {
        let resolver = match deployment {
            Deployment::Alone(server) => Resolver::Server(server),
            Deployment::Sentinel { nodes, service } => {
                Resolver::Primary(Sentinels::start(nodes, service, &runtime))
            }
            Deployment::Cluster { nodes } => {
                let cluster = Cluster::start(nodes, library, inbox, in_flight, runtime).await?;
                return Ok(Self::Cluster(cluster));
            }
        };
        Self::open_one(resolver, library, inbox, in_flight, &runtime).await
    }

    async fn open_one(
        resolver: Resolver,
        library: Library,
        inbox: Arc<Inbox>,
        in_flight: Arc<InFlight>,
        runtime: &Runtime,
    ) -> Result<Self> {
        let connection = Connection::open(resolver.clone(), in_flight, runtime);
        let opening = Opening::begin();
        while let Err(error) = open_connection(&connection, &resolver, library, &inbox, runtime).await {
            opening.bear(error, resolver.is_told()).await?;
        }
        Ok(Self::One(Arc::new(connection)))
    }

    /// Drops the connections for requests.
    fn disconnect(&self) {
        match self {
            Self::One(connection) => connection.link.disconnect(),
            Self::Cluster(cluster) => cluster.disconnect(),
        }
    }

    /// Warnings about the servers. A failover can replace any server but a standalone one.
    pub(crate) fn warnings(&self) -> Vec<Warning> {
        let may_fail_over = match self {
            Self::One(connection) => connection.link.resolver.follows_sentinels(),
            Self::Cluster(_) => true,
        };
        self.checked().warnings(may_fail_over)
    }

    /// The result of the latest checks.
    pub(crate) fn checked(&self) -> Checked {
        let checked = match self {
            Self::One(connection) => connection.link.checked(),
            Self::Cluster(cluster) => cluster.checked(),
        };
        checked.unwrap_or_else(Checked::unknown)
    }
}
