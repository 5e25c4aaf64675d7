//! How order workers follow a sale.

use std::collections::{BTreeMap, BTreeSet};

use rushgate_core::{
    Delivery, Error, Event, EventKind, FailedOrder, Failure, Follow, Followed, Hold, LedgerEntry, OrderBatch,
    OrderIntent, OrdersState, Page, ReservationId, Result, SaleId, Timestamp, Token,
};

use super::{Model, Planted, Sale};

/// How far the ledger has followed a sale.
#[derive(Clone, Debug, Default)]
pub(super) struct Position {
    /// Number of the latest event that was delivered.
    pub(super) through: u64,
    /// The worker that follows the sale, and the end of its lease.
    worker: Option<(Token, Timestamp)>,
    /// Entries that the ledger could not record, by event number.
    failed: BTreeMap<u64, FailedOrder>,
}

impl Position {
    /// The position of a sale that was loaded from the ledger.
    pub(super) fn behind(seq: u64) -> Self {
        Self { through: seq, ..Self::default() }
    }

    pub(super) fn failed(&self) -> Vec<FailedOrder> {
        self.failed.values().cloned().collect()
    }
}

impl Sale {
    pub(super) fn orders_state(&self) -> Option<OrdersState> {
        let Position { through, worker, failed } = &self.position;
        let next = self.events.iter().find(|event| event.seq > *through);
        self.spec.ledger.then(|| OrdersState {
            through: *through,
            behind_since: next.map(|event| event.at),
            failed: failed.len() as u32,
            worker_until: worker.map(|(_, until)| until),
        })
    }

    fn follow(&mut self, now: Timestamp, follow: Follow) -> Followed {
        let holder = self.position.worker;
        let is_ours = holder.is_some_and(|(worker, _)| worker == follow.worker);
        if let Some((_, until)) = holder.filter(|(_, until)| !is_ours && Follow::has_lease(*until, now))
            && self.bug != Some(Planted::TwoWorkersFollow)
        {
            return Followed::Busy { until };
        }
        let trusted = is_ours || self.bug == Some(Planted::StaleWorkerReports);
        if trusted && follow.generation == self.generation {
            self.report(now, &follow);
        }
        let (mut entries, mut through) = (Vec::new(), self.position.through);
        if follow.n == 0 {
            self.position.worker = holder.filter(|_| !is_ours);
        } else {
            self.position.worker = Some((follow.worker, now + follow.lease.get()));
            let mut seen = BTreeSet::new();
            self.retry(now, &mut entries, &mut seen);
            if self.position.failed.len() < Follow::FAILED_MAX as usize {
                through = self.next(follow.n, &mut entries, &mut seen);
            }
            if entries.is_empty() || self.bug == Some(Planted::PositionMovesUnreported) {
                self.position.through = through;
            }
        }
        Followed::Batch(OrderBatch { generation: self.generation, entries, through, latest: self.seq() })
    }

    fn report(&mut self, now: Timestamp, follow: &Follow) {
        let latest = self.seq();
        let position = &mut self.position;
        position.through = position.through.max(follow.through.min(latest));
        let reported = 1..=position.through;
        for failure in follow.failed.iter().filter(|failure| reported.contains(&failure.seq)) {
            if self.bug == Some(Planted::FailedEntryIsLost) {
                continue;
            }
            let failed = FailedOrder {
                seq: failure.seq,
                attempts: failure.attempts.max(1),
                retry_at: now + failure.retry_after,
                reason: failure.reason_cut().to_owned(),
            };
            position.failed.insert(failure.seq, failed);
        }
        for seq in &follow.recovered {
            position.failed.remove(seq);
        }
    }

    /// Adds the failed entries that are due again. Those with nothing left to record are removed.
    fn retry(&mut self, now: Timestamp, entries: &mut Vec<Delivery>, seen: &mut BTreeSet<ReservationId>) {
        let due: Vec<_> = self
            .position
            .failed
            .values()
            .filter(|failed| Failure::is_due(failed.retry_at, now))
            .cloned()
            .collect();
        for FailedOrder { seq, attempts, .. } in due {
            if entries.len() == Follow::RETRIES_MAX as usize || is_full(entries) {
                break;
            }
            match self.events.iter().find(|event| event.seq == seq).and_then(|event| self.entry_of(event)) {
                Some(entry) => push(entries, seen, Delivery { seq, attempts, entry }),
                None => drop(self.position.failed.remove(&seq)),
            }
        }
    }

    /// Adds the entries of the next `n` events, and returns the number of the last one.
    fn next(&self, n: u32, entries: &mut Vec<Delivery>, seen: &mut BTreeSet<ReservationId>) -> u64 {
        let mut through = self.position.through;
        let next = self.events.iter().filter(|event| event.seq > self.position.through).take(n as usize);
        for event in next {
            if is_full(entries) {
                break;
            }
            through = event.seq;
            if let Some(entry) = self.entry_of(event) {
                push(entries, seen, Delivery { seq: event.seq, attempts: 0, entry });
            }
        }
        through
    }

    /// What the ledger has yet to record of an event.
    fn entry_of(&self, event: &Event) -> Option<LedgerEntry> {
        if !event.kind.is_for_ledger() {
            return None;
        }
        let sale = self.spec.id.clone();
        if let Some(id) = event.reservation {
            let Hold { buyer, units, state, seq, generation, .. } = self.holds.get(&id)?.hold.clone();
            let intent = OrderIntent::awaited(state)?;
            return Some(LedgerEntry::Reservation { sale, generation, seq, id, buyer, units, intent });
        }
        let (sku, _) = event.units.first()?;
        let stock = &self.stock[sku];
        let withdrawn = event.units.iter().filter(|_| event.kind == EventKind::StockWithdrawn);
        Some(LedgerEntry::Stock {
            sale,
            sku: sku.clone(),
            seq: event.seq,
            total: stock.total,
            withdrawn: withdrawn.map(|(_, range)| *range).collect(),
            per_buyer: stock.per_buyer,
        })
    }
}

/// Adds an entry, unless the batch has its reservation.
fn push(entries: &mut Vec<Delivery>, seen: &mut BTreeSet<ReservationId>, delivery: Delivery) {
    let is_new = match &delivery.entry {
        LedgerEntry::Reservation { id, .. } => seen.insert(*id),
        LedgerEntry::Stock { .. } => true,
    };
    if is_new {
        entries.push(delivery);
    }
}

fn is_full(entries: &[Delivery]) -> bool {
    entries.iter().map(|delivery| delivery.entry.work()).sum::<usize>() >= Follow::WORK_MAX
}

impl Model {
    /// See [`Verbs::follow_orders`](rushgate_core::Verbs::follow_orders).
    pub fn follow_orders(&mut self, now: Timestamp, follow: Follow) -> Result<Followed> {
        let sale = self.sale_mut(&follow.sale)?;
        if !sale.spec.ledger {
            return Err(Error::invalid("the sale", "has no ledger"));
        }
        Ok(sale.follow(now, follow))
    }

    /// See [`Verbs::failed_orders`](rushgate_core::Verbs::failed_orders).
    pub fn failed_orders(&self, sale: &SaleId, page: &Page<u64>) -> Result<Vec<FailedOrder>> {
        let failed = &self.sale_ref(sale)?.position.failed;
        Ok(failed
            .values()
            .filter(|failed| failed.seq > page.after)
            .take(page.limit as usize)
            .cloned()
            .collect())
    }

    /// See [`Verbs::retry_orders`](rushgate_core::Verbs::retry_orders).
    pub fn retry_orders(&mut self, now: Timestamp, sale: &SaleId) -> Result<u32> {
        let failed = &mut self.sale_mut(sale)?.position.failed;
        for entry in failed.values_mut() {
            entry.retry_at = entry.retry_at.min(now);
        }
        Ok(failed.len() as u32)
    }

    /// Whether `after` is the number of the latest event of a sale.
    pub(in crate::model) fn sale_is_at(&self, sale: &SaleId, after: u64) -> Result<bool> {
        Ok(self.sale_ref(sale)?.seq() == after)
    }
}
