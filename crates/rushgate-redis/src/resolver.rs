//! Endpoint resolvers: how a connection finds its server, and learns that another server has replaced it.

use std::future::pending;
use std::sync::{Arc, Weak};

use rushgate_core::{Error, Result};
use tokio::sync::watch;

use crate::check::{Checked, Part, check};
use crate::reply::Refusal;
use crate::sentinel::Sentinels;
use crate::transport::{Address, Boxed, Commands, Pushes, Server};
use crate::work::Work;

/// A Cluster, as the connection to one of its nodes sees it. The Cluster owns these connections, so they know it only
/// by this trait.
pub(crate) trait Nodes: Send + Sync + 'static {
    /// Whether a node serves a slot, according to the slot map. True if the slot's owner is unknown.
    fn serves(&self, at: &Address, slot: u16) -> bool;
    /// Queries the slot map again, unless another task has done so since this call.
    fn look(self: Arc<Self>) -> Boxed<'static, ()>;
    /// Queries the slot map again in the background.
    fn look_soon(self: Arc<Self>);
    /// A node could not be reached, so these requests were not sent. Those whose slots have a new owner are sent there.
    fn unsent(self: Arc<Self>, works: Vec<Work>, from: &Address, error: &Error);
    /// Handles redirections: the node did not execute the requests and names another node, or says that none can do it
    /// now.
    fn refer(self: Arc<Self>, referred: Vec<(Work, Refusal)>, from: &Address);
}

/// The endpoint resolver of one connection.
#[derive(Clone)]
pub(crate) enum Resolver {
    /// A fixed server.
    Server(Server),
    /// The primary that the sentinels name.
    Primary(Arc<Sentinels>),
    /// A node of a Cluster, while it serves slots.
    Member(Member),
}

#[derive(Clone)]
pub(crate) struct Member {
    pub(crate) server: Server,
    pub(crate) nodes: Weak<dyn Nodes>,
    /// Closed when the node no longer serves slots.
    pub(crate) serves: watch::Receiver<()>,
}

/// A connection to a server that passed the checks.
pub(crate) struct Linked {
    pub(crate) conn: Commands,
    pub(crate) checked: Checked,
    pub(crate) at: Address,
}

impl Resolver {
    pub(crate) async fn connect(&self) -> Result<Linked> {
        match self {
            Self::Server(server) => link(server, Part::Alone).await,
            Self::Primary(sentinels) => {
                let server = sentinels.find().await?;
                let linked = link(&server, Part::Primary).await;
                sentinels.tried(server.address(), linked.is_ok());
                linked
            }
            Self::Member(_) if self.has_ended() => {
                Err(Error::unavailable("another node of the Cluster has replaced the server"))
            }
            Self::Member(member) => member.or_look(link(&member.server, Part::Member).await).await,
        }
    }

    /// Whether sentinels currently name a server.
    pub(crate) async fn is_told(&self) -> bool {
        match self {
            Self::Primary(sentinels) => sentinels.find().await.is_ok(),
            Self::Server(_) | Self::Member(_) => false,
        }
    }

    /// A connection that is subscribed to one channel, and the address of its server.
    pub(crate) async fn listen(&self, channel: &str) -> Result<(Pushes, Address)> {
        let listen = async |server: &Server| {
            let pushes = server.listen(channel).await;
            pushes.map(|pushes| (pushes, server.address().clone()))
        };
        match self {
            Self::Server(server) => listen(server).await,
            Self::Primary(sentinels) => listen(&sentinels.find().await?).await,
            Self::Member(member) => member.or_look(listen(&member.server).await).await,
        }
    }

    /// The Cluster that the server belongs to, and the server's address.
    pub(crate) fn nodes(&self) -> Option<(Arc<dyn Nodes>, &Address)> {
        match self {
            Self::Member(member) => member.nodes.upgrade().map(|nodes| (nodes, member.server.address())),
            _ => None,
        }
    }

    /// Whether a failover by sentinels can replace the server.
    pub(crate) fn follows_sentinels(&self) -> bool {
        matches!(self, Self::Primary(_))
    }

    /// Whether another server is known to have replaced this one.
    pub(crate) fn is_left(&self, at: &Address) -> bool {
        match self {
            Self::Server(_) => false,
            Self::Primary(sentinels) => sentinels.is_left(at),
            Self::Member(_) => self.has_ended(),
        }
    }

    /// Completes when another server is known to have replaced this one.
    pub(crate) async fn left(&self, at: &Address) {
        match self {
            Self::Server(_) => pending().await,
            Self::Primary(sentinels) => sentinels.left(at).await,
            // The sender never sends a value, so a change is its end.
            Self::Member(member) => drop(member.serves.clone().changed().await),
        }
    }

    /// Completes when a new attempt to connect should not wait any longer.
    pub(crate) async fn changed(&self) {
        match self {
            Self::Server(_) => pending().await,
            Self::Primary(sentinels) => sentinels.changed().await,
            Self::Member(member) => drop(member.serves.clone().changed().await),
        }
    }

    /// Whether this endpoint is gone and will never have a server again.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self, Self::Member(member) if member.serves.has_changed().is_err())
    }

    /// Whether to accept a notification about a key in this slot. A Cluster delivers each notification through every
    /// node; only the copy from the node that serves the slot counts.
    pub(crate) fn takes_pushes_of(&self, slot: u16) -> bool {
        match self {
            Self::Member(member) => {
                member.nodes.upgrade().is_none_or(|nodes| nodes.serves(member.server.address(), slot))
            }
            _ => true,
        }
    }
}

impl Member {
    /// Queries the slot map after a failure, because the node may have been replaced.
    async fn or_look<T>(&self, reached: Result<T>) -> Result<T> {
        if reached.is_err()
            && let Some(nodes) = self.nodes.upgrade()
        {
            nodes.look().await;
        }
        reached
    }
}

async fn link(server: &Server, part: Part) -> Result<Linked> {
    let conn = server.connect().await?;
    let checked = check(&conn, part).await?;
    Ok(Linked { conn, checked, at: server.address().clone() })
}
