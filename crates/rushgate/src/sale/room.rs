use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rushgate_core::{
    BadPass, Beacon, BuyerId, Draw, DrawRecord, DrawSecret, Enter, Pass, Result, RoomRules, RoomState,
    SaleState, SaleStatus, Timestamp,
};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use super::Sale;
use crate::clock::Boot;
use crate::patience::moment_after;

/// How old what this process knows of a room may be.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The same while somebody is looking: nobody but him waits for the store.
const LOOK_MAX: Duration = Duration::from_secs(3);
/// Who was told to wait though his turn had come by what this process knew asks again after so long, at the soonest.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// The waiting room of a sale. Cheap to clone.
///
/// Buyers [join](Self::join) it, and [enter](Self::enter) when it is their turn; then they have a pass for a while, which
/// whoever sells [checks](Self::check). The room keeps no stock and lets in more people than there are units if it is told
/// to: the sale itself sells no unit twice.
///
/// [`Sale::reserve`] asks for no pass: whoever puts it before a crowd does, as `rushgate serve` does.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> rushgate::Result<()> {
/// # let gate = rushgate::Rushgate::connect("sqlite::memory:").await?;
/// use std::time::Duration;
/// use rushgate::{BuyerId, Rate, RoomRules, SaleBuilder, Turn};
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

/// Where a buyer stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The sale has no waiting room: he may buy.
    NoRoom,
    /// He has not joined.
    NotIn,
    /// He waits.
    Waiting {
        /// The number with which he joined.
        serial: u64,
        /// Where he stands, from 0; none for whoever takes part in a draw that is still to come.
        place: Option<u64>,
        /// How many stand before him and are not served yet; none where there is no place.
        ahead: Option<u64>,
        /// When it is his turn, on the store's clock, as long as the rate stays what it is; none before a draw.
        at: Option<Timestamp>,
        /// The store's clock.
        now: Timestamp,
    },
    /// It is his turn, and he has a pass.
    Admitted {
        /// The number with which he joined.
        serial: u64,
        /// Where he stood.
        place: Option<u64>,
        /// The signed text that lets him in.
        pass: String,
        /// Until when it does.
        until: Timestamp,
        /// The store's clock.
        now: Timestamp,
    },
    /// His pass ran out. He may join anew, at the end.
    Missed {
        /// When it did.
        until: Timestamp,
    },
    /// The sale is over or sold out for good: nobody is let in any more.
    Closed,
}

/// Why a buyer is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPass {
    /// He has shown none, and the sale has a waiting room.
    Needed,
    /// What he has shown does not let him in.
    Bad(BadPass),
}

/// The answer to [`Room::join`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomTicket {
    /// Whether he was in before.
    pub again: bool,
    /// Where he stands.
    pub turn: Turn,
}

/// What this process has seen of a sale and its room.
pub(super) struct Look {
    sale: SaleState,
    room: Option<RoomState>,
    seen: Boot,
}

/// The latest look and when it was. A store that is away is found so once for all who ask, too.
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

    /// Maximum age of the cached state during a refresh.
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

    /// What the clock of the room shows by now, and a little less. On a Cluster it may be another one than the sale's.
    fn room_now(&self) -> Timestamp {
        self.room.as_ref().map_or(self.sale.now, |room| room.now) + self.age()
    }

    /// Whether nobody will buy anything any more.
    fn is_over(&self) -> bool {
        let now = self.sale.now + self.age();
        let closed = self.sale.spec.closes_at.is_some_and(|closes| closes <= now);
        let sold_out = self.sale.skus.iter().all(|sku| sku.free == 0 && sku.held == 0);
        self.sale.status == SaleStatus::Ended || closed || sold_out
    }
}

impl Sale {
    /// The sale's waiting room, whether or not there is one.
    pub fn room(&self) -> Room {
        Room { sale: self.clone() }
    }
}

impl Room {
    /// Opens the room, or gives it other rules while people wait. Unless the rules say otherwise nobody is let in before
    /// the sale opens, if that has a moment.
    ///
    /// # Errors
    /// [`is_invalid`](crate::Error::is_invalid) for rules outside their range, or another order than the room has: nothing
    /// was changed. Otherwise the store could not tell; the same rules may be set again.
    pub async fn set(&self, rules: RoomRules) -> Result<RoomState> {
        let opens_at = self.sale.state().await?.spec.opens_at;
        let rules = RoomRules { from: rules.from.or(opens_at), ..rules };
        let secret = DrawSecret::from_bytes(rand::random());
        let client = self.sale.client();
        let state = client.ask(|| client.store().set_room(self.sale.id(), rules, secret)).await;
        self.forget_look().await;
        state
    }

    /// The room as it stands, if there is one.
    ///
    /// # Errors
    /// [`is_not_found`](crate::Error::is_not_found) if there is no such sale.
    pub async fn state(&self) -> Result<Option<RoomState>> {
        let client = self.sale.client();
        client.ask(|| client.store().room(self.sale.id())).await
    }

    /// As [`state`](Self::state), but what this process has seen: at most a second old, or three while the store is slow to
    /// answer. For what many ask again and again.
    ///
    /// # Errors
    /// As [`state`](Self::state).
    pub async fn recent(&self) -> Result<Option<RoomState>> {
        Ok(self.look().await?.room.clone())
    }

    /// Whether nobody joins or enters any more, because the sale is over or sold out for good: by what this process has
    /// seen, as [`recent`](Self::recent).
    ///
    /// # Errors
    /// As [`state`](Self::state).
    pub async fn is_over(&self) -> Result<bool> {
        Ok(self.look().await?.is_over())
    }

    /// Takes a place in line. Whoever is in keeps his, unless his pass ran out: then he joins anew, at the end.
    ///
    /// # Errors
    /// [`is_not_found`](crate::Error::is_not_found) if there is no such sale. Otherwise the store could not tell: he
    /// may have joined, and has the same place when he asks again.
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

    /// Looks where the buyer stands, and lets him in if it is his turn.
    ///
    /// # Errors
    /// As [`join`](Self::join)'s: he may have been let in, and asked again, his pass ends at the same moment.
    ///
    /// # Cancel safety
    /// A dropped call may have let him in, with the same consequence.
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

    /// As [`enter`](Self::enter), waiting for his turn for so long at most. Who waits asks the store once his turn should
    /// have come; whether it has changed, or the sale is over, this process looks once a second for all of them.
    ///
    /// # Errors
    /// As [`enter`](Self::enter)'s. A store that is away ends the wait; nobody's place is lost by it.
    pub async fn enter_within(&self, buyer: &BuyerId, wait: Duration) -> Result<Turn> {
        let until = moment_after(wait);
        loop {
            let turn = self.enter(buyer).await?;
            let Turn::Waiting { serial, at, now, .. } = turn else { return Ok(turn) };
            // The store's own word for when his turn comes, if what this process knows is older.
            let told = at.map_or(Duration::ZERO, |at| at.since(now)).max(ASK_AGAIN);
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

    /// Closes the entry for the draw: whoever has joined by now takes part, and whoever joins later stands behind them.
    /// It is closed once: the answer says when it was, and how many take part. None if there is no room.
    ///
    /// Publish the number, and draw by a text that nobody could know then.
    ///
    /// # Errors
    /// [`is_invalid`](crate::Error::is_invalid) for a room that is served in the order of arrival: nothing was changed.
    /// Otherwise the store could not tell: the entry may be closed, and may be closed again.
    pub async fn close_entry(&self) -> Result<Option<RoomState>> {
        let client = self.sale.client();
        let state = client.ask(|| client.store().close_entry(self.sale.id())).await;
        self.forget_look().await;
        state
    }

    /// Draws who goes first of those who take part, and begins to let them in; [`Draw::EntryOpen`] unless the
    /// [entry is closed](Self::close_entry), and then nothing is drawn. Only the first draw counts: the answer says by which
    /// beacon it was drawn. None if there is no room.
    ///
    /// # Errors
    /// [`is_invalid`](crate::Error::is_invalid) for a room that is served in the order of arrival: nothing was changed.
    /// Otherwise the store could not tell: it may be drawn, and the same beacon may be given again.
    pub async fn draw(&self, beacon: Beacon) -> Result<Option<Draw>> {
        let client = self.sale.client();
        let state = client.ask(|| client.store().draw(self.sale.id(), beacon.clone())).await;
        self.forget_look().await;
        state
    }

    /// What is published of the draw, so that anybody can check it; none before it.
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

    /// Takes the room away, and says whether there was one: everybody may buy. A call whose answer was lost is sent
    /// again, and finds none if the first call took effect.
    ///
    /// # Errors
    /// [`is_not_found`](crate::Error::is_not_found) if there is no such sale. Otherwise the store could not tell: the
    /// room may be gone, and may be closed again.
    pub async fn close(&self) -> Result<bool> {
        let client = self.sale.client();
        let closed = client.ask(|| client.store().close_room(self.sale.id())).await;
        self.forget_look().await;
        closed
    }

    /// Whether the buyer may buy: there is no room (false), or the pass that he shows lets him in (true). Asks the
    /// store once a second at most, for all buyers, so a room that was opened elsewhere is known after a second, or
    /// three while the store is slow.
    ///
    /// # Errors
    /// As [`state`](Self::state): then nobody knows whether he may. Nothing is changed.
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
            // This process may not know yet that the room is another one.
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
                Turn::Waiting { serial, place, ahead, at: place.and_then(|place| room.at(place)), now }
            }
        })
    }

    /// The sale and its room, at most a second old.
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

    /// The next one looks anew. A look that is on its way may be of before, so it is waited for.
    async fn forget_look(&self) {
        let _looking = self.sale.shared.look.looking.lock().await;
        self.sale.shared.look.set(None);
    }
}

fn shared(look: &Result<Arc<Look>>) -> Result<Arc<Look>> {
    look.as_ref().map(Arc::clone).map_err(rushgate_core::Error::duplicate)
}
