//! Options shared by all commands.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use rushgate::store::StoreCalls;
use rushgate::{Error, Ledger, Rushgate};
use tempfile::TempDir;

use crate::exit::{Exit, Fault};
use crate::log;
use crate::output::{Output, counted};

/// Shared options, after environment and file are applied.
#[derive(Clone, Debug)]
pub(crate) struct Globals {
    /// URL of the store, or of the server in its place, if set.
    pub(crate) store: Option<String>,
    /// URL of the ledger, if set.
    pub(crate) orders: Option<String>,
    /// Name of the profile, if set.
    pub(crate) profile: Option<String>,
    /// Output of this command.
    pub(crate) output: Output,
}

impl Globals {
    /// URL of the store or the server, or the default.
    pub(crate) fn store_url(&self) -> &str {
        self.store.as_deref().unwrap_or(Rushgate::DEFAULT_URL)
    }

    /// These options, with store and ledger in a temporary directory if no store is set. Dropping the
    /// directory deletes it, unless `keep` is set.
    pub(crate) fn or_temporary(&self, prefix: &str, keep: bool) -> Result<(Self, Option<TempDir>)> {
        let mut globals = self.clone();
        if globals.store.is_some() {
            return Ok((globals, None));
        }
        let folder = tempfile::Builder::new().prefix(prefix).disable_cleanup(keep).tempdir();
        let folder = folder.context("cannot create a temporary directory")?;
        let file = |name: &str| format!("sqlite:{}", folder.path().join(name).display());
        globals.store = Some(file("store.db"));
        globals.orders.get_or_insert_with(|| file("store.orders.db"));
        Ok((globals, Some(folder)))
    }

    /// Opens the store, runs `work`, and closes the store on every path out.
    pub(crate) async fn with_client<F, Fut>(&self, work: F) -> Result<Exit>
    where
        F: FnOnce(Rushgate) -> Fut,
        Fut: Future<Output = Result<Exit>>,
    {
        let output = self.output;
        if output.verbose {
            log::show(output);
        }
        let client = Rushgate::connect(self.store_url()).await?;
        let info = client.info();
        output.detail(format_args!("store {}, {}, {}", info.url, info.server, info.durability.name()));
        let done = work(client.clone()).await;
        let closed = client.close().await;
        let StoreCalls { calls, transactions, statements } = client.calls();
        output.detail(format_args!(
            "{} to the store: {}, {}",
            counted(calls, "call"),
            counted(transactions, "write transaction"),
            counted(statements, "statement")
        ));
        let exit = done?;
        closed?;
        Ok(exit)
    }

    /// Opens the ledger.
    pub(crate) async fn ledger(&self) -> Result<Arc<dyn Ledger>> {
        open_ledger(self.ledger_url()?).await
    }

    /// Opens the ledger for commands that can start while its server is unreachable: it connects as soon as
    /// it can.
    pub(crate) async fn ledger_when_it_can(&self) -> Result<Arc<dyn Ledger>> {
        let url = self.ledger_url()?;
        Ok(tokio::task::spawn_blocking(move || rushgate::sale::connect_ledger_when_it_can(&url)).await??)
    }

    /// Opens the ledger for reading. A missing file is an error, not created.
    pub(crate) async fn ledger_to_look_at(&self) -> Result<Arc<dyn Ledger>> {
        let url = self.ledger_url()?;
        must_exist(&url).map_err(|error| error.hint("check --orders; `sale work` creates the file"))?;
        open_ledger(url).await
    }

    fn ledger_url(&self) -> Result<String, Fault> {
        self.orders.clone().ok_or_else(|| {
            Fault::usage("no ledger is set")
                .hint("pass --orders sqlite:orders.db, or set RUSHGATE_ORDERS or `orders` in rushgate.toml")
        })
    }
}

/// The URL of the store or of the server, whichever is set. The names are those of the two settings, for errors.
pub(crate) fn place(
    store: Option<String>,
    url: Option<String>,
    [of_store, of_url]: [&str; 2],
) -> Result<Option<String>, Fault> {
    // A URL may contain a password, so the messages omit it.
    match (store, url) {
        (Some(_), Some(_)) => Err(Fault::usage(format_args!("{of_store} and {of_url} exclude each other"))
            .hint(format_args!("keep {of_store} for a store, or {of_url} for a Rushgate server"))),
        (Some(store), None) if is_http(&store) => {
            Err(Fault::usage(format_args!("{of_store} is the URL of a server, not of a store"))
                .hint(format_args!("set it as {of_url}")))
        }
        (None, Some(url)) if !is_http(&url) => Err(Fault::usage(format_args!(
            "{of_url} is not the URL of a server"
        ))
        .hint(format_args!("use https://HOST[:PORT] or http://HOST[:PORT]; for a store, set {of_store}"))),
        (store, url) => Ok(store.or(url)),
    }
}

/// Whether the URL is that of a Rushgate server.
pub(crate) fn is_http(url: &str) -> bool {
    url.starts_with("http://") || url.starts_with("https://")
}

/// The file that a URL names, if any.
pub(crate) fn file_of(url: &str) -> Option<PathBuf> {
    let path = url.strip_prefix("sqlite:")?;
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    let path = path.strip_prefix("//").unwrap_or(path);
    (path != ":memory:" && !path.is_empty()).then(|| path.into())
}

/// Refuses a missing file. For a missing directory, the store has a better message.
pub(crate) fn must_exist(url: &str) -> Result<(), Error> {
    match file_of(url) {
        Some(file) if !file.exists() && directory_of(&file).exists() => {
            Err(Error::misconfigured(format_args!("file `{}` does not exist", file.display()))
                .hint("check the path; commands that write create the file"))
        }
        _ => Ok(()),
    }
}

fn directory_of(file: &Path) -> &Path {
    match file.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// Opens a ledger. Opening a file may wait for another process.
pub(crate) async fn open_ledger(url: String) -> Result<Arc<dyn Ledger>> {
    Ok(tokio::task::spawn_blocking(move || rushgate::connect_ledger(&url)).await??)
}
