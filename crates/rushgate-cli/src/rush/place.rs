//! Where a rush keeps its files: where it was told to, or in a folder of its own.

use std::path::PathBuf;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::globals::Globals;

/// The two URLs, and the folder of a run that was not told where to keep its files.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) store_url: String,
    pub(super) orders_url: String,
    pub(super) folder: Option<PathBuf>,
}

impl Place {
    /// Makes the folder, if there is to be one. It goes away with the second value, unless it is to be kept.
    pub(super) fn find(globals: &Globals, keep: bool) -> Result<(Self, Option<TempDir>)> {
        let (folder, store_url) = match &globals.store {
            Some(url) => (None, url.clone()),
            None => {
                let made = tempfile::Builder::new().prefix("rushgate-rush-").disable_cleanup(keep).tempdir();
                let folder = made.context("no temporary directory can be made")?;
                let url = format!("sqlite:{}", folder.path().join("store.db").display());
                (Some(folder), url)
            }
        };
        let orders_url = globals.orders.clone().unwrap_or_else(|| beside(&store_url));
        let path = folder.as_ref().map(|folder| folder.path().to_owned());
        Ok((Self { store_url, orders_url, folder: path }, folder))
    }
}

/// The ledger of a store that has a file: another file beside it. That of a server: a file in the current directory.
fn beside(store: &str) -> String {
    let Some(path) = store.strip_prefix("sqlite:") else {
        return "sqlite:rushgate.orders.db".into();
    };
    let path = path.split('?').next().unwrap_or(path);
    if path == ":memory:" {
        return "sqlite::memory:".into();
    }
    format!("sqlite:{}.orders.db", path.strip_suffix(".db").unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use super::beside;

    #[test]
    fn the_ledger_stands_beside_the_store() {
        assert_eq!(beside("sqlite:shop.db?durability=process"), "sqlite:shop.orders.db");
        assert_eq!(beside("sqlite:/data/shop"), "sqlite:/data/shop.orders.db");
        assert_eq!(beside("sqlite::memory:"), "sqlite::memory:");
        assert_eq!(beside("redis://:secret@host/3"), "sqlite:rushgate.orders.db");
    }
}
