//! Connects to one of several hosts. The client library's own loop gets stuck at a host that accepts the connection
//! and then does not respond.

use std::time::Duration;

use deadpool_postgres::Connect;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, pending};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{Client, Config, Connection, Error, Socket};

/// Connects to the first suitable host, with at most `at_most` per host. Returns `None` if every host that did not
/// refuse timed out.
pub(crate) async fn connect<T>(
    hosts: &[Config],
    tls: &T,
    at_most: Duration,
) -> Option<Result<(Client, Connection<Socket, T::Stream>), Error>>
where
    T: MakeTlsConnect<Socket> + Clone,
{
    let mut refused = None;
    for host in hosts {
        match timeout(at_most, host.connect(tls.clone())).await {
            Ok(Ok(connected)) => return Some(Ok(connected)),
            Ok(Err(error)) => refused = Some(Err(error)),
            Err(_silent) => {}
        }
    }
    refused
}

/// Connects the pool's connections.
pub(super) struct EachHost<T> {
    pub(super) hosts: Vec<Config>,
    pub(super) tls: T,
    /// Time limit per host.
    pub(super) at_most: Duration,
}

impl<T> Connect for EachHost<T>
where
    T: MakeTlsConnect<Socket> + Clone + Sync + Send + 'static,
    T::Stream: Sync + Send,
    T::TlsConnect: Sync + Send,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    fn connect(&self, _: &Config) -> BoxFuture<'_, Result<(Client, JoinHandle<()>), Error>> {
        async move {
            let Some(connected) = connect(&self.hosts, &self.tls, self.at_most).await else {
                // The pool's own timeout reports this.
                return pending().await;
            };
            let (client, connection) = connected?;
            let driver = tokio::spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "a connection to Postgres ended");
                }
            });
            Ok((client, driver))
        }
        .boxed()
    }
}
