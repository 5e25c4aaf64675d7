//! Which call carries out which request, and which function reads its answer.

use std::sync::Arc;

use rushgate_core::verb::OfSale;
use rushgate_core::{
    Answer, Notification, Reply, Request, Result, SaleId, Store, StoreCalls, StoreInfo, Topic, Verb, Warning,
};

use crate::check::Checked;
use crate::command::Call;
use crate::reply::{Reply as Raw, read_code, read_codes, read_only_code};
use crate::sale::{self, Home};
use crate::store::RedisStore;
use crate::{lock, outbox, queue, room, schedule, worker};

impl Store for RedisStore {
    fn step(&self, request: Request) -> Answer<'static, Reply> {
        let inner = Arc::clone(&self.inner);
        match request {
            // Locks
            Request::Acquire(v) => {
                self.send(lock::acquire(&v.request, inner.inbox.id), lock::read_acquired, Reply::Acquire)
            }
            Request::Release(v) => self.call(v, |v| lock::release(&v.name, v.token), read_code),
            Request::ReleaseWith(v) => self.release_with(v.op, v.release),
            Request::Extend(v) => {
                let extended = inner.extend(&v.leases);
                Box::pin(async move { extended.await.map(Reply::Extend) })
            }
            Request::Held(v) => self.call(v, |v| lock::held(&v.name, v.token), lock::read_held),
            Request::Leave(v) => self.call(v, lock::leave, read_code),
            Request::ReleaseAll(v) => self.run(inner.release_all(v.client), Reply::ReleaseAll),
            Request::ForceRelease(v) => {
                self.call(v, lock::force_release, |raw| lock::read_holder(raw.list()?))
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
            Request::Top(v) => self.call(v, queue::top, queue::read_tasks),
            Request::Pop(v) => self.call(v, queue::pop, queue::read_tasks),
            Request::Claim(v) => {
                let call = queue::claim(&v);
                let read = move |raw| {
                    let (claimed, wakes) = queue::read_claimed(raw)?;
                    inner.inbox.listeners.saw(&v.queue, wakes);
                    Ok(claimed)
                };
                self.send(call, read, Reply::Claim)
            }
            Request::Complete(v) => self.call(v, queue::complete, read_codes),
            Request::Retry(v) => self.call(v, queue::retry, queue::read_retried),
            Request::ReleaseTasks(v) => self.call(v, queue::release_tasks, read_codes),
            Request::ExtendTasks(v) => self.call(v, queue::extend, read_codes),
            Request::Dequeue(v) => self.call(v, queue::dequeue, read_only_code),
            Request::Cancel(v) => self.call(v, queue::cancel, read_only_code),
            Request::Reschedule(v) => self.call(v, queue::reschedule, queue::read_rescheduled),
            Request::UniqueUntil(v) => self.call(v, queue::unique_until, queue::read_unique_until),
            Request::ClearUnique(v) => self.call(v, queue::clear_unique, queue::read_unique_cleared),
            Request::CloseBatch(v) => self.call(v, queue::close_batch, queue::read_closed),
            Request::Waits(v) => self.call(v, queue::waits, queue::read_waits),
            Request::Waited(v) => self.call(v, queue::waited, queue::read_waited),
            Request::Dependents(v) => self.call(v, queue::dependents, queue::read_dependents),
            Request::Task(v) => self.call(v, queue::task, queue::read_task),
            Request::Tasks(v) => match queue::tasks(&v) {
                Ok(call) => self.send(call, move |raw| queue::read_task_page(&v.listing, raw), Reply::Tasks),
                Err(error) => Box::pin(async { Err(error) }),
            },
            Request::Stats(v) => self.call(v, queue::stats, queue::read_stats),
            Request::Queues(v) => self.run(inner.queues(v.page), Reply::Queues),
            Request::Pause(v) => {
                self.put(&v.queue, queue::set_paused(&v.queue, true), |_| Ok(()), Reply::Pause)
            }
            Request::Resume(v) => {
                self.put(&v.queue, queue::set_paused(&v.queue, false), |_| Ok(()), Reply::Resume)
            }
            Request::Limit(v) => self.put(&v.queue, queue::limit(&v), |_| Ok(()), Reply::Limit),
            Request::TaskEvents(v) => self.call(v, queue::events, queue::read_events),
            Request::Dead(v) => self.run(inner.dead(v.queue, v.page), Reply::Dead),
            Request::DeadLetter(v) => self.call(v, queue::dead_letter, queue::read_dead_letter),
            Request::RequeueDead(v) => self.call(v, queue::requeue_dead, queue::read_dead_requeued),
            Request::DeleteDead(v) => self.call(v, queue::delete_dead, queue::read_dead_deleted),
            // Schedules
            Request::Schedule(v) => {
                self.put(&v.queue, schedule::schedule(&v), schedule::read_scheduled, Reply::Schedule)
            }
            Request::Unschedule(v) => self.call(v, schedule::unschedule, schedule::read_unscheduled),
            Request::Schedules(v) => self.call(v, schedule::schedules, schedule::read_schedules),
            Request::DueSchedules(v) => self.call(v, schedule::due_schedules, schedule::read_due_schedules),
            Request::Fire(v) => self.call(v, schedule::fire, schedule::read_fired),
            // Workers
            Request::Announce(v) if v.worker.lease.is_none() => self.call(v, worker::announce, read_code),
            Request::Announce(v) => self.put(&v.queue, worker::announce(&v), read_code, Reply::Announce),
            Request::Workers(v) => self.call(v, |v| worker::workers(&v.queue, &v.page), worker::read_workers),
            Request::SetWorker(v) => self.call(v, worker::set_worker, worker::read_set),
            // Outboxes
            Request::Relay(v) if v.relay.tasks.is_empty() => {
                self.call(v, outbox::relay, outbox::read_relayed)
            }
            Request::Relay(v) => self.put(&v.queue, outbox::relay(&v), outbox::read_relayed, Reply::Relay),
            // Sales
            Request::Create(v) => self.run(inner.create(v.sale), Reply::Create),
            Request::Open(v) => self.on_sale(v, sale::open, |_, _, raw| read_code(raw)),
            Request::End(v) => self.on_sale(v, sale::end, |_, _, raw| read_code(raw)),
            Request::Reserve(v) => self.on_sale(v, sale::reserve, sale::read_reserved),
            Request::Confirm(v) => {
                self.on_sale(v, sale::confirm, |home, v, raw| sale::read_decision(home, v.id, raw))
            }
            Request::CancelHold(v) => {
                self.on_sale(v, sale::cancel_hold, |home, v, raw| sale::read_decision(home, v.id, raw))
            }
            Request::Expire(v) => self.on_sale(v, sale::expire, |_, _, raw| raw.small()),
            Request::Settle(v) => self.on_sale(v, sale::settle, |_, _, raw| sale::read_settled(raw)),
            Request::FollowOrders(v) => self.on_sale(v, sale::follow_orders, sale::read_followed),
            Request::FailedOrders(v) => {
                self.on_sale(v, sale::failed_orders, |_, _, raw| sale::read_failed(raw))
            }
            Request::CountAttempts(v) => self.call(v, sale::count_attempts, sale::read_attempts),
            Request::RetryOrders(v) => self.on_sale(v, sale::retry_orders, |_, _, raw| raw.small()),
            Request::HaltSale(v) => self.on_sale(v, sale::halt, |_, _, raw| sale::read_paused(raw)),
            Request::BeginRebuild(v) => {
                self.on_sale(v, sale::begin_rebuild, |_, _, raw| sale::read_begun(raw))
            }
            Request::Load(v) => self.on_sale(v, sale::load, |_, _, raw| read_code(raw)),
            Request::Switch(v) => self.on_sale(v, sale::switch, |_, _, raw| read_code(raw)),
            Request::Restore(v) => self.on_sale(v, sale::restore, sale::read_restored),
            Request::Stock(v) => self.on_sale(v, sale::stock, |_, v, raw| sale::read_stock(&v.sku, raw)),
            Request::Sale(v) => self.on_sale(v, sale::show, sale::read_state),
            Request::Sales(v) => self.run(inner.sales(v.page), Reply::Sales),
            Request::Reservation(v) => self.on_sale(v, sale::reservation, sale::read_reservation),
            Request::Events(v) => {
                self.on_sale(v, sale::events, |home, v, raw| sale::read_events(home, v.page.after, raw))
            }
            Request::Snapshot(v) => self.run(inner.snapshot(v.sale), Reply::Snapshot),
            // Waiting rooms
            Request::SetRoom(v) => self.on_room(v, room::set, room::read_set),
            Request::Room(v) => self.on_room(v, room::show, room::read_shown),
            Request::Join(v) => self.on_room(v, room::join, room::read_joined),
            Request::Enter(v) => self.on_room(v, room::enter, room::read_entered),
            Request::CloseEntry(v) => self.on_room(v, room::close_entry, room::read_of_draw),
            Request::Draw(v) => self.on_room(v, room::draw, room::read_drawn),
            Request::CloseRoom(v) => self.on_room(v, room::close, room::read_closed),
        }
    }

    fn listen(&self, topic: Topic) -> Answer<'static, Option<Notification>> {
        Arc::clone(&self.inner).listen(topic)
    }

    fn info(&self) -> StoreInfo {
        let Checked { server, durability, .. } = self.inner.dispatcher.servers.checked();
        StoreInfo { url: self.inner.url.clone(), server, durability }
    }

    fn warnings(&self) -> Vec<Warning> {
        self.inner.dispatcher.servers.warnings()
    }

    fn incarnation(&self) -> String {
        self.inner.dispatcher.servers.checked().run
    }

    fn calls(&self) -> StoreCalls {
        self.inner.dispatcher.in_flight.counted()
    }

    fn close(&self) -> Answer<'_, ()> {
        self.inner.inbox.listeners.close();
        self.inner.dispatcher.in_flight.close();
        let ended = self.inner.dispatcher.runtime.ended();
        Box::pin(async move {
            ended.await;
            Ok(())
        })
    }
}

impl RedisStore {
    /// Sends a request that one call carries out.
    fn call<V: Verb>(
        &self,
        verb: V,
        build: fn(&V) -> Call,
        read: fn(Raw) -> Result<V::Answer>,
    ) -> Answer<'static, Reply> {
        self.send(build(&verb), read, V::reply)
    }

    /// Sends a request of a waiting room.
    fn on_room<V: OfSale>(
        &self,
        verb: V,
        build: fn(&V) -> Call,
        read: fn(&SaleId, Raw) -> Result<V::Answer>,
    ) -> Answer<'static, Reply> {
        self.send(build(&verb), move |raw| read(verb.sale(), raw), V::reply)
    }

    /// Sends a request of a sale: immediately if its specification is cached, otherwise after reading it.
    fn on_sale<V: OfSale + Sync>(
        &self,
        verb: V,
        build: fn(&Home, &V) -> Result<Call>,
        read: fn(&Home, &V, Raw) -> Result<V::Answer>,
    ) -> Answer<'static, Reply> {
        let (inner, id) = (Arc::clone(&self.inner), verb.sale().clone());
        let Some(home) = inner.known_home(&id) else {
            return self.run(inner.step_of_sale(id, verb, build, read), V::reply);
        };
        let answer = build(&home, &verb).map(|call| inner.dispatcher.send(call));
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
