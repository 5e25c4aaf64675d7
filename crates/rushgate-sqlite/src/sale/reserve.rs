//! Reserves: takes units that were returned, and then fresh ones.

use rushgate_core::{
    Error, Reserve, Reserved, SaleSpec, SaleStatus, Timestamp, UnitChoice, UnitNumber, UnitRange,
};

use super::units::{Units, read_range};
use super::{Sale, check_count, next_expiry, on_sale, write_lines};
use crate::fault::Result;
use crate::sql::sql;
use crate::step::Step;

pub(crate) fn reserve(step: &mut Step<'_>, request: &Reserve) -> Result<Reserved> {
    on_sale(step, &request.sale, |sale| sale.reserve(request))
}

impl Sale<'_, '_> {
    pub(super) fn reserve(&mut self, request: &Reserve) -> Result<Reserved> {
        let lines = write_lines(&request.lines, request.choice);
        if let Some(row) = self.find(request.id)? {
            let hold = self.hold(&row);
            // The request of a reservation that was restored after a loss is unknown, so it cannot be compared.
            let same = row.lines == lines || row.lines.is_empty();
            return Ok(if same { Reserved::Replayed(hold) } else { Reserved::KeyReused });
        }
        let wanted = request.lines.iter().map(|line| Ok((self.at(&line.sku)?, line.quantity)));
        let wanted = wanted.collect::<Result<Vec<_>>>()?;
        if let Some(shut) = self.shut() {
            return Ok(shut);
        }
        if let Some(short) = self.short(request, &wanted)? {
            // Expired holds may be all that stands in the way.
            if self.expire(SaleSpec::SWEEP_MAX)? == 0 {
                return Ok(short);
            }
            if let Some(short) = self.short(request, &wanted)? {
                return Ok(short);
            }
        }
        let units = match request.choice {
            UnitChoice::Any => self.take_any(&wanted)?,
            UnitChoice::SameNumber => self.take_same(&wanted)?,
        };
        let deadline = self.step.now + self.row.spec.hold.get();
        let row = self.record(request.id, &request.buyer, lines, units, deadline)?;
        Ok(Reserved::Reserved(self.hold(&row)))
    }

    /// Why the sale refuses buyers now, if it does.
    fn shut(&self) -> Option<Reserved> {
        let spec = &self.row.spec;
        let now = self.step.now;
        match self.row.status {
            SaleStatus::Ended => Some(Reserved::Ended),
            SaleStatus::Created => Some(Reserved::NotOpen { opens_at: spec.opens_at }),
            SaleStatus::Open if spec.opens_at.is_some_and(|opens| now < opens) => {
                Some(Reserved::NotOpen { opens_at: spec.opens_at })
            }
            SaleStatus::Open if spec.closes_at.is_some_and(|closes| now >= closes) => Some(Reserved::Ended),
            SaleStatus::Open => self.retry_at().map(|retry_at| Reserved::Halted { retry_at }),
        }
    }

    /// When to retry, if the sale refuses buyers temporarily.
    fn retry_at(&self) -> Option<Timestamp> {
        let now = self.step.now;
        let halted = self.row.halted.map(|_| now + SaleSpec::ASK_AGAIN_AFTER);
        halted.or(self.row.receipts_until.filter(|until| now < *until))
    }

    /// Why the request cannot be served now, if so: the purchase limit, or the stock.
    pub(super) fn short(&mut self, request: &Reserve, wanted: &[(usize, u32)]) -> Result<Option<Reserved>> {
        for (sku, quantity) in wanted {
            let params = (self.row.no, request.buyer.as_str(), *sku);
            let has: u32 = self.step.value(sql!("sale/reserve", "has"), params)?.unwrap_or(0);
            let limit = self.row.skus[*sku].per_buyer;
            if has + quantity > limit {
                let sku = self.row.skus[*sku].sku.clone();
                return Ok(Some(Reserved::LimitReached { sku, limit, has }));
            }
        }
        let lacking = wanted.iter().find(|(sku, quantity)| self.row.skus[*sku].free() < *quantity);
        let lacking = match (lacking, request.choice) {
            (Some((sku, _)), _) => Some(*sku),
            (None, UnitChoice::SameNumber) if self.common(wanted)?.is_none() => Some(wanted[0].0),
            (None, _) => None,
        };
        lacking.map(|sku| self.nothing_left(sku)).transpose()
    }

    fn nothing_left(&mut self, sku: usize) -> Result<Reserved> {
        let row = &self.row.skus[sku];
        let (held, free, sku) = (row.held, row.free(), row.sku.clone());
        if held == 0 {
            return Ok(Reserved::SoldOut { sku, free });
        }
        Ok(Reserved::AllHeld { sku, free, next_expiry: next_expiry(self.step, self.row.no)? })
    }

    /// Takes units for each line, lowest first: released ones, then fresh ones.
    pub(super) fn take_any(&mut self, wanted: &[(usize, u32)]) -> Result<Units> {
        let mut units = Units::default();
        for (sku, quantity) in wanted {
            let again = self.row.skus[*sku].returned.min(*quantity);
            for range in self.take_returned(*sku, sql!("sale/unit", "take_lowest"), again)? {
                units.push(*sku, range);
            }
            let mut left = quantity - again;
            while let Some(range) = self.fresh_from(*sku, 1)?.and_then(|range| range.lowest(left)) {
                self.row.skus[*sku].pass(range);
                units.push(*sku, range);
                left -= range.count();
            }
            check_count(left)?;
        }
        Ok(units)
    }

    /// Takes released units, as selected by the statement.
    pub(super) fn take_returned(&mut self, sku: usize, sql: &'static str, n: u32) -> Result<Vec<UnitRange>> {
        if n == 0 {
            return Ok(Vec::new());
        }
        let mut numbers: Vec<UnitNumber> = self.step.rows(sql, (self.row.no, sku, n), |row| row.get(0))?;
        check_count(n - numbers.len() as u32)?;
        numbers.sort_unstable();
        let row = &mut self.row.skus[sku];
        row.returned -= n;
        row.changed = true;
        Ok(UnitRange::gather(numbers))
    }

    /// The fresh units from `from` up to the next withdrawn one.
    pub(super) fn fresh_from(&mut self, sku: usize, from: UnitNumber) -> Result<Option<UnitRange>> {
        let row = &self.row.skus[sku];
        let (mut first, mut last) = (from.max(row.next + 1), row.total);
        if row.ahead > 0 {
            let sql = sql!("sale/unit", "withdrawn_from");
            while let Some(withdrawn) = self.step.row(sql, (self.row.no, sku, first), read_range)? {
                if first < withdrawn.first() {
                    last = withdrawn.first() - 1;
                    break;
                }
                first = withdrawn.last() + 1;
            }
        }
        Ok(UnitRange::new(first, last))
    }

    /// The lowest number that is free in every line.
    ///
    /// Each line is asked for its lowest free number from a candidate on. The highest answer is the next candidate,
    /// until all lines agree.
    fn common(&mut self, wanted: &[(usize, u32)]) -> Result<Option<UnitNumber>> {
        let mut candidate = 1;
        loop {
            let mut highest = candidate;
            for (sku, _) in wanted {
                let Some(free) = self.lowest_free(*sku, candidate)? else { return Ok(None) };
                highest = highest.max(free);
            }
            if highest == candidate {
                return Ok(Some(candidate));
            }
            candidate = highest;
        }
    }

    fn lowest_free(&mut self, sku: usize, from: UnitNumber) -> Result<Option<UnitNumber>> {
        let fresh = self.fresh_from(sku, from)?.map(UnitRange::first);
        if self.row.skus[sku].returned == 0 {
            return Ok(fresh);
        }
        let again: Option<Option<u32>> =
            self.step.value(sql!("sale/unit", "lowest_from"), (self.row.no, sku, from))?;
        Ok(again.flatten().into_iter().chain(fresh).min())
    }

    pub(super) fn take_same(&mut self, wanted: &[(usize, u32)]) -> Result<Units> {
        let Some(unit) = self.common(wanted)? else {
            return Err(Error::bug("a shared unit number disappeared within a step").into());
        };
        let mut units = Units::default();
        for (sku, _) in wanted {
            self.take_number(*sku, unit)?;
            units.push(*sku, UnitRange::one(unit));
        }
        Ok(units)
    }

    /// Takes one free unit. Fresh units below it become released ones.
    pub(super) fn take_number(&mut self, sku: usize, unit: UnitNumber) -> Result<()> {
        if unit <= self.row.skus[sku].next {
            self.row.skus[sku].changed = true;
            self.step.exec(sql!("sale/unit", "take"), (self.row.no, sku, unit))?;
            self.row.skus[sku].returned -= 1;
            return Ok(());
        }
        let below = |range: UnitRange| UnitRange::new(range.first(), range.last().min(unit - 1));
        while let Some(passed) = self.fresh_from(sku, 1)?.and_then(below) {
            for number in passed.numbers() {
                self.step.exec(sql!("sale/unit", "free"), (self.row.no, sku, number))?;
            }
            self.row.skus[sku].returned += passed.count();
            self.row.skus[sku].pass(passed);
        }
        self.row.skus[sku].pass(UnitRange::one(unit));
        Ok(())
    }
}
