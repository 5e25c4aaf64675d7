//! `rushgate doctor`: what the store is, what it promises, and what is amiss.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Result;
use rushgate::{Durability, Page, Rushgate, StoreInfo};
use rustix::fs::{statfs, statvfs};
use serde::Serialize;

use crate::exit::Exit;
use crate::globals::{Globals, file_of};
use crate::output::{Output, Paint, counted};

/// Below this, a store may soon have no room.
const FREE_MIN: u64 = 256 << 20;
/// A log that is larger has a reader that does not end.
const LOG_MAX: u64 = 512 << 20;
/// File systems on which SQLite's locks cannot be trusted, by their magic numbers.
const NETWORK: [(i64, &str); 4] =
    [(0x6969, "NFS"), (0x517B, "SMB"), (0xFF53_4D42, "CIFS"), (0xFE53_4D42, "SMB2")];

/// The findings.
#[derive(Default, Serialize)]
struct Findings {
    store: String,
    server: String,
    durability: String,
    promise: &'static str,
    schema: Option<u32>,
    file: Option<PathBuf>,
    file_bytes: Option<u64>,
    log_bytes: Option<u64>,
    free_bytes: Option<u64>,
    queues: usize,
    tasks: u64,
    dead_letters: u64,
    locks_held: usize,
    locks_waited_for: usize,
    sales: usize,
    warnings: Vec<String>,
}

pub(crate) async fn run(globals: &Globals) -> Result<Exit> {
    let output = globals.output();
    let file = file_of(globals.store_url());
    globals
        .with_gate(async |gate| {
            let mut findings = findings(&gate.info());
            look_at_content(&gate, &mut findings).await?;
            if let Some(file) = file {
                look_at_file(&file, &mut findings);
            }
            output.data(&findings, text(&findings, output))?;
            Ok(Exit::Done)
        })
        .await
}

fn findings(info: &StoreInfo) -> Findings {
    let mut findings = Findings {
        store: info.url.clone(),
        server: info.server.clone(),
        durability: format!("{:?}", info.durability),
        promise: promise(info.durability),
        ..Findings::default()
    };
    if info.durability <= Durability::D1 {
        findings.warnings.push(format!("an acknowledged write survives {}", findings.promise));
    }
    findings
}

fn promise(durability: Durability) -> &'static str {
    match durability {
        Durability::D0 => "nothing: it ends with this process",
        Durability::D1 => "the death of a process, not a power cut",
        Durability::D2 => "a power cut on this machine",
        Durability::D3 => "the loss of a machine",
        Durability::D4 => "whatever the ledger's database survives",
    }
}

async fn look_at_content(gate: &Rushgate, findings: &mut Findings) -> Result<()> {
    let queues = gate.queues().await?;
    findings.queues = queues.len();
    for name in &queues {
        let stats = gate.queue(name)?.stats().await?;
        findings.tasks += stats.ready + stats.scheduled + stats.leased;
        findings.dead_letters += stats.dead;
        if stats.paused {
            findings.warnings.push(format!("queue {name} is paused"));
        }
        if stats.dead > 0 {
            findings.warnings.push(format!("queue {name} has {}", counted(stats.dead, "dead letter")));
        }
    }
    let page = || Page { limit: 10_000, ..Page::default() };
    let locks = gate.locks(page()).await?;
    findings.locks_held = locks.iter().filter(|lock| !lock.holders.is_empty()).count();
    findings.locks_waited_for = locks.iter().filter(|lock| !lock.waiters.is_empty()).count();
    findings.sales = gate.sales(page()).await?.len();
    Ok(())
}

fn look_at_file(file: &Path, findings: &mut Findings) {
    let mut log = file.as_os_str().to_owned();
    log.push("-wal");
    let size = |path: &Path| path.metadata().ok().map(|data| data.len());
    findings.file = Some(file.to_owned());
    findings.file_bytes = size(file);
    findings.log_bytes = size(Path::new(&log));
    findings.schema = schema(file);
    findings.free_bytes = statvfs(file).ok().map(|fs| fs.f_bavail.saturating_mul(fs.f_frsize));
    if let Some(free) = findings.free_bytes.filter(|free| *free < FREE_MIN) {
        findings.warnings.push(format!("only {} are free on the disk", bytes(free)));
    }
    if let Some(log) = findings.log_bytes.filter(|log| *log > LOG_MAX) {
        findings.warnings.push(format!("the log has {}; a reader may be holding it open", bytes(log)));
    }
    if let Some(name) = network(file) {
        findings
            .warnings
            .push(format!("the file is on {name}, where processes of several machines cannot share it"));
    }
}

/// The number in the file's header (<https://www.sqlite.org/fileformat.html#the_database_header>): "user version" at
/// offset 60. Zero means that it is still in the log.
fn schema(file: &Path) -> Option<u32> {
    let mut header = [0; 64];
    File::open(file).ok()?.read_exact(&mut header).ok()?;
    let version = u32::from_be_bytes([header[60], header[61], header[62], header[63]]);
    (version != 0).then_some(version)
}

fn network(file: &Path) -> Option<&'static str> {
    let kind = statfs(file).ok()?.f_type as i64;
    NETWORK.iter().find(|(magic, _)| *magic == kind).map(|(_, name)| *name)
}

fn bytes(n: u64) -> String {
    match n {
        0..=9_999 => format!("{n} bytes"),
        10_000..=9_999_999 => format!("{} KiB", n >> 10),
        10_000_000..=9_999_999_999 => format!("{} MiB", n >> 20),
        _ => format!("{} GiB", n >> 30),
    }
}

fn text(findings: &Findings, output: Output) -> String {
    let size = |n: Option<u64>| n.map_or("none".to_owned(), bytes);
    let mut lines = vec![
        ("store", findings.store.clone()),
        ("server", findings.server.clone()),
        (
            "durability",
            format!("{}: an acknowledged write survives {}", findings.durability, findings.promise),
        ),
    ];
    if findings.file.is_some() {
        lines.push(("schema", findings.schema.map_or("up to date".to_owned(), |schema| schema.to_string())));
        lines.push(("file", format!("{}, log {}", size(findings.file_bytes), size(findings.log_bytes))));
        lines.push(("free disk", size(findings.free_bytes)));
    }
    lines.extend([
        (
            "queues",
            format!(
                "{}, {}, {}",
                findings.queues,
                counted(findings.tasks, "task"),
                counted(findings.dead_letters, "dead letter")
            ),
        ),
        ("locks", format!("{} held, {} waited for", findings.locks_held, findings.locks_waited_for)),
        ("sales", findings.sales.to_string()),
    ]);
    let mut text: String = lines.iter().map(|(name, value)| format!("{name:<11} {value}\n")).collect();
    for warning in &findings.warnings {
        text += &format!("{}     {warning}\n", output.paint(Paint::Notice, "warning"));
    }
    if findings.warnings.is_empty() {
        text += &format!("{}\n", output.paint(Paint::Good, "all is well"));
    }
    text
}
