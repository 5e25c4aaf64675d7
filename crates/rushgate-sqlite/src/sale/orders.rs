//! How order workers follow a sale: the next entries of its log, and those that the ledger could not record.

use std::collections::HashSet;

use rushgate_core::{
    Delivery, Error, Event, EventKind, FailedOrder, Failure, Follow, Followed, LedgerEntry, OrderBatch,
    OrderIntent, ReservationId, SaleId, verb,
};
use rusqlite::Row;

use super::{HoldRow, Sale, on_sale, read_event, read_whole, unknown};
use crate::fault::Result;
use crate::read::Reader;
use crate::rows::sale::SaleRow;
use crate::sql::sql;
use crate::step::Step;
use crate::stored::{stored, time};

/// Events read at a time, because those of large carts are large.
const PART: u64 = 100;

/// The entries of a batch.
#[derive(Default)]
struct Batch {
    entries: Vec<Delivery>,
    /// The reservations that it has.
    seen: HashSet<ReservationId>,
    work: usize,
}

impl Batch {
    fn is_full(&self) -> bool {
        self.work >= Follow::WORK_MAX
    }

    fn push(&mut self, seq: u64, attempts: u32, entry: LedgerEntry) {
        if let LedgerEntry::Reservation { id, .. } = &entry
            && !self.seen.insert(*id)
        {
            return;
        }
        self.work += entry.work();
        self.entries.push(Delivery { seq, attempts, entry });
    }
}

impl Sale<'_, '_> {
    fn follow(&mut self, follow: &Follow) -> Result<Followed> {
        if !self.row.spec.ledger {
            return Err(Error::invalid("the sale", "has no ledger").into());
        }
        let now = self.step.now;
        let holder = self.row.worker;
        let is_ours = holder.is_some_and(|(worker, _)| worker == follow.worker);
        if let Some((_, until)) = holder.filter(|(_, until)| !is_ours && Follow::has_lease(*until, now)) {
            return Ok(Followed::Busy { until });
        }
        if is_ours && follow.generation == self.row.generation {
            self.report(follow)?;
        }
        self.row.changed = true;
        let (mut batch, mut through) = (Batch::default(), self.row.through);
        if follow.n == 0 {
            self.row.worker = holder.filter(|_| !is_ours);
        } else {
            self.row.worker = Some((follow.worker, now + follow.lease.get()));
            self.retry(&mut batch)?;
            if self.failed()? < Follow::FAILED_MAX {
                through = self.next(follow.n, &mut batch)?;
            }
            // A batch without entries needs no report.
            if batch.entries.is_empty() {
                self.row.through = through;
            }
        }
        let (generation, latest) = (self.row.generation, self.row.seq);
        Ok(Followed::Batch(OrderBatch { generation, entries: batch.entries, through, latest }))
    }

    fn report(&mut self, follow: &Follow) -> Result<()> {
        self.row.through = self.row.through.max(follow.through.min(self.row.seq));
        let reported = 1..=self.row.through;
        for failure in follow.failed.iter().filter(|failure| reported.contains(&failure.seq)) {
            let due = self.step.now + failure.retry_after;
            let (seq, attempts) = (failure.seq.cast_signed(), failure.attempts.max(1));
            let params = (self.row.no, seq, attempts, stored(due), failure.reason_cut());
            self.step.exec(sql!("sale/orders", "fail"), params)?;
        }
        follow.recovered.iter().try_for_each(|seq| self.recover(*seq))
    }

    fn recover(&mut self, seq: u64) -> Result<()> {
        let seq = i64::try_from(seq).unwrap_or(i64::MAX);
        self.step.exec(sql!("sale/orders", "recover"), (self.row.no, seq)).map(drop)
    }

    fn failed(&mut self) -> Result<u32> {
        Ok(self.step.value(sql!("sale/orders", "count"), [self.row.no])?.unwrap_or_default())
    }

    /// Adds the failed entries that are due again. Those with nothing left to record are deleted.
    fn retry(&mut self, batch: &mut Batch) -> Result<()> {
        let latest = stored(self.step.now + Failure::RETRY_MAX);
        let params = (self.row.no, self.step.now_us(), latest);
        let due = self.step.rows(sql!("sale/orders", "due"), params, |row| {
            Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get::<_, u32>(1)?))
        })?;
        for (seq, attempts) in due {
            if batch.entries.len() == Follow::RETRIES_MAX as usize || batch.is_full() {
                break;
            }
            let event = self.events_after(seq.saturating_sub(1), 1)?.pop().filter(|event| event.seq == seq);
            match event.map(|event| self.entry_of(&event)).transpose()?.flatten() {
                Some(entry) => batch.push(seq, attempts, entry),
                None => self.recover(seq)?,
            }
        }
        Ok(())
    }

    /// Adds the entries of the next `n` events, and returns the number of the last one.
    fn next(&mut self, n: u32, batch: &mut Batch) -> Result<u64> {
        let mut through = self.row.through;
        let end = through + u64::from(n);
        while through < end && !batch.is_full() {
            let events = self.events_after(through, PART.min(end - through))?;
            if events.is_empty() {
                break;
            }
            for event in events {
                if batch.is_full() {
                    break;
                }
                through = event.seq;
                if let Some(entry) = self.entry_of(&event)? {
                    batch.push(event.seq, 0, entry);
                }
            }
        }
        Ok(through)
    }

    fn events_after(&mut self, after: u64, limit: u64) -> Result<Vec<Event>> {
        let (params, skus) = ((self.row.no, after.cast_signed(), limit.cast_signed()), &self.row.skus);
        self.step.rows(sql!("sale/event", "after"), params, |row| read_event(row, skus))
    }

    /// What the ledger has yet to record of an event: its reservation as it is now, or the change of the stock.
    fn entry_of(&mut self, event: &Event) -> Result<Option<LedgerEntry>> {
        if !event.kind.is_for_ledger() {
            return Ok(None);
        }
        match event.reservation {
            Some(id) => Ok(self.find(id)?.and_then(|row| self.reservation_entry(row))),
            None => Ok(self.stock_entry(event)),
        }
    }

    fn reservation_entry(&self, row: HoldRow) -> Option<LedgerEntry> {
        let intent = OrderIntent::awaited(row.state)?;
        Some(LedgerEntry::Reservation {
            sale: self.row.spec.id.clone(),
            generation: row.generation,
            seq: row.seq,
            id: row.id,
            units: row.units.named(&self.row.skus),
            buyer: row.buyer,
            intent,
        })
    }

    fn stock_entry(&self, event: &Event) -> Option<LedgerEntry> {
        let (sku, _) = event.units.first()?;
        let row = &self.row.skus[*self.row.index.get(sku)?];
        let withdrawn = event.units.iter().filter(|_| event.kind == EventKind::StockWithdrawn);
        Some(LedgerEntry::Stock {
            sale: self.row.spec.id.clone(),
            sku: sku.clone(),
            seq: event.seq,
            total: row.total,
            withdrawn: withdrawn.map(|(_, range)| *range).collect(),
            per_buyer: row.per_buyer,
        })
    }
}

pub(crate) fn follow_orders(step: &mut Step<'_>, follow: &Follow) -> Result<Followed> {
    on_sale(step, &follow.sale, |sale| sale.follow(follow))
}

pub(crate) fn retry_orders(step: &mut Step<'_>, id: &SaleId) -> Result<u32> {
    on_sale(step, id, |sale| {
        sale.step.exec(sql!("sale/orders", "retry"), (sale.row.no, sale.step.now_us()))?;
        sale.failed()
    })
}

pub(crate) fn failed_orders(reader: &Reader<'_>, v: &verb::FailedOrders) -> Result<Vec<FailedOrder>> {
    let sale = read_whole(reader, &v.sale)?;
    read_failed(reader, &sale, v.page.after, v.page.limit.into())
}

/// Failed entries after an event, or all of them for a limit of -1.
pub(super) fn read_failed(
    reader: &Reader<'_>,
    sale: &SaleRow,
    after: u64,
    limit: i64,
) -> Result<Vec<FailedOrder>> {
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    reader.rows(sql!("sale/orders", "page"), (sale.no, after, limit), |row: &Row<'_>| {
        Ok(FailedOrder {
            seq: row.get::<_, i64>(0)?.cast_unsigned(),
            attempts: row.get(1)?,
            retry_at: time(row, 2)?,
            reason: row.get(3)?,
        })
    })
}

/// Number of the sale's latest event.
pub(crate) fn last(reader: &Reader<'_>, id: &SaleId) -> Result<u64> {
    let last = reader.row(sql!("sale/orders", "latest"), [id.as_str()], |row| row.get::<_, i64>(0))?;
    Ok(last.ok_or_else(|| unknown(id))?.cast_unsigned())
}
