//! Opens the ledger that a URL names.

use std::sync::Arc;

use rushgate_core::{Error, Result};

use crate::Ledger;
#[cfg(feature = "postgres")]
use crate::postgres::{self, late::LateLedger};
#[cfg(feature = "sqlite")]
use crate::sqlite;

/// Opens the ledger at `url`:
/// - `sqlite:PATH`, a file, shared by the processes of one machine. A committed order survives a power cut
///   (`synchronous=FULL`). A step waits up to 5 s for another process's transaction, then fails with
///   [`is_unavailable`](Error::is_unavailable).
/// - `sqlite::memory:`, the memory of this process, for tests. The data is lost with the ledger.
/// - `postgres://USER:PASSWORD@HOST:PORT/DATABASE` (also `postgresql://`), a server of version 15 or later, shared by
///   the processes of any number of machines. A committed order is as durable as the server's disks and synchronous
///   replicas. Connections set `synchronous_commit` to `on` if the server has a weaker setting. The next call replaces a
///   lost connection.
///
/// A URL of Postgres accepts all its options, and in addition:
/// - `schema=NAME`: schema of the tables. Default: `rushgate`.
/// - `pool=N`: maximum number of connections. Default: 4.
/// - `statement_timeout=MILLISECONDS`: time limit of a statement. Default: 15,000.
///
/// `sslmode=prefer`, the default, encrypts if the server supports it and accepts any certificate. `require` verifies the
/// certificate with this machine's root certificates or those of the file `sslrootcert=`. `disable` uses no TLS.
///
/// Concurrent calls share a transaction; a single call does not wait for others. The ledger has its own threads, so it
/// serves callers of any runtime. When it is dropped, calls that were sent still complete in the background.
/// [`close`](Ledger::close) waits for them.
///
/// Creates the file or schema if needed, and migrates an older one. Blocks meanwhile: up to about 5 s for a file that
/// another process is migrating, up to a minute for a server, and about 10 s for a server that cannot be reached.
///
/// # Errors
/// - [`is_invalid`](Error::is_invalid): a URL of another kind.
/// - [`is_misconfigured`](Error::is_misconfigured): a file that is read-only, a directory, another program's or of a
///   newer schema; a server that is too old, read-only or refuses the user.
/// - [`is_unavailable`](Error::is_unavailable): a server that cannot be reached.
/// - [`is_corrupt`](Error::is_corrupt): a damaged file.
///
/// None of them changes the file or the schema.
pub fn connect(url: &str) -> Result<Arc<dyn Ledger>> {
    match url.split_once(':') {
        #[cfg(feature = "sqlite")]
        Some(("sqlite", ":memory:")) => Ok(Arc::new(sqlite::in_memory()?)),
        #[cfg(feature = "sqlite")]
        Some(("sqlite", path)) if !path.is_empty() => Ok(Arc::new(sqlite::open(path.as_ref(), None)?)),
        #[cfg(feature = "postgres")]
        Some(("postgres" | "postgresql", rest)) if rest.starts_with("//") => {
            Ok(Arc::new(postgres::open(url)?))
        }
        _ => Err(unsupported(url)),
    }
}

/// Opens an SQLite file like [`connect`], with a maximum size in bytes, rounded down to pages of 4,096 bytes. A write
/// that needs more fails with [`is_full`](Error::is_full). The write-ahead log is not included: about 64 MiB, more while
/// a reader prevents a checkpoint.
///
/// # Errors
/// Those of [`connect`].
#[cfg(feature = "sqlite")]
pub fn connect_at_most(path: impl AsRef<std::path::Path>, bytes: u64) -> Result<Arc<dyn Ledger>> {
    Ok(Arc::new(sqlite::open(path.as_ref(), Some(bytes))?))
}

/// The rest of the URL may contain a password, so the error does not repeat it.
fn unsupported(url: &str) -> Error {
    let scheme = url.split_once(':').map(|(scheme, _)| scheme);
    let has = scheme.map_or("no scheme".to_owned(), |scheme| format!("the scheme `{scheme}`"));
    let lacks = match scheme {
        Some("sqlite") if !cfg!(feature = "sqlite") => Some("sqlite"),
        Some("postgres" | "postgresql") if !cfg!(feature = "postgres") => Some("postgres"),
        _ => None,
    };
    match lacks {
        Some(feature) => {
            Error::invalid("the ledger's URL", format_args!("has {has}, which this build does not support"))
                .hint(format_args!("enable the feature `{feature}` of the crate `rushgate`"))
        }
        None => Error::invalid("the ledger's URL", format_args!("has {has}, which is not supported"))
            .hint("use sqlite:PATH, sqlite::memory: or postgres://USER@HOST/DATABASE"),
    }
}

/// Opens the ledger like [`connect`], but accepts a server that cannot be reached. The connection is then retried
/// every second in the background. Until it succeeds, every call fails with [`is_unavailable`](Error::is_unavailable)
/// and changes nothing. For servers that sell meanwhile and let orders wait in the queue.
///
/// # Errors
/// Those of [`connect`], except for a server that cannot be reached.
pub fn connect_when_it_can(url: &str) -> Result<Arc<dyn Ledger>> {
    match connect(url) {
        #[cfg(feature = "postgres")]
        Err(error) if error.is_unavailable() && url.starts_with("postgres") => {
            tracing::warn!(%error, "the ledger is not reachable yet; orders wait until it is");
            Ok(Arc::new(LateLedger::new(url, error)?))
        }
        connected => connected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_kind_of_url_is_refused_with_what_is_supported_and_without_its_password() {
        for url in ["mysql://me:secret@host/db", "postgres:me:secret", "orders.db", "sqlite:", ""] {
            let error = connect(url).err().unwrap();
            assert!(error.is_invalid(), "{error}");
            assert!(error.hint_text().unwrap().contains("sqlite:PATH"), "{error:?}");
            assert!(!format!("{error:?}").contains("secret"), "{error:?}");
        }
    }
}
