//! The order queue of a sale, for the audit: its counters, its records and their indexes.

use std::collections::{HashMap, HashSet};

use rushgate_core::{OrderRecord, OrderTask, QueueName, Result, TaskId, Timestamp};

use super::Home;
use crate::command::Command;
use crate::keys;
use crate::queue::{Row, read_limits, unpack_row};
use crate::reply::{Fields, Packed, str_of, strange};

/// Lengths of a place and of the claim number in a lease (`lua/include/queue.lua`).
const PLACE_BYTES: usize = 7;
const CLAIM_BYTES: usize = 8;
const PRIORITIES: u32 = 10;

/// The commands that read the order queue. [`read_pending`] decodes their replies.
pub(super) fn pending(queue: &QueueName) -> Vec<Command> {
    let keys: Vec<_> = keys::queue(queue).collect();
    let all = |key: &Vec<u8>| Command::new("HGETALL").arg(key);
    let sorted = |key: &Vec<u8>| Command::new("ZRANGE").arg(key).arg("0").arg("-1").arg("WITHSCORES");
    let mut commands = vec![Command::new("TIME")];
    commands.extend(keys[..4].iter().map(all));
    commands.push(sorted(&keys[4]));
    commands.extend(keys[8..18].iter().map(sorted));
    commands.push(Command::new("ZRANGE").arg(&keys[18]).arg("0").arg("-1"));
    commands.push(Command::new("HKEYS").arg(&keys[5]));
    commands.push(Command::new("ZRANGE").arg(&keys[6]).arg("0").arg("-1"));
    commands
}

/// The pending orders of a sale, and what the audit finds in their queue.
#[derive(Default)]
pub(super) struct Pending {
    pub(super) orders: Vec<OrderTask>,
    /// Why no order worker will get an order in time.
    pub(super) obstacles: Vec<String>,
    /// Differences between records of the queue.
    pub(super) contradictions: Vec<String>,
}

type Pairs = HashMap<Vec<u8>, Vec<u8>>;
type Scores = HashMap<Vec<u8>, u64>;

/// The queue's keys.
struct Kept {
    meta: Pairs,
    records: Pairs,
    runs: Pairs,
    newcomers: Pairs,
    leases: Scores,
    /// By priority.
    waiting: Vec<Scores>,
    /// Place and ID of each task that waits in a key group or for other tasks.
    lines: HashSet<Vec<u8>>,
    letters: HashSet<Vec<u8>>,
    letter_ids: HashSet<Vec<u8>>,
}

fn pairs(mut fields: Fields) -> Result<Pairs> {
    let mut map = Pairs::new();
    while !fields.is_empty() {
        map.insert(fields.bytes()?, fields.bytes()?);
    }
    Ok(map)
}

fn scores(mut fields: Fields) -> Result<Scores> {
    let mut map = Scores::new();
    while !fields.is_empty() {
        map.insert(fields.bytes()?, fields.int()?);
    }
    Ok(map)
}

fn members(mut fields: Fields) -> Result<Vec<Vec<u8>>> {
    let mut all = Vec::new();
    while !fields.is_empty() {
        all.push(fields.bytes()?);
    }
    Ok(all)
}

fn shown(id: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(id)
}

/// Decodes the order queue.
pub(super) fn read_pending(home: &Home, parts: &mut Fields) -> Result<Pending> {
    let mut clock = parts.list()?;
    let now = Timestamp::from_micros(clock.int()? * 1_000_000 + clock.int()?);
    let (meta, records) = (pairs(parts.list()?)?, pairs(parts.list()?)?);
    let (runs, newcomers) = (pairs(parts.list()?)?, pairs(parts.list()?)?);
    let leases = scores(parts.list()?)?;
    let waiting = (0..PRIORITIES).map(|_| scores(parts.list()?)).collect::<Result<_>>()?;
    // Key, NUL, priority(1), due(7), place(7), ID.
    let place_in = |member: Vec<u8>| {
        let key = member.iter().position(|byte| *byte == 0)?;
        member.get(key + 9..).map(<[u8]>::to_vec)
    };
    let lines: Option<_> = members(parts.list()?)?.into_iter().map(place_in).collect();
    let lines = lines.ok_or_else(|| strange("a task without a key group"))?;
    let is_letter = |field: &Vec<u8>| field.first().is_some_and(|byte| *byte > 8);
    let letters = members(parts.list()?)?.into_iter().filter(is_letter).collect();
    let letter_ids = members(parts.list()?)?.into_iter().filter(is_letter).collect();
    Kept { meta, records, runs, newcomers, leases, waiting, lines, letters, letter_ids }.audited(home, now)
}

impl Kept {
    fn number(&self, field: &str) -> Result<u64> {
        let Some(text) = self.meta.get(field.as_bytes()) else { return Ok(0) };
        str_of(text)?.parse().map_err(|_| strange("not a number"))
    }

    fn audited(mut self, home: &Home, now: Timestamp) -> Result<Pending> {
        let mut found = Pending::default();
        home.spec.orders.iter().try_for_each(|name| self.audit_meta(name, &mut found))?;
        let (records, newcomers) = (std::mem::take(&mut self.records), std::mem::take(&mut self.newcomers));
        let (mut latest, mut of_groups) = ([0; 3], HashMap::new());
        for (id, record) in &records {
            let run = self.runs.remove(id).unwrap_or_default();
            let Some(row) = decoded(id, record, &run, &mut found) else { continue };
            let next = newcomers.get(id);
            if row.replaced != next.is_some() || (row.replaced && !row.leased) {
                let what = "has a replacement in one record, and none in another";
                found.contradictions.push(format!("task {} in the order queue {what}", shown(id)));
            }
            if !row.leased && (run.iter().take(CLAIM_BYTES).any(|byte| *byte != 0) || row.has_lease_data()) {
                let what = format!("task {} in the order queue has lease data without a lease", shown(id));
                found.contradictions.push(what);
            }
            self.seek(id, record, &run, &row, &mut found);
            if row.task.key.is_some() && !row.leased && !row.held {
                of_groups.insert(id.clone(), row.task.priority.get());
            }
            let ticket = &row.task.ticket;
            let place = Packed(record).number(6)? + u64::from(record[6]);
            let claim = ticket.claim.map_or(0, rushgate_core::Fence::as_u64);
            for (latest, number) in latest.iter_mut().zip([ticket.revision.as_u64(), place, claim]) {
                *latest = number.max(*latest);
            }
            found.take(home, &row, next.is_none(), now);
        }
        for (id, record) in &newcomers {
            let Some(row) = decoded(id, record, b"", &mut found) else { continue };
            if !records.contains_key(id) {
                let what = format!("the order queue has a replacement of a missing task, {}", shown(id));
                found.contradictions.push(what);
            }
            if record[..PLACE_BYTES] != [0; PLACE_BYTES] {
                let what = format!("the replacement of task {} in the order queue has a place", shown(id));
                found.contradictions.push(what);
            }
            latest[0] = row.task.ticket.revision.as_u64().max(latest[0]);
            found.take(home, &row, true, now);
        }
        self.audit_counters(latest, &mut found)?;
        self.audit_rest(&of_groups, &mut found)?;
        // Hashes have no order, but two audits of the same records must be equal.
        found.obstacles.sort();
        found.contradictions.sort();
        Ok(found)
    }

    /// Removes a task from the index that must have it.
    fn seek(&mut self, id: &[u8], record: &[u8], run: &[u8], row: &Row, found: &mut Pending) {
        let place = [&record[..PLACE_BYTES], id].concat();
        let (name, is_there) = match () {
            () if row.leased => {
                let until = self.leases.remove(&[&run[..CLAIM_BYTES], id].concat());
                ("leased tasks", until == Some(row.lease_until.as_micros()))
            }
            () if row.held || row.task.key.is_some() => ("key groups", self.lines.remove(&place)),
            () => {
                let due = self.waiting[usize::from(row.task.priority.get())].remove(&place);
                ("waiting tasks", due == Some(row.task.ticket.due.as_micros()))
            }
        };
        if !is_there {
            let what = format!("the index of {name} in the order queue lacks task {}", shown(id));
            found.contradictions.push(what);
        }
    }

    /// Entries of indexes without a record.
    fn audit_rest(&self, of_groups: &HashMap<Vec<u8>, u8>, found: &mut Pending) -> Result<()> {
        let mut groups = 0;
        let mut strangers = self.leases.len() + self.lines.len() + self.runs.len();
        for (priority, waiting) in (0..).zip(&self.waiting) {
            for member in waiting.keys() {
                let id = member.get(PLACE_BYTES..).unwrap_or_default();
                match of_groups.get(id) {
                    Some(of) if *of == priority => groups += 1,
                    _ => strangers += 1,
                }
            }
        }
        if strangers > 0 {
            found
                .contradictions
                .push(format!("the order queue has {strangers} index entries without a task"));
        }
        if self.number("h")? != groups {
            found.contradictions.push("the order queue miscounts its waiting key groups".into());
        }
        if self.letters != self.letter_ids {
            let (has, is) = (self.letters.len(), self.letter_ids.len());
            let what = format!("the order queue has {has} dead letters, and {is} in their index");
            found.contradictions.push(what);
        }
        Ok(())
    }

    fn audit_meta(&self, name: &QueueName, found: &mut Pending) -> Result<()> {
        if self.meta.get(&b"R"[..]).is_none_or(|reserved| reserved != b"1") {
            found.contradictions.push(format!("the order queue `{name}` is not reserved"));
        }
        if self.meta.get(&b"p"[..]).is_some_and(|paused| !matches!(&paused[..], b"0" | b"1")) {
            found.contradictions.push("the order queue has an invalid pause".into());
        }
        let used = self.number("u")?;
        let is_lost = |(no, set): (u32, &Scores)| !set.is_empty() && used & (1 << no) == 0;
        if (0..).zip(&self.waiting).any(is_lost) || used >= 1 << PRIORITIES {
            found.contradictions.push("the order queue has tasks of a priority that is not in use".into());
        }
        // Limits slow orders down and lose none, but claims ignore malformed ones.
        let limits = self.meta.get(&b"l"[..]).map_or(Ok(""), |limits| str_of(limits))?;
        read_limits(limits).map(drop)
    }

    /// Compares the counters with the latest numbers that tasks have.
    fn audit_counters(&self, latest: [u64; 3], found: &mut Pending) -> Result<()> {
        for ((field, what), latest) in
            [("v", "revision"), ("a", "place"), ("c", "claim")].into_iter().zip(latest)
        {
            let counter = self.number(field)?;
            if counter < latest {
                let text =
                    format!("the latest {what} of the order queue is {counter}, but a task has {latest}");
                found.contradictions.push(text);
            }
        }
        Ok(())
    }
}

/// A record and its run.
fn decoded(id: &[u8], record: &[u8], run: &[u8], found: &mut Pending) -> Option<Row> {
    let row = str_of(id).and_then(TaskId::new).and_then(|id| unpack_row(id, Packed(record), run));
    if row.is_err() {
        found.contradictions.push(format!("task {} in the order queue is malformed", shown(id)));
    }
    row.ok()
}

impl Pending {
    /// Adds the order in a task, if this sale made it. Orders with an invalid MAC, which an order worker would refuse,
    /// are left out. Only the latest order of a reservation is pending.
    fn take(&mut self, home: &Home, row: &Row, is_latest: bool, now: Timestamp) {
        let task = &row.task;
        let order = OrderTask::unseal(&task.payload, home.spec.secret).ok();
        let Some(order) = order.filter(|order| *order.sale() == home.spec.id) else { return };
        let record = OrderRecord {
            order: &order,
            id: task.ticket.id.as_str(),
            content_type: task.payload.content_type(),
            priority: task.priority.get().into(),
            attempts: task.attempt.into(),
            max_attempts: task.max_attempts.into(),
            due: task.ticket.due,
            lease_until: row.leased.then_some(row.lease_until),
            is_cancelled: row.cancelled,
            is_bound: task.key.is_some() || task.deadline.is_some() || row.held,
        };
        self.obstacles.extend(record.obstacles(now));
        self.orders.extend(is_latest.then_some(order));
    }
}
