//! Numbered units in ranges, as columns hold them.

use rushgate_core::{Sku, UnitNumber, UnitRange};
use rusqlite::Row;

use crate::rows::sale::SkuRow;
use crate::stored::unreadable;

/// Units as `(index of the SKU, numbers)`. Adjacent numbers are merged.
#[derive(Clone, Debug, Default)]
pub(super) struct Units(pub(super) Vec<(usize, UnitRange)>);

impl Units {
    pub(super) fn push(&mut self, sku: usize, range: UnitRange) {
        match self.0.last_mut() {
            Some((of, before)) if *of == sku && before.last() + 1 == range.first() => {
                *before = UnitRange::new(before.first(), range.last()).unwrap_or(range);
            }
            _ => self.0.push((sku, range)),
        }
    }

    pub(super) fn of(sku: usize, ranges: impl IntoIterator<Item = UnitRange>) -> Self {
        let mut units = Self::default();
        ranges.into_iter().for_each(|range| units.push(sku, range));
        units
    }

    /// Iterates over the units.
    pub(super) fn each(&self) -> impl Iterator<Item = (usize, UnitNumber)> {
        self.0.iter().flat_map(|(sku, range)| range.numbers().map(move |unit| (*sku, unit)))
    }

    pub(super) fn count(&self) -> u64 {
        self.0.iter().map(|(_, range)| u64::from(range.count())).sum()
    }

    pub(super) fn per_sku(&self) -> Vec<(usize, u32)> {
        let mut counts: Vec<(usize, u32)> = Vec::new();
        for (sku, range) in &self.0 {
            match counts.iter_mut().find(|(of, _)| of == sku) {
                Some((_, n)) => *n += range.count(),
                None => counts.push((*sku, range.count())),
            }
        }
        counts
    }

    pub(super) fn write(&self) -> String {
        use std::fmt::Write;
        let mut text = String::with_capacity(self.0.len() * 8);
        for (sku, range) in &self.0 {
            let space = if text.is_empty() { "" } else { " " };
            let _ = write!(text, "{space}{sku}:{range}");
        }
        text
    }

    pub(super) fn read(text: &str) -> Option<Self> {
        let part = |part: &str| {
            let (sku, range) = part.split_once(':')?;
            Some((sku.parse().ok()?, range.parse().ok()?))
        };
        text.split_ascii_whitespace().map(part).collect::<Option<_>>().map(Self)
    }

    pub(super) fn named(&self, skus: &[SkuRow]) -> Vec<(Sku, UnitNumber)> {
        self.each().filter_map(|(sku, unit)| Some((skus.get(sku)?.sku.clone(), unit))).collect()
    }

    pub(super) fn named_ranges(&self, skus: &[SkuRow]) -> Vec<(Sku, UnitRange)> {
        self.0.iter().filter_map(|(sku, range)| Some((skus.get(*sku)?.sku.clone(), *range))).collect()
    }
}

pub(super) fn read_range(row: &Row<'_>) -> rusqlite::Result<UnitRange> {
    let range = UnitRange::try_from([row.get(0)?, row.get(1)?]);
    range.map_err(|error| unreadable(0, error))
}
