//! A task to enqueue, as JSON: the body of an HTTP request and a line of an export.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    ContentType, DeadLetter, Due, Error, Field, IfDead, Kind, NewTask, OnDuplicate, Payload, PayloadSpec,
    Priority, Result, TaskId, TaskInfo, TaskKey, Timestamp, TraceParent,
};

/// What happens when a live task with the same ID exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnDuplicateSpec {
    /// The existing task stays unchanged.
    #[default]
    Keep,
    /// The new task replaces the existing one. If that one is running, the new one runs after it.
    Replace,
    /// The existing task stays and is due at the earlier of the two times.
    Earliest,
    /// Like `replace`, but due no later than `max_wait_ms` after the first task of the burst.
    Debounce,
}

/// A task to enqueue.
///
/// [`NewTask`] has the meaning and the limits of each field.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("not" = { "anyOf": [
    {
        "required": ["delay_ms", "due_us"],
        "properties": { "delay_ms": { "type": "integer" }, "due_us": { "type": "integer" } },
    },
    {
        "required": ["deadline_after_ms", "deadline_us"],
        "properties": { "deadline_after_ms": { "type": "integer" }, "deadline_us": { "type": "integer" } },
    },
] })))]
#[serde(deny_unknown_fields)]
pub struct TaskSpec {
    /// ID of the task. A queue holds at most one live task per ID.
    pub id: TaskId,
    /// Payload as JSON, or as a string if `content_type` is not JSON. At most 1 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<serde_json::Value>"))]
    pub payload: Option<Box<RawValue>>,
    /// Payload in base64, instead of `payload`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<String>,
    /// Media type of the payload. Default: `application/json` for `payload`, `application/octet-stream` for
    /// `payload_base64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<ContentType>,
    /// Kind of work, by which a worker selects the handler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// W3C `traceparent` of the span that enqueues the task. Over HTTP the default is that of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<TraceParent>,
    /// Delay before the task is due, in milliseconds: at most 400 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(max = 34_560_000_000_u64)))]
    pub delay_ms: Option<u64>,
    /// When the task is due, instead of `delay_ms`.
    #[serde(default, rename = "due_us", skip_serializing_if = "Option::is_none")]
    pub due: Option<Timestamp>,
    /// Deadline, in milliseconds from now: at most 400 days, and later than the due time. A task not started by then
    /// becomes a dead letter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 34_560_000_000_u64)))]
    pub deadline_after_ms: Option<u64>,
    /// Deadline, instead of `deadline_after_ms`.
    #[serde(default, rename = "deadline_us", skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// Priority, from 0 (first) to 9 (last). Default: 5.
    #[serde(default)]
    pub priority: Priority,
    /// What happens when a live task with the same ID exists. Default: `keep`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_duplicate: OnDuplicateSpec,
    /// With `debounce`: the longest time that a burst may postpone the run, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_wait_ms: Option<u64>,
    /// Maximum number of attempts, 1 to 1,000, before the task becomes a dead letter. Default: 20.
    #[serde(default = "max_attempts")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1_000)))]
    pub max_attempts: u32,
    /// How long the ID stays unique, in milliseconds from now, even after the task is done: at most 400 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 34_560_000_000_u64)))]
    pub unique_for_ms: Option<u64>,
    /// Key that tasks share, such as a tenant. Tasks of a key run in order; keys take turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<TaskKey>,
    /// IDs of tasks in this queue that must finish first: at most 1,000.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 1_000)))]
    pub after: Vec<TaskId>,
    /// What happens when a task in `after` becomes a dead letter. Default: `wait`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub if_dead: IfDead,
    /// Whether the task is the callback of an open batch: it takes members and waits until the batch is closed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub held_open: bool,
    /// ID of the open batch callback that this task is a member of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part_of: Option<TaskId>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn max_attempts() -> u32 {
    NewTask::MAX_ATTEMPTS
}

impl TryFrom<TaskSpec> for NewTask {
    type Error = Error;
    fn try_from(spec: TaskSpec) -> Result<Self> {
        let due = match (spec.delay_ms, spec.due) {
            (Some(_), Some(_)) => return Err(Error::either("delay_ms", "due_us")),
            (Some(delay), None) => Due::After(Duration::from_millis(delay)),
            (None, at) => at.map_or(Due::Now, Due::At),
        };
        let deadline = match (spec.deadline_after_ms, spec.deadline) {
            (Some(_), Some(_)) => return Err(Error::either("deadline_after_ms", "deadline_us")),
            (Some(time), None) => Some(Due::After(Duration::from_millis(time))),
            (None, at) => at.map(Due::At),
        };
        let on_duplicate = match (spec.on_duplicate, spec.max_wait_ms) {
            (OnDuplicateSpec::Debounce, Some(wait)) => {
                OnDuplicate::Debounce { max_wait: Duration::from_millis(wait) }
            }
            (OnDuplicateSpec::Debounce, None) => {
                return Err(Error::invalid(Field::MaxWait, "is required by debounce"));
            }
            (_, Some(_)) => return Err(Error::invalid(Field::MaxWait, "applies to debounce only")),
            (OnDuplicateSpec::Keep, None) => OnDuplicate::Keep,
            (OnDuplicateSpec::Replace, None) => OnDuplicate::Replace,
            (OnDuplicateSpec::Earliest, None) => OnDuplicate::Earliest,
        };
        let TaskSpec { payload, payload_base64, content_type, kind, traceparent, .. } = spec;
        let payload = PayloadSpec { payload, payload_base64, content_type, kind, traceparent };
        Ok(Self {
            due,
            priority: spec.priority,
            on_duplicate,
            max_attempts: spec.max_attempts,
            key: spec.key,
            deadline,
            unique_for: spec.unique_for_ms.map(Duration::from_millis),
            after: spec.after,
            if_dead: spec.if_dead,
            held_open: spec.held_open,
            part_of: spec.part_of,
            ..Self::new(spec.id, Payload::try_from(payload)?)
        })
    }
}

impl TaskSpec {
    /// The specification that enqueues the same task again, to the byte, as one line of JSON.
    fn of(id: &TaskId, payload: &Payload, priority: Priority, max_attempts: u32) -> Self {
        let exact = PayloadSpec::exact(payload);
        Self {
            id: id.clone(),
            payload: exact.payload,
            payload_base64: exact.payload_base64,
            content_type: exact.content_type,
            kind: exact.kind,
            traceparent: exact.traceparent,
            delay_ms: None,
            due: None,
            deadline_after_ms: None,
            deadline: None,
            priority,
            on_duplicate: OnDuplicateSpec::Keep,
            max_wait_ms: None,
            max_attempts,
            unique_for_ms: None,
            key: None,
            after: Vec::new(),
            if_dead: IfDead::default(),
            held_open: false,
            part_of: None,
        }
    }
}

impl From<&TaskInfo> for TaskSpec {
    /// Leaves out what the task waits for: another queue may not have those tasks.
    fn from(info: &TaskInfo) -> Self {
        let task = &info.task;
        Self {
            due: Some(task.ticket.due),
            key: task.key.clone(),
            deadline: task.deadline,
            ..Self::of(&task.ticket.id, &task.payload, task.priority, task.max_attempts)
        }
    }
}

impl From<&DeadLetter> for TaskSpec {
    /// Due at once.
    fn from(dead: &DeadLetter) -> Self {
        let key = dead.key.clone();
        Self { key, ..Self::of(&dead.id, &dead.payload, dead.priority, dead.max_attempts) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<NewTask> {
        serde_json::from_str::<TaskSpec>(json).unwrap().try_into()
    }

    #[test]
    fn a_task_survives_one_line_of_json_to_the_byte() {
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse().unwrap();
        for (media, bytes) in [
            ("application/json", &b"{\"a\":  1.0}"[..]),
            ("application/json", b"{\n\"a\": 1}"),
            ("application/json", b" 1 "),
            ("application/json", b"{"),
            ("text/plain;charset=utf-8", b"one\ntwo \"three\""),
            ("text/plain", b"\xff"),
            ("image/png", b"\x00\x01"),
            ("application/octet-stream", b""),
        ] {
            let payload = Payload::new(ContentType::new(media).unwrap(), bytes.to_vec()).unwrap();
            let payload = payload.with_kind(&Kind::new("mail:welcome").unwrap()).unwrap();
            let payload = payload.with_traceparent(&parent).unwrap();
            let spec = TaskSpec::of(&TaskId::new("a").unwrap(), &payload, Priority::new(7).unwrap(), 3);
            let line = serde_json::to_string(&spec).unwrap();
            assert!(!line.contains('\n'), "{line}");
            let task = read(&line).unwrap();
            assert_eq!((task.payload, task.priority.get(), task.max_attempts), (payload, 7, 3), "{line}");
        }
    }

    #[test]
    fn fields_that_exclude_each_other_are_refused_by_name() {
        for (fields, name) in [
            ("\"delay_ms\": 1, \"due_us\": 1", "delay_ms"),
            ("\"deadline_after_ms\": 1, \"deadline_us\": 1", "deadline_after_ms"),
            ("\"on_duplicate\": \"debounce\"", "max_wait_ms"),
            ("\"max_wait_ms\": 1", "max_wait_ms"),
            ("\"payload\": 1, \"payload_base64\": \"\"", "payload"),
            ("\"payload_base64\": \"?\"", "payload_base64"),
            ("\"payload\": 1, \"content_type\": \"text/plain\"", "payload"),
        ] {
            let error = read(&format!("{{\"id\": \"a\", {fields}}}")).unwrap_err();
            assert_eq!(error.field(), Some(name), "{error}");
        }
    }
}
