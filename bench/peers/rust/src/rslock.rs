//! The crate rslock. A grant has no fence, and a caller polls with random delays while the lock is held.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use rslock::LockManager;

use crate::record::{Records, now};
use crate::{Settings, pause, together, url};

const LEASE: Duration = Duration::from_secs(10);

pub async fn lock(settings: &Settings) -> Result<()> {
    let (manager, records) = (LockManager::new(vec![url()]), Records::new()?);
    let (end, hot) = (settings.end(), settings.get("hot") == 1);
    let (hold, think) = (settings.millis("hold_ms"), settings.millis("think_ms"));
    together(settings.get("callers"), |n| {
        let (manager, records) = (manager.clone(), records.clone());
        async move {
            for cycle in 0.. {
                if Instant::now() >= end {
                    break;
                }
                let name = if hot { "hot".to_owned() } else { format!("lock:{n}:{cycle}") };
                let asked = now();
                // Both calls wait without a time limit.
                let held = manager.acquire_no_guard(name.as_bytes(), LEASE).await;
                let held = held.map_err(|error| anyhow!("{error}"))?;
                let got = now();
                pause(hold).await;
                let leaving = now();
                manager.unlock(&held).await;
                records.add(if hot { [n, asked, got, leaving] } else { [n, asked, now(), 0] });
                pause(think).await;
            }
            Ok(())
        }
    })
    .await?;
    records.write()
}
