use rushgate_core::{Reply, Request, Result, Timestamp};

use super::Model;

impl Model {
    /// Carries out a request whose limits were checked.
    pub(super) fn carry_out(&mut self, now: Timestamp, request: Request) -> Result<Reply> {
        match request {
            Request::Acquire(v) => self.acquire(now, v.request).map(Reply::Acquire),
            Request::Release(v) => self.release(now, &v.name, v.token).map(Reply::Release),
            Request::ReleaseWith(v) => self.release_with(now, v.op, v.release).map(Reply::ReleaseWith),
            Request::Extend(v) => self.extend(now, v.leases).map(Reply::Extend),
            Request::Held(v) => self.held(now, &v.name, v.token).map(Reply::Held),
            Request::Leave(v) => self.leave(now, &v.name, v.token).map(Reply::Leave),
            Request::ReleaseAll(v) => self.release_all(now, v.client).map(Reply::ReleaseAll),
            Request::ForceRelease(v) => self.force_release(now, &v.name).map(Reply::ForceRelease),
            Request::Show(v) => self.show(now, &v.name).map(Reply::Show),
            Request::List(v) => self.list(now, &v.page).map(Reply::List),
            Request::Enqueue(v) => self.enqueue(now, v.op, &v.queue, v.tasks).map(Reply::Enqueue),
            Request::Top(v) => self.top(now, &v.queue, v.n).map(Reply::Top),
            Request::Pop(v) => self.pop(now, v.op, &v.queue, v.n).map(Reply::Pop),
            Request::Claim(v) => self.claim(now, v.op, &v.queue, v.claim).map(Reply::Claim),
            Request::Complete(v) => self.complete(now, v.op, &v.queue, v.done).map(Reply::Complete),
            Request::Retry(v) => self.retry(now, v.op, &v.queue, v.failed).map(Reply::Retry),
            Request::ReleaseTasks(v) => {
                self.release_tasks(now, v.op, &v.queue, v.back).map(Reply::ReleaseTasks)
            }
            Request::ExtendTasks(v) => {
                self.extend_tasks(now, &v.queue, v.beats, v.lease).map(Reply::ExtendTasks)
            }
            Request::Dequeue(v) => self.dequeue(now, v.op, &v.queue, v.ticket).map(Reply::Dequeue),
            Request::Cancel(v) => self.cancel(now, v.op, &v.queue, &v.id).map(Reply::Cancel),
            Request::Reschedule(v) => {
                self.reschedule(now, v.op, &v.queue, &v.id, v.due).map(Reply::Reschedule)
            }
            Request::UniqueUntil(v) => self.unique_until(now, &v.queue, &v.id).map(Reply::UniqueUntil),
            Request::ClearUnique(v) => self.clear_unique(now, v.op, &v.queue, &v.id).map(Reply::ClearUnique),
            Request::CloseBatch(v) => self.close_batch(now, v.op, &v.queue, &v.id).map(Reply::CloseBatch),
            Request::Waits(v) => self.waits(now, &v.queue, &v.id).map(Reply::Waits),
            Request::Waited(v) => self.waited(now, &v.queue, &v.id, &v.page).map(Reply::Waited),
            Request::Dependents(v) => self.dependents(now, &v.queue, &v.id, v.n).map(Reply::Dependents),
            Request::Task(v) => self.task(now, &v.queue, &v.id).map(Reply::Task),
            Request::Tasks(v) => self.tasks(now, &v.queue, &v.listing).map(Reply::Tasks),
            Request::Stats(v) => self.stats(now, &v.queue).map(Reply::Stats),
            Request::Queues(v) => self.queues(now, &v.page).map(Reply::Queues),
            Request::Pause(v) => self.set_paused(now, &v.queue, true).map(Reply::Pause),
            Request::Resume(v) => self.set_paused(now, &v.queue, false).map(Reply::Resume),
            Request::Limit(v) => self.limit(now, &v.queue, v.limits).map(Reply::Limit),
            Request::TaskEvents(v) => self.task_events(now, &v.queue, &v.page).map(Reply::TaskEvents),
            Request::Dead(v) => self.dead(now, &v.queue, &v.page).map(Reply::Dead),
            Request::DeadLetter(v) => self.dead_letter(now, &v.queue, &v.id).map(Reply::DeadLetter),
            Request::RequeueDead(v) => {
                self.requeue_dead(now, v.op, &v.queue, &v.which).map(Reply::RequeueDead)
            }
            Request::DeleteDead(v) => self.delete_dead(now, v.op, &v.queue, &v.which).map(Reply::DeleteDead),
            Request::Schedule(v) => self.schedule(now, &v.queue, v.new).map(Reply::Schedule),
            Request::Unschedule(v) => self.unschedule(now, &v.queue, &v.id).map(Reply::Unschedule),
            Request::Schedules(v) => self.schedules(now, &v.queue, &v.page).map(Reply::Schedules),
            Request::DueSchedules(v) => self.due_schedules(now, &v.queue, v.n).map(Reply::DueSchedules),
            Request::Fire(v) => self.fire(now, &v.queue, v.fire).map(Reply::Fire),
            Request::Announce(v) => Ok(Reply::Announce(self.announce(now, v.queue, v.worker))),
            Request::Workers(v) => Ok(Reply::Workers(self.workers(now, &v.queue, &v.page))),
            Request::SetWorker(v) => Ok(Reply::SetWorker(self.set_worker(now, v.queue, v.id, v.mode))),
            Request::Relay(v) => self.relay(now, &v.queue, v.relay).map(Reply::Relay),
            Request::Create(v) => self.create(v.sale).map(Reply::Create),
            Request::Open(v) => self.open(now, &v.sale).map(Reply::Open),
            Request::End(v) => self.end(now, &v.sale).map(Reply::End),
            Request::Reserve(v) => self.reserve(now, v.request).map(Reply::Reserve),
            Request::Confirm(v) => self.confirm(now, &v.sale, v.id).map(Reply::Confirm),
            Request::CancelHold(v) => self.cancel_hold(now, &v.sale, v.id).map(Reply::CancelHold),
            Request::Expire(v) => self.expire(now, &v.sale, v.n).map(Reply::Expire),
            Request::Settle(v) => self.settle(now, &v.sale, v.generation, v.verdicts).map(Reply::Settle),
            Request::FollowOrders(v) => self.follow_orders(now, v.follow).map(Reply::FollowOrders),
            Request::FailedOrders(v) => self.failed_orders(&v.sale, &v.page).map(Reply::FailedOrders),
            Request::CountAttempts(v) => Ok(Reply::CountAttempts(self.count_attempts(v))),
            Request::RetryOrders(v) => self.retry_orders(now, &v.sale).map(Reply::RetryOrders),
            Request::HaltSale(v) => self.halt_sale(now, &v.sale, v.generation, v.reason).map(Reply::HaltSale),
            Request::BeginRebuild(v) => self.begin_rebuild(now, v.by, &v.sale).map(Reply::BeginRebuild),
            Request::Load(v) => self.load(now, v.by, &v.sale, v.generation, v.part).map(Reply::Load),
            Request::Switch(v) => self.switch(now, v.by, &v.sale, &v.switch).map(Reply::Switch),
            Request::Restore(v) => self.restore(now, v.receipt).map(Reply::Restore),
            Request::Stock(v) => self.stock(now, v.op, &v.sale, &v.sku, v.change).map(Reply::Stock),
            Request::Sale(v) => self.sale(now, &v.sale).map(Reply::Sale),
            Request::Sales(v) => self.sales(now, &v.page).map(Reply::Sales),
            Request::Reservation(v) => self.reservation(&v.sale, v.id).map(Reply::Reservation),
            Request::Events(v) => self.events(&v.sale, &v.page).map(Reply::Events),
            Request::Snapshot(v) => self.snapshot(&v.sale).map(Reply::Snapshot),
            Request::SetRoom(v) => self.set_room(now, &v.sale, v.rules, v.secret).map(Reply::SetRoom),
            Request::Room(v) => self.room(now, &v.sale).map(Reply::Room),
            Request::Join(v) => self.join(now, &v.sale, &v.buyer).map(Reply::Join),
            Request::Enter(v) => self.enter(now, &v.enter).map(Reply::Enter),
            Request::CloseEntry(v) => self.close_entry(now, &v.sale).map(Reply::CloseEntry),
            Request::Draw(v) => self.draw(now, &v.sale, v.beacon).map(Reply::Draw),
            Request::CloseRoom(v) => self.close_room(&v.sale).map(Reply::CloseRoom),
        }
    }
}
