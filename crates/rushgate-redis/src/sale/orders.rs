//! How order workers follow a sale.

use rushgate_core::{
    Delivery, Error, FailedOrder, Followed, Hold, LedgerEntry, OrderBatch, OrderIntent, ReservationId,
    Result, Timestamp, verb,
};

use super::Home;
use crate::command::Call;
use crate::function::Function;
use crate::reply::{Fields, Packed, Reply, id_of, str_of, strange};

pub(crate) fn follow_orders(home: &Home, verb: &verb::FollowOrders) -> Result<Call> {
    let follow = &verb.follow;
    let call = home
        .call(Function::SaleFollowOrders)
        .arg(follow.worker.to_bytes())
        .number(follow.generation.into())
        .number(follow.through.min(1 << 53))
        .number(follow.n.into())
        .number(follow.lease.as_micros());
    let call = follow.failed.iter().fold(call, |call, failure| {
        call.number(failure.seq)
            .number(failure.attempts.max(1).into())
            .number(failure.retry_after.as_micros() as u64)
            .arg(failure.reason_cut())
    });
    let add = |call: Call, seq: &u64| call.number(*seq).number(0).number(0).arg("");
    Ok(follow.recovered.iter().fold(call, add))
}

pub(crate) fn read_followed(home: &Home, _: &verb::FollowOrders, reply: Reply) -> Result<Followed> {
    let mut fields = reply.list()?;
    match fields.int()? {
        1 => {}
        2 => return Ok(Followed::Busy { until: Timestamp::from_micros(fields.int()?) }),
        3 => return Err(Error::invalid("the sale", "has no ledger")),
        _ => return Err(strange("an unknown outcome")),
    }
    let (generation, through, latest) = (fields.small()?, fields.int()?, fields.int()?);
    let entries = fields.each(|fields| read_delivery(home, fields.list()?))?;
    Ok(Followed::Batch(OrderBatch { generation, entries, through, latest }))
}

fn read_delivery(home: &Home, mut fields: Fields) -> Result<Delivery> {
    let (seq, attempts, id) = (fields.int()?, fields.small()?, fields.bytes()?);
    let entry = if id.is_empty() {
        let no = fields.int()? as usize;
        let (total, per_buyer, withdrawn) = (fields.small()?, fields.small()?, fields.bytes()?);
        let withdrawn = home.ranges(Packed(&withdrawn))?.into_iter().map(|(_, range)| range).collect();
        let (sale, sku) = (home.spec.id.clone(), home.sku(no)?);
        LedgerEntry::Stock { sale, sku, seq, total, withdrawn, per_buyer }
    } else {
        let hold = home.hold(ReservationId::from_bytes(id_of(&id)?), &fields.bytes()?)?;
        let intent =
            OrderIntent::awaited(hold.state).ok_or_else(|| strange("the entry of a settled hold"))?;
        let Hold { id, buyer, units, seq, generation, .. } = hold;
        LedgerEntry::Reservation { sale: home.spec.id.clone(), generation, seq, id, buyer, units, intent }
    };
    Ok(Delivery { seq, attempts, entry })
}

pub(crate) fn failed_orders(home: &Home, verb: &verb::FailedOrders) -> Result<Call> {
    Ok(home.call(Function::SaleFailedOrders).number(verb.page.after).number(verb.page.limit.into()))
}

pub(crate) fn read_failed(reply: Reply) -> Result<Vec<FailedOrder>> {
    reply.list()?.each(|members| unpack_failed(&members.bytes()?))
}

/// A member of the key `failed`.
pub(super) fn unpack_failed(member: &[u8]) -> Result<FailedOrder> {
    let mut packed = Packed(member);
    let (retry_at, seq, attempts) =
        (Timestamp::from_micros(packed.number(7)?), packed.number(7)?, packed.small(4)?);
    Ok(FailedOrder { seq, attempts, retry_at, reason: str_of(packed.0)?.to_owned() })
}

pub(crate) fn retry_orders(home: &Home, _: &verb::RetryOrders) -> Result<Call> {
    Ok(home.call(Function::SaleRetryOrders))
}
