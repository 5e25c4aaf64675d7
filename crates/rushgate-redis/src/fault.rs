//! Maps errors of the server and the connection to Rushgate's errors.

use std::error::{self, Error as _};
use std::io;
use std::sync::Arc;

use redis::RedisError;
use rushgate_core::Error;
use rustls::AlertDescription;

use crate::conn::{Broken, Refusal};

const UNREACHED: &str = "is a Redis or Valkey server running there, and can this machine reach it?";
const WITHOUT_TLS: &str = "if it speaks without TLS, write redis in place of rediss in the store's URL";
const WITH_TLS: &str = "if it speaks TLS, write rediss in place of redis in the store's URL";
/// A server at its connection limit says so, but often closes before the client can read it.
const CUT_OFF: &str =
    "has the server reached its `maxclients`, or does it end connections for another reason? its log tells;";
/// The rights that the tests give their user.
pub(crate) const RIGHTS: &str = "ACL SETUSER NAME ~rg:* &rg:in:* +@all -@dangerous +info +config|get";

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
        return Error::misconfigured(format_args!("`{url}` refuses the user name or password"))
            .hint(PASSWORD);
    }
    if error.kind() == redis::ErrorKind::Parse {
        return Error::misconfigured(format_args!("what answers at `{url}` is no Redis or Valkey server"))
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
        let cut_off = Error::unavailable(format_args!("`{url}` ended the connection at once: {text}"));
        return cut_off.hint(format_args!("{CUT_OFF} {}", if is_tls { WITHOUT_TLS } else { WITH_TLS }));
    }
    let unreached = Error::unavailable(format_args!("`{url}` cannot be reached: {text}"));
    // A TLS mismatch often shows as a timeout, because each side waits for the rest of the other's message.
    match is_tls && error.is_timeout() {
        true => unreached.hint(format_args!("{UNREACHED} {WITHOUT_TLS}")),
        false => unreached.hint(UNREACHED),
    }
}

/// The connection ended during the checks, so nothing was sent.
pub(crate) fn ended_at_once(broken: &Broken) -> Error {
    if matches!(broken, Broken::Lost(error) if error.is_timeout()) {
        return unanswered(broken).hint("the server is overloaded or stopped; see its log and SLOWLOG GET");
    }
    Error::unavailable(format_args!("the server ended the connection at once: {broken}"))
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
        Some(rustls::Error::InvalidCertificate(why)) => {
            Error::misconfigured(format_args!("the certificate of `{url}` is not trusted: {why}")).hint(
                "name the file of its authority's certificate in SSL_CERT_FILE; the certificate itself must be for \
                 that host",
            )
        }
        Some(rustls::Error::AlertReceived(AlertDescription::CertificateRequired)) => {
            Error::misconfigured(format_args!("`{url}` wants a certificate of its clients"))
                .hint("set `tls-auth-clients no` in the server's configuration, and a password in its place")
        }
        Some(rustls::Error::InvalidMessage(_)) => {
            Error::misconfigured(format_args!("`{url}` does not speak TLS")).hint(WITHOUT_TLS)
        }
        _ => Error::misconfigured(format_args!("no TLS connection to `{url}` could be made: {why}"))
            .hint("see SSL_CERT_FILE here, and the settings of the server that begin with `tls-`"),
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
        Broken::Lost(_) => Error::unavailable(format_args!("the connection to the server ended: {error}")),
        Broken::Replaced => Error::unavailable("another server has become the primary"),
    }
}

/// The server executed the request, but too few replicas acknowledged it in time.
pub(crate) fn not_replicated() -> Error {
    Error::unavailable("too few replicas have the step yet")
        .hint("see `min-replicas-to-write` and the state of the replicas")
        .maybe_happened()
}

fn too_many_clients() -> Error {
    Error::unavailable("the server has its maximum number of clients")
        .hint("raise `maxclients` on the server, or run fewer processes")
}

const PASSWORD: &str = "check the user and password in the store's URL; both are percent-encoded there";

fn not_allowed(text: &str) -> Error {
    Error::misconfigured(format_args!("the user may not do this on the server: {text}")).hint(format_args!(
        "`{RIGHTS}` gives all that is needed; on nodes of a Cluster add +cluster|info +cluster|slots; a user of sentinels \
         needs &+switch-master +sentinel|master +subscribe +ping there"
    ))
}

/// A command in a script that the user may not call, as worded by Redis 7.0 and by later versions.
fn is_denied_in_script(text: &str) -> bool {
    text.starts_with("The user executing the script can't") || text.starts_with("ACL failure in script")
}

/// A standalone server was expected.
pub(crate) fn is_member() -> Error {
    Error::misconfigured("the server is part of a Cluster")
        .hint("write redis+cluster://HOST:PORT,… as the store's URL")
}

/// A member of a Cluster was expected.
pub(crate) fn no_member() -> Error {
    Error::misconfigured("the server is no part of a Cluster")
        .hint("write redis://HOST:PORT as the store's URL")
}

pub(crate) fn is_sentinel() -> Error {
    Error::misconfigured("the server is a sentinel, which keeps no data")
        .hint("write redis+sentinel://HOST:PORT,…/SERVICE as the store's URL")
}

/// Whether a refusal means that this kind of server does not have the command.
pub(crate) fn lacks_command(refusal: &Refusal, name: &str) -> bool {
    refusal.text.starts_with(&format!("unknown command '{name}'"))
}

/// The prefix of errors about a deadline.
const DEADLINE: &str = "the deadline ";

/// Maps an error reply. A script is atomic, so none of these leaves a request half done. The code is stable; the text
/// differs between servers and versions.
pub(crate) fn refused(refusal: &Refusal) -> Error {
    let Refusal { code, text } = refusal;
    match code.as_str() {
        "LOADING" => Error::unavailable("the server is loading its data").hint("it answers when that is done"),
        "BUSY" => Error::unavailable("the server is busy with a long script of another program")
            .hint("find the script in the server's slow log; SCRIPT KILL ends one that has not written"),
        "TRYAGAIN" | "ASK" | "MOVED" | "CLUSTERDOWN" | "MASTERDOWN" => {
            Error::unavailable(format_args!("the server cannot answer for these keys now ({code})"))
        }
        "NOREPLICAS" => Error::unavailable("too few replicas keep up with the server for a write")
            .hint("see `min-replicas-to-write` and the state of the replicas"),
        "READONLY" => Error::unavailable("the server is a replica and takes no writes")
            .hint("name the primary in the store's URL"),
        "MISCONF" => Error::unavailable("the server cannot write to its disk and takes no writes")
            .hint("look into the server's log; free some space on its disk"),
        "OOM" => Error::full("the server has reached its memory limit")
            .hint("raise `maxmemory`, or complete tasks and end sales"),
        "NOAUTH" | "WRONGPASS" => {
            Error::misconfigured("the server refuses the user name or password").hint(PASSWORD)
        }
        "NOPERM" => not_allowed(text),
        "RESERVED" => Error::queue_reserved(),
        // Only the server's clock can tell. All other limits are checked before sending.
        "INVALID" if text.starts_with(DEADLINE) => Error::invalid("the deadline", &text[DEADLINE.len()..]),
        "NOSCRIPT" => Error::unavailable("the server keeps forgetting scripts"),
        "WRONGTYPE" => Error::corrupt("a key of Rushgate's has another type")
            .hint("keys that begin with `rg:` must be written by Rushgate alone")
            .maybe_happened(),
        _ if text.contains("max number of clients") => too_many_clients(),
        _ if text.contains("DB index is out of range") => {
            Error::misconfigured("the server has no database of that number")
                .hint("the server's setting `databases` says how many there are, counted from 0; correct the store's URL")
        }
        _ if text.contains("not allowed in cluster mode") => is_member(),
        _ if text.starts_with("unknown command") => {
            let name = text.split('\'').nth(1).unwrap_or_default();
            Error::misconfigured(format_args!("the server does not know the command {name}"))
                .hint("is it a server of the kind that the store's URL says, and does it rename commands (`rename-command`)?")
        }
        // A script reads the clock first, so one that may not has written nothing. A denial of another command may
        // follow a write, which stands.
        _ if is_denied_in_script(text) && text.contains("'time'") => not_allowed(text),
        _ if is_denied_in_script(text) => not_allowed(text).maybe_happened(),
        _ if text.contains("no permissions to run") => not_allowed(text),
        // One of our scripts that fails halfway has a bug, and its writes are not rolled back.
        _ => Error::bug(format_args!("the server refused a step: {code} {text}")).maybe_happened(),
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
        assert!(ended.to_string().contains("ended the connection"), "{ended:?}");
    }
}
