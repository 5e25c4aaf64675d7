//! The sale's own row, and the deadline index.

use super::shared::{Check, check, counted};
use crate::{Deadline, EventKind, HaltReason, HoldState, SaleStatus, Snapshot};

pub(super) fn sale_matches_the_log(snapshot: &Snapshot) -> Check {
    let mut offenders = Vec::new();
    let last = |kind: EventKind| snapshot.events.iter().rev().find(|event| event.kind == kind);
    let rebuilt = snapshot.generation > 1;
    for kind in [EventKind::Opened, EventKind::Ended, EventKind::Halted, EventKind::Rebuilt] {
        let n = snapshot.events.iter().filter(|event| event.kind == kind).count();
        if n > 1 {
            offenders.push(format!("the log has {n} {kind:?} events"));
        }
    }
    let status = match (last(EventKind::Ended), last(EventKind::Opened)) {
        (Some(_), _) => Some(SaleStatus::Ended),
        (None, Some(_)) => Some(SaleStatus::Open),
        // A rebuild keeps the status, and drops the earlier log.
        (None, None) => (!rebuilt).then_some(SaleStatus::Created),
    };
    if let Some(status) = status.filter(|status| *status != snapshot.status) {
        offenders.push(format!("the sale is {:?}, the log says {status:?}", snapshot.status));
    }
    let stopped = last(EventKind::Halted).map(|event| event.at);
    if stopped != snapshot.halted.map(|halt| halt.since) {
        offenders.push(format!(
            "the sale is halted {}, the log says {}",
            since(snapshot.halted.map(|halt| halt.since)),
            since(stopped)
        ));
    }
    let first = snapshot.events.first().map(|event| event.kind);
    if rebuilt != (first == Some(EventKind::Rebuilt)) {
        offenders.push(format!(
            "the sale is in generation {}, the log begins with {first:?}",
            snapshot.generation
        ));
    }
    if snapshot.generation == 0 {
        offenders.push("the sale is in generation 0".into());
    }
    let is_rebuilt = snapshot.halted.is_some_and(|halt| halt.reason == HaltReason::Rebuilding);
    if snapshot.rebuilt_by.is_some() != (rebuilt || is_rebuilt) {
        offenders.push("two records disagree on whether a rebuild has begun".into());
    }
    if snapshot.since.is_some() != rebuilt || (snapshot.receipts_until.is_some() && !rebuilt) {
        offenders.push("two records disagree on whether the sale was rebuilt".into());
    }
    let status = format!("{:?}", snapshot.status).to_lowercase();
    let figures = format!("{status}, generation {}", snapshot.generation);
    check("sale_matches_the_log", "the status of the sale matches its event log", figures, offenders)
}

fn since(at: Option<crate::Timestamp>) -> String {
    at.map_or_else(|| "never".into(), |at| format!("since {} µs", at.as_micros()))
}

/// A hold that is missing from the index never expires.
pub(super) fn deadlines_are_indexed(snapshot: &Snapshot) -> Check {
    let holds = snapshot.reservations.iter().map(|row| &row.hold);
    let undecided = holds.filter(|hold| hold.state == HoldState::Held);
    let mut expected: Vec<_> =
        undecided.map(|hold| Deadline { at: hold.deadline, seq: hold.seq, reservation: hold.id }).collect();
    let mut indexed = snapshot.deadlines.clone();
    expected.sort_unstable();
    indexed.sort_unstable();
    let mut offenders = Vec::new();
    for hold in &expected {
        if indexed.binary_search(hold).is_err() {
            offenders.push(format!(
                "the index lacks {}, which is held until {} µs",
                hold.reservation,
                hold.at.as_micros()
            ));
        }
    }
    for entry in &indexed {
        if expected.binary_search(entry).is_err() {
            offenders.push(format!(
                "the index has {} at {} µs, but no hold has this deadline",
                entry.reservation,
                entry.at.as_micros()
            ));
        }
    }
    if indexed.len() != expected.len() && offenders.is_empty() {
        offenders.push("the index has a duplicate entry".into());
    }
    let figures = counted(expected.len(), "undecided hold");
    check("deadlines_are_indexed", "every undecided hold is in the deadline index", figures, offenders)
}
