//! Reads the records of tasks.

use rushgate_core::{
    ContentType, Fence, PastRun, Payload, Priority, Result, Revision, Task, TaskId, TaskKey, TaskProgress,
    Ticket, Timestamp,
};

use crate::reply::{Fields, Packed, Reply, coded, str_of};

/// A task's record and run, decoded.
pub(crate) struct Row {
    pub(crate) task: Task,
    pub(crate) leased: bool,
    pub(crate) replaced: bool,
    pub(crate) cancelled: bool,
    pub(crate) lease_until: Timestamp,
    pub(super) worker: String,
    pub(super) progress: Option<TaskProgress>,
    pub(super) past: Vec<PastRun>,
    pub(super) error: Option<String>,
    /// Whether it waits for other tasks.
    pub(crate) held: bool,
}

/// Added to the priority of a task with a key, which then precedes the body.
pub(crate) const KEYED: u64 = 16;
/// Added to the priority of a task that was due when it was enqueued, without a key. Its record has no due time.
pub(crate) const AT_ONCE: u64 = 32;
/// Added to the priority of a task with a deadline, which then precedes the key.
pub(crate) const DATED: u64 = 64;
/// Added to the priority of a task that waits for others.
pub(crate) const HELD: u64 = 128;
/// Added to the priority of a dead letter with past runs, which then precede the body.
pub(crate) const PAST_BEFORE: u64 = 32;

pub(super) fn read_line(byte: u64, body: &mut Packed<'_>) -> Result<(Priority, Option<TaskKey>)> {
    let key = (byte >= KEYED).then(|| TaskKey::as_stored(body.text()?)).transpose()?;
    Ok((Priority::new((byte % KEYED) as u8)?, key))
}

pub(crate) fn read_body(mut body: Packed<'_>) -> Result<Payload> {
    let content_type = match body.number(1)? {
        0 => ContentType::bytes(),
        255 => ContentType::json(),
        n => ContentType::as_stored(str_of(body.take(n as usize)?)?)?,
    };
    Payload::new(content_type, body.0)
}

pub(crate) fn unpack_row(id: TaskId, mut record: Packed<'_>, run: &[u8]) -> Result<Row> {
    record.take(6)?;
    let turn = record.number(1)?;
    let revision = Revision::from_u64(record.number(6)? + turn);
    let first = record.number(7)?;
    let byte = record.number(1)?;
    let (held, byte) = (byte >= HELD, byte % HELD);
    let max_attempts = record.small(2)?;
    let due = if byte % DATED >= AT_ONCE { first } else { record.number(7)? };
    let due = Timestamp::from_micros(due);
    let deadline = (byte >= DATED).then(|| record.number(7)).transpose()?.map(Timestamp::from_micros);
    let (priority, key) = read_line(byte % AT_ONCE, &mut record)?;
    let payload = read_body(record)?;
    let ticket = Ticket { id, due, revision, claim: None };
    let mut row = Row {
        task: Task { ticket, payload, priority, attempt: 0, max_attempts, key, deadline },
        leased: false,
        replaced: false,
        cancelled: false,
        lease_until: Timestamp::default(),
        worker: String::new(),
        progress: None,
        past: Vec::new(),
        error: None,
        held,
    };
    if !run.is_empty() {
        add_run(&mut row, Packed(run))?;
    }
    Ok(row)
}

fn add_run(row: &mut Row, mut run: Packed<'_>) -> Result<()> {
    let claim = Fence::from_u64(run.number(7)? + run.number(1)?);
    row.task.attempt = run.small(2)?;
    let flags = run.number(1)?;
    row.lease_until = Timestamp::from_micros(run.number(7)?);
    row.task.ticket.due = Timestamp::from_micros(run.number(7)?);
    row.worker = run.text()?.to_owned();
    (row.leased, row.cancelled, row.replaced) = (flags & 1 != 0, flags & 2 != 0, flags & 8 != 0);
    row.task.ticket.claim = row.leased.then_some(claim);
    if flags & 128 != 0 {
        let length = run.number(1)? as usize;
        let percent = Some(run.number(1)? as u8).filter(|percent| *percent <= 100);
        row.progress = Some(TaskProgress { percent, note: str_of(run.take(length)?)?.to_owned() });
    }
    if flags & 64 != 0 {
        row.past = read_past(&mut run)?;
    }
    row.error = (flags & 4 != 0).then(|| str_of(run.0).map(str::to_owned)).transpose()?;
    Ok(())
}

/// Past runs, preceded by their length in 2 bytes.
pub(super) fn read_past(from: &mut Packed<'_>) -> Result<Vec<PastRun>> {
    let length = from.number(2)? as usize;
    let mut packed = Packed(from.take(length)?);
    let mut past = Vec::new();
    while !packed.0.is_empty() {
        past.push(PastRun {
            attempt: packed.small(2)?,
            began: Timestamp::from_micros(packed.number(7)?),
            ended: Timestamp::from_micros(packed.number(7)?),
            how: coded(packed.number(1)?)?,
            worker: packed.text()?.to_owned(),
            error: packed.text()?.to_owned(),
        });
    }
    Ok(past)
}

pub(crate) fn read_tasks(reply: Reply) -> Result<Vec<Task>> {
    reply.list()?.each(next_task)
}

pub(super) fn next_task(fields: &mut Fields) -> Result<Task> {
    let id = TaskId::as_stored(fields.text()?)?;
    let (record, run) = (fields.bytes()?, fields.bytes()?);
    Ok(unpack_row(id, Packed(&record), &run)?.task)
}
