//! A write transaction that executes a group of calls.

use std::collections::VecDeque;
use std::ops::Deref;

use foldhash::{HashMap, HashMapExt};
use rushgate_core::{Claimed, Error, Notification, Op, QueueName, Reply, SaleId, Timestamp, Topic, Verb};
use rusqlite::{Connection, Params};

use crate::fault::Result;
use crate::read::Reader;
use crate::rows::queue::QueueRow;
use crate::rows::sale::SaleRow;
use crate::wake::{Listeners, Wakeup};

/// State shared by the calls of a group: the transaction, its time, cached rows, and the notifications to send after
/// the commit.
///
/// Rows that many calls of a group use (a queue's counters, a sale's stock) are read and written once per group. The
/// cache is dropped with the transaction.
pub(crate) struct Step<'w> {
    reader: Reader<'w>,
    pub(crate) listeners: &'w Listeners,
    pub(crate) queues: HashMap<QueueName, QueueRow>,
    pub(crate) sales: HashMap<SaleId, SaleRow>,
    pub(crate) replays: &'w mut Replays,
    wakeups: Vec<Wakeup>,
    fresh: Vec<(Op, Reply)>,
}

impl<'w> Deref for Step<'w> {
    type Target = Reader<'w>;

    fn deref(&self) -> &Reader<'w> {
        &self.reader
    }
}

impl<'w> Step<'w> {
    pub(crate) fn new(
        conn: &'w Connection,
        now: Timestamp,
        listeners: &'w Listeners,
        replays: &'w mut Replays,
    ) -> Self {
        Self {
            reader: Reader::new(conn, now),
            listeners,
            queues: HashMap::new(),
            sales: HashMap::new(),
            replays,
            wakeups: Vec::new(),
            fresh: Vec::new(),
        }
    }

    /// The time of this group, in microseconds.
    pub(crate) fn now_us(&self) -> i64 {
        self.now.as_micros().cast_signed()
    }

    /// Executes a statement and returns the number of changed rows.
    pub(crate) fn exec(&mut self, sql: &'static str, params: impl Params) -> Result<usize> {
        Ok(self.prepare(sql)?.execute(params)?)
    }

    /// The ID of the row inserted last.
    pub(crate) fn inserted(&self) -> i64 {
        self.conn.last_insert_rowid()
    }

    /// Notifies up to `most` listeners of the topic after the commit.
    pub(crate) fn tell(&mut self, topic: Topic, notification: Option<Notification>, most: usize) {
        self.wakeups.push(Wakeup::Topic(topic, notification, most));
    }

    /// Notifies listeners for the end of any task of the queue after the commit.
    pub(crate) fn tell_all_finished(&mut self, queue: &QueueName) {
        self.wakeups.push(Wakeup::AllFinished(queue.clone()));
    }

    /// Returns the earlier answer to `op`. If there is none, calls `run` and remembers its answer under `op`.
    pub(crate) fn once<V: Verb>(
        &mut self,
        op: Op,
        run: impl FnOnce(&mut Self) -> Result<V::Answer>,
    ) -> Result<Reply> {
        let fresh = self.fresh.iter().find(|(other, _)| *other == op).map(|(_, reply)| reply);
        if let Some(reply) = fresh.or_else(|| self.replays.get(op)) {
            let used = || Error::invalid("the operation token", "was used for a different call");
            return Ok(V::answer(reply.clone()).map(V::reply).ok_or_else(used)?);
        }
        let reply = V::reply(run(self)?);
        self.fresh.push((op, reply.clone()));
        Ok(reply)
    }

    /// Remembers the answers and returns the notifications to send. Call it after the commit.
    pub(crate) fn committed(self) -> Vec<Wakeup> {
        for (op, answer) in self.fresh {
            self.replays.remember(op, answer);
        }
        self.wakeups
    }
}

/// Size of an answer that is kept for replay, in bytes.
fn weight(reply: &Reply) -> usize {
    match reply {
        Reply::Pop(tasks) | Reply::Claim(Claimed { tasks, .. }) => {
            tasks.iter().map(|task| 100 + task.payload.bytes().len()).sum()
        }
        Reply::Enqueue(answers) => answers.len(),
        Reply::Complete(answers) => answers.len(),
        Reply::Retry(answers) => answers.len(),
        Reply::ReleaseTasks(answers) => answers.len(),
        _ => 1,
    }
}

/// The latest answers, by [`Op`].
///
/// They are kept in memory only. An answer can be lost only between this process's writer and its callers, which die
/// together.
#[derive(Default)]
pub(crate) struct Replays {
    answers: HashMap<Op, Reply>,
    order: VecDeque<Op>,
    weight: usize,
}

impl Replays {
    /// Maximum number of answers kept.
    const COUNT_MAX: usize = 4_096;
    /// Minimum number of answers kept, whatever their size.
    const COUNT_MIN: usize = 16;
    /// Maximum size of the payloads kept, in bytes, above the minimum number.
    const WEIGHT_MAX: usize = 32 << 20;

    fn get(&self, op: Op) -> Option<&Reply> {
        self.answers.get(&op)
    }

    fn remember(&mut self, op: Op, answer: Reply) {
        self.weight += weight(&answer);
        self.answers.insert(op, answer);
        self.order.push_back(op);
        let too_heavy = |it: &Self| it.weight > Self::WEIGHT_MAX && it.order.len() > Self::COUNT_MIN;
        while self.order.len() > Self::COUNT_MAX || too_heavy(self) {
            let Some(oldest) = self.order.pop_front() else { break };
            if let Some(forgotten) = self.answers.remove(&oldest) {
                self.weight -= weight(&forgotten);
            }
        }
    }
}
