use std::time::Duration;

use rushgate_core::{Field, Lease, Result, check_label, check_range};

use super::Backoff;

/// Settings of a worker.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub concurrency: u32,
    pub prefetch: u32,
    pub lease: Duration,
    pub retry_policy: Backoff,
    pub timeout: Option<Duration>,
    pub grace: Duration,
    pub label: Option<String>,
    pub version: String,
    pub schedules: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            concurrency: 16,
            prefetch: 0,
            lease: Duration::from_secs(30),
            retry_policy: Backoff::default(),
            timeout: None,
            grace: Duration::from_secs(10),
            label: None,
            version: concat!("rushgate ", env!("CARGO_PKG_VERSION")).to_owned(),
            schedules: true,
        }
    }
}

impl Plan {
    pub fn check(&self) -> Result<Lease> {
        check_range(Field::Concurrency, self.concurrency.into(), 1, 10_000)?;
        check_range("the prefetch", self.prefetch.into(), 0, self.concurrency.into())?;
        check_label(Field::Worker, self.label.as_deref().unwrap_or_default())?;
        check_label("the version", &self.version)?;
        Lease::new(self.lease)
    }
}
