//! A server on a free port, and a client that speaks HTTP to it.

use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::http::{HeaderMap, Method, Request, Response};
use hyper_util::rt::TokioIo;
use rushgate::{CancellationToken, Rushgate};
use rushgate_server::{NewToken, Role, ServeReport, Server, TokenFile};
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// A running server with a store of its own.
pub struct Stand {
    pub client: Rushgate,
    pub address: SocketAddr,
    pub dir: TempDir,
    shutdown: CancellationToken,
    serving: JoinHandle<ServeReport>,
}

/// An answer.
#[derive(Debug)]
pub struct Said {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Said {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The JSON of an answer with this status.
    pub fn ok(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self.json()
    }

    /// The code of an answer, which must be a well-formed problem.
    pub fn code(&self) -> String {
        assert_eq!(self.header("content-type"), "application/problem+json", "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], self.status, "{problem}");
        let retryable = problem["retryable"].as_bool().unwrap();
        assert_eq!(self.headers.contains_key("retry-after"), retryable, "{problem}");
        problem["code"].as_str().unwrap().to_owned()
    }
}

/// A request to send.
#[derive(Clone)]
pub struct Ask {
    pub method: Method,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Ask {
    pub fn new(method: &str, path: &str) -> Self {
        Self { method: method.parse().unwrap(), path: path.to_owned(), headers: Vec::new(), body: Vec::new() }
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn key(self, key: &str) -> Self {
        self.header("idempotency-key", key)
    }

    pub fn wait(self, seconds: u64) -> Self {
        self.header("prefer", &format!("wait={seconds}"))
    }

    pub fn bearer(self, token: &str) -> Self {
        self.header("authorization", &format!("Bearer {token}"))
    }

    pub fn json(self, body: &Value) -> Self {
        self.raw("application/json", body.to_string().as_bytes())
    }

    pub fn raw(mut self, content_type: &str, body: &[u8]) -> Self {
        self.body = body.to_vec();
        self.header("content-type", content_type)
    }

    pub fn request(&self, address: SocketAddr) -> Request<Full<Bytes>> {
        let mut request = Request::builder().method(&self.method).uri(&self.path);
        if !self.headers.iter().any(|(name, _)| name == "host") {
            request = request.header("host", address.to_string());
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request.body(Full::from(self.body.clone())).unwrap()
    }
}

impl Stand {
    /// A server with an in-memory store and without tokens.
    pub async fn open() -> Self {
        Self::with(|server, _| server).await
    }

    pub async fn with(set_up: impl FnOnce(Server, &TempDir) -> Server) -> Self {
        Self::on("sqlite::memory:", set_up).await
    }

    /// A server on this store, which other servers may share.
    pub async fn on(store: &str, set_up: impl FnOnce(Server, &TempDir) -> Server) -> Self {
        let client = Rushgate::connect(store).await.unwrap();
        let dir = TempDir::new().unwrap();
        let server = set_up(Server::new(client.clone()), &dir);
        let bound = server.bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let (address, shutdown) = (bound.address(), CancellationToken::new());
        let serving = tokio::spawn(bound.run(shutdown.clone()));
        Self { client, address, dir, shutdown, serving }
    }

    /// A server with a token file.
    pub async fn with_tokens() -> (Self, TokenFile) {
        let mut file = None;
        let stand = Self::with(|server, dir| {
            let tokens = TokenFile::at(dir.path().join("tokens.json"));
            file = Some(tokens.clone());
            for role in Role::ALL {
                tokens.create(new_token(role, &[])).unwrap();
            }
            Server { tokens: Some(tokens), ..server }
        })
        .await;
        (stand, file.unwrap())
    }

    pub async fn connect(&self) -> SendRequest<Full<Bytes>> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender
    }

    /// Sends a request whose answer may be an endless stream.
    pub async fn send(&self, ask: Ask) -> Response<Incoming> {
        let mut sender = self.connect().await;
        sender.send_request(ask.request(self.address)).await.unwrap()
    }

    pub async fn ask(&self, ask: Ask) -> Said {
        let (head, body) = self.send(ask).await.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Said { status: head.status.as_u16(), headers: head.headers, body }
    }

    /// Sends a request, and disconnects as soon as `until` is true.
    pub async fn ask_and_leave(&self, ask: Ask, until: impl AsyncFnMut() -> bool) {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(connection);
        let asking = sender.send_request(ask.request(self.address));
        tokio::select! {
            answer = asking => panic!("answered before it could leave: {answer:?}"),
            () = eventually(until) => {}
        }
        connection.abort();
    }

    pub async fn get(&self, path: &str) -> Said {
        self.ask(Ask::new("GET", path)).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Said {
        self.ask(Ask::new("POST", path).json(&body)).await
    }

    pub fn shut_down(&self) {
        self.shutdown.cancel();
    }

    pub async fn end(self) -> ServeReport {
        self.shutdown.cancel();
        let report = self.serving.await.unwrap();
        self.client.close().await.unwrap();
        report
    }
}

pub fn new_token(role: Role, scopes: &[&str]) -> NewToken {
    let scopes = scopes.iter().map(|scope| scope.parse().unwrap()).collect();
    NewToken { label: role.word().to_owned(), role, scopes, buyer: None }
}

/// Polls until `is_so` returns true.
pub async fn eventually(mut is_so: impl AsyncFnMut() -> bool) {
    let asking = async {
        while !is_so().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), asking).await.expect("timed out");
}
