//! Live progress line.

use std::io::{IsTerminal, Write, stderr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rushgate::sale::SkuState;
use rushgate::{CancellationToken, Sale};
use tokio::task::JoinHandle;

use super::tally::{Tally, Told, per_second};
use crate::output::{CLEAR_LINE, Output};

/// Interval of updates: on a terminal, and elsewhere.
const DRAW_EVERY: Duration = Duration::from_millis(100);
const PRINT_EVERY: Duration = Duration::from_secs(1);

/// A running progress line.
pub(super) struct Progress {
    drawing: Option<(JoinHandle<()>, CancellationToken)>,
}

/// Draws the line until it is finished. Draws nothing with --quiet.
pub(super) fn start(sale: Sale, tally: Arc<Tally>, output: Output) -> Progress {
    if output.quiet {
        return Progress { drawing: None };
    }
    let stop = CancellationToken::new();
    let task = tokio::spawn(draw(sale, tally, stop.clone()));
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
        let Ok(state) = sale.state().await else { continue };
        let attempts = tally.attempts();
        let rate = per_second(attempts - seen, at.elapsed());
        (seen, at) = (attempts, Instant::now());
        let line = line(&state.skus, &tally, attempts, rate);
        let mut out = stderr().lock();
        let _ = if terminal {
            write!(out, "{CLEAR_LINE}{}", fitting(&line, columns()))
        } else {
            writeln!(out, "{line}")
        };
        let _ = out.flush();
    }
    if terminal {
        let _ = write!(stderr(), "{CLEAR_LINE}");
    }
}

fn line(skus: &[SkuState], tally: &Tally, attempts: u64, rate: u64) -> String {
    let sum = |of: fn(&SkuState) -> u32| skus.iter().map(|sku| u64::from(of(sku))).sum();
    let units =
        [(sum(|sku| sku.confirmed), "sold"), (sum(|sku| sku.held), "on hold"), (sum(|sku| sku.free), "free")];
    // The most important figures come first, because a narrow terminal cuts the line.
    let told = [
        (Told::Failed, "failed"),
        (Told::Halted, "halted"),
        (Told::SoldOut, "sold out"),
        (Told::AllHeld, "later"),
        (Told::LimitReached, "limit"),
        (Told::Replayed, "replay"),
    ];
    let told = told.map(|(told, what)| (tally.count(told), what));
    let tries = format!("{} tries, {}/s", short(attempts), short(rate));
    let parts = [tries, those_there(&units), those_there(&told)];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" | ")
}

/// Lists the kinds with a count above zero.
fn those_there(kinds: &[(u64, &str)]) -> String {
    let there = kinds.iter().filter(|(n, _)| *n > 0);
    there.map(|(n, what)| format!("{} {what}", short(*n))).collect::<Vec<_>>().join(", ")
}

fn columns() -> usize {
    rustix::termios::tcgetwinsize(stderr()).map_or(80, |size| usize::from(size.ws_col))
}

/// As many whole figures as fit, because a line that wraps cannot be redrawn.
fn fitting(line: &str, columns: usize) -> &str {
    // The line is ASCII. The last column stays free, because some terminals wrap there.
    let most = columns.max(2) - 1;
    if line.len() <= most {
        return line;
    }
    let end = line[..=most].rfind([',', '|']).unwrap_or(most);
    line[..end].trim_end()
}

/// `1234567` as `1.23M`: at most five characters for numbers below 1,000 million.
fn short(n: u64) -> String {
    match n {
        0..10_000 => n.to_string(),
        10_000..1_000_000 => format!("{}k", n / 1_000),
        1_000_000..10_000_000 => format!("{:.2}M", (n / 10_000) as f64 / 1e2),
        10_000_000..100_000_000 => format!("{:.1}M", (n / 100_000) as f64 / 1e1),
        _ => format!("{}M", n / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stock_fits_a_terminal_whatever_the_figures() {
        let n = 99_999_999;
        let units = those_there(&[(n, "sold"), (n, "on hold"), (n, "free")]);
        let line = format!("{} tries, {}/s | {units}", short(n), short(n));
        assert!(line.len() < 80, "{line}");
        assert_eq!(fitting(&line, 80), line);
    }

    #[test]
    fn a_usual_line_fits_with_all_that_was_told() {
        let units = those_there(&[(10, "sold"), (3, "on hold"), (0, "free")]);
        let told = those_there(&[(0, "failed"), (999_999, "sold out"), (999_999, "later"), (31, "replay")]);
        let line = format!("{} tries, {}/s | {units} | {told}", short(999_999_999), short(9_999_999));
        assert_eq!(
            fitting(&line, 80),
            "999M tries, 9.99M/s | 10 sold, 3 on hold | 999k sold out, 999k later, 31 replay"
        );
    }

    #[test]
    fn a_line_that_is_too_long_ends_with_a_whole_figure() {
        assert_eq!(fitting("1 tries, 2/s | 3 sold, 4 on hold", 32), "1 tries, 2/s | 3 sold");
        assert_eq!(fitting("1 tries, 2/s | 3 sold", 18), "1 tries, 2/s");
        assert_eq!(fitting("1 tries", 4), "1 t");
        assert_eq!(fitting("1 tries", 0), "1");
    }

    #[test]
    fn figures_are_short() {
        for (n, text) in [
            (0, "0"),
            (9_999, "9999"),
            (999_999, "999k"),
            (1_234_567, "1.23M"),
            (9_999_999, "9.99M"),
            (99_999_999, "99.9M"),
            (999_999_999, "999M"),
        ] {
            assert_eq!(short(n), text);
        }
    }
}
