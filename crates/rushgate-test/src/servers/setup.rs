use std::sync::Arc;

use super::Certificates;
use crate::ManualClock;

/// Server software.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `redis-server`.
    Redis,
    /// `valkey-server`.
    Valkey,
}

impl Kind {
    /// Name of the program.
    pub const fn program(self) -> &'static str {
        match self {
            Self::Redis => "redis-server",
            Self::Valkey => "valkey-server",
        }
    }

    pub(super) const fn install(self) -> &'static str {
        match self {
            Self::Redis => "apt-get install redis-server",
            Self::Valkey => "apt-get install valkey-server (Debian 12 has it in backports)",
        }
    }
}

/// Configuration of a server, or of a group of servers.
#[derive(Clone, Debug)]
pub struct Setup<S> {
    pub(super) settings: Settings,
    pub(super) shape: S,
}

/// Settings of every server of a group.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) kind: Kind,
    pub(super) arguments: Vec<String>,
    pub(super) clock: Option<ManualClock>,
    /// Certificates; if set, the server accepts only TLS.
    pub(super) certificates: Option<Arc<Certificates>>,
    pub(super) password: Option<String>,
}

impl Settings {
    pub(super) fn of(kind: Kind) -> Self {
        Self { kind, arguments: Vec::new(), clock: None, certificates: None, password: None }
    }

    /// URL scheme.
    pub(super) fn scheme(&self) -> &'static str {
        if self.certificates.is_some() { "rediss" } else { "redis" }
    }
}

impl<S> Setup<S> {
    /// Adds settings, such as `--maxmemory`, `1gb`. They do not apply to sentinels.
    #[must_use]
    pub fn with(mut self, arguments: &[&str]) -> Self {
        self.settings.arguments.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        self
    }

    /// Uses a clock that moves only on request. Sentinels do not use it. In a Cluster, no node is then considered
    /// down, however far the clock jumps.
    #[must_use]
    pub fn on(mut self, clock: ManualClock) -> Self {
        self.settings.clock = Some(clock);
        self
    }

    /// Accepts only TLS, with a certificate for 127.0.0.1. Its authority is trusted in processes started by
    /// [`again_trusting`](super::again_trusting).
    #[must_use]
    pub fn encrypted(mut self) -> Self {
        self.settings.certificates = Some(Arc::new(Certificates::of_this_process()));
        self
    }

    /// Requires a password, which all servers of the group use.
    #[must_use]
    pub fn guarded(mut self, password: &str) -> Self {
        self.settings.password = Some(password.to_owned());
        self
    }
}
