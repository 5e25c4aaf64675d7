//! Every operation on a lock, a queue, a schedule, an outbox, a sale or a waiting room, declared once. The macro is in
//! `declare.rs`; a backend carries the requests out in [`Store::step`].

use crate::check::{check_all, check_attempts, check_batch, check_tasks};
use crate::declare::{Effect, Target, field, of_sale, own, verbs};
use crate::wire::{Fields, Wire, object};
use crate::{
    Acquired, Answer, Beacon, BuyerId, Cancelled, Claimed, ClientId, Closed, Completed, Completion, Created,
    DeadRequeued, Decision, Dequeued, DrawSecret, Due, Enqueued, Entered, Error, Event, Extended, Fired,
    Grant, HaltReason, Heartbeat, Hold, Holder, Joined, Lease, Left, ListedSale, Listing, LockName,
    LockState, Log, NewSchedule, NewTask, Notification, Op, Page, QueueLimits, QueueName, QueueStats,
    Rebuilt, Receipt, Relayed, Released, ReleasedWith, Rescheduled, ReservationId, Reserved, Restored,
    Result, Retried, RoomRules, RoomState, SaleId, SaleSpec, SaleState, SaleStatus, ScheduleId, Scheduled,
    Selection, Settled, Sku, StockChange, StockChanged, StoreCalls, StoreInfo, TaskExtended, TaskId,
    TaskInfo, TaskPage, TaskReleased, Ticket, Timestamp, Token, Topic, UniqueCleared, Verdict, Warning,
    WorkerId, WorkerInfo, WorkerMode,
};

/// A store of locks, queues, schedules, outbox positions, sales and waiting rooms: what a backend implements.
///
/// Callers use the methods of [`Verbs`], which every store has.
pub trait Store: Send + Sync {
    /// Carries out a request whose limits were checked, in one atomic step. See [`Answer`].
    fn step(&self, request: Request) -> Answer<'static, Reply>;

    /// Waits for a notification. Listening starts at the call and stops when the future is dropped. A notification is a
    /// hint: it may be late, repeated or lost. It holds a [`Notification`] if the topic is a [token](Topic::Token).
    fn listen(&self, topic: Topic) -> Answer<'static, Option<Notification>>;

    /// Describes this store: URL, server version and durability class.
    fn info(&self) -> StoreInfo;

    /// Configuration warnings found at the latest connect. The store works despite them.
    fn warnings(&self) -> Vec<Warning> {
        Vec::new()
    }

    /// Identifies the server process that answers this client, as found at the latest connect. It changes after a
    /// failover or a restart, the two events at which a store may lose writes. It never changes for a store whose
    /// data only this client holds open.
    fn incarnation(&self) -> String;

    /// Counts the work that this client has sent to the store since it was opened.
    fn calls(&self) -> StoreCalls;

    /// Waits until all steps sent before this call have finished, then closes the store. Waits at most 2 s for a
    /// server that does not answer. Later calls fail with [`is_unavailable`](crate::Error::is_unavailable).
    fn close(&self) -> Answer<'_, ()>;
}

/// An operation of a store: the type of its request.
///
/// [`Verbs`] has a method for each, which is the usual way to send it.
pub trait Verb: Into<Request> + Send + 'static {
    /// The type of the answer.
    type Answer: Send + 'static;
    /// Name, such as `claim`. It is the same at every layer.
    const NAME: &'static str;
    /// What an error says was being done, such as `acquire a lock`.
    const DOING: &'static str;
    /// What it does to the store.
    const EFFECT: Effect;

    /// What this request is about.
    fn target(&self) -> Target<'_>;

    /// Checks the documented limits.
    ///
    /// # Errors
    /// [`is_invalid`](crate::Error::is_invalid) for a request outside its limits.
    fn check(&self) -> Result<()>;

    /// Wraps an answer.
    fn reply(answer: Self::Answer) -> Reply;

    /// Unwraps the answer; `None` for the reply to another verb.
    fn answer(reply: Reply) -> Option<Self::Answer>;
}

/// A verb on one sale.
pub trait OfSale: Verb {
    /// The sale.
    fn sale(&self) -> &SaleId;
}

verbs! {
    /// The operations of a store, as methods. Every [`Store`] has them.
    ///
    /// A method checks the limits and sends the request before it returns. See [`Answer`] for what it returns.
    ///
    /// # Locks
    ///
    /// A lock has at most one holder and a FIFO wait queue. The step that finds the lock held also adds the caller to
    /// the queue, and a release hands the lock to the first live waiter in the same step. All times are the store's.
    ///
    /// Rules that every backend keeps and the contract suite checks:
    /// - Every grant carries a [`Fence`](crate::Fence) (fencing token) greater than all before it for that name.
    /// - A step by a token that does not hold the lock changes nothing.
    /// - A step sent twice with one token takes effect once and gets the same answer twice.
    ///
    /// # Queues
    ///
    /// A queue has one live record per task ID. A record is *waiting* (scheduled until its due time, then ready) or
    /// *leased*. A task that failed for good becomes a dead letter, kept beside the queue. Scheduled and ready tasks
    /// share one ordered set, so nothing moves at the due time. A queue with a [`Retention`](crate::Retention) also
    /// keeps *done* tasks and their results.
    ///
    /// Tasks may share a [`TaskKey`](crate::TaskKey), such as a tenant. Tasks of one key and priority form a *key
    /// group*, ordered by due time and arrival. Only the first of a group is available; the others are *blocked*. A
    /// group has one place in the queue: when its first task is claimed, the next one queues behind everything that is
    /// already due. So keys take turns, however long their groups are.
    ///
    /// A task may [wait for others](NewTask::after) of its queue, or be the callback of a batch that is
    /// [open](NewTask::held_open) for [members](NewTask::part_of). It is *blocked* until they have finished, whatever
    /// its due time. Then it takes the place that its due time and arrival give it, as if it had never been blocked.
    ///
    /// Rules that every backend keeps and the contract suite checks:
    /// - Order is priority, then due time, then arrival. The due time of a key group is that of its first task, or
    ///   the time of the group's last turn if that is later; its arrival is renewed with each turn.
    /// - A claimed task that is released without a delay, or whose lease expires, keeps its priority, due time and
    ///   arrival, and its key group gets the turn back. A failed task goes behind what was due before its next attempt.
    /// - Nothing exceeds the queue's [limits](QueueLimits).
    /// - No task is claimed or popped at its [deadline](NewTask::deadline) or later.
    /// - A [unique](NewTask::unique_for) ID cannot be enqueued again before its uniqueness window ends, even if its
    ///   record is gone.
    /// - An expired lease counts as released at the time of expiry, on the store's clock, for every caller.
    /// - A step with a [`Ticket`] acts only on that revision and that claim. Otherwise the ticket is stale and
    ///   nothing changes.
    /// - A mutating call repeated with its [`Op`] gets the same answer. The answers of the latest 1,000 calls of a
    ///   client are kept; fewer, but at least 16, if their claimed payloads exceed 32 MiB.
    ///
    /// # Schedules
    ///
    /// A schedule enqueues a task repeatedly.
    ///
    /// A store knows when a schedule fires next and which task it enqueues, but not why: the recurrence is opaque text.
    /// A scheduler interprets it, computes the next time, and asks the store to fire the revision that it read. The
    /// store fires only if that revision is current. A schedule therefore fires once per occurrence, however many
    /// schedulers run, and the others take over when one dies.
    ///
    /// # Outboxes
    ///
    /// An outbox is a table in another database, whose tasks a relay moves into queues.
    ///
    /// A relay may die after it moved tasks and before it recorded that in the outbox. Its successor sends the same
    /// tasks again, perhaps after they ran and ended. The relay therefore numbers the tasks of an outbox. Each queue
    /// permanently remembers the highest number that it has, and ignores tasks up to that number.
    ///
    /// # Sales
    ///
    /// The sales of a store: numbered units of SKUs, reserved by buyers.
    ///
    /// One atomic step takes a reservation's **numbered** units, counts them against the buyer's limit and appends an
    /// event, which is also the order. Stock and orders cannot diverge. At any time a unit is in exactly one place:
    /// free, held, confirmed or withdrawn.
    ///
    /// ```text
    ///                    ┌─ confirm ─► confirming ─┐            ┌─► confirmed
    /// reserve ─► held ───┼─ cancel ──► cancelling ─┼─ settle ───┼─► cancelled   (units free again)
    ///                    └─ deadline ► expiring ───┘            ├─► expired     (units free again)
    ///                                                           └─► rejected    (the ledger refused)
    /// ```
    /// The store's record decides atomically which comes first: confirmation, cancellation or the deadline. With a
    /// ledger, the middle states wait until it has committed ([`settle`](Self::settle)); without one, `held` leads
    /// straight to a final state.
    ///
    /// ## Generations
    /// A store can lose writes that it acknowledged: by a failover, or because an old backup replaced it. The client
    /// that notices [halts](Self::halt_sale) the sale. A rebuild reads the sale from the ledger, loads it beside the
    /// old state, and [switches](Self::switch) to it atomically under the next generation. A signed [`Receipt`]
    /// restores a hold that the ledger does not know ([`restore`](Self::restore)).
    ///
    /// # Waiting rooms
    ///
    /// Buyers join the waiting room of a sale, get a position, and are admitted at a steady rate.
    ///
    /// A room has at most one entry per buyer: a serial (0, 1, 2, … by arrival) and the time of admission. How many
    /// positions have been **served** follows from the store's clock and the room's
    /// [`AdmissionSchedule`](crate::AdmissionSchedule) alone: no
    /// background work is needed. Positions of buyers who left are passed over, and idle capacity is not saved up.
    ///
    /// In a [`RoomOrder::FirstCome`](crate::RoomOrder::FirstCome) room the position is the serial. In a
    /// [`RoomOrder::Draw`](crate::RoomOrder::Draw) room nobody is admitted before the draw. The entry is
    /// [closed](Self::close_entry) first: the draw assigns new positions to the buyers who had joined by then
    /// ([`Drawn::place`](crate::Drawn::place)), and later buyers stand behind them.
    ///
    /// A sale has at most one room. Every verb fails with [`is_not_found`](crate::Error::is_not_found) for an unknown
    /// sale. A rebuild of the sale leaves its room unchanged.
    pub trait Verbs {
        /// Waits for a notification for a token: it was granted a lock, or lost one by force.
        ///
        /// Listening starts at the call. A notification is a hint and may be late, duplicated or lost; the answers
        /// of [`acquire`](Self::acquire) and [`extend`](Self::extend) are authoritative. Dropping the future stops
        /// listening.
        fn notification(&self, token: Token) -> Answer<'static, Notification> {
            hear(self, Topic::Token(token), |notification| {
                notification.ok_or_else(|| Error::bug("a notification of a lock is empty"))
            })
        }

        /// Waits until the queue may have a task to claim, because one was enqueued or released.
        ///
        /// Listening starts at the call. A notification is a hint, and goes to one listener of a process at a time.
        /// Due times and expiring leases cause none: use [`Claimed::next_due`]. If another process enqueues a task
        /// that is due earlier than all others, the store notifies a listener so that it asks for `next_due` again;
        /// inside a process the caller knows. Dropping the future stops listening.
        fn ready(&self, queue: &QueueName) -> Answer<'static, ()> {
            hear(self, Topic::Ready(queue.clone()), |_| Ok(()))
        }

        /// Waits until a task may have finished: done, canceled, dead or gone. Returns at once if no task of that
        /// ID is live, or if the queue has no [`Retention`](crate::Retention), because then nothing is published.
        ///
        /// Listening starts at the call. A notification is a hint: read the task after it. Dropping the future
        /// stops listening.
        fn finished(&self, queue: &QueueName, id: &TaskId) -> Answer<'static, ()> {
            hear(self, Topic::Finished(queue.clone(), id.clone()), |_| Ok(()))
        }

        /// Waits until the queue may have an event with a number greater than `after`. Returns at once if it has
        /// one, or if its latest event has a smaller number.
        ///
        /// Listening starts at the call. A notification is a hint: read the events after it. Leases and deadlines
        /// that expire cause none until a call to the store notices them. Dropping the future stops listening.
        fn next_event(&self, queue: &QueueName, after: u64) -> Answer<'static, ()> {
            hear(self, Topic::Event(Log::Queue(queue.clone()), after), |_| Ok(()))
        }

        /// Waits until the sale may have an event with a number greater than `after`. Returns at once if it has one,
        /// or if its latest event has a smaller number.
        ///
        /// Listening starts at the call. A notification is a hint: read the events after it. Dropping the future
        /// stops listening.
        fn next_sale_event(&self, sale: &SaleId, after: u64) -> Answer<'static, ()> {
            hear(self, Topic::Event(Log::Sale(sale.clone()), after), |_| Ok(()))
        }
    }

    // Locks
    /// Acquires the lock, confirms a grant, or refreshes the position in the wait queue: all three are one
    /// request.
    ///
    /// - The token holds the lock: [`Acquired::Granted`] with its fencing token, and the lease is renewed.
    /// - The lock is free and no live waiter is ahead: granted. (`barging` ignores waiters.)
    /// - Otherwise, with `wait`: [`Acquired::Queued`]. The token is in the queue once, however often it asks,
    ///   until the wait expires. Without `wait`: [`Acquired::Busy`].
    ///
    /// If the holder's lease has expired, this step grants the lock to the first live waiter, for any caller.
    Idempotent Acquire acquire(request: crate::Acquire) -> Acquired,
        "acquire a lock" on Lock(request.name), |v| v.request.check();

    /// Releases the lock and hands it to the first live waiter.
    ///
    /// [`Released::Released`] also if this token is among the [latest to release it](Released::REMEMBERED).
    /// [`Released::NotHeld`] if it does not hold the lock or its lease has expired; then the step only hands an
    /// expired lock to the first live waiter.
    Idempotent Release release(name: ref '_ LockName, token: Token) -> Released,
        "release a lock" on Lock(name);

    /// Releases the lock like [`release`](Self::release) and enqueues a task, atomically. Nothing happens if the
    /// token does not hold the lock or the queue refuses the task.
    ///
    /// A release is remembered by its `op`. If the token does not hold the lock, the call is answered as the release
    /// with this `op` was. A refusal is not remembered, so the holder can try again with the same `op`. A token that was
    /// granted the lock again releases it again.
    ///
    /// In a Redis Cluster, lock and queue can be on different nodes, so this is not atomic: it checks the lock,
    /// enqueues the task, then releases the lock. A client that dies in between leaves a lock that ends with its
    /// lease, and possibly the task.
    Idempotent ReleaseWith release_with(op: Op, release: crate::ReleaseWith) -> ReleasedWith,
        "release a lock with a task" on LockAndQueue(release.name, release.queue), |v| v.release.check();

    /// Extends leases, in the given order; each gets its own answer. An expired lease is not extended, even if
    /// the lock is free.
    Write Extend extend(leases: Vec<crate::Extend>) -> Vec<Extended>,
        "extend locks" on Leases(leases), |v| check_batch(v.leases.len());

    /// Returns the grant that the token holds now, if any.
    Read Held held(name: ref '_ LockName, token: Token) -> Option<Grant>,
        "check whether a lock is held" on Lock(name);

    /// Leaves the wait queue. If the token has just been granted the lock, releases it.
    Write Leave leave(name: ref '_ LockName, token: Token) -> Left,
        "leave the wait queue of a lock" on Lock(name);

    /// Releases every lock that the client holds and removes its waiters; returns how many locks.
    Write ReleaseAll release_all(client: ClientId) -> u64,
        "release all locks" on AnyLock;

    /// Force-releases the lock and hands it to the next waiter. A [`Notification`] informs the holder, whose writes
    /// with the old fencing token are refused. Returns the holder that lost the lock.
    Write ForceRelease force_release(name: ref '_ LockName) -> Option<Holder>,
        "force-release a lock" on Lock(name);

    /// Returns the holder and the wait queue.
    Read Show show(name: ref '_ LockName) -> LockState,
        "show a lock" on Lock(name);

    /// Lists locks that are held or waited for, by name.
    Read List list(page: Page) -> Vec<LockState>,
        "list locks" on LockList, |v| v.page.check();

    // Queues
    /// Enqueues tasks in the given order, in one step. Each gets its own answer.
    Replayed Enqueue enqueue(op: Op, queue: ref '_ QueueName, tasks: Vec<NewTask>) -> Vec<Enqueued>,
        "enqueue" on Queue(queue), |v| check_tasks(&v.tasks);

    /// Returns the first `n` due tasks without claiming them (1 to 1,000), and only the first of each key group.
    Read Top top(queue: ref '_ QueueName, n: u32) -> Vec<crate::Task>,
        "read a queue's first tasks" on Queue(queue), |v| check_batch(v.n as usize);

    /// Removes and returns the first `n` due tasks (1 to 1,000). If the caller dies they are lost, so most
    /// programs want [`claim`](Self::claim).
    Replayed Pop pop(op: Op, queue: ref '_ QueueName, n: u32) -> Vec<crate::Task>,
        "pop" on Queue(queue), |v| check_batch(v.n as usize);

    /// Claims up to `n` due tasks under a lease and counts an attempt for each.
    Replayed Claim claim(op: Op, queue: ref '_ QueueName, claim: crate::Claim) -> Claimed,
        "claim" on Queue(queue), |v| v.claim.check();

    /// Completes claimed tasks. A task that was replaced while it ran is enqueued again with the newer payload;
    /// the result of the finished run is then dropped.
    Replayed Complete complete(op: Op, queue: ref '_ QueueName, done: Vec<Completion>) -> Vec<Completed>,
        "complete" on Queue(queue), |v| check_all(&v.done, Completion::check);

    /// Retries failed tasks: each is due again after its delay, or becomes a dead letter when no attempts remain.
    /// A task that was canceled while it ran is removed.
    Replayed Retry retry(op: Op, queue: ref '_ QueueName, failed: Vec<crate::Retry>) -> Vec<Retried>,
        "retry" on Queue(queue), |v| check_all(&v.failed, crate::Retry::check);

    /// Releases claimed tasks: the attempt does not count, and each task keeps its place. With a delay, the task
    /// is due after it instead. A task that was canceled while it ran is removed.
    Replayed ReleaseTasks release_tasks(op: Op, queue: ref '_ QueueName, back: Vec<crate::TaskRelease>) -> Vec<TaskReleased>,
        "release tasks" on Queue(queue), |v| check_all(&v.back, crate::TaskRelease::check);

    /// Extends the leases of claimed tasks, stores their progress, and reports which were canceled or lost.
    Write ExtendTasks extend_tasks(queue: ref '_ QueueName, beats: Vec<Heartbeat>, lease: Lease) -> Vec<TaskExtended>,
        "extend tasks" on Queue(queue), |v| check_all(&v.beats, Heartbeat::check);

    /// Removes a task if it was not enqueued again since the ticket was read and no worker holds it. A ticket
    /// from a claim removes its own claimed task.
    Replayed Dequeue dequeue(op: Op, queue: ref '_ QueueName, ticket: Ticket) -> Dequeued,
        "dequeue" on Queue(queue);

    /// Removes a task of any revision. A running task is marked instead, and its worker learns of it at the next
    /// extension.
    Replayed Cancel cancel(op: Op, queue: ref '_ QueueName, id: ref '_ TaskId) -> Cancelled,
        "cancel a task" on Queue(queue);

    /// Changes when a waiting task is due, earlier or later. Payload, attempts, priority and dependencies stay. Its
    /// arrival stays too, so among tasks of the same due time it keeps its place.
    Replayed Reschedule reschedule(op: Op, queue: ref '_ QueueName, id: ref '_ TaskId, due: Due) -> Rescheduled,
        "reschedule a task" on Queue(queue), |v| v.due.check();

    /// Returns when the [uniqueness window](NewTask::unique_for) of an ID ends, whether or not its task is live;
    /// `None` if it has none.
    Read UniqueUntil unique_until(queue: ref '_ QueueName, id: ref '_ TaskId) -> Option<Timestamp>,
        "check a uniqueness window" on Queue(queue);

    /// Clears the [uniqueness window](NewTask::unique_for) of an ID, so that it can be enqueued again at once. A
    /// live task of that ID stays as it is.
    Replayed ClearUnique clear_unique(op: Op, queue: ref '_ QueueName, id: ref '_ TaskId) -> UniqueCleared,
        "clear a uniqueness window" on Queue(queue);

    /// Closes a batch: its [callback](NewTask::held_open) takes no more members and runs as soon as everything
    /// that it waits for has finished.
    Replayed CloseBatch close_batch(op: Op, queue: ref '_ QueueName, id: ref '_ TaskId) -> Closed,
        "close a batch" on Queue(queue);

    /// Returns what a live task waits for, and the progress. `None` if it is not live or never waited for
    /// anything.
    Read Waits waits(queue: ref '_ QueueName, id: ref '_ TaskId) -> Option<crate::Waits>,
        "read the dependencies of a task" on Queue(queue);

    /// Returns the finished tasks that a live task waited for, with their results: by ID, up to 100 a page.
    /// They are kept until the task itself has finished, whatever the queue's [`Retention`](crate::Retention).
    Read Waited waited(queue: ref '_ QueueName, id: ref '_ TaskId, page: Page) -> Vec<crate::Waited>,
        "list the dependencies of a task" on Queue(queue), |v| v.page.check_size(100);

    /// Returns up to `n` live tasks (1 to 1,000) that still wait for this one: by policy, then by arrival.
    Read Dependents dependents(queue: ref '_ QueueName, id: ref '_ TaskId, n: u32) -> Vec<TaskId>,
        "list the tasks that wait for a task" on Queue(queue), |v| check_batch(v.n as usize);

    /// Returns a task by ID: the live one, or else the retained one.
    Read Task task(queue: ref '_ QueueName, id: ref '_ TaskId) -> Option<TaskInfo>,
        "read a task" on Queue(queue);

    /// Lists tasks: the live ones, or those in one state. Done tasks are listed only when their state is asked for.
    ///
    /// A page has a cursor for the next one, and the listing ends with the page that has none: a page may be short, or
    /// empty, and have a cursor. A store looks at no more than `limit` or 1,000 entries for a page, whichever is more,
    /// however many tasks the queue has. The order of the tasks is up to the store.
    ///
    /// All pages together list every task of an unchanged queue exactly once. While clients change the queue, a listing
    /// of the live tasks has every task that is live throughout at least once, and one of a state every task that is in
    /// the state and unchanged throughout.
    ///
    /// # Errors
    /// [`is_invalid`](crate::Error::is_invalid) for a cursor of another store or state.
    Read Tasks tasks(queue: ref '_ QueueName, listing: Listing) -> TaskPage,
        "list tasks" on Queue(queue), |v| v.listing.check();

    /// Returns counts by state, and the lag. A queue that was never used is empty.
    Read Stats stats(queue: ref '_ QueueName) -> QueueStats,
        "count a queue's tasks" on Queue(queue);

    /// Lists the names of the queues, in order: those that were used, and those that have a live worker.
    Read Queues queues(page: Page) -> Vec<QueueName>,
        "list queues" on QueueList, |v| v.page.check();

    /// Pauses a queue: `pop` and `claim` get no tasks. All other verbs keep working.
    Idempotent Pause pause(queue: ref '_ QueueName) -> (),
        "pause a queue" on Queue(queue);

    /// Resumes a paused queue.
    Idempotent Resume resume(queue: ref '_ QueueName) -> (),
        "resume a queue" on Queue(queue);

    /// Sets the queue's limits. Existing tasks stay, and running tasks continue. A changed rate limit starts
    /// counting from zero. Done tasks that exceed the new retention are deleted.
    Idempotent Limit limit(queue: ref '_ QueueName, limits: QueueLimits) -> (),
        "set a queue's limits" on Queue(queue), |v| v.limits.check();

    /// Returns events in order, up to 1,000 a page. A queue keeps events only if its [limits](QueueLimits::events) say
    /// so. Each event is written in the step that it describes.
    Read TaskEvents task_events(queue: ref '_ QueueName, page: Page<u64>) -> crate::TaskEvents,
        "read a queue's events" on Queue(queue), |v| v.page.check_size(crate::TaskEvents::MAX);

    /// Lists dead letters by ID.
    Read Dead dead(queue: ref '_ QueueName, page: Page) -> Vec<crate::DeadLetter>,
        "list dead letters" on Queue(queue), |v| v.page.check();

    /// Returns a dead letter by ID.
    Read DeadLetter dead_letter(queue: ref '_ QueueName, id: ref '_ TaskId) -> Option<crate::DeadLetter>,
        "find a dead letter" on Queue(queue);

    /// Requeues dead letters: due at once, with all attempts and without a deadline. One whose ID is live again
    /// stays dead.
    Replayed RequeueDead requeue_dead(op: Op, queue: ref '_ QueueName, which: Selection) -> DeadRequeued,
        "requeue dead letters" on Queue(queue), |v| v.which.check();

    /// Deletes dead letters and returns how many.
    Replayed DeleteDead delete_dead(op: Op, queue: ref '_ QueueName, which: Selection) -> u64,
        "delete dead letters" on Queue(queue), |v| v.which.check();

    // Schedules
    /// Creates or changes a schedule. An unchanged schedule keeps its next time, so every process of a fleet may save
    /// it at startup.
    Write Schedule schedule(queue: ref '_ QueueName, new: NewSchedule) -> Scheduled,
        "save a schedule" on Queue(queue), |v| v.new.check();

    /// Deletes a schedule and returns whether it existed. Tasks that it enqueued stay.
    Write Unschedule unschedule(queue: ref '_ QueueName, id: ref '_ ScheduleId) -> bool,
        "delete a schedule" on Queue(queue);

    /// Lists the schedules of a queue by ID.
    Read Schedules schedules(queue: ref '_ QueueName, page: Page) -> Vec<crate::Schedule>,
        "list schedules" on Queue(queue), |v| v.page.check();

    /// Returns up to `n` due schedules (1 to 1,000), by due time, and when the next one is due.
    Read DueSchedules due_schedules(queue: ref '_ QueueName, n: u32) -> crate::DueSchedules,
        "find due schedules" on Queue(queue), |v| check_batch(v.n as usize);

    /// Enqueues the tasks of due occurrences and sets the next time, atomically. Tasks whose ID is live are kept, and
    /// the queue's capacity does not apply. A repeated call is stale.
    Write Fire fire(queue: ref '_ QueueName, fire: crate::Fire) -> Fired,
        "fire a schedule" on Queue(queue), |v| v.fire.check();

    // Workers
    /// Records that a worker lives, or that it has ended, and returns what an operator [asked](Self::set_worker) of it.
    /// A worker does so every few seconds, busy or idle.
    ///
    /// A queue lists at most [`LISTED_MAX`](crate::Announce::LISTED_MAX) workers; others are always told to work.
    Idempotent Announce announce(queue: ref '_ QueueName, worker: crate::Announce) -> WorkerMode,
        "announce a worker" on Queue(queue), |v| v.worker.check();

    /// Lists the workers that live, by ID.
    Read Workers workers(queue: ref '_ QueueName, page: Page) -> Vec<WorkerInfo>,
        "list workers" on Queue(queue), |v| v.page.check();

    /// Asks a worker to work, to be quiet or to stop. It learns of it at its next announcement. Returns whether it is
    /// listed.
    Idempotent SetWorker set_worker(queue: ref '_ QueueName, id: ref '_ WorkerId, mode: WorkerMode) -> bool,
        "set the mode of a worker" on Queue(queue);

    // Outboxes
    /// Enqueues tasks in order, up to the first for which the queue has no room, and returns how far it got. A
    /// repeated call continues from there. Tasks with a number that the queue already has are ignored. A task whose
    /// ID is still [unique](crate::NewTask::unique_for) is skipped and counts as relayed.
    Idempotent Relay relay(queue: ref '_ QueueName, relay: crate::Relay) -> Relayed,
        "relay an outbox" on Queue(queue), |v| v.relay.check();

    // Sales
    /// Creates a sale without opening it. Repeating the call gives the same answer.
    Idempotent Create create(sale: SaleSpec) -> Created,
        "create a sale" on Sale(sale.id), |v| v.sale.check();

    /// Opens the sale, from its `opens_at` on if it has one. Returns the resulting status. An open sale stays
    /// open, and an ended one stays ended.
    Idempotent Open open(sale: ref '_ SaleId) -> SaleStatus,
        "open a sale" on Sale(sale);

    /// Ends the sale permanently: no more reservations. Holds can still be confirmed, be canceled and expire.
    /// Returns the resulting status.
    Idempotent End end(sale: ref '_ SaleId) -> SaleStatus,
        "end a sale" on Sale(sale);

    /// Reserves units.
    ///
    /// Checks in this order: replay, open, limit of the buyer, stock of every line. Then it takes all lines or
    /// none. If the limit or a line fails, expired holds are ended first, as in [`expire`](Self::expire): up to
    /// [`SWEEP_MAX`](SaleSpec::SWEEP_MAX), by deadline.
    Idempotent Reserve reserve(request: crate::Reserve) -> Reserved,
        "reserve" on Sale(request.sale), |v| v.request.check();

    /// Confirms a hold that was paid for. A hold whose deadline has passed expires instead, and the confirmation
    /// is refused.
    Idempotent Confirm confirm(sale: ref '_ SaleId, id: ReservationId) -> Decision,
        "confirm a reservation" on Sale(sale);

    /// Cancels a hold. A hold whose deadline has passed ends as expired.
    Idempotent CancelHold cancel_hold(sale: ref '_ SaleId, id: ReservationId) -> Decision,
        "cancel a reservation" on Sale(sale);

    /// Ends up to `n` holds (1 to 1,000) whose deadline has passed, by deadline, and returns how many.
    Write Expire expire(sale: ref '_ SaleId, n: u32) -> u32,
        "expire holds" on Sale(sale), |v| check_batch(v.n as usize);

    /// Applies what the ledger has committed for orders of `generation`, in the given order. Only a reservation
    /// in the matching middle state changes, so repeating the call changes nothing. Verdicts for another
    /// generation than the sale's change nothing: a rebuild has read them from the ledger.
    Write Settle settle(sale: ref '_ SaleId, generation: u32, verdicts: Vec<(ReservationId, Verdict)>) -> Vec<Settled>,
        "settle reservations" on Sale(sale), |v| check_batch(v.verdicts.len());

    /// Reports what the ledger has recorded, and returns the entries that it lacks: those of failed entries that are
    /// due again, then those of the next events of the log.
    ///
    /// One worker at a time follows a sale, under a lease. A report is accepted from the worker that has the lease, or
    /// whose lease ended without another worker taking over, and for the current generation. An entry is handed out
    /// again until it was reported, so a worker that dies loses nothing. The ledger ignores what it has.
    ///
    /// A batch without entries is reported by the store: the next one continues behind it. Fails with
    /// [`is_invalid`](crate::Error::is_invalid) for a sale without a ledger.
    Write FollowOrders follow_orders(follow: crate::Follow) -> crate::Followed,
        "follow the orders of a sale" on Sale(follow.sale), |v| v.follow.check();

    /// Lists entries that the ledger could not record, by event number, up to 1,000 a page.
    Read FailedOrders failed_orders(sale: ref '_ SaleId, page: Page<u64>) -> Vec<crate::FailedOrder>,
        "list failed orders" on Sale(sale), |v| v.page.check_size(1_000);

    /// Makes all failed entries due now, and returns how many there are. An idle order worker asks every few seconds.
    Idempotent RetryOrders retry_orders(sale: ref '_ SaleId) -> u32,
        "retry failed orders" on Sale(sale);

    /// Records how many attempts at the sale a server has answered since it started, by answer: up to 32, each a name
    /// of 1 to 40 lower-case letters, digits and underscores. Returns the sums over all servers by answer, also over those
    /// that have ended. A repeated or older count changes nothing.
    ///
    /// A sale has at most [`ATTEMPT_ANSWERS_MAX`](crate::ATTEMPT_ANSWERS_MAX) answers; others are ignored. Of more than
    /// [`ATTEMPT_SERVERS_MAX`](crate::ATTEMPT_SERVERS_MAX) servers, the one whose counts are oldest is taken for ended: if it
    /// counts again, all of its attempts are added once more. The sale need not exist.
    Idempotent CountAttempts count_attempts(sale: ref '_ SaleId, server: ClientId, answers: Vec<(String, u64)>) -> Vec<(String, u64)>,
        "count attempts at a sale" on Sale(sale), |v| check_attempts(&v.answers);

    /// Adds units (numbered from the last one on) or withdraws the highest free ones permanently, all or nothing.
    ///
    /// The store keeps the answer for at least [`StockChange::REMEMBERED`], so a process that starts later gets
    /// the same answer. The same `Op` with another request is [`StockChanged::KeyReused`].
    Replayed Stock stock(op: Op, sale: ref '_ SaleId, sku: ref '_ Sku, change: StockChange) -> StockChanged,
        "change the stock" on Sale(sale), |v| v.change.check();

    /// Halts the sale, because the store of that generation cannot be trusted: nothing is reserved, decided,
    /// expired or restocked until a rebuild. Returns whether the sale is halted; a sale of another generation
    /// stays as it is. Fails with [`is_invalid`](crate::Error::is_invalid) for a sale without a ledger, because
    /// it could not be rebuilt.
    Idempotent HaltSale halt_sale(sale: ref '_ SaleId, generation: u32, reason: HaltReason) -> bool,
        "halt a sale" on Sale(sale);

    /// Begins to rebuild the sale from the ledger: halts it, and creates space for the load. The latest rebuild
    /// wins: parts of earlier ones are refused from then on, and their loaded data is dropped.
    Idempotent BeginRebuild begin_rebuild(by: Op, sale: ref '_ SaleId) -> (),
        "start the rebuild of a sale" on Sale(sale);

    /// Loads a part of the ledger's data for the next generation. Loading a part again changes nothing. A part
    /// has up to 1,000 orders (none to ask whether this rebuild is still the latest), or 1 to 10,000 units.
    Idempotent Load load(by: Op, sale: ref '_ SaleId, generation: u32, part: crate::Load) -> Rebuilt,
        "load a part of a sale" on Sale(sale), |v| v.part.check();

    /// Replaces the sale with the loaded data in one step, if it adds up, and resumes the sale.
    Idempotent Switch switch(by: Op, sale: ref '_ SaleId, switch: crate::Switch) -> Rebuilt,
        "switch a sale to its new generation" on Sale(sale), |v| v.switch.check();

    /// Restores the units of a receipt if the store has lost the reservation: the same units if they are free,
    /// others otherwise. The sale need not be open, because it was when the reservation was made.
    ///
    /// A receipt of the current generation for an unknown reservation proves a lost write: a sale with a ledger
    /// is then halted, as by [`halt_sale`](Self::halt_sale).
    Idempotent Restore restore(receipt: Receipt) -> Restored,
        "restore a reservation" on Sale(receipt.sale);

    /// Returns the sale and its stock.
    Read Sale sale(sale: ref '_ SaleId) -> SaleState,
        "show a sale" on Sale(sale);

    /// Lists sales by ID. A damaged one does not hide the others.
    Read Sales sales(page: Page) -> Vec<ListedSale>,
        "list sales" on SaleList, |v| v.page.check();

    /// Returns a reservation.
    Read Reservation reservation(sale: ref '_ SaleId, id: ReservationId) -> Option<Hold>,
        "read a reservation" on Sale(sale);

    /// Returns events in order.
    Read Events events(sale: ref '_ SaleId, page: Page<u64>) -> Vec<Event>,
        "read a sale's events" on Sale(sale), |v| v.page.check();

    /// Returns a snapshot of everything that the store knows of the sale, for the audit.
    Read Snapshot snapshot(sale: ref '_ SaleId) -> crate::Snapshot,
        "read a sale's snapshot" on Sale(sale);

    // Waiting rooms
    /// Opens the sale's room, or changes its rules while buyers wait. Positions stay, served positions stay
    /// served, and the new rate applies from there. Repeating the same rules changes nothing.
    ///
    /// `secret` decides a draw; an open room keeps its own. Changing the order fails with
    /// [`is_invalid`](crate::Error::is_invalid).
    Idempotent SetRoom set_room(sale: ref '_ SaleId, rules: RoomRules, secret: DrawSecret) -> RoomState,
        "set a room" on Sale(sale), |v| v.rules.check();

    /// Returns the room, if the sale has one.
    Read Room room(sale: ref '_ SaleId) -> Option<RoomState>,
        "show a room" on Sale(sale);

    /// Adds the buyer to the room and returns the serial; `None` without a room. A buyer who is in the room keeps
    /// the serial, unless the admission token has expired: then the buyer joins again at the end.
    Write Join join(sale: ref '_ SaleId, buyer: ref '_ BuyerId) -> Option<Joined>,
        "join a room" on Sale(sale);

    /// Reads the buyer's position, and admits the buyer if it is served; `None` without a room. A buyer is
    /// admitted once: a repeated call returns the same expiry.
    ///
    /// After a draw the caller computes the position from the buyer's serial; without it, or with another serial,
    /// nobody is admitted. Without a draw the store knows the position.
    Idempotent Enter enter(enter: crate::Enter) -> Option<Entered>,
        "enter" on Sale(enter.sale);

    /// Closes the entry to the draw; `None` without a room. Everyone who has joined by then takes part, and later
    /// buyers stand behind them by arrival. The entry is closed once: later calls change nothing and return the
    /// time and the number of entrants. Fails with [`is_invalid`](crate::Error::is_invalid) for a room without a
    /// draw.
    Idempotent CloseEntry close_entry(sale: ref '_ SaleId) -> Option<RoomState>,
        "close an entry" on Sale(sale);

    /// Draws the order: reveals the secret and starts admissions; `None` without a room. The entry must be closed
    /// first, so that the number of entrants can be published before anyone knows the beacon. A room is drawn
    /// once: later calls change nothing and return the beacon that was used. Fails with
    /// [`is_invalid`](crate::Error::is_invalid) for a room without a draw.
    Idempotent Draw draw(sale: ref '_ SaleId, beacon: Beacon) -> Option<crate::Draw>,
        "draw" on Sale(sale);

    /// Closes the room and removes all waiting buyers; returns whether there was one. Then every buyer may
    /// reserve.
    Write CloseRoom close_room(sale: ref '_ SaleId) -> bool,
        "close a room" on Sale(sale);
}

/// Listens, and reads what was heard.
fn hear<T: 'static>(
    store: &(impl Store + ?Sized),
    topic: Topic,
    read: fn(Option<Notification>) -> Result<T>,
) -> Answer<'static, T> {
    let doing = topic.doing();
    let heard = store.listen(topic);
    Box::pin(async move { heard.await.and_then(read).map_err(|error| error.doing(doing)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scopes apply to the names of a request, so a verb without names is open to every token of its role.
    #[test]
    fn every_verb_names_what_it_is_about_except_listings_and_the_release_of_all_locks() {
        let is_nameless = |target| ["AnyLock", "LockList", "QueueList", "SaleList"].contains(target);
        let nameless = Request::TARGETS.iter().filter(|(_, target)| is_nameless(target));
        let nameless: Vec<_> = nameless.map(|(verb, _)| *verb).collect();
        assert_eq!(nameless, ["release_all", "list", "queues", "sales"]);
    }
}
