//! Adds units to a sale and withdraws them.

use rushgate_core::{EventKind, Sku, StockChange, StockChanged, UnitRange, verb};

use super::units::{Units, read_range};
use super::{Sale, check_count, on_sale};
use crate::fault::Result;
use crate::sql::sql;
use crate::step::Step;
use crate::stored::{json, read_json};

pub(crate) fn stock(step: &mut Step<'_>, v: &verb::Stock) -> Result<StockChanged> {
    let verb::Stock { op, sale: id, sku, change } = v;
    // The answer is stored in the file, because an operator's retry may come after a restart.
    let asked = json(&(id, sku, change))?;
    let kept = step.row(sql!("sale/stock", "kept"), [op.to_bytes()], |row| {
        Ok((row.get::<_, String>(0)?, read_json(row, 1)?))
    })?;
    if let Some((first, answer)) = kept {
        return Ok(if first == asked { answer } else { StockChanged::KeyReused });
    }
    let changed = on_sale(step, id, |sale| sale.stock(sku, *change))?;
    let now = step.now_us();
    let too_old = now.saturating_sub_unsigned(StockChange::REMEMBERED.as_micros() as u64);
    step.exec(sql!("sale/stock", "forget"), [too_old])?;
    step.exec(sql!("sale/stock", "keep"), (op.to_bytes(), now, asked, json(&changed)?))?;
    Ok(changed)
}

impl Sale<'_, '_> {
    pub(super) fn stock(&mut self, sku: &Sku, change: StockChange) -> Result<StockChanged> {
        let at = self.at(sku)?;
        if self.row.halted.is_some() {
            return Ok(StockChanged::Halted);
        }
        let row = &self.row.skus[at];
        if let Some(refusal) = change.refusal(row.total, row.free(), row.fresh()) {
            return Ok(refusal);
        }
        match change {
            StockChange::Add(n) => self.add_stock(at, n)?,
            StockChange::Withdraw(n) => self.withdraw_stock(at, n)?,
        }
        Ok(StockChanged::Changed(self.row.skus[at].state()))
    }

    fn add_stock(&mut self, at: usize, n: u32) -> Result<()> {
        let row = &mut self.row.skus[at];
        let added = UnitRange::new(row.total + 1, row.total + n);
        row.total += n;
        row.changed = true;
        self.append(EventKind::StockAdded, None, &Units::of(at, added)).map(drop)
    }

    /// Withdraws the highest free units: fresh ones first, then released ones.
    fn withdraw_stock(&mut self, at: usize, n: u32) -> Result<()> {
        let fresh = self.row.skus[at].fresh().min(n);
        let returned = self.take_returned(at, sql!("sale/unit", "take_highest"), n - fresh)?;
        for range in &returned {
            self.withdraw_range(at, *range)?;
        }
        let fresh = self.withdraw_fresh(at, fresh)?;
        self.row.skus[at].withdrawn += n;
        self.row.skus[at].changed = true;
        let units = Units::of(at, returned.iter().chain(&fresh).copied());
        self.append(EventKind::StockWithdrawn, None, &units).map(drop)
    }

    fn withdraw_range(&mut self, at: usize, range: UnitRange) -> Result<()> {
        let params = (self.row.no, at, range.first(), range.last());
        self.step.exec(sql!("sale/unit", "withdraw"), params).map(drop)
    }

    /// Withdraws the highest fresh units and returns them. All withdrawn ranges from the lowest of them up are
    /// replaced by one.
    fn withdraw_fresh(&mut self, at: usize, n: u32) -> Result<Vec<UnitRange>> {
        let taken = self.highest_fresh(at, n)?;
        let row = &mut self.row.skus[at];
        if let Some(out) = taken.first().and_then(|lowest| UnitRange::new(lowest.first(), row.total)) {
            row.ahead += n;
            let from = (self.row.no, at, out.first());
            self.step.exec(sql!("sale/unit", "forget_withdrawn_from"), from)?;
            self.withdraw_range(at, out)?;
        }
        Ok(taken)
    }

    /// The highest `n` fresh units, in ascending order.
    fn highest_fresh(&mut self, at: usize, n: u32) -> Result<Vec<UnitRange>> {
        let (no, next) = (self.row.no, self.row.skus[at].next);
        let (mut ranges, mut left, mut top) = (Vec::new(), n, self.row.skus[at].total);
        while left > 0 && top > next {
            let sql = sql!("sale/unit", "withdrawn_down_from");
            let withdrawn = self.step.row(sql, (no, at, next, top), read_range)?;
            let bottom = withdrawn.map_or(next, UnitRange::last);
            if let Some(range) = UnitRange::new(bottom + 1, top).and_then(|range| range.highest(left)) {
                left -= range.count();
                ranges.push(range);
            }
            top = withdrawn.map_or(next, |range| range.first() - 1);
        }
        check_count(left)?;
        ranges.reverse();
        Ok(ranges)
    }
}
