//! The functions of the library: every step of the store is one of them.

macro_rules! functions {
    ($($area:ident { $($name:ident = $verb:literal $(+ $reads:ident)?)* })*) => {
        /// A function of the library.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Function {
            /// `lua/version.lua`
            Version,
            $($(
                #[doc = concat!("`lua/", stringify!($area), "/", $verb, ".lua`")]
                $name,
            )*)*
        }

        impl Function {
            pub(crate) const ALL: &[Self] = &[Self::Version, $($(Self::$name),*),*];

            /// The name on the server, such as `rushgate_1_lock_acquire`. The number is that of the protocol, so that
            /// libraries of two protocols can be on one server.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    Self::Version => "rushgate_1_version",
                    $($(Self::$name => concat!("rushgate_1_", stringify!($area), "_", $verb),)*)*
                }
            }

            /// Whether the function never writes. The server knows it by the flag `no-writes`.
            pub(crate) fn only_looks(self) -> bool {
                match self {
                    Self::Version => true,
                    $($(Self::$name => functions!(@ $($reads)?),)*)*
                }
            }

            /// The source file.
            #[cfg(test)]
            pub(crate) fn file(self) -> &'static str {
                match self {
                    Self::Version => include_str!("../lua/version.lua"),
                    $($(Self::$name => {
                        include_str!(concat!("../lua/", stringify!($area), "/", $verb, ".lua"))
                    })*)*
                }
            }
        }
    };
    (@ reads) => { true };
    (@) => { false };
}

functions! {
    lock {
        LockAcquire = "acquire"
        LockConfirm = "confirm"
        LockExtend = "extend"
        LockForceRelease = "force_release"
        LockHeld = "held" + reads
        LockLeave = "leave"
        LockRelease = "release"
        LockReleaseAll = "release_all"
        LockReleaseWith = "release_with"
        LockShow = "show" + reads
    }
    queue {
        QueueAnnounce = "announce"
        QueueDeleteDead = "delete_dead"
        QueueCancel = "cancel"
        QueueClaim = "claim"
        QueueCloseBatch = "close_batch"
        QueueComplete = "complete"
        QueueDead = "dead"
        QueueDeadLetter = "dead_letter"
        QueueDependents = "dependents"
        QueueDequeue = "dequeue"
        QueueEnqueue = "enqueue"
        QueueDueSchedules = "due_schedules" + reads
        QueueEvents = "events"
        QueueExtend = "extend"
        QueueFinish = "finish"
        QueueFire = "fire"
        QueueFollow = "follow"
        QueueRelease = "release"
        QueueClearUnique = "clear_unique"
        QueueLimit = "limit"
        QueueList = "list"
        QueueListen = "listen"
        QueuePause = "pause"
        QueuePop = "pop"
        QueueRelay = "relay"
        QueueReplay = "replay" + reads
        QueueRetry = "retry"
        QueueRequeueDead = "requeue_dead"
        QueueReschedule = "reschedule"
        QueueRing = "ring"
        QueueSchedule = "schedule"
        QueueSchedules = "schedules" + reads
        QueueSetWorker = "set_worker"
        QueueStats = "stats"
        QueueTasks = "tasks"
        QueueTop = "top"
        QueueUniqueUntil = "unique_until" + reads
        QueueUnschedule = "unschedule"
        QueueWaited = "waited"
        QueueWaits = "waits"
        QueueWatch = "watch"
        QueueWorkers = "workers" + reads
    }
    room {
        RoomClose = "close"
        RoomCloseEntry = "close_entry"
        RoomDraw = "draw"
        RoomEnter = "enter"
        RoomJoin = "join"
        RoomSet = "set"
        RoomShow = "show" + reads
    }
    sale {
        SaleBeginRebuild = "begin_rebuild"
        SaleCancelHold = "cancel_hold"
        SaleConfirm = "confirm"
        SaleCountAttempts = "count_attempts"
        SaleCreate = "create"
        SaleEnd = "end"
        SaleEvents = "events" + reads
        SaleExpire = "expire"
        SaleFailedOrders = "failed_orders" + reads
        SaleFollowOrders = "follow_orders"
        SaleListen = "listen"
        SaleLoadOrders = "load_orders"
        SaleLoadUnits = "load_units"
        SaleOpen = "open"
        SaleHalt = "halt"
        SaleReplay = "replay" + reads
        SaleReservation = "reservation" + reads
        SaleReserve = "reserve"
        SaleReserveByKey = "reserve_by_key"
        SaleRestore = "restore"
        SaleRetryOrders = "retry_orders"
        SaleSettle = "settle"
        SaleShow = "show" + reads
        SaleStock = "stock"
        SaleSwitch = "switch"
    }
}

impl Function {
    /// The function that answers the same request on a server whose memory is full, if it adds nothing: a confirmation,
    /// or a repeated request. Redis refuses a function that may add something before it looks.
    pub(crate) fn when_full(self) -> Option<Self> {
        match self {
            Self::LockAcquire => Some(Self::LockConfirm),
            Self::QueueEnqueue => Some(Self::QueueReplay),
            Self::SaleReserve => Some(Self::SaleReplay),
            _ => None,
        }
    }
}
