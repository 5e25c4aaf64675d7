//! The crate rslock. A grant has no fence, and a caller that finds the lock taken asks again after a random while.

use std::time::Duration;

use anyhow::{Result, anyhow};
use rslock::LockManager;

use crate::record::{Records, now};
use crate::{Settings, together, url};

const LEASE: Duration = Duration::from_secs(10);

pub async fn lock(settings: &Settings) -> Result<()> {
    let (manager, records) = (LockManager::new(vec![url()]), Records::new()?);
    let (end, hot, think) = (settings.end(), settings.get("hot") == 1, settings.millis("think_ms"));
    together(settings.get("callers"), |n| {
        let (manager, records) = (manager.clone(), records.clone());
        async move {
            for cycle in 0.. {
                if std::time::Instant::now() >= end {
                    break;
                }
                let name = if hot { "hot".to_owned() } else { format!("lock:{n}:{cycle}") };
                let asked = now();
                // Both in the way that waits without an end.
                let held = manager.acquire_no_guard(name.as_bytes(), LEASE).await;
                let held = held.map_err(|error| anyhow!("{error}"))?;
                let (got, leaving) = (now(), now());
                manager.unlock(&held).await;
                records.add(if hot { [n, asked, got, leaving] } else { [n, asked, now(), 0] });
                tokio::time::sleep(think).await;
            }
            Ok(())
        }
    })
    .await?;
    records.write()
}
