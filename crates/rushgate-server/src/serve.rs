//! The listener: connections with their limits, and an orderly end.

use std::convert::Infallible;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rushgate::{CancellationToken, Error, Ledger, Rate, Result, Rushgate};
#[cfg(target_os = "linux")]
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_util::task::TaskTracker;

use crate::access::{Door, TokenDoor, TokenFile};
use crate::audit_log::AuditLog;
use crate::check::{BuyerCheck, CheckRules, Checker};
use crate::clerks;
use crate::cors::Origin;
use crate::limits::{Limits, Peer};
use crate::metrics::Metrics;
use crate::router::Router;
use crate::shop::Shop;
use crate::tls::Certificate;

/// Beyond these a connection is ended by a bare answer; well within them, with a problem.
const HEADERS_MAX: usize = 200;
const BUFFER_MAX: usize = 64 << 10;
/// How many connections may wait to be accepted, as far as the system lets them (Linux: `net.core.somaxconn`, 4,096). Beyond
/// it a crowd that comes within a moment is not let in, and comes back a second later.
const BACKLOG: u32 = 65_535;
/// Whoever does not read has so many times as long as a request may take to arrive.
const READ_TIMES: u32 = 3;
/// How long to wait when no file descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Rushgate over HTTP: say what it serves, then [`bind`](Self::bind) it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> rushgate::Result<()> {
/// use rushgate::{CancellationToken, Rushgate};
/// use rushgate_server::Server;
///
/// let gate = Rushgate::connect("sqlite::memory:").await?;
/// let bound = Server::new(gate.clone()).bind("127.0.0.1:0".parse().expect("an address")).await?;
/// println!("http://{}", bound.address());
///
/// let shutdown = CancellationToken::new();
/// let serving = tokio::spawn(bound.run(shutdown.clone()));
/// shutdown.cancel();
/// assert!(serving.await.expect("no panic").is_orderly);
/// gate.close().await
/// # }
/// ```
#[must_use = "nothing is served before `bind`"]
pub struct Server {
    gate: Rushgate,
    ledger: Option<Arc<dyn Ledger>>,
    tokens: Option<TokenFile>,
    tls: Option<(PathBuf, PathBuf)>,
    audit_log: Option<PathBuf>,
    insecure: bool,
    hosts: Vec<String>,
    origins: Vec<Origin>,
    of_buyer: Option<Rate>,
    of_address: Option<Rate>,
    proxies: Vec<IpAddr>,
    check: Option<(Arc<dyn BuyerCheck>, CheckRules)>,
    check_page: Option<String>,
    longest_wait: Duration,
    arrival: Duration,
    grace: Duration,
    connections: usize,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("gate", &self.gate).finish_non_exhaustive()
    }
}

impl Server {
    /// Serves what that client reaches, on loopback and to everybody there.
    pub fn new(gate: Rushgate) -> Self {
        Self {
            gate,
            ledger: None,
            tokens: None,
            tls: None,
            audit_log: None,
            insecure: false,
            hosts: Vec::new(),
            origins: Vec::new(),
            of_buyer: None,
            of_address: None,
            proxies: Vec::new(),
            check: None,
            check_page: None,
            longest_wait: Duration::from_secs(60),
            arrival: Duration::from_secs(10),
            grace: Duration::from_secs(10),
            connections: 50_000,
        }
    }

    /// Carries the orders of every sale to that ledger, and audits against it.
    pub fn ledger(mut self, ledger: Arc<dyn Ledger>) -> Self {
        self.ledger = Some(ledger);
        self
    }

    /// Lets in only whoever bears a token of that file, by its role and within its scopes.
    pub fn tokens(mut self, file: TokenFile) -> Self {
        self.tokens = Some(file);
        self
    }

    /// Speaks TLS 1.2 and 1.3 and nothing else, with the certificate of one PEM file, its own first and then what leads to
    /// its authority, and the key of another. Whoever connects a second after the files were replaced gets the new one.
    pub fn tls(mut self, chain: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.tls = Some((chain.into(), key.into()));
        self
    }

    /// Writes down what operators do: at the end of that file, a line of JSON for each request that wants an operator
    /// and may change something, with who sent it, from where, and what was answered.
    pub fn audit_log(mut self, path: impl Into<PathBuf>) -> Self {
        self.audit_log = Some(path.into());
        self
    }

    /// Serves beyond loopback without tokens: everybody who reaches the address is an operator.
    pub fn insecure(mut self, insecure: bool) -> Self {
        self.insecure = insecure;
        self
    }

    /// Answers to that name too, without tokens. Loopback's names and addresses are always answered to; others only if
    /// they are named, so that no web page can lead a browser here under a name of its own.
    pub fn host(mut self, name: impl Into<String>) -> Self {
        self.hosts.push(name.into());
        self
    }

    /// Lets pages of that origin ask, too, and read the answers (CORS); without it a browser lets none but the server's own.
    /// Credentials that a browser adds by itself, such as cookies, are never allowed.
    pub fn origin(mut self, origin: Origin) -> Self {
        self.origins.push(origin);
        self
    }

    /// How often one buyer may ask this process, if the token says who that is: as often at once as the rate has, and then
    /// evenly. There is no limit unless it is said.
    pub fn limit_buyer(mut self, rate: Rate) -> Self {
        self.of_buyer = Some(rate);
        self
    }

    /// The same for buyers who ask from one address, or from one IPv6 network of 64 bits. Workers and operators are not
    /// counted: a shop's program asks for all its buyers.
    pub fn limit_address(mut self, rate: Rate) -> Self {
        self.of_address = Some(rate);
        self
    }

    /// Takes that proxy's word, in `X-Forwarded-For`, for where a request comes from.
    pub fn proxy(mut self, address: IpAddr) -> Self {
        self.proxies.push(address.to_canonical());
        self
    }

    /// Has somebody asked about each buyer who wants to join a waiting room, or to reserve where there is none, once what is
    /// known without the store is answered. Workers and operators are not asked about: a shop's program sells to all its
    /// buyers.
    pub fn check(mut self, check: Arc<dyn BuyerCheck>, rules: CheckRules) -> Self {
        self.check = Some((check, rules));
        self
    }

    /// Where a buyer's page gets the proof that the [check](Self::check) wants; told with its refusals, as `prove_at`.
    pub fn check_page(mut self, url: impl Into<String>) -> Self {
        self.check_page = Some(url.into());
        self
    }

    /// The longest that `Prefer: wait` is given: 60 s unless said otherwise.
    pub fn longest_wait(mut self, longest: Duration) -> Self {
        self.longest_wait = longest;
        self
    }

    /// How long the headers of a request may take to arrive, and then its body: 10 s each unless said otherwise. Whoever
    /// is slower loses the connection, so that nobody holds many of them by sending little. On Linux so does whoever takes
    /// nothing of an answer for three times as long.
    pub fn arrival(mut self, arrival: Duration) -> Self {
        self.arrival = arrival;
        self
    }

    /// How long requests may go on after the shutdown: 10 s unless said otherwise.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// How many connections there are at a time: 50,000 unless said otherwise. Others wait to be accepted.
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// Listens there; port 0 is any that is free.
    ///
    /// # Errors
    /// [`is_misconfigured`](Error::is_misconfigured) if the address cannot be listened at, if the audit log or the file of
    /// tokens or those of the certificate cannot be used, and for an address beyond loopback without tokens, unless
    /// that is [asked for](Self::insecure); [`is_invalid`](Error::is_invalid) for a rate outside its limits.
    pub async fn bind(self, address: SocketAddr) -> Result<Bound> {
        if !address.ip().is_loopback() && self.tokens.is_none() && !self.insecure {
            return Err(Error::misconfigured(format_args!(
                "{address} can be reached from other machines, and there are no tokens"
            ))
            .hint(
                "create tokens, or serve without them by --insecure if you trust whoever reaches the address",
            ));
        }
        self.of_buyer.iter().chain(&self.of_address).try_for_each(Rate::check)?;
        if self.tokens.is_none() && (self.of_buyer.is_some() || self.of_address.is_some()) {
            return Err(Error::misconfigured(
                "buyers are to be counted, and there are no tokens: everybody is an operator",
            ));
        }
        if self.tokens.is_none() && self.check.is_some() {
            return Err(Error::misconfigured(
                "buyers are to be checked, and there are no tokens: everybody is an operator",
            ));
        }
        let door = match self.tokens {
            Some(file) => Door::Tokens(TokenDoor::new(file)?),
            None => Door::Open,
        };
        let audit_log = self.audit_log.as_deref().map(AuditLog::open).transpose()?.map(Arc::new);
        let tls = self.tls.map(|(chain, key)| Certificate::open(chain, key)).transpose()?;
        let amiss = |error: std::io::Error| {
            let why = match error.kind() {
                std::io::ErrorKind::AddrInUse => "address already in use".to_owned(),
                _ => error.to_string(),
            };
            Error::misconfigured(format_args!("Cannot bind {address}: {why}."))
                .hint("Pass --listen to use another address.")
                .caused_by(error)
        };
        let listener = listen(address).map_err(amiss)?;
        let address = listener.local_addr().map_err(amiss)?;
        let mut hosts = self.hosts;
        hosts.push(address.ip().to_string());
        let shop = Arc::new(Shop {
            gate: self.gate,
            ledger: self.ledger,
            door,
            is_tls: tls.is_some(),
            hosts,
            limits: Limits::new(self.of_buyer, self.of_address, self.proxies),
            check: self.check.map(|(check, rules)| Checker::new(check, rules, self.check_page)),
            audit_log,
            origins: self.origins.into(),
            keys: Arc::default(),
            metrics: Metrics::default(),
            tails: Arc::default(),
            live: Arc::default(),
            longest_wait: self.longest_wait,
            arrival: self.arrival,
            closing: CancellationToken::new(),
            more_to_look_after: Notify::new(),
        });
        Ok(Bound { listener, address, shop, tls, grace: self.grace, connections: self.connections })
    }
}

/// A server that listens, and answers once it [runs](Self::run).
#[derive(Debug)]
#[must_use = "nothing is answered before `run`"]
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
    shop: Arc<Shop>,
    tls: Option<Certificate>,
    grace: Duration,
    connections: usize,
}

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServeReport {
    /// Connections that it accepted.
    pub accepted: u64,
    /// Whether every request was answered within the grace.
    pub is_orderly: bool,
}

impl Bound {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `shutdown` is cancelled. Then it accepts nothing more, ends long waits, lets requests end within
    /// the grace, and stops its order workers, which finish the batch at hand.
    pub async fn run(self, shutdown: CancellationToken) -> ServeReport {
        let Self { listener, shop, tls, grace, connections, .. } = self;
        let clerks_end = CancellationToken::new();
        let clerks = tokio::spawn(clerks::run(Arc::clone(&shop), clerks_end.clone()));
        let tracker = TaskTracker::new();
        let accepted = accept(&listener, tls.as_ref(), &shop, connections, &tracker, &shutdown).await;
        drop(listener);
        shop.closing.cancel();
        tracker.close();
        let is_orderly = tokio::time::timeout(grace, tracker.wait()).await.is_ok();
        clerks_end.cancel();
        let stopped = clerks.await;
        if let Err(error) = &stopped {
            tracing::error!(%error, "the order workers ended in a panic");
        }
        ServeReport { accepted, is_orderly: is_orderly && stopped.is_ok() }
    }
}

/// Listens, with a long line of connections that are still to be accepted.
fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Whoever starts again need not wait until the connections of before are forgotten.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

async fn accept(
    listener: &TcpListener,
    tls: Option<&Certificate>,
    shop: &Arc<Shop>,
    connections: usize,
    tracker: &TaskTracker,
    shutdown: &CancellationToken,
) -> u64 {
    let (router, room) = (Arc::new(Router::new(Arc::clone(shop))), Arc::new(Semaphore::new(connections)));
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
                let (router, closing, arrival) = (Arc::clone(&router), shop.closing.clone(), shop.arrival);
                let (counted, acceptor) = (shop.metrics.connection(), tls.map(Certificate::acceptor));
                tracker.spawn(async move {
                    // Small answers are not held back to be sent together.
                    let _ = stream.set_nodelay(true);
                    must_read_within(&stream, READ_TIMES * arrival);
                    let peer = Peer(peer.ip());
                    match acceptor {
                        // Boxed: what it needs to agree on keys is not for those who do not.
                        Some(acceptor) => {
                            Box::pin(greet(acceptor, stream, peer, router, closing, arrival)).await
                        }
                        None => converse(stream, peer, router, closing, arrival).await,
                    }
                    drop((place, counted));
                });
            }
            Err(error) => {
                // Out of file descriptors, or the peer has left: the next one may fare better.
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Ends the connection of a client that takes nothing of what was sent to it for so long, or is not there any more: otherwise
/// it could have many answers kept for it by reading none.
#[cfg(target_os = "linux")]
fn must_read_within(stream: &TcpStream, time: Duration) {
    let _ = SockRef::from(stream).set_tcp_user_timeout(Some(time));
}

#[cfg(not(target_os = "linux"))]
fn must_read_within(_: &TcpStream, _: Duration) {}

/// Agrees on keys with whoever connects, who has as long for it as for a request's headers.
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
        Ok(Err(error)) => tracing::debug!(%error, "a connection came to no TLS"),
        Err(_) => tracing::debug!("a connection came to no TLS in time"),
    }
}

/// One connection. A peer that goes away drops the request that was under way, which leaves nothing behind.
async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send,
    peer: Peer,
    router: Arc<Router>,
    closing: CancellationToken,
    arrival: Duration,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let router = Arc::clone(&router);
        // Boxed, so that a connection without a request does not keep room for one, and it is not moved about.
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
        tracing::debug!(%error, "a connection broke off");
    }
}
