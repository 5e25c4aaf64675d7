//! Bugs planted in the model on purpose, to measure the tests: a suite that does not catch them proves nothing.

use std::fmt;

macro_rules! planted {
    ($dollar:tt $($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// A bug that the model can be given.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Planted {
            $($(#[doc = $doc])* $name,)*
        }

        impl Planted {
            /// Every one.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// What is wrong, in words.
            pub fn story(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($doc),*).trim(),)*
                }
            }
        }

        /// Hands the names of all planted bugs to the macro that is named.
        #[macro_export]
        macro_rules! every_planted {
            ($dollar with:ident) => {
                $dollar with! { $($name)* }
            };
        }
    };
}

planted! { $
    /// A release does not ask whose lock it is.
    ReleaseWithoutOwner,
    /// A release that is sent again after somebody else's is answered "not held".
    OnlyTheLastReleaseIsRemembered,
    /// The fence after an expired holder is the expired holder's.
    FenceRepeatsAfterExpiry,
    /// A release hands the lock to the last in line.
    HandOverToTheLast,
    /// A waiter that is gone keeps its place and is handed the lock again and again.
    DeadWaiterBlocks,
    /// Asking again takes a second place in line.
    AskingAgainQueuesTwice,
    /// A lease that has run out is extended all the same.
    LapsedLeaseIsExtended,
    /// A replacement that arrives during the work is acknowledged and lost.
    ReplaceIsLostWhileLeased,
    /// Tasks are given out before they are due.
    GivenOutEarly,
    /// Priorities are ignored.
    PriorityIsIgnored,
    /// A completion does not look at the claim of its ticket.
    StaleTicketCompletes,
    /// A dequeue does not look at the revision of its ticket.
    DequeueIgnoresTheRevision,
    /// A task whose worker died is never given back.
    ExpiredLeaseIsNotGivenBack,
    /// A task that is released, or whose lease expires, goes behind all that is due.
    ReleasedTaskGoesToTheBack,
    /// A call that is sent twice is carried out twice.
    RepeatedCallIsCarriedOutAgain,
    /// A queue takes more tasks than its bound.
    BoundIsIgnored,
    /// A queue that drops its oldest task drops the newest.
    NewestIsDropped,
    /// A queue that drops its oldest task drops one that is being worked on.
    LeasedTaskIsDropped,
    /// Anybody changes a queue that is reserved for orders.
    OrdersAreAnybodys,
    /// An id is free again as soon as its task is over, though its period is not.
    UniquenessEndsWithTheTask,
    /// A duplicate that is kept away begins the period anew.
    KeptDuplicateProlongsThePeriod,
    /// A shorter period ends a longer one.
    ShorterPeriodEndsTheLonger,
    /// A task may wait for one that the queue does not know.
    UnknownTaskIsWaitedFor,
    /// A task goes on though one that it waits for can never be done.
    FailureCountsAsOver,
    /// A task goes on when the first is over of those that it waits for.
    FirstOfManyLetsGo,
    /// A task is given out after its deadline.
    DeadlineIsIgnored,
    /// A task that failed waits for an attempt after its deadline.
    RetryOutlivesItsDeadline,
    /// A line keeps its place when it had its turn, so a key with many tasks starves the others.
    LinesTakeNoTurns,
    /// A key has as many tasks running as it likes.
    KeyConcurrencyIsIgnored,
    /// The rate of a queue does not count what is done already.
    RateForgetsWhatIsDone,
    /// A failed task loses its place in a line that is first in, first out.
    FifoLosesItsPlace,
    /// What is done is kept for longer, and more of it, than the queue's retention says.
    RetentionForgetsNothing,
    /// A lease that ran out is no event.
    LostLeaseIsNoEvent,
    /// More events are kept than the queue's limits say.
    EventsAreNotForgotten,
    /// A schedule fires although it has changed or fired since it was read.
    StaleScheduleFires,
    /// A schedule that changes loses a moment that has come.
    ChangeLosesAMoment,
    /// A relay that sends tasks again has them put in again.
    RelayedTwice,
    /// A relay passes over a task for which its queue has no room.
    RelayPassesOverTheFull,
    /// Stock is read and written apart, so two reservations can get one unit.
    TakeIsNotAtomic,
    /// A unit that is given back counts twice.
    GivenBackTwice,
    /// The limit per buyer is not checked.
    LimitIsNotChecked,
    /// A cart is filled with what there is.
    PartialCart,
    /// A reservation that is sent twice takes twice.
    ReplayTakesASecondUnit,
    /// Units that are held and may come back are called sold out.
    AllHeldIsCalledSoldOut,
    /// A hold is confirmed after its deadline.
    ExpiredHoldIsConfirmed,
    /// An empty waiting room saves places up, and lets a crowd in at once when it comes.
    IdleRoomSavesPlaces,
    /// A waiting room does not look whose place it was told.
    RoomTrustsAnyPlace,
    /// Another rate forgets what a waiting room has served.
    NewRateServesAnew,
    /// A room is drawn though its entry is open.
    OpenEntryIsDrawn,
    /// Who joins after the entry was closed takes part in the draw.
    LateComersAreDrawn,
}

impl fmt::Display for Planted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
