//! The numbers by which stores keep and answer enums.

use crate::{
    Cancelled, Completed, Created, Dequeued, EventKind, Finish, HaltReason, HoldState, IfDead, Left,
    Overflow, PastEnd, Rebuilt, Released, SaleStatus, TaskEnd, TaskExtended, TaskReleased, Unmet, WorkerMode,
};

/// An enum that stores keep or answer as a number: the position of the variant in [`ALL`](Self::ALL).
///
/// The constants of the Redis function library are generated from these numbers.
///
/// ```
/// use rushgate_core::{Coded, HoldState};
///
/// assert_eq!(HoldState::Held.code(), 0);
/// assert_eq!(HoldState::from_code(0), Some(HoldState::Held));
/// assert_eq!(HoldState::from_code(99), None);
/// ```
pub trait Coded: Copy + 'static {
    /// Every variant, ordered by its number.
    const ALL: &'static [Self];

    /// The number of the variant.
    fn code(self) -> u8;

    /// The variant with a number.
    fn from_code(code: u64) -> Option<Self> {
        usize::try_from(code).ok().and_then(|at| Self::ALL.get(at)).copied()
    }
}

/// Numbers variants in the order given. A missing variant does not compile.
macro_rules! coded {
    ($($type:ident: $($variant:ident)*;)*) => {
        $(
            impl Coded for $type {
                const ALL: &'static [Self] = &[$(Self::$variant),*];

                fn code(self) -> u8 {
                    enum Code { $($variant),* }
                    match self {
                        $(Self::$variant => Code::$variant as u8,)*
                    }
                }
            }
        )*

        #[cfg(test)]
        mod tests {
            use super::*;

            #[test]
            fn the_code_of_a_variant_is_its_position() {
                $(
                    let codes: Vec<_> = $type::ALL.iter().map(|it| usize::from(it.code())).collect();
                    assert_eq!(codes, (0..codes.len()).collect::<Vec<_>>());
                )*
            }
        }
    };
}

coded! {
    TaskEnd: Done Discarded Cancelled Dropped Popped Deleted Dead;
    // The first numbers of `TaskEnd`.
    Finish: Done Discarded Cancelled Dropped;
    PastEnd: Failed Lost Snoozed;
    IfDead: Wait Fail Run;
    Overflow: Refuse DropNew DropOldest;
    WorkerMode: Work Quiet Stop;
    // Outcomes, as the Redis functions answer them.
    Released: NotHeld Released;
    Left: Nothing Line Lock;
    Unmet: Unknown NotOpen Taken;
    Completed: Stale Done Requeued;
    TaskReleased: Stale Waiting Cancelled;
    TaskExtended: Lost Extended Cancelled;
    Dequeued: Stale Removed Leased;
    Cancelled: NotFound Removed Marked;
    Created: Exists Created;
    Rebuilt: Superseded Done Incomplete;
    SaleStatus: Created Open Ended;
    HaltReason: LostWrites Operator Rebuilding;
    HoldState: Held Confirming Cancelling Expiring Confirmed Cancelled Expired Rejected;
    EventKind: Reserved Confirming Cancelling Expiring Confirmed Cancelled Expired Rejected Quarantined StockAdded
        StockWithdrawn Opened Ended Halted Rebuilt;
}
