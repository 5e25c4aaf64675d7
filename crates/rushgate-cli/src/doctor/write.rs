//! Checks that the store accepts a write.

use std::time::Duration;

use anyhow::Result;
use rushgate::{LockOutcome, Rushgate};

use super::findings::Findings;

/// Lock that the check acquires and releases.
const LOCK: &str = "rushgate:doctor";
/// Lease of the lock. If a check dies, the next one waits this long.
const LEASE: Duration = Duration::from_secs(1);

/// A readable store may still refuse writes: full disk, no memory, too few replicas.
pub(super) async fn attempt(client: &Rushgate, findings: &mut Findings) {
    if let Err(error) = write(client).await {
        findings.failed("a test write failed", &error, "check the server log");
    }
}

async fn write(client: &Rushgate) -> Result<()> {
    let lock = client.lock(LOCK)?.lease(LEASE).label("rushgate doctor");
    // Otherwise another `doctor` holds the lock, so the store accepts writes.
    if let LockOutcome::Held(guard) = lock.try_acquire().await? {
        guard.release().await?;
    }
    Ok(())
}
