//! Maps errors of the server and the connection to Rushgate's errors.

use std::error::{self, Error as _};
use std::fmt;
use std::io;
use std::sync::Arc;

use redis::RedisError;
use rushgate_core::{Error, Field};
use rustls::AlertDescription;

use crate::reply::Refusal;

const UNREACHED: &str = "check that a Redis or Valkey server runs there and that this machine can reach it";
const WITHOUT_TLS: &str = "if the server does not use TLS, change rediss to redis in the store's URL";
const WITH_TLS: &str = "if the server uses TLS, change redis to rediss in the store's URL";
/// A server at its connection limit says so, but often closes before the client can read it.
const CUT_OFF: &str = "check the server log: it may have reached `maxclients`;";
/// The rights that the tests give their user.
pub(crate) const RIGHTS: &str = "ACL SETUSER NAME ~rg:* &rg:in:* +@all -@dangerous +info +config|get";

/// A connection that was lost, could not be made, or timed out.
#[derive(Debug)]
pub(crate) enum Broken {
    Lost(RedisError),
    /// Another server has replaced the one that was asked.
    Replaced,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The library's own text has several lines.
            Self::Lost(error) if error.kind() == redis::ErrorKind::Parse => {
                f.write_str("its response is not in the Redis protocol")
            }
            Self::Lost(error) => error.fmt(f),
            Self::Replaced => f.write_str("another server has become the primary"),
        }
    }
}

/// No connection could be made, so nothing was sent.
pub(crate) fn not_connected(url: &str, error: RedisError) -> Error {
    if let Some(why) = why_no_tls(&error) {
        return no_tls(url, why);
    }
    let code = error.code().unwrap_or_default().to_owned();
    let text = error.to_string();
    let detail = error.detail().unwrap_or(&text).to_owned();
    if matches!(code.as_str(), "WRONGPASS" | "NOAUTH")
        || error.kind() == redis::ErrorKind::AuthenticationFailed
    {
        return Error::misconfigured(format_args!("`{url}` rejected the user name or password"))
            .hint(PASSWORD);
    }
    if error.kind() == redis::ErrorKind::Parse {
        return Error::misconfigured(format_args!("`{url}` is not a Redis or Valkey server"))
            .hint("check the host and the port in the store's URL");
    }
    if detail.contains("max number of clients") {
        return too_many_clients();
    }
    if !error.is_io_error() && !code.is_empty() {
        return refused(&Refusal { code, text: detail });
    }
    let is_tls = url.starts_with("rediss");
    if error.is_connection_dropped() && !error.is_connection_refusal() {
        let cut_off = Error::unavailable(format_args!("`{url}` closed the connection immediately: {text}"));
        return cut_off.hint(format_args!("{CUT_OFF} {}", if is_tls { WITHOUT_TLS } else { WITH_TLS }));
    }
    let unreached = Error::unavailable(format_args!("cannot reach `{url}`: {text}"));
    // A TLS mismatch often shows as a timeout, because each side waits for the rest of the other's message.
    match is_tls && error.is_timeout() {
        true => unreached.hint(format_args!("{UNREACHED}; {WITHOUT_TLS}")),
        false => unreached.hint(UNREACHED),
    }
}

/// The connection ended during the checks, so nothing was sent.
pub(crate) fn ended_at_once(broken: &Broken) -> Error {
    if matches!(broken, Broken::Lost(error) if error.is_timeout()) {
        return unanswered(broken)
            .hint("check the server log and SLOWLOG GET: the server may be overloaded or stopped");
    }
    Error::unavailable(format_args!("the server closed the connection immediately: {broken}"))
        .hint(format_args!("{CUT_OFF} {WITH_TLS}"))
}

/// The cause, if the TLS handshake failed.
fn why_no_tls(error: &RedisError) -> Option<&(dyn error::Error + 'static)> {
    let source = error.source()?.downcast_ref::<Arc<dyn error::Error + Send + Sync>>()?;
    match source.downcast_ref::<io::Error>() {
        Some(io) => io.get_ref()?.downcast_ref::<rustls::Error>().map(|why| why as _),
        None => Some(&**source),
    }
}

fn no_tls(url: &str, why: &(dyn error::Error + 'static)) -> Error {
    match why.downcast_ref() {
        Some(rustls::Error::InvalidCertificate(why)) => Error::misconfigured(format_args!(
            "the certificate of `{url}` is not trusted: {why}"
        ))
        .hint("set SSL_CERT_FILE to its CA certificate, and check that the certificate is for that host"),
        Some(rustls::Error::AlertReceived(AlertDescription::CertificateRequired)) => Error::misconfigured(
            format_args!("`{url}` requires client certificates, which Rushgate does not support"),
        )
        .hint("set `tls-auth-clients no` in the server's configuration, and use a password instead"),
        Some(rustls::Error::InvalidMessage(_)) => {
            Error::misconfigured(format_args!("`{url}` does not speak TLS")).hint(WITHOUT_TLS)
        }
        _ => Error::misconfigured(format_args!("cannot establish a TLS connection to `{url}`: {why}"))
            .hint("check SSL_CERT_FILE here, and the server's `tls-` settings"),
    }
}

/// The connection ended before the reply to a request.
pub(crate) fn broken(error: &Broken) -> Error {
    unanswered(error).maybe_happened()
}

/// The connection ended before the reply to a query that changes nothing.
pub(crate) fn unanswered(error: &Broken) -> Error {
    match error {
        Broken::Lost(error) if error.is_timeout() => Error::unavailable("the server did not answer in time"),
        Broken::Lost(_) => Error::unavailable(format_args!("lost the connection to the server: {error}")),
        Broken::Replaced => Error::unavailable("another server has become the primary"),
    }
}

/// The server executed the request, but too few replicas acknowledged it in time.
pub(crate) fn not_replicated() -> Error {
    Error::unavailable("too few replicas have acknowledged the write")
        .hint("check `min-replicas-to-write` and the state of the replicas")
        .maybe_happened()
}

fn too_many_clients() -> Error {
    Error::unavailable("the server has reached its maximum number of clients")
        .hint("raise `maxclients` on the server, or run fewer processes")
}

const PASSWORD: &str = "check the user and password in the store's URL; both are percent-encoded there";

fn not_allowed(text: &str) -> Error {
    Error::misconfigured(format_args!("the user lacks a permission on the server: {text}")).hint(format_args!(
        "grant permissions with `{RIGHTS}`; on Cluster nodes add +cluster|info +cluster|slots; on sentinels grant \
         &+switch-master +sentinel|master +subscribe +ping"
    ))
}

/// A command in a function that the user may not call, as worded by Redis 7.0 and by later versions.
fn is_denied_in_function(text: &str) -> bool {
    text.starts_with("The user executing the script can't") || text.starts_with("ACL failure in script")
}

/// A standalone server was expected.
pub(crate) fn is_member() -> Error {
    Error::misconfigured("the server is part of a Cluster")
        .hint("use redis+cluster://HOST:PORT,… as the store's URL")
}

/// A member of a Cluster was expected.
pub(crate) fn no_member() -> Error {
    Error::misconfigured("the server is not part of a Cluster")
        .hint("use redis://HOST:PORT as the store's URL")
}

pub(crate) fn is_sentinel() -> Error {
    Error::misconfigured("the server is a sentinel, which stores no data")
        .hint("use redis+sentinel://HOST:PORT,…/SERVICE as the store's URL")
}

/// Whether a refusal means that this kind of server does not have the command.
pub(crate) fn lacks_command(refusal: &Refusal, name: &str) -> bool {
    refusal.text.starts_with(&format!("unknown command '{name}'"))
}

/// Whether a refusal means that the server lacks the function that was called.
pub(crate) fn lacks_function(refusal: &Refusal) -> bool {
    refusal.code == "ERR" && refusal.text == "Function not found"
}

/// Whether a refusal means that another node of the Cluster, or the same one later, may execute the request.
pub(crate) fn is_referral(refusal: &Refusal) -> bool {
    matches!(refusal.code.as_str(), "MOVED" | "ASK" | "TRYAGAIN" | "CLUSTERDOWN" | "MASTERDOWN" | "READONLY")
}

/// Maps an error reply. A function is atomic, so none of these leaves a request half done. The code is stable; the text
/// differs between servers and versions.
pub(crate) fn refused(refusal: &Refusal) -> Error {
    let Refusal { code, text } = refusal;
    match code.as_str() {
        "LOADING" => Error::unavailable("the server is loading its data")
            .hint("retry when the server has loaded its data"),
        "BUSY" => Error::unavailable("the server is busy with a long script of another program")
            .hint("find the script in the server's slow log; stop it with SCRIPT KILL if it has not written"),
        "TRYAGAIN" | "ASK" | "MOVED" | "CLUSTERDOWN" | "MASTERDOWN" => {
            Error::unavailable(format_args!("the server cannot serve these keys now ({code})"))
        }
        "NOREPLICAS" => Error::unavailable("too few replicas are in sync for a write")
            .hint("check `min-replicas-to-write` and the state of the replicas"),
        "READONLY" => Error::unavailable("the server is a replica and accepts no writes")
            .hint("name the primary in the store's URL"),
        "MISCONF" => Error::unavailable("the server cannot write to its disk and accepts no writes")
            .hint("check the server log, and free space on its disk"),
        "OOM" => Error::full("the server has reached its memory limit")
            .hint("raise `maxmemory`, or complete tasks and end sales"),
        "NOAUTH" | "WRONGPASS" => {
            Error::misconfigured("the server rejected the user name or password").hint(PASSWORD)
        }
        "NOPERM" => not_allowed(text),
        // Only the server's clock can tell. All other limits are checked before sending.
        "DEADLINE" => Error::invalid(Field::Deadline, text),
        "CURSOR" => Error::invalid(Field::Cursor, text),
        "WRONGTYPE" => Error::corrupt("a key of Rushgate has the wrong type")
            .hint("let only Rushgate write keys that begin with `rg:`")
            .maybe_happened(),
        _ if lacks_function(refusal) => {
            Error::unavailable("other clients keep deleting the function library")
        }
        _ if text.contains("max number of clients") => too_many_clients(),
        _ if text.contains("DB index is out of range") => Error::misconfigured(
            "the server has no database with that number",
        )
        .hint("correct the store's URL; the server's setting `databases` limits the number, counted from 0"),
        _ if text.contains("not allowed in cluster mode") => is_member(),
        _ if text.starts_with("unknown command") => {
            let name = text.split('\'').nth(1).unwrap_or_default();
            Error::misconfigured(format_args!("the server does not know the command {name}")).hint(
                "check that the URL matches the kind of server, and that it does not rename commands \
                 (`rename-command`)",
            )
        }
        // A function reads the clock first, so one that may not has written nothing. A denial of another command may
        // follow a write, which stands.
        _ if is_denied_in_function(text) && text.contains("'time'") => not_allowed(text),
        _ if is_denied_in_function(text) => not_allowed(text).maybe_happened(),
        _ if text.contains("no permissions to run") => not_allowed(text),
        // One of our functions that fails halfway has a bug, and its writes are not rolled back.
        _ => Error::bug(format_args!("the server refused a command: {code} {text}")).maybe_happened(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_slow_to_answer_has_not_ended_the_connection() {
        let broken = |kind| Broken::Lost(io::Error::from(kind).into());
        let slow = ended_at_once(&broken(io::ErrorKind::TimedOut));
        assert!(slow.to_string().contains("did not answer in time") && !slow.may_have_happened(), "{slow:?}");
        assert!(slow.hint_text().is_some_and(|hint| hint.contains("overloaded")), "{slow:?}");
        let ended = ended_at_once(&broken(io::ErrorKind::ConnectionReset));
        assert!(ended.to_string().contains("closed the connection"), "{ended:?}");
    }
}
