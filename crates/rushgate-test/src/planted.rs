//! Bugs planted in the model, to measure the tests. A suite that does not catch them proves nothing.

use std::fmt;

macro_rules! planted {
    ($dollar:tt $($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// A bug that the model can be given.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Planted {
            $($(#[doc = $doc])* $name,)*
        }

        impl Planted {
            /// All bugs.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Description of the bug: its documentation text.
            pub fn story(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($doc),*).trim(),)*
                }
            }
        }

        /// Passes the names of all planted bugs to the given macro.
        #[macro_export]
        macro_rules! every_planted {
            ($dollar with:ident) => {
                $dollar with! { $($name)* }
            };
        }
    };
}

planted! { $
    /// A release does not check that the token holds the lock.
    ReleaseWithoutOwner,
    /// A repeated release gets "not held" once another token has released the lock.
    OnlyTheLastReleaseIsRemembered,
    /// The grant after an expired lease reuses the expired holder's fencing token.
    FenceRepeatsAfterExpiry,
    /// A release hands the lock to the last waiter.
    HandOverToTheLast,
    /// A dead waiter keeps its position and is granted the lock repeatedly.
    DeadWaiterBlocks,
    /// A repeated request takes a second position in the wait queue.
    AskingAgainQueuesTwice,
    /// An expired lease is extended.
    LapsedLeaseIsExtended,
    /// A replacement enqueued during a run is acknowledged and lost.
    ReplaceIsLostWhileLeased,
    /// Tasks are claimed before they are due.
    GivenOutEarly,
    /// Priorities are ignored.
    PriorityIsIgnored,
    /// A completion ignores the claim of its ticket.
    StaleTicketCompletes,
    /// A dequeue ignores the revision of its ticket.
    DequeueIgnoresTheRevision,
    /// A task whose lease expired never becomes available again.
    ExpiredLeaseIsNotReturned,
    /// A released task, or one whose lease expires, moves behind everything that is due.
    ReleasedTaskGoesToTheBack,
    /// A repeated call takes effect twice.
    RepeatedCallIsCarriedOutAgain,
    /// A queue accepts more tasks than its capacity.
    BoundIsIgnored,
    /// A queue that drops its oldest task drops the newest instead.
    NewestIsDropped,
    /// A queue that drops its oldest task drops a leased one.
    LeasedTaskIsDropped,
    /// An ID can be enqueued again once its task ends, before its uniqueness window ends.
    UniquenessEndsWithTheTask,
    /// A rejected duplicate restarts the uniqueness window.
    KeptDuplicateProlongsThePeriod,
    /// A shorter uniqueness window ends a longer one.
    ShorterPeriodEndsTheLonger,
    /// A task can wait for an unknown task.
    UnknownTaskIsWaitedFor,
    /// A task runs although a task that it waits for can never finish.
    FailureCountsAsOver,
    /// A task runs once the first of the tasks that it waits for has finished.
    FirstOfManyLetsGo,
    /// A task is claimed after its deadline.
    DeadlineIsIgnored,
    /// A failed task is retried after its deadline.
    RetryOutlivesItsDeadline,
    /// A key group keeps its place after its turn, so a key with many tasks starves the others.
    LinesTakeNoTurns,
    /// The concurrency limit of a key is ignored.
    KeyConcurrencyIsIgnored,
    /// The rate limit of a queue does not count completed tasks.
    RateForgetsWhatIsDone,
    /// A failed task loses its place in a first-in, first-out key group.
    FifoLosesItsPlace,
    /// More finished tasks are kept, and for longer, than the queue's retention permits.
    RetentionForgetsNothing,
    /// An expired lease produces no event.
    LostLeaseIsNoEvent,
    /// More events are kept than the queue's limits permit.
    EventsAreNotForgotten,
    /// A schedule fires although it was changed or fired since it was read.
    StaleScheduleFires,
    /// A changed schedule loses a due occurrence.
    ChangeLosesAMoment,
    /// Tasks that a relay sends again are enqueued again.
    RelayedTwice,
    /// A relay skips a task for which its queue has no room.
    RelayPassesOverTheFull,
    /// Stock is read and written in two steps, so two reservations can get the same unit.
    TakeIsNotAtomic,
    /// A released unit counts twice.
    ReturnedTwice,
    /// The purchase limit is not checked.
    LimitIsNotChecked,
    /// A cart is filled partially.
    PartialCart,
    /// A repeated reservation takes units twice.
    ReplayTakesASecondUnit,
    /// A sale whose remaining units are on hold is reported as sold out.
    AllHeldIsCalledSoldOut,
    /// A hold is confirmed after its deadline.
    ExpiredHoldIsConfirmed,
    /// An order worker gets the next entries although it did not report the last ones.
    PositionMovesUnreported,
    /// Two order workers follow a sale at the same time.
    TwoWorkersFollow,
    /// An order worker that another one replaced reports what it has not written.
    StaleWorkerReports,
    /// An entry that the ledger could not record is not retried.
    FailedEntryIsLost,
    /// An empty waiting room saves up capacity, and admits many buyers at once later.
    IdleRoomSavesPlaces,
    /// A waiting room does not check the serial of a submitted position.
    RoomTrustsAnyPlace,
    /// A changed rate resets the positions that a waiting room has served.
    NewRateServesAnew,
    /// A room is drawn before its entry is closed.
    OpenEntryIsDrawn,
    /// Buyers who join after the entry was closed take part in the draw.
    LateComersAreDrawn,
}

impl fmt::Display for Planted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
