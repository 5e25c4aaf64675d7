//! Operator actions on a sale's reserved order queue.

use rushgate_core::{DeadLetter, DeadRequeued, Error, OrderTask, QueueLimits, Result, Selection, TaskId};

use super::Sale;
use crate::Queue;

/// Page size for reading, requeueing and deleting dead letters.
const PAGE: u32 = 1_000;

impl Sale {
    /// Requeues dead orders: they are due at once, with all attempts available again.
    ///
    /// If sales share the queue, this affects only orders of this sale, and dead letters that are not orders.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) if the sale has no order queue, or for more than 1,000 IDs. Nothing was requeued.
    pub async fn requeue_orders(&self, which: Selection) -> Result<DeadRequeued> {
        which.check()?;
        let queue = self.orders_queue().await?;
        let mut retried = DeadRequeued::default();
        for ids in self.dead_orders(&queue, &which).await?.chunks(PAGE as usize) {
            let DeadRequeued { requeued, kept } = queue.requeue_dead(Selection::Ids(ids.to_vec())).await?;
            retried.requeued += requeued;
            retried.kept += kept;
        }
        Ok(retried)
    }

    /// Deletes dead orders, and returns how many. The ledger never receives them. Selects the same dead
    /// letters as [`requeue_orders`](Self::requeue_orders).
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) if the sale has no order queue, or for more than 1,000 IDs. Nothing was deleted.
    pub async fn delete_orders(&self, which: Selection) -> Result<u64> {
        which.check()?;
        let queue = self.orders_queue().await?;
        let mut deleted = 0;
        for ids in self.dead_orders(&queue, &which).await?.chunks(PAGE as usize) {
            deleted += queue.delete_dead(Selection::Ids(ids.to_vec())).await?;
        }
        Ok(deleted)
    }

    /// Pauses the orders of this sale and of other sales that share the queue. The sale continues.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) if the sale has no order queue.
    pub async fn pause_orders(&self) -> Result<()> {
        self.orders_queue().await?.pause().await
    }

    /// Resumes the order queue: order workers get orders again. Removes limits that the queue had before the sale
    /// took it over.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) if the sale has no order queue.
    pub async fn resume_orders(&self) -> Result<()> {
        let queue = self.orders_queue().await?;
        queue.limit(QueueLimits::default()).await?;
        queue.resume().await
    }

    /// The queue, with the authority to change it.
    async fn orders_queue(&self) -> Result<Queue> {
        let orders = self.state().await?.spec.orders;
        let orders = orders.ok_or_else(|| Error::invalid("the sale", "has no order queue"))?;
        self.gate.for_orders().queue(orders)
    }

    /// IDs of the selected dead letters that belong to this sale or are not orders.
    async fn dead_orders(&self, queue: &Queue, which: &Selection) -> Result<Vec<TaskId>> {
        let is_wanted = |letter: &DeadLetter| match which {
            Selection::All => true,
            Selection::Ids(ids) => ids.contains(&letter.id),
        };
        let is_ours = |letter: &DeadLetter| {
            OrderTask::read(&letter.payload).map_or(true, |order| order.sale() == self.id())
        };
        let (mut ids, mut after) = (Vec::new(), String::new());
        loop {
            let page = queue.dead(&after, PAGE).await?;
            ids.extend(
                page.iter().filter(|letter| is_wanted(letter) && is_ours(letter)).map(|it| it.id.clone()),
            );
            match page.last() {
                Some(last) if page.len() == PAGE as usize => last.id.as_str().clone_into(&mut after),
                _ => return Ok(ids),
            }
        }
    }
}
