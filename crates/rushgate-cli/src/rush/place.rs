//! Location of a simulation's files: as configured, or a temporary directory.

use std::path::PathBuf;

use anyhow::Result;
use tempfile::TempDir;

use crate::globals::Globals;

/// URLs of store and ledger, and the temporary directory if neither was configured.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) store_url: String,
    pub(super) orders_url: String,
    pub(super) folder: Option<PathBuf>,
}

impl Place {
    /// Creates the temporary directory if needed. Dropping the second value deletes it, unless `keep` is set.
    pub(super) fn find(globals: &Globals, keep: bool) -> Result<(Self, Option<TempDir>)> {
        let (globals, folder) = globals.or_temporary("rushgate-rush-", keep)?;
        let store_url = globals.store_url().to_owned();
        let orders_url = globals.orders.unwrap_or_else(|| beside(&store_url));
        let path = folder.as_ref().map(|folder| folder.path().to_owned());
        Ok((Self { store_url, orders_url, folder: path }, folder))
    }
}

/// Default ledger: next to the file of a SQLite store, or in the current directory for a server.
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
