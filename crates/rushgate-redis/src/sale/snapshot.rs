//! The snapshot of a sale for the audit: all its keys.

use std::collections::HashMap;

use rushgate_core::{
    BuyerCount, BuyerId, Deadline, FailedOrder, Halt, Line, Op, ReservationId, ReservationRow, Result,
    SaleSpec, SkuCounters, SkuSpec, Snapshot, Timestamp, UnitChoice, UnitNumber, UnitRange,
};

use super::orders::unpack_failed;
use super::{Home, SHELF, read_events, read_range, read_sku, without_keys};
use crate::command::Command;
use crate::reply::{Fields, Packed, Reply, coded, id_of, str_of, strange};

/// The commands that read a sale in one snapshot.
pub(crate) fn snapshot(home: &Home) -> Vec<Command> {
    let keys: Vec<_> = home.keys.all().collect();
    let [row, returned, withdrawn, buyers, holds, deadlines, events, failed] = &keys[..] else {
        unreachable!("a sale has eight keys");
    };
    let sorted = |key| Command::new("ZRANGE").arg(key).arg("0").arg("-1").arg("WITHSCORES");
    vec![
        Command::new("HGETALL").arg(row),
        sorted(returned),
        sorted(withdrawn),
        Command::new("HGETALL").arg(buyers),
        Command::new("HGETALL").arg(holds),
        sorted(deadlines),
        Command::new("LRANGE").arg(events).arg("0").arg("-1"),
        sorted(failed),
    ]
}

/// The fields of a sale's row, by name.
struct Row(HashMap<Vec<u8>, Vec<u8>>);

impl Row {
    fn field(&self, name: &str) -> Option<&[u8]> {
        self.0.get(name.as_bytes()).map(Vec::as_slice)
    }

    fn number(&self, name: &str) -> Result<u64> {
        let field = self.field(name).ok_or_else(|| strange("a sale's row with a gap"))?;
        str_of(field)?.parse().map_err(|_| strange("not a number"))
    }

    /// A moment, which may be missing or ''.
    fn moment(&self, name: &str) -> Result<Option<Timestamp>> {
        match self.field(name) {
            None | Some(b"") => Ok(None),
            Some(_) => self.number(name).map(|at| Some(Timestamp::from_micros(at))),
        }
    }

    fn sku(&self, no: usize) -> Result<&[u8]> {
        self.field(&format!("sku:{no}")).ok_or_else(|| strange("a sale's row with a gap"))
    }

    fn generation(&self) -> Result<u32> {
        u32::try_from(self.number("generation")?).map_err(|_| strange("a number that is too large"))
    }

    fn halted(&self) -> Result<Option<Halt>> {
        let Some(since) = self.moment("halted_at")? else { return Ok(None) };
        Ok(Some(Halt { reason: coded(self.number("halt_reason")?)?, since }))
    }

    fn rebuilt_by(&self) -> Result<Option<Op>> {
        let by = self.field("rebuild").filter(|by| !by.is_empty());
        by.map(|by| id_of(by).map(Op::from_bytes)).transpose()
    }

    fn since(&self) -> Result<Option<(Timestamp, Timestamp)>> {
        match (self.moment("stopped_at")?, self.moment("switched_at")?) {
            (Some(stopped), Some(switched)) => Ok(Some((stopped, switched))),
            (None, None) => Ok(None),
            _ => Err(strange("an incomplete rebuild time of a sale")),
        }
    }

    /// Differences between the row and the specification in the sale's home.
    fn contradictions(&self, spec: &SaleSpec) -> Vec<String> {
        let moment = |at: Option<Timestamp>| at.map(|at| at.as_micros().to_string()).unwrap_or_default();
        let fields = [
            ("hold_us", "hold time", spec.hold.as_micros().to_string()),
            ("opens_at", "opening", moment(spec.opens_at)),
            ("closes_at", "closing", moment(spec.closes_at)),
            ("ledger", "ledger", u8::from(spec.ledger).to_string()),
        ];
        let mut found = Vec::new();
        for (name, what, home) in &fields {
            if self.field(name) != Some(home.as_bytes()) {
                found.push(format!("the row of the sale differs from its home `{home}` in its {what}"));
            }
        }
        let skus = self.0.keys().filter(|name| name.starts_with(b"sku:")).count();
        if skus != spec.skus.len() {
            found.push(format!("the row of the sale has {skus} SKUs, its home {}", spec.skus.len()));
        }
        found
    }
}

/// Decodes the snapshot.
pub(crate) fn read_snapshot(home: &Home, reply: Reply) -> Result<Snapshot> {
    let mut parts = reply.list()?;
    let row = Row(by_name(parts.list()?)?);
    match row.field("secret") {
        Some(secret) if secret == home.spec.secret.to_bytes() => {}
        Some(_) => return Err(strange("the keys of another sale")),
        None if row.0.is_empty() => return Err(without_keys(&home.spec.id)),
        None => return Err(strange("a sale's row with a gap")),
    }
    let skus = counters(home, &row, parts.list()?, parts.list()?)?;
    let buyers = read_buyers(home, parts.list()?)?;
    let reservations = read_reservations(home, parts.list()?)?;
    let deadlines = read_deadlines(parts.list()?)?;
    let events = read_events(home, 0, parts.next()?)?;
    let failed = read_failed(parts.list()?)?;
    Ok(Snapshot {
        spec: home.spec.clone(),
        status: coded(row.number("status")?)?,
        generation: row.generation()?,
        seq: row.number("seq")?,
        halted: row.halted()?,
        rebuilt_by: row.rebuilt_by()?,
        since: row.since()?,
        receipts_until: row.moment("receipts_until")?,
        skus,
        units: reservations.iter().flat_map(ReservationRow::live_units).collect(),
        reservations,
        buyers,
        deadlines,
        events,
        through: row.number("through")?,
        failed,
        contradictions: row.contradictions(&home.spec),
    })
}

fn by_name(mut pairs: Fields) -> Result<HashMap<Vec<u8>, Vec<u8>>> {
    Ok(pairs.each(|pairs| Ok((pairs.bytes()?, pairs.bytes()?)))?.into_iter().collect())
}

fn counters(home: &Home, row: &Row, returned: Fields, withdrawn: Fields) -> Result<Vec<SkuCounters>> {
    let skus = &home.spec.skus;
    let places = read_returned(skus.len(), returned)?.into_iter().zip(read_withdrawn(skus.len(), withdrawn)?);
    let places = skus.iter().enumerate().zip(places);
    places.map(|((no, sku), (returned, withdrawn))| counter(sku, row.sku(no)?, returned, withdrawn)).collect()
}

fn counter(
    sku: &SkuSpec,
    packed: &[u8],
    returned: Vec<UnitRange>,
    withdrawn: Vec<UnitRange>,
) -> Result<SkuCounters> {
    let state = read_sku(sku.sku.clone(), packed)?;
    let mut packed = Packed(packed);
    let (total, next, ahead) = (packed.small(4)?, packed.small(4)?, packed.small(4)?);
    let fresh = total.checked_sub(next).and_then(|above| above.checked_sub(ahead));
    let fresh = fresh.ok_or_else(|| strange("a stock below zero"))?;
    let out = withdrawn.iter().copied().filter(|range| range.last() > next);
    let above = UnitRange::new(next + 1, total).map(|above| above.without(out)).unwrap_or_default();
    Ok(SkuCounters {
        sku: state.sku,
        initial: sku.units,
        total,
        free: returned.into_iter().chain(above).collect(),
        withdrawn,
        fresh,
        returned: packed.small(4)?,
        held: state.held,
        confirmed: state.confirmed,
        withdrawn_count: state.withdrawn,
        per_buyer: state.per_buyer,
    })
}

/// The list for a SKU.
fn of_sku<T>(lists: &mut [Vec<T>], no: usize) -> Result<&mut Vec<T>> {
    lists.get_mut(no).ok_or_else(|| strange("an unknown SKU"))
}

/// Codes of units by SKU, each as member and score.
fn read_returned(skus: usize, mut codes: Fields) -> Result<Vec<Vec<UnitRange>>> {
    let mut numbers: Vec<Vec<UnitNumber>> = vec![Vec::new(); skus];
    while !codes.is_empty() {
        let (code, score) = (codes.int()?, codes.int()?);
        if code != score {
            return Err(strange("a unit in the wrong place"));
        }
        of_sku(&mut numbers, (code / SHELF) as usize)?.push((code % SHELF) as UnitNumber);
    }
    Ok(numbers.into_iter().map(UnitRange::gather).collect())
}

fn read_withdrawn(skus: usize, mut packed: Fields) -> Result<Vec<Vec<UnitRange>>> {
    let mut ranges = vec![Vec::new(); skus];
    while !packed.is_empty() {
        let (member, score) = (packed.bytes()?, packed.int()?);
        let mut member = Packed(&member);
        let (no, range) = read_range(&mut member)?;
        if score != no as u64 * SHELF + u64::from(range.last()) || !member.0.is_empty() {
            return Err(strange("withdrawn units in the wrong place"));
        }
        of_sku(&mut ranges, no)?.push(range);
    }
    Ok(ranges)
}

/// The buyer, NUL, and the number of a SKU.
fn read_buyers(home: &Home, mut pairs: Fields) -> Result<Vec<BuyerCount>> {
    pairs.each(|pairs| {
        let (field, units) = (pairs.text()?, pairs.small()?);
        let (buyer, no) = field.rsplit_once('\0').ok_or_else(|| strange("a buyer without a SKU"))?;
        let sku = home.sku(no.parse().map_err(|_| strange("not a number"))?)?;
        Ok(BuyerCount { buyer: BuyerId::as_stored(buyer)?, sku, units })
    })
}

fn read_deadlines(mut members: Fields) -> Result<Vec<Deadline>> {
    members.each(|members| {
        let (member, at) = (members.bytes()?, Timestamp::from_micros(members.int()?));
        let mut packed = Packed(&member);
        let seq = packed.number(6)?;
        Ok(Deadline { at, seq, reservation: ReservationId::from_bytes(id_of(packed.0)?) })
    })
}

fn read_failed(mut members: Fields) -> Result<Vec<FailedOrder>> {
    let mut failed = Vec::new();
    while !members.is_empty() {
        let (entry, score) = (unpack_failed(&members.bytes()?)?, members.int()?);
        let is_next = failed.last().is_none_or(|last: &FailedOrder| last.seq < entry.seq);
        if entry.seq != score || !is_next {
            return Err(strange("a failed entry in the wrong place"));
        }
        failed.push(entry);
    }
    Ok(failed)
}

fn read_reservations(home: &Home, mut pairs: Fields) -> Result<Vec<ReservationRow>> {
    pairs.each(|pairs| {
        let id = ReservationId::from_bytes(id_of(&pairs.bytes()?)?);
        let packed = pairs.bytes()?;
        let (hold, lines) = home.hold_and_lines(id, &packed)?;
        Ok(ReservationRow { hold, asked: read_cart(home, str_of(lines)?)? })
    })
}

/// The inverse of `write_cart`. A restored hold has no cart.
fn read_cart(home: &Home, text: &str) -> Result<Option<(Vec<Line>, UnitChoice)>> {
    if text.is_empty() {
        return Ok(None);
    }
    let mut words = text.split(' ');
    let choice = match words.next() {
        Some("any") => UnitChoice::Any,
        Some("same") => UnitChoice::SameNumber,
        _ => return Err(strange("an unknown choice of units")),
    };
    let line = |word: &str| {
        let (no, quantity) = word.split_once('*')?;
        Some(Line { sku: home.sku(no.parse().ok()?).ok()?, quantity: quantity.parse().ok()? })
    };
    let lines: Option<Vec<_>> = words.map(line).collect();
    lines.map(|lines| Some((lines, choice))).ok_or_else(|| strange("a malformed line"))
}
