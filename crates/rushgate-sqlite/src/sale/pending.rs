//! The order queue of a sale, for the audit: its row, its tasks and their indexes.

use std::collections::{BTreeMap, BTreeSet};

use rushgate_core::{
    ContentType, OrderRecord, OrderTask, Payload, QueueName, Result as CoreResult, SaleId, SaleSecret,
    Timestamp,
};
use rusqlite::Row;

use crate::fault::Result;
use crate::queue::kept::read_past;
use crate::read::Reader;
use crate::sql::sql;
use crate::stored::unreadable;

/// The pending orders of a sale, and what the audit finds in their queue.
#[derive(Default)]
pub(super) struct Pending {
    pub(super) orders: Vec<OrderTask>,
    /// Why no order worker will get an order in time.
    pub(super) obstacles: Vec<String>,
    /// Differences between records of the queue.
    pub(super) contradictions: Vec<String>,
}

/// The queue's row.
struct QueueRow {
    id: i64,
    len: i64,
    revision: i64,
    claim: i64,
    places: i64,
    reserved: i64,
    paused: i64,
}

/// A task, or a pending replacement, whose arrival is 0.
struct TaskRow {
    arrival: i64,
    id: String,
    priority: i64,
    due: i64,
    revision: i64,
    attempts: i64,
    max_attempts: i64,
    content_type: ContentType,
    payload: Payload,
    claim: i64,
    lease_until: i64,
    replaced: i64,
    cancelled: i64,
    /// Number of columns that only a leased task has.
    of_run: i64,
    has_worker: bool,
    /// Number of columns that orders do not have.
    bound: i64,
    has_key: bool,
    at: Option<i64>,
    seat: Option<i64>,
}

impl TaskRow {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        read_past(row, 19)?;
        let content_type: String = row.get(7)?;
        let bytes: Vec<u8> = row.get(8)?;
        let typed = || -> CoreResult<_> {
            let content_type: ContentType = content_type.parse()?;
            Ok((content_type.clone(), Payload::new(content_type, bytes)?))
        };
        let (content_type, payload) = typed().map_err(|error| unreadable(7, error))?;
        Ok(Self {
            arrival: row.get(0)?,
            id: row.get(1)?,
            priority: row.get(2)?,
            due: row.get(3)?,
            revision: row.get(4)?,
            attempts: row.get(5)?,
            max_attempts: row.get(6)?,
            content_type,
            payload,
            claim: row.get(9)?,
            lease_until: row.get(10)?,
            replaced: row.get(11)?,
            cancelled: row.get(12)?,
            of_run: row.get(13)?,
            has_worker: row.get(14)?,
            bound: row.get(15)?,
            has_key: row.get(16)?,
            at: row.get(17)?,
            seat: row.get(18)?,
        })
    }

    /// Its order, if this sale made it.
    fn order(&self, sale: &SaleId, secret: SaleSecret) -> Option<OrderTask> {
        // Skip payloads that an order worker would refuse.
        OrderTask::unseal(&self.payload, secret).ok().filter(|order| order.sale() == sale)
    }

    fn obstacles(&self, order: &OrderTask, now: Timestamp) -> Vec<String> {
        let moment = |us: i64| Timestamp::from_micros(us.cast_unsigned());
        let record = OrderRecord {
            order,
            id: &self.id,
            content_type: &self.content_type,
            priority: self.priority.cast_unsigned(),
            attempts: self.attempts.cast_unsigned(),
            max_attempts: self.max_attempts.cast_unsigned(),
            due: moment(self.due),
            lease_until: (self.claim > 0).then(|| moment(self.lease_until)),
            is_cancelled: self.cancelled != 0,
            is_bound: self.bound != 0,
        };
        record.obstacles(now)
    }

    /// Columns that contradict each other.
    fn contradictions(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut note = |is_wrong: bool, what: &str| {
            if is_wrong {
                found.push(format!("task {} in the order queue {what}", self.id));
            }
        };
        let waits = self.claim == 0;
        note(self.claim < 0 || self.revision <= 0, "has an invalid claim or revision");
        note(waits && (self.lease_until != 0 || self.of_run != 0), "has lease data without a lease");
        note(waits && self.cancelled != 0, "is canceled without a lease");
        note(!waits && (self.lease_until <= 0 || !self.has_worker), "has a lease without a worker or an end");
        note(!(0..=1).contains(&self.cancelled), "has an invalid cancellation");
        note(self.at.is_some() != self.seat.is_some(), "has an incomplete place");
        note(!self.has_key && self.at != Some(self.due), "has another due time in the index");
        found
    }
}

/// Reads the order queue, if the sale has one.
pub(super) fn pending(
    reader: &Reader<'_>,
    queue: Option<&QueueName>,
    sale: &SaleId,
    secret: SaleSecret,
) -> Result<Pending> {
    let Some(name) = queue else { return Ok(Pending::default()) };
    let row = reader.row(sql!("sale/books", "queue"), [name.as_str()], |row| {
        Ok(QueueRow {
            id: row.get(0)?,
            len: row.get(1)?,
            revision: row.get(2)?,
            claim: row.get(3)?,
            places: row.get(4)?,
            reserved: row.get(5)?,
            paused: row.get(6)?,
        })
    })?;
    let Some(row) = row else {
        let lost = format!("the order queue `{name}` does not exist");
        return Ok(Pending { contradictions: vec![lost], ..Pending::default() });
    };
    let tasks = reader.rows(sql!("sale/books", "tasks"), [row.id], TaskRow::read)?;
    let newcomers = reader.rows(sql!("sale/books", "newcomers"), [row.id], TaskRow::read)?;
    let mut found =
        Pending { contradictions: row.contradictions(name, &tasks, &newcomers), ..Pending::default() };
    found.contradictions.extend(of_indexes(reader, row.id, &tasks)?);
    found.contradictions.extend(tasks.iter().flat_map(TaskRow::contradictions));
    for newcomer in newcomers.iter().filter(|newcomer| newcomer.revision <= 0) {
        let what =
            format!("the replacement of task {} in the order queue has an invalid revision", newcomer.id);
        found.contradictions.push(what);
    }
    found.contradictions.extend(of_replacements(&tasks, &newcomers));
    let latest = tasks.iter().filter(|task| task.replaced == 0).chain(&newcomers);
    found.orders.extend(latest.filter_map(|task| task.order(sale, secret)));
    for task in tasks.iter().chain(&newcomers) {
        if let Some(order) = task.order(sale, secret) {
            found.obstacles.extend(task.obstacles(&order, reader.now));
        }
    }
    Ok(found)
}

impl QueueRow {
    /// Differences between the queue's row and its tasks.
    fn contradictions(&self, name: &QueueName, tasks: &[TaskRow], newcomers: &[TaskRow]) -> Vec<String> {
        let mut found = Vec::new();
        if self.reserved != 1 {
            found.push(format!("the order queue `{name}` is not reserved"));
        }
        if !(0..=1).contains(&self.paused) {
            found.push("the order queue has an invalid pause".into());
        }
        if self.len != tasks.len() as i64 {
            found.push(format!("the order queue counts {} tasks, but has {}", self.len, tasks.len()));
        }
        let latest =
            |number: fn(&TaskRow) -> i64| tasks.iter().chain(newcomers).map(number).max().unwrap_or(0);
        let counters = [
            ("revision", self.revision, latest(|task| task.revision)),
            ("claim", self.claim, latest(|task| task.claim)),
            ("place", self.places, latest(|task| task.seat.unwrap_or(0))),
        ];
        for (what, counter, latest) in counters.into_iter().filter(|(_, counter, latest)| counter < latest) {
            found.push(format!("the latest {what} of the order queue is {counter}, but a task has {latest}"));
        }
        found
    }
}

/// Differences between the tasks and the indexes through which they are claimed and reaped.
fn of_indexes(reader: &Reader<'_>, queue: i64, tasks: &[TaskRow]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut compare = |sql, what, is_in: fn(&TaskRow) -> bool| -> Result<()> {
        let indexed: BTreeSet<i64> = reader.rows(sql, [queue], |row| row.get(0))?.into_iter().collect();
        let expected: BTreeSet<i64> =
            tasks.iter().filter(|task| is_in(task)).map(|task| task.arrival).collect();
        if indexed != expected {
            let (is, has) = (indexed.len(), expected.len());
            found.push(format!("the index of {what} tasks in the order queue has {is} of {has}"));
        }
        Ok(())
    };
    compare(sql!("sale/books", "waiting"), "waiting", |task| task.claim == 0 && task.at.is_some())?;
    compare(sql!("sale/books", "leased"), "leased", |task| task.claim > 0)?;
    Ok(found)
}

/// Whether each leased task knows of its pending replacement.
fn of_replacements(tasks: &[TaskRow], newcomers: &[TaskRow]) -> Vec<String> {
    let replaced: BTreeMap<&str, bool> =
        tasks.iter().filter(|task| task.replaced == 1).map(|task| (&*task.id, task.claim > 0)).collect();
    let newcomers: BTreeSet<&str> = newcomers.iter().map(|task| &*task.id).collect();
    let odd = tasks.iter().filter(|task| !(0..=1).contains(&task.replaced)).map(|task| &*task.id);
    let lost =
        replaced.iter().filter(|(id, leased)| !**leased || !newcomers.contains(*id)).map(|(id, _)| *id);
    let alone = newcomers.iter().filter(|id| !replaced.contains_key(*id)).copied();
    odd.chain(lost)
        .chain(alone)
        .map(|id| {
            format!("task {id} in the order queue has a replacement in one record, and none in another")
        })
        .collect()
}
