use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rushgate_core::{Due, Error, Field, NewTask, OnDuplicate, QueueName, Result};

/// A row for the outbox, created from a task, with values that every database client accepts.
///
/// The fields are in the order of the parameters of [`POSTGRES`](Self::POSTGRES) and [`SQLITE`](Self::SQLITE). With
/// `rusqlite`, in the transaction that creates the order:
///
/// ```
/// # use rushgate_ledger::{Outbox, OutboxEntry};
/// # use rushgate_core::{ContentType, NewTask, Payload, QueueName, TaskId};
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("shop.db");
/// # let mut shop = rusqlite::Connection::open(&path).unwrap();
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # shop.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY, buyer TEXT)").unwrap();
/// let outbox = Outbox::open(&format!("sqlite:{}", path.display())).await?;
/// let payload = Payload::new(ContentType::json(), *b"{\"order\": 42}")?;
/// let row = OutboxEntry::new(&QueueName::new("mail")?, &NewTask::new(TaskId::new("order:42")?, payload))?;
///
/// let transaction = shop.transaction().unwrap();
/// transaction.execute("INSERT INTO orders VALUES (42, 'ann')", []).unwrap();
/// transaction.execute(OutboxEntry::SQLITE, rusqlite::params![
///     row.queue, row.id, row.payload, row.content_type, row.due_at_ms, row.priority, row.max_attempts, row.key,
///     row.on_duplicate, row.max_wait_ms,
/// ]).unwrap();
/// transaction.commit().unwrap();
///
/// assert_eq!(outbox.stats().await?.waiting, 1);
/// # Ok::<(), rushgate_core::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxEntry {
    /// Name of the queue.
    pub queue: String,
    /// ID of the task.
    pub id: String,
    /// Payload.
    pub payload: Vec<u8>,
    /// Content type of the payload, with the task's kind and trace context.
    pub content_type: String,
    /// Due time, in milliseconds since 1970. `None`: due at once.
    pub due_at_ms: Option<i64>,
    /// Priority: 0 (first) to 9 (last).
    pub priority: i32,
    /// Maximum number of attempts before the task becomes a dead letter.
    pub max_attempts: i32,
    /// Key of the task, if any.
    pub key: Option<String>,
    /// What happens if the ID is live: `keep`, `replace`, `earliest` or `debounce`.
    pub on_duplicate: &'static str,
    /// Maximum time that `debounce` may postpone the run, in milliseconds.
    pub max_wait_ms: Option<i64>,
}

impl OutboxEntry {
    /// INSERT statement for Postgres, in the schema `rushgate`.
    pub const POSTGRES: &str = "INSERT INTO rushgate.outbox \
        (queue, id, payload, content_type, due_at_ms, priority, max_attempts, key, on_duplicate, max_wait_ms) \
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
    /// INSERT statement for SQLite.
    pub const SQLITE: &str = "INSERT INTO rushgate_outbox \
        (queue, id, payload, content_type, due_at_ms, priority, max_attempts, key, on_duplicate, max_wait_ms) \
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";

    /// Creates the row of a task. A delay counts from now, on this machine's clock.
    ///
    /// # Errors
    /// [`is_invalid`](rushgate_core::Error::is_invalid) for a task that exceeds a limit or uses a feature that the
    /// outbox does not support.
    pub fn new(queue: &QueueName, task: &NewTask) -> Result<Self> {
        task.check()?;
        if task.deadline.is_some() {
            return Err(Error::invalid(Field::Deadline, "cannot be set in an outbox row"));
        }
        if task.unique_for.is_some() {
            let what = "the uniqueness window";
            return Err(Error::invalid(what, "cannot be set in an outbox row"));
        }
        if task.is_to_wait() || task.part_of.is_some() {
            return Err(Error::invalid("the dependencies", "cannot be set in an outbox row"));
        }
        let (on_duplicate, max_wait_ms) = match task.on_duplicate {
            OnDuplicate::Keep => ("keep", None),
            OnDuplicate::Replace => ("replace", None),
            OnDuplicate::Earliest => ("earliest", None),
            OnDuplicate::Debounce { max_wait } => ("debounce", Some(millis(max_wait))),
        };
        let due_at_ms = match task.due {
            Due::Now => None,
            Due::After(delay) => {
                Some(millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + delay))
            }
            Due::At(at) => Some(millis(Duration::from_micros(at.as_micros()))),
        };
        Ok(Self {
            queue: queue.as_str().to_owned(),
            id: task.id.as_str().to_owned(),
            payload: task.payload.bytes().to_vec(),
            content_type: task.payload.content_type().as_str().to_owned(),
            due_at_ms,
            priority: task.priority.get().into(),
            max_attempts: task.max_attempts as i32,
            key: task.key.as_ref().map(|key| key.as_str().to_owned()),
            on_duplicate,
            max_wait_ms,
        })
    }
}

/// Rounds up, so that no task is due early.
fn millis(duration: Duration) -> i64 {
    duration.as_micros().div_ceil(1_000).try_into().unwrap_or(i64::MAX)
}
