//! Drivers of the comparison: `rushgate-peers PEER VERB KEY=VALUE…`, with the verbs of
//! `bench/peers/README.md`. A driver prints nothing: it writes records, and `measure.py` reads them.

mod apalis;
mod lua;
mod ours;
mod record;
mod rslock;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

/// Settings of a run, as `KEY=VALUE`.
pub struct Settings(HashMap<String, u64>);

impl Settings {
    fn read(words: impl Iterator<Item = String>) -> Result<Self> {
        let pair = |word: String| {
            let (key, value) = word.split_once('=').context("settings are KEY=VALUE")?;
            Ok((key.to_owned(), value.parse().with_context(|| word.clone())?))
        };
        Ok(Self(words.map(pair).collect::<Result<_>>()?))
    }

    /// Value of a setting; 0 if it is missing.
    pub fn get(&self, key: &str) -> u64 {
        self.0.get(key).copied().unwrap_or(0)
    }

    pub fn millis(&self, key: &str) -> Duration {
        Duration::from_millis(self.get(key))
    }

    pub fn end(&self) -> Instant {
        Instant::now() + Duration::from_secs(self.get("seconds"))
    }
}

/// Content of a task: about 40 bytes as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Content {
    pub i: u64,
    p: String,
}

impl Content {
    pub fn new(i: u64) -> Self {
        Self { i, p: "0123456789abcdef".to_owned() }
    }
}

pub fn url() -> String {
    std::env::var("PEERS_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".to_owned())
}

/// Sleeps for `length`. Returns at once for zero, where the runtime would sleep until the next millisecond.
pub async fn pause(length: Duration) {
    if !length.is_zero() {
        tokio::time::sleep(length).await;
    }
}

/// Runs `caller` `callers` times concurrently.
pub async fn together<F>(callers: u64, caller: impl Fn(u64) -> F) -> Result<()>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let tasks: Vec<_> = (0..callers).map(|n| tokio::spawn(caller(n))).collect();
    for task in tasks {
        task.await??;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let (peer, verb) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let settings = Settings::read(words)?;
    match (peer.as_str(), verb.as_str()) {
        ("rushgate", "lock") => ours::lock(&settings).await,
        ("rushgate", "put") => ours::put(&settings).await,
        ("rushgate", "work") => ours::work(&settings).await,
        ("rushgate", "sale") => ours::sale(&settings).await,
        ("rslock", "lock") => rslock::lock(&settings).await,
        ("apalis", "put") => apalis::put(&settings).await,
        ("apalis", "work") => apalis::work(&settings).await,
        ("lua", "lock") => lua::lock(&settings).await,
        ("lua", "put") => lua::put(&settings).await,
        ("lua", "work") if settings.get("concurrency") == 0 => lua::work().await,
        ("lua", "work") => lua::drain(&settings).await,
        ("lua", "sale") => lua::sale(&settings).await,
        _ => bail!("no driver `{peer} {verb}`"),
    }
}
