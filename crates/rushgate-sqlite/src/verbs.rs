//! Which function carries out which request.

use rushgate_core::{Answer, Claimed, QueueName, Reply, Request, Task, Verb};

use crate::queue::{outbox, schedule, worker};
use crate::read::Reader;
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
            Request::Enqueue(v) => self.change(v, |step, v| {
                step.once(v.op, Vec::len, |step| queue::enqueue(step, &v.queue, &v.tasks))
            }),
            Request::Top(v) => self.change(v, |step, v| queue::top(step, &v.queue, v.n)),
            Request::Pop(v) => self.change(v, |step, v| {
                step.once(v.op, |tasks: &Vec<Task>| weight(tasks), |step| queue::pop(step, &v.queue, v.n))
            }),
            Request::Claim(v) => self.change(v, |step, v| {
                step.once(
                    v.op,
                    |it: &Claimed| weight(&it.tasks),
                    |step| queue::claim(step, &v.queue, &v.claim),
                )
            }),
            Request::Complete(v) => self.change(v, |step, v| {
                step.once(v.op, Vec::len, |step| queue::complete(step, &v.queue, &v.done))
            }),
            Request::Retry(v) => self.change(v, |step, v| {
                step.once(v.op, Vec::len, |step| queue::retry(step, &v.queue, &v.failed))
            }),
            Request::ReleaseTasks(v) => self.change(v, |step, v| {
                step.once(v.op, Vec::len, |step| queue::release_tasks(step, &v.queue, &v.back))
            }),
            Request::ExtendTasks(v) => {
                self.change(v, |step, v| queue::extend_tasks(step, &v.queue, &v.beats, v.lease))
            }
            Request::Dequeue(v) => self.change(v, |step, v| {
                step.once(v.op, |_| 1, |step| queue::dequeue(step, &v.queue, &v.ticket))
            }),
            Request::Cancel(v) => {
                self.change(v, |step, v| step.once(v.op, |_| 1, |step| queue::cancel(step, &v.queue, &v.id)))
            }
            Request::Reschedule(v) => self.change(v, |step, v| {
                step.once(v.op, |_| 1, |step| queue::reschedule(step, &v.queue, &v.id, v.due))
            }),
            Request::UniqueUntil(v) => {
                self.look(v, |reader, v| queue::unique::unique_until(reader, &v.queue, &v.id))
            }
            Request::ClearUnique(v) => self.change(v, |step, v| {
                step.once(v.op, |_| 1, |step| queue::unique::clear_unique(step, &v.queue, &v.id))
            }),
            Request::CloseBatch(v) => self.change(v, |step, v| {
                step.once(v.op, |_| 1, |step| queue::wait::close(step, &v.queue, &v.id))
            }),
            Request::Waits(v) => {
                self.look_into(v.queue.clone(), v, |reader, v| queue::wait::waits(reader, &v.queue, &v.id))
            }
            Request::Waited(v) => self.look_into(v.queue.clone(), v, |reader, v| {
                queue::wait::waited(reader, &v.queue, &v.id, &v.page)
            }),
            Request::Dependents(v) => self.look_into(v.queue.clone(), v, |reader, v| {
                queue::wait::dependents(reader, &v.queue, &v.id, v.n)
            }),
            Request::Task(v) => {
                self.look_into(v.queue.clone(), v, |reader, v| queue::task(reader, &v.queue, &v.id))
            }
            Request::Tasks(v) => {
                self.look_into(v.queue.clone(), v, |reader, v| queue::tasks(reader, &v.queue, &v.listing))
            }
            Request::Stats(v) => {
                self.look_into(v.queue.clone(), v, |reader, v| queue::stats(reader, &v.queue))
            }
            Request::Queues(v) => self.look(v, |reader, v| queue::queues(reader, &v.page)),
            Request::Pause(v) => self.change(v, |step, v| queue::set_paused(step, &v.queue, true)),
            Request::Resume(v) => self.change(v, |step, v| queue::set_paused(step, &v.queue, false)),
            Request::Limit(v) => self.change(v, |step, v| queue::limit(step, &v.queue, v.limits)),
            Request::TaskEvents(v) => self
                .look_into(v.queue.clone(), v, |reader, v| queue::event::events(reader, &v.queue, &v.page)),
            Request::Dead(v) => {
                self.look_into(v.queue.clone(), v, |reader, v| queue::dead(reader, &v.queue, &v.page))
            }
            Request::DeadLetter(v) => {
                self.look_into(v.queue.clone(), v, |reader, v| queue::dead_letter(reader, &v.queue, &v.id))
            }
            Request::RequeueDead(v) => self.change(v, |step, v| {
                step.once(v.op, |_| 1, |step| queue::requeue_dead(step, &v.queue, &v.which))
            }),
            Request::DeleteDead(v) => self.change(v, |step, v| {
                step.once(v.op, |_| 1, |step| queue::delete_dead(step, &v.queue, &v.which))
            }),
            // Schedules
            Request::Schedule(v) => self.change(v, |step, v| schedule::schedule(step, &v.queue, &v.new)),
            Request::Unschedule(v) => self.change(v, |step, v| schedule::unschedule(step, &v.queue, &v.id)),
            Request::Schedules(v) => self.look(v, |reader, v| schedule::schedules(reader, &v.queue, &v.page)),
            Request::DueSchedules(v) => {
                self.look(v, |reader, v| schedule::due_schedules(reader, &v.queue, v.n))
            }
            Request::Fire(v) => self.change(v, |step, v| schedule::fire(step, &v.queue, &v.fire)),
            // Workers
            Request::Announce(v) => self.change(v, |step, v| worker::announce(step, &v.queue, &v.worker)),
            Request::Workers(v) => self.look(v, |reader, v| worker::workers(reader, &v.queue, &v.page)),
            Request::SetWorker(v) => {
                self.change(v, |step, v| worker::set_worker(step, &v.queue, &v.id, v.mode))
            }
            // Outboxes
            Request::Relay(v) => self.change(v, |step, v| outbox::relay(step, &v.queue, &v.relay)),
            // Sales
            Request::Create(v) => self.change(v, |step, v| sale::create(step, &v.sale)),
            Request::Open(v) => self.change(v, |step, v| sale::open(step, &v.sale)),
            Request::End(v) => self.change(v, |step, v| sale::end(step, &v.sale)),
            Request::Reserve(v) => self.change(v, |step, v| sale::reserve(step, &v.request)),
            Request::Confirm(v) => self.change(v, |step, v| sale::confirm(step, &v.sale, v.id)),
            Request::CancelHold(v) => self.change(v, |step, v| sale::cancel_hold(step, &v.sale, v.id)),
            Request::Expire(v) => self.change(v, |step, v| sale::expire(step, &v.sale, v.n)),
            Request::Settle(v) => {
                self.change(v, |step, v| sale::settle(step, &v.sale, v.generation, &v.verdicts))
            }
            Request::FollowOrders(v) => {
                self.change(v, |step, v| sale::orders::follow_orders(step, &v.follow))
            }
            Request::FailedOrders(v) => {
                self.look(v, |reader, v| sale::orders::failed_orders(reader, &v.sale, &v.page))
            }
            Request::CountAttempts(v) => self.change(v, sale::attempts::count_attempts),
            Request::RetryOrders(v) => self.change(v, |step, v| sale::orders::retry_orders(step, &v.sale)),
            Request::HaltSale(v) => {
                self.change(v, |step, v| sale::halt(step, &v.sale, v.generation, v.reason))
            }
            Request::BeginRebuild(v) => self.change(v, |step, v| sale::begin_rebuild(step, v.by, &v.sale)),
            Request::Load(v) => {
                self.change(v, |step, v| sale::load_part(step, v.by, &v.sale, v.generation, &v.part))
            }
            Request::Switch(v) => self.change(v, |step, v| sale::switch(step, v.by, &v.sale, &v.switch)),
            Request::Restore(v) => self.change(v, |step, v| sale::restore(step, &v.receipt)),
            Request::Stock(v) => self.change(v, |step, v| sale::stock(step, v.op, &v.sale, &v.sku, v.change)),
            Request::Sale(v) => self.look(v, |reader, v| sale::sale(reader, &v.sale)),
            Request::Sales(v) => self.look(v, |reader, v| sale::sales(reader, &v.page)),
            Request::Reservation(v) => self.look(v, |reader, v| sale::reservation(reader, &v.sale, v.id)),
            Request::Events(v) => self.look(v, |reader, v| sale::events(reader, &v.sale, &v.page)),
            Request::Books(v) => self.look(v, |reader, v| sale::books(reader, &v.sale)),
            // Waiting rooms
            Request::SetRoom(v) => self.change(v, |step, v| room::set(step, &v.sale, v.rules, v.secret)),
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

    /// Reads something.
    fn look<V: Verb + Sync>(
        &self,
        verb: V,
        question: fn(&Reader<'_>, &V) -> fault::Result<V::Answer>,
    ) -> Answer<'static, Reply> {
        self.read(move |reader| question(reader, &verb).map(V::reply))
    }

    /// Reads a queue, after ending its expired leases.
    fn look_into<V: Verb + Sync>(
        &self,
        queue: QueueName,
        verb: V,
        question: fn(&Reader<'_>, &V) -> fault::Result<V::Answer>,
    ) -> Answer<'static, Reply> {
        self.read_queue(queue, move |reader| question(reader, &verb).map(V::reply))
    }
}

/// Size of an answer that is kept for replay, in bytes.
fn weight(tasks: &[Task]) -> usize {
    tasks.iter().map(|task| 100 + task.payload.bytes().len()).sum()
}
