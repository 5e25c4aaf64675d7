//! Which call carries out which request, and which function reads its answer.

use std::sync::Arc;

use rushgate_core::{Answer, Reply, Request, Result, SaleId, Verb};

use crate::command::Call;
use crate::reply::Reply as Raw;
use crate::sale::{self, Home};
use crate::store::RedisStore;
use crate::{lock, outbox, queue, room, schedule, worker};

impl RedisStore {
    pub(crate) fn carry(&self, request: Request) -> Answer<'static, Reply> {
        let inner = Arc::clone(&self.inner);
        match request {
            // Locks
            Request::Acquire(v) => {
                self.send(lock::acquire(&v.request, self.inner.inbox.id), lock::read_acquired, Reply::Acquire)
            }
            Request::Release(v) => {
                self.send(lock::release(&v.name, v.token), lock::read_released, Reply::Release)
            }
            Request::ReleaseWith(v) => self.release_with(v.op, v.release),
            Request::Extend(v) => {
                let extended = inner.extend(&v.leases);
                Box::pin(async move { extended.await.map(Reply::Extend) })
            }
            Request::Held(v) => self.send(lock::held(&v.name, v.token), lock::read_held, Reply::Held),
            Request::Leave(v) => self.send(lock::leave(&v.name, v.token), lock::read_left, Reply::Leave),
            Request::ReleaseAll(v) => self.run(inner.release_all(v.client), Reply::ReleaseAll),
            Request::ForceRelease(v) => {
                let read = |raw: Raw| lock::read_holder(raw.list()?);
                self.send(lock::force_release(&v.name), read, Reply::ForceRelease)
            }
            Request::Show(v) => {
                self.send(lock::show(&v.name), |raw| lock::read_state(v.name, raw), Reply::Show)
            }
            Request::List(v) => self.run(inner.list(v.page), Reply::List),
            // Queues
            Request::Enqueue(v) => {
                let call = queue::enqueue(v.op, &v.queue, &v.tasks);
                self.put(&v.queue, call, queue::read_enqueued, Reply::Enqueue)
            }
            Request::Top(v) => self.send(queue::top(&v.queue, v.n), queue::read_tasks, Reply::Top),
            Request::Pop(v) => self.send(queue::pop(v.op, &v.queue, v.n), queue::read_tasks, Reply::Pop),
            Request::Claim(v) => {
                let call = queue::claim(v.op, &v.queue, &v.claim);
                let of = v.queue.clone();
                let read = move |raw| {
                    let (claimed, wakes) = queue::read_claimed(raw)?;
                    inner.inbox.listeners.saw(&of, wakes);
                    Ok(claimed)
                };
                self.send(call, read, Reply::Claim)
            }
            Request::Complete(v) => {
                let call = queue::complete(v.op, &v.queue, &v.done);
                self.send(call, queue::read_completed, Reply::Complete)
            }
            Request::Retry(v) => {
                let call = queue::retry(v.op, &v.queue, &v.failed);
                self.send(call, queue::read_retried, Reply::Retry)
            }
            Request::ReleaseTasks(v) => {
                let call = queue::release_tasks(v.op, &v.queue, &v.back);
                self.send(call, queue::read_tasks_released, Reply::ReleaseTasks)
            }
            Request::ExtendTasks(v) => {
                let call = queue::extend(&v.queue, &v.beats, v.lease);
                self.send(call, queue::read_extended, Reply::ExtendTasks)
            }
            Request::Dequeue(v) => {
                let call = queue::dequeue(v.op, &v.queue, &v.ticket);
                self.send(call, queue::read_dequeued, Reply::Dequeue)
            }
            Request::Cancel(v) => {
                let call = queue::cancel(v.op, &v.queue, &v.id);
                self.send(call, queue::read_cancelled, Reply::Cancel)
            }
            Request::Reschedule(v) => {
                let call = queue::reschedule(v.op, &v.queue, &v.id, v.due);
                self.send(call, queue::read_rescheduled, Reply::Reschedule)
            }
            Request::UniqueUntil(v) => {
                let call = queue::unique_until(&v.queue, &v.id);
                self.send(call, queue::read_unique_until, Reply::UniqueUntil)
            }
            Request::ClearUnique(v) => self.send(
                queue::clear_unique(v.op, &v.queue, &v.id),
                queue::read_unique_cleared,
                Reply::ClearUnique,
            ),
            Request::CloseBatch(v) => {
                let call = queue::close_batch(v.op, &v.queue, &v.id);
                self.send(call, queue::read_closed, Reply::CloseBatch)
            }
            Request::Waits(v) => self.send(queue::waits(&v.queue, &v.id), queue::read_waits, Reply::Waits),
            Request::Waited(v) => {
                let call = queue::waited(&v.queue, &v.id, &v.page);
                self.send(call, queue::read_waited, Reply::Waited)
            }
            Request::Dependents(v) => {
                let call = queue::dependents(&v.queue, &v.id, v.n);
                self.send(call, queue::read_dependents, Reply::Dependents)
            }
            Request::Task(v) => self.send(queue::task(&v.queue, &v.id), queue::read_task, Reply::Task),
            Request::Tasks(v) => match queue::tasks(&v.queue, &v.listing) {
                Ok(call) => self.send(call, move |raw| queue::read_task_page(&v.listing, raw), Reply::Tasks),
                Err(error) => Box::pin(async { Err(error) }),
            },
            Request::Stats(v) => self.send(queue::stats(&v.queue), queue::read_stats, Reply::Stats),
            Request::Queues(v) => self.run(inner.queues(v.page), Reply::Queues),
            Request::Pause(v) => {
                self.put(&v.queue, queue::set_paused(&v.queue, true), |_| Ok(()), Reply::Pause)
            }
            Request::Resume(v) => {
                self.put(&v.queue, queue::set_paused(&v.queue, false), |_| Ok(()), Reply::Resume)
            }
            Request::Limit(v) => {
                self.put(&v.queue, queue::limit(&v.queue, v.limits), |_| Ok(()), Reply::Limit)
            }
            Request::TaskEvents(v) => {
                self.send(queue::events(&v.queue, &v.page), queue::read_events, Reply::TaskEvents)
            }
            Request::Dead(v) => self.run(inner.dead(v.queue, v.page), Reply::Dead),
            Request::DeadLetter(v) => {
                self.send(queue::dead_letter(&v.queue, &v.id), queue::read_dead_letter, Reply::DeadLetter)
            }
            Request::RequeueDead(v) => {
                let call = queue::requeue_dead(v.op, &v.queue, &v.which);
                self.send(call, queue::read_dead_requeued, Reply::RequeueDead)
            }
            Request::DeleteDead(v) => {
                let call = queue::delete_dead(v.op, &v.queue, &v.which);
                self.send(call, queue::read_dead_deleted, Reply::DeleteDead)
            }
            // Schedules
            Request::Schedule(v) => {
                let call = schedule::schedule(&v.queue, &v.new);
                self.put(&v.queue, call, schedule::read_scheduled, Reply::Schedule)
            }
            Request::Unschedule(v) => {
                let call = schedule::unschedule(&v.queue, &v.id);
                self.send(call, schedule::read_unscheduled, Reply::Unschedule)
            }
            Request::Schedules(v) => {
                let call = schedule::schedules(&v.queue, &v.page);
                self.send(call, schedule::read_schedules, Reply::Schedules)
            }
            Request::DueSchedules(v) => {
                let call = schedule::due_schedules(&v.queue, v.n);
                self.send(call, schedule::read_due_schedules, Reply::DueSchedules)
            }
            Request::Fire(v) => {
                let call = schedule::fire(&v.queue, &v.fire);
                self.send(call, schedule::read_fired, Reply::Fire)
            }
            // Workers
            Request::Announce(v) => {
                let call = worker::announce(&v.queue, &v.worker);
                match v.worker.lease {
                    Some(_) => self.put(&v.queue, call, worker::read_mode, Reply::Announce),
                    None => self.send(call, worker::read_mode, Reply::Announce),
                }
            }
            Request::Workers(v) => {
                self.send(worker::workers(&v.queue, &v.page), worker::read_workers, Reply::Workers)
            }
            Request::SetWorker(v) => {
                let call = worker::set_worker(&v.queue, &v.id, v.mode);
                self.send(call, worker::read_set, Reply::SetWorker)
            }
            // Outboxes
            Request::Relay(v) => {
                let call = outbox::relay(&v.queue, &v.relay);
                match v.relay.tasks.is_empty() {
                    true => self.send(call, outbox::read_relayed, Reply::Relay),
                    false => self.put(&v.queue, call, outbox::read_relayed, Reply::Relay),
                }
            }
            // Sales
            Request::Create(v) => self.run(inner.create(v.sale), Reply::Create),
            Request::Open(v) => self.on_sale(
                v,
                |v| &v.sale,
                |home, _| Ok(sale::open(home)),
                |_, _, raw| sale::read_status(raw),
            ),
            Request::End(v) => self.on_sale(
                v,
                |v| &v.sale,
                |home, _| Ok(sale::end(home)),
                |_, _, raw| sale::read_status(raw),
            ),
            Request::Reserve(v) => self.on_sale(
                v,
                |v| &v.request.sale,
                |home, v| Ok(sale::reserve(home, &v.request)),
                |home, v, raw| sale::read_reserved(home, &v.request, raw),
            ),
            Request::Confirm(v) => self.on_sale(
                v,
                |v| &v.sale,
                |home, v| Ok(sale::confirm(home, v.id)),
                |home, v, raw| sale::read_decision(home, v.id, raw),
            ),
            Request::CancelHold(v) => self.on_sale(
                v,
                |v| &v.sale,
                |home, v| Ok(sale::cancel_hold(home, v.id)),
                |home, v, raw| sale::read_decision(home, v.id, raw),
            ),
            Request::Expire(v) => self.on_sale(
                v,
                |v| &v.sale,
                |home, v| Ok(sale::expire(home, v.n)),
                |_, _, raw| sale::read_expired(raw),
            ),
            Request::Settle(v) => self.on_sale(
                v,
                |v| &v.sale,
                |home, v| Ok(sale::settle(home, v.generation, &v.verdicts)),
                |_, _, raw| sale::read_settled(raw),
            ),
            Request::FollowOrders(v) => self.on_sale(
                v,
                |v| &v.follow.sale,
                |home, v| Ok(sale::follow_orders(home, &v.follow)),
                |home, _, raw| sale::read_followed(home, raw),
            ),
            Request::FailedOrders(v) => self.on_sale(
                v,
                |v| &v.sale,
                |home, v| Ok(sale::failed_orders(home, &v.page)),
                |_, _, raw| sale::read_failed(raw),
            ),
            Request::CountAttempts(v) => {
                self.send(sale::count_attempts(&v), sale::read_attempts, Reply::CountAttempts)
            }
            Request::RetryOrders(v) => self.on_sale(
                v,
                |v| &v.sale,
                |home, _| Ok(sale::retry_orders(home)),
                |_, _, raw| sale::read_retried(raw),
            ),
            Request::HaltSale(v) => self.on_sale(
                v,
                |v| &v.sale,
                |home, v| Ok(sale::halt(home, v.generation, v.reason)),
                |_, _, raw| sale::read_paused(raw),
            ),
            Request::BeginRebuild(v) => self.on_sale(
                v,
                |v| &v.sale,
                |home, v| Ok(sale::begin_rebuild(home, v.by)),
                |_, _, raw| sale::read_begun(raw),
            ),
            Request::Load(v) => self.on_sale(
                v,
                |v| &v.sale,
                |home, v| sale::load(home, v.by, v.generation, &v.part),
                |_, _, raw| sale::read_rebuilt(raw),
            ),
            Request::Switch(v) => self.on_sale(
                v,
                |v| &v.sale,
                |home, v| sale::switch(home, v.by, &v.switch),
                |_, _, raw| sale::read_rebuilt(raw),
            ),
            Request::Restore(v) => self.on_sale(
                v,
                |v| &v.receipt.sale,
                |home, v| sale::restore(home, &v.receipt),
                |home, v, raw| sale::read_restored(home, v.receipt.id, raw),
            ),
            Request::Stock(v) => self.on_sale(
                v,
                |v| &v.sale,
                |home, v| sale::stock(home, v.op, &v.sku, v.change),
                |_, v, raw| sale::read_stock(&v.sku, raw),
            ),
            Request::Sale(v) => self.on_sale(
                v,
                |v| &v.sale,
                |home, _| Ok(sale::show(home)),
                |home, _, raw| sale::read_state(home, raw),
            ),
            Request::Sales(v) => self.run(inner.sales(v.page), Reply::Sales),
            Request::Reservation(v) => self.on_sale(
                v,
                |v| &v.sale,
                |home, v| Ok(sale::reservation(home, v.id)),
                |home, v, raw| sale::read_reservation(home, v.id, raw),
            ),
            Request::Events(v) => self.on_sale(
                v,
                |v| &v.sale,
                |home, v| Ok(sale::events(home, &v.page)),
                |home, v, raw| sale::read_events(home, v.page.after, raw),
            ),
            Request::Books(v) => self.run(inner.books(v.sale), Reply::Books),
            // Waiting rooms
            Request::SetRoom(v) => {
                let call = room::set(&v.sale, &v.rules, v.secret);
                self.send(call, move |raw| room::read_set(&v.sale, raw), Reply::SetRoom)
            }
            Request::Room(v) => {
                self.send(room::show(&v.sale), move |raw| room::read_shown(&v.sale, raw), Reply::Room)
            }
            Request::Join(v) => {
                let call = room::join(&v.sale, &v.buyer);
                self.send(call, move |raw| room::read_joined(&v.sale, raw), Reply::Join)
            }
            Request::Enter(v) => {
                let call = room::enter(&v.enter);
                self.send(call, move |raw| room::read_entered(&v.enter.sale, raw), Reply::Enter)
            }
            Request::CloseEntry(v) => {
                let call = room::close_entry(&v.sale);
                self.send(call, move |raw| room::read_of_draw(&v.sale, raw), Reply::CloseEntry)
            }
            Request::Draw(v) => {
                let call = room::draw(&v.sale, &v.beacon);
                self.send(call, move |raw| room::read_drawn(&v.sale, raw), Reply::Draw)
            }
            Request::CloseRoom(v) => {
                let call = room::close(&v.sale);
                self.send(call, move |raw| room::read_closed(&v.sale, raw), Reply::CloseRoom)
            }
        }
    }

    /// Sends a request of a sale: immediately if its specification is cached, otherwise after reading it.
    fn on_sale<V: Verb + Sync>(
        &self,
        verb: V,
        of: fn(&V) -> &SaleId,
        build: fn(&Home, &V) -> Result<Call>,
        read: fn(&Home, &V, Raw) -> Result<V::Answer>,
    ) -> Answer<'static, Reply> {
        let (inner, id) = (Arc::clone(&self.inner), of(&verb).clone());
        let Some(home) = inner.known_home(&id) else {
            return self.run(inner.step_of_sale(id, verb, build, read), V::reply);
        };
        let answer = build(&home, &verb).map(|call| inner.driver.call(call));
        Box::pin(async move {
            let raw = answer?.await?;
            if !raw.is("MISSING") {
                return read(&home, &verb, raw).map(V::reply);
            }
            inner.forget_home(&id);
            inner.step_of_sale(id, verb, build, read).await.map(V::reply)
        })
    }
}
