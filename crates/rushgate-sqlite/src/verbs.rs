//! Which function carries out which request.

use rushgate_core::{Answer, Claimed, QueueName, Reply, Request, Task, Verb};

use crate::queue::{claim, dead, enqueue, event, finish, look, outbox, schedule, unique, wait, worker};
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
            Request::Enqueue(v) => self.change(v, |step, v| {
                step.once(v.op, Vec::len, |step| enqueue::enqueue(step, &v.queue, &v.tasks))
            }),
            Request::Top(v) => self.change(v, |step, v| claim::top(step, &v.queue, v.n)),
            Request::Pop(v) => self.change(v, |step, v| {
                step.once(v.op, |tasks: &Vec<Task>| weight(tasks), |step| claim::pop(step, &v.queue, v.n))
            }),
            Request::Claim(v) => self.change(v, |step, v| {
                step.once(
                    v.op,
                    |it: &Claimed| weight(&it.tasks),
                    |step| claim::claim(step, &v.queue, &v.claim),
                )
            }),
            Request::Complete(v) => self.change(v, |step, v| {
                step.once(v.op, Vec::len, |step| finish::complete(step, &v.queue, &v.done))
            }),
            Request::Retry(v) => self.change(v, |step, v| {
                step.once(v.op, Vec::len, |step| finish::retry(step, &v.queue, &v.failed))
            }),
            Request::ReleaseTasks(v) => self.change(v, |step, v| {
                step.once(v.op, Vec::len, |step| finish::release_tasks(step, &v.queue, &v.back))
            }),
            Request::ExtendTasks(v) => {
                self.change(v, |step, v| finish::extend_tasks(step, &v.queue, &v.beats, v.lease))
            }
            Request::Dequeue(v) => self.change(v, |step, v| {
                step.once(v.op, |_| 1, |step| finish::dequeue(step, &v.queue, &v.ticket))
            }),
            Request::Cancel(v) => {
                self.change(v, |step, v| step.once(v.op, |_| 1, |step| finish::cancel(step, &v.queue, &v.id)))
            }
            Request::Reschedule(v) => self.change(v, |step, v| {
                step.once(v.op, |_| 1, |step| enqueue::reschedule(step, &v.queue, &v.id, v.due))
            }),
            Request::UniqueUntil(v) => {
                self.look(v, |reader, v| unique::unique_until(reader, &v.queue, &v.id))
            }
            Request::ClearUnique(v) => self.change(v, |step, v| {
                step.once(v.op, |_| 1, |step| unique::clear_unique(step, &v.queue, &v.id))
            }),
            Request::CloseBatch(v) => {
                self.change(v, |step, v| step.once(v.op, |_| 1, |step| wait::close(step, &v.queue, &v.id)))
            }
            Request::Waits(v) => {
                self.look_into(v.queue.clone(), v, |reader, v| wait::waits(reader, &v.queue, &v.id))
            }
            Request::Waited(v) => {
                self.look_into(v.queue.clone(), v, |reader, v| wait::waited(reader, &v.queue, &v.id, &v.page))
            }
            Request::Dependents(v) => {
                self.look_into(v.queue.clone(), v, |reader, v| wait::dependents(reader, &v.queue, &v.id, v.n))
            }
            Request::Task(v) => {
                self.look_into(v.queue.clone(), v, |reader, v| look::task(reader, &v.queue, &v.id))
            }
            Request::Tasks(v) => {
                self.look_into(v.queue.clone(), v, |reader, v| look::tasks(reader, &v.queue, &v.listing))
            }
            Request::Stats(v) => {
                self.look_into(v.queue.clone(), v, |reader, v| look::stats(reader, &v.queue))
            }
            Request::Queues(v) => self.look(v, |reader, v| look::queues(reader, &v.page)),
            Request::Pause(v) => self.change(v, |step, v| queue::set_paused(step, &v.queue, true)),
            Request::Resume(v) => self.change(v, |step, v| queue::set_paused(step, &v.queue, false)),
            Request::Limit(v) => self.change(v, |step, v| queue::limit(step, &v.queue, v.limits)),
            Request::TaskEvents(v) => {
                self.look_into(v.queue.clone(), v, |reader, v| event::events(reader, &v.queue, &v.page))
            }
            Request::Dead(v) => {
                self.look_into(v.queue.clone(), v, |reader, v| dead::dead(reader, &v.queue, &v.page))
            }
            Request::DeadLetter(v) => {
                self.look_into(v.queue.clone(), v, |reader, v| dead::dead_letter(reader, &v.queue, &v.id))
            }
            Request::RequeueDead(v) => self.change(v, |step, v| {
                step.once(v.op, |_| 1, |step| dead::requeue_dead(step, &v.queue, &v.which))
            }),
            Request::DeleteDead(v) => self.change(v, |step, v| {
                step.once(v.op, |_| 1, |step| dead::delete_dead(step, &v.queue, &v.which))
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
            Request::Reserve(v) => self.change(v, |step, v| sale::reserve::reserve(step, &v.request)),
            Request::Confirm(v) => self.change(v, |step, v| sale::confirm(step, &v.sale, v.id)),
            Request::CancelHold(v) => self.change(v, |step, v| sale::cancel_hold(step, &v.sale, v.id)),
            Request::Expire(v) => self.change(v, |step, v| sale::expire(step, &v.sale, v.n)),
            Request::Settle(v) => {
                self.change(v, |step, v| sale::settle(step, &v.sale, v.generation, &v.verdicts))
            }
            Request::FollowOrders(v) => self.change(v, |step, v| orders::follow_orders(step, &v.follow)),
            Request::FailedOrders(v) => {
                self.look(v, |reader, v| orders::failed_orders(reader, &v.sale, &v.page))
            }
            Request::CountAttempts(v) => self.change(v, attempts::count_attempts),
            Request::RetryOrders(v) => self.change(v, |step, v| orders::retry_orders(step, &v.sale)),
            Request::HaltSale(v) => {
                self.change(v, |step, v| rebuild::halt(step, &v.sale, v.generation, v.reason))
            }
            Request::BeginRebuild(v) => self.change(v, |step, v| rebuild::begin_rebuild(step, v.by, &v.sale)),
            Request::Load(v) => {
                self.change(v, |step, v| rebuild::load_part(step, v.by, &v.sale, v.generation, &v.part))
            }
            Request::Switch(v) => self.change(v, |step, v| rebuild::switch(step, v.by, &v.sale, &v.switch)),
            Request::Restore(v) => self.change(v, |step, v| rebuild::restore(step, &v.receipt)),
            Request::Stock(v) => {
                self.change(v, |step, v| sale::stock::stock(step, v.op, &v.sale, &v.sku, v.change))
            }
            Request::Sale(v) => self.look(v, |reader, v| sale::sale(reader, &v.sale)),
            Request::Sales(v) => self.look(v, |reader, v| sale::sales(reader, &v.page)),
            Request::Reservation(v) => self.look(v, |reader, v| sale::reservation(reader, &v.sale, v.id)),
            Request::Events(v) => self.look(v, |reader, v| sale::events(reader, &v.sale, &v.page)),
            Request::Snapshot(v) => self.look(v, |reader, v| sale::snapshot::snapshot(reader, &v.sale)),
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
