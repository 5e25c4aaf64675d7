//! How a connection finds its server, and how it is told that the server is another one now.

use std::future::pending;
use std::sync::{Arc, Weak};

use rushgate_core::{Error, Result};
use tokio::sync::{Mutex, watch};

use crate::check::{Checked, Part, check};
use crate::cluster::Cluster;
use crate::conn::{Address, Commands, Pushes, Server};
use crate::scripts::Script;
use crate::sentinel::Sentinels;

/// The way to the server of one lane.
#[derive(Clone)]
pub(crate) enum Way {
    /// Always the same one.
    Server(Server),
    /// Whichever the sentinels call the primary.
    Primary(Arc<Sentinels>),
    /// One node of a Cluster, as long as it serves slots.
    Member(Member),
}

#[derive(Clone)]
pub(crate) struct Member {
    pub(crate) server: Server,
    pub(crate) cluster: Weak<Cluster>,
    /// Ends when the node serves nothing any more.
    pub(crate) serves: watch::Receiver<()>,
}

/// A connection to a server that will do.
pub(crate) struct Linked {
    pub(crate) conn: Commands,
    pub(crate) checked: Checked,
    pub(crate) at: Address,
    /// The scripts that the server has, as far as is known. Locked while some are loaded.
    pub(crate) known: Mutex<[bool; Script::ALL.len()]>,
}

impl Way {
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
                Err(Error::unavailable("another node of the Cluster has taken the server's place"))
            }
            Self::Member(member) => member.or_look(link(&member.server, Part::Member).await).await,
        }
    }

    /// Whether sentinels say where the server is.
    pub(crate) async fn is_told(&self) -> bool {
        match self {
            Self::Primary(sentinels) => sentinels.find().await.is_ok(),
            Self::Server(_) | Self::Member(_) => false,
        }
    }

    /// A connection on which the pushes of one channel arrive.
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

    /// The Cluster to which the server belongs, and where the server is.
    pub(crate) fn cluster(&self) -> Option<(Arc<Cluster>, &Address)> {
        match self {
            Self::Member(member) => {
                member.cluster.upgrade().map(|cluster| (cluster, member.server.address()))
            }
            _ => None,
        }
    }

    /// Whether sentinels may name another server.
    pub(crate) fn follows_sentinels(&self) -> bool {
        matches!(self, Self::Primary(_))
    }

    /// Whether another server is known to have taken that one's place.
    pub(crate) fn is_left(&self, at: &Address) -> bool {
        match self {
            Self::Server(_) => false,
            Self::Primary(sentinels) => sentinels.is_left(at),
            Self::Member(_) => self.has_ended(),
        }
    }

    /// Ends when another server is known to have taken that one's place.
    pub(crate) async fn left(&self, at: &Address) {
        match self {
            Self::Server(_) => pending().await,
            Self::Primary(sentinels) => sentinels.left(at).await,
            // Nothing is ever said there: it can only end.
            Self::Member(member) => drop(member.serves.clone().changed().await),
        }
    }

    /// Ends when there is a reason not to wait any longer for the next attempt to connect.
    pub(crate) async fn news(&self) {
        match self {
            Self::Server(_) => pending().await,
            Self::Primary(sentinels) => sentinels.news().await,
            Self::Member(member) => drop(member.serves.clone().changed().await),
        }
    }

    /// Whether nothing will be found on this way any more.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self, Self::Member(member) if member.serves.has_changed().is_err())
    }

    /// Whether a push about something in that slot is to be taken from this way. In a Cluster each push arrives from
    /// every node; it is taken from the one that is asked about the thing.
    pub(crate) fn takes_pushes_of(&self, slot: u16) -> bool {
        match self {
            Self::Member(member) => {
                member.cluster.upgrade().is_none_or(|cluster| cluster.serves(member.server.address(), slot))
            }
            _ => true,
        }
    }
}

impl Member {
    /// A node that cannot be reached may have been replaced.
    async fn or_look<T>(&self, reached: Result<T>) -> Result<T> {
        if reached.is_err()
            && let Some(cluster) = self.cluster.upgrade()
        {
            cluster.look().await;
        }
        reached
    }
}

async fn link(server: &Server, part: Part) -> Result<Linked> {
    let conn = server.connect().await?;
    let checked = check(&conn, part).await?;
    Ok(Linked { conn, checked, at: server.address().clone(), known: Mutex::new([false; Script::ALL.len()]) })
}
