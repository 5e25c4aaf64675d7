use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Answer, Beacon, BuyerId, Commitment, DrawSecret, Drawn, Rate, SaleId, Timestamp};

/// The waiting rooms of sales: whoever wants to buy joins, has a place, and is let in when it is his turn.
///
/// A room has at most one entry for each buyer: his serial, 0, 1, 2, … by arrival, and when he was let in. How many places
/// are **served**, that is, whose turn it is or was, follows from the store's clock and the room's [`Pace`] alone: nothing
/// ticks. Places of those who never come are passed over, and places that nobody stood at are not saved up.
///
/// In a [`RoomOrder::FirstCome`] room the place is the serial. In a [`RoomOrder::Draw`] room nobody is let in before the
/// draw. Before it the room's entry is closed ([`close_entry`](Self::close_entry)): the draw gives those who had joined by
/// then other places ([`Drawn::place`]); those who join later stand behind them.
///
/// A sale has one room or none, and every verb fails with [`is_not_found`](crate::Error::is_not_found) for a sale that is
/// not there. A rebuild of the sale leaves its room alone.
pub trait RoomStore: Send + Sync {
    /// Opens the sale's room, or gives it other rules while people wait. Nobody's place changes: what is served stays
    /// served, and the new rate counts from there. The same rules again change nothing.
    ///
    /// `secret` is what a draw is decided by; a room that is there keeps its own. The order cannot be changed
    /// ([`is_invalid`](crate::Error::is_invalid)).
    fn set_room(&self, sale: &SaleId, rules: RoomRules, secret: DrawSecret) -> Answer<'_, RoomState>;

    /// The room as it stands, if the sale has one.
    fn room(&self, sale: &SaleId) -> Answer<'_, Option<RoomState>>;

    /// Gives the buyer a serial; none if there is no room. Whoever is in keeps his, unless his pass ran out: he joins
    /// anew, at the end.
    fn join(&self, sale: &SaleId, buyer: &BuyerId) -> Answer<'_, Option<Joined>>;

    /// Looks where the buyer stands, and lets him in if his place is served; none if there is no room. He is let in once:
    /// asked again, his pass ends at the same moment.
    ///
    /// The place is worked out by the caller, for the serial that the buyer has; without one, or for another serial,
    /// nobody is let in after a draw. Without a draw the store knows the place.
    fn enter(&self, enter: Enter) -> Answer<'_, Option<Entered>>;

    /// Closes the entry for the draw: fixes who takes part in it, which is whoever has joined by now; none if there is no
    /// room. Whoever joins later stands behind them, in the order of arrival. An entry is closed once: later calls change
    /// nothing, and the answer says when it was closed and how many take part.
    /// [`is_invalid`](crate::Error::is_invalid) for a room that has no draw.
    fn close_entry(&self, sale: &SaleId) -> Answer<'_, Option<RoomState>>;

    /// Draws: shows the secret and begins to let people in; none if there is no room. Nothing is drawn before the entry is
    /// closed, so that how many take part can be published before anybody knows the beacon. A room is drawn once: later
    /// calls change nothing, and the answer says by which beacon it was drawn. [`is_invalid`](crate::Error::is_invalid) for
    /// a room that has no draw.
    fn draw(&self, sale: &SaleId, beacon: Beacon) -> Answer<'_, Option<Draw>>;

    /// Takes the room away, with all who wait, and says whether there was one: everybody may buy.
    fn close_room(&self, sale: &SaleId) -> Answer<'_, bool>;
}

/// How a room lets people in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomRules {
    /// How many are let in, evenly: 1 to 10,000 in 1 ms to a day.
    pub rate: Rate,
    /// How long a pass holds, from the moment at which its buyer was let in: 1 s to a day.
    #[serde(rename = "pass_us", with = "crate::time::as_micros")]
    pub pass: Duration,
    /// Who goes first.
    pub order: RoomOrder,
    /// Nobody is let in before this moment.
    pub from: Option<Timestamp>,
}

impl RoomRules {
    /// How long a pass holds unless somebody says otherwise.
    pub const PASS: Duration = Duration::from_secs(60);
    /// The shortest pass.
    pub const PASS_MIN: Duration = Duration::from_secs(1);
    /// The longest pass.
    pub const PASS_MAX: Duration = Duration::from_secs(86_400);
    /// The latest moment from which people are let in: every store counts exactly that far.
    pub const FROM_MAX_US: u64 = (1 << 53) - 1;
    /// The longest time of a rate.
    pub const PER_MAX: Duration = Duration::from_secs(86_400);

    /// First come, first served, at that rate, with a minute to buy.
    pub const fn new(rate: Rate) -> Self {
        Self { rate, pass: Self::PASS, order: RoomOrder::FirstCome, from: None }
    }
}

/// Who goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoomOrder {
    /// Whoever came first.
    #[default]
    FirstCome,
    /// Whoever is drawn first of those who came before the entry was closed.
    Draw,
}

/// The entry of a draw that was closed: nobody takes part in it who came later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedEntry {
    /// How many take part: those with the serials below this number.
    pub entrants: u64,
    /// When it was closed.
    pub at: Timestamp,
}

/// When which place is served: one after another, evenly, from a moment on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    /// How fast.
    pub rate: Rate,
    /// Places that were served before.
    pub base: u64,
    /// When the next one after them is served.
    pub since: Timestamp,
}

impl Pace {
    /// From the first place on.
    pub fn from(rate: Rate, since: Timestamp) -> Self {
        Self { rate, base: 0, since }
    }

    fn per_us(self) -> u64 {
        (self.rate.per.as_micros() as u64).max(1)
    }

    /// How many places could be served by then, however many there are.
    fn reach(self, now: Timestamp) -> u64 {
        if now < self.since {
            return self.base;
        }
        let (elapsed, n) = (self.since_us(now), u64::from(self.rate.n));
        let whole = (elapsed / self.per_us()).saturating_mul(n);
        self.base.saturating_add(1 + elapsed % self.per_us() * n / self.per_us()).saturating_add(whole)
    }

    fn since_us(self, now: Timestamp) -> u64 {
        now.since(self.since).as_micros() as u64
    }

    /// How many places are served by then, if so many exist.
    pub fn served(self, now: Timestamp, joined: u64) -> u64 {
        self.reach(now).min(joined)
    }

    /// When a place is served, unless the pace changes.
    pub fn at(self, place: u64) -> Timestamp {
        let (ahead, n) = (place.saturating_sub(self.base), u64::from(self.rate.n).max(1));
        let micros = (u128::from(ahead) * u128::from(self.per_us())).div_ceil(u128::from(n));
        self.since + Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    /// After somebody has joined a line of so many. At the end of an empty line it is his turn at once, and the next one's
    /// an interval later: what nobody stood at is not saved up.
    #[must_use]
    pub fn joined(self, now: Timestamp, joined: u64) -> Self {
        if self.reach(now) > joined { Self { base: joined, since: now, ..self } } else { self }
    }

    /// At another rate, or not before another moment, with what was served before. The next place is served when it would
    /// have been, or an interval of the new rate from now, if that is sooner; so neither do changes hold the line up, nor
    /// do they let more people in.
    #[must_use]
    pub fn changed(self, now: Timestamp, joined: u64, rate: Rate, from: Option<Timestamp>) -> Self {
        let base = self.served(now, joined);
        let next = self.at(base).max(now);
        let interval = Self { rate, base: 0, since: now }.at(1);
        Self { rate, base, since: next.min(interval).max(from.unwrap_or_default()) }
    }
}

/// A room as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomState {
    /// How it lets people in.
    pub rules: RoomRules,
    /// When it was opened.
    pub opened: Timestamp,
    /// How many have joined: the next serial.
    pub joined: u64,
    /// How many places are served by now: those below this number.
    pub served: u64,
    /// How many passes were given out.
    pub admitted: u64,
    /// When which place is served; none before a draw.
    pub pace: Option<Pace>,
    /// In a room with a draw: the SHA-256 of its secret.
    pub commitment: Option<Commitment>,
    /// Who takes part in the draw, once that is fixed. A room that was drawn before entries were closed has none.
    pub closed_entry: Option<ClosedEntry>,
    /// What was drawn.
    pub drawn: Option<Drawn>,
    /// The store's clock when this was read.
    pub now: Timestamp,
}

impl RoomState {
    /// Where whoever has that serial stands; none for whoever takes part in a draw that is still to come.
    pub fn place(&self, serial: u64) -> Option<u64> {
        match (&self.drawn, self.rules.order) {
            (Some(drawn), _) => Some(drawn.place(serial)),
            (None, RoomOrder::FirstCome) => Some(serial),
            (None, RoomOrder::Draw) => {
                let is_late = self.closed_entry.is_some_and(|entry| serial >= entry.entrants);
                is_late.then_some(serial)
            }
        }
    }

    /// When that place is served, as long as the rate stays what it is; none before a draw.
    pub fn at(&self, place: u64) -> Option<Timestamp> {
        self.pace.map(|pace| pace.at(place))
    }
}

/// The answer to [`RoomStore::join`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The buyer's serial.
    pub serial: u64,
    /// Whether he was in before.
    pub again: bool,
    /// Until when his pass holds, if he was let in.
    pub until: Option<Timestamp>,
    /// The room, with him in it.
    pub room: RoomState,
}

/// The answer to [`RoomStore::draw`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Draw {
    /// The room's entry is not closed yet. Nothing was drawn.
    EntryOpen(RoomState),
    /// It is drawn, by this call or before.
    Drawn(RoomState),
}

impl Draw {
    /// What has become of a room that was to be drawn.
    pub fn of(room: RoomState) -> Self {
        if room.drawn.is_some() { Self::Drawn(room) } else { Self::EntryOpen(room) }
    }
}

/// A buyer who wants to be let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enter {
    /// To which sale.
    pub sale: SaleId,
    /// Who.
    pub buyer: BuyerId,
    /// His serial and the place that follows from it, if they are known.
    pub place: Option<(u64, u64)>,
}

/// The answer to [`RoomStore::enter`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entered {
    /// The buyer's serial, if he is in, and until when his pass holds, or held, if he was let in.
    pub ticket: Option<(u64, Option<Timestamp>)>,
    /// The room.
    pub room: RoomState,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    fn pace(n: u32, per: Duration) -> Pace {
        Pace::from(Rate::new(n, per), at(1_000_000))
    }

    #[test]
    fn places_are_served_evenly_and_to_the_microsecond() {
        let pace = pace(3, Duration::from_secs(1));
        for (micros, served) in
            [(0, 0), (999_999, 0), (1_000_000, 1), (1_333_333, 1), (1_333_334, 2), (2_000_000, 4)]
        {
            assert_eq!(pace.served(at(micros), 100), served, "at {micros}");
        }
        assert_eq!(pace.served(at(2_000_000), 2), 2, "no more than there are");
        for place in 0..1_000 {
            let moment = pace.at(place);
            assert_eq!(pace.served(moment, 5_000), place + 1);
            assert_eq!(pace.served(at(moment.as_micros() - 1), 5_000), place);
        }
    }

    #[test]
    fn a_pace_never_overflows() {
        let pace = pace(10_000, RoomRules::PER_MAX);
        let end = at(u64::MAX >> 11);
        assert_eq!(pace.served(end, u64::MAX >> 11), pace.served(end, u64::MAX));
        assert!(pace.at(u64::MAX) > pace.since);
        let fast = Pace::from(Rate::new(10_000, Duration::from_millis(1)), at(0));
        assert_eq!(fast.served(at(u64::MAX), 7), 7);
    }

    #[test]
    fn what_nobody_stood_at_is_not_saved_up() {
        let pace = pace(1, Duration::from_secs(1));
        let now = at(60_000_000);
        let pace = pace.joined(now, 0);
        assert_eq!(pace.served(now, 1), 1, "the first goes in at once");
        let pace = pace.joined(now, 1).joined(now, 2);
        assert_eq!(pace.served(now, 3), 1, "the others take their turns");
        assert_eq!((pace.at(1), pace.at(2)), (at(61_000_000), at(62_000_000)));
    }

    #[test]
    fn a_change_of_rate_keeps_what_is_served_and_lets_nobody_in_by_itself() {
        let slow = pace(1, Duration::from_secs(3_600));
        let now = at(1_000_000);
        let fast = slow.changed(now, 10, Rate::new(10, Duration::from_secs(1)), None);
        assert_eq!((fast.served(now, 10), fast.at(1)), (1, at(1_100_000)));
        let back = fast.changed(at(1_050_000), 10, slow.rate, None);
        assert_eq!((back.served(at(1_099_999), 10), back.at(1)), (1, at(1_100_000)), "it is not put off");
        assert_eq!(back.at(2), at(3_601_100_000));
        let mut moved = fast;
        for step in 1..=100 {
            let rate = Rate::new(10 + step, Duration::from_secs(1));
            moved = moved.changed(at(1_000_000 + u64::from(step) * 10_000), 100, rate, None);
        }
        let served = moved.served(at(2_000_000), 100);
        assert!((55..=61).contains(&served), "{served} at 10 to 110 a second");
        assert_eq!(fast.changed(at(1_150_000), 10, fast.rate, None).at(2), fast.at(2));
    }

    #[test]
    fn nobody_is_let_in_before_the_moment_that_was_said() {
        let pace = pace(1, Duration::from_secs(1));
        let later = pace.changed(at(2_000_000), 10, pace.rate, Some(at(9_000_000)));
        assert_eq!((later.served(at(8_999_999), 10), later.served(at(9_000_000), 10)), (2, 3));
    }
}
