//! The live line.

use std::io::{IsTerminal, Write, stderr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rushgate::{CancellationToken, Sale};
use tokio::task::JoinHandle;

use super::stage::Stage;
use super::tally::{Tally, Told, per_second};
use crate::globals::Globals;

/// How often the line is drawn on a terminal, and elsewhere.
const DRAW_EVERY: Duration = Duration::from_millis(100);
const PRINT_EVERY: Duration = Duration::from_secs(1);

/// A line that is being drawn.
pub(super) struct Progress {
    drawing: Option<(JoinHandle<()>, CancellationToken)>,
}

/// Draws until it is finished; not at all if it was asked to be quiet.
pub(super) fn start(stage: &Stage, tally: Arc<Tally>, globals: &Globals) -> Progress {
    if globals.quiet {
        return Progress { drawing: None };
    }
    let stop = CancellationToken::new();
    let task = tokio::spawn(draw(stage.sale.clone(), tally, stop.clone()));
    Progress { drawing: Some((task, stop)) }
}

impl Progress {
    pub(super) async fn finish(self) {
        if let Some((task, stop)) = self.drawing {
            stop.cancel();
            let _ = task.await;
        }
    }
}

async fn draw(sale: Sale, tally: Arc<Tally>, stop: CancellationToken) {
    let terminal = stderr().is_terminal();
    let every = if terminal { DRAW_EVERY } else { PRINT_EVERY };
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + DRAW_EVERY, every);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let (mut seen, mut at) = (0, Instant::now());
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            _ = ticks.tick() => {}
        }
        let attempts = tally.attempts();
        let rate = per_second(attempts - seen, at.elapsed());
        (seen, at) = (attempts, Instant::now());
        let Ok(line) = line(&sale, &tally, attempts, rate).await else { continue };
        let mut out = stderr().lock();
        let _ = if terminal { write!(out, "\r\x1b[2K{}", fitting(&line)) } else { writeln!(out, "{line}") };
        let _ = out.flush();
    }
    if terminal {
        let _ = write!(stderr(), "\r\x1b[2K");
    }
}

async fn line(sale: &Sale, tally: &Tally, attempts: u64, rate: u64) -> rushgate::Result<String> {
    let state = sale.state().await?;
    let sum =
        |of: fn(&rushgate::SkuState) -> u32| state.skus.iter().map(|sku| u64::from(of(sku))).sum::<u64>();
    let told = |told| short(tally.count(told));
    Ok(format!(
        "{} attempts, {}/s | units: {} free, {} held, {} sold | told: yours {}, again {}, in carts {}, sold out {}, limit {}",
        short(attempts),
        short(rate),
        short(sum(|sku| sku.free)),
        short(sum(|sku| sku.held)),
        short(sum(|sku| sku.confirmed)),
        told(Told::Reserved),
        told(Told::Replayed),
        told(Told::AllHeld),
        told(Told::SoldOut),
        told(Told::LimitReached),
    ))
}

/// As much of the line as fits on the terminal: a line that wraps cannot be drawn over.
fn fitting(line: &str) -> &str {
    let columns = rustix::termios::tcgetwinsize(stderr()).map_or(80, |size| usize::from(size.ws_col));
    // The line is ASCII; the last column is left free, because some terminals wrap there.
    &line[..line.len().min(columns.max(2) - 1)]
}

/// `1234567` as `1.23M`.
fn short(n: u64) -> String {
    match n {
        0..10_000 => n.to_string(),
        10_000..1_000_000 => format!("{:.0}k", n as f64 / 1e3),
        _ => format!("{:.2}M", n as f64 / 1e6),
    }
}
