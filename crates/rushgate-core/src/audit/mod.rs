//! The stock audit: compares the records of the store, its event log and the ledger.
//!
//! Each fact that is recorded more than once is recomputed and compared: counters and indexes with rows, rows with
//! the log, the store with the ledger. The audit is pure computation and reads nothing itself.

mod buyers;
mod delivery;
mod ledger;
mod log;
mod sale;
mod shared;
mod snapshot;
mod stock;

use serde::{Deserialize, Serialize};

pub use shared::{Check, Meanwhile};
pub use snapshot::{
    BuyerCount, Deadline, LedgerRefusal, LedgerSku, LedgerSnapshot, ReservationRow, SkuCounters, Snapshot,
    UnitRow,
};

use shared::{Both, check, counted};

/// Result of an audit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Audit {
    /// Whether every check passed.
    pub ok: bool,
    /// The checks, most important first.
    pub checks: Vec<Check>,
}

/// Audits a sale: the store's snapshot, and the ledger's against it if the ledger is the system of record.
///
/// The sale must be idle, or both snapshots must show the same moment; otherwise use [`audit_live`]. Changes that
/// the ledger has yet to follow are accepted.
pub fn audit(snapshot: &Snapshot, ledger: Option<&LedgerSnapshot>) -> Audit {
    audit_live(snapshot, ledger, &Meanwhile::default())
}

/// Like [`audit`], for a running sale. The ledger's snapshot must be the later one, and `meanwhile` the events
/// between.
pub fn audit_live(snapshot: &Snapshot, ledger: Option<&LedgerSnapshot>, meanwhile: &Meanwhile) -> Audit {
    let mut checks = audit_store(snapshot).checks;
    match ledger {
        Some(ledger) => {
            let both = Both { snapshot, ledger, meanwhile };
            checks.extend([
                ledger::no_unit_twice(ledger),
                ledger::limit(ledger),
                ledger::is_sound(ledger),
                both.sale(),
                both.stock(),
                both.orders(),
                both.refusals(),
                both.delivery(),
            ]);
        }
        None if snapshot.spec.ledger => checks.push(Check {
            name: "ledger".into(),
            claim: "the ledger was read".into(),
            ok: false,
            figures: "the sale has a ledger, but the audit ran without it".into(),
        }),
        None => {}
    }
    summed_up(checks)
}

/// Audits the store's snapshot alone, without a ledger.
pub fn audit_store(snapshot: &Snapshot) -> Audit {
    summed_up(vec![
        stock::conservation(snapshot),
        stock::no_unit_twice(snapshot),
        stock::no_unit_free_and_owned(snapshot),
        buyers::nobody_over_the_limit(snapshot),
        buyers::buyers_are_counted(snapshot),
        log::every_reservation_ends_once(snapshot),
        log::reservations_match_the_log(snapshot),
        log::log_is_complete(snapshot),
        log::log_replays(snapshot),
        sale::sale_matches_the_log(snapshot),
        sale::deadlines_are_indexed(snapshot),
        check(
            "store_is_sound",
            "the records of the store are consistent",
            counted(snapshot.contradictions.len(), "contradiction"),
            snapshot.contradictions.clone(),
        ),
    ])
}

fn summed_up(checks: Vec<Check>) -> Audit {
    Audit { ok: checks.iter().all(|check| check.ok), checks }
}
