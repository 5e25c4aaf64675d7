//! Which function carries out which request.

use rushgate_core::{
    Answer, Cancelled, Claimed, Closed, Completed, DeadRequeued, Dequeued, Fired, Op, QueueName, Reply,
    Request, Rescheduled, Retried, TaskExtended, TaskReleased, Verb, verb,
};

use crate::queue::{Queue, dead, enqueue, event, look, outbox, schedule, unique, wait, worker};
use crate::read::Reader;
use crate::sale::{attempts, orders, rebuild};
use crate::step::Step;
use crate::store::SqliteStore;
use crate::{fault, lock, queue, room, sale};

impl SqliteStore {
    pub(crate) fn carry(&self, request: Request) -> Answer<'static, Reply> {
        match request {
            // Locks
            Request::Acquire(v) => self.change(v, |step, v| lock::acquire(step, &v.request)),
            Request::Release(v) => self.change(v, |step, v| lock::release(step, &v.name, v.token)),
            Request::ReleaseWith(v) => self.change(v, |step, v| lock::release_with(step, v.op, &v.release)),
            Request::Extend(v) => self.change(v, |step, v| lock::extend(step, &v.leases)),
            Request::Held(v) => self.look(v, |reader, v| lock::held(reader, &v.name, v.token)),
            Request::Leave(v) => self.change(v, |step, v| lock::leave(step, &v.name, v.token)),
            Request::ReleaseAll(v) => self.change(v, |step, v| lock::release_all(step, v.client)),
            Request::ForceRelease(v) => self.change(v, |step, v| lock::force_release(step, &v.name)),
            Request::Show(v) => self.look(v, |reader, v| lock::show(reader, &v.name)),
            Request::List(v) => self.look(v, |reader, v| lock::list(reader, &v.page)),
            // Queues
            Request::Enqueue(v) => self.once(v, |step, v| enqueue::enqueue(step, &v.queue, &v.tasks)),
            Request::Top(v) => self.on_queue(v, |queue, v| queue.due_tasks(v.n), |_| Vec::new()),
            Request::Pop(v) => self.on_queue(v, |queue, v| queue.pop(v.n), |_| Vec::new()),
            Request::Claim(v) => self.on_queue(v, |queue, v| queue.claim(&v.claim), |_| Claimed::default()),
            Request::Complete(v) => {
                self.on_each(v, |v| &v.done, |queue, _, done| queue.complete(done), Completed::Stale)
            }
            Request::Retry(v) => {
                self.on_each(v, |v| &v.failed, |queue, _, failed| queue.retry(failed), Retried::Stale)
            }
            Request::ReleaseTasks(v) => {
                self.on_each(v, |v| &v.back, |queue, _, back| queue.release_tasks(back), TaskReleased::Stale)
            }
            Request::ExtendTasks(v) => self.on_each(
                v,
                |v| &v.beats,
                |queue, v, beat| queue.extend(beat, v.lease),
                TaskExtended::Lost,
            ),
            Request::Dequeue(v) => self.on_queue(v, |queue, v| queue.dequeue(&v.ticket), |_| Dequeued::Stale),
            Request::Cancel(v) => self.on_queue(v, |queue, v| queue.cancel(&v.id), |_| Cancelled::NotFound),
            Request::Reschedule(v) => {
                self.on_queue(v, |queue, v| queue.reschedule(&v.id, v.due), |_| Rescheduled::NotFound)
            }
            Request::UniqueUntil(v) => self.look(v, unique::unique_until),
            Request::ClearUnique(v) => self.once(v, unique::clear_unique),
            Request::CloseBatch(v) => {
                self.on_queue(v, |queue, v| queue.close_batch(&v.id), |_| Closed::NotFound)
            }
            Request::Waits(v) => self.look_into(v, wait::waits),
            Request::Waited(v) => self.look_into(v, wait::waited),
            Request::Dependents(v) => self.look_into(v, wait::dependents),
            Request::Task(v) => self.look_into(v, look::task),
            Request::Tasks(v) => self.look_into(v, look::tasks),
            Request::Stats(v) => self.look_into(v, look::stats),
            Request::Queues(v) => self.look(v, look::queues),
            Request::Pause(v) => self.on_any_queue(v, |queue, _| queue.set_paused(true)),
            Request::Resume(v) => self.on_any_queue(v, |queue, _| queue.set_paused(false)),
            Request::Limit(v) => self.on_any_queue(v, |queue, v| queue.limit(v.limits)),
            Request::TaskEvents(v) => self.look_into(v, event::events),
            Request::Dead(v) => self.look_into(v, dead::dead),
            Request::DeadLetter(v) => self.look_into(v, dead::dead_letter),
            Request::RequeueDead(v) => {
                self.on_queue(v, |queue, v| queue.requeue_dead(&v.which), |_| DeadRequeued::default())
            }
            Request::DeleteDead(v) => self.on_queue(v, |queue, v| queue.delete_dead(&v.which), |_| 0),
            // Schedules
            Request::Schedule(v) => self.on_any_queue(v, |queue, v| queue.schedule(&v.new)),
            Request::Unschedule(v) => self.on_queue(v, |queue, v| queue.unschedule(&v.id), |_| false),
            Request::Schedules(v) => self.look(v, schedule::schedules),
            Request::DueSchedules(v) => self.look(v, schedule::due_schedules),
            Request::Fire(v) => self.on_queue(v, |queue, v| queue.fire(&v.fire), |_| Fired::Stale),
            // Workers
            Request::Announce(v) => self.change(v, worker::announce),
            Request::Workers(v) => self.look(v, worker::workers),
            Request::SetWorker(v) => self.change(v, worker::set_worker),
            // Outboxes
            Request::Relay(v) => self.change(v, |step, v| outbox::relay(step, &v.queue, &v.relay)),
            // Sales
            Request::Create(v) => self.change(v, |step, v| sale::create(step, &v.sale)),
            Request::Open(v) => self.change(v, |step, v| sale::open(step, &v.sale)),
            Request::End(v) => self.change(v, |step, v| sale::end(step, &v.sale)),
            Request::Reserve(v) => self.change(v, |step, v| sale::reserve::reserve(step, &v.request)),
            Request::Confirm(v) => self.change(v, |step, v| sale::confirm(step, &v.sale, v.id)),
            Request::CancelHold(v) => self.change(v, |step, v| sale::cancel_hold(step, &v.sale, v.id)),
            Request::Expire(v) => self.change(v, |step, v| sale::expire(step, &v.sale, v.n)),
            Request::Settle(v) => self.change(v, sale::settle),
            Request::FollowOrders(v) => self.change(v, |step, v| orders::follow_orders(step, &v.follow)),
            Request::FailedOrders(v) => self.look(v, orders::failed_orders),
            Request::CountAttempts(v) => self.change(v, attempts::count_attempts),
            Request::RetryOrders(v) => self.change(v, |step, v| orders::retry_orders(step, &v.sale)),
            Request::HaltSale(v) => self.change(v, rebuild::halt_sale),
            Request::BeginRebuild(v) => self.change(v, rebuild::begin_rebuild),
            Request::Load(v) => self.change(v, rebuild::load_part),
            Request::Switch(v) => self.change(v, rebuild::switch),
            Request::Restore(v) => self.change(v, |step, v| rebuild::restore(step, &v.receipt)),
            Request::Stock(v) => self.change(v, sale::stock::stock),
            Request::Sale(v) => self.look(v, |reader, v| sale::sale(reader, &v.sale)),
            Request::Sales(v) => self.look(v, |reader, v| sale::sales(reader, &v.page)),
            Request::Reservation(v) => self.look(v, |reader, v| sale::reservation(reader, &v.sale, v.id)),
            Request::Events(v) => self.look(v, |reader, v| sale::events(reader, &v.sale, &v.page)),
            Request::Snapshot(v) => self.look(v, |reader, v| sale::snapshot::snapshot(reader, &v.sale)),
            // Waiting rooms
            Request::SetRoom(v) => self.change(v, room::set),
            Request::Room(v) => self.look(v, |reader, v| room::show(reader, &v.sale)),
            Request::Join(v) => self.change(v, |step, v| room::join(step, &v.sale, &v.buyer)),
            Request::Enter(v) => self.change(v, |step, v| room::enter(step, &v.enter)),
            Request::CloseEntry(v) => self.change(v, |step, v| room::close_entry(step, &v.sale)),
            Request::Draw(v) => self.change(v, |step, v| room::draw(step, &v.sale, &v.beacon)),
            Request::CloseRoom(v) => self.change(v, |step, v| room::close(step, &v.sale)),
        }
    }

    /// Changes something, in the writer.
    fn change<V: Verb + Sync>(
        &self,
        verb: V,
        step: fn(&mut Step<'_>, &V) -> fault::Result<V::Answer>,
    ) -> Answer<'static, Reply> {
        self.write(move |group| step(group, &verb).map(V::reply))
    }

    /// Changes something of a queue, unless the answer to the verb's operation is remembered.
    fn once<V: OfQueue>(
        &self,
        verb: V,
        step: impl Fn(&mut Step<'_>, &V) -> fault::Result<V::Answer> + Send + 'static,
    ) -> Answer<'static, Reply> {
        self.write(move |group| match verb.op() {
            Some(op) => group.once::<V>(op, |group| step(group, &verb)),
            None => step(group, &verb).map(V::reply),
        })
    }

    /// Changes a queue. `unused` is the answer of a queue that was never used.
    fn on_queue<V: OfQueue>(
        &self,
        verb: V,
        change: fn(&mut Queue<'_, '_>, &V) -> fault::Result<V::Answer>,
        unused: fn(&V) -> V::Answer,
    ) -> Answer<'static, Reply> {
        self.once(verb, move |step, v| {
            let answer = queue::on_queue(step, v.queue(), |queue| change(queue, v))?;
            Ok(answer.unwrap_or_else(|| unused(v)))
        })
    }

    /// Changes a queue once for each item. `unused` is every answer of a queue that was never used.
    fn on_each<V: OfQueue<Answer = Vec<T>>, I: 'static, T: Copy + Send + 'static>(
        &self,
        verb: V,
        items: fn(&V) -> &[I],
        change: fn(&mut Queue<'_, '_>, &V, &I) -> fault::Result<T>,
        unused: T,
    ) -> Answer<'static, Reply> {
        self.once(verb, move |step, v| {
            let answers = queue::on_queue(step, v.queue(), |queue| {
                items(v).iter().map(|item| change(queue, v, item)).collect()
            })?;
            Ok(answers.unwrap_or_else(|| vec![unused; items(v).len()]))
        })
    }

    /// Changes a queue, and creates it if it was never used.
    fn on_any_queue<V: OfQueue>(
        &self,
        verb: V,
        change: fn(&mut Queue<'_, '_>, &V) -> fault::Result<V::Answer>,
    ) -> Answer<'static, Reply> {
        self.once(verb, move |step, v| queue::on_any_queue(step, v.queue(), |queue| change(queue, v)))
    }

    /// Reads something.
    fn look<V: Verb + Sync>(
        &self,
        verb: V,
        question: fn(&Reader<'_>, &V) -> fault::Result<V::Answer>,
    ) -> Answer<'static, Reply> {
        self.read(move |reader| question(reader, &verb).map(V::reply))
    }

    /// Reads a queue, after ending its expired leases.
    fn look_into<V: OfQueue>(
        &self,
        verb: V,
        question: fn(&Reader<'_>, &V) -> fault::Result<V::Answer>,
    ) -> Answer<'static, Reply> {
        self.read_queue(verb.queue().clone(), move |reader| question(reader, &verb).map(V::reply))
    }
}

/// A verb of one queue.
trait OfQueue: Verb + Sync {
    fn queue(&self) -> &QueueName;

    /// The operation whose answer the store remembers, if it does.
    fn op(&self) -> Option<Op>;
}

macro_rules! of_queue {
    ($($op:expr => $($Verb:ident)+;)+) => {
        $($(impl OfQueue for verb::$Verb {
            fn queue(&self) -> &QueueName {
                &self.queue
            }

            fn op(&self) -> Option<Op> {
                let op: fn(&Self) -> Option<Op> = $op;
                op(self)
            }
        })+)+
    };
}

of_queue! {
    |v| Some(v.op) => Cancel Claim ClearUnique CloseBatch Complete DeleteDead Dequeue Enqueue Pop ReleaseTasks
        RequeueDead Reschedule Retry;
    |_| None => Dead DeadLetter Dependents ExtendTasks Fire Limit Pause Resume Schedule Stats Task TaskEvents Tasks
        Top Unschedule Waited Waits;
}
