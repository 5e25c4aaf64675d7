use std::sync::Arc;

use rushgate_core::{Error, Result, Store};
use rushgate_redis::RedisStore;
use rushgate_sqlite::SqliteStore;

use crate::Rushgate;

impl Rushgate {
    /// The store that is used if none is named: a file in the current directory.
    pub const DEFAULT_URL: &str = "sqlite:rushgate.db";

    /// Opens the store at `url` and checks what it depends on:
    /// - `sqlite:PATH` for a file (made if there is none), `sqlite::memory:` for one that ends with this client;
    /// - `redis://[user[:password]@]host[:port][/database]` for a Redis or Valkey server;
    /// - `redis+sentinel://[user[:password]@]host[:port],…/service[/database]` for the primary of a service, which the
    ///   sentinels named here know;
    /// - `redis+cluster://[user[:password]@]host[:port],…` for a Cluster, by some of its nodes.
    ///
    /// In place of `redis`, `rediss` asks for TLS, and `valkey` and `valkeys` are other words for the same. Certificates
    /// are checked against the machine's authorities, or those in the file that `SSL_CERT_FILE` names.
    ///
    /// A store on servers goes on for as long as the runtime in which it is opened, if that has threads of its own
    /// (`tokio::main`); in one that is driven by `block_on` alone it starts a thread.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for a URL of another kind; [`is_misconfigured`](Error::is_misconfigured),
    /// in words that name the setting, for a store with which the promises cannot be kept;
    /// [`is_unavailable`](Error::is_unavailable) if it cannot be reached. None of them changes data.
    pub async fn connect(url: &str) -> Result<Self> {
        Ok(Self::with_store(open(url).await?))
    }
}

async fn open(url: &str) -> Result<Arc<dyn Store>> {
    let scheme = url.split_once(':').map(|(scheme, _)| scheme);
    match scheme.map(|scheme| scheme.split_once('+').unwrap_or((scheme, ""))) {
        Some(("sqlite", "")) => open_sqlite(url.to_owned()).await,
        Some(("redis" | "rediss" | "valkey" | "valkeys", "" | "sentinel" | "cluster")) => {
            Ok(Arc::new(RedisStore::open(url).await?))
        }
        _ => Err(unsupported(scheme)),
    }
}

/// Opening a file may wait for another process, so it must not hold up the runtime.
async fn open_sqlite(url: String) -> Result<Arc<dyn Store>> {
    let opened = tokio::task::spawn_blocking(move || SqliteStore::open(&url)).await;
    let opened = opened.map_err(|error| Error::bug("opening the store panicked").caused_by(error))?;
    Ok(Arc::new(opened?))
}

/// What follows the scheme may hold a password, so it is not repeated.
fn unsupported(scheme: Option<&str>) -> Error {
    let has = scheme.map_or("no scheme".to_owned(), |scheme| format!("the scheme `{scheme}`"));
    Error::invalid(
        "the store's URL",
        format_args!("has {has}; this build supports `sqlite`, `redis`, `redis+sentinel` and `redis+cluster`"),
    )
    .hint("use sqlite:PATH, sqlite::memory:, redis://HOST:PORT, redis+sentinel://HOST:PORT,…/SERVICE or redis+cluster://HOST:PORT,…; rediss for TLS")
}
