use std::collections::BTreeMap;

use rushgate_core::{
    AdmissionSchedule, Beacon, BuyerId, ClosedEntry, Draw, DrawSecret, Drawn, Enter, Entered, Error, Joined,
    Result, RoomOrder, RoomRules, RoomState, SaleId, Timestamp,
};

use super::{Model, Planted};

/// Waiting rooms by sale.
pub(super) type Rooms = BTreeMap<SaleId, Room>;

#[derive(Clone, Debug)]
pub(super) struct Room {
    rules: RoomRules,
    opened: Timestamp,
    pace: Option<AdmissionSchedule>,
    secret: DrawSecret,
    closed_entry: Option<ClosedEntry>,
    drawn: Option<Drawn>,
    joined: u64,
    admitted: u64,
    tickets: BTreeMap<BuyerId, Ticket>,
    bug: Option<Planted>,
}

#[derive(Clone, Copy, Debug)]
struct Ticket {
    serial: u64,
    until: Option<Timestamp>,
}

impl Room {
    fn new(now: Timestamp, rules: RoomRules, secret: DrawSecret, bug: Option<Planted>) -> Self {
        let pace = (rules.order == RoomOrder::FirstCome).then(|| first_pace(now, &rules));
        let (tickets, opened) = (BTreeMap::new(), now);
        let (closed_entry, drawn) = (None, None);
        Self { rules, opened, pace, secret, closed_entry, drawn, joined: 0, admitted: 0, tickets, bug }
    }

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

    fn change(&mut self, now: Timestamp, rules: RoomRules) -> Result<()> {
        if rules.order != self.rules.order {
            return Err(Error::invalid("the room order", "cannot be changed; close the room first"));
        }
        if rules != self.rules {
            let is_reset = self.bug == Some(Planted::NewRateServesAnew);
            let change = |pace: AdmissionSchedule| match is_reset {
                true => AdmissionSchedule::from(rules.rate, now),
                false => pace.changed(now, self.joined, rules.rate, rules.from),
            };
            self.pace = self.pace.map(change);
            self.rules = rules;
        }
        Ok(())
    }

    fn join(&mut self, now: Timestamp, buyer: &BuyerId) -> Joined {
        let old = self.tickets.get(buyer).copied();
        // A buyer whose admission token has expired joins again at the end.
        let kept = old.filter(|ticket| ticket.until.is_none_or(|until| now < until));
        let ticket = kept.unwrap_or(Ticket { serial: self.joined, until: None });
        if kept.is_none() {
            if self.bug != Some(Planted::IdleRoomSavesPlaces) {
                self.pace = self.pace.map(|pace| pace.joined(now, self.joined));
            }
            self.joined += 1;
            self.tickets.insert(buyer.clone(), ticket);
        }
        Joined { serial: ticket.serial, again: kept.is_some(), until: ticket.until, room: self.state(now) }
    }

    fn enter(&mut self, now: Timestamp, enter: &Enter) -> Entered {
        let served = self.served(now);
        let (first_come, trusting) = (self.drawn.is_none(), self.bug == Some(Planted::RoomTrustsAnyPlace));
        if let Some(ticket) = self.tickets.get_mut(&enter.buyer).filter(|ticket| ticket.until.is_none()) {
            let said = enter.place.filter(|(serial, _)| trusting || *serial == ticket.serial);
            let place = if first_come { Some(ticket.serial) } else { said.map(|(_, place)| place) };
            if place.is_some_and(|place| place < served) {
                ticket.until = Some(now + self.rules.pass);
                self.admitted += 1;
            }
        }
        let ticket = self.tickets.get(&enter.buyer).map(|ticket| (ticket.serial, ticket.until));
        Entered { ticket, room: self.state(now) }
    }

    fn must_have_draw(&self) -> Result<()> {
        match self.rules.order {
            RoomOrder::Draw => Ok(()),
            RoomOrder::FirstCome => {
                Err(Error::invalid("the room", "admits buyers in order of arrival, without a draw"))
            }
        }
    }

    fn close_entry(&mut self, now: Timestamp) -> Result<()> {
        self.must_have_draw()?;
        if self.drawn.is_none() {
            self.closed_entry.get_or_insert(ClosedEntry { entrants: self.joined, at: now });
        }
        Ok(())
    }

    fn draw(&mut self, now: Timestamp, beacon: Beacon) -> Result<()> {
        self.must_have_draw()?;
        if self.bug == Some(Planted::OpenEntryIsDrawn) {
            self.close_entry(now)?;
        }
        let Some(entry) = self.closed_entry.filter(|_| self.drawn.is_none()) else { return Ok(()) };
        let late = self.bug == Some(Planted::LateComersAreDrawn);
        let entrants = if late { self.joined } else { entry.entrants };
        self.drawn = Some(Drawn { entrants, secret: self.secret, beacon });
        self.pace = Some(first_pace(now, &self.rules));
        Ok(())
    }
}

fn first_pace(now: Timestamp, rules: &RoomRules) -> AdmissionSchedule {
    AdmissionSchedule::from(rules.rate, now.max(rules.from.unwrap_or_default()))
}

impl Model {
    fn room_mut(&mut self, sale: &SaleId) -> Result<Option<&mut Room>> {
        self.must_have_sale(sale)?;
        Ok(self.rooms.get_mut(sale))
    }

    /// See [`Verbs::set_room`](rushgate_core::Verbs::set_room).
    pub fn set_room(
        &mut self,
        now: Timestamp,
        sale: &SaleId,
        rules: RoomRules,
        secret: DrawSecret,
    ) -> Result<RoomState> {
        let bug = self.bug;
        match self.room_mut(sale)? {
            Some(room) => room.change(now, rules)?,
            None => drop(self.rooms.insert(sale.clone(), Room::new(now, rules, secret, bug))),
        }
        Ok(self.rooms[sale].state(now))
    }

    /// See [`Verbs::room`](rushgate_core::Verbs::room).
    pub fn room(&mut self, now: Timestamp, sale: &SaleId) -> Result<Option<RoomState>> {
        Ok(self.room_mut(sale)?.map(|room| room.state(now)))
    }

    /// See [`Verbs::join`](rushgate_core::Verbs::join).
    pub fn join(&mut self, now: Timestamp, sale: &SaleId, buyer: &BuyerId) -> Result<Option<Joined>> {
        Ok(self.room_mut(sale)?.map(|room| room.join(now, buyer)))
    }

    /// See [`Verbs::enter`](rushgate_core::Verbs::enter).
    pub fn enter(&mut self, now: Timestamp, enter: &Enter) -> Result<Option<Entered>> {
        Ok(self.room_mut(&enter.sale)?.map(|room| room.enter(now, enter)))
    }

    /// See [`Verbs::close_entry`](rushgate_core::Verbs::close_entry).
    pub fn close_entry(&mut self, now: Timestamp, sale: &SaleId) -> Result<Option<RoomState>> {
        let Some(room) = self.room_mut(sale)? else { return Ok(None) };
        room.close_entry(now)?;
        Ok(Some(room.state(now)))
    }

    /// See [`Verbs::draw`](rushgate_core::Verbs::draw).
    pub fn draw(&mut self, now: Timestamp, sale: &SaleId, beacon: Beacon) -> Result<Option<Draw>> {
        let Some(room) = self.room_mut(sale)? else { return Ok(None) };
        room.draw(now, beacon)?;
        Ok(Some(Draw::of(room.state(now))))
    }

    /// See [`Verbs::close_room`](rushgate_core::Verbs::close_room).
    pub fn close_room(&mut self, sale: &SaleId) -> Result<bool> {
        self.must_have_sale(sale)?;
        Ok(self.rooms.remove(sale).is_some())
    }
}
