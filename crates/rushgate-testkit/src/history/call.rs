use rushgate_core::{
    Acquire, Beacon, BuyerId, Claim, ClientId, Completion, DrawSecret, Enter, Error, Extend, Fire, GiveBack,
    Heartbeat, Hold, Lease, Listing, Load, LockName, NewSchedule, NewTask, Op, Page, PauseReason,
    QueueLimits, QueueName, Receipt, Relay, ReleaseWith, ReservationId, Reserve, Reserved, Result, Retry,
    RoomRules, SaleId, SaleSpec, Schedule, ScheduleId, Selection, Sku, StockChange, Store, Switch, Task,
    TaskId, Ticket, Token, UnitRange, Verdict,
};

/// A store call with its arguments. The same value is sent to the model, to the backend, and again after a lost
/// reply.
#[derive(Clone, Debug)]
pub(super) enum Call {
    Acquire(Acquire),
    Release(LockName, Token),
    ReleaseWith(Op, ReleaseWith),
    Extend(Vec<Extend>),
    Held(LockName, Token),
    Leave(LockName, Token),
    ReleaseAll(ClientId),
    ForceRelease(LockName),
    Show(LockName),
    List(Page),
    Enqueue(Op, QueueName, Vec<NewTask>),
    Top(QueueName, u32),
    Pop(Op, QueueName, u32),
    Claim(Op, QueueName, Claim),
    Complete(Op, QueueName, Vec<Completion>),
    Retry(Op, QueueName, Vec<Retry>),
    GiveBack(Op, QueueName, Vec<GiveBack>),
    ExtendTasks(QueueName, Vec<Heartbeat>, Lease),
    Dequeue(Op, QueueName, Ticket),
    Cancel(Op, QueueName, TaskId),
    UniqueUntil(QueueName, TaskId),
    Lift(Op, QueueName, TaskId),
    CloseBatch(Op, QueueName, TaskId),
    Waits(QueueName, TaskId),
    Waited(QueueName, TaskId, String, u32),
    TaskEvents(QueueName, u64, u32),
    Task(QueueName, TaskId),
    Tasks(QueueName, Listing),
    Stats(QueueName),
    Queues,
    Pause(QueueName, bool),
    Limit(QueueName, QueueLimits),
    Dead(QueueName),
    Revive(Op, QueueName, Selection),
    Bury(Op, QueueName, Selection),
    Schedule(QueueName, NewSchedule),
    Unschedule(QueueName, ScheduleId),
    Schedules(QueueName),
    DueSchedules(QueueName, u32),
    Fire(QueueName, Fire),
    Relay(QueueName, Relay),
    Create(SaleSpec),
    Open(SaleId),
    End(SaleId),
    Reserve(Reserve),
    Confirm(SaleId, ReservationId),
    CancelHold(SaleId, ReservationId),
    Expire(SaleId, u32),
    Settle(SaleId, u32, Vec<(ReservationId, Verdict)>),
    Stock(Op, SaleId, Sku, StockChange),
    PauseSale(SaleId, u32, PauseReason),
    BeginRebuild(Op, SaleId),
    Load(Op, SaleId, u32, Load),
    Switch(Op, SaleId, Switch),
    Restore(Receipt),
    Sale(SaleId),
    Sales(Page),
    Reservation(SaleId, ReservationId),
    Events(SaleId, u64),
    Books(SaleId),
    SetRoom(SaleId, RoomRules, DrawSecret),
    Room(SaleId),
    Join(SaleId, BuyerId),
    Enter(Enter),
    CloseEntry(SaleId),
    Draw(SaleId, Beacon),
    CloseRoom(SaleId),
}

/// An answer as text, for comparison, with the tickets, schedules and hold in it, for later calls.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) tickets: Vec<Ticket>,
    pub(super) schedules: Vec<Schedule>,
    pub(super) hold: Option<Hold>,
}

fn plain<T: std::fmt::Debug>(answer: Result<T>) -> Answer {
    let tell = |error: Error| format!("error: {}", error.code());
    Answer { text: answer.map_or_else(tell, |it| format!("{it:?}")), ..Answer::default() }
}

fn tasks(answer: Result<Vec<Task>>) -> Answer {
    let found = answer.as_deref().unwrap_or_default();
    let tickets = found.iter().map(|task| task.ticket.clone()).collect();
    Answer { tickets, ..plain(answer) }
}

impl Call {
    /// Whether the call has an `Op`, so that a repetition gets the same answer.
    pub(super) fn is_answered_once(&self) -> bool {
        matches!(
            self,
            Self::Enqueue(..)
                | Self::Pop(..)
                | Self::Claim(..)
                | Self::Complete(..)
                | Self::Retry(..)
                | Self::GiveBack(..)
                | Self::Dequeue(..)
                | Self::Cancel(..)
                | Self::Lift(..)
                | Self::CloseBatch(..)
                | Self::Revive(..)
                | Self::Bury(..)
                | Self::Stock(..)
                | Self::ReleaseWith(..)
        )
    }

    pub(super) async fn send(&self, store: &dyn Store) -> Answer {
        match self.clone() {
            Self::Enqueue(..)
            | Self::Top(..)
            | Self::Pop(..)
            | Self::Claim(..)
            | Self::Complete(..)
            | Self::Retry(..)
            | Self::GiveBack(..)
            | Self::ExtendTasks(..)
            | Self::Dequeue(..)
            | Self::Cancel(..)
            | Self::UniqueUntil(..)
            | Self::Lift(..)
            | Self::CloseBatch(..)
            | Self::Waits(..)
            | Self::Waited(..)
            | Self::TaskEvents(..) => self.send_to_queue(store).await,
            Self::Task(queue, id) => plain(store.task(&queue, &id).await),
            Self::Tasks(queue, listing) => plain(store.tasks(&queue, listing).await),
            Self::Stats(queue) => plain(store.stats(&queue).await),
            Self::Queues => plain(store.queues().await),
            Self::Pause(queue, paused) => plain(store.pause(&queue, paused).await),
            Self::Limit(queue, limits) => plain(store.limit(&queue, limits).await),
            Self::Dead(queue) => plain(store.dead(&queue, "", 10_000).await),
            Self::Revive(op, queue, which) => plain(store.revive(op, &queue, which).await),
            Self::Bury(op, queue, which) => plain(store.bury(op, &queue, which).await),
            Self::Schedule(..)
            | Self::Unschedule(..)
            | Self::Schedules(..)
            | Self::DueSchedules(..)
            | Self::Fire(..)
            | Self::Relay(..) => self.send_to_sources(store).await,
            Self::Acquire(request) => plain(store.acquire(request).await),
            Self::Release(name, token) => plain(store.release(&name, token).await),
            Self::ReleaseWith(op, release) => plain(store.release_with(op, release).await),
            Self::Extend(leases) => plain(store.extend(leases).await),
            Self::Held(name, token) => plain(store.held(&name, token).await),
            Self::Leave(name, token) => plain(store.leave(&name, token).await),
            Self::ReleaseAll(client) => plain(store.release_all(client).await),
            Self::ForceRelease(name) => plain(store.force_release(&name).await),
            Self::Show(name) => plain(store.show(&name).await),
            Self::List(page) => plain(store.list(page).await),
            Self::SetRoom(..)
            | Self::Room(_)
            | Self::Join(..)
            | Self::Enter(_)
            | Self::CloseEntry(_)
            | Self::Draw(..)
            | Self::CloseRoom(_) => self.send_to_room(store).await,
            _ => self.send_to_sale(store).await,
        }
    }

    async fn send_to_queue(&self, store: &dyn Store) -> Answer {
        match self.clone() {
            Self::Enqueue(op, queue, tasks) => plain(store.enqueue(op, &queue, tasks).await),
            Self::Top(queue, n) => tasks(store.top(&queue, n).await),
            Self::Pop(op, queue, n) => tasks(store.pop(op, &queue, n).await),
            Self::Claim(op, queue, claim) => {
                let answer = store.claim(op, &queue, claim).await;
                let found = answer.as_ref().map_or(&[][..], |claimed| &claimed.tasks);
                let tickets = found.iter().map(|task| task.ticket.clone()).collect();
                Answer { tickets, ..plain(answer) }
            }
            Self::Complete(op, queue, done) => plain(store.complete(op, &queue, done).await),
            Self::Retry(op, queue, failed) => plain(store.retry(op, &queue, failed).await),
            Self::GiveBack(op, queue, back) => plain(store.give_back(op, &queue, back).await),
            Self::ExtendTasks(queue, beats, lease) => plain(store.extend_tasks(&queue, beats, lease).await),
            Self::Dequeue(op, queue, ticket) => plain(store.dequeue(op, &queue, ticket).await),
            Self::Cancel(op, queue, id) => plain(store.cancel(op, &queue, &id).await),
            Self::UniqueUntil(queue, id) => plain(store.unique_until(&queue, &id).await),
            Self::Lift(op, queue, id) => plain(store.lift(op, &queue, &id).await),
            Self::CloseBatch(op, queue, id) => plain(store.close_batch(op, &queue, &id).await),
            Self::Waits(queue, id) => plain(store.waits(&queue, &id).await),
            Self::Waited(queue, id, after, limit) => plain(store.waited(&queue, &id, &after, limit).await),
            Self::TaskEvents(queue, after, n) => plain(store.task_events(&queue, after, n).await),
            other => unreachable!("{other:?} is not a queue's"),
        }
    }

    /// Sends calls to sources of tasks other than enqueueing.
    async fn send_to_sources(&self, store: &dyn Store) -> Answer {
        match self.clone() {
            Self::Schedule(queue, new) => plain(store.schedule(&queue, new).await),
            Self::Unschedule(queue, id) => plain(store.unschedule(&queue, &id).await),
            Self::Schedules(queue) => {
                let answer = store.schedules(&queue, Page::default()).await;
                let schedules = answer.as_deref().unwrap_or_default().to_vec();
                Answer { schedules, ..plain(answer) }
            }
            Self::DueSchedules(queue, n) => {
                let answer = store.due_schedules(&queue, n).await;
                let schedules = answer.as_ref().map_or_else(|_| Vec::new(), |answer| answer.due.clone());
                Answer { schedules, ..plain(answer) }
            }
            Self::Fire(queue, fire) => plain(store.fire(&queue, fire).await),
            Self::Relay(queue, relay) => plain(store.relay(&queue, relay).await),
            other => unreachable!("{other:?} is not a source's"),
        }
    }

    async fn send_to_room(&self, store: &dyn Store) -> Answer {
        match self.clone() {
            Self::SetRoom(sale, rules, secret) => plain(store.set_room(&sale, rules, secret).await),
            Self::Room(sale) => plain(store.room(&sale).await),
            Self::Join(sale, buyer) => plain(store.join(&sale, &buyer).await),
            Self::Enter(enter) => plain(store.enter(enter).await),
            Self::CloseEntry(sale) => plain(store.close_entry(&sale).await),
            Self::Draw(sale, beacon) => plain(store.draw(&sale, beacon).await),
            Self::CloseRoom(sale) => plain(store.close_room(&sale).await),
            other => unreachable!("{other:?} is not a room's"),
        }
    }

    async fn send_to_sale(&self, store: &dyn Store) -> Answer {
        match self.clone() {
            Self::Create(spec) => plain(store.create(spec).await),
            Self::Open(sale) => plain(store.open(&sale).await),
            Self::End(sale) => plain(store.end(&sale).await),
            Self::Reserve(request) => {
                let answer = store.reserve(request).await;
                let hold = match &answer {
                    Ok(Reserved::Reserved(hold)) => Some(hold.clone()),
                    _ => None,
                };
                Answer { hold, ..plain(answer) }
            }
            Self::Confirm(sale, id) => plain(store.confirm(&sale, id).await),
            Self::CancelHold(sale, id) => plain(store.cancel_hold(&sale, id).await),
            Self::Expire(sale, n) => plain(store.expire(&sale, n).await),
            Self::Settle(sale, generation, verdicts) => {
                plain(store.settle(&sale, generation, verdicts).await)
            }
            Self::Stock(op, sale, sku, change) => plain(store.stock(op, &sale, &sku, change).await),
            Self::PauseSale(sale, generation, reason) => {
                plain(store.pause_sale(&sale, generation, reason).await)
            }
            Self::BeginRebuild(by, sale) => plain(store.begin_rebuild(by, &sale).await),
            Self::Load(by, sale, generation, part) => plain(store.load(by, &sale, generation, part).await),
            Self::Switch(by, sale, switch) => plain(store.switch(by, &sale, switch).await),
            Self::Restore(receipt) => plain(store.restore(receipt).await),
            Self::Sale(sale) => plain(store.sale(&sale).await),
            Self::Sales(page) => plain(store.sales(page).await),
            Self::Reservation(sale, id) => plain(store.reservation(&sale, id).await),
            Self::Events(sale, after) => plain(store.events(&sale, after, 10_000).await),
            Self::Books(sale) => plain(store.books(&sale).await.map(in_order)),
            other => unreachable!("{other:?} is not a sale's"),
        }
    }
}

/// Sorts the rows of a snapshot, which are in no order. Drops the obstacles: histories delay orders, and the model finds
/// no obstacles.
fn in_order(mut books: rushgate_core::Books) -> rushgate_core::Books {
    books.obstacles.clear();
    books.reservations.sort_by_key(|row| row.id);
    books.units.sort_by(|a, b| (&a.sku, a.unit).cmp(&(&b.sku, b.unit)));
    books.buyers.sort();
    books.deadlines.sort();
    books.pending.sort_by_cached_key(|order| format!("{order:?}"));
    for sku in &mut books.skus {
        for ranges in [&mut sku.free, &mut sku.withdrawn] {
            ranges.sort_unstable();
            *ranges = UnitRange::gather(ranges.drain(..));
        }
    }
    books
}
