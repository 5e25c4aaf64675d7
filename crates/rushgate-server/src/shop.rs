//! What all requests share.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rushgate::{CancellationToken, Ledger, Rushgate};
use tokio::sync::Notify;

use crate::access::Door;
use crate::audit_log::AuditLog;
use crate::check::Checker;
use crate::cors::Origins;
use crate::events::{Live, Tails};
use crate::keys::Keys;
use crate::limits::Limits;
use crate::metrics::Metrics;

/// What all requests share.
pub(crate) struct Shop {
    pub gate: Rushgate,
    pub ledger: Option<Arc<dyn Ledger>>,
    pub door: Door,
    /// Whether it speaks TLS itself.
    pub is_tls: bool,
    /// Names, beside those of loopback, that a Host header may have where the door is open.
    pub hosts: Vec<String>,
    pub limits: Limits,
    /// Who is asked about buyers.
    pub check: Option<Checker>,
    /// Where it is written down what operators do.
    pub audit_log: Option<Arc<AuditLog>>,
    /// Pages of other origins that may ask.
    pub origins: Origins,
    pub keys: Arc<Keys>,
    pub metrics: Metrics,
    pub tails: Arc<Tails>,
    pub live: Arc<Live>,
    pub longest_wait: Duration,
    /// How long a body may take to arrive.
    pub arrival: Duration,
    /// Cancelled when the server begins to close: long waits end.
    pub closing: CancellationToken,
    /// Told when there may be a sale or a schedule that nobody looks after.
    pub more_to_look_after: Notify,
}

impl fmt::Debug for Shop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shop").field("gate", &self.gate).finish_non_exhaustive()
    }
}
