//! The limits of every request, checked in one place before anything is sent. Every backend refuses the same requests
//! with the same messages.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::{
    Acquire, Claim, Completion, Due, Error, Failure, Field, Fire, Follow, Heartbeat, HumanDuration, Load,
    MAX_LINES, MAX_UNITS_PER_LINE, NewSchedule, NewTask, OnDuplicate, PastRun, QueueLimits, Rate, Relay,
    Reserve, Result, Retention, Retry, RoomRules, SaleSpec, Selection, SkuSpec, StockChange, Subject, Switch,
    TaskProgress, TaskRelease, Timestamp, UnitChoice,
};

/// Maximum length of an owner's label and of a worker's name, in bytes.
const LABEL_MAX: usize = 200;

/// Checks that a number is in its range.
pub fn check_range<'a>(what: impl Into<Subject<'a>>, n: u64, min: u64, max: u64) -> Result<()> {
    if (min..=max).contains(&n) {
        return Ok(());
    }
    Err(Error::invalid(what, format_args!("is {n}; it must be {min} to {max}")))
}

/// Checks the size of a batch: 1 to 1,000.
pub fn check_batch(n: usize) -> Result<()> {
    check_range("the batch size", n as u64, 1, Claim::BATCH_MAX as u64)
}

/// Checks a batch and each of its items.
pub(crate) fn check_all<T>(items: &[T], check: impl Fn(&T) -> Result<()>) -> Result<()> {
    check_batch(items.len())?;
    items.iter().try_for_each(check)
}

/// Checks a batch of tasks. Together they may wait for at most 10,000 others.
pub fn check_tasks(tasks: &[NewTask]) -> Result<()> {
    check_batch(tasks.len())?;
    tasks.iter().try_for_each(NewTask::check)?;
    let n = tasks.iter().map(|task| task.after.len() as u64).sum();
    check_range(Field::After, n, 0, 10_000)
}

/// Checks that a duration does not exceed its maximum.
pub fn check_duration<'a>(what: impl Into<Subject<'a>>, duration: Duration, max: Duration) -> Result<()> {
    if duration <= max {
        return Ok(());
    }
    Err(Error::invalid(
        what,
        format_args!("is {}; it must be at most {}", HumanDuration(duration), HumanDuration(max)),
    ))
}

/// Checks that a period is 1 ms to 400 days.
fn check_period<'a>(what: impl Into<Subject<'a>>, period: Duration) -> Result<()> {
    if period < Duration::from_millis(1) {
        return Err(Error::invalid(what, "must be at least 1 ms"));
    }
    check_duration(what, period, NewTask::DELAY_MAX)
}

/// Checks the units of a SKU, 1 to 10,000,000, and its purchase limit per buyer, 1 to 10,000. Fails with
/// [`is_invalid`](Error::is_invalid).
pub fn check_stock(units: u32, per_buyer: u32) -> Result<()> {
    check_range(Field::Units, units.into(), 1, SaleSpec::UNITS_MAX.into())?;
    check_range(Field::PerBuyer, per_buyer.into(), 1, SaleSpec::PER_BUYER_MAX.into())
}

/// Checks the SKUs of a sale: 1 to 1,000, none of them twice, each as [`check_stock`] does. Fails with
/// [`is_invalid`](Error::is_invalid).
pub fn check_skus(skus: &[SkuSpec]) -> Result<()> {
    check_range(Field::Skus, skus.len() as u64, 1, SaleSpec::SKUS_MAX as u64)?;
    let mut seen = BTreeSet::new();
    skus.iter().try_for_each(|sku| {
        check_stock(sku.units, sku.per_buyer)?;
        match seen.insert(&sku.sku) {
            true => Ok(()),
            false => Err(Error::invalid("the SKU", format_args!("`{}` is listed twice", sku.sku))),
        }
    })
}

/// Checks a text that people read: at most 200 bytes, without control characters.
pub fn check_label<'a>(what: impl Into<Subject<'a>>, text: &str) -> Result<()> {
    if text.len() > LABEL_MAX {
        return Err(Error::invalid(
            what,
            format_args!("has {} bytes; at most {LABEL_MAX} are allowed", text.len()),
        ));
    }
    match text.chars().find(|c| c.is_control()) {
        Some(c) => Err(Error::invalid(what, format_args!("contains the control character {c:?}"))),
        None => Ok(()),
    }
}

impl Acquire {
    /// Checks the documented limits; fails with [`is_invalid`](Error::is_invalid).
    pub fn check(&self) -> Result<()> {
        check_duration("the wait", self.wait, Self::WAIT_MAX)?;
        check_label(Field::Label, &self.owner.label)?;
        check_label("the owner host", &self.owner.host)
    }
}

impl Due {
    /// Checks the documented limits; fails with [`is_invalid`](Error::is_invalid).
    pub fn check(self) -> Result<()> {
        match self {
            Self::After(delay) => check_duration(Field::Delay, delay, NewTask::DELAY_MAX),
            Self::Now | Self::At(_) => Ok(()),
        }
    }
}

impl NewTask {
    /// Checks the documented limits; fails with [`is_invalid`](Error::is_invalid).
    pub fn check(&self) -> Result<()> {
        self.due.check()?;
        if let OnDuplicate::Debounce { max_wait } = self.on_duplicate {
            check_duration(Field::MaxWait, max_wait, Self::DELAY_MAX)?;
        }
        match self.deadline {
            Some(Due::Now) => {
                return Err(Error::invalid(Field::Deadline, "is now; it must be in the future"));
            }
            Some(Due::After(time)) => check_duration(Field::Deadline, time, Self::DELAY_MAX)?,
            Some(Due::At(_)) | None => {}
        }
        if let Some(period) = self.unique_for {
            check_period(Field::UniqueFor, period)?;
        }
        self.check_waits()?;
        check_range(Field::MaxAttempts, self.max_attempts.into(), 1, 1_000)
    }

    fn check_waits(&self) -> Result<()> {
        if self.after.len() > Self::AFTER_MAX {
            check_range("the number of dependencies", self.after.len() as u64, 0, Self::AFTER_MAX as u64)?;
        }
        if self.after.contains(&self.id) || self.part_of.as_ref() == Some(&self.id) {
            return Err(Error::invalid("the task", format_args!("`{}` cannot depend on itself", self.id)));
        }
        if self.is_to_wait() && self.on_duplicate != OnDuplicate::Keep {
            return Err(Error::invalid(
                "a task with dependencies",
                "or an open batch must keep the existing task if its ID is live",
            ));
        }
        if self.part_of.is_some() && !self.after.is_empty() {
            return Err(Error::invalid("a batch member", "cannot have dependencies"));
        }
        Ok(())
    }

    /// Checks that the deadline is later than the due time, in a step at `now`. A store checks this before it changes
    /// anything.
    pub fn check_at(&self, now: Timestamp) -> Result<()> {
        match self.deadline {
            Some(deadline) if deadline.at(now) <= self.due.at(now).max(now) => {
                Err(Error::invalid(Field::Deadline, "must be later than the due time"))
            }
            _ => Ok(()),
        }
    }
}

/// Maximum concurrency of a queue or a key.
const AT_A_TIME_MAX: u64 = 1_000_000;

impl QueueLimits {
    /// Checks the documented limits; fails with [`is_invalid`](Error::is_invalid).
    pub fn check(&self) -> Result<()> {
        let all = [self.concurrency, self.per_key.concurrency];
        for concurrency in all.into_iter().flatten() {
            check_range(Field::Concurrency, concurrency.into(), 1, AT_A_TIME_MAX)?;
        }
        if self.per_key.fifo && self.per_key.concurrency.is_some_and(|most| most > 1) {
            return Err(Error::invalid("the concurrency per key", "must be 1 if the order per key is FIFO"));
        }
        [self.rate, self.per_key.rate].into_iter().flatten().try_for_each(|rate| rate.check())?;
        if let Some(events) = self.events {
            check_range(Field::Events, events.into(), 1, Self::EVENTS_MAX.into())?;
        }
        self.retention.map_or(Ok(()), |retention| retention.check())
    }
}

impl Retention {
    /// Checks the documented limits; fails with [`is_invalid`](Error::is_invalid).
    pub fn check(&self) -> Result<()> {
        check_period(Field::RetentionAge, self.age)?;
        check_range(Field::RetentionCount, self.count.into(), 1, Self::COUNT_MAX.into())
    }
}

impl Completion {
    /// Checks the documented limits; fails with [`is_invalid`](Error::is_invalid).
    pub fn check(&self) -> Result<()> {
        let Some(result) = self.result.as_ref().filter(|result| result.bytes().len() > Self::RESULT_MAX)
        else {
            return Ok(());
        };
        let (has, most) = (result.bytes().len(), Self::RESULT_MAX);
        Err(Error::invalid(Field::Result, format_args!("has {has} bytes; at most {most} are allowed"))
            .hint("store the result elsewhere and return a reference to it"))
    }
}

impl Heartbeat {
    /// Checks the documented limits; fails with [`is_invalid`](Error::is_invalid).
    pub fn check(&self) -> Result<()> {
        self.progress.as_ref().map_or(Ok(()), TaskProgress::check)
    }
}

impl TaskProgress {
    /// Maximum length of a note, in bytes.
    pub const NOTE_MAX: usize = LABEL_MAX;

    /// Checks the documented limits; fails with [`is_invalid`](Error::is_invalid).
    pub fn check(&self) -> Result<()> {
        check_range(Field::Percent, self.percent.unwrap_or(0).into(), 0, 100)?;
        check_label(Field::Note, &self.note)
    }
}

impl Rate {
    /// Checks the documented limits; fails with [`is_invalid`](Error::is_invalid).
    pub fn check(&self) -> Result<()> {
        check_range(Field::Rate, self.n.into(), 1, Self::MAX.into())?;
        check_period(Field::RatePeriod, self.per)
    }
}

impl RoomRules {
    /// Checks the documented limits; fails with [`is_invalid`](Error::is_invalid).
    pub fn check(&self) -> Result<()> {
        self.rate.check()?;
        check_duration(Field::RatePeriod, self.rate.per, Self::PER_MAX)?;
        if self.pass < Self::PASS_MIN {
            let why = format_args!("is {}; it must be at least 1 s", HumanDuration(self.pass));
            return Err(Error::invalid(Field::Pass, why));
        }
        check_duration(Field::Pass, self.pass, Self::PASS_MAX)?;
        let from = self.from.unwrap_or_default();
        check_range("the start of admission in µs", from.as_micros(), 0, Self::FROM_MAX_US)
    }
}

impl NewSchedule {
    /// Checks the documented limits; fails with [`is_invalid`](Error::is_invalid).
    pub fn check(&self) -> Result<()> {
        let length = |text: &str| text.len() as u64;
        check_range("the length of the schedule ID", length(self.id.as_str()), 1, Self::ID_MAX as u64)?;
        check_range(
            "the length of the recurrence",
            length(&self.recurrence),
            1,
            Self::RECURRENCE_MAX as u64,
        )?;
        check_range(Field::MaxAttempts, self.max_attempts.into(), 1, 1_000)
    }
}

impl Fire {
    /// Checks the documented limits; fails with [`is_invalid`](Error::is_invalid).
    pub fn check(&self) -> Result<()> {
        check_range("the number of runs", self.runs.len() as u64, 0, Claim::BATCH_MAX as u64)
    }
}

impl Relay {
    /// Checks the documented limits; fails with [`is_invalid`](Error::is_invalid).
    pub fn check(&self) -> Result<()> {
        check_range("the number of tasks", self.tasks.len() as u64, 0, Claim::BATCH_MAX as u64)?;
        let mut least = 1;
        for (number, task) in &self.tasks {
            check_range("the task number", *number, least, Self::NUMBER_MAX)?;
            task.check()?;
            if task.is_to_wait() || task.part_of.is_some() {
                return Err(Error::invalid(
                    "an outbox task",
                    "cannot have dependencies or belong to a batch",
                ));
            }
            least = number + 1;
        }
        Ok(())
    }
}

/// Checks counts of attempts by answer.
pub(crate) fn check_attempts(answers: &[(String, u64)]) -> Result<()> {
    check_range("the number of answers", answers.len() as u64, 0, 32)?;
    for (answer, n) in answers {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if !(1..=40).contains(&answer.len()) || !answer.bytes().all(is_plain) {
            return Err(Error::invalid(
                "the answer",
                format_args!(
                    "must be 1 to 40 lower-case letters, digits and underscores, not `{}`",
                    answer.escape_debug()
                ),
            ));
        }
        check_range("the number of attempts", *n, 0, (1 << 53) - 1)?;
    }
    Ok(())
}

impl Claim {
    /// Checks the documented limits; fails with [`is_invalid`](Error::is_invalid).
    pub fn check(&self) -> Result<()> {
        check_batch(self.n as usize)?;
        check_label(Field::Worker, &self.worker)
    }
}

impl Retry {
    /// Maximum length of a kept error text, in bytes.
    pub const ERROR_MAX: usize = 2_000;

    /// Checks the documented limits; fails with [`is_invalid`](Error::is_invalid).
    pub fn check(&self) -> Result<()> {
        check_duration(Field::Delay, self.delay, NewTask::DELAY_MAX)
    }

    /// The error text, truncated at a character boundary to the length that is kept.
    pub fn error_cut(&self) -> &str {
        &self.error[..self.error.floor_char_boundary(Self::ERROR_MAX)]
    }
}

impl PastRun {
    /// An error text, truncated at a character boundary to the length that is kept of a past run.
    pub fn cut(error: &str) -> &str {
        &error[..error.floor_char_boundary(Self::ERROR_MAX)]
    }
}

impl TaskRelease {
    /// Checks the documented limits; fails with [`is_invalid`](Error::is_invalid).
    pub fn check(&self) -> Result<()> {
        check_duration(Field::Delay, self.delay, NewTask::DELAY_MAX)
    }
}

impl Selection {
    /// Checks the documented limits; fails with [`is_invalid`](Error::is_invalid).
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Ids(ids) => check_batch(ids.len()),
            Self::All => Ok(()),
        }
    }
}

impl SaleSpec {
    /// Checks the documented limits; fails with [`is_invalid`](Error::is_invalid).
    pub fn check(&self) -> Result<()> {
        check_skus(&self.skus)?;
        self.check_metadata()?;
        match (self.opens_at, self.closes_at) {
            (Some(opens), Some(closes)) if closes <= opens => {
                Err(Error::invalid("the closing time", "must be after the opening time"))
            }
            _ => Ok(()),
        }
    }

    fn check_metadata(&self) -> Result<()> {
        let (text, most) = (&self.metadata, Self::METADATA_MAX);
        if text.len() > most {
            let says = format_args!("has {} bytes; at most {most} are allowed", text.len());
            return Err(Error::invalid(Field::Metadata, says));
        }
        if !text.is_empty()
            && serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text).is_err()
        {
            return Err(Error::invalid(Field::Metadata, "is not a JSON object"));
        }
        Ok(())
    }
}

impl Reserve {
    /// Checks the documented limits; fails with [`is_invalid`](Error::is_invalid).
    pub fn check(&self) -> Result<()> {
        check_range(Field::Lines, self.lines.len() as u64, 1, MAX_LINES as u64)?;
        for (at, line) in self.lines.iter().enumerate() {
            check_range(Field::Quantity, line.quantity.into(), 1, MAX_UNITS_PER_LINE.into())?;
            if self.lines[..at].iter().any(|other| other.sku == line.sku) {
                return Err(Error::invalid("the SKU", format_args!("`{}` is in two lines", line.sku)));
            }
            if self.choice == UnitChoice::SameNumber && line.quantity != 1 {
                return Err(Error::invalid(
                    Field::Quantity,
                    "must be 1 if all lines must have the same unit number",
                ));
            }
        }
        Ok(())
    }
}

impl Load {
    /// Checks the documented limits; fails with [`is_invalid`](Error::is_invalid).
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Orders(orders) => {
                check_range("the number of orders", orders.len() as u64, 0, Self::ORDERS_MAX as u64)
            }
            Self::Free(_, units) => {
                check_range("the number of units", units.len() as u64, 1, Self::UNITS_MAX as u64)
            }
            Self::Withdrawn(_, ranges) => {
                check_range("the number of ranges", ranges.len() as u64, 1, Self::UNITS_MAX as u64)
            }
        }
    }
}

impl Switch {
    /// Checks the documented limits; fails with [`is_invalid`](Error::is_invalid).
    pub fn check(&self) -> Result<()> {
        check_duration("the receipts-first period", self.grace, Self::GRACE_MAX)?;
        check_range(Field::Skus, self.stock.len() as u64, 1, SaleSpec::SKUS_MAX as u64)?;
        self.stock.iter().try_for_each(|sku| {
            check_range(Field::Units, sku.total.into(), 1, SaleSpec::UNITS_MAX.into())?;
            let without_place = u64::from(sku.handed_out) + u64::from(sku.ahead);
            check_range("the number of units that are not free", without_place, 0, sku.total.into())
        })
    }
}

impl Follow {
    /// Checks the documented limits; fails with [`is_invalid`](Error::is_invalid).
    pub fn check(&self) -> Result<()> {
        check_range("the number of events", self.n.into(), 0, Self::EVENTS_MAX.into())?;
        let most = u64::from(Self::EVENTS_MAX + Self::RETRIES_MAX);
        check_range("the number of failed entries", self.failed.len() as u64, 0, most)?;
        check_range(
            "the number of recovered entries",
            self.recovered.len() as u64,
            0,
            Self::RETRIES_MAX.into(),
        )?;
        self.failed.iter().try_for_each(|failure| {
            check_duration("the delay of a retry", failure.retry_after, Failure::RETRY_MAX)
        })
    }
}

impl StockChange {
    /// Checks the documented limits; fails with [`is_invalid`](Error::is_invalid).
    pub fn check(&self) -> Result<()> {
        let (Self::Add(n) | Self::Withdraw(n)) = self;
        check_range("the number of units", (*n).into(), 1, SaleSpec::UNITS_MAX.into())
    }
}
