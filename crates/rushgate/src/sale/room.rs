use std::sync::Arc;
use std::time::Duration;

use rushgate_core::{
    BadPass, Beacon, BuyerId, Draw, DrawRecord, DrawSecret, Enter, Pass, Result, RoomRules, RoomState,
    Timestamp, Verbs,
};
use serde::{Serialize, Serializer};
use tokio::time::{Instant, sleep};

use super::Sale;
use crate::cache::{ROOM_AGE_MAX, RoomView};
use crate::clock::Boot;
use crate::retry::moment_after;

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
/// # let client = rushgate::Rushgate::connect("sqlite::memory:").await?;
/// use std::time::Duration;
/// use rushgate::{BuyerId, SaleBuilder};
/// use rushgate::queue::Rate;
/// use rushgate::sale::{RoomRules, Admission};
///
/// client.create_sale(SaleBuilder::new("phones").sku("phone", 10, 1)).await?;
/// let sale = client.sale("phones")?;
/// sale.open().await?;
/// let room = sale.room();
/// room.set(RoomRules::new(Rate::new(1, Duration::from_secs(60)))).await?;
///
/// let (ann, bob) = (BuyerId::new("ann")?, BuyerId::new("bob")?);
/// room.join(&ann).await?;
/// room.join(&bob).await?;
/// let Admission::Admitted { pass, .. } = room.enter(&ann).await? else { panic!("it is her turn") };
/// assert!(room.check(Some(&pass), &ann).await?.is_ok());
/// assert!(matches!(room.enter(&bob).await?, Admission::Waiting { ahead: Some(0), .. }));
/// # client.close().await
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
pub enum Admission {
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

impl Admission {
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
    pub admission: Admission,
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
        self.sale.shared.room.clear().await;
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
        Ok(self.view().await?.room.clone())
    }

    /// True if buyers can no longer join or enter, because the sale has ended or is sold out for good. Uses
    /// the cache, like [`recent`](Self::recent).
    ///
    /// # Errors
    /// As [`state`](Self::state).
    pub async fn is_over(&self) -> Result<bool> {
        Ok(self.view().await?.is_over())
    }

    /// Joins the room. A buyer who has joined keeps the position. If the admission token has expired, the
    /// buyer joins again at the end.
    ///
    /// # Errors
    /// [`is_not_found`](crate::Error::is_not_found) if there is no such sale. Otherwise the store could not
    /// answer; the buyer may have joined, and has the same position after another call.
    pub async fn join(&self, buyer: &BuyerId) -> Result<RoomTicket> {
        if self.view().await?.is_over() {
            return Ok(RoomTicket { again: false, admission: Admission::Closed });
        }
        let client = self.sale.client();
        let Some(joined) = client.ask(|| client.store().join(self.sale.id(), buyer)).await? else {
            return Ok(RoomTicket { again: false, admission: Admission::NoRoom });
        };
        let admission = self.admission(&joined.room, buyer, Some((joined.serial, joined.until))).await?;
        Ok(RoomTicket { again: joined.again, admission })
    }

    /// Returns the buyer's state, and admits the buyer if it is their turn.
    ///
    /// # Errors
    /// As for [`join`](Self::join). The buyer may have been admitted; the token returned by the next call
    /// expires at the same time.
    ///
    /// # Cancel safety
    /// A dropped call may have admitted the buyer, with the same consequence.
    pub async fn enter(&self, buyer: &BuyerId) -> Result<Admission> {
        if self.view().await?.is_over() {
            return Ok(Admission::Closed);
        }
        let Some((room, ticket)) = self.enter_at(buyer, None).await? else { return Ok(Admission::NoRoom) };
        let drawn_place = match ticket {
            Some((serial, None)) if room.drawn.is_some() => room.place(serial).map(|place| (serial, place)),
            _ => None,
        };
        match drawn_place.filter(|(_, place)| *place < room.served) {
            None => self.admission(&room, buyer, ticket).await,
            place => match self.enter_at(buyer, place).await? {
                None => Ok(Admission::NoRoom),
                Some((room, ticket)) => self.admission(&room, buyer, ticket).await,
            },
        }
    }

    /// Like [`enter`](Self::enter), but waits up to `wait` for the buyer's turn. The store is asked when the
    /// turn should have come. Once per second, this process checks the room and the sale for all waiters.
    ///
    /// # Errors
    /// As for [`enter`](Self::enter). If the store is unreachable, the wait ends; no position is lost.
    pub async fn enter_within(&self, buyer: &BuyerId, wait: Duration) -> Result<Admission> {
        let until = moment_after(wait);
        loop {
            let admission = self.enter(buyer).await?;
            let Admission::Waiting { serial, wait: told, .. } = admission else { return Ok(admission) };
            // The store's own estimate, if the cached state is older.
            let told = told.unwrap_or_default().max(ASK_AGAIN);
            let time = until.saturating_duration_since(Instant::now());
            if time.is_zero() {
                return Ok(admission);
            }
            sleep(told.min(ROOM_AGE_MAX).min(time)).await;
            if !self.wait_for_turn(serial, until).await? {
                return Ok(admission);
            }
        }
    }

    /// Sleeps until the buyer with this serial should ask again; false if that is later than `until`.
    async fn wait_for_turn(&self, serial: u64, until: Instant) -> Result<bool> {
        loop {
            let view = self.view().await?;
            let Some(room) = view.room.as_ref().filter(|_| !view.is_over()) else { return Ok(true) };
            let left =
                room.place(serial).and_then(|place| room.at(place)).map(|at| at.since(view.room_now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(true);
            }
            let time = until.saturating_duration_since(Instant::now());
            if time.is_zero() {
                return Ok(false);
            }
            sleep(left.unwrap_or(ROOM_AGE_MAX).min(ROOM_AGE_MAX).min(time).max(Duration::from_millis(1)))
                .await;
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
        self.sale.shared.room.clear().await;
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
        self.sale.shared.room.clear().await;
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
        self.sale.shared.room.clear().await;
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
        let view = self.view().await?;
        let Some(room) = &view.room else { return Ok(Ok(false)) };
        let Some(pass) = pass else { return Ok(Err(NoPass::Needed)) };
        let read = Pass::read(pass, view.sale.spec.secret, self.sale.id(), buyer, view.room_now());
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

    async fn admission(
        &self,
        room: &RoomState,
        buyer: &BuyerId,
        ticket: Option<(u64, Option<Timestamp>)>,
    ) -> Result<Admission> {
        let now = room.now;
        Ok(match ticket {
            None => Admission::NotIn,
            Some((_, Some(until))) if until <= now => Admission::Missed { until },
            Some((serial, Some(until))) => {
                let (sale, buyer) = (self.sale.id().clone(), buyer.clone());
                let secret = self.sale.admission().await?.secret();
                let pass = Pass { sale, buyer, room: room.opened, until }.sign(secret);
                Admission::Admitted { serial, place: room.place(serial), pass, until, now }
            }
            Some((serial, None)) => {
                let place = room.place(serial);
                let ahead = place.map(|place| place.saturating_sub(room.served));
                let wait = place.and_then(|place| room.at(place)).map(|at| at.since(now));
                Admission::Waiting { serial, place, ahead, wait, now }
            }
        })
    }

    /// State of the sale and its room, at most 1 s old.
    async fn view(&self) -> Result<Arc<RoomView>> {
        self.sale.shared.room.get(self.read_view()).await
    }

    async fn read_view(&self) -> Result<RoomView> {
        let (sale, room) = tokio::try_join!(self.sale.state(), self.state())?;
        Ok(RoomView { sale, room, read_at: Boot::now() })
    }
}
