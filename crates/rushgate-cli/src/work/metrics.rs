//! `rushgate work --metrics`: serves the worker's metrics to Prometheus.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rushgate::worker::WorkerMetrics;
use rushgate::worker::prometheus;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::exit::Fault;

/// Prometheus text format.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Maximum number of connections. Further ones wait to be accepted.
const CONNECTIONS_MAX: usize = 16;
/// Time limit for a request, and for an idle connection.
const ARRIVAL: Duration = Duration::from_secs(10);
/// Maximum lifetime of a connection, so that idle ones do not stay forever. Scrapers reconnect.
const LASTING: Duration = Duration::from_secs(300);
/// Pause after a failed accept, usually for lack of file descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Metrics endpoint, bound to its address.
pub(super) struct Page {
    listener: TcpListener,
    metrics: WorkerMetrics,
}

impl Page {
    /// Listens on the address. [`serve`](Self::serve) answers the requests.
    pub(super) async fn bind(address: SocketAddr, metrics: WorkerMetrics) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address).await.map_err(|error| {
            Fault::usage(format_args!("cannot serve metrics at {address}: {error}"))
                .hint("pass another port, or 0 for any free port")
        })?;
        Ok(Self { listener, metrics })
    }

    /// URL of the endpoint.
    pub(super) fn url(&self) -> anyhow::Result<String> {
        Ok(format!("http://{}/metrics", self.listener.local_addr()?))
    }

    /// Answers requests until it is dropped, together with its connections.
    pub(super) async fn serve(self) -> Infallible {
        let mut connections = JoinSet::new();
        loop {
            while connections.len() >= CONNECTIONS_MAX {
                connections.join_next().await;
            }
            match self.listener.accept().await {
                Ok((stream, _)) => drop(connections.spawn(talk(stream, self.metrics.clone()))),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a metrics connection");
                    sleep(ACCEPT_AGAIN).await;
                }
            }
            while connections.try_join_next().is_some() {}
        }
    }
}

async fn talk(stream: TcpStream, metrics: WorkerMetrics) {
    let service = service_fn(move |request| {
        let answer = answer(&request, &metrics);
        async move { Ok::<_, Infallible>(answer) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(ARRIVAL)
        .serve_connection(TokioIo::new(stream), service);
    // A closed connection is not an error.
    let _ = timeout(LASTING, connection).await;
}

fn answer(request: &Request<Incoming>, metrics: &WorkerMetrics) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::default());
    let headers = answer.headers_mut();
    match (request.uri().path(), request.method()) {
        ("/metrics", &Method::GET | &Method::HEAD) => {
            headers.insert(CONTENT_TYPE, TEXT.parse().expect("it is a header's value"));
            headers.insert(CACHE_CONTROL, "no-store".parse().expect("it is a header's value"));
            *answer.body_mut() = Full::from(prometheus([&metrics.snapshot()]));
        }
        ("/metrics", _) => {
            headers.insert(ALLOW, "GET, HEAD".parse().expect("it is a header's value"));
            *answer.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        }
        _ => *answer.status_mut() = StatusCode::NOT_FOUND,
    }
    answer
}
