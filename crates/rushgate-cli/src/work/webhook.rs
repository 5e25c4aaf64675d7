//! `work --webhook`: sends each task as a POST request.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, RETRY_AFTER, USER_AGENT};
use hyper::{Method, Request, Response, StatusCode, Uri};
use rushgate::Job;
use rushgate::store::hex;
use rushgate::worker::Outcome;
use sha2::{Digest, Sha256};

use super::line::Line;
use crate::args::work::WorkArgs;
use crate::exit::chain;
use crate::http::{self, Client};
use crate::output::Output;
use crate::signed::{self, Secret};
use crate::spans;

/// Environment variable with the secret.
const SECRET: &str = "RUSHGATE_WEBHOOK_SECRET";
/// Maximum size of an error answer that is read for its reason.
const REASON_MAX: usize = 1_000;
/// Longest `Retry-After` that is honored.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(86_400);

/// Target of the webhook, and its secret.
pub(super) struct Webhook {
    client: Client,
    url: Uri,
    secret: Option<Secret>,
    output: Output,
}

impl Webhook {
    pub(super) fn new(url: &str, args: &WorkArgs, output: Output) -> Result<Self> {
        let secret = Secret::find("the webhook", args.secret_file.as_deref(), SECRET)?;
        if secret.is_none() {
            output.note(format_args!("note: webhook requests are not signed; set {SECRET} or --secret-file"));
        }
        let url = signed::address("the webhook", url)?;
        Ok(Self { client: http::client(url.scheme_str())?, url, secret, output })
    }

    pub(super) async fn carry_out(&self, job: Job) -> Outcome {
        let mut line = Line::new(self.output, &job);
        let request = match self.request(&job, SystemTime::now()) {
            Ok(request) => request,
            Err(error) => {
                let why = format!("cannot send the request: {error}");
                return line.given_up(&why, &why);
            }
        };
        tokio::select! {
            answer = self.client.request(request) => match answer {
                Ok(answer) => judge(&mut line, answer).await,
                Err(error) => {
                    let why = format!("no response: {}", chain(&error));
                    line.failed(&why, &why)
                }
            },
            // A canceled task is over, whatever the answer.
            () = job.cancel.cancelled() => {
                line.ends("cancelled");
                Outcome::Done
            }
        }
    }

    fn request(&self, job: &Job, now: SystemTime) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
        let body = Bytes::copy_from_slice(job.payload.bytes());
        let key = idempotency_key(job);
        let timestamp = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs().to_string();
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(self.url.clone())
            .header(USER_AGENT, concat!("rushgate/", env!("CARGO_PKG_VERSION")))
            // hyper sets none for an empty body, and some servers refuse a POST without it.
            .header(CONTENT_LENGTH, body.len())
            .header("rushgate-queue", printable(job.queue.as_str()))
            .header("rushgate-task", printable(job.id().as_str()))
            .header("rushgate-attempt", job.attempt)
            .header("rushgate-max-attempts", job.max_attempts)
            .header("rushgate-fence", job.fence().as_u64())
            .header("idempotency-key", &key)
            .header("webhook-id", &key)
            .header("webhook-timestamp", &timestamp);
        if !job.payload.bytes().is_empty() {
            request = request.header(CONTENT_TYPE, job.content_type.plain());
        }
        if let Some(kind) = job.kind() {
            request = request.header("rushgate-kind", printable(kind));
        }
        // The span of the run if it is exported, otherwise that of the client that enqueued the task.
        if let Some(parent) = spans::current().or_else(|| job.traceparent()) {
            request = request.header("traceparent", parent.as_str());
        }
        if let Some(secret) = &self.secret {
            request = request.header("webhook-signature", secret.signature(&key, &timestamp, &body)?);
        }
        request.body(Full::new(body))
    }
}

/// Same for every attempt of one enqueue, different for a later enqueue of the same ID.
fn idempotency_key(job: &Job) -> String {
    let mut digest = Sha256::new();
    let revision = job.ticket.revision.as_u64();
    digest.update(format!("{}\0{}\0{revision}", job.queue, job.id()));
    let bytes = digest.finalize();
    format!("task_{}", hex(&bytes[..16]))
}

/// Percent-encodes all characters except printable ASCII.
fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'!'..=b'~' if byte != b'%' => printable.push(byte.into()),
            _ => printable.push_str(&format!("%{byte:02X}")),
        }
    }
    printable
}

async fn judge(line: &mut Line, answer: Response<Incoming>) -> Outcome {
    let status = answer.status();
    if status.is_success() {
        return line.done(status.as_str());
    }
    let wait = retry_after(answer.headers(), SystemTime::now());
    let why = format!("{status}{}", reason(answer).await);
    match status {
        StatusCode::BAD_REQUEST
        | StatusCode::GONE
        | StatusCode::PAYLOAD_TOO_LARGE
        | StatusCode::UNSUPPORTED_MEDIA_TYPE
        | StatusCode::UNPROCESSABLE_ENTITY => line.given_up(&why, &why),
        _ if wait.is_some() => {
            line.later(&why);
            Outcome::Retry { after: wait, error: why }
        }
        _ => line.failed(&why, &why),
    }
}

/// Parses `Retry-After`: seconds or a date.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = match text.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(now).unwrap_or_default(),
    };
    Some(wait.min(RETRY_AFTER_MAX))
}

/// First line of the body, if there is one.
async fn reason(answer: Response<Incoming>) -> String {
    let Ok(body) = Limited::new(answer.into_body(), REASON_MAX).collect().await else { return String::new() };
    let body = body.to_bytes();
    let text = String::from_utf8_lossy(&body);
    let first = text.lines().next().unwrap_or_default();
    let first: String = first.chars().filter(|c| !c.is_control()).take(200).collect();
    if first.is_empty() { first } else { format!(": {first}") }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn an_answer_may_ask_for_a_wait() {
        let ask = |text: &str| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_str(text).unwrap())]);
            retry_after(&headers, UNIX_EPOCH + Duration::from_secs(784_111_700))
        };
        assert_eq!(ask("120"), Some(Duration::from_secs(120)));
        assert_eq!(ask("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::from_secs(77)));
        assert_eq!(ask("Thu, 06 Nov 1980 08:49:37 GMT"), Some(Duration::ZERO));
        assert_eq!(ask("99999999999"), Some(RETRY_AFTER_MAX));
        assert_eq!(ask("soon"), None);
    }

    #[test]
    fn what_is_no_ascii_is_encoded() {
        assert_eq!(printable("order:42"), "order:42");
        assert_eq!(printable("ä%"), "%C3%A4%25");
    }
}
