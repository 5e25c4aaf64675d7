use rushgate_core::{
    Acquire, Claim, ClientId, Error, Extend, Lease, Listing, LockName, NewTask, Op, Page, QueueLimits,
    QueueName, ReservationId, Reserve, Result, Retry, SaleId, SaleSpec, Selection, Sku, StockChange, Store,
    Task, TaskId, Ticket, Token, UnitRange, Verdict,
};

/// A verb of the store with its arguments: the same value is sent to the model, to the backend, and again after a
/// lost reply.
#[derive(Clone, Debug)]
pub(super) enum Call {
    Acquire(Acquire),
    Release(LockName, Token),
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
    Complete(Op, QueueName, Vec<Ticket>),
    Retry(Op, QueueName, Vec<Retry>),
    GiveBack(Op, QueueName, Vec<Ticket>),
    ExtendTasks(QueueName, Vec<Ticket>, Lease),
    Dequeue(Op, QueueName, Ticket),
    Cancel(Op, QueueName, TaskId),
    Task(QueueName, TaskId),
    Tasks(QueueName, Listing),
    Stats(QueueName),
    Queues,
    Pause(QueueName, bool),
    Limit(QueueName, QueueLimits),
    Dead(QueueName),
    Revive(Op, QueueName, Selection),
    Bury(Op, QueueName, Selection),
    Create(SaleSpec),
    Open(SaleId),
    End(SaleId),
    Reserve(Reserve),
    Confirm(SaleId, ReservationId),
    CancelHold(SaleId, ReservationId),
    Expire(SaleId, u32),
    Settle(SaleId, Vec<(ReservationId, Verdict)>),
    Stock(Op, SaleId, Sku, StockChange),
    Sale(SaleId),
    Sales(Page),
    Reservation(SaleId, ReservationId),
    Events(SaleId, u64),
    Books(SaleId),
}

/// An answer as text, to be compared, and the tickets in it, to be used in later calls.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) tickets: Vec<Ticket>,
}

fn plain<T: std::fmt::Debug>(answer: Result<T>) -> Answer {
    let tell = |error: Error| format!("error: {}", error.code());
    Answer { text: answer.map_or_else(tell, |it| format!("{it:?}")), tickets: Vec::new() }
}

fn tasks(answer: Result<Vec<Task>>) -> Answer {
    let found = answer.as_deref().unwrap_or_default();
    let tickets = found.iter().map(|task| task.ticket.clone()).collect();
    Answer { tickets, ..plain(answer) }
}

impl Call {
    /// Whether the call carries an `Op`, by which a repetition is answered the same way.
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
                | Self::Revive(..)
                | Self::Bury(..)
                | Self::Stock(..)
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
            | Self::Cancel(..) => self.send_to_queue(store).await,
            Self::Task(queue, id) => plain(store.task(&queue, &id).await),
            Self::Tasks(queue, listing) => plain(store.tasks(&queue, listing).await),
            Self::Stats(queue) => plain(store.stats(&queue).await),
            Self::Queues => plain(store.queues().await),
            Self::Pause(queue, paused) => plain(store.pause(&queue, paused).await),
            Self::Limit(queue, limits) => plain(store.limit(&queue, limits).await),
            Self::Dead(queue) => plain(store.dead(&queue, "", 10_000).await),
            Self::Revive(op, queue, which) => plain(store.revive(op, &queue, which).await),
            Self::Bury(op, queue, which) => plain(store.bury(op, &queue, which).await),
            Self::Acquire(request) => plain(store.acquire(request).await),
            Self::Release(name, token) => plain(store.release(&name, token).await),
            Self::Extend(leases) => plain(store.extend(leases).await),
            Self::Held(name, token) => plain(store.held(&name, token).await),
            Self::Leave(name, token) => plain(store.leave(&name, token).await),
            Self::ReleaseAll(client) => plain(store.release_all(client).await),
            Self::ForceRelease(name) => plain(store.force_release(&name).await),
            Self::Show(name) => plain(store.show(&name).await),
            Self::List(page) => plain(store.list(page).await),
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
            Self::Complete(op, queue, tickets) => plain(store.complete(op, &queue, tickets).await),
            Self::Retry(op, queue, failed) => plain(store.retry(op, &queue, failed).await),
            Self::GiveBack(op, queue, tickets) => plain(store.give_back(op, &queue, tickets).await),
            Self::ExtendTasks(queue, tickets, lease) => {
                plain(store.extend_tasks(&queue, tickets, lease).await)
            }
            Self::Dequeue(op, queue, ticket) => plain(store.dequeue(op, &queue, ticket).await),
            Self::Cancel(op, queue, id) => plain(store.cancel(op, &queue, &id).await),
            other => unreachable!("{other:?} is not a queue's"),
        }
    }

    async fn send_to_sale(&self, store: &dyn Store) -> Answer {
        match self.clone() {
            Self::Create(spec) => plain(store.create(spec).await),
            Self::Open(sale) => plain(store.open(&sale).await),
            Self::End(sale) => plain(store.end(&sale).await),
            Self::Reserve(request) => plain(store.reserve(request).await),
            Self::Confirm(sale, id) => plain(store.confirm(&sale, id).await),
            Self::CancelHold(sale, id) => plain(store.cancel_hold(&sale, id).await),
            Self::Expire(sale, n) => plain(store.expire(&sale, n).await),
            Self::Settle(sale, verdicts) => plain(store.settle(&sale, 1, verdicts).await),
            Self::Stock(op, sale, sku, change) => plain(store.stock(op, &sale, &sku, change).await),
            Self::Sale(sale) => plain(store.sale(&sale).await),
            Self::Sales(page) => plain(store.sales(page).await),
            Self::Reservation(sale, id) => plain(store.reservation(&sale, id).await),
            Self::Events(sale, after) => plain(store.events(&sale, after, 10_000).await),
            Self::Books(sale) => plain(store.books(&sale).await.map(in_order)),
            other => unreachable!("{other:?} is not a sale's"),
        }
    }
}

/// The rows of books have no order of their own.
fn in_order(mut books: rushgate_core::Books) -> rushgate_core::Books {
    books.reservations.sort_by_key(|row| row.id);
    books.units.sort_by(|a, b| (&a.sku, a.unit).cmp(&(&b.sku, b.unit)));
    for sku in &mut books.skus {
        for ranges in [&mut sku.free, &mut sku.withdrawn] {
            ranges.sort_unstable();
            *ranges = UnitRange::gather(ranges.drain(..));
        }
    }
    books
}
