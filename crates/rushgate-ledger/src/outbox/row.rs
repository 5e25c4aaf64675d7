//! Rows of the outbox: each becomes a task with a number, or is set aside.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use rushgate_core::{
    ContentType, Due, Error, Field, Kind, NewTask, OnDuplicate, Payload, Priority, QueueName, Result, TaskId,
    TaskKey, Timestamp, TraceParent,
};

use super::turn::{OutboxBatches, OutboxTaken, OutboxTask};

/// A row as read.
#[derive(Debug, Default)]
pub(super) struct Row {
    pub(super) position: i64,
    pub(super) queue: String,
    pub(super) id: String,
    /// `None` if the payload is too large.
    pub(super) payload: Option<Vec<u8>>,
    pub(super) bytes: i64,
    pub(super) content_type: String,
    pub(super) kind: Option<String>,
    pub(super) due_at_ms: Option<i64>,
    pub(super) priority: Option<i64>,
    pub(super) max_attempts: Option<i64>,
    pub(super) key: Option<String>,
    pub(super) on_duplicate: String,
    pub(super) max_wait_ms: Option<i64>,
    pub(super) traceparent: Option<String>,
    pub(super) age_ms: i64,
}

impl Row {
    fn task(&self) -> Result<NewTask> {
        let mut content_type = ContentType::new(&self.content_type)?;
        if let Some(kind) = &self.kind {
            content_type = content_type.with_kind(&Kind::new(kind)?)?;
        }
        let Some(payload) = &self.payload else { return Err(too_large(self.bytes)) };
        let mut payload = Payload::new(content_type, payload.as_slice())?;
        if let Some(parent) = &self.traceparent {
            // An invalid or too long trace context is dropped. It must not cost the task.
            let carried = parent.parse::<TraceParent>().and_then(|parent| payload.with_traceparent(&parent));
            payload = carried.unwrap_or(payload);
        }
        let mut task = NewTask::new(TaskId::new(&self.id)?, payload);
        if let Some(at) = self.due_at_ms {
            task.due = Due::At(Timestamp::from_micros(within("due_at_ms", at, MILLIS_MAX)? * 1_000));
        }
        if let Some(level) = self.priority {
            task.priority = Priority::new(within("priority", level, 9)? as u8)?;
        }
        if let Some(most) = self.max_attempts {
            task.max_attempts = within("max_attempts", most, 1_000)? as u32;
        }
        task.key = self.key.as_ref().map(TaskKey::new).transpose()?;
        task.on_duplicate = self.on_duplicate()?;
        task.check()?;
        Ok(task)
    }

    fn on_duplicate(&self) -> Result<OnDuplicate> {
        match self.on_duplicate.as_str() {
            "keep" => Ok(OnDuplicate::Keep),
            "replace" => Ok(OnDuplicate::Replace),
            "earliest" => Ok(OnDuplicate::Earliest),
            "debounce" => {
                let millis = self.max_wait_ms.ok_or_else(|| Error::invalid("max_wait_ms", "is missing"))?;
                let millis = within("max_wait_ms", millis, MILLIS_MAX)?;
                Ok(OnDuplicate::Debounce { max_wait: Duration::from_millis(millis) })
            }
            other => Err(Error::invalid(
                "on_duplicate",
                format_args!("is {other:?}; it must be keep, replace, earliest or debounce"),
            )),
        }
    }

    fn checked(&self) -> Result<(QueueName, NewTask)> {
        Ok((QueueName::new(&self.queue)?, self.task()?))
    }

    fn age(&self) -> Duration {
        Duration::from_millis(self.age_ms.try_into().unwrap_or_default())
    }
}

/// The year 2255, the end of the range of time that stores support.
const MILLIS_MAX: u64 = (1 << 53) / 1_000 - 1;

fn within(what: &str, n: i64, max: u64) -> Result<u64> {
    let n = u64::try_from(n).ok().filter(|n| *n <= max);
    n.ok_or_else(|| Error::invalid(what, format_args!("is out of range; it must be 0 to {max}")))
}

fn too_large(bytes: i64) -> Error {
    let most = Payload::MAX_BYTES;
    Error::invalid(Field::Payload, format_args!("has {bytes} bytes; at most {most} are allowed"))
}

/// What a turn does with the rows that it read.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) taken: OutboxTaken,
    /// Rows to set aside, and why.
    pub(super) refused: Vec<(i64, String)>,
    /// Batches to record: the queue, its first number and the rows.
    pub(super) noted: Vec<(QueueName, i64, Vec<i64>)>,
    /// The last number assigned.
    pub(super) last: u64,
}

/// Numbers rows, which are ordered by queue and position.
///
/// Numbers continue from `last`, and from the highest number that a queue already has. A database that was restored
/// from a backup has assigned numbers that it does not know of.
pub(super) fn plan(rows: Vec<Row>, last: u64, marks: &HashMap<QueueName, u64>) -> Plan {
    let mut plan = Plan { last, ..Plan::default() };
    let mut batches: BTreeMap<QueueName, Vec<(Row, NewTask)>> = BTreeMap::new();
    for row in rows {
        match row.checked() {
            Ok((queue, task)) => batches.entry(queue).or_default().push((row, task)),
            Err(error) => plan.refuse(&row, &error),
        }
    }
    for (queue, rows) in batches {
        let Some(mark) = marks.get(&queue) else {
            plan.taken.strangers.push(queue);
            continue;
        };
        let first = plan.last.max(*mark) + 1;
        plan.last = first + rows.len() as u64 - 1;
        let positions = rows.iter().map(|(row, _)| row.position).collect();
        plan.noted.push((queue.clone(), first.cast_signed(), positions));
        let number = |((row, task), number): ((Row, NewTask), u64)| OutboxTask {
            number,
            position: row.position,
            age: row.age(),
            task,
        };
        plan.taken.batches.insert(queue, rows.into_iter().zip(first..).map(number).collect());
    }
    plan
}

/// Restores batches that were numbered before.
pub(super) fn resume(rows: Vec<(Row, i64)>) -> Plan {
    let mut plan = Plan::default();
    let mut batches = OutboxBatches::new();
    for (row, number) in rows {
        match row.checked() {
            Ok((queue, task)) => {
                let (position, age, number) = (row.position, row.age(), number.cast_unsigned());
                batches.entry(queue).or_default().push(OutboxTask { number, position, task, age });
            }
            Err(error) => plan.refuse(&row, &error),
        }
    }
    plan.taken.batches = batches;
    plan
}

impl Plan {
    fn refuse(&mut self, row: &Row, error: &Error) {
        self.refused.push((row.position, error.to_string()));
        self.taken.refused.push((row.queue.clone(), row.id.clone(), error.to_string()));
    }
}

/// Creates a random ID of 128 bits.
pub(super) fn new_id() -> String {
    use std::hash::{BuildHasher, RandomState};
    let draw = || RandomState::new().hash_one(std::process::id());
    format!("{:016x}{:016x}", draw(), draw())
}

/// Takes as many of the ordered rows as fit into a batch: limited by size, but at least one.
#[cfg(feature = "sqlite")]
pub(super) fn batch_of(rows: impl IntoIterator<Item = Row>) -> Vec<Row> {
    let mut bytes = 0;
    let mut batch = Vec::new();
    for row in rows {
        bytes += row.payload.as_ref().map_or(0, Vec::len);
        if bytes > super::turn::BATCH_BYTES && !batch.is_empty() {
            break;
        }
        batch.push(row);
    }
    batch
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(position: i64, queue: &str, id: &str) -> Row {
        Row {
            position,
            queue: queue.into(),
            id: id.into(),
            payload: Some(b"{}".to_vec()),
            content_type: "application/json".into(),
            on_duplicate: "keep".into(),
            ..Row::default()
        }
    }

    fn marks(of: &[(&str, u64)]) -> HashMap<QueueName, u64> {
        of.iter().map(|(queue, mark)| (QueueName::new(queue).unwrap(), *mark)).collect()
    }

    #[test]
    fn numbers_go_on_behind_whatever_was_given_before() {
        let rows = vec![row(7, "a", "x"), row(9, "a", "y"), row(8, "b", "z")];
        let plan = plan(rows, 10, &marks(&[("a", 0), ("b", 500)]));
        let noted: Vec<_> =
            plan.noted.iter().map(|(queue, first, rows)| (queue.as_str(), *first, rows.clone())).collect();
        assert_eq!(noted, [("a", 11, vec![7, 9]), ("b", 501, vec![8])]);
        assert_eq!(plan.last, 501);
    }

    #[test]
    fn a_queue_that_was_not_asked_for_its_mark_is_not_numbered() {
        let plan = plan(vec![row(1, "a", "x"), row(2, "b", "y")], 0, &marks(&[("b", 0)]));
        assert_eq!(plan.taken.strangers, [QueueName::new("a").unwrap()]);
        assert_eq!(plan.noted.len(), 1);
    }

    #[test]
    fn what_cannot_be_a_task_is_set_aside_and_says_why() {
        let wrong: Vec<(Row, &str)> = vec![
            (row(1, "", "x"), "the queue name is empty"),
            (row(1, "a", "a b"), "the task ID contains ' '"),
            (Row { payload: None, bytes: 9_000_000, ..row(1, "a", "x") }, "9000000 bytes"),
            (Row { priority: Some(10), ..row(1, "a", "x") }, "priority is out of range"),
            (Row { priority: Some(-1), ..row(1, "a", "x") }, "priority is out of range"),
            (Row { max_attempts: Some(0), ..row(1, "a", "x") }, "the number of attempts is 0"),
            (Row { due_at_ms: Some(i64::MAX), ..row(1, "a", "x") }, "due_at_ms is out of range"),
            (Row { key: Some("a b".into()), ..row(1, "a", "x") }, "the task key"),
            (Row { kind: Some("a b".into()), ..row(1, "a", "x") }, "kind"),
            (Row { content_type: String::new(), ..row(1, "a", "x") }, "the content type is empty"),
            (Row { on_duplicate: "drop".into(), ..row(1, "a", "x") }, "on_duplicate is \"drop\""),
            (Row { on_duplicate: "debounce".into(), ..row(1, "a", "x") }, "max_wait_ms is missing"),
        ];
        for (row, why) in wrong {
            let plan = plan(vec![row], 0, &marks(&[("a", 0)]));
            assert!(plan.noted.is_empty());
            assert!(plan.refused[0].1.contains(why), "{:?} should contain {why:?}", plan.refused);
        }
        let traced = Row { traceparent: Some("nonsense".into()), ..row(1, "a", "x") };
        assert_eq!(plan(vec![traced], 0, &marks(&[("a", 0)])).noted.len(), 1, "a trace is not worth a task");
    }

    #[cfg(feature = "sqlite")]
    #[test]
    fn a_batch_has_a_maximum_size_and_at_least_one_task() {
        use crate::Outbox;
        let large =
            |position| Row { payload: Some(vec![0; Outbox::BATCH_BYTES / 2]), ..row(position, "a", "x") };
        assert_eq!(batch_of((1..=5).map(large)).len(), 2);
        let huge = Row { payload: Some(vec![0; Outbox::BATCH_BYTES + 1]), ..row(1, "a", "x") };
        assert_eq!(batch_of([huge, row(2, "a", "y")]).len(), 1);
    }
}
