//! A POST for each task.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER, USER_AGENT};
use hyper::{Method, Request, Response, StatusCode, Uri};
use rushgate::{Job, Outcome};
use sha2::{Digest, Sha256};

use super::line::Line;
use crate::args::work::WorkArgs;
use crate::exit::{Fault, chain};
use crate::http::{self, Client};
use crate::otel;
use crate::output::Output;

/// Where the secret may be.
const SECRET: &str = "RUSHGATE_WEBHOOK_SECRET";
/// How much of an answer is read to tell why it is none.
const REASON_MAX: usize = 1_000;
/// The longest wait that an answer may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(86_400);

/// Where tasks are sent, and how they are signed.
pub(super) struct Webhook {
    client: Client,
    url: Uri,
    secret: Option<Secret>,
    output: Output,
}

/// A key, which nobody gets to see.
struct Secret(Vec<u8>);

impl Webhook {
    pub(super) fn new(url: &str, args: &WorkArgs, output: Output) -> Result<Self> {
        let secret = secret(args.secret_file.as_deref())?;
        if secret.is_none() {
            output.note(format_args!("note: nothing is signed; set {SECRET} or --secret-file"));
        }
        let url = address(url)?;
        Ok(Self { client: http::client(url.scheme_str())?, url, secret, output })
    }

    pub(super) async fn carry_out(&self, job: Job) -> Outcome {
        let mut line = Line::new(self.output, &job);
        let request = match self.request(&job, SystemTime::now()) {
            Ok(request) => request,
            Err(error) => return line.given_up(&format!("it cannot be sent: {error}")),
        };
        tokio::select! {
            answer = self.client.request(request) => match answer {
                Ok(answer) => judge(&mut line, answer).await,
                Err(error) => line.failed(&format!("no answer: {}", chain(&error))),
            },
            // Whatever is returned, it is over.
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
            .header(CONTENT_TYPE, job.content_type.plain())
            .header("rushgate-queue", printable(job.queue.as_str()))
            .header("rushgate-task", printable(job.id().as_str()))
            .header("rushgate-attempt", job.attempt)
            .header("rushgate-max-attempts", job.max_attempts)
            .header("rushgate-fence", job.fence().as_u64())
            .header("idempotency-key", &key)
            .header("webhook-id", &key)
            .header("webhook-timestamp", &timestamp);
        if let Some(kind) = job.kind() {
            request = request.header("rushgate-kind", printable(kind));
        }
        // From the run of the task, if its span is sent, or else from whoever put it in.
        if let Some(parent) = otel::current().or_else(|| job.traceparent()) {
            request = request.header("traceparent", parent.as_str());
        }
        if let Some(secret) = &self.secret {
            let mut signature = HeaderValue::try_from(secret.signature(&key, &timestamp, &body))?;
            signature.set_sensitive(true);
            request = request.header("webhook-signature", signature);
        }
        request.body(Full::new(body))
    }
}

impl Secret {
    /// As <https://www.standardwebhooks.com> says.
    fn signature(&self, id: &str, timestamp: &str, body: &[u8]) -> String {
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else {
            unreachable!("HMAC takes keys of every length");
        };
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body);
        format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes()))
    }

    /// The text of a secret: `whsec_` and base64, or any other words as they are.
    fn read(text: &str) -> Result<Self, Fault> {
        let text = text.trim();
        let bytes = match text.strip_prefix("whsec_") {
            Some(encoded) => BASE64_STANDARD
                .decode(encoded)
                .map_err(|_| Fault::usage("what follows whsec_ in the webhook's secret is no base64"))?,
            None => text.as_bytes().to_vec(),
        };
        match bytes.len() {
            0..16 => Err(Fault::usage("the webhook's secret is shorter than 16 bytes")),
            _ => Ok(Self(bytes)),
        }
    }
}

fn secret(file: Option<&Path>) -> Result<Option<Secret>, Fault> {
    let text = match file {
        Some(file) => Some(std::fs::read_to_string(file).map_err(|error| {
            Fault::usage(format_args!("the secret cannot be read from `{}`: {error}", file.display()))
        })?),
        None => std::env::var(SECRET).ok().filter(|text| !text.is_empty()),
    };
    text.as_deref().map(Secret::read).transpose()
}

/// Where to send to. A password in it would be seen by whoever lists the processes.
fn address(text: &str) -> Result<Uri, Fault> {
    let url: Uri = text
        .parse()
        .map_err(|error| Fault::usage(format_args!("the webhook's URL cannot be read: {error}")))?;
    let authority = url.authority().map_or("", |authority| authority.as_str());
    match url.scheme_str() {
        Some("http" | "https") if authority.contains('@') => {
            Err(Fault::usage("the webhook's URL has a password").hint("sign with a secret instead"))
        }
        Some("http" | "https") if !authority.is_empty() => Ok(url),
        _ => Err(Fault::usage("the webhook's URL must begin with http:// or https:// and name a host")),
    }
}

/// The same for every attempt at what was put in, and another for what is put in again under its id.
fn idempotency_key(job: &Job) -> String {
    let mut digest = Sha256::new();
    let revision = job.ticket.revision.as_u64();
    digest.update(format!("{}\0{}\0{revision}", job.queue, job.id()));
    let bytes = digest.finalize();
    let hex: String = bytes[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("task_{hex}")
}

/// Percent-encoded where it is not printable ASCII.
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
        | StatusCode::UNPROCESSABLE_ENTITY => line.given_up(&why),
        _ if wait.is_some() => {
            line.later(&why);
            Outcome::Retry { after: wait, error: why }
        }
        _ => line.failed(&why),
    }
}

/// In seconds, or as a date.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = match text.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(now).unwrap_or_default(),
    };
    Some(wait.min(RETRY_AFTER_MAX))
}

/// The first line of what it says, if it says anything.
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
    use super::*;

    #[test]
    fn a_signature_is_that_of_the_standard() {
        // The example of the standard's own libraries.
        let secret = Secret::read("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signature =
            secret.signature("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", br#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert!(Secret::read("short").is_err());
        assert!(Secret::read("whsec_no base64, this").is_err());
    }

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
    fn an_address_is_checked() {
        assert!(address("http://localhost:8080/tasks?a=1").is_ok());
        for wrong in ["localhost:8080", "ftp://host/", "https://me:secret@host/", "http://", "/path"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_no_ascii_is_encoded() {
        assert_eq!(printable("order:42"), "order:42");
        assert_eq!(printable("ä%"), "%C3%A4%25");
    }
}
