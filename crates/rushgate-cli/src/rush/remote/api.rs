//! The HTTP client of the load simulation.

use std::time::Duration;

use anyhow::Result;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, RETRY_AFTER, USER_AGENT};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rushgate_http::Address;
use serde::Deserialize;
use serde_json::Value;

use crate::exit::{Exit, Fault, chain};

/// Maximum size of an answer. A longer one is not from a Rushgate server.
const ANSWER_MAX: usize = 64 << 20;
/// Time limit for an answer, in addition to the requested wait. Generous, because the server's store may be
/// unreachable for a while.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// Connections to one server. Each value has a pool of its own.
pub(super) struct Api {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    connector: HttpsConnector<HttpConnector>,
    base: String,
    host: HeaderValue,
    bearer: Option<HeaderValue>,
}

/// Answer of a server.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Value,
    /// When to retry, from `Retry-After`.
    pub(super) retry_after: Option<Duration>,
}

/// One request.
#[derive(Clone)]
pub(super) struct Ask<'a> {
    method: Method,
    path: &'a str,
    body: Option<Bytes>,
    key: Option<&'a str>,
    wait: Option<Duration>,
}

pub(super) fn get(path: &str) -> Ask<'_> {
    Ask { method: Method::GET, path, body: None, key: None, wait: None }
}

pub(super) fn post(path: &str, body: String) -> Ask<'_> {
    Ask { method: Method::POST, path, body: Some(body.into()), key: None, wait: None }
}

impl<'a> Ask<'a> {
    pub(super) fn key(self, key: &'a str) -> Self {
        Self { key: Some(key), ..self }
    }

    pub(super) fn wait(self, wait: Duration) -> Self {
        Self { wait: Some(wait), ..self }
    }
}

impl Api {
    pub(super) fn new(address: Address) -> Result<Self> {
        let Address { base, bearer } = address;
        let mut http = HttpConnector::new();
        // Send small requests at once (no Nagle delay).
        http.set_nodelay(true);
        http.enforce_http(false);
        let https = match base.starts_with("https:") {
            true => HttpsConnectorBuilder::new().with_native_roots()?,
            // Plain HTTP needs no root certificates.
            false => HttpsConnectorBuilder::new().with_tls_config(no_roots()),
        };
        let connector = https.https_or_http().enable_http1().wrap_connector(http);
        let uri: Uri = base.parse()?;
        let host = HeaderValue::try_from(uri.authority().map_or("", |authority| authority.as_str()))?;
        let client = Client::builder(TokioExecutor::new()).build(connector.clone());
        Ok(Self { client, connector, base, host, bearer })
    }

    /// A client of the same server with its own connections.
    pub(super) fn sibling(&self) -> Self {
        let client = Client::builder(TokioExecutor::new()).build(self.connector.clone());
        let Self { connector, base, host, bearer, .. } = self;
        let (connector, base, host, bearer) = (connector.clone(), base.clone(), host.clone(), bearer.clone());
        Self { client, connector, base, host, bearer }
    }

    /// Sends one request.
    ///
    /// # Errors
    /// No readable answer came. The request may have taken effect.
    pub(super) async fn ask(&self, ask: &Ask<'_>) -> Result<Answer, String> {
        let within = ask.wait.unwrap_or_default() + ANSWER_WITHIN;
        let answered = tokio::time::timeout(within, self.exchange(ask)).await;
        answered.unwrap_or_else(|_| Err(format!("no response within {} s", within.as_secs())))
    }

    async fn exchange(&self, ask: &Ask<'_>) -> Result<Answer, String> {
        let request = self.request(ask).map_err(|error| error.to_string())?;
        let answer = self.client.request(request).await.map_err(|error| chain(&error))?;
        let (head, body) = answer.into_parts();
        let seconds = head.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let whole = Limited::new(body, ANSWER_MAX).collect().await;
        let bytes = whole.map_err(|error| format!("the response ended early: {error}"))?.to_bytes();
        let body = serde_json::from_slice(&bytes)
            .map_err(|_| format!("the response with status {} is not JSON", head.status.as_u16()))?;
        Ok(Answer { status: head.status, body, retry_after: seconds.map(Duration::from_secs) })
    }

    fn request(&self, ask: &Ask<'_>) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
        let mut request = Request::builder()
            .method(ask.method.clone())
            .uri(format!("{}{}", self.base, ask.path))
            .header(HOST, self.host.clone())
            .header(USER_AGENT, concat!("rushgate/", env!("CARGO_PKG_VERSION")));
        if let Some(bearer) = &self.bearer {
            request = request.header(AUTHORIZATION, bearer.clone());
        }
        if let Some(key) = ask.key {
            request = request.header("idempotency-key", key);
        }
        if let Some(wait) = ask.wait {
            request = request.header("prefer", format!("wait={}", wait.as_secs()));
        }
        match &ask.body {
            Some(body) => request.header(CONTENT_TYPE, "application/json").body(Full::from(body.clone())),
            None => request.body(Full::default()),
        }
    }

    /// Sends a request that must succeed. Retries for up to `patience` while the server or its store is
    /// unavailable.
    pub(super) async fn must<T: for<'de> Deserialize<'de>>(
        &self,
        ask: Ask<'_>,
        patience: Duration,
    ) -> Result<T> {
        let start = std::time::Instant::now();
        loop {
            let why = match self.ask(&ask).await {
                Ok(answer) if answer.status.is_success() => {
                    return Ok(serde_json::from_value(answer.body)?);
                }
                Ok(answer) if !answer.is_passing() => return Err(answer.fault().into()),
                Ok(answer) => answer.code().to_owned(),
                Err(why) => why,
            };
            if start.elapsed() >= patience {
                let gone = format_args!("{} does not respond: {why}", self.base).to_string();
                return Err(Fault::new(Exit::Unavailable, "unavailable", gone)
                    .hint(match self.base.starts_with("https:") {
                        false => "start a server: rushgate serve --demo",
                        true => {
                            "check that this machine trusts the CA of its certificate, or set SSL_CERT_FILE"
                        }
                    })
                    .into());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

impl Answer {
    /// Code of a problem.
    pub(super) fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or("unknown")
    }

    /// True if a retry may succeed: the server, its store or the sale is unavailable.
    pub(super) fn is_passing(&self) -> bool {
        matches!(self.status.as_u16(), 429 | 502..=504 | 507)
    }

    fn fault(&self) -> Fault {
        let exit = match self.status.as_u16() {
            401 | 403 => Exit::NotAllowed,
            400..=499 => Exit::Refused,
            _ => Exit::Unavailable,
        };
        let detail = self.body["detail"].as_str().or(self.body["title"].as_str()).unwrap_or("no details");
        let fault = Fault::new(
            exit,
            "refused",
            format_args!("the server refused the request: {} ({})", detail, self.code()),
        );
        match exit {
            Exit::NotAllowed => fault.hint("set RUSHGATE_TOKEN to an operator's token"),
            _ => fault,
        }
    }
}

fn no_roots() -> rustls::ClientConfig {
    rustls::ClientConfig::builder()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth()
}
