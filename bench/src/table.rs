//! Rows of two figures and their ratio, each the median of rounds measured in turns.

use std::time::Duration;

use anyhow::Result;

/// Length and number of measurements of each figure; the median is printed.
pub const LENGTH: Duration = Duration::from_millis(1_500);
pub const ROUNDS: usize = 3;

pub struct Table {
    word: Option<String>,
    /// Omits the raw figures.
    alone: bool,
}

impl Table {
    pub fn new(word: Option<String>, alone: bool) -> Self {
        Self { word, alone }
    }

    /// True if the row is selected.
    pub fn wants(&self, row: &str) -> bool {
        self.word.as_ref().is_none_or(|word| row.contains(word))
    }

    /// True if the selecting word contains `part`.
    pub fn names(&self, part: &str) -> bool {
        self.word.as_ref().is_some_and(|word| word.contains(part))
    }

    pub fn head(&self, title: &str) {
        println!("\n{title}\n{:<52} {:>12} {:>12} {:>7}", "", "rushgate", "raw", "ratio");
    }

    /// Medians of our figure and of the raw one, measured in turns, the raw one first.
    pub fn row(
        &self,
        name: &str,
        mut ours: impl FnMut() -> Result<f64>,
        mut raw: impl FnMut() -> Result<f64>,
    ) -> Result<()> {
        if !self.wants(name) {
            return Ok(());
        }
        let (mut mine, mut ceiling) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            ceiling.push(if self.alone { f64::NAN } else { raw()? });
            mine.push(ours()?);
        }
        let (mine, ceiling) = (median(mine), median(ceiling));
        println!("{name:<52} {mine:>12.1} {ceiling:>12.1} {:>7.2}", mine / ceiling);
        Ok(())
    }
}

pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// The value below which `share` of the figures lies.
pub fn quantile(figures: &mut [f64], share: f64) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[((figures.len() - 1) as f64 * share) as usize]
}

pub fn machine() {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": unknown CPU");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let model = model.trim_start_matches(['\t', ' ', ':']);
    println!("{cores} cores, {model}; medians of {ROUNDS} rounds of {LENGTH:?}, in turns");
}
