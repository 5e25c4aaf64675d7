//! Records the entries of one transaction. The schema decides what is permitted; this module tries, and translates
//! errors into outcomes.
//!
//! A batch is written as a whole: one read of the recorded orders, one plan, one statement per table. If the schema
//! rejects it, it is halved with savepoints until the offending entry is found, which is then written alone.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::future::{join_all, join3};
use rushgate_core::{
    BuyerId, Error, Field, LedgerEntry, OrderIntent, ReservationId, SaleId, SaleSpec, Sku, UnitNumber,
    UnitRange,
};
use tokio_postgres::{Row, Statement};

use super::fault::Fault;
use super::session::{Session, Sql, sql};
use crate::words::{Violation, kept_refusal, kept_word, recorded, state_from};
use crate::{LedgerSale, Refusal, Written};

/// State that a ledger keeps between transactions.
#[derive(Default)]
pub(super) struct Cache {
    known: Mutex<IdCache>,
    /// Order IDs that were allocated but not used.
    ids: Mutex<BTreeSet<i64>>,
}

/// Committed IDs. Rows are never deleted and limits never change, so the cache stays valid.
#[derive(Default)]
struct IdCache {
    sales: HashMap<SaleId, i32>,
    skus: HashMap<i32, HashMap<Sku, CachedSku>>,
}

#[derive(Clone, Copy)]
struct CachedSku {
    id: i32,
    per_buyer: i32,
}

impl Cache {
    const SALES_MAX: usize = 1_000;

    fn known(&self) -> MutexGuard<'_, IdCache> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ids(&self) -> MutexGuard<'_, BTreeSet<i64>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn sale(&self, name: &SaleId) -> Option<i32> {
        self.known().sales.get(name).copied()
    }

    /// Looks up sales outside any transaction, so that only committed ones are cached.
    pub(super) async fn find_sales<'a>(
        &self,
        session: Session<'_>,
        names: impl Iterator<Item = &'a SaleId>,
    ) -> Sql<()> {
        let strangers: BTreeSet<&str> =
            names.filter(|name| self.sale(name).is_none()).map(SaleId::as_str).collect();
        if strangers.is_empty() {
            return Ok(());
        }
        let strangers: Vec<_> = strangers.into_iter().collect();
        let rows = session.rows(sql!("sale/find"), &[&strangers]).await?;
        let mut known = self.known();
        if known.sales.len() >= Self::SALES_MAX {
            *known = IdCache::default();
        }
        for row in rows {
            known.sales.insert(name(SaleId::as_stored, row.get(0))?, row.get(1));
        }
        Ok(())
    }
}

/// An [`LedgerEntry::Reservation`] of a known sale.
#[derive(Clone, Copy)]
pub(super) struct Order<'a> {
    sale: i32,
    generation: u32,
    seq: u64,
    id: ReservationId,
    buyer: &'a BuyerId,
    units: &'a [(Sku, UnitNumber)],
    intent: OrderIntent,
}

impl<'a> Order<'a> {
    pub(super) fn of(task: &'a LedgerEntry, in_sale: i32) -> Option<Self> {
        match task {
            LedgerEntry::Reservation { generation, seq, id, buyer, units, intent, .. } => Some(Self {
                sale: in_sale,
                generation: *generation,
                seq: *seq,
                id: *id,
                buyer,
                units,
                intent: *intent,
            }),
            LedgerEntry::Stock { .. } => None,
        }
    }

    fn key(&self) -> Key {
        (self.sale, self.id.to_bytes())
    }
}

type Key = (i32, [u8; 16]);

/// Counts of a transaction, valid only if it commits.
#[derive(Clone, Copy, Default)]
pub(super) struct Tally {
    pub(super) orders: u64,
    pub(super) waited_us: u64,
}

/// Writes the entries of one transaction.
pub(super) struct Recorder<'c> {
    session: Session<'c>,
    memory: &'c Cache,
    now_us: i64,
    /// SKUs found in this transaction, which may have created them.
    found: HashMap<i32, HashMap<Sku, CachedSku>>,
    /// By SKU: all units above this number are taken. Saves repeated searches during many reassignments.
    search_from: HashMap<i32, i32>,
    pub(super) tally: Tally,
}

/// An order in its current state, or in its state after the plan.
struct Standing {
    id: i64,
    buyer: String,
    state: OrderIntent,
    units: Vec<(Sku, UnitNumber)>,
}

/// Result of reading the tables.
pub(super) struct Sight {
    standing: HashMap<Key, Standing>,
    ids: Vec<i64>,
    /// Generation by sale. A transaction that changes it holds the exclusive lock.
    generations: HashMap<i32, i64>,
}

/// What to write, and the answers.
#[derive(Default)]
struct Plan {
    orders: BTreeMap<Key, (i64, usize)>,
    units: Vec<Place>,
    moves: BTreeMap<&'static str, Vec<i64>>,
    gives_back: bool,
    answers: Vec<Written>,
}

/// The row of a unit. Only a live unit has a slot.
struct Place {
    sku: CachedSku,
    unit: i32,
    slot: Option<i32>,
    order: i64,
    at: usize,
}

/// Slots that buyers have filled.
type Filled = HashMap<(i32, String), BTreeSet<i32>>;

impl<'c> Recorder<'c> {
    pub(super) fn new(session: Session<'c>, memory: &'c Cache, now_us: i64) -> Self {
        let (found, search_from) = (HashMap::new(), HashMap::new());
        Self { session, memory, now_us, found, search_from, tally: Tally::default() }
    }

    /// Caches what was found, after the commit.
    pub(super) fn remember(self) -> Tally {
        let mut known = self.memory.known();
        for (sale, skus) in self.found {
            known.skus.entry(sale).or_default().extend(skus);
        }
        self.tally
    }

    // ── sales and stock ─────────────────────────────────────────────────────────────────────────────────────────────

    pub(super) async fn open_sale(&mut self, sale: &LedgerSale) -> Sql<()> {
        let (name, generation) = (sale.sale.as_str(), i64::from(sale.generation));
        let spec = sale.spec.as_ref().map(SaleSpec::to_public_json);
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
            [&name, &generation, &self.now_us, &spec];
        let row = self.session.first(sql!("sale/open"), &params).await?;
        let id: i32 = row.ok_or(Fault::Raced)?.get(0);
        if let Some(spec) = &sale.spec {
            let secret = spec.secret.to_bytes();
            self.session.run(sql!("sale/keep_secret"), &[&id, &secret.as_slice()]).await?;
        }
        let (mut names, mut totals, mut limits) = (Vec::new(), Vec::new(), Vec::new());
        for told in &sale.skus {
            names.push(told.sku.as_str());
            totals.push(int(told.units));
            limits.push(int(told.per_buyer));
        }
        let rows = self.session.rows(sql!("sku/stock"), &[&id, &names, &totals, &limits]).await?;
        let has: HashMap<&str, i32> = rows.iter().map(|row| (row.get(0), row.get(2))).collect();
        for told in &sale.skus {
            if let Some(limit) = has.get(told.sku.as_str()).filter(|limit| **limit != int(told.per_buyer)) {
                let why = format!("of {} is {}; the ledger has {limit}", told.sku, told.per_buyer);
                return Err(Fault::Told(Error::invalid(Field::PerBuyer, why)));
            }
        }
        Ok(())
    }

    /// Changes the stock. The transaction holds the sale's exclusive lock.
    pub(super) async fn stock(&mut self, sale: i32, task: &LedgerEntry) -> Sql<Written> {
        let LedgerEntry::Stock { sku, total, withdrawn, per_buyer, .. } = task else {
            return Err(Fault::Told(Error::bug("an order was treated as a stock change")));
        };
        let (names, totals, limits) = ([sku.as_str()], [int(*total)], [int(*per_buyer)]);
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
            [&sale, &names.as_slice(), &totals.as_slice(), &limits.as_slice()];
        let row = self.session.first(sql!("sku/stock"), &params).await?.ok_or(Fault::Raced)?;
        let id: i32 = row.get(1);
        self.found.entry(sale).or_default().insert(sku.clone(), CachedSku { id, per_buyer: row.get(2) });
        let owned = if withdrawn.is_empty() { Vec::new() } else { self.withdraw(id, withdrawn).await? };
        Ok(Written::Stocked { owned })
    }

    /// Withdraws units that no order owns and that were not withdrawn before. Returns the owned ones.
    async fn withdraw(&self, sku: i32, ranges: &[UnitRange]) -> Sql<Vec<UnitNumber>> {
        let (firsts, lasts) = ends(ranges);
        let (mut owned, mut taken) = (Vec::new(), vec![Vec::new(); ranges.len()]);
        for row in self.session.rows(sql!("sku/taken_within"), &[&sku, &firsts, &lasts]).await? {
            let (place, range): (i64, _) = (row.get(0), range(row.get(1), row.get(2))?);
            taken.get_mut(place as usize - 1).ok_or(Fault::Raced)?.push(range);
            if row.get(3) {
                owned.push(range.first());
            }
        }
        let free: Vec<_> = ranges.iter().zip(taken).flat_map(|(range, taken)| range.without(taken)).collect();
        if !free.is_empty() {
            let (firsts, lasts) = ends(&free);
            self.session.run(sql!("sku/withdraw"), &[&sku, &firsts, &lasts]).await?;
        }
        Ok(owned)
    }

    // ── a batch, whole ──────────────────────────────────────────────────────────────────────────────────────────────

    /// Reads the recorded orders, and allocates IDs for the others.
    pub(super) async fn look(&self, orders: &[Order<'_>]) -> Sql<Sight> {
        let keys: BTreeSet<Key> = orders.iter().map(Order::key).collect();
        let sales: Vec<_> = keys.iter().map(|(sale, _)| *sale).collect();
        let reservations: Vec<_> = keys.iter().map(|(_, id)| id.as_slice()).collect();
        let mut ids = self.take_ids(keys.len());
        let missing = int((keys.len() - ids.len()) as u32);
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 2] = [&sales, &reservations];
        let (find, more, of_sale) = self.prepared_look().await?;
        let (rows, more, of_sale) = join3(
            self.session.rows_prepared(&find, &params),
            async {
                if missing == 0 {
                    return Ok(Vec::new());
                }
                self.session.rows_prepared(&more, &[&missing]).await
            },
            self.session.rows_prepared(&of_sale, &[&sales]),
        )
        .await;
        ids.extend(more?.iter().map(|row| row.get::<_, i64>(0)));
        let generations = of_sale?.iter().map(|row| (row.get(0), row.get(1))).collect();
        let keys: Vec<_> = keys.into_iter().collect();
        Ok(Sight { standing: standing(&keys, &rows?)?, ids, generations })
    }

    async fn prepared_look(&self) -> Sql<(Statement, Statement, Statement)> {
        let [find, ids, generations] = [sql!("order/find"), sql!("order/ids"), sql!("sale/generations")];
        let session = self.session;
        let (find, ids, generations) =
            join3(session.prepare(find), session.prepare(ids), session.prepare(generations)).await;
        Ok((find?, ids?, generations?))
    }

    /// Prepares the first statements of a transaction, so that they can be sent together.
    pub(super) async fn prepare_look(&self) -> Sql<()> {
        self.prepared_look().await.map(drop)
    }

    fn take_ids(&self, n: usize) -> Vec<i64> {
        let mut ids = self.memory.ids();
        std::iter::from_fn(|| ids.pop_first()).take(n).collect()
    }

    /// Records all orders, or fails with the violation of one.
    pub(super) async fn whole(&mut self, orders: &[Order<'_>], sight: Sight) -> Sql<Vec<Written>> {
        self.find_skus(orders).await?;
        let filled = self.filled(orders, &sight).await?;
        let plan = self.plan(orders, sight, filled)?;
        self.carry_out(orders, &plan).await?;
        self.tally.orders += plan.orders.len() as u64;
        if plan.gives_back {
            // Units were released, possibly above the start of a search.
            self.search_from.clear();
        }
        Ok(plan.answers)
    }

    async fn find_skus(&mut self, orders: &[Order<'_>]) -> Sql<()> {
        let mut strangers = BTreeSet::new();
        for order in orders {
            for (sku, _) in order.units {
                if self.sku(order.sale, sku).is_none() {
                    strangers.insert((order.sale, sku));
                }
            }
        }
        if strangers.is_empty() {
            return Ok(());
        }
        let (sales, names): (Vec<_>, Vec<_>) =
            strangers.iter().map(|(sale, sku)| (*sale, sku.as_str())).unzip();
        for row in self.session.rows(sql!("sku/find"), &[&sales, &names]).await? {
            let sku = CachedSku { id: row.get(2), per_buyer: row.get(3) };
            self.found.entry(row.get(0)).or_default().insert(name(Sku::as_stored, row.get(1))?, sku);
        }
        Ok(())
    }

    fn sku(&self, sale: i32, name: &Sku) -> Option<CachedSku> {
        let found = self.found.get(&sale).and_then(|skus| skus.get(name)).copied();
        found.or_else(|| self.memory.known().skus.get(&sale).and_then(|skus| skus.get(name)).copied())
    }

    /// Reads the filled slots of buyers with new orders. A limit of one leaves no choice.
    async fn filled(&self, orders: &[Order<'_>], sight: &Sight) -> Sql<Filled> {
        let mut wanted = BTreeSet::new();
        let new = |order: &&Order<'_>| order.intent.is_live() && !sight.standing.contains_key(&order.key());
        for order in orders.iter().filter(new) {
            for (name, _) in order.units {
                if let Some(sku) = self.sku(order.sale, name).filter(|sku| sku.per_buyer > 1) {
                    wanted.insert((sku.id, order.buyer.as_str()));
                }
            }
        }
        let mut filled = Filled::new();
        if !wanted.is_empty() {
            let (skus, buyers): (Vec<_>, Vec<_>) = wanted.into_iter().unzip();
            for row in self.session.rows(sql!("order/slots"), &[&skus, &buyers]).await? {
                filled.entry((row.get(0), row.get(1))).or_default().insert(row.get(2));
            }
        }
        Ok(filled)
    }

    /// Plans the writes as if the entries were applied in order. New orders are written before other orders release
    /// units. If that matters, the schema rejects the batch and its halves are written in turn.
    fn plan(&self, orders: &[Order<'_>], sight: Sight, mut filled: Filled) -> Sql<Plan> {
        let Sight { mut standing, ids, generations } = sight;
        let mut ids = ids.into_iter();
        let mut plan = Plan::default();
        for (at, order) in orders.iter().enumerate() {
            let late = is_late(order, &generations);
            let answer = match standing.get_mut(&order.key()) {
                Some(stands) if late && stands.moves_for(order) => Written::Refused(Refusal::OldGeneration),
                None if late => Written::Refused(Refusal::OldGeneration),
                Some(stands) => plan.stands(order, stands),
                None if order.intent.is_live() && !self.knows_skus(order) => {
                    Written::Refused(Refusal::NotForSale)
                }
                None => {
                    let id = ids.next().ok_or(Fault::Raced)?;
                    plan.orders.insert(order.key(), (id, at));
                    let live = order.intent.is_live();
                    for (name, unit) in order.units {
                        // Only an ended order can have an unknown SKU here. It owns nothing, and its unit rows would
                        // be of no use.
                        let Some(sku) = self.sku(order.sale, name) else { continue };
                        let slot = live.then(|| next_slot(&mut filled, sku.id, order.buyer));
                        plan.units.push(Place { sku, unit: int(*unit), slot, order: id, at });
                    }
                    let units = if live { order.units.to_vec() } else { Vec::new() };
                    let buyer = order.buyer.as_str().to_owned();
                    standing.insert(order.key(), Standing { id, buyer, state: order.intent, units });
                    Written::Recorded(order.intent)
                }
            };
            plan.answers.push(answer);
        }
        self.memory.ids().extend(ids);
        // Writers that access keys in the same order never deadlock.
        plan.units.sort_unstable_by_key(|place| (place.sku.id, place.unit));
        Ok(plan)
    }

    fn knows_skus(&self, order: &Order<'_>) -> bool {
        order.units.iter().all(|(name, _)| self.sku(order.sale, name).is_some())
    }

    async fn carry_out(&self, orders: &[Order<'_>], plan: &Plan) -> Sql<()> {
        let session = self.session;
        // Prepared statements are sent in this order without waiting for each other.
        for (sql, needed) in [
            (sql!("order/insert"), !plan.orders.is_empty()),
            (sql!("order/insert_units"), !plan.units.is_empty()),
            (sql!("order/move"), !plan.moves.is_empty()),
        ] {
            if needed {
                session.prepare(sql).await?;
            }
        }
        let (inserted, units, moved) =
            join3(self.insert_orders(orders, plan), self.insert_units(orders, plan), async {
                let moves = plan.moves.iter().map(|(state, ids)| async move {
                    let moved = session.run(sql!("order/move"), &[ids, state, &self.now_us]).await?;
                    if moved == ids.len() as u64 { Ok(()) } else { Err(Fault::Raced) }
                });
                join_all(moves).await.into_iter().collect::<Sql<()>>()
            })
            .await;
        // An order that another transaction recorded meanwhile was skipped, and its units have no order.
        if inserted? != plan.orders.len() as u64 {
            return Err(Fault::Raced);
        }
        units?;
        moved
    }

    async fn insert_orders(&self, orders: &[Order<'_>], plan: &Plan) -> Sql<u64> {
        if plan.orders.is_empty() {
            return Ok(0);
        }
        let n = plan.orders.len();
        let (mut ids, mut sales, mut reservations) =
            (Vec::with_capacity(n), Vec::with_capacity(n), Vec::with_capacity(n));
        let (mut buyers, mut generations) = (Vec::with_capacity(n), Vec::with_capacity(n));
        let (mut seqs, mut states) = (Vec::with_capacity(n), Vec::with_capacity(n));
        for ((sale, reservation), (id, at)) in &plan.orders {
            let order = &orders[*at];
            ids.push(*id);
            sales.push(*sale);
            reservations.push(reservation.as_slice());
            buyers.push(order.buyer.as_str());
            generations.push(i64::from(order.generation));
            seqs.push(order.seq.cast_signed());
            states.push(order.intent.word());
        }
        self.session
            .run(
                sql!("order/insert"),
                &[&ids, &sales, &reservations, &buyers, &generations, &seqs, &states, &self.now_us],
            )
            .await
    }

    async fn insert_units(&self, orders: &[Order<'_>], plan: &Plan) -> Sql<()> {
        self.insert_places(plan.units.iter().map(|place| (place, &orders[place.at]))).await
    }

    async fn insert_places<'p>(&self, places: impl Iterator<Item = (&'p Place, &'p Order<'p>)>) -> Sql<()> {
        let (mut ids, mut sales, mut buyers, mut skus) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut units, mut slots, mut limits) = (Vec::new(), Vec::new(), Vec::new());
        for (place, order) in places {
            ids.push(place.order);
            sales.push(order.sale);
            buyers.push(order.buyer.as_str());
            skus.push(place.sku.id);
            units.push(place.unit);
            slots.push(place.slot);
            limits.push(place.sku.per_buyer);
        }
        if ids.is_empty() {
            return Ok(());
        }
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 7] =
            [&ids, &sales, &buyers, &skus, &units, &slots, &limits];
        self.session.run(sql!("order/insert_units"), &params).await.map(drop)
    }

    // ── a batch that the schema refused ─────────────────────────────────────────────────────────────────────────────

    /// Finds the offending entries by halving, and records all others. The transaction holds the sales' exclusive
    /// locks.
    pub(super) async fn halves(&mut self, orders: &[Order<'_>]) -> Sql<Vec<Written>> {
        let mut written = Vec::with_capacity(orders.len());
        let mut parts: Vec<_> = halved(orders).into();
        while let Some(part) = parts.pop() {
            match part {
                [] => {}
                [one] => written.push(self.alone(one).await?),
                _ => match self.part(part).await? {
                    Some(answers) => written.extend(answers),
                    None => parts.extend(halved(part)),
                },
            }
        }
        Ok(written)
    }

    /// Records a part of the batch; `None` if the schema rejects it.
    async fn part(&mut self, part: &[Order<'_>]) -> Sql<Option<Vec<Written>>> {
        self.session.say("SAVEPOINT part").await?;
        let sight = self.look(part).await?;
        match self.whole(part, sight).await {
            Ok(written) => self.session.say("RELEASE part").await.map(|()| Some(written)),
            Err(fault) if fault.violation().is_some() => {
                self.session.say("ROLLBACK TO part; RELEASE part").await.map(|()| None)
            }
            Err(fault) => Err(fault),
        }
    }

    /// Records one entry. Checks constraints in the same order as SQLite's schema.
    async fn alone(&mut self, order: &Order<'_>) -> Sql<Written> {
        let sight = self.look(std::slice::from_ref(order)).await?;
        if !sight.standing.is_empty() {
            let answers = self.whole(std::slice::from_ref(order), sight).await?;
            return answers.into_iter().next().ok_or(Fault::Raced);
        }
        if is_late(order, &sight.generations) {
            return Ok(Written::Refused(Refusal::OldGeneration));
        }
        self.find_skus(std::slice::from_ref(order)).await?;
        if order.intent.is_live() && !self.knows_skus(order) {
            return Ok(Written::Refused(Refusal::NotForSale));
        }
        if let Some(why) = self.why_refused(order).await? {
            return Ok(Written::Refused(why));
        }
        let id = sight.ids.into_iter().next().ok_or(Fault::Raced)?;
        self.session.say("SAVEPOINT entry").await?;
        let mut result = self.insert(order, id, false).await;
        if matches!(result, Ok(Err(Violation::Is(Refusal::UnitTaken)))) {
            self.session.say("ROLLBACK TO entry").await?;
            result = self.insert(order, id, true).await;
        }
        match result? {
            Ok(written) => {
                self.session.say("RELEASE entry").await?;
                self.tally.orders += 1;
                Ok(written)
            }
            Err(violation) => {
                self.session.say("ROLLBACK TO entry; RELEASE entry").await?;
                self.refuse(order, violation).await.map(Written::Refused)
            }
        }
    }

    async fn insert(
        &mut self,
        order: &Order<'_>,
        id: i64,
        reassign: bool,
    ) -> Sql<Result<Written, Violation>> {
        let plan = Plan { orders: BTreeMap::from([(order.key(), (id, 0))]), ..Plan::default() };
        match self.insert_orders(std::slice::from_ref(order), &plan).await {
            Ok(1) => {}
            Ok(_) => return Err(Fault::Raced),
            Err(fault) => return violated(fault),
        }
        let live = order.intent.is_live();
        let mut filled = self.filled(std::slice::from_ref(order), &Sight::nothing()).await?;
        let mut units = Vec::with_capacity(order.units.len());
        for (name, unit) in order.units {
            let Some(sku) = self.sku(order.sale, name) else { continue };
            if live && let Some(violation) = self.not_for_sale(sku, int(*unit)).await? {
                return Ok(Err(violation));
            }
            let slot = live.then(|| next_slot(&mut filled, sku.id, order.buyer));
            let mut place = Place { sku, unit: int(*unit), slot, order: id, at: 0 };
            match self.insert_unit(order, &mut place, reassign).await? {
                Ok(()) => units.push((name.clone(), number(place.unit)?)),
                Err(violation) => return Ok(Err(violation)),
            }
        }
        let state = order.intent;
        Ok(Ok(if live { recorded(order.units, state, units) } else { Written::Recorded(state) }))
    }

    async fn insert_unit(
        &mut self,
        order: &Order<'_>,
        place: &mut Place,
        reassign: bool,
    ) -> Sql<Result<(), Violation>> {
        self.session.say("SAVEPOINT unit").await?;
        let result = self.insert_places(std::iter::once((&*place, order))).await;
        let Err(fault) = result else {
            self.session.say("RELEASE unit").await?;
            return Ok(Ok(()));
        };
        let Some(violation) = fault.violation() else { return Err(fault) };
        self.session.say("ROLLBACK TO unit; RELEASE unit").await?;
        if violation != Violation::Is(Refusal::UnitTaken) || !reassign {
            return Ok(Err(violation));
        }
        let free = self.free_unit(place.sku.id).await?;
        if free == 0 {
            return Ok(Err(violation));
        }
        place.unit = free;
        match self.insert_places(std::iter::once((&*place, order))).await {
            Ok(()) => Ok(Ok(())),
            Err(fault) => violated(fault),
        }
    }

    async fn not_for_sale(&self, sku: CachedSku, unit: i32) -> Sql<Option<Violation>> {
        let row = self.session.first(sql!("sku/for_sale"), &[&sku.id, &unit]).await?.ok_or(Fault::Raced)?;
        Ok(match (row.get(0), row.get(1)) {
            (false, _) => Some(Violation::Is(Refusal::NotForSale)),
            (true, true) => Some(Violation::Is(Refusal::Withdrawn)),
            (true, false) => None,
        })
    }

    /// The highest free unit, or 0. The store reserves the lowest units first, so the highest one is the least likely
    /// to be reserved for another buyer already.
    async fn free_unit(&mut self, sku: i32) -> Sql<i32> {
        let from = match self.search_from.get(&sku) {
            Some(from) => *from,
            None => self.session.first(sql!("sku/total"), &[&sku]).await?.map_or(0, |row| row.get(0)),
        };
        let row = self.session.first(sql!("sku/free_down_from"), &[&sku, &from]).await?;
        let free = row.map_or(0, |row| row.get(0));
        self.search_from.insert(sku, free);
        Ok(free)
    }

    /// Translates a violation, and records it if a later delivery could otherwise get another answer.
    async fn refuse(&self, order: &Order<'_>, violation: Violation) -> Sql<Refusal> {
        let Violation::Is(refusal) = violation else {
            return self.why_refused(order).await?.ok_or(Fault::Raced);
        };
        if let Some(why) = kept_word(refusal) {
            let (id, generation) = (order.id.to_bytes(), i64::from(order.generation));
            let params: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
                [&order.sale, &id.as_slice(), &generation, &why, &self.now_us];
            self.session.run(sql!("order/refuse"), &params).await?;
        }
        Ok(refusal)
    }

    async fn why_refused(&self, order: &Order<'_>) -> Sql<Option<Refusal>> {
        let (id, generation) = (order.id.to_bytes(), i64::from(order.generation));
        let session = self.session;
        let row =
            session.first(sql!("order/why_refused"), &[&order.sale, &id.as_slice(), &generation]).await?;
        row.map(|row| kept_refusal(row.get(0)).map_err(Fault::Undecodable)).transpose()
    }
}

impl Sight {
    fn nothing() -> Self {
        Self { standing: HashMap::new(), ids: Vec::new(), generations: HashMap::new() }
    }
}

impl Plan {
    /// Changes the state of a recorded order if possible, and returns the order's outcome.
    fn stands(&mut self, order: &Order<'_>, stands: &mut Standing) -> Written {
        if stands.buyer != order.buyer.as_str() {
            return Written::Refused(Refusal::OtherBuyer);
        }
        if stands.moves_for(order) {
            stands.state = order.intent;
            self.moves.entry(order.intent.word()).or_default().push(stands.id);
            self.gives_back |= !order.intent.is_live();
        }
        if stands.state.is_live() {
            recorded(order.units, stands.state, stands.units.clone())
        } else {
            Written::Recorded(stands.state)
        }
    }
}

impl Standing {
    fn moves_for(&self, order: &Order<'_>) -> bool {
        self.state == OrderIntent::Hold && order.intent != OrderIntent::Hold
    }
}

/// Whether the sale has a newer generation than the order.
fn is_late(order: &Order<'_>, generations: &HashMap<i32, i64>) -> bool {
    generations.get(&order.sale).is_some_and(|generation| i64::from(order.generation) < *generation)
}

/// Groups the rows of order/find.sql by order.
fn standing(keys: &[Key], rows: &[Row]) -> Sql<HashMap<Key, Standing>> {
    let mut standing: HashMap<Key, Standing> = HashMap::new();
    for row in rows {
        let place: i64 = row.get(0);
        let key = *keys.get(place as usize - 1).ok_or(Fault::Raced)?;
        let stands = match standing.entry(key) {
            std::collections::hash_map::Entry::Occupied(found) => found.into_mut(),
            std::collections::hash_map::Entry::Vacant(new) => {
                let state = state_from(row.get(3)).map_err(Fault::Undecodable)?;
                new.insert(Standing { id: row.get(1), buyer: row.get(2), state, units: Vec::new() })
            }
        };
        if let Some(sku) = row.get::<_, Option<&str>>(4) {
            stands.units.push((name(Sku::as_stored, sku)?, number(row.get(5))?));
        }
    }
    Ok(standing)
}

/// The buyer's next free slot for an SKU. It may exceed the limit; the schema then rejects it.
fn next_slot(filled: &mut Filled, sku: i32, buyer: &BuyerId) -> i32 {
    let filled = filled.entry((sku, buyer.as_str().to_owned())).or_default();
    let mut slot = 1;
    for taken in filled.iter() {
        if *taken > slot {
            break;
        }
        slot = taken + 1;
    }
    filled.insert(slot);
    slot
}

/// The second half comes first, because the list is processed from its end.
fn halved<'s, 'a>(orders: &'s [Order<'a>]) -> [&'s [Order<'a>]; 2] {
    let (first, second) = orders.split_at(orders.len() / 2);
    [second, first]
}

fn violated<T>(fault: Fault) -> Sql<Result<T, Violation>> {
    fault.violation().map_or(Err(fault), |violation| Ok(Err(violation)))
}

/// Parses a stored name.
pub(super) fn name<'r, T>(read: impl Fn(&'r str) -> Result<T, Error>, text: &'r str) -> Sql<T> {
    read(text).map_err(|error| Fault::Undecodable(error.to_string()))
}

/// Units, totals and limits are below 2^31, as core and the schema ensure.
fn int(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn ends(ranges: &[UnitRange]) -> (Vec<i32>, Vec<i32>) {
    ranges.iter().map(|range| (int(range.first()), int(range.last()))).unzip()
}

pub(super) fn range(first: i32, last: i32) -> Sql<UnitRange> {
    let backwards = || Fault::Undecodable(format!("the range from {first} to {last}"));
    UnitRange::new(number(first)?, number(last)?).ok_or_else(backwards)
}

pub(super) fn number(stored: i32) -> Sql<u32> {
    u32::try_from(stored).map_err(|_| Fault::Undecodable(format!("the number {stored}")))
}
