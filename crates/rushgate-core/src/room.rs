use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Beacon, BuyerId, Commitment, DrawSecret, Drawn, Rate, SaleId, Timestamp};

/// Rules of a waiting room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoomRules {
    /// Admission rate, spread evenly: 1 to 10,000 buyers in 1 ms to 24 h.
    pub rate: Rate,
    /// Lifetime of an admission token, from the time of admission: 1 s to 24 h.
    #[serde(rename = "pass_ms", with = "crate::time::as_millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub pass: Duration,
    /// Order of admission.
    pub order: RoomOrder,
    /// No admissions before this time.
    #[serde(rename = "from_us", default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
}

impl RoomRules {
    /// Default lifetime of an admission token.
    pub const PASS: Duration = Duration::from_secs(60);
    /// Minimum lifetime of an admission token.
    pub const PASS_MIN: Duration = Duration::from_secs(1);
    /// Maximum lifetime of an admission token.
    pub const PASS_MAX: Duration = Duration::from_secs(86_400);
    /// Latest time at which admissions may begin: the range of time that every store can represent.
    pub const FROM_MAX_US: u64 = (1 << 53) - 1;
    /// Maximum period of a rate.
    pub const PER_MAX: Duration = Duration::from_secs(86_400);

    /// First come, first served at this rate, with one minute to reserve.
    pub const fn new(rate: Rate) -> Self {
        Self { rate, pass: Self::PASS, order: RoomOrder::FirstCome, from: None }
    }
}

/// Order of admission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RoomOrder {
    /// First come, first served.
    #[default]
    FirstCome,
    /// Randomized draw among the buyers who joined before the entry was closed.
    Draw,
}

/// The closed entry to a draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedEntry {
    /// Number of entrants: buyers with serials below this number.
    pub entrants: u64,
    /// When the entry was closed.
    pub at: Timestamp,
}

/// Schedule of admissions: one position after another, evenly spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdmissionSchedule {
    /// Admission rate.
    pub rate: Rate,
    /// Positions served before `next`.
    pub base: u64,
    /// When the next position is served.
    pub since: Timestamp,
}

impl AdmissionSchedule {
    /// Starts with the first position.
    pub fn from(rate: Rate, since: Timestamp) -> Self {
        Self { rate, base: 0, since }
    }

    fn per_us(self) -> u64 {
        (self.rate.per.as_micros() as u64).max(1)
    }

    /// Number of positions that could have been served by then, regardless of how many exist.
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

    /// Number of positions served by then, given how many exist.
    pub fn served(self, now: Timestamp, joined: u64) -> u64 {
        self.reach(now).min(joined)
    }

    /// When a position is served, if the pace does not change.
    pub fn at(self, place: u64) -> Timestamp {
        let (ahead, n) = (place.saturating_sub(self.base), u64::from(self.rate.n).max(1));
        let micros = (u128::from(ahead) * u128::from(self.per_us())).div_ceil(u128::from(n));
        self.since + Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    /// The pace after a buyer has joined a room with `joined` entries. A buyer at the end of an empty queue is
    /// served at once, and the next one an interval later: idle capacity is not saved up.
    #[must_use]
    pub fn joined(self, now: Timestamp, joined: u64) -> Self {
        if self.reach(now) > joined { Self { base: joined, since: now, ..self } } else { self }
    }

    /// The pace after a change of rate or start time. The next position is served at its old time, or one new
    /// interval from now if that is sooner, so changes neither stall the queue nor admit extra buyers.
    #[must_use]
    pub fn changed(self, now: Timestamp, joined: u64, rate: Rate, from: Option<Timestamp>) -> Self {
        let base = self.served(now, joined);
        let next = self.at(base).max(now);
        let interval = Self { rate, base: 0, since: now }.at(1);
        Self { rate, base, since: next.min(interval).max(from.unwrap_or_default()) }
    }
}

/// A waiting room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomState {
    /// Rules of the room.
    pub rules: RoomRules,
    /// When it was opened.
    pub opened: Timestamp,
    /// Number of buyers who joined, which is the next serial.
    pub joined: u64,
    /// Number of positions served by now.
    pub served: u64,
    /// Number of admission tokens issued.
    pub admitted: u64,
    /// Schedule of admissions; `None` before a draw.
    pub pace: Option<AdmissionSchedule>,
    /// SHA-256 of the secret, in a room with a draw.
    pub commitment: Option<Commitment>,
    /// Entrants of the draw, once the entry is closed. `None` for rooms drawn by an old version without closing.
    pub closed_entry: Option<ClosedEntry>,
    /// The draw, if it has happened.
    pub drawn: Option<Drawn>,
    /// The store's clock when this was read.
    pub now: Timestamp,
}

impl RoomState {
    /// Position of a serial; `None` for entrants of a pending draw.
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

    /// When a position is served at the current rate; `None` before a draw.
    pub fn at(&self, place: u64) -> Option<Timestamp> {
        self.pace.map(|pace| pace.at(place))
    }
}

/// A waiting room in JSON, the same for every reader. After the draw it is a [`DrawRecord`](crate::DrawRecord).
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoomReport {
    /// ID of the sale.
    pub sale: SaleId,
    #[serde(flatten)]
    rules: RoomRules,
    /// When it was opened.
    #[serde(rename = "opened_us")]
    opened: Timestamp,
    /// Number of buyers who joined.
    pub joined: u64,
    /// Number of positions that have been admitted.
    pub served: u64,
    /// Number of admission tokens issued.
    admitted: u64,
    /// SHA-256 of the draw's secret, in hexadecimal digits, published before the draw.
    #[serde(skip_serializing_if = "Option::is_none")]
    commitment: Option<Commitment>,
    /// The secret, published after the draw.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<DrawSecret>,
    /// The randomness beacon of the draw.
    #[serde(skip_serializing_if = "Option::is_none")]
    beacon: Option<Beacon>,
    /// Number of buyers in the draw, once the entry is closed: those with serials below this number.
    #[serde(skip_serializing_if = "Option::is_none")]
    entrants: Option<u64>,
    /// When the entry was closed.
    #[serde(rename = "entry_closed_us", skip_serializing_if = "Option::is_none")]
    entry_closed: Option<Timestamp>,
    /// The store's clock.
    #[serde(rename = "now_us")]
    now: Timestamp,
}

impl RoomReport {
    /// The room of a sale.
    pub fn new(sale: &SaleId, room: &RoomState) -> Self {
        let RoomState {
            rules, opened, joined, served, admitted, commitment, closed_entry, drawn, now, ..
        } = room;
        let entered = closed_entry.map(|entry| entry.entrants);
        Self {
            sale: sale.clone(),
            rules: *rules,
            opened: *opened,
            joined: *joined,
            served: *served,
            admitted: *admitted,
            commitment: *commitment,
            secret: drawn.as_ref().map(|drawn| drawn.secret),
            beacon: drawn.as_ref().map(|drawn| drawn.beacon.clone()),
            entrants: drawn.as_ref().map(|drawn| drawn.entrants).or(entered),
            entry_closed: closed_entry.map(|entry| entry.at),
            now: *now,
        }
    }
}

/// Outcome of [`Verbs::join`](crate::Verbs::join).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// Serial of the buyer.
    pub serial: u64,
    /// Whether the buyer had joined before.
    pub again: bool,
    /// When the admission token expires, if the buyer was admitted.
    pub until: Option<Timestamp>,
    /// The room, including the buyer.
    pub room: RoomState,
}

/// Outcome of [`Verbs::draw`](crate::Verbs::draw).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Draw {
    /// The entry is not closed yet. Nothing was drawn.
    EntryOpen(RoomState),
    /// The order is drawn, by this call or an earlier one.
    Drawn(RoomState),
}

impl Draw {
    /// The outcome for a room in this state.
    pub fn of(room: RoomState) -> Self {
        if room.drawn.is_some() { Self::Drawn(room) } else { Self::EntryOpen(room) }
    }
}

/// A buyer who asks for admission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enter {
    /// ID of the sale.
    pub sale: SaleId,
    /// The buyer.
    pub buyer: BuyerId,
    /// Serial of the buyer and the position computed from it, if known.
    pub place: Option<(u64, u64)>,
}

/// Outcome of [`Verbs::enter`](crate::Verbs::enter).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entered {
    /// Serial of the buyer, if joined, and when the admission token expires or expired, if admitted.
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

    fn pace(n: u32, per: Duration) -> AdmissionSchedule {
        AdmissionSchedule::from(Rate::new(n, per), at(1_000_000))
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
        let fast = AdmissionSchedule::from(Rate::new(10_000, Duration::from_millis(1)), at(0));
        assert_eq!(fast.served(at(u64::MAX), 7), 7);
    }

    #[test]
    fn what_nobody_stood_at_is_not_saved_up() {
        let pace = pace(1, Duration::from_secs(1));
        let now = at(60_000_000);
        let pace = pace.joined(now, 0);
        assert_eq!(pace.served(now, 1), 1, "the first is admitted at once");
        let pace = pace.joined(now, 1).joined(now, 2);
        assert_eq!(pace.served(now, 3), 1, "the others follow at intervals");
        assert_eq!((pace.at(1), pace.at(2)), (at(61_000_000), at(62_000_000)));
    }

    #[test]
    fn a_change_of_rate_keeps_what_is_served_and_lets_nobody_in_by_itself() {
        let slow = pace(1, Duration::from_secs(3_600));
        let now = at(1_000_000);
        let fast = slow.changed(now, 10, Rate::new(10, Duration::from_secs(1)), None);
        assert_eq!((fast.served(now, 10), fast.at(1)), (1, at(1_100_000)));
        let back = fast.changed(at(1_050_000), 10, slow.rate, None);
        assert_eq!((back.served(at(1_099_999), 10), back.at(1)), (1, at(1_100_000)), "it is not postponed");
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
