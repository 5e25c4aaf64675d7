//! A sale of phones, with short helpers for its orders.
#[macro_use]
pub mod bench;

use rushgate_core::{
    BuyerId, LedgerEntry, LedgerOrder, LedgerSnapshot, OrderIntent, ReservationId, SaleId, Sku, SkuSpec,
    UnitRange,
};
use rushgate_ledger::{Ledger, LedgerSale, Written};

pub fn sale() -> SaleId {
    SaleId::new("rush").unwrap()
}

pub fn sku(name: &str) -> Sku {
    Sku::new(name).unwrap()
}

pub fn phones(units: u32, per_buyer: u32) -> LedgerSale {
    LedgerSale {
        sale: sale(),
        generation: 1,
        skus: vec![SkuSpec { sku: sku("phone"), units, per_buyer }],
        spec: None,
    }
}

/// Reservation `n` has event number `n` and the ID `n`.
pub fn id(n: u32) -> ReservationId {
    ReservationId::from_bytes(u128::from(n).to_be_bytes())
}

pub fn order(n: u32, buyer: &str, units: &[u32], intent: OrderIntent) -> LedgerEntry {
    cart(n, buyer, &units.iter().map(|unit| ("phone", *unit)).collect::<Vec<_>>(), intent)
}

pub fn cart(n: u32, buyer: &str, units: &[(&str, u32)], intent: OrderIntent) -> LedgerEntry {
    LedgerEntry::Reservation {
        sale: sale(),
        generation: 1,
        seq: n.into(),
        id: id(n),
        buyer: BuyerId::new(buyer).unwrap(),
        units: units.iter().map(|(name, unit)| (sku(name), *unit)).collect(),
        intent,
    }
}

pub fn stock(total: u32, withdrawn: &[u32], per_buyer: u32) -> LedgerEntry {
    stock_ranges(total, UnitRange::gather(withdrawn.iter().copied()), per_buyer)
}

pub fn stock_ranges(total: u32, withdrawn: Vec<UnitRange>, per_buyer: u32) -> LedgerEntry {
    LedgerEntry::Stock { sale: sale(), sku: sku("phone"), seq: 1, total, withdrawn, per_buyer }
}

pub fn range(first: u32, last: u32) -> UnitRange {
    UnitRange::new(first, last).unwrap()
}

/// The withdrawn phones in the ledger.
pub fn withdrawn(snapshot: &LedgerSnapshot) -> &[UnitRange] {
    &snapshot.skus[0].withdrawn
}

pub async fn write_one(ledger: &dyn Ledger, entry: LedgerEntry) -> Written {
    let mut written = ledger.write(vec![entry]).await.unwrap();
    assert_eq!(written.len(), 1);
    written.remove(0)
}

pub fn find(snapshot: &LedgerSnapshot, n: u32) -> Option<&LedgerOrder> {
    snapshot.orders.iter().find(|order| order.id == id(n))
}

pub fn phone_units(order: &LedgerOrder) -> Vec<u32> {
    order.units.iter().map(|(_, unit)| *unit).collect()
}

/// Asserts the invariants of a snapshot: no unit twice, no unit that is not for sale, no buyer over the limit.
pub fn assert_sound(snapshot: &LedgerSnapshot) {
    let mut units = std::collections::BTreeSet::new();
    let mut has = std::collections::BTreeMap::<_, u32>::new();
    for order in &snapshot.orders {
        for (sku, unit) in &order.units {
            let of = snapshot.skus.iter().find(|of| of.sku == *sku).unwrap();
            assert!(units.insert((sku, unit)), "{sku} no. {unit} is in two orders");
            let withdrawn = of.withdrawn.iter().any(|range| range.contains(*unit));
            assert!(*unit <= of.total && !withdrawn, "{sku} no. {unit} is not for sale");
            let has = has.entry((&order.buyer, sku)).or_default();
            *has += 1;
            assert!(*has <= of.per_buyer, "{} has too many", order.buyer);
        }
    }
}
