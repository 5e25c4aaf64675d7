//! State shared by all requests.

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use hyper::body::Bytes;
use rushgate::{CancellationToken, Ledger, Rushgate};
use tokio::sync::{Notify, Semaphore};

use crate::access::Authenticator;
use crate::audit_log::AuditLog;
use crate::check::Checker;
use crate::cors::Origins;
use crate::keys::Keys;
use crate::limits::Limits;
use crate::live::Live;
use crate::metrics::Metrics;

/// State shared by all requests.
pub(crate) struct App {
    pub client: Rushgate,
    pub ledger: Option<Arc<dyn Ledger>>,
    pub authenticator: Authenticator,
    /// Whether the server terminates TLS.
    pub is_tls: bool,
    /// Host names accepted without tokens, in addition to those of loopback.
    pub hosts: Vec<String>,
    pub limits: Limits,
    /// The bot check.
    pub check: Option<Checker>,
    /// The audit log of admin actions.
    pub audit_log: Option<Arc<AuditLog>>,
    /// Origins whose pages may send requests.
    pub origins: Origins,
    pub keys: Arc<Keys>,
    pub metrics: Metrics,
    pub live: Arc<Live>,
    /// The OpenAPI description, written when the first client asks for it.
    pub description: LazyLock<Bytes>,
    pub longest_wait: Duration,
    /// Time limit for the arrival of a request body.
    pub arrival: Duration,
    /// Canceled when the shutdown starts, to end long waits.
    pub closing: CancellationToken,
    /// Permit to audit a sale. One audit runs at a time: a sale with a million units takes a gigabyte meanwhile.
    pub auditing: Arc<Semaphore>,
    /// Notified when there may be a new sale or schedule without a background service.
    pub more_to_look_after: Notify,
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").field("client", &self.client).finish_non_exhaustive()
    }
}
