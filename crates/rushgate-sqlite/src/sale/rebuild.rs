//! Rebuild after lost writes: the sale is halted, the ledger's data is loaded beside it, and then replaces it.
//!
//! The loaded data is a sale of its own, in another part of the table, until the switch renumbers the parts.

use rushgate_core::{
    Error, EventKind, Halt, HaltReason, LedgerOrder, Load, Log, Op, OrderIntent, Rebuilt, Receipt, Reserve,
    Reserved, Restored, SaleId, SaleSpec, Sku, Switch, Timestamp, Topic, UnitChoice, UnitNumber, UnitRange,
    verb,
};

use super::units::Units;
use super::{LIVE, STAGED, Sale, insert, load, on_sale};
use crate::fault::Result;
use crate::rows::sale::SaleRow;
use crate::sql::sql;
use crate::step::Step;

impl Sale<'_, '_> {
    fn with_ledger(&self) -> Result<()> {
        match self.row.spec.ledger {
            true => Ok(()),
            false => Err(Error::invalid("the sale", "has no ledger to rebuild from").into()),
        }
    }

    fn halt(&mut self, reason: HaltReason) -> Result<()> {
        if self.row.halted.is_none() {
            self.row.halted = Some(Halt { reason, since: self.step.now });
            self.append(EventKind::Halted, None, &Units::default())?;
        }
        Ok(())
    }

    fn load_orders(&mut self, orders: &[LedgerOrder]) -> Result<()> {
        for order in orders {
            if self.find(order.id)?.is_none() {
                self.load_order(order)?;
            }
        }
        Ok(())
    }

    fn load_order(&mut self, order: &LedgerOrder) -> Result<()> {
        let units = self.units_of(&order.units)?;
        for (sku, n) in units.per_sku() {
            self.place(sku, n);
        }
        let deadline = self.step.now + self.row.spec.hold.get();
        let mut row = self.record(order.id, &order.buyer, String::new(), units, deadline)?;
        match order.state {
            OrderIntent::Hold => Ok(()),
            OrderIntent::Confirm => self.end(&mut row, EventKind::Confirmed),
            OrderIntent::Cancel => self.end(&mut row, EventKind::Cancelled),
            OrderIntent::Expire => self.end(&mut row, EventKind::Expired),
        }
    }

    fn units_of(&self, named: &[(Sku, UnitNumber)]) -> Result<Units> {
        let mut units = Units::default();
        for (sku, unit) in named {
            units.push(self.at(sku)?, UnitRange::one(*unit));
        }
        Ok(units)
    }

    /// Counts `n` more loaded units. Which of them were reserved is known once all parts are loaded.
    fn place(&mut self, at: usize, n: u32) {
        let sku = &mut self.row.skus[at];
        sku.ahead += n;
        sku.changed = true;
    }

    fn load_free(&mut self, sku: &Sku, units: &[UnitNumber]) -> Result<()> {
        let (at, mut new) = (self.at(sku)?, 0);
        for unit in units {
            new += self.step.exec(sql!("sale/rebuild", "load_free"), (self.row.no, at, *unit))? as u32;
        }
        self.place(at, new);
        self.row.skus[at].returned += new;
        Ok(())
    }

    fn load_withdrawn(&mut self, sku: &Sku, ranges: &[UnitRange]) -> Result<()> {
        let (at, mut new) = (self.at(sku)?, Units::default());
        for range in ranges {
            let params = (self.row.no, at, range.first(), range.last());
            if self.step.exec(sql!("sale/rebuild", "load_withdrawn"), params)? > 0 {
                self.place(at, range.count());
                self.row.skus[at].withdrawn += range.count();
                new.push(at, *range);
            }
        }
        if new.0.is_empty() {
            return Ok(());
        }
        self.append(EventKind::StockWithdrawn, None, &new).map(drop)
    }

    /// Until when a receipt is honored. A hold that was valid when the sale was halted gets a full hold time from the
    /// switch on, like the holds that the ledger knew.
    fn honoured_until(&self, receipt: &Receipt) -> Timestamp {
        match self.row.since {
            Some((stopped, switched))
                if receipt.generation < self.row.generation && receipt.deadline > stopped =>
            {
                switched + self.row.spec.hold.get()
            }
            _ => receipt.deadline,
        }
    }

    fn restore(&mut self, receipt: &Receipt) -> Result<Restored> {
        if let Some(row) = self.find(receipt.id)? {
            return Ok(Restored::Known(self.hold(&row)));
        }
        let same = self.units_of(&receipt.units)?;
        if self.row.spec.ledger && receipt.generation >= self.row.generation {
            self.halt(HaltReason::LostWrites)?;
        }
        if self.row.halted.is_some() {
            return Ok(Restored::Halted { retry_at: self.step.now + SaleSpec::ASK_AGAIN_AFTER });
        }
        let deadline = self.honoured_until(receipt);
        if deadline <= self.step.now {
            return Ok(Restored::Expired);
        }
        let units = match self.units_for(receipt, same)? {
            Ok(units) => units,
            Err(refusal) => return Ok(refusal),
        };
        let row = self.record(receipt.id, &receipt.buyer, String::new(), units, deadline)?;
        Ok(Restored::Restored(self.hold(&row)))
    }

    /// Takes the units of the receipt if they are free, and other units otherwise.
    fn units_for(&mut self, receipt: &Receipt, same: Units) -> Result<std::result::Result<Units, Restored>> {
        let request = Reserve {
            sale: receipt.sale.clone(),
            id: receipt.id,
            buyer: receipt.buyer.clone(),
            lines: receipt.lines(),
            choice: receipt.choice(),
        };
        let wanted = request.lines.iter().map(|line| Ok((self.at(&line.sku)?, line.quantity)));
        let wanted = wanted.collect::<Result<Vec<_>>>()?;
        let short = self.short(&request, &wanted)?;
        if let Some(Reserved::LimitReached { sku, limit, has }) = short {
            return Ok(Err(Restored::LimitReached { sku, limit, has }));
        }
        if self.are_free(&same)? {
            for (sku, unit) in same.each() {
                self.take_number(sku, unit)?;
            }
            return Ok(Ok(same));
        }
        match short {
            Some(Reserved::SoldOut { sku, free } | Reserved::AllHeld { sku, free, .. }) => {
                Ok(Err(Restored::NoneLeft { sku, free }))
            }
            _ if request.choice == UnitChoice::SameNumber => self.take_same(&wanted).map(Ok),
            _ => self.take_any(&wanted).map(Ok),
        }
    }

    fn are_free(&mut self, units: &Units) -> Result<bool> {
        for (sku, unit) in units.each() {
            let free = if unit > self.row.skus[sku].next {
                self.fresh_from(sku, unit)?.is_some_and(|range| range.first() == unit)
            } else {
                let row: Option<i64> =
                    self.step.value(sql!("sale/rebuild", "is_free"), (self.row.no, sku, unit))?;
                row.is_some()
            };
            if !free {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

pub(crate) fn halt_sale(step: &mut Step<'_>, v: &verb::HaltSale) -> Result<bool> {
    on_sale(step, &v.sale, |sale| {
        sale.with_ledger()?;
        if sale.row.generation == v.generation {
            sale.halt(v.reason)?;
        }
        Ok(sale.row.halted.is_some())
    })
}

pub(crate) fn restore(step: &mut Step<'_>, receipt: &Receipt) -> Result<Restored> {
    on_sale(step, &receipt.sale, |sale| sale.restore(receipt))
}

pub(crate) fn begin_rebuild(step: &mut Step<'_>, v: &verb::BeginRebuild) -> Result<()> {
    let (by, id) = (v.by, &v.sale);
    on_sale(step, id, |sale| {
        sale.with_ledger()?;
        if sale.row.rebuilt_by == Some(by) {
            return Ok(());
        }
        sale.halt(HaltReason::Rebuilding)?;
        sale.row.halted = sale.row.halted.map(|pause| Halt { reason: HaltReason::Rebuilding, ..pause });
        sale.row.rebuilt_by = Some(by);
        sale.row.changed = true;
        drop_staged(sale.step, id)?;
        stage(sale.step, &sale.row.spec)
    })
}

fn drop_staged(step: &mut Step<'_>, id: &SaleId) -> Result<()> {
    let Some(staged) = load(step, id, STAGED)? else { return Ok(()) };
    for table in [
        sql!("sale/rebuild", "drop_sale"),
        sql!("sale/rebuild", "drop_skus"),
        sql!("sale/rebuild", "drop_free"),
        sql!("sale/rebuild", "drop_withdrawn"),
        sql!("sale/rebuild", "drop_owned"),
        sql!("sale/rebuild", "drop_buyers"),
        sql!("sale/rebuild", "drop_holds"),
        sql!("sale/rebuild", "drop_events"),
    ] {
        step.exec(table, [staged.no])?;
    }
    Ok(())
}

/// Creates a copy of the sale with all units free. The number of units is known only at the switch; until then it is
/// the maximum.
fn stage(step: &mut Step<'_>, spec: &SaleSpec) -> Result<()> {
    let no = insert(step, spec, STAGED)?;
    for at in 0..spec.skus.len() {
        step.exec(sql!("sale/rebuild", "total"), (no, at, SaleSpec::UNITS_MAX))?;
    }
    on_staged(step, &spec.id, |sale| sale.append(EventKind::Rebuilt, None, &Units::default()).map(drop))
}

fn on_staged<T>(
    step: &mut Step<'_>,
    id: &SaleId,
    verb: impl FnOnce(&mut Sale<'_, '_>) -> Result<T>,
) -> Result<T> {
    let row = load(step, id, STAGED)?.ok_or_else(|| Error::bug("a rebuild lost its loaded data"))?;
    let mut sale = Sale { step, row };
    let answer = verb(&mut sale)?;
    let Sale { step, mut row } = sale;
    // Followers read the sale itself: they learn of these events when the loaded data replaces it.
    row.has_events = false;
    row.write_back(step)?;
    Ok(answer)
}

/// Whether this is the latest rebuild of a halted sale, and has not switched yet. A sale may be halted again after the
/// switch, until the next rebuild.
fn goes_on(step: &mut Step<'_>, by: Op, id: &SaleId) -> Result<bool> {
    let is_latest =
        on_sale(step, id, |sale| Ok(sale.row.halted.is_some() && sale.row.rebuilt_by == Some(by)))?;
    Ok(is_latest && load(step, id, STAGED)?.is_some())
}

pub(crate) fn load_part(step: &mut Step<'_>, v: &verb::Load) -> Result<Rebuilt> {
    let verb::Load { by, sale: id, generation, part } = v;
    // Check before the first write: a step that has written something must not be refused.
    on_sale(step, id, |sale| match part {
        Load::Orders(orders) => {
            orders.iter().flat_map(|order| &order.units).try_for_each(|(sku, _)| sale.at(sku).map(drop))
        }
        Load::Free(sku, _) | Load::Withdrawn(sku, _) => sale.at(sku).map(drop),
    })?;
    if !goes_on(step, *by, id)? {
        return Ok(Rebuilt::Superseded);
    }
    on_staged(step, id, |sale| {
        sale.row.generation = *generation;
        sale.row.changed = true;
        match part {
            Load::Orders(orders) => sale.load_orders(orders)?,
            Load::Free(sku, units) => sale.load_free(sku, units)?,
            Load::Withdrawn(sku, units) => sale.load_withdrawn(sku, units)?,
        }
        Ok(Rebuilt::Done)
    })
}

pub(crate) fn switch(step: &mut Step<'_>, v: &verb::Switch) -> Result<Rebuilt> {
    let (by, id, switch) = (v.by, &v.sale, &v.switch);
    let done = on_sale(step, id, |sale| {
        let row = &sale.row;
        Ok(row.halted.is_none() && (row.rebuilt_by, row.generation) == (Some(by), switch.generation))
    })?;
    if done {
        return Ok(Rebuilt::Done);
    }
    if !goes_on(step, by, id)? {
        return Ok(Rebuilt::Superseded);
    }
    let staged = load(step, id, STAGED)?.ok_or_else(|| Error::bug("a rebuild lost its loaded data"))?;
    let generation = on_sale(step, id, |sale| Ok(sale.row.generation))?;
    if switch.generation <= generation || !adds_up(&staged, switch) {
        return Ok(Rebuilt::Incomplete);
    }
    take_the_place(step, by, id, switch)?;
    Ok(Rebuilt::Done)
}

fn adds_up(staged: &SaleRow, switch: &Switch) -> bool {
    staged.skus.len() == switch.stock.len()
        && staged.skus.iter().zip(&switch.stock).all(|(sku, told)| sku.ahead == told.handed_out + told.ahead)
}

fn take_the_place(step: &mut Step<'_>, by: Op, id: &SaleId, switch: &Switch) -> Result<()> {
    let old = step.sales.remove(id);
    let Some(old) = old else { return Err(Error::bug("a sale disappeared within a step").into()) };
    old.write_back(step)?;
    on_staged(step, id, |sale| {
        for (at, told) in switch.stock.iter().enumerate() {
            let sku = &mut sale.row.skus[at];
            (sku.total, sku.next, sku.ahead) = (told.total, told.handed_out, told.ahead);
            sku.changed = true;
            let began = sale.row.spec.skus[at].units;
            if let Some(added) = UnitRange::new(began + 1, told.total) {
                sale.append(EventKind::StockAdded, None, &Units::of(at, [added]))?;
            }
        }
        let now = sale.step.now;
        let row = &mut sale.row;
        row.changed = true;
        row.generation = switch.generation;
        row.status = old.status;
        row.rebuilt_by = Some(by);
        row.since = old.halted.map(|halt| (halt.since, now));
        row.receipts_until = Some(now + switch.grace).filter(|until| now < *until);
        // What was loaded came from the ledger.
        row.through = row.seq;
        let (new, latest) = (row.no, row.seq);
        sale.step.exec(sql!("sale/rebuild", "part"), (old.no, old.generation))?;
        sale.step.exec(sql!("sale/rebuild", "part"), (new, LIVE))?;
        sale.step.tell(Topic::Event(Log::Sale(id.clone()), latest), None, usize::MAX);
        Ok(())
    })
}
