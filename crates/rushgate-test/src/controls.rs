//! Negative controls: sale designs that are known to be wrong. An audit that passes them proves nothing.
//!
//! Both run on a fixed schedule: buyers are lists of steps, and the schedule determines whose step comes next. The
//! bad interleaving is therefore the same in every run.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use rushgate_core::{
    BuyerCount, BuyerId, Event, EventKind, Hold, HoldState, HoldTime, LedgerOrder, LedgerSku, LedgerSnapshot,
    Line, OrderIntent, ReservationId, ReservationRow, SaleId, SaleSecret, SaleSpec, SaleStatus, Sku,
    SkuCounters, SkuSpec, Snapshot, Timestamp, UnitChoice, UnitNumber, UnitRange, UnitRow,
};

/// Data left by a run of a wrong design.
pub struct Wreck {
    /// Snapshot of its store.
    pub snapshot: Snapshot,
    /// Snapshot of its ledger.
    pub ledger: LedgerSnapshot,
}

/// Runs buyers of two steps each. A buyer's second step runs after the first steps of `overlap` later buyers.
fn interleave(buyers: u32, overlap: usize, mut first: impl FnMut(u32), mut second: impl FnMut(u32)) {
    let mut between = VecDeque::new();
    for buyer in 0..buyers {
        first(buyer);
        between.push_back(buyer);
        if between.len() > overlap {
            between.pop_front().into_iter().for_each(&mut second);
        }
    }
    between.into_iter().for_each(second);
}

/// Reads the stock, compares it, and writes it back, in three steps. Buyers who read in between are sold the same
/// unit.
pub struct ReadCompareWrite {
    units: u32,
    sold: u32,
    read: BTreeMap<u32, u32>,
    sales: Vec<(u32, UnitNumber)>,
}

impl ReadCompareWrite {
    /// Runs `buyers` buyers, each with `overlap` others between reading and writing.
    pub fn run(units: u32, buyers: u32, overlap: usize) -> Wreck {
        let shop = std::cell::RefCell::new(Self { units, sold: 0, read: BTreeMap::new(), sales: Vec::new() });
        interleave(
            buyers,
            overlap,
            |buyer| shop.borrow_mut().read(buyer),
            |buyer| {
                shop.borrow_mut().compare_and_write(buyer);
            },
        );
        shop.into_inner().wreck()
    }

    fn read(&mut self, buyer: u32) {
        self.read.insert(buyer, self.sold);
    }

    fn compare_and_write(&mut self, buyer: u32) {
        let sold = self.read[&buyer];
        if sold < self.units {
            self.sold = sold + 1;
            self.sales.push((buyer, self.sold));
        }
    }

    fn wreck(self) -> Wreck {
        let sales = &self.sales;
        let free = UnitRange::new(self.sold + 1, self.units);
        Wreck { snapshot: snapshot(self.units, free, self.sold, sales), ledger: ledger(self.units, sales) }
    }
}

/// Decrements a counter atomically and publishes the order in a second step. A process that dies in between has taken
/// a unit that no order names.
pub struct DecrementThenPublish {
    units: u32,
    left: u32,
    taken: BTreeMap<u32, UnitNumber>,
    published: Vec<(u32, UnitNumber)>,
}

impl DecrementThenPublish {
    /// Runs `buyers` buyers. Every `dies`th process dies between the two steps.
    pub fn run(units: u32, buyers: u32, dies: u32) -> Wreck {
        let shop = Self { units, left: units, taken: BTreeMap::new(), published: Vec::new() };
        let shop = std::cell::RefCell::new(shop);
        interleave(
            buyers,
            3,
            |buyer| shop.borrow_mut().decrement(buyer),
            |buyer| {
                if (buyer + 1) % dies != 0 {
                    shop.borrow_mut().publish(buyer);
                }
            },
        );
        shop.into_inner().wreck()
    }

    fn decrement(&mut self, buyer: u32) {
        if self.left > 0 {
            self.taken.insert(buyer, self.units - self.left + 1);
            self.left -= 1;
        }
    }

    fn publish(&mut self, buyer: u32) {
        if let Some(unit) = self.taken.get(&buyer) {
            self.published.push((buyer, *unit));
        }
    }

    fn wreck(self) -> Wreck {
        let free = UnitRange::new(self.units - self.left + 1, self.units);
        let orders = &self.published;
        let sold = self.units - self.left;
        Wreck { snapshot: snapshot(self.units, free, sold, orders), ledger: ledger(self.units, orders) }
    }
}

fn sku() -> Sku {
    Sku::new("phone").expect("the name is valid")
}

fn buyer(number: u32) -> BuyerId {
    BuyerId::new(format!("buyer-{number}")).expect("the name is valid")
}

fn reservation(buyer: u32) -> ReservationId {
    ReservationId::from_bytes(u128::from(buyer).to_be_bytes())
}

/// The snapshot of such a shop: each sale reserved and confirmed, and its own counter of sold units.
fn snapshot(total: u32, free: Option<UnitRange>, confirmed: u32, sales: &[(u32, UnitNumber)]) -> Snapshot {
    let event = |seq, kind, (buyer, unit): (u32, UnitNumber)| Event {
        seq,
        at: Timestamp::from_micros(seq),
        kind,
        reservation: Some(reservation(buyer)),
        units: if kind == EventKind::Confirming { Vec::new() } else { vec![(sku(), unit.into())] },
    };
    let kinds = [EventKind::Reserved, EventKind::Confirming, EventKind::Confirmed];
    let steps = sales.iter().flat_map(|sale| kinds.map(|kind| (kind, *sale)));
    let events: Vec<Event> = steps.zip(1..).map(|((kind, sale), seq)| event(seq, kind, sale)).collect();
    let spec = spec(total);
    let row = |(n, (by, unit)): (usize, &(u32, UnitNumber))| ReservationRow {
        hold: Hold {
            id: reservation(*by),
            buyer: buyer(*by),
            units: vec![(sku(), *unit)],
            state: HoldState::Confirmed,
            deadline: Timestamp::from_micros(event_of(n)) + spec.hold.get(),
            seq: event_of(n),
            generation: 1,
        },
        asked: Some((vec![Line { sku: sku(), quantity: 1 }], UnitChoice::Any)),
    };
    let mut buyers: BTreeMap<u32, u32> = BTreeMap::new();
    sales.iter().for_each(|(by, _)| *buyers.entry(*by).or_default() += 1);
    let count = |(by, units): (u32, u32)| BuyerCount { buyer: buyer(by), sku: sku(), units };
    let owners: BTreeMap<UnitNumber, u32> = sales.iter().map(|(by, unit)| (*unit, *by)).collect();
    let unit = |(unit, by): (UnitNumber, u32)| UnitRow { sku: sku(), unit, reservation: reservation(by) };
    let counters = SkuCounters {
        sku: sku(),
        initial: total,
        total,
        free: free.into_iter().collect(),
        withdrawn: Vec::new(),
        fresh: free.map_or(0, UnitRange::count),
        returned: 0,
        held: 0,
        confirmed,
        withdrawn_count: 0,
        per_buyer: 1,
    };
    Snapshot {
        status: SaleStatus::Created,
        generation: 1,
        seq: events.len() as u64,
        through: events.len() as u64,
        halted: None,
        rebuilt_by: None,
        since: None,
        receipts_until: None,
        skus: vec![counters],
        reservations: sales.iter().enumerate().map(row).collect(),
        units: owners.into_iter().map(unit).collect(),
        buyers: buyers.into_iter().map(count).collect(),
        deadlines: Vec::new(),
        events,
        failed: Vec::new(),
        contradictions: Vec::new(),
        spec,
    }
}

/// Number of the event that reserves the unit of sale `n`.
fn event_of(n: usize) -> u64 {
    3 * n as u64 + 1
}

fn spec(total: u32) -> SaleSpec {
    SaleSpec {
        id: SaleId::new("rush").expect("the name is valid"),
        skus: vec![SkuSpec { sku: sku(), units: total, per_buyer: 1 }],
        hold: HoldTime::new(Duration::from_secs(60)).expect("a minute is valid"),
        opens_at: None,
        closes_at: None,
        metadata: String::new(),
        ledger: true,
        secret: SaleSecret::from_bytes([7; 16]),
    }
}

fn ledger(total: u32, sales: &[(u32, UnitNumber)]) -> LedgerSnapshot {
    let order = |(n, (by, unit)): (usize, &(u32, UnitNumber))| LedgerOrder {
        id: reservation(*by),
        buyer: buyer(*by),
        state: OrderIntent::Confirm,
        generation: 1,
        seq: event_of(n),
        units: vec![(sku(), *unit)],
        returned: Vec::new(),
    };
    LedgerSnapshot {
        generation: 1,
        spec: Some(spec(total)),
        skus: vec![LedgerSku { sku: sku(), total, withdrawn: Vec::new(), per_buyer: 1 }],
        orders: sales.iter().enumerate().map(order).collect(),
        ..LedgerSnapshot::default()
    }
}
