//! The waiting-room methods, each one step.

use std::time::Duration;

use rushgate_core::{
    AdmissionSchedule, Beacon, BuyerId, ClosedEntry, Draw, DrawSecret, Drawn, Enter, Entered, Error, Joined,
    Rate, RoomOrder, RoomRules, RoomState, SaleId, Timestamp, verb,
};
use rusqlite::Row;

use crate::fault::Result;
use crate::read::Reader;
use crate::sale::unknown;
use crate::sql::sql;
use crate::step::Step;
use crate::stored::{micros, optional_time, parse, stored, time};

/// A room's row.
struct Room {
    no: i64,
    rules: RoomRules,
    opened: Timestamp,
    pace: Option<AdmissionSchedule>,
    joined: u64,
    admitted: u64,
    secret: DrawSecret,
    closed_entry: Option<ClosedEntry>,
    drawn: Option<Drawn>,
}

/// A buyer's serial, and when the admission token expires.
struct Ticket {
    serial: u64,
    until: Option<Timestamp>,
}

impl Room {
    fn served(&self, now: Timestamp) -> u64 {
        self.pace.map_or(0, |pace| pace.served(now, self.joined))
    }

    fn state(&self, now: Timestamp) -> RoomState {
        let is_draw = self.rules.order == RoomOrder::Draw;
        RoomState {
            rules: self.rules,
            opened: self.opened,
            joined: self.joined,
            served: self.served(now),
            admitted: self.admitted,
            pace: self.pace,
            commitment: is_draw.then(|| self.secret.commitment()),
            closed_entry: self.closed_entry,
            drawn: self.drawn.clone(),
            now,
        }
    }

    fn entrants(&self) -> Option<u64> {
        let drawn = self.drawn.as_ref().map(|drawn| drawn.entrants);
        drawn.or(self.closed_entry.map(|entry| entry.entrants))
    }

    fn must_have_draw(&self) -> Result<()> {
        match self.rules.order {
            RoomOrder::Draw => Ok(()),
            RoomOrder::FirstCome => {
                let why = "admits buyers in order of arrival, without a draw";
                Err(Error::invalid("the room", why).into())
            }
        }
    }

    fn store(&self, step: &mut Step<'_>) -> Result<()> {
        let params = (
            self.no,
            self.rules.rate.n,
            micros(self.rules.rate.per),
            micros(self.rules.pass),
            self.rules.from.map(stored),
            self.pace.map_or(0, |pace| pace.base.cast_signed()),
            self.pace.map(|pace| stored(pace.since)),
            self.joined.cast_signed(),
            self.admitted.cast_signed(),
            self.entrants().map(u64::cast_signed),
            self.drawn.as_ref().map(|drawn| drawn.beacon.as_str()),
            self.closed_entry.map(|entry| stored(entry.at)),
        );
        step.exec(sql!("room/row", "store"), params).map(drop)
    }

    fn ticket(&self, step: &mut Step<'_>, buyer: &BuyerId) -> Result<Option<Ticket>> {
        step.row(sql!("room/ticket", "load"), (self.no, buyer.as_str()), |row| {
            Ok(Ticket { serial: row.get::<_, i64>(0)?.cast_unsigned(), until: optional_time(row, 1)? })
        })
    }

    fn store_ticket(&self, step: &mut Step<'_>, buyer: &BuyerId, ticket: &Ticket) -> Result<()> {
        let params = (self.no, buyer.as_str(), ticket.serial.cast_signed(), ticket.until.map(stored));
        step.exec(sql!("room/ticket", "store"), params).map(drop)
    }

    /// Whether the buyer's position is served. In a room with a draw the caller computes the position: `said` is the
    /// serial and its position.
    fn is_served(&self, now: Timestamp, ticket: &Ticket, said: Option<(u64, u64)>) -> bool {
        let place = match self.rules.order {
            RoomOrder::FirstCome => Some(ticket.serial),
            RoomOrder::Draw => said.filter(|(serial, _)| *serial == ticket.serial).map(|(_, place)| place),
        };
        place.is_some_and(|place| place < self.served(now))
    }
}

fn whole(row: &Row<'_>, at: usize) -> rusqlite::Result<u64> {
    Ok(row.get::<_, i64>(at)?.cast_unsigned())
}

fn read_room(row: &Row<'_>) -> rusqlite::Result<Room> {
    let duration = |at| whole(row, at).map(Duration::from_micros);
    let rate = Rate::new(row.get(1)?, duration(2)?);
    let order = if row.get(4)? { RoomOrder::Draw } else { RoomOrder::FirstCome };
    let base = whole(row, 7)?;
    let secret = DrawSecret::from_bytes(row.get(11)?);
    let drawn = match row.get::<_, Option<String>>(13)? {
        Some(beacon) => Some(Drawn { entrants: whole(row, 12)?, secret, beacon: parse(&beacon, 13)? }),
        None => None,
    };
    let closed_entry = match optional_time(row, 14)? {
        Some(at) => Some(ClosedEntry { entrants: whole(row, 12)?, at }),
        None => None,
    };
    Ok(Room {
        no: row.get(0)?,
        rules: RoomRules { rate, pass: duration(3)?, order, from: optional_time(row, 5)? },
        opened: time(row, 6)?,
        pace: optional_time(row, 8)?.map(|since| AdmissionSchedule { rate, base, since }),
        joined: whole(row, 9)?,
        admitted: whole(row, 10)?,
        secret,
        closed_entry,
        drawn,
    })
}

/// Loads the sale's room, if it has one. Fails if the sale does not exist.
fn load(reader: &Reader<'_>, sale: &SaleId) -> Result<Option<Room>> {
    let room = reader.row(sql!("room/row", "load"), [sale.as_str()], read_room)?;
    if room.is_none() {
        reader.value::<i64>(sql!("room/row", "sale"), [sale.as_str()])?.ok_or_else(|| unknown(sale))?;
    }
    Ok(room)
}

/// The initial pace: when the first position is served.
fn first_pace(now: Timestamp, rules: &RoomRules) -> AdmissionSchedule {
    AdmissionSchedule::from(rules.rate, now.max(rules.from.unwrap_or_default()))
}

pub(crate) fn set(step: &mut Step<'_>, v: &verb::SetRoom) -> Result<RoomState> {
    let verb::SetRoom { sale, rules, secret } = v;
    let now = step.now;
    match load(step, sale)? {
        Some(room) if room.rules.order != rules.order => {
            Err(Error::invalid("the room order", "cannot be changed; close the room first").into())
        }
        Some(room) if room.rules == *rules => Ok(room.state(now)),
        Some(mut room) => {
            room.pace = room.pace.map(|pace| pace.changed(now, room.joined, rules.rate, rules.from));
            room.rules = *rules;
            room.store(step)?;
            Ok(room.state(now))
        }
        None => open(step, sale, *rules, *secret),
    }
}

fn open(step: &mut Step<'_>, sale: &SaleId, rules: RoomRules, secret: DrawSecret) -> Result<RoomState> {
    let now = step.now;
    let pace = (rules.order == RoomOrder::FirstCome).then(|| first_pace(now, &rules));
    let params = (
        sale.as_str(),
        rules.rate.n,
        micros(rules.rate.per),
        micros(rules.pass),
        rules.order == RoomOrder::Draw,
        rules.from.map(stored),
        stored(now),
        pace.map(|pace| stored(pace.since)),
        secret.to_bytes(),
    );
    step.exec(sql!("room/row", "open"), params)?;
    let (no, opened) = (step.inserted(), now);
    let (closed_entry, drawn) = (None, None);
    let room = Room { no, rules, opened, pace, joined: 0, admitted: 0, secret, closed_entry, drawn };
    Ok(room.state(now))
}

pub(crate) fn show(reader: &Reader<'_>, sale: &SaleId) -> Result<Option<RoomState>> {
    Ok(load(reader, sale)?.map(|room| room.state(reader.now)))
}

pub(crate) fn join(step: &mut Step<'_>, sale: &SaleId, buyer: &BuyerId) -> Result<Option<Joined>> {
    let now = step.now;
    let Some(mut room) = load(step, sale)? else { return Ok(None) };
    // A buyer whose admission token has expired joins again at the end.
    let kept = room.ticket(step, buyer)?.filter(|ticket| ticket.until.is_none_or(|until| now < until));
    let again = kept.is_some();
    let ticket = kept.unwrap_or(Ticket { serial: room.joined, until: None });
    if !again {
        room.pace = room.pace.map(|pace| pace.joined(now, room.joined));
        room.joined += 1;
        room.store_ticket(step, buyer, &ticket)?;
        room.store(step)?;
    }
    Ok(Some(Joined { serial: ticket.serial, again, until: ticket.until, room: room.state(now) }))
}

pub(crate) fn enter(step: &mut Step<'_>, enter: &Enter) -> Result<Option<Entered>> {
    let now = step.now;
    let Some(mut room) = load(step, &enter.sale)? else { return Ok(None) };
    let mut ticket = room.ticket(step, &enter.buyer)?;
    if let Some(ticket) = ticket.as_mut().filter(|ticket| ticket.until.is_none())
        && room.is_served(now, ticket, enter.place)
    {
        ticket.until = Some(now + room.rules.pass);
        room.admitted += 1;
        room.store_ticket(step, &enter.buyer, ticket)?;
        room.store(step)?;
    }
    let ticket = ticket.map(|ticket| (ticket.serial, ticket.until));
    Ok(Some(Entered { ticket, room: room.state(now) }))
}

pub(crate) fn close_entry(step: &mut Step<'_>, sale: &SaleId) -> Result<Option<RoomState>> {
    let now = step.now;
    let Some(mut room) = load(step, sale)? else { return Ok(None) };
    room.must_have_draw()?;
    if room.entrants().is_none() {
        room.closed_entry = Some(ClosedEntry { entrants: room.joined, at: now });
        room.store(step)?;
    }
    Ok(Some(room.state(now)))
}

pub(crate) fn draw(step: &mut Step<'_>, sale: &SaleId, beacon: &Beacon) -> Result<Option<Draw>> {
    let now = step.now;
    let Some(mut room) = load(step, sale)? else { return Ok(None) };
    room.must_have_draw()?;
    if let Some(ClosedEntry { entrants, .. }) = room.closed_entry
        && room.drawn.is_none()
    {
        room.drawn = Some(Drawn { entrants, secret: room.secret, beacon: beacon.clone() });
        room.pace = Some(first_pace(now, &room.rules));
        room.store(step)?;
    }
    Ok(Some(Draw::of(room.state(now))))
}

/// Closes the room. The sweep deletes its tickets in parts, because there may be millions.
pub(crate) fn close(step: &mut Step<'_>, sale: &SaleId) -> Result<bool> {
    let Some(room) = load(step, sale)? else { return Ok(false) };
    step.value::<i64>(sql!("room/close", "room"), [sale.as_str()])?;
    step.exec(sql!("room/close", "enter"), [room.no])?;
    Ok(true)
}
