//! Audit log of admin actions: one line of JSON per request that requires an operator and may change
//! something.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::net::IpAddr;
#[cfg(unix)]
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use crate::body::Body;
use hyper::body::Bytes;
use hyper::http::Response;
use rushgate::{Error, Result};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::now;
use crate::problem::Problem;

/// A larger body is not logged, only its length.
const BODY_MAX: usize = 8 << 10;
/// Part of the file that one request reads. Longer than any line.
const READ_MAX: u64 = 1 << 20;

/// The file of the audit log, one line per action. Refused actions of authenticated callers are logged too.
#[derive(Debug)]
pub(crate) struct AuditLog {
    path: PathBuf,
    file: File,
}

/// One action, logged when it has ended.
#[derive(Debug)]
pub(crate) struct Action {
    log: Option<Arc<AuditLog>>,
    began: Instant,
    record: Record,
    body: Bytes,
    has_ended: bool,
}

/// Data of an action that are known at its start.
#[derive(Debug, Serialize)]
pub(crate) struct Record {
    /// Start time by this machine's clock, in microseconds since the Unix epoch.
    at_us: u64,
    /// ID of the token.
    pub who: String,
    /// Client address.
    pub from: IpAddr,
    pub verb: &'static str,
    pub method: &'static str,
    pub path: String,
}

#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    record: &'a Record,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a Value>,
    body_bytes: usize,
    /// `None` if the client disconnected first: the server then has no outcome to log.
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    took_us: u128,
}

impl AuditLog {
    /// Opens the file for appending.
    pub fn open(path: &Path) -> Result<Self> {
        let file = {
            let mut options = File::options();
            // The log contains buyer IDs and request bodies.
            #[cfg(unix)]
            options.mode(0o600);
            options.create(true).append(true).open(path)
        };
        let unusable = |error: io::Error| {
            Error::misconfigured(format_args!("cannot write the audit log `{}`: {error}", path.display()))
                .caused_by(error)
        };
        Ok(Self { path: path.to_owned(), file: file.map_err(unusable)? })
    }

    /// Writes the line in one call, so that lines of several processes do not mix.
    fn write(&self, line: &Line<'_>) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        (&self.file).write_all(&text)
    }
}

/// Entries of the audit log, newest first.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct AuditLogView {
    /// The entries, as they are in the file. Those about resources that the token's scopes do not cover are left out.
    #[schemars(with = "Vec<BTreeMap<String, Value>>")]
    items: Vec<Value>,
    /// Pass it as `before` to get the next page. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u64>,
}

impl AuditLog {
    /// The latest entries that end before this position of the file, and that the caller may see.
    pub fn latest(&self, before: u64, limit: usize, may: impl Fn(&str) -> bool) -> io::Result<AuditLogView> {
        let mut file = File::open(&self.path)?;
        let end = before.min(file.metadata()?.len());
        let begin = end.saturating_sub(READ_MAX);
        file.seek(SeekFrom::Start(begin))?;
        let mut text = Vec::new();
        file.take(end - begin).read_to_end(&mut text)?;
        let mut view = AuditLogView::default();
        // Lines from the last to the first. The first one may be cut, unless the file begins with it.
        let mut line_end = text.len();
        while line_end > 0 && view.items.len() < limit {
            let newline = text[..line_end - 1].iter().rposition(|byte| *byte == b'\n');
            let line_begin = match newline {
                Some(at) => at + 1,
                None if begin == 0 => 0,
                None => break,
            };
            let entry: Option<Value> = serde_json::from_slice(&text[line_begin..line_end]).ok();
            let seen = entry.filter(|entry| entry["path"].as_str().is_some_and(&may));
            view.items.extend(seen);
            line_end = line_begin;
        }
        let position = begin + line_end as u64;
        view.next = (position > 0 && position < end).then_some(position);
        Ok(view)
    }
}

impl Record {
    pub fn now(who: String, from: IpAddr, verb: &'static str, method: &'static str, path: String) -> Self {
        Self { at_us: now().as_micros() as u64, who, from, verb, method, path }
    }
}

impl Action {
    pub fn begin(log: Option<Arc<AuditLog>>, record: Record, body: Bytes) -> Self {
        Self { log, began: Instant::now(), record, body, has_ended: false }
    }

    /// Logs the outcome.
    pub fn end(mut self, answer: &std::result::Result<Response<Body>, Problem>) {
        match answer {
            Ok(response) => self.write(Some(response.status().as_u16()), None),
            Err(problem) => self.write(Some(problem.code().status()), Some(problem.code().word())),
        }
        self.has_ended = true;
    }

    fn write(&self, status: Option<u16>, code: Option<&'static str>) {
        let body = Some(&self.body).filter(|body| body.len() <= BODY_MAX);
        // Parsed and serialized again, so that white space in the body cannot add a line.
        let mut body: Option<Value> = body.and_then(|body| serde_json::from_slice(body).ok());
        body.iter_mut().for_each(hide_secrets);
        let Record { who, verb, path, .. } = &self.record;
        let shown = body.as_ref().map(tracing::field::display);
        tracing::warn!(target: "rushgate::audit", by = %who, verb, path, body = shown, status, code, "admin action");
        let Some(log) = &self.log else { return };
        let took_us = self.began.elapsed().as_micros();
        let body = body.as_ref();
        let line = Line { record: &self.record, body, body_bytes: self.body.len(), status, code, took_us };
        if let Err(error) = log.write(&line) {
            tracing::error!(%error, file = %log.path.display(), "an admin action was not written to the audit log");
        }
    }
}

/// Hides the secrets of a sale and of a draw, which requests to the store have.
fn hide_secrets(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match name.as_str() {
                    "secret" => *value = "hidden".into(),
                    _ => hide_secrets(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(hide_secrets),
        _ => {}
    }
}

impl Drop for Action {
    fn drop(&mut self) {
        if !self.has_ended {
            self.write(None, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_actions_come_first_page_by_page_and_only_those_that_the_caller_may_see() {
        let dir = tempfile::TempDir::new().unwrap();
        let log = AuditLog::open(&dir.path().join("audit.log")).unwrap();
        let empty = log.latest(u64::MAX, 10, |_| true).unwrap();
        assert!(empty.items.is_empty() && empty.next.is_none());
        // More than one read.
        let body = Value::from("x".repeat(8_000));
        for n in 0..300 {
            let from = IpAddr::from([127, 0, 0, 1]);
            let path = format!("/v1/queues/{}", if n % 2 == 0 { "even" } else { "odd" });
            let record = Record { at_us: n, ..Record::now("ann".to_owned(), from, "pause", "POST", path) };
            let line = Line {
                record: &record,
                body: Some(&body),
                body_bytes: 8_002,
                status: Some(200),
                code: None,
                took_us: 1,
            };
            log.write(&line).unwrap();
        }
        let all = |limit, may: fn(&str) -> bool| {
            let (mut seen, mut before) = (Vec::new(), u64::MAX);
            loop {
                let page = log.latest(before, limit, may).unwrap();
                assert!(page.items.len() <= limit);
                seen.extend(page.items.iter().map(|item| item["at_us"].as_u64().unwrap()));
                match page.next {
                    Some(next) => before = next,
                    None => return seen,
                }
            }
        };
        assert_eq!(all(7, |_| true), (0..300).rev().collect::<Vec<_>>());
        assert_eq!(
            all(1_000, |path| path.ends_with("odd")),
            (0..300).rev().filter(|n| n % 2 == 1).collect::<Vec<_>>()
        );
    }
}
