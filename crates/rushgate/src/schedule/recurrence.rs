use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use croner::Cron;
use jiff::tz::TimeZone;
use rushgate_core::{Error, Field, HumanDuration, Result, ScheduleId, TaskId, Timestamp};
use serde::{Deserialize, Serialize};

/// How late an occurrence may be noticed before it counts as missed.
const LATE: Duration = Duration::from_secs(60);
/// Fields of a pattern. The first and the last may be missing.
const FIELDS: [&str; 7] = ["second", "minute", "hour", "day", "month", "weekday", "year"];

/// When a schedule fires: a cron pattern in a time zone, or an interval.
///
/// A pattern has five fields, six with seconds in front, or seven with a year at the end. Nicknames such as
/// `@daily` work too.
///
/// Daylight saving time:
/// - A fixed time (one hour and one minute) that is skipped when clocks go forward moves to the next time
///   that exists. When clocks go back, it fires once.
/// - A list or a range of hours or minutes follows the local clock: skipped times do not fire, and repeated
///   times fire twice.
///
/// Intervals are counted from 1970, so that every process of a fleet computes the same occurrences.
///
/// ```
/// use std::time::Duration;
/// use rushgate::{Recurrence, Timestamp};
/// use rushgate::schedule::Missed;
///
/// let nightly = Recurrence::cron("30 3 * * *")?.in_zone("Europe/Berlin")?.missed(Missed::Once);
/// let noon = Timestamp::from_micros(1_795_348_800_000_000); // 2026-11-22T12:00:00Z
/// let next = nightly.next_after(noon).expect("there is always another night");
/// assert_eq!(next.since(noon), Duration::from_secs(14 * 3600 + 30 * 60));
///
/// let each_minute = Recurrence::every(Duration::from_secs(60))?;
/// assert_eq!(each_minute.upcoming(noon).nth(1).map(|at| at.since(noon)), Some(Duration::from_secs(120)));
/// # Ok::<_, rushgate::Error>(())
/// ```
///
/// [croner](https://docs.rs/croner) parses the patterns. [jiff](https://docs.rs/jiff) provides the time
/// zones, from the system's data or, if there is none, from its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RecurrenceSpec", into = "RecurrenceSpec")]
pub struct Recurrence {
    spec: RecurrenceSpec,
    when: When,
}

/// What happens to occurrences that passed while no scheduler ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Missed {
    /// Skip them, except one that is at most one minute old.
    Skip,
    /// Run the latest, and skip the others.
    #[default]
    Once,
    /// Run each of them.
    All,
}

/// A recurrence as JSON: a cron pattern or an interval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RecurrenceSpec {
    /// Cron pattern: `minute hour day month weekday`, with seconds in front if there are six fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// Time zone of the pattern, such as `Europe/Berlin`. Default: UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Interval in milliseconds, instead of `cron`: 1 s to 400 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_ms: Option<u64>,
    /// What happens to missed occurrences. Default: `once`.
    #[serde(default)]
    pub missed: Missed,
}

#[derive(Clone, Debug, PartialEq)]
enum When {
    Cron(Box<Cron>, TimeZone),
    Every(u64),
}

/// What a due schedule does now.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Due {
    /// Occurrences to enqueue tasks for.
    pub(super) runs: Vec<Timestamp>,
    /// Next occurrence.
    pub(super) next: Option<Timestamp>,
}

impl Recurrence {
    /// The shortest interval.
    pub const EVERY_MIN: Duration = Duration::from_secs(1);
    /// The longest interval.
    pub const EVERY_MAX: Duration = Duration::from_secs(400 * 86_400);

    /// A cron pattern: `minute hour day month weekday`, with seconds in front if there are six fields.
    /// Default time zone: UTC.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for a bad pattern, or one that never occurs.
    pub fn cron(pattern: impl AsRef<str>) -> Result<Self> {
        Self::try_from(RecurrenceSpec { cron: Some(pattern.as_ref().to_owned()), ..Default::default() })
    }

    /// An interval of 1 s to 400 days, in whole milliseconds.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) outside that range.
    pub fn every(interval: Duration) -> Result<Self> {
        let every_ms = Some(u64::try_from(interval.as_millis()).unwrap_or(u64::MAX));
        Self::try_from(RecurrenceSpec { every_ms, ..Default::default() })
    }

    /// Sets the time zone, by its IANA name such as `Europe/Berlin`.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for an unknown zone, or if the recurrence is an interval.
    pub fn in_zone(mut self, zone: impl AsRef<str>) -> Result<Self> {
        self.spec.zone = Some(zone.as_ref().to_owned());
        Self::try_from(self.spec)
    }

    /// What happens to missed occurrences. Default: the latest one runs.
    pub fn missed(mut self, missed: Missed) -> Self {
        self.spec.missed = missed;
        self
    }
}

impl TryFrom<RecurrenceSpec> for Recurrence {
    type Error = Error;
    fn try_from(spec: RecurrenceSpec) -> Result<Self> {
        let when = match (&spec.cron, spec.every_ms, &spec.zone) {
            (Some(pattern), None, zone) => When::Cron(cron(pattern)?, zone_of(zone.as_deref())?),
            (None, Some(every_ms), None) => {
                check_interval(Duration::from_millis(every_ms))?;
                When::Every(every_ms * 1_000)
            }
            (None, Some(_), Some(_)) => {
                return Err(
                    Error::invalid(Field::Every, "cannot have a time zone").hint("use a cron pattern")
                );
            }
            (Some(_), Some(_), _) => return Err(Error::either("cron", "every_ms")),
            (None, None, _) => {
                return Err(Error::invalid("the recurrence", "must be a cron pattern or an interval"));
            }
        };
        let read = Self { spec, when };
        match read.next_after(Timestamp::default()) {
            Some(_) => Ok(read),
            None => Err(Error::invalid(Field::Cron, "never matches")),
        }
    }
}

impl Recurrence {
    /// First occurrence after `after`; `None` if there is none.
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        match &self.when {
            When::Cron(cron, zone) => {
                let next = cron.find_next_occurrence(&zoned(after, zone)?, false).ok()?;
                moment(next.timestamp())
            }
            When::Every(every) => (after.as_micros() / every).checked_add(1)?.checked_mul(*every).map(at),
        }
    }

    /// Latest occurrence at or before `until`; `None` if there is none.
    pub fn latest_until(&self, until: Timestamp) -> Option<Timestamp> {
        match &self.when {
            When::Cron(cron, zone) => {
                // Occurrences of a pattern are whole seconds.
                let second = at(until.as_micros() / 1_000_000 * 1_000_000);
                let latest = cron.find_previous_occurrence(&zoned(second, zone)?, true).ok()?;
                moment(latest.timestamp())
            }
            When::Every(every) => Some(at(until.as_micros() / every * every)),
        }
    }

    /// Occurrences after `after`.
    pub fn upcoming(&self, after: Timestamp) -> impl Iterator<Item = Timestamp> + '_ {
        std::iter::successors(self.next_after(after), |at| self.next_after(*at))
    }

    /// Due occurrences of a schedule whose next occurrence is `first`, not later than `now`. At most `most`
    /// runs; the rest is due again at once.
    pub(super) fn due(&self, first: Timestamp, now: Timestamp, most: usize) -> Due {
        if self.spec.missed == Missed::All {
            let mut runs = vec![first];
            runs.extend(self.upcoming(first).take_while(|at| *at <= now).take(most - 1));
            let next = runs.last().and_then(|last| self.next_after(*last));
            return Due { runs, next };
        }
        let latest = self.latest_until(now).map_or(first, |latest| latest.max(first));
        let counts = self.spec.missed == Missed::Once || now.since(latest) <= LATE;
        Due { runs: counts.then_some(latest).into_iter().collect(), next: self.next_after(now) }
    }
}

fn cron(pattern: &str) -> Result<Box<Cron>> {
    Cron::from_str(pattern).map(Box::new).map_err(|_| {
        let reason = what_is_wrong(pattern);
        Error::invalid(Field::Cron, format_args!("`{pattern}` is invalid: {reason}"))
            .hint("use `minute hour day month weekday`, such as `30 3 * * *`")
    })
}

/// Names the first wrong field of an invalid pattern. The parser's own texts name its types.
fn what_is_wrong(pattern: &str) -> String {
    let fields: Vec<&str> = pattern.split_whitespace().collect();
    let names = match fields.len() {
        5 => &FIELDS[1..6],
        6 => &FIELDS[..6],
        7 => &FIELDS[..],
        n => return format!("it must have 5 to 7 fields, and has {n}"),
    };
    let is_wrong_alone = |at: &usize| {
        let mut others = vec!["*"; fields.len()];
        others[*at] = fields[*at];
        Cron::from_str(&others.join(" ")).is_err()
    };
    match (0..fields.len()).find(is_wrong_alone) {
        Some(at) => format!("its {} cannot be `{}`", names[at], fields[at]),
        None => "its fields do not go together".to_owned(),
    }
}

fn zone_of(name: Option<&str>) -> Result<TimeZone> {
    let Some(name) = name else { return Ok(TimeZone::UTC) };
    TimeZone::get(name).map_err(|_| {
        Error::invalid(Field::Zone, format_args!("`{name}` is unknown"))
            .hint("use an IANA time zone name, such as `Europe/Berlin`")
    })
}

fn check_interval(interval: Duration) -> Result<()> {
    if (Recurrence::EVERY_MIN..=Recurrence::EVERY_MAX).contains(&interval) {
        return Ok(());
    }
    let (least, most) = (HumanDuration(Recurrence::EVERY_MIN), HumanDuration(Recurrence::EVERY_MAX));
    let why = format_args!("is {}; it must be {least} to {most}", HumanDuration(interval));
    Err(Error::invalid(Field::Every, why))
}

const fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn zoned(of: Timestamp, zone: &TimeZone) -> Option<jiff::Zoned> {
    Some(jiff::Timestamp::try_from(of).ok()?.to_zoned(zone.clone()))
}

fn moment(of: jiff::Timestamp) -> Option<Timestamp> {
    of.try_into().ok()
}

/// Formats an occurrence as in task IDs: `2026-11-22T03:30:00Z`.
fn written(of: Timestamp) -> String {
    zoned(of, &TimeZone::UTC)
        .map_or_else(|| of.as_micros().to_string(), |zoned| zoned.timestamp().to_string())
}

/// Task ID of one occurrence.
pub(super) fn run_id(id: &ScheduleId, at: Timestamp) -> Result<TaskId> {
    TaskId::new(format!("{id}@{}", written(at)))
}

impl fmt::Display for Recurrence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.spec.cron, &self.when) {
            (Some(cron), _) => write!(f, "{cron} {}", self.spec.zone.as_deref().unwrap_or("UTC")),
            (None, When::Every(every)) => write!(f, "every {}", HumanDuration(Duration::from_micros(*every))),
            (None, When::Cron(..)) => Ok(()),
        }
    }
}

impl From<Recurrence> for RecurrenceSpec {
    fn from(recurrence: Recurrence) -> Self {
        recurrence.spec
    }
}

/// Parses the stored JSON.
impl FromStr for Recurrence {
    type Err = Error;
    fn from_str(json: &str) -> Result<Self> {
        serde_json::from_str(json)
            .map_err(|error| Error::invalid("the recurrence", format_args!("is malformed: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utc(text: &str) -> Timestamp {
        moment(text.parse().expect("a moment")).expect("it is after 1970")
    }

    fn runs(recurrence: &Recurrence, first: &str, now: &str) -> (Vec<String>, Option<String>) {
        let due = recurrence.due(utc(first), utc(now), 1_000);
        (due.runs.into_iter().map(written).collect(), due.next.map(written))
    }

    #[test]
    fn a_pattern_may_have_seconds_and_a_nickname() {
        let noon = utc("2026-11-22T12:00:00Z");
        for (pattern, next) in [
            ("30 3 * * *", "2026-11-23T03:30:00Z"),
            ("*/10 * * * * *", "2026-11-22T12:00:10Z"),
            ("@hourly", "2026-11-22T13:00:00Z"),
            ("0 0 L 2 *", "2027-02-28T00:00:00Z"),
        ] {
            let found = Recurrence::cron(pattern).unwrap().next_after(noon);
            assert_eq!(found.map(written).as_deref(), Some(next), "{pattern}");
        }
    }

    #[test]
    fn what_names_no_moment_is_refused() {
        for (pattern, why) in [
            ("", "5 to 7 fields, and has 0"),
            ("* * *", "5 to 7 fields, and has 3"),
            ("soon", "5 to 7 fields, and has 1"),
            ("61 * * * *", "its minute cannot be `61`"),
            ("* * * * * monday", "its weekday cannot be `monday`"),
            ("0 0 1 13 *", "its month cannot be `13`"),
            ("0 0 31 2 *", "never matches"),
        ] {
            let error = Recurrence::cron(pattern).expect_err(pattern);
            assert!(error.is_invalid() && error.to_string().contains(why), "{pattern}: {error}");
        }
        let hourly = || Recurrence::cron("@hourly").unwrap();
        assert!(hourly().in_zone("Europe/Nowhere").is_err_and(|error| error.is_invalid()));
        for interval in [Duration::from_millis(999), Duration::from_secs(401 * 86_400)] {
            let said = Recurrence::every(interval).unwrap_err();
            assert!(said.is_invalid() && said.to_string().ends_with("it must be 1s to 400d"), "{said}");
        }
        let each_minute = Recurrence::every(Duration::from_secs(60)).unwrap();
        assert!(each_minute.in_zone("Europe/Berlin").is_err_and(|error| error.is_invalid()));
    }

    #[test]
    fn a_night_is_one_night_when_clocks_change() {
        let nightly = Recurrence::cron("30 2 * * *").unwrap().in_zone("Europe/Berlin").unwrap();
        // Clocks go forward on 2027-03-28, from 2:00 to 3:00, and back on 2027-10-31, from 3:00 to 2:00.
        let spring: Vec<_> = nightly.upcoming(utc("2027-03-27T12:00:00Z")).take(2).map(written).collect();
        assert_eq!(spring, ["2027-03-28T01:00:00Z", "2027-03-29T00:30:00Z"]);
        let autumn: Vec<_> = nightly.upcoming(utc("2027-10-30T12:00:00Z")).take(2).map(written).collect();
        assert_eq!(autumn, ["2027-10-31T00:30:00Z", "2027-11-01T01:30:00Z"]);
    }

    #[test]
    fn an_interval_has_the_same_moments_for_everybody() {
        let each = Recurrence::every(Duration::from_secs(30)).unwrap();
        let found: Vec<_> = each.upcoming(utc("2026-11-22T12:00:07Z")).take(2).map(written).collect();
        assert_eq!(found, ["2026-11-22T12:00:30Z", "2026-11-22T12:01:00Z"]);
        assert_eq!(each.latest_until(utc("2026-11-22T12:00:30Z")).map(written).unwrap(), found[0]);
    }

    #[test]
    fn missed_moments_are_worked_off_as_was_said() {
        let hourly = Recurrence::cron("0 * * * *").unwrap();
        let (first, late) = ("2026-11-22T09:00:00Z", "2026-11-22T12:30:00Z");
        let next = Some("2026-11-22T13:00:00Z".to_owned());
        let once = runs(&hourly, first, late);
        assert_eq!(once, (vec!["2026-11-22T12:00:00Z".to_owned()], next.clone()));
        assert_eq!(runs(&hourly.clone().missed(Missed::Skip), first, late), (Vec::new(), next.clone()));
        let all = runs(&hourly.clone().missed(Missed::All), first, late);
        assert_eq!((all.0.len(), &all.0[0], &all.1), (4, &first.to_owned(), &next));
        for missed in [Missed::Skip, Missed::Once, Missed::All] {
            let on_time =
                runs(&hourly.clone().missed(missed), "2026-11-22T12:00:00Z", "2026-11-22T12:00:02Z");
            assert_eq!(on_time, (vec!["2026-11-22T12:00:00Z".to_owned()], next.clone()), "{missed:?}");
        }
    }

    #[test]
    fn more_missed_moments_than_one_step_takes_are_left_for_the_next() {
        let each = Recurrence::every(Duration::from_secs(1)).unwrap().missed(Missed::All);
        let due = each.due(utc("2026-11-22T12:00:00Z"), utc("2026-11-22T13:00:00Z"), 1_000);
        assert_eq!(due.runs.len(), 1_000);
        assert_eq!(due.next.map(written).as_deref(), Some("2026-11-22T12:16:40Z"));
    }

    #[test]
    fn a_recurrence_is_read_as_it_was_written() {
        let each = Recurrence::every(Duration::from_secs(90)).unwrap();
        let nightly = Recurrence::cron("30 3 * * *").unwrap().in_zone("Asia/Shanghai").unwrap();
        for recurrence in [each, nightly.missed(Missed::All)] {
            let json = serde_json::to_string(&recurrence).unwrap();
            assert_eq!(json.parse::<Recurrence>().unwrap(), recurrence, "{json}");
        }
        assert!("{\"every_ms\":1}".parse::<Recurrence>().is_err());
        assert!("{\"cron\":\"@daily\",\"missed\":\"once\",\"more\":1}".parse::<Recurrence>().is_err());
    }
}
