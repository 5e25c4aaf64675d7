use rushgate_core::{Enqueued, QueueName, Relay, Relayed, Result, Timestamp};

use super::{Model, Planted, Queue};

impl Queue {
    fn relay(&mut self, now: Timestamp, relay: Relay) -> Relayed {
        let mut upto = self.relayed.get(&relay.outbox).copied().unwrap_or_default();
        for (number, task) in relay.tasks {
            if number <= upto && self.bug != Some(Planted::RelayedTwice) {
                continue;
            }
            let is_full = matches!(self.offer(now, task), Enqueued::Full { .. });
            if is_full && self.bug != Some(Planted::RelayPassesOverTheFull) {
                break;
            }
            upto = upto.max(number);
        }
        if upto > 0 {
            self.relayed.insert(relay.outbox, upto);
        }
        Relayed { upto }
    }
}

impl Model {
    /// See [`Verbs::relay`](rushgate_core::Verbs::relay).
    pub fn relay(&mut self, now: Timestamp, name: &QueueName, relay: Relay) -> Result<Relayed> {
        let upto = self.queue(now, name).relayed.get(&relay.outbox).copied().unwrap_or_default();
        if relay.tasks.is_empty() {
            return Ok(Relayed { upto });
        }
        let new = relay.tasks.iter().filter(|(number, _)| *number > upto);
        new.map(|(_, task)| task).try_for_each(|task| task.check_at(now))?;
        self.touch(name);
        Ok(self.change(now, name, |queue| queue.relay(now, relay)))
    }
}
