//! How a connection finds its server, and how it is told that the server is another one now.

use std::future::pending;
use std::sync::Arc;

use rushgate_core::Result;

use crate::check::{Checked, Part, check};
use crate::conn::{Address, Commands, Pushes, Server};
use crate::sentinel::Sentinels;

/// The way to the server of one lane.
#[derive(Clone)]
pub(crate) enum Way {
    /// Always the same one.
    Server(Server),
    /// Whichever the sentinels call the primary.
    Primary(Arc<Sentinels>),
}

/// A connection to a server that will do.
pub(crate) struct Linked {
    pub(crate) conn: Commands,
    pub(crate) checked: Checked,
    pub(crate) at: Address,
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
        }
    }

    /// A connection on which the pushes of one channel arrive.
    pub(crate) async fn listen(&self, channel: &str) -> Result<(Pushes, Address)> {
        let server = match self {
            Self::Server(server) => server.clone(),
            Self::Primary(sentinels) => sentinels.find().await?,
        };
        Ok((server.listen(channel).await?, server.address().clone()))
    }

    /// Whether another server may take this one's place.
    pub(crate) fn moves(&self) -> bool {
        matches!(self, Self::Primary(_))
    }

    /// Whether another server is known to have taken that one's place.
    pub(crate) fn is_left(&self, at: &Address) -> bool {
        match self {
            Self::Server(_) => false,
            Self::Primary(sentinels) => sentinels.is_left(at),
        }
    }

    /// Ends when another server is known to have taken that one's place.
    pub(crate) async fn left(&self, at: &Address) {
        match self {
            Self::Server(_) => pending().await,
            Self::Primary(sentinels) => sentinels.left(at).await,
        }
    }
}

async fn link(server: &Server, part: Part) -> Result<Linked> {
    let conn = server.connect().await?;
    let checked = check(&conn, part).await?;
    Ok(Linked { conn, checked, at: server.address().clone() })
}
