//! The stock audit: compares the records of the store, its event log and the ledger.
//!
//! Each fact that is recorded more than once is recomputed and compared: counters and indexes with rows, rows with
//! the log, the store with the ledger. The audit is pure computation and reads nothing itself.

mod books;
mod buyers;
mod delivery;
mod ledger;
mod log;
mod sale;
mod shared;
mod stock;

use serde::{Deserialize, Serialize};

pub use books::{
    Books, BuyerCount, Deadline, LedgerBooks, LedgerRefusal, LedgerSku, ReservationRow, SkuCounters, UnitRow,
};
pub use shared::{Check, Meanwhile};

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
pub fn audit(books: &Books, ledger: Option<&LedgerBooks>) -> Audit {
    audit_live(books, ledger, &Meanwhile::default())
}

/// Like [`audit`], for a running sale. The ledger's snapshot must be the later one, and `meanwhile` the events
/// between.
pub fn audit_live(books: &Books, ledger: Option<&LedgerBooks>, meanwhile: &Meanwhile) -> Audit {
    let mut checks = audit_store(books).checks;
    match ledger {
        Some(ledger) => {
            let both = Both { books, ledger, meanwhile };
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
        None if books.spec.ledger => checks.push(Check {
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
pub fn audit_store(books: &Books) -> Audit {
    summed_up(vec![
        stock::conservation(books),
        stock::no_unit_twice(books),
        stock::no_unit_free_and_owned(books),
        buyers::nobody_over_the_limit(books),
        buyers::buyers_are_counted(books),
        log::every_reservation_ends_once(books),
        log::reservations_match_the_log(books),
        log::log_is_complete(books),
        log::log_replays(books),
        sale::sale_matches_the_log(books),
        sale::deadlines_are_indexed(books),
        check(
            "store_is_sound",
            "the records of the store are consistent",
            counted(books.contradictions.len(), "contradiction"),
            books.contradictions.clone(),
        ),
    ])
}

fn summed_up(checks: Vec<Check>) -> Audit {
    Audit { ok: checks.iter().all(|check| check.ok), checks }
}
