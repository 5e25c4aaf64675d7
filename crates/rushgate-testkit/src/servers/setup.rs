use std::sync::Arc;

use super::Certificates;
use super::redis::Kind;
use crate::ManualClock;

/// How to start a server, or a group of them.
#[derive(Clone, Debug)]
pub struct Setup<S> {
    pub(super) settings: Settings,
    pub(super) shape: S,
}

/// What every server of a group has.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) kind: Kind,
    pub(super) arguments: Vec<String>,
    pub(super) clock: Option<ManualClock>,
    /// If there are any, TLS is the only way to it.
    pub(super) certificates: Option<Arc<Certificates>>,
    pub(super) password: Option<String>,
}

impl Settings {
    pub(super) fn of(kind: Kind) -> Self {
        Self { kind, arguments: Vec::new(), clock: None, certificates: None, password: None }
    }

    /// The scheme of a URL.
    pub(super) fn scheme(&self) -> &'static str {
        if self.certificates.is_some() { "rediss" } else { "redis" }
    }
}

impl<S> Setup<S> {
    /// With further settings, such as `--maxmemory`, `1gb`. Sentinels do not get them.
    #[must_use]
    pub fn with(mut self, arguments: &[&str]) -> Self {
        self.settings.arguments.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        self
    }

    /// On a clock that stands still until the test moves it. Sentinels are not on it, and in a Cluster nobody is
    /// missed then, however far it jumps.
    #[must_use]
    pub fn on(mut self, clock: ManualClock) -> Self {
        self.settings.clock = Some(clock);
        self
    }

    /// Behind TLS alone, with a certificate for 127.0.0.1 whose authority is trusted where
    /// [`again_trusting`](super::again_trusting) has led.
    #[must_use]
    pub fn encrypted(mut self) -> Self {
        self.settings.certificates = Some(Arc::new(Certificates::of_this_process()));
        self
    }

    /// Everybody wants that password, and knows it.
    #[must_use]
    pub fn guarded(mut self, password: &str) -> Self {
        self.settings.password = Some(password.to_owned());
        self
    }
}
