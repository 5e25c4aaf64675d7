//! Outboxes: tasks that a relay brings from other databases.

use rushgate_core::{Enqueued, QueueName, Relay, Relayed};

use super::{Queue, on_any_queue, on_queue};
use crate::fault::Result;
use crate::sql::sql;
use crate::step::Step;

impl Queue<'_, '_> {
    fn relay(&mut self, relay: &Relay) -> Result<Relayed> {
        let outbox = relay.outbox.as_str();
        let before: Option<i64> = self.step.value(sql!("queue/relay", "upto"), (self.row.id, outbox))?;
        let before = before.unwrap_or_default().cast_unsigned();
        let mut upto = before;
        let new = relay.tasks.iter().filter(|(number, _)| *number > before);
        new.map(|(_, task)| task).try_for_each(|task| task.check_at(self.step.now))?;
        for (number, task) in relay.tasks.iter().filter(|(number, _)| *number > before) {
            if matches!(self.offer(task)?, Enqueued::Full { .. }) {
                break;
            }
            upto = *number;
        }
        if upto > before {
            self.step.exec(sql!("queue/relay", "note"), (self.row.id, outbox, upto.cast_signed()))?;
        }
        Ok(Relayed { upto })
    }
}

pub(crate) fn relay(step: &mut Step<'_>, queue: &QueueName, relay: &Relay) -> Result<Relayed> {
    if relay.tasks.is_empty() {
        let relayed = on_queue(step, queue, |queue| queue.relay(relay))?;
        return Ok(relayed.unwrap_or(Relayed { upto: 0 }));
    }
    on_any_queue(step, queue, |queue| queue.relay(relay))
}
