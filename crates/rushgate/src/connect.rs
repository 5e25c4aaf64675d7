use std::sync::Arc;

use rushgate_core::{Error, Result, Store};
#[cfg(feature = "http")]
use rushgate_http::HttpStore;
#[cfg(feature = "redis")]
use rushgate_redis::RedisStore;
#[cfg(feature = "sqlite")]
use rushgate_sqlite::SqliteStore;

use crate::Rushgate;

impl Rushgate {
    /// Default store: a file in the current directory.
    pub const DEFAULT_URL: &str = "sqlite:rushgate.db";

    /// Opens the store at `url` and checks its configuration:
    /// - `sqlite:PATH`: a file, created if missing; `sqlite::memory:`: in memory, for the lifetime of this
    ///   client;
    /// - `redis://[user[:password]@]host[:port][/database]`: a Redis or Valkey server;
    /// - `redis+sentinel://[user[:password]@]host[:port],…/service[/database]`: the primary of a service,
    ///   found through the sentinels named here;
    /// - `redis+cluster://[user[:password]@]host[:port],…`: a Redis Cluster, found through the nodes named
    ///   here;
    /// - `https://[token@]host[:port]`, or `http`: the store of a Rushgate server. Without a token in the URL, the
    ///   variable `RUSHGATE_TOKEN` may have one.
    ///
    /// Schemes that start with `rediss` use TLS. `valkey` and `valkeys` are synonyms of `redis` and `rediss`.
    /// Certificates are checked against the system's root certificates, or those in the file named by
    /// `SSL_CERT_FILE`.
    ///
    /// A Redis store runs on the runtime in which it is opened, if that has worker threads (`tokio::main`),
    /// and lives as long. On a current-thread runtime it starts a thread of its own.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for an unsupported URL.
    /// [`is_misconfigured`](Error::is_misconfigured), with the name of the setting, for a server that cannot
    /// keep the guarantees. [`is_unavailable`](Error::is_unavailable) if the store cannot be reached. None of
    /// them changes data.
    pub async fn connect(url: &str) -> Result<Self> {
        Ok(Self::with_store(open(url).await?))
    }
}

async fn open(url: &str) -> Result<Arc<dyn Store>> {
    let scheme = url.split_once(':').map(|(scheme, _)| scheme);
    match scheme {
        #[cfg(feature = "sqlite")]
        Some("sqlite") => open_sqlite(url.to_owned()).await,
        #[cfg(feature = "redis")]
        Some(scheme) if is_redis(scheme) => Ok(Arc::new(RedisStore::open(url).await?)),
        #[cfg(feature = "http")]
        Some("http" | "https") => Ok(Arc::new(HttpStore::open(url).await?)),
        _ => Err(unsupported(scheme)),
    }
}

#[cfg(feature = "sqlite")]
/// Runs on a blocking thread: opening a file may wait for another process.
async fn open_sqlite(url: String) -> Result<Arc<dyn Store>> {
    let opened = tokio::task::spawn_blocking(move || SqliteStore::open(&url)).await;
    let opened = opened.map_err(|error| Error::bug("opening the store panicked").caused_by(error))?;
    Ok(Arc::new(opened?))
}

/// The text after the scheme may contain a password, so the message omits it.
fn unsupported(scheme: Option<&str>) -> Error {
    let has = scheme.map_or("no scheme".to_owned(), |scheme| format!("the scheme `{scheme}`"));
    let lacks = match scheme {
        Some("sqlite") if !cfg!(feature = "sqlite") => Some("sqlite"),
        Some(scheme) if !cfg!(feature = "redis") && is_redis(scheme) => Some("redis"),
        Some("http" | "https") if !cfg!(feature = "http") => Some("http"),
        _ => None,
    };
    match lacks {
        Some(feature) => Error::invalid("the store's URL", format_args!("has {has}, which this build does not support"))
            .hint(format_args!("enable the feature `{feature}` of the crate `rushgate`")),
        None => Error::invalid(
            "the store's URL",
            format_args!("has {has}; it must be `sqlite`, `redis`, `redis+sentinel`, `redis+cluster` or `https`"),
        )
        .hint("use sqlite:PATH, sqlite::memory:, redis://HOST:PORT, redis+sentinel://HOST:PORT,…/SERVICE or redis+cluster://HOST:PORT,…, rediss for TLS; https://HOST for a server"),
    }
}

fn is_redis(scheme: &str) -> bool {
    let (name, deployment) = scheme.split_once('+').unwrap_or((scheme, ""));
    matches!(name, "redis" | "rediss" | "valkey" | "valkeys")
        && matches!(deployment, "" | "sentinel" | "cluster")
}
