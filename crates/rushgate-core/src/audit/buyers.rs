//! Units of each buyer, and the purchase limit.

use std::collections::{BTreeMap, BTreeSet};

use super::shared::{Check, check, counted};
use super::stock::live;
use crate::{BuyerId, Sku, Snapshot};

/// Number of units of each SKU that each buyer has.
pub(super) type Owned<'a> = BTreeMap<(&'a BuyerId, &'a Sku), u32>;

fn owned(snapshot: &Snapshot) -> Owned<'_> {
    let mut has = Owned::new();
    for hold in live(snapshot) {
        for (sku, _) in &hold.units {
            *has.entry((&hold.buyer, sku)).or_default() += 1;
        }
    }
    has
}

pub(super) fn nobody_over_the_limit(snapshot: &Snapshot) -> Check {
    let limits = snapshot.skus.iter().map(|sku| (&sku.sku, sku.per_buyer)).collect();
    limit_check("nobody_over_the_limit", "no buyer exceeds the purchase limit", &owned(snapshot), &limits)
}

pub(super) fn limit_check(name: &str, claim: &str, has: &Owned<'_>, limits: &BTreeMap<&Sku, u32>) -> Check {
    let over = |(buyer, sku): &(&BuyerId, &Sku), n: u32| {
        let limit = limits.get(sku).copied().unwrap_or(0);
        (n > limit).then(|| format!("buyer `{buyer}` owns {n} of {sku}, limit {limit}"))
    };
    let offenders = has.iter().filter_map(|(key, n)| over(key, *n)).collect();
    let most = has.values().max().copied().unwrap_or(0);
    let buyers = has.keys().map(|(buyer, _)| buyer).collect::<BTreeSet<_>>().len();
    check(name, claim, format!("{} own units, at most {most} per SKU", counted(buyers, "buyer")), offenders)
}

/// The store enforces the limit by these counters, so a counter that is too low lets a buyer exceed it.
pub(super) fn buyers_are_counted(snapshot: &Snapshot) -> Check {
    let mut has = owned(snapshot);
    let mut offenders = Vec::new();
    for count in &snapshot.buyers {
        let rows = has.remove(&(&count.buyer, &count.sku)).unwrap_or(0);
        if count.units != rows {
            offenders.push(format!(
                "the counter of buyer `{}` shows {} of {}, the reservations {rows}",
                count.buyer, count.units, count.sku
            ));
        }
    }
    let uncounted = has
        .into_iter()
        .map(|((buyer, sku), n)| format!("buyer `{buyer}` owns {n} of {sku} without a counter"));
    offenders.extend(uncounted);
    let figures = counted(snapshot.buyers.len(), "counter");
    check("buyers_are_counted", "each buyer's counter matches the reservations", figures, offenders)
}
