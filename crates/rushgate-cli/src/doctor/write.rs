//! Whether the store takes a write.

use std::time::Duration;

use anyhow::Result;
use rushgate::{LockOutcome, Rushgate};

use super::Findings;

/// The lock that is taken and given back. Nobody else has a use for it.
const LOCK: &str = "rushgate:doctor";
/// What one who dies in between costs the next.
const LEASE: Duration = Duration::from_secs(1);

/// A store that can be read may yet refuse every write: a full disk, no memory, too few replicas.
pub(super) async fn attempt(gate: &Rushgate, findings: &mut Findings) {
    if let Err(error) = write(gate).await {
        findings.failed("a write fails", &error, "see the server's log");
    }
}

async fn write(gate: &Rushgate) -> Result<()> {
    let lock = gate.lock(LOCK)?.lease(LEASE).label("rushgate doctor");
    // The holder is another doctor, so the store takes writes.
    if let LockOutcome::Held(guard) = lock.try_acquire().await? {
        guard.release().await?;
    }
    Ok(())
}
