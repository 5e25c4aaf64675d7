//! What the checks found.

use std::fmt;
use std::path::PathBuf;

use anyhow::Error;
use serde::Serialize;

use crate::exit::Verdict;

/// A failed check and its fix.
#[derive(Serialize)]
pub(super) struct Finding {
    pub(super) what: String,
    pub(super) fix: String,
}

/// The findings.
#[derive(Default, Serialize)]
pub(super) struct Findings {
    pub(super) store: String,
    pub(super) server: String,
    pub(super) durability: String,
    pub(super) promise: &'static str,
    pub(super) schema: Option<u32>,
    pub(super) file: Option<PathBuf>,
    pub(super) file_bytes: Option<u64>,
    pub(super) log_bytes: Option<u64>,
    pub(super) free_bytes: Option<u64>,
    pub(super) queues: usize,
    pub(super) tasks: u64,
    pub(super) dead_letters: u64,
    pub(super) locks_held: usize,
    pub(super) locks_waited_for: usize,
    pub(super) sales: usize,
    pub(super) ledger: Option<String>,
    pub(super) ledger_server: Option<String>,
    pub(super) functions: Option<&'static str>,
    #[serde(skip)]
    pub(super) functions_in_words: Option<String>,
    pub(super) warnings: Vec<Finding>,
}

impl Findings {
    pub(super) fn warn(&mut self, what: impl Into<String>, fix: impl Into<String>) {
        self.warnings.push(Finding { what: what.into(), fix: fix.into() });
    }

    /// Adds a finding for a failed step. `fix` is used if the error has no hint of its own.
    pub(super) fn failed(&mut self, what: impl fmt::Display, error: &Error, fix: &str) {
        let Verdict { message, hint, .. } = Verdict::of(error);
        self.warn(format!("{what}: {message}"), hint.unwrap_or_else(|| fix.to_owned()));
    }
}

/// A size with its unit.
pub(super) fn bytes(n: u64) -> String {
    match n {
        0..=9_999 => format!("{n} bytes"),
        10_000..=9_999_999 => format!("{} KiB", n >> 10),
        10_000_000..=9_999_999_999 => format!("{} MiB", n >> 20),
        _ => format!("{} GiB", n >> 30),
    }
}
