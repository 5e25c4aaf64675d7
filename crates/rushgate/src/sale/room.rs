use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rushgate_core::{
    BadPass, Beacon, BuyerId, Draw, DrawRecord, DrawSecret, Enter, Pass, Result, RoomRules, RoomState,
    SaleState, SaleStatus, Timestamp, Verbs,
};
use serde::{Serialize, Serializer};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use super::Sale;
use crate::clock::Boot;
use crate::patience::moment_after;

/// Maximum age of this process's cached state of a room.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Maximum age while a refresh is under way: only one caller waits for the store.
const LOOK_MAX: Duration = Duration::from_secs(3);
/// Shortest pause before a buyer asks again whose turn had come by the cached state, but not by the store's.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// Waiting room of a sale. Cheap to clone.
///
/// Buyers [join](Self::join) the room and [enter](Self::enter) when it is their turn. They then hold an
/// admission token for a limited time, which the seller [checks](Self::check). The room holds no stock and
/// may admit more buyers than there are units; the sale itself never oversells.
///
/// [`Sale::reserve`] does not check tokens. A server that faces buyers does so, as `rushgate serve` does.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> rushgate::Result<()> {
/// # let gate = rushgate::Rushgate::connect("sqlite::memory:").await?;
/// use std::time::Duration;
/// use rushgate::{BuyerId, SaleBuilder};
/// use rushgate::queue::Rate;
/// use rushgate::sale::{RoomRules, Turn};
///
/// gate.create_sale(SaleBuilder::new("phones").sku("phone", 10, 1)).await?;
/// let sale = gate.sale("phones")?;
/// sale.open().await?;
/// let room = sale.room();
/// room.set(RoomRules::new(Rate::new(1, Duration::from_secs(60)))).await?;
///
/// let (ann, bob) = (BuyerId::new("ann")?, BuyerId::new("bob")?);
/// room.join(&ann).await?;
/// room.join(&bob).await?;
/// let Turn::Admitted { pass, .. } = room.enter(&ann).await? else { panic!("it is her turn") };
/// assert!(room.check(Some(&pass), &ann).await?.is_ok());
/// assert!(matches!(room.enter(&bob).await?, Turn::Waiting { ahead: Some(0), .. }));
/// # gate.close().await
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Room {
    sale: Sale,
}

/// State of a buyer in a waiting room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "state")]
#[non_exhaustive]
pub enum Turn {
    /// The sale has no waiting room: the buyer may buy.
    NoRoom,
    /// The buyer has not joined.
    NotIn,
    /// The buyer waits.
    Waiting {
        /// Serial number with which the buyer joined.
        serial: u64,
        /// Position, from 0. Absent before a draw for buyers who take part in it.
        #[serde(skip_serializing_if = "Option::is_none")]
        place: Option<u64>,
        /// Number of buyers ahead who are not admitted yet. Absent without a position.
        #[serde(skip_serializing_if = "Option::is_none")]
        ahead: Option<u64>,
        /// Estimated wait at the current rate, in JSON as milliseconds. Absent before a draw.
        #[serde(rename = "wait_ms", skip_serializing_if = "Option::is_none", serialize_with = "millis")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
        wait: Option<Duration>,
        /// The store's clock.
        #[serde(rename = "now_us")]
        now: Timestamp,
    },
    /// The buyer was admitted and has a token.
    Admitted {
        /// Serial number with which the buyer joined.
        serial: u64,
        /// Position in the order of admission, from 0.
        #[serde(skip_serializing_if = "Option::is_none")]
        place: Option<u64>,
        /// Admission token: pass it as `pass` of a reservation.
        pass: String,
        /// When the admission token expires.
        #[serde(rename = "until_us")]
        until: Timestamp,
        /// The store's clock.
        #[serde(rename = "now_us")]
        now: Timestamp,
    },
    /// The buyer was admitted and did not buy before the admission token expired. The buyer may join again.
    Missed {
        /// When it expired.
        #[serde(rename = "until_us")]
        until: Timestamp,
    },
    /// The sale has ended or is sold out for good.
    Closed,
}

impl Turn {
    /// Estimated wait at the current rate, if the buyer waits and has a position.
    pub fn wait(&self) -> Option<Duration> {
        match self {
            Self::Waiting { wait, .. } => *wait,
            _ => None,
        }
    }
}

fn millis<S: Serializer>(of: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    of.map(|of| of.as_millis() as u64).serialize(serializer)
}

/// Why a buyer may not buy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPass {
    /// No token was presented, and the sale has a waiting room.
    Needed,
    /// The token presented is not valid here.
    Bad(BadPass),
}

/// Outcome of [`Room::join`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomTicket {
    /// True if the buyer had already joined.
    pub again: bool,
    /// State of the buyer.
    pub turn: Turn,
}

/// Cached state of a sale and its room.
pub(super) struct Look {
    sale: SaleState,
    room: Option<RoomState>,
    seen: Boot,
}

/// Latest read and its time. A failed read is shared by all callers too.
#[derive(Default)]
pub(super) struct LastLook {
    last: RwLock<Option<(Boot, Result<Arc<Look>>)>>,
    /// Locked during a refresh, so that concurrent callers share one.
    looking: Mutex<()>,
}

impl LastLook {
    fn recent(&self) -> Option<Result<Arc<Look>>> {
        let last = self.last.read().unwrap_or_else(PoisonError::into_inner);
        let (at, look) = last.as_ref()?;
        (at.until(Boot::now()) < LOOK_EVERY).then(|| shared(look))
    }

    /// The cached state, if it is recent enough to use during a refresh.
    fn until_renewed(&self) -> Option<Arc<Look>> {
        let last = self.last.read().unwrap_or_else(PoisonError::into_inner);
        let (at, look) = last.as_ref()?;
        look.as_ref().ok().filter(|_| at.until(Boot::now()) < LOOK_MAX).map(Arc::clone)
    }

    fn set(&self, look: Option<(Boot, Result<Arc<Look>>)>) {
        *self.last.write().unwrap_or_else(PoisonError::into_inner) = look;
    }
}

impl Look {
    fn age(&self) -> Duration {
        self.seen.until(Boot::now())
    }

    /// Current time on the room's clock, slightly behind. On a Cluster this clock may differ from the sale's.
    fn room_now(&self) -> Timestamp {
        self.room.as_ref().map_or(self.sale.now, |room| room.now) + self.age()
    }

    /// True if no unit can be sold any more.
    fn is_over(&self) -> bool {
        let now = self.sale.now + self.age();
        let closed = self.sale.spec.closes_at.is_some_and(|closes| closes <= now);
        let sold_out = self.sale.skus.iter().all(|sku| sku.free == 0 && sku.held == 0);
        self.sale.status == SaleStatus::Ended || closed || sold_out
    }
}

impl Sale {
    /// A handle to the sale's waiting room, whether or not the sale has one.
    pub fn room(&self) -> Room {
        Room { sale: self.clone() }
    }
}

impl Room {
    /// Opens the room, or changes its rules while buyers wait. By default, no buyer is admitted before the
    /// sale's opening time, if it has one.
    ///
    /// # Errors
    /// [`is_invalid`](crate::Error::is_invalid) for rules outside their range, or if they change the room's
    /// order: nothing was changed. Otherwise the store could not answer; setting the same rules again is
    /// safe.
    pub async fn set(&self, rules: RoomRules) -> Result<RoomState> {
        let opens_at = self.sale.state().await?.spec.opens_at;
        let rules = RoomRules { from: rules.from.or(opens_at), ..rules };
        let secret = DrawSecret::from_bytes(rand::random());
        let client = self.sale.client();
        let state = client.ask(|| client.store().set_room(self.sale.id(), rules, secret)).await;
        self.forget_look().await;
        state
    }

    /// State of the room; `None` if the sale has none.
    ///
    /// # Errors
    /// [`is_not_found`](crate::Error::is_not_found) if there is no such sale.
    pub async fn state(&self) -> Result<Option<RoomState>> {
        let client = self.sale.client();
        client.ask(|| client.store().room(self.sale.id())).await
    }

    /// Like [`state`](Self::state), from this process's cache: at most 1 s old, or 3 s while the store is
    /// slow. Use it for frequent polls.
    ///
    /// # Errors
    /// As [`state`](Self::state).
    pub async fn recent(&self) -> Result<Option<RoomState>> {
        Ok(self.look().await?.room.clone())
    }

    /// True if buyers can no longer join or enter, because the sale has ended or is sold out for good. Uses
    /// the cache, like [`recent`](Self::recent).
    ///
    /// # Errors
    /// As [`state`](Self::state).
    pub async fn is_over(&self) -> Result<bool> {
        Ok(self.look().await?.is_over())
    }

    /// Joins the room. A buyer who has joined keeps the position. If the admission token has expired, the
    /// buyer joins again at the end.
    ///
    /// # Errors
    /// [`is_not_found`](crate::Error::is_not_found) if there is no such sale. Otherwise the store could not
    /// answer; the buyer may have joined, and has the same position after another call.
    pub async fn join(&self, buyer: &BuyerId) -> Result<RoomTicket> {
        if self.look().await?.is_over() {
            return Ok(RoomTicket { again: false, turn: Turn::Closed });
        }
        let client = self.sale.client();
        let Some(joined) = client.ask(|| client.store().join(self.sale.id(), buyer)).await? else {
            return Ok(RoomTicket { again: false, turn: Turn::NoRoom });
        };
        let turn = self.turn(&joined.room, buyer, Some((joined.serial, joined.until))).await?;
        Ok(RoomTicket { again: joined.again, turn })
    }

    /// Returns the buyer's state, and admits the buyer if it is their turn.
    ///
    /// # Errors
    /// As for [`join`](Self::join). The buyer may have been admitted; the token returned by the next call
    /// expires at the same time.
    ///
    /// # Cancel safety
    /// A dropped call may have admitted the buyer, with the same consequence.
    pub async fn enter(&self, buyer: &BuyerId) -> Result<Turn> {
        if self.look().await?.is_over() {
            return Ok(Turn::Closed);
        }
        let Some((room, ticket)) = self.enter_at(buyer, None).await? else { return Ok(Turn::NoRoom) };
        let drawn_place = match ticket {
            Some((serial, None)) if room.drawn.is_some() => room.place(serial).map(|place| (serial, place)),
            _ => None,
        };
        match drawn_place.filter(|(_, place)| *place < room.served) {
            None => self.turn(&room, buyer, ticket).await,
            place => match self.enter_at(buyer, place).await? {
                None => Ok(Turn::NoRoom),
                Some((room, ticket)) => self.turn(&room, buyer, ticket).await,
            },
        }
    }

    /// Like [`enter`](Self::enter), but waits up to `wait` for the buyer's turn. The store is asked when the
    /// turn should have come. Once per second, this process checks the room and the sale for all waiters.
    ///
    /// # Errors
    /// As for [`enter`](Self::enter). If the store is unreachable, the wait ends; no position is lost.
    pub async fn enter_within(&self, buyer: &BuyerId, wait: Duration) -> Result<Turn> {
        let until = moment_after(wait);
        loop {
            let turn = self.enter(buyer).await?;
            let Turn::Waiting { serial, wait: told, .. } = turn else { return Ok(turn) };
            // The store's own estimate, if the cached state is older.
            let told = told.unwrap_or_default().max(ASK_AGAIN);
            let time = until.saturating_duration_since(Instant::now());
            if time.is_zero() {
                return Ok(turn);
            }
            sleep(told.min(LOOK_EVERY).min(time)).await;
            if !self.wait_for_turn(serial, until).await? {
                return Ok(turn);
            }
        }
    }

    /// Sleeps until the buyer with this serial should ask again; false if that is later than `until`.
    async fn wait_for_turn(&self, serial: u64, until: Instant) -> Result<bool> {
        loop {
            let look = self.look().await?;
            let Some(room) = look.room.as_ref().filter(|_| !look.is_over()) else { return Ok(true) };
            let left =
                room.place(serial).and_then(|place| room.at(place)).map(|at| at.since(look.room_now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(true);
            }
            let time = until.saturating_duration_since(Instant::now());
            if time.is_zero() {
                return Ok(false);
            }
            sleep(left.unwrap_or(LOOK_EVERY).min(LOOK_EVERY).min(time).max(Duration::from_millis(1))).await;
        }
    }

    /// Closes entry for the draw: buyers who have joined take part, and later buyers are placed behind them.
    /// Entry closes once; the answer says when, and how many buyers take part. `None` if there is no room.
    ///
    /// Publish the number of participants, and draw with a beacon that could not be known at that time.
    ///
    /// # Errors
    /// [`is_invalid`](crate::Error::is_invalid) for a room without a draw: nothing was changed. Otherwise the
    /// store could not answer; closing again is safe.
    pub async fn close_entry(&self) -> Result<Option<RoomState>> {
        let client = self.sale.client();
        let state = client.ask(|| client.store().close_entry(self.sale.id())).await;
        self.forget_look().await;
        state
    }

    /// Draws the order of the participants, and starts to admit them. If the [entry is not
    /// closed](Self::close_entry), nothing is drawn and the answer is [`Draw::EntryOpen`]. Only the first
    /// draw counts; the answer contains its beacon. `None` if there is no room.
    ///
    /// # Errors
    /// [`is_invalid`](crate::Error::is_invalid) for a room without a draw: nothing was changed. Otherwise the
    /// store could not answer; drawing again with the same beacon is safe.
    pub async fn draw(&self, beacon: Beacon) -> Result<Option<Draw>> {
        let client = self.sale.client();
        let state = client.ask(|| client.store().draw(self.sale.id(), beacon.clone())).await;
        self.forget_look().await;
        state
    }

    /// Published record of the draw, for verification by anyone; `None` before the draw.
    ///
    /// # Errors
    /// As [`state`](Self::state).
    pub async fn draw_record(&self) -> Result<Option<DrawRecord>> {
        let Some(room) = self.state().await? else { return Ok(None) };
        let published = room.commitment.zip(room.drawn);
        let (sale, entry_closed) = (self.sale.id().clone(), room.closed_entry.map(|entry| entry.at));
        let places = Vec::new();
        Ok(published.map(|(commitment, drawn)| DrawRecord { sale, commitment, entry_closed, drawn, places }))
    }

    /// Removes the room: every buyer may buy. True if there was one. If the first answer was lost, the
    /// repeated call finds no room and returns false.
    ///
    /// # Errors
    /// [`is_not_found`](crate::Error::is_not_found) if there is no such sale. Otherwise the store could not
    /// answer; closing again is safe.
    pub async fn close(&self) -> Result<bool> {
        let client = self.sale.client();
        let closed = client.ask(|| client.store().close_room(self.sale.id())).await;
        self.forget_look().await;
        closed
    }

    /// Checks whether the buyer may buy. `Ok(false)`: there is no room. `Ok(true)`: the token is valid. Reads
    /// the store at most once per second for all buyers, so a room opened by another process takes effect
    /// after 1 s, or 3 s while the store is slow.
    ///
    /// # Errors
    /// As for [`state`](Self::state): the check could not be made. Nothing is changed.
    pub async fn check(
        &self,
        pass: Option<&str>,
        buyer: &BuyerId,
    ) -> Result<std::result::Result<bool, NoPass>> {
        let look = self.look().await?;
        let Some(room) = &look.room else { return Ok(Ok(false)) };
        let Some(pass) = pass else { return Ok(Err(NoPass::Needed)) };
        let read = Pass::read(pass, look.sale.spec.secret, self.sale.id(), buyer, look.room_now());
        Ok(match read {
            Err(bad) => Err(NoPass::Bad(bad)),
            // The token is of an earlier room.
            Ok(pass) if pass.room < room.opened => Err(NoPass::Bad(BadPass::OtherRoom)),
            Ok(_) => Ok(true),
        })
    }

    async fn enter_at(
        &self,
        buyer: &BuyerId,
        place: Option<(u64, u64)>,
    ) -> Result<Option<(RoomState, Option<(u64, Option<Timestamp>)>)>> {
        let client = self.sale.client();
        let enter = Enter { sale: self.sale.id().clone(), buyer: buyer.clone(), place };
        let entered = client.ask(|| client.store().enter(enter.clone())).await?;
        Ok(entered.map(|entered| (entered.room, entered.ticket)))
    }

    async fn turn(
        &self,
        room: &RoomState,
        buyer: &BuyerId,
        ticket: Option<(u64, Option<Timestamp>)>,
    ) -> Result<Turn> {
        let now = room.now;
        Ok(match ticket {
            None => Turn::NotIn,
            Some((_, Some(until))) if until <= now => Turn::Missed { until },
            Some((serial, Some(until))) => {
                let (sale, buyer) = (self.sale.id().clone(), buyer.clone());
                let secret = self.sale.known_gate().await?.secret();
                let pass = Pass { sale, buyer, room: room.opened, until }.sign(secret);
                Turn::Admitted { serial, place: room.place(serial), pass, until, now }
            }
            Some((serial, None)) => {
                let place = room.place(serial);
                let ahead = place.map(|place| place.saturating_sub(room.served));
                let wait = place.and_then(|place| room.at(place)).map(|at| at.since(now));
                Turn::Waiting { serial, place, ahead, wait, now }
            }
        })
    }

    /// State of the sale and its room, at most 1 s old.
    async fn look(&self) -> Result<Arc<Look>> {
        let last = &self.sale.shared.look;
        if let Some(look) = last.recent() {
            return look;
        }
        let _looking = match last.looking.try_lock() {
            Ok(looking) => looking,
            Err(_) => match last.until_renewed() {
                Some(look) => return Ok(look),
                None => last.looking.lock().await,
            },
        };
        if let Some(look) = last.recent() {
            return look;
        }
        let look = self.look_now().await.map(Arc::new);
        let is_kept = look.as_ref().err().is_none_or(rushgate_core::Error::is_unavailable);
        last.set(is_kept.then(|| (Boot::now(), shared(&look))));
        look
    }

    async fn look_now(&self) -> Result<Look> {
        let (sale, room) = tokio::try_join!(self.sale.state(), self.state())?;
        Ok(Look { sale, room, seen: Boot::now() })
    }

    /// Clears the cache. A read under way may predate the change, so this waits for it to end.
    async fn forget_look(&self) {
        let _looking = self.sale.shared.look.looking.lock().await;
        self.sale.shared.look.set(None);
    }
}

fn shared(look: &Result<Arc<Look>>) -> Result<Arc<Look>> {
    look.as_ref().map(Arc::clone).map_err(rushgate_core::Error::duplicate)
}
