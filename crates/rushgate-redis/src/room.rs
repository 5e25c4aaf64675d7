//! Waiting room operations: encodes requests and decodes answers.

use std::time::Duration;

use rushgate_core::{
    AdmissionSchedule, Beacon, ClosedEntry, Commitment, Draw, DrawSecret, Drawn, Entered, Error, Joined,
    Rate, Result, RoomOrder, RoomRules, RoomState, SaleId, Timestamp, verb,
};

use crate::command::Call;
use crate::command::micros;
use crate::function::Function;
use crate::keys;
use crate::reply::{Fields, Reply, nonzero, strange};
use crate::sale::unknown;

fn call(function: Function, sale: &SaleId) -> Call {
    Call::new(function, [keys::sale_home(sale), keys::room(sale)])
}

pub(crate) fn set(verb: &verb::SetRoom) -> Call {
    let verb::SetRoom { sale, rules, secret } = verb;
    call(Function::RoomSet, sale)
        .number(rules.rate.n.into())
        .number(micros(rules.rate.per))
        .number(micros(rules.pass))
        .flag(rules.order == RoomOrder::Draw)
        .arg(rules.from.map(|from| from.as_micros().to_string()).unwrap_or_default())
        .arg(secret.to_bytes())
        .arg(secret.commitment().to_bytes())
}

/// The fields of an answer. `None` if the sale has no room.
fn list_of(sale: &SaleId, reply: Reply) -> Result<Option<Fields>> {
    match reply {
        Reply::Int(0) => Err(unknown(sale)),
        Reply::Int(1) => Ok(None),
        other => other.list().map(Some),
    }
}

pub(crate) fn read_set(sale: &SaleId, reply: Reply) -> Result<RoomState> {
    if reply == Reply::Int(2) {
        return Err(Error::invalid("the room order", "cannot be changed; close the room first"));
    }
    let mut fields = list_of(sale, reply)?.ok_or_else(|| strange("no room"))?;
    read_state(&mut fields)
}

pub(crate) fn show(verb: &verb::Room) -> Call {
    call(Function::RoomShow, &verb.sale)
}

pub(crate) fn read_shown(sale: &SaleId, reply: Reply) -> Result<Option<RoomState>> {
    list_of(sale, reply)?.map(|mut fields| read_state(&mut fields)).transpose()
}

pub(crate) fn join(verb: &verb::Join) -> Call {
    call(Function::RoomJoin, &verb.sale).arg(verb.buyer.as_str())
}

pub(crate) fn read_joined(sale: &SaleId, reply: Reply) -> Result<Option<Joined>> {
    let Some(mut fields) = list_of(sale, reply)? else { return Ok(None) };
    let (serial, again) = (fields.int()?, fields.int()? == 1);
    let until = nonzero(fields.int()?);
    Ok(Some(Joined { serial, again, until, room: read_state(&mut fields.list()?)? }))
}

pub(crate) fn enter(verb: &verb::Enter) -> Call {
    let enter = &verb.enter;
    let (serial, place) =
        enter.place.map(|(serial, place)| (serial.to_string(), place.to_string())).unwrap_or_default();
    call(Function::RoomEnter, &enter.sale).arg(enter.buyer.as_str()).arg(serial).arg(place)
}

pub(crate) fn read_entered(sale: &SaleId, reply: Reply) -> Result<Option<Entered>> {
    let Some(mut fields) = list_of(sale, reply)? else { return Ok(None) };
    let (serial, until) = (fields.optional()?, fields.optional()?);
    let ticket = serial.map(|serial| (serial, until.and_then(nonzero)));
    Ok(Some(Entered { ticket, room: read_state(&mut fields.list()?)? }))
}

pub(crate) fn close_entry(verb: &verb::CloseEntry) -> Call {
    call(Function::RoomCloseEntry, &verb.sale)
}

pub(crate) fn draw(verb: &verb::Draw) -> Call {
    call(Function::RoomDraw, &verb.sale).arg(verb.beacon.as_str())
}

pub(crate) fn read_drawn(sale: &SaleId, reply: Reply) -> Result<Option<Draw>> {
    Ok(read_of_draw(sale, reply)?.map(Draw::of))
}

/// The answer of an operation that needs a room with a draw.
pub(crate) fn read_of_draw(sale: &SaleId, reply: Reply) -> Result<Option<RoomState>> {
    if reply == Reply::Int(2) {
        return Err(Error::invalid("the room", "admits buyers in order of arrival, without a draw"));
    }
    read_shown(sale, reply)
}

pub(crate) fn close(verb: &verb::CloseRoom) -> Call {
    call(Function::RoomClose, &verb.sale)
}

pub(crate) fn read_closed(sale: &SaleId, reply: Reply) -> Result<bool> {
    match reply.int()? {
        0 => Err(unknown(sale)),
        closed => Ok(closed == 2),
    }
}

/// 32 bytes, or '' for none.
fn read_digest(fields: &mut Fields) -> Result<Option<[u8; 32]>> {
    let bytes = fields.bytes()?;
    match bytes.is_empty() {
        true => Ok(None),
        false => bytes.try_into().map(Some).map_err(|_| strange("not 32 bytes")),
    }
}

fn read_state(fields: &mut Fields) -> Result<RoomState> {
    let rate = Rate::new(fields.small()?, Duration::from_micros(fields.int()?));
    let pass = Duration::from_micros(fields.int()?);
    let order = if fields.int()? == 1 { RoomOrder::Draw } else { RoomOrder::FirstCome };
    let rules = RoomRules { rate, pass, order, from: fields.moment()? };
    let opened = Timestamp::from_micros(fields.int()?);
    let base = fields.int()?;
    let pace = fields.moment()?.map(|since| AdmissionSchedule { rate, base, since });
    let (joined, served, admitted) = (fields.int()?, fields.int()?, fields.int()?);
    let commitment = read_digest(fields)?.map(Commitment::from_bytes);
    let (closed_at, entrants) = (fields.moment()?, fields.optional()?);
    let closed_entry = entrants.zip(closed_at).map(|(entrants, at)| ClosedEntry { entrants, at });
    let secret = read_digest(fields)?.map(DrawSecret::from_bytes);
    let beacon = fields.text()?;
    let drawn = match entrants.zip(secret) {
        Some((entrants, secret)) => Some(Drawn { entrants, secret, beacon: Beacon::new(beacon)? }),
        None => None,
    };
    let now = Timestamp::from_micros(fields.int()?);
    Ok(RoomState { rules, opened, joined, served, admitted, pace, commitment, closed_entry, drawn, now })
}
