//! The listener: connections, their limits and an orderly shutdown.

use std::convert::Infallible;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rushgate::queue::Rate;
use rushgate::{CancellationToken, Error, Ledger, Result, Rushgate};
#[cfg(target_os = "linux")]
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_util::task::TaskTracker;

use crate::access::{Authenticator, TokenAuthenticator, TokenFile};
use crate::app::App;
use crate::audit_log::AuditLog;
use crate::check::{BuyerCheck, CheckRules, Checker};
use crate::cors::Origin;
use crate::limits::{Limits, Peer};
use crate::live::Live;
use crate::metrics::Metrics;
use crate::openapi::describe;
use crate::router::Router;
use crate::services;
use crate::table::routes;
use crate::tls::Certificate;

/// Hard limits end the connection with a bare answer. Requests well within them get a problem document.
const HEADERS_MAX: usize = 200;
const BUFFER_MAX: usize = 64 << 10;
/// Backlog of connections waiting to be accepted. The system may cap it (Linux: `net.core.somaxconn`, 4,096). Clients
/// beyond it retry after a second.
const BACKLOG: u32 = 65_535;
/// A client that reads nothing is disconnected after this many request timeouts.
const READ_TIMES: u32 = 3;
/// Pause before the next accept when no file descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The Rushgate HTTP server: set its fields, then [`bind`](Self::bind) it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> rushgate::Result<()> {
/// use std::time::Duration;
///
/// use rushgate::{CancellationToken, Rushgate};
/// use rushgate_server::Server;
///
/// let client = Rushgate::connect("sqlite::memory:").await?;
/// let server = Server { grace: Duration::from_secs(30), ..Server::new(client.clone()) };
/// let bound = server.bind("127.0.0.1:0".parse().expect("an address")).await?;
/// println!("http://{}", bound.address());
///
/// let shutdown = CancellationToken::new();
/// let serving = tokio::spawn(bound.run(shutdown.clone()));
/// shutdown.cancel();
/// assert!(serving.await.expect("no panic").is_orderly);
/// client.close().await
/// # }
/// ```
#[must_use = "nothing is served before `bind`"]
pub struct Server {
    /// The client whose store is served.
    pub client: Rushgate,
    /// Writes the orders of each sale with a ledger to this one, and audits against it.
    pub ledger: Option<Arc<dyn Ledger>>,
    /// Requires a token from this file for every request, and enforces its role and scopes.
    pub tokens: Option<TokenFile>,
    /// Serves TLS 1.2 and 1.3 only. The first PEM file has the server's certificate and then its chain; the second one
    /// has its key. Replaced files apply to new connections within a second.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Appends an audit log of admin actions to this file: one line of JSON per request that requires an operator and
    /// may change something, with the caller, the address and the answer.
    pub audit_log: Option<PathBuf>,
    /// Allows addresses other than loopback without tokens. Every client that reaches the address is an operator.
    pub insecure: bool,
    /// Host names for which requests are accepted when there are no tokens. Names and addresses of loopback are always
    /// accepted; others are refused, so that a web page cannot reach the server under a name of its own (DNS
    /// rebinding).
    pub hosts: Vec<String>,
    /// Allows pages from these origins to send requests and read the answers (CORS). Without them browsers allow only
    /// the server's own pages. Browser credentials such as cookies are never allowed.
    pub origins: Vec<Origin>,
    /// Rate limit for each buyer in this process, if the token names the buyer. A full period's quota may come as a
    /// burst. Default: no limit.
    pub limit_buyer: Option<Rate>,
    /// Rate limit for each client address, or each IPv6 network of 64 bits. It applies to buyers only: a shop's
    /// backend sends requests for many buyers. Default: no limit.
    pub limit_address: Option<Rate>,
    /// Trusts `X-Forwarded-For` from these proxies for the client address.
    pub proxies: Vec<IpAddr>,
    /// Runs a bot check on each buyer who wants to join a waiting room, or to reserve where there is none. Requests
    /// that can be answered without the store skip it. Workers and operators are not checked: a shop's backend sells
    /// to many buyers.
    pub check: Option<(Arc<dyn BuyerCheck>, CheckRules)>,
    /// URL where a buyer's page gets the proof for the [check](Self::check). Refusals carry it as `prove_at`.
    pub check_page: Option<String>,
    /// Maximum wait that `Prefer: wait` can ask for. Default: 60 s.
    pub longest_wait: Duration,
    /// Time limit for the headers of a request, and again for its body. Default: 10 s. Slower clients are
    /// disconnected, so that nobody can hold many connections by sending little. On Linux a client that reads nothing
    /// of its answer for three times as long is disconnected too.
    pub arrival: Duration,
    /// Grace period for running requests after shutdown begins. Default: 10 s.
    pub grace: Duration,
    /// Maximum number of connections. Default: 50,000. Further ones wait to be accepted.
    pub connections: usize,
    /// Whether this server runs the background services: it ends expired holds, delivers orders and fires schedules.
    /// Turn them off where other processes of the same store run them. Default: true.
    pub services: bool,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("client", &self.client).finish_non_exhaustive()
    }
}

impl Server {
    /// Creates a server for this client, on loopback addresses and without tokens.
    pub fn new(client: Rushgate) -> Self {
        Self {
            client,
            ledger: None,
            tokens: None,
            tls: None,
            audit_log: None,
            insecure: false,
            hosts: Vec::new(),
            origins: Vec::new(),
            limit_buyer: None,
            limit_address: None,
            proxies: Vec::new(),
            check: None,
            check_page: None,
            longest_wait: Duration::from_secs(60),
            arrival: Duration::from_secs(10),
            grace: Duration::from_secs(10),
            connections: 50_000,
            services: true,
        }
    }

    /// Listens on this address. Port 0 selects a free port.
    ///
    /// # Errors
    /// [`is_misconfigured`](Error::is_misconfigured) if the address cannot be bound, if the audit log, the token file
    /// or a TLS file cannot be used, and for an address other than loopback without tokens, unless that is
    /// [allowed](Self::insecure); [`is_invalid`](Error::is_invalid) for a rate out of range.
    pub async fn bind(self, address: SocketAddr) -> Result<Bound> {
        if !address.ip().is_loopback() && self.tokens.is_none() && !self.insecure {
            return Err(Error::misconfigured(format_args!(
                "Cannot bind {address} without tokens: other machines can reach it."
            ))
            .hint(
                "Create tokens, or pass --insecure if every client that can reach the address is trusted.",
            ));
        }
        self.limit_buyer.iter().chain(&self.limit_address).try_for_each(Rate::check)?;
        if self.tokens.is_none() && (self.limit_buyer.is_some() || self.limit_address.is_some()) {
            return Err(Error::misconfigured(
                "rate limits per buyer or address require tokens: without tokens every client is an operator",
            ));
        }
        if self.tokens.is_none() && self.check.is_some() {
            return Err(Error::misconfigured(
                "the bot check requires tokens: without tokens every client is an operator",
            ));
        }
        let authenticator = match self.tokens {
            Some(file) => Authenticator::Tokens(TokenAuthenticator::new(file)?),
            None => Authenticator::Open,
        };
        let audit_log = self.audit_log.as_deref().map(AuditLog::open).transpose()?.map(Arc::new);
        let tls = self.tls.map(|(chain, key)| Certificate::open(chain, key)).transpose()?;
        let unusable = |error: std::io::Error| {
            let why = match error.kind() {
                std::io::ErrorKind::AddrInUse => "address already in use".to_owned(),
                _ => error.to_string(),
            };
            Error::misconfigured(format_args!("Cannot bind {address}: {why}."))
                .hint("Pass --listen to use another address.")
                .caused_by(error)
        };
        let listener = listen(address).map_err(unusable)?;
        let address = listener.local_addr().map_err(unusable)?;
        let mut hosts = self.hosts;
        hosts.push(address.ip().to_string());
        let (metrics, closing) = (Metrics::default(), CancellationToken::new());
        let live = Live::new(self.client.clone(), metrics.attempts.clone(), closing.clone());
        let app = Arc::new(App {
            client: self.client,
            ledger: self.ledger,
            authenticator,
            is_tls: tls.is_some(),
            hosts,
            limits: Limits::new(self.limit_buyer, self.limit_address, self.proxies),
            check: self.check.map(|(check, rules)| Checker::new(check, rules, self.check_page)),
            audit_log,
            origins: self.origins.into(),
            keys: Arc::default(),
            metrics,
            live,
            // A JSON value always serializes.
            description: LazyLock::new(|| {
                serde_json::to_vec(&describe(&routes())).unwrap_or_default().into()
            }),
            longest_wait: self.longest_wait,
            arrival: self.arrival,
            closing,
            auditing: Arc::new(Semaphore::new(1)),
            more_to_look_after: Notify::new(),
        });
        let (grace, connections, services) = (self.grace, self.connections, self.services);
        Ok(Bound { listener, address, app, tls, grace, connections, services })
    }
}

/// A server that listens. It answers once it [runs](Self::run).
#[derive(Debug)]
#[must_use = "nothing is answered before `run`"]
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
    app: Arc<App>,
    tls: Option<Certificate>,
    grace: Duration,
    connections: usize,
    services: bool,
}

/// Result of a server's run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServeReport {
    /// Number of accepted connections.
    pub accepted: u64,
    /// Whether every request was answered within the grace period.
    pub is_orderly: bool,
}

impl Bound {
    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves requests until `shutdown` is canceled. Then it stops accepting, ends long waits, lets running requests
    /// finish within the grace period, and stops its order workers after their current batch.
    pub async fn run(self, shutdown: CancellationToken) -> ServeReport {
        let Self { listener, app, tls, grace, connections, services, .. } = self;
        let clerks_end = CancellationToken::new();
        let work = services::run(Arc::clone(&app), clerks_end.clone());
        let services = tokio::spawn(async move {
            if services {
                work.await;
            }
        });
        let live = tokio::spawn(Arc::clone(&app.live).run());
        let tracker = TaskTracker::new();
        let accepted = accept(&listener, tls.as_ref(), &app, connections, &tracker, &shutdown).await;
        drop(listener);
        app.closing.cancel();
        tracker.close();
        let is_orderly = tokio::time::timeout(grace, tracker.wait()).await.is_ok();
        clerks_end.cancel();
        let stopped = services.await.and(live.await);
        if let Err(error) = &stopped {
            tracing::error!(%error, "a background service panicked");
        }
        ServeReport { accepted, is_orderly: is_orderly && stopped.is_ok() }
    }
}

/// Listens with a long backlog.
fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A restarted server need not wait until the old connections have timed out.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

async fn accept(
    listener: &TcpListener,
    tls: Option<&Certificate>,
    app: &Arc<App>,
    connections: usize,
    tracker: &TaskTracker,
    shutdown: &CancellationToken,
) -> u64 {
    let (router, room) = (Arc::new(Router::new(Arc::clone(app))), Arc::new(Semaphore::new(connections)));
    let mut accepted = 0;
    loop {
        let next = async {
            let place = Arc::clone(&room).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, stream) = tokio::select! {
            next = next => next,
            () = shutdown.cancelled() => return accepted,
        };
        match stream {
            Ok((stream, peer)) => {
                accepted += 1;
                let (router, closing, arrival) = (Arc::clone(&router), app.closing.clone(), app.arrival);
                let (counted, acceptor) = (app.metrics.connection(), tls.map(Certificate::acceptor));
                tracker.spawn(async move {
                    // Send small answers at once (no Nagle delay).
                    let _ = stream.set_nodelay(true);
                    must_read_within(&stream, READ_TIMES * arrival);
                    let peer = Peer(peer.ip());
                    match acceptor {
                        // Boxed: connections without TLS should not pay for the state of a handshake.
                        Some(acceptor) => {
                            Box::pin(greet(acceptor, stream, peer, router, closing, arrival)).await
                        }
                        None => converse(stream, peer, router, closing, arrival).await,
                    }
                    drop((place, counted));
                });
            }
            Err(error) => {
                // Out of file descriptors, or the peer has left. The next accept may succeed.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Disconnects a client that reads nothing of its answers for this long, or that has vanished. Otherwise unread
/// answers would pile up.
#[cfg(target_os = "linux")]
fn must_read_within(stream: &TcpStream, time: Duration) {
    let _ = SockRef::from(stream).set_tcp_user_timeout(Some(time));
}

#[cfg(not(target_os = "linux"))]
fn must_read_within(_: &TcpStream, _: Duration) {}

/// Runs the TLS handshake, with the same time limit as for the headers of a request.
async fn greet(
    acceptor: TlsAcceptor,
    stream: TcpStream,
    peer: Peer,
    router: Arc<Router>,
    closing: CancellationToken,
    arrival: Duration,
) {
    let greeted = tokio::select! {
        greeted = tokio::time::timeout(arrival, acceptor.accept(stream)) => greeted,
        () = closing.cancelled() => return,
    };
    match greeted {
        Ok(Ok(stream)) => converse(stream, peer, router, closing, arrival).await,
        Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => tracing::debug!("TLS handshake timed out"),
    }
}

/// Serves one connection. If the peer leaves, the running request is dropped, which leaves nothing behind.
async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send,
    peer: Peer,
    router: Arc<Router>,
    closing: CancellationToken,
    arrival: Duration,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let router = Arc::clone(&router);
        // Boxed, so that an idle connection does not reserve memory for a request.
        Box::pin(async move { Ok::<_, Infallible>(router.answer(peer, request).await) })
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(arrival)
        .max_headers(HEADERS_MAX)
        .max_buf_size(BUFFER_MAX)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = closing.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection failed");
    }
}
