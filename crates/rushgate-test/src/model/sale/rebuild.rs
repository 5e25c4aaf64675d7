//! How a halted sale is rebuilt from its ledger, and what receipts restore.

use rushgate_core::{LedgerOrder, Load, Rebuilt, Receipt, Restored, Stocktake, Switch};

use super::*;

impl Sale {
    /// An empty copy of this sale, for a rebuild.
    fn staged(&self, now: Timestamp) -> Self {
        let mut staged = Self::new(self.spec.clone(), self.bug);
        staged.log(now, EventKind::Rebuilt, None, Vec::new());
        staged
    }

    fn load(&mut self, now: Timestamp, part: Load) {
        match part {
            Load::Orders(orders) => orders.into_iter().for_each(|order| self.load_order(now, order)),
            Load::Free(sku, units) => {
                self.stock.get_mut(&sku).expect("the caller knows the SKU").returned.extend(units);
            }
            Load::Withdrawn(sku, units) => {
                let stock = self.stock.get_mut(&sku).expect("the caller knows the SKU");
                let new: Vec<_> =
                    units.into_iter().filter(|range| !stock.withdrawn.contains(range)).collect();
                stock.withdrawn.extend(&new);
                let new: Vec<_> = new.into_iter().map(|range| (sku.clone(), range)).collect();
                if !new.is_empty() {
                    self.log(now, EventKind::StockWithdrawn, None, new);
                }
            }
        }
    }

    fn load_order(&mut self, now: Timestamp, order: LedgerOrder) {
        if self.holds.contains_key(&order.id) {
            return;
        }
        let deadline = now + self.spec.hold.get();
        let id = self.enter(now, order.id, order.buyer, order.units, deadline).id;
        let (state, kind) = match order.state {
            OrderIntent::Hold => return,
            OrderIntent::Confirm => (HoldState::Confirmed, EventKind::Confirmed),
            OrderIntent::Cancel => (HoldState::Cancelled, EventKind::Cancelled),
            OrderIntent::Expire => (HoldState::Expired, EventKind::Expired),
        };
        // Loaded reservations that have ended had released their units before.
        self.end_as(now, id, state, kind);
    }

    /// Whether every unit up to the highest reserved one has been loaded.
    fn adds_up_to(&self, stock: &[Stocktake]) -> bool {
        self.spec.skus.iter().zip(stock).all(|(sku, told)| {
            let Stock { returned, withdrawn, .. } = &self.stock[&sku.sku];
            let owned = self.owners.keys().filter(|(of, _)| *of == sku.sku).count();
            (returned.len() + owned) as u64 + UnitRange::total(withdrawn)
                == u64::from(told.handed_out) + u64::from(told.ahead)
        })
    }

    /// Replaces the sale with the loaded data.
    fn switch(&mut self, now: Timestamp, by: Op, switch: &Switch) {
        let Some((_, mut new)) = self.rebuild.take() else { unreachable!("the caller has checked") };
        for (sku, told) in new.spec.skus.clone().iter().zip(&switch.stock) {
            let stock = new.stock.get_mut(&sku.sku).expect("it has the SKUs of its specification");
            stock.total = told.total;
            stock.withdrawn.sort();
            let fresh = UnitRange::new(told.handed_out + 1, told.total);
            stock.fresh = fresh.map(|all| all.without(stock.withdrawn.iter().copied())).unwrap_or_default();
            if told.total > sku.units {
                let added = UnitRange::new(sku.units + 1, told.total);
                let added = added.into_iter().map(|range| (sku.sku.clone(), range)).collect();
                new.log(now, EventKind::StockAdded, None, added);
            }
        }
        new.generation = switch.generation;
        new.status = self.status;
        new.since = self.halted.map(|halt| (halt.since, now));
        new.receipts_until = Some(now + switch.grace).filter(|until| now < *until);
        new.rebuilt_by = Some(by);
        // What was loaded came from the ledger.
        new.position = Position::behind(new.seq());
        *self = *new;
    }

    /// Until when a receipt is honored. A hold that was valid when the sale was halted gets a full hold time from the
    /// switch on, like the holds that the ledger knew.
    fn honoured_until(&self, receipt: &Receipt) -> Timestamp {
        match self.since {
            Some((stopped, switched))
                if receipt.generation < self.generation && receipt.deadline > stopped =>
            {
                switched + self.spec.hold.get()
            }
            _ => receipt.deadline,
        }
    }

    fn restore(&mut self, now: Timestamp, receipt: Receipt) -> Result<Restored> {
        let lines = receipt.lines();
        if let Some(held) = self.holds.get(&receipt.id) {
            return Ok(Restored::Known(held.hold.clone()));
        }
        if let Some(line) = lines.iter().find(|line| !self.stock.contains_key(&line.sku)) {
            return Err(Error::not_found(format_args!("the SKU `{}`", line.sku)));
        }
        if self.spec.ledger && receipt.generation >= self.generation {
            self.halt(now, HaltReason::LostWrites);
        }
        if self.halted.is_some() {
            return Ok(Restored::Halted { retry_at: now + SaleSpec::ASK_AGAIN_AFTER });
        }
        let deadline = self.honoured_until(&receipt);
        if deadline <= now {
            return Ok(Restored::Expired);
        }
        let request = Reserve {
            sale: receipt.sale.clone(),
            id: receipt.id,
            buyer: receipt.buyer.clone(),
            choice: receipt.choice(),
            lines,
        };
        if let Some(Reserved::LimitReached { sku, limit, has }) = self.over_limit(&request) {
            return Ok(Restored::LimitReached { sku, limit, has });
        }
        let same = receipt.units.iter().all(|(sku, unit)| self.stock[sku].is_free(*unit));
        let units = if same {
            for (sku, unit) in &receipt.units {
                self.stock.get_mut(sku).expect("the units were checked").take(*unit);
            }
            receipt.units
        } else {
            if let Some(Short { sku, free }) = self.short(&request) {
                return Ok(Restored::NoneLeft { sku, free });
            }
            self.take(&request)
        };
        Ok(Restored::Restored(self.enter(now, receipt.id, receipt.buyer, units, deadline)))
    }
}

impl Model {
    fn sale_with_ledger(&mut self, id: &SaleId) -> Result<&mut Sale> {
        let sale = self.sale_mut(id)?;
        if !sale.spec.ledger {
            return Err(Error::invalid("the sale", "has no ledger to rebuild from"));
        }
        Ok(sale)
    }

    /// See [`Verbs::halt_sale`](rushgate_core::Verbs::halt_sale).
    pub fn halt_sale(
        &mut self,
        now: Timestamp,
        sale: &SaleId,
        generation: u32,
        reason: HaltReason,
    ) -> Result<bool> {
        let sale = self.sale_with_ledger(sale)?;
        if sale.generation == generation {
            sale.halt(now, reason);
        }
        Ok(sale.halted.is_some())
    }

    /// See [`Verbs::begin_rebuild`](rushgate_core::Verbs::begin_rebuild).
    pub fn begin_rebuild(&mut self, now: Timestamp, by: Op, sale: &SaleId) -> Result<()> {
        let sale = self.sale_with_ledger(sale)?;
        // A repeated call after another rebuild has begun counts as the latest.
        let latest = sale.rebuild.as_ref().map_or(sale.rebuilt_by, |(of, _)| Some(*of));
        if latest != Some(by) {
            sale.halt(now, HaltReason::Rebuilding);
            sale.halted = sale.halted.map(|pause| Halt { reason: HaltReason::Rebuilding, ..pause });
            sale.rebuild = Some((by, Box::new(sale.staged(now))));
        }
        Ok(())
    }

    /// See [`Verbs::load`](rushgate_core::Verbs::load).
    pub fn load(
        &mut self,
        now: Timestamp,
        by: Op,
        id: &SaleId,
        generation: u32,
        part: Load,
    ) -> Result<Rebuilt> {
        let sale = self.sale_mut(id)?;
        let known = |sku: &Sku| sale.stock.contains_key(sku);
        let all_known = match &part {
            Load::Orders(orders) => orders.iter().flat_map(|order| &order.units).all(|(sku, _)| known(sku)),
            Load::Free(sku, _) | Load::Withdrawn(sku, _) => known(sku),
        };
        if !all_known {
            return Err(Error::not_found("the SKU"));
        }
        match &mut sale.rebuild {
            Some((whose, staged)) if *whose == by => {
                staged.generation = generation;
                staged.load(now, part);
            }
            _ => return Ok(Rebuilt::Superseded),
        }
        Ok(Rebuilt::Done)
    }

    /// See [`Verbs::switch`](rushgate_core::Verbs::switch).
    pub fn switch(&mut self, now: Timestamp, by: Op, id: &SaleId, switch: &Switch) -> Result<Rebuilt> {
        let sale = self.sale_mut(id)?;
        let is_done = (sale.rebuilt_by, sale.generation) == (Some(by), switch.generation);
        if is_done && sale.rebuild.is_none() {
            return Ok(Rebuilt::Done);
        }
        match &sale.rebuild {
            Some((whose, staged)) if *whose == by => {
                if switch.generation <= sale.generation || !staged.adds_up_to(&switch.stock) {
                    return Ok(Rebuilt::Incomplete);
                }
            }
            _ => return Ok(Rebuilt::Superseded),
        }
        sale.switch(now, by, switch);
        Ok(Rebuilt::Done)
    }

    /// See [`Verbs::restore`](rushgate_core::Verbs::restore).
    pub fn restore(&mut self, now: Timestamp, receipt: Receipt) -> Result<Restored> {
        self.sale_mut(&receipt.sale.clone())?.restore(now, receipt)
    }
}
