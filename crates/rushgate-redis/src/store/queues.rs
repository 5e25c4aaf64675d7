//! The directory of queues, and the listing of dead letters.

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rushgate_core::{DeadLetter, Page, QueueName, Result};

use super::Inner;
use crate::command::Command;
use crate::keys;
use crate::queue;
use crate::reply::Fields;
use crate::worker;

/// The most dead letters that one call reads.
const PAGE: usize = 500;
/// How long a queue's entry in the directory is assumed to exist.
const ENTERED_FOR: Duration = Duration::from_secs(60);
/// From this number of queues on, expired assumptions are removed.
const ENTERED_MAX: usize = 1_024;

impl Inner {
    /// Adds the queue to the directory, if this process has not done so recently. The command is sent immediately.
    pub(super) fn enter_queue(
        self: &Arc<Self>,
        queue: &QueueName,
    ) -> impl Future<Output = Result<()>> + Send + use<> {
        let entry = self.must_enter(queue).then(|| {
            self.dispatcher.send(Command::new("ZADD").arg(keys::QUEUES).arg("0").arg(queue.as_str()))
        });
        let (inner, queue) = (Arc::clone(self), queue.clone());
        async move {
            let Some(entry) = entry else { return Ok(()) };
            let entered = entry.await;
            if entered.is_err() {
                inner.entered().remove(&queue);
            }
            entered.map(drop)
        }
    }

    fn entered(&self) -> MutexGuard<'_, HashMap<QueueName, Instant>> {
        self.entered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn must_enter(&self, queue: &QueueName) -> bool {
        let (mut entered, now) = (self.entered(), Instant::now());
        if entered.get(queue).is_some_and(|since| now.duration_since(*since) < ENTERED_FOR) {
            return false;
        }
        if entered.len() >= ENTERED_MAX {
            entered.retain(|_, since| now.duration_since(*since) < ENTERED_FOR);
        }
        entered.insert(queue.clone(), now);
        true
    }

    pub(crate) async fn queues(self: Arc<Self>, mut page: Page) -> Result<Vec<QueueName>> {
        let (mut names, limit) = (Vec::new(), page.limit as usize);
        loop {
            let mut entered = self.entries(keys::QUEUES, &page).await?;
            let asked = entered.each(|entered| {
                let name = QueueName::as_stored(entered.text()?)?;
                let exists = Command::new("EXISTS").arg(keys::queue_meta(&name));
                Ok((name, self.dispatcher.send(exists)))
            })?;
            let is_last = asked.len() < limit;
            let mut found = Vec::new();
            for (name, exists) in asked {
                let was_used = exists.await?.int()? == 1;
                let first = Page::first(1);
                let workers = (!was_used).then(|| self.dispatcher.send(worker::workers(&name, &first)));
                found.push((name, workers));
            }
            for (name, workers) in found {
                name.as_str().clone_into(&mut page.after);
                let is_listed = match workers {
                    Some(workers) => !worker::read_workers(workers.await?)?.is_empty(),
                    None => true,
                };
                names.extend(is_listed.then_some(name));
            }
            names.truncate(limit);
            if is_last || names.len() == limit {
                return Ok(names);
            }
        }
    }

    /// A page of a directory of names.
    pub(super) async fn entries(&self, directory: &str, page: &Page) -> Result<Fields> {
        let from = if page.after.is_empty() { "-".to_owned() } else { format!("({}", page.after) };
        let names = Command::new("ZRANGEBYLEX").arg(directory).arg(from).arg("+");
        let names = names.arg("LIMIT").arg("0").arg(page.limit.to_string());
        self.dispatcher.send(names).await?.list()
    }

    pub(crate) async fn dead(self: Arc<Self>, queue: QueueName, page: Page) -> Result<Vec<DeadLetter>> {
        let (mut letters, limit) = (Vec::new(), page.limit as usize);
        let mut part = page;
        loop {
            let wanted = (limit - letters.len()).min(PAGE);
            part.limit = wanted as u32;
            let some = queue::read_dead(self.dispatcher.send(queue::dead(&queue, &part)).await?)?;
            let is_last = some.len() < wanted;
            letters.extend(some);
            match letters.last() {
                Some(last) if !is_last && letters.len() < limit => {
                    last.id.as_str().clone_into(&mut part.after);
                }
                _ => return Ok(letters),
            }
        }
    }
}
