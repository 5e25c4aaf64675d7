//! `work --webhook`: sends each task as a POST request.

use std::time::{Duration, SystemTime};

use anyhow::Result;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use hyper::{Request, Response, StatusCode};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use rushgate::Job;
use rushgate::store::hex;
use rushgate::worker::Outcome;
use sha2::{Digest, Sha256};

use super::line::Line;
use crate::args::work::WorkArgs;
use crate::output::Output;
use crate::signed::Target;
use crate::spans;

/// Environment variable with the secret.
const SECRET: &str = "RUSHGATE_WEBHOOK_SECRET";
/// Maximum size of an error answer that is read for its reason.
const REASON_MAX: usize = 1_000;
/// Longest `Retry-After` that is honored.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(86_400);

pub(super) struct Webhook {
    target: Target,
    output: Output,
}

impl Webhook {
    pub(super) fn new(url: &str, args: &WorkArgs, output: Output) -> Result<Self> {
        let target = Target::new("the webhook", url, args.secret_file.as_deref(), SECRET)?;
        if !target.is_signed() {
            output.note(format_args!("note: webhook requests are not signed; set {SECRET} or --secret-file"));
        }
        Ok(Self { target, output })
    }

    pub(super) async fn carry_out(&self, job: Job) -> Outcome {
        let mut line = Line::new(self.output, &job);
        tokio::select! {
            answer = self.post(&job) => match answer {
                Ok(answer) => judge(&mut line, answer).await,
                Err(why) => line.failed(&why, &why),
            },
            // A canceled task is over, whatever the answer.
            () = job.cancel.cancelled() => {
                line.ends("cancelled");
                Outcome::Done
            }
        }
    }

    async fn post(&self, job: &Job) -> Result<Response<Incoming>, String> {
        let body = Bytes::copy_from_slice(job.payload.bytes());
        let key = idempotency_key(job);
        let mut headers = Request::builder()
            // hyper sets none for an empty body, and some servers refuse a POST without it.
            .header(CONTENT_LENGTH, body.len())
            .header("rushgate-queue", printable(job.queue.as_str()))
            .header("rushgate-task", printable(job.id().as_str()))
            .header("rushgate-attempt", job.attempt)
            .header("rushgate-max-attempts", job.max_attempts)
            .header("rushgate-fence", job.fence().as_u64())
            .header("idempotency-key", &key);
        if !job.payload.bytes().is_empty() {
            headers = headers.header(CONTENT_TYPE, job.content_type.plain());
        }
        if let Some(kind) = job.kind() {
            headers = headers.header("rushgate-kind", printable(kind));
        }
        // The span of the run if it is exported, otherwise that of the client that enqueued the task.
        if let Some(parent) = spans::current().or_else(|| job.traceparent()) {
            headers = headers.header("traceparent", parent.as_str());
        }
        self.target.post(&key, headers, body).await
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
    const UNPRINTABLE: &AsciiSet = &CONTROLS.add(b' ').add(b'%');
    utf8_percent_encode(text, UNPRINTABLE).to_string()
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
    use std::time::UNIX_EPOCH;

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
