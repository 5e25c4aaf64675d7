//! Records of 32 bytes, four numbers each, in a file per process under `PEERS_OUT`. See
//! `bench/peers/README.md` for their meaning.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Result;
use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of CLOCK_MONOTONIC, shared by all processes of the machine.
pub fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[derive(Clone)]
pub struct Records(Arc<Mutex<Unwritten>>);

struct Unwritten {
    file: File,
    bytes: Vec<u8>,
}

impl Records {
    pub fn new() -> Result<Self> {
        let folder = PathBuf::from(std::env::var("PEERS_OUT").unwrap_or_else(|_| ".".to_owned()));
        let file = File::create(folder.join(std::process::id().to_string()))?;
        Ok(Self(Arc::new(Mutex::new(Unwritten { file, bytes: Vec::new() }))))
    }

    pub fn add(&self, record: [u64; 4]) {
        let bytes = &mut self.0.lock().expect("nothing panics with it").bytes;
        for number in record {
            bytes.extend(number.to_le_bytes());
        }
    }

    pub fn write(&self) -> Result<()> {
        let unwritten = &mut *self.0.lock().expect("nothing panics with it");
        unwritten.file.write_all(&unwritten.bytes)?;
        unwritten.bytes.clear();
        Ok(())
    }

    /// Writes the records repeatedly, because a worker is killed at the end, and its file shows its progress.
    pub fn keep_writing(&self) {
        let records = self.clone();
        tokio::spawn(async move {
            while records.write().is_ok() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
    }
}
