use rushgate_core::{Announce, Page, QueueName, Timestamp, WorkerId, WorkerInfo, WorkerMode};

use super::Model;

impl Model {
    /// See [`Verbs::announce`](rushgate_core::Verbs::announce).
    pub fn announce(&mut self, now: Timestamp, queue: QueueName, worker: Announce) -> WorkerMode {
        let workers = &mut self.queues.workers;
        workers.retain(|_, worker| worker.lease_until > now);
        let Announce { id, name, version, concurrency, running, lease } = worker;
        let key = (queue, id);
        let (since, mode) =
            workers.get(&key).map_or((now, WorkerMode::Work), |known| (known.since, known.mode));
        let Some(lease) = lease else {
            workers.remove(&key);
            return mode;
        };
        let listed = workers.keys().filter(|(queue, _)| *queue == key.0).count();
        if workers.contains_key(&key) || (listed as u64) < Announce::LISTED_MAX {
            let (id, lease_until) = (key.1.clone(), now + lease.get());
            let worker =
                WorkerInfo { id, name, version, concurrency, running, since, seen: now, lease_until, mode };
            workers.insert(key, worker);
        }
        mode
    }

    /// See [`Verbs::workers`](rushgate_core::Verbs::workers).
    pub fn workers(&self, now: Timestamp, queue: &QueueName, page: &Page) -> Vec<WorkerInfo> {
        let of_queue = self.queues.workers.iter().filter(|((of, id), worker)| {
            of == queue && id.as_str() > page.after.as_str() && worker.lease_until > now
        });
        of_queue.take(page.limit as usize).map(|(_, worker)| worker.clone()).collect()
    }

    /// See [`Verbs::set_worker`](rushgate_core::Verbs::set_worker).
    pub fn set_worker(&mut self, now: Timestamp, queue: QueueName, id: WorkerId, mode: WorkerMode) -> bool {
        let worker = self.queues.workers.get_mut(&(queue, id)).filter(|worker| worker.lease_until > now);
        worker.map(|worker| worker.mode = mode).is_some()
    }
}
