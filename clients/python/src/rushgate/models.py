"""Data that calls take and return.

Times that end in `_us` are µs since 1970 on the store's clock. Durations are in seconds. Fields and outcomes have the
names of the HTTP API.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Sequence, Tuple, Type, TypeVar

from . import _check as check
from . import contract
from ._check import Seconds
from ._content import Content, encode, from_fields

M = TypeVar("M")
Fields = Dict[str, Any]


def _pick(model: Type[M], fields: Fields, **more: Any) -> M:
    """Makes a model of the fields that it has. Fields of a newer server are ignored."""
    known = model.__dataclass_fields__  # type: ignore[attr-defined]
    return model(**{**{name: value for name, value in fields.items() if name in known}, **more})


def _content_of(fields: Fields) -> Content:
    found = fields.get("content")
    return found if found is not None else from_fields(fields)


# Locks


@dataclass(frozen=True)
class Holder:
    """The holder of a lock."""

    host: str
    pid: int
    label: str
    fence: int
    since_us: int
    lease_until_us: int


@dataclass(frozen=True)
class Waiter:
    """A waiter for a lock. The one at position 1 is next."""

    host: str
    pid: int
    label: str
    position: int
    since_us: int
    wait_until_us: int


@dataclass(frozen=True)
class LockState:
    """The holder of a lock and its wait queue."""

    name: str
    holder: Optional[Holder]
    waiters: List[Waiter]

    @classmethod
    def of(cls, name: str, fields: Fields) -> LockState:
        return cls(name, holder_of(fields), [_pick(Waiter, waiter) for waiter in fields.get("waiters", [])])


def holder_of(fields: Fields) -> Optional[Holder]:
    holder = fields.get("holder")
    return None if holder is None else _pick(Holder, holder)


# Queues


@dataclass
class NewTask:
    """A task to enqueue.

    The defaults: due at once, priority 5, 20 attempts, no deadline. Durations are in seconds, or `timedelta`.
    """

    id: str
    """ID of the task. A queue has at most one live task per ID."""
    payload: Any = b""
    """At most 1 MiB. `bytes` are stored as they are. Anything else becomes JSON, unless `content_type` differs."""
    content_type: Optional[str] = None
    """Media type. Default: `application/json`, or `application/octet-stream` for bytes."""
    kind: Optional[str] = None
    """Kind of work, by which a worker selects the handler: 1 to 80 ASCII letters, digits and `. _ : / -`."""
    traceparent: Optional[str] = None
    """W3C `traceparent` of the span that enqueues the task."""
    delay: Optional[Seconds] = None
    """Delay before the task is due: 0 to 400 days."""
    due_us: Optional[int] = None
    """When the task is due, instead of `delay`."""
    deadline: Optional[Seconds] = None
    """Deadline from now, later than the due time. A task not started by then becomes a dead letter."""
    deadline_us: Optional[int] = None
    """Deadline, instead of `deadline`."""
    priority: int = contract.DEFAULT_PRIORITY
    """0 (first) to 9 (last)."""
    max_attempts: int = contract.DEFAULT_ATTEMPTS
    """Maximum number of attempts before the task becomes a dead letter: 1 to 1,000."""
    on_duplicate: str = "keep"
    """What happens if a live task has the ID: `keep`, `replace`, `earliest` or `debounce`."""
    max_wait: Optional[Seconds] = None
    """With `debounce`, which requires it: the longest time that a burst may postpone the run."""
    unique_for: Optional[Seconds] = None
    """How long the ID stays unique from now, even after the task is done: 1 ms to 400 days."""
    key: Optional[str] = None
    """Key that tasks share, such as a tenant. Tasks of a key run in order, and keys take turns."""
    after: Sequence[str] = ()
    """IDs of tasks in this queue that must finish first: at most 1,000."""
    if_dead: str = "wait"
    """What happens if a task in `after` becomes a dead letter: `wait`, `fail` or `run`."""
    held_open: bool = False
    """Whether the task is the callback of an open batch."""
    part_of: Optional[str] = None
    """ID of the open batch that the task is a member of."""


@dataclass(frozen=True)
class EncodedTask:
    """A task to enqueue: checked, with its durations in µs."""

    id: str
    content: Content
    delay: Optional[int]
    due_us: Optional[int]
    deadline: Optional[int]
    deadline_us: Optional[int]
    priority: int
    max_attempts: int
    on_duplicate: str
    max_wait: Optional[int]
    unique_for: Optional[int]
    key: Optional[str]
    after: List[str]
    if_dead: str
    held_open: bool
    part_of: Optional[str]


def _exclude(first: str, is_first: bool, second: str, is_second: bool) -> None:
    if is_first and is_second:
        raise check.invalid(first, f"cannot be set together with {second}")


def encode_task(task: NewTask) -> EncodedTask:
    """Checks and encodes a task."""
    if not isinstance(task, NewTask):
        raise check.invalid("tasks", "must contain NewTask objects")
    _exclude("delay", task.delay is not None, "due_us", task.due_us is not None)
    _exclude("deadline", task.deadline is not None, "deadline_us", task.deadline_us is not None)
    _exclude("after", bool(task.after), "part_of", task.part_of is not None)
    is_debounce = check.choice("on_duplicate", task.on_duplicate, contract.ON_DUPLICATE) == "debounce"
    if is_debounce != (task.max_wait is not None):
        raise check.invalid("max_wait", "is required by debounce" if is_debounce else "applies to debounce only")
    return EncodedTask(
        id=check.name("id", task.id),
        content=encode(task.payload, task.content_type, task.kind, task.traceparent),
        delay=check.optional_micros("delay", task.delay, contract.DELAY_US),
        due_us=check.moment("due_us", task.due_us),
        deadline=check.optional_micros("deadline", task.deadline, contract.DELAY_US),
        deadline_us=check.moment("deadline_us", task.deadline_us),
        priority=check.whole("priority", task.priority, contract.PRIORITY),
        max_attempts=check.whole("max_attempts", task.max_attempts, contract.ATTEMPTS),
        on_duplicate=task.on_duplicate,
        max_wait=check.optional_micros("max_wait", task.max_wait, contract.DELAY_US),
        unique_for=check.optional_micros("unique_for", task.unique_for, contract.PERIOD_US),
        key=None if task.key is None else check.name("key", task.key),
        after=[check.name("after", other) for other in check.entries("after", task.after, contract.AFTER)],
        if_dead=check.choice("if_dead", task.if_dead, contract.IF_DEAD),
        held_open=bool(task.held_open),
        part_of=None if task.part_of is None else check.name("part_of", task.part_of),
    )


@dataclass(frozen=True)
class Enqueued:
    """Outcome of an enqueue.

    `added`, `kept`, `replaced` and `displaced`: the task is in the queue. `full`, `dropped`, `recent` and `refused`: it
    is not.
    """

    outcome: str
    revision: Optional[int] = None
    bound: Optional[int] = None
    """Capacity of the queue, if it is full."""
    dropped: Optional[str] = None
    """ID of the task that was dropped for this one, if it was `displaced`."""
    until_us: Optional[int] = None
    """End of the uniqueness window, if the ID is `recent`."""
    task: Optional[str] = None
    """ID of the dependency or batch for which the task was `refused`."""
    why: Optional[str] = None
    """Why the task was `refused`: `unknown`, `not_open` or `taken`."""

    @property
    def is_live(self) -> bool:
        """Whether the task is in the queue."""
        return self.outcome in ("added", "kept", "replaced", "displaced")

    @classmethod
    def of(cls, fields: Fields) -> Enqueued:
        return _pick(cls, fields)


@dataclass(frozen=True)
class TaskRecord:
    """A task as it was read or claimed."""

    id: str
    content: Content
    ticket: str
    """Proof of the claim."""
    revision: int
    due_us: int
    priority: int
    attempt: int
    """Number of claims so far, this one included."""
    max_attempts: int
    fence: Optional[int] = None
    """Fencing token of the claim. None if the task was only read."""
    claimed_us: Optional[int] = None
    """When it was claimed, exact to the duration of the claiming call. None if the task was only read."""
    key: Optional[str] = None
    deadline_us: Optional[int] = None

    @property
    def payload(self) -> Any:
        """The decoded content. Raises `Undecodable` if it does not match its content type."""
        return self.content.value

    @property
    def kind(self) -> Optional[str]:
        """Kind of work, by which a worker selects the handler."""
        return self.content.kind

    @classmethod
    def of(cls, fields: Fields) -> TaskRecord:
        return _pick(cls, fields, content=_content_of(fields))


@dataclass(frozen=True)
class Progress:
    """Progress of a running task."""

    percent: Optional[int] = None
    """0 to 100."""
    note: str = ""
    """What the task is doing: at most 200 bytes."""


@dataclass(frozen=True)
class PastRun:
    """A run without success. `how`: `failed`, `lost` or `snoozed`."""

    attempt: int
    began_us: int
    ended_us: int
    how: str
    worker: str
    error: str


@dataclass(frozen=True)
class Finished:
    """How a retained task ended: `done`, `discarded`, `cancelled` or `dropped`."""

    at_us: int
    how: str
    result: Optional[Content] = None


@dataclass(frozen=True)
class TaskInfo(TaskRecord):
    """A task and its state: `scheduled`, `ready`, `leased`, `blocked` or `done`."""

    state: str = ""
    waits: bool = False
    """Whether it waits for other tasks."""
    not_before_us: Optional[int] = None
    lease_until_us: Optional[int] = None
    worker: Optional[str] = None
    progress: Optional[Progress] = None
    replaced: bool = False
    """Whether a pending replacement waits for the end of the run."""
    cancelled: bool = False
    """Whether a client asked to cancel it."""
    error: Optional[str] = None
    """Error of the latest failed attempt."""
    past: List[PastRun] = field(default_factory=list)
    finished: Optional[Finished] = None

    @classmethod
    def of(cls, fields: Fields) -> TaskInfo:
        progress, finished = fields.get("progress"), fields.get("finished")
        return _pick(
            cls,
            fields,
            content=_content_of(fields),
            progress=None if progress is None else _pick(Progress, progress),
            past=_past(fields),
            finished=None if finished is None else _pick(Finished, finished, result=_result(finished)),
        )


def _past(fields: Fields) -> List[PastRun]:
    return [_pick(PastRun, run) for run in fields.get("past", [])]


def _result(fields: Fields) -> Optional[Content]:
    result = fields.get("result")
    return result if result is None or isinstance(result, Content) else from_fields(result)


@dataclass(frozen=True)
class Ended:
    """How a task ended: `finished` and retained, `dead` (a dead letter), or `gone` without a trace."""

    outcome: str
    task: Optional[TaskInfo] = None
    """The task, if it is `finished`."""
    error: Optional[str] = None
    """Error of the last attempt, if it is `dead`."""
    attempts: Optional[int] = None
    died_us: Optional[int] = None

    @property
    def result(self) -> Any:
        """The decoded result. None if there is none."""
        if self.task is None or self.task.finished is None or self.task.finished.result is None:
            return None
        return self.task.finished.result.value

    @classmethod
    def of(cls, fields: Fields) -> Ended:
        task = fields.get("task")
        return _pick(cls, fields, task=None if task is None else TaskInfo.of(task))


@dataclass(frozen=True)
class Waited:
    """A finished task that another one waited for."""

    id: str
    end: str
    """`done`, `discarded`, `cancelled`, `dropped`, `popped`, `deleted` or `dead`."""
    at_us: int
    result: Optional[Content] = None
    error: Optional[str] = None
    """Why it failed, if it is dead."""

    @classmethod
    def of(cls, fields: Fields) -> Waited:
        return _pick(cls, fields, result=_result(fields))


@dataclass(frozen=True)
class DeadLetter:
    """A task that failed for good."""

    id: str
    content: Content
    priority: int
    attempts: int
    max_attempts: int
    error: str
    died_us: int
    key: Optional[str] = None
    past: List[PastRun] = field(default_factory=list)

    @property
    def payload(self) -> Any:
        """The decoded content. Raises `Undecodable` if it does not match its content type."""
        return self.content.value

    @classmethod
    def of(cls, fields: Fields) -> DeadLetter:
        return _pick(cls, fields, content=_content_of(fields), past=_past(fields))


@dataclass(frozen=True)
class Retried:
    """Outcome of a retry: `scheduled`, `dead`, `requeued`, `cancelled` or `stale`."""

    outcome: str
    due_us: Optional[int] = None
    """When the next attempt is due, if it is `scheduled`."""

    @classmethod
    def of(cls, fields: Fields) -> Retried:
        return _pick(cls, fields)


@dataclass(frozen=True)
class Rescheduled:
    """Outcome of rescheduling a task: `rescheduled`, `leased`, `too_late` or `not_found`."""

    outcome: str
    due_us: Optional[int] = None
    """When the task is due, if it was `rescheduled`."""
    deadline_us: Optional[int] = None
    """Deadline of the task, if the new due time is `too_late` for it."""

    @classmethod
    def of(cls, fields: Fields) -> Rescheduled:
        return _pick(cls, fields)


@dataclass(frozen=True)
class Closed:
    """Outcome of closing a batch: `closed`, `not_open` or `not_found`."""

    outcome: str
    left: int = 0
    """How many tasks the callback still waits for."""

    @classmethod
    def of(cls, fields: Fields) -> Closed:
        return _pick(cls, fields)


@dataclass(frozen=True)
class Rate:
    """Sliding-window rate limit: at most `n` tasks (1 to 10,000) in any period of `per` seconds (1 ms to 400 days)."""

    n: int
    per: Seconds

    def encode(self, name: str) -> Tuple[int, int]:
        return (
            check.whole(f"{name}.n", self.n, contract.RATE),
            check.micros(f"{name}.per", self.per, contract.PERIOD_US),
        )


@dataclass(frozen=True)
class KeyLimits:
    """Limits for the tasks of each key."""

    concurrency: Optional[int] = None
    rate: Optional[Rate] = None
    fifo: bool = False
    """Whether one task of a key runs at a time, and a failed task keeps its place."""


@dataclass(frozen=True)
class Retention:
    """How long finished tasks are kept: at most `count` (1 to 1,000,000) for at most `age` seconds."""

    age: Seconds
    count: int

    @property
    def age_us(self) -> int:
        return check.micros("retention.age", self.age, contract.PERIOD_US)


@dataclass(frozen=True)
class QueueLimits:
    """Limits of a queue. A limit that is None does not apply."""

    bound: Optional[int] = None
    """Capacity: the most live tasks."""
    overflow: str = "refuse"
    """What happens to a new task when the queue is full: `refuse`, `drop_new` or `drop_oldest`."""
    concurrency: Optional[int] = None
    """The most tasks that run at a time: 1 to 1,000,000."""
    rate: Optional[Rate] = None
    per_key: KeyLimits = KeyLimits()
    retention: Optional[Retention] = None
    events: Optional[int] = None
    """How many of the latest events are kept: 1 to 100,000."""

    @classmethod
    def of(cls, fields: Fields) -> QueueLimits:
        per_key, retention = fields.get("per_key") or {}, fields.get("retention")
        return _pick(
            cls,
            fields,
            rate=_rate(fields.get("rate")),
            per_key=_pick(KeyLimits, per_key, rate=_rate(per_key.get("rate"))),
            retention=retention and Retention(retention["age_ms"] / 1e3, retention["count"]),
        )

    def check(self) -> None:
        """Raises `InvalidArgument` for a limit that is out of range."""
        numbers = (
            ("bound", self.bound, contract.BOUND),
            ("concurrency", self.concurrency, contract.CONCURRENCY),
            ("per_key.concurrency", self.per_key.concurrency, contract.CONCURRENCY),
            ("events", self.events, contract.EVENTS),
            ("retention.count", self.retention and self.retention.count, contract.RETAINED),
        )
        for name, value, limits in numbers:
            if value is not None:
                check.whole(name, value, limits)
        if self.per_key.fifo and self.per_key.concurrency not in (None, 1):
            raise check.invalid("per_key.concurrency", "must be 1 with fifo")
        check.choice("overflow", self.overflow, contract.OVERFLOW)
        for name, rate in (("rate", self.rate), ("per_key.rate", self.per_key.rate)):
            if rate is not None:
                rate.encode(name)
        if self.retention is not None:
            _ = self.retention.age_us


def _rate(fields: Optional[Fields]) -> Optional[Rate]:
    return fields and Rate(fields["n"], fields["per_ms"] / 1e3)  # type: ignore[return-value]


@dataclass(frozen=True)
class QueueStats:
    """Task counts, lag and limits of a queue."""

    ready: int
    scheduled: int
    leased: int
    blocked: int
    dead: int
    done: int
    dropped: int
    lag: float
    """How long the oldest ready task has been ready, in seconds."""
    paused: bool
    limits: QueueLimits
    rate_until_us: Optional[int] = None
    last_claim_us: Optional[int] = None

    @classmethod
    def of(cls, fields: Fields) -> QueueStats:
        return _pick(cls, fields, lag=fields["lag_ms"] / 1e3, limits=QueueLimits.of(fields["limits"]))


@dataclass(frozen=True)
class Recurrence:
    """When a schedule fires: a cron pattern, or an interval."""

    cron: Optional[str] = None
    """`minute hour day month weekday`, with seconds in front if there are six fields."""
    zone: Optional[str] = None
    """IANA time zone of the pattern. Default: UTC."""
    every: Optional[Seconds] = None
    """Interval: 1 s to 400 days."""
    missed: str = "once"
    """What happens to missed occurrences: `skip`, `once` or `all`."""


@dataclass(frozen=True)
class Schedule:
    """A schedule."""

    id: str
    content: Content
    recurrence: Recurrence
    priority: int
    max_attempts: int
    paused: bool
    revision: int
    next_us: Optional[int] = None
    upcoming_us: List[int] = field(default_factory=list)
    """Its next occurrences: at most five, and none while the schedule is paused."""
    previous_us: Optional[int] = None

    @property
    def payload(self) -> Any:
        """The decoded content. Raises `Undecodable` if it does not match its content type."""
        return self.content.value

    @classmethod
    def of(cls, fields: Fields) -> Schedule:
        stored = fields.get("recurrence") or {}
        every = stored.get("every_ms")
        recurrence = _pick(Recurrence, stored, every=None if every is None else every / 1e3)
        return _pick(cls, fields, content=_content_of(fields), recurrence=recurrence)


@dataclass(frozen=True)
class WorkerInfo:
    """A worker of a queue, busy or idle."""

    id: str
    name: str
    """The name under which it claims."""
    version: str
    """Program and version."""
    concurrency: int
    running: int
    """How many tasks of the queue it ran at its latest announcement."""
    since_us: int
    """Its first announcement."""
    seen_us: int
    """Its latest announcement."""
    lease_until_us: int
    mode: str
    """`work`, `quiet` or `stop`."""

    @classmethod
    def of(cls, fields: Fields) -> WorkerInfo:
        return _pick(cls, fields)


@dataclass(frozen=True)
class Why:
    """Reason why a task is not running, with the fields of the HTTP API.

    `reason` is `running`, `paused`, `not_due`, `queue_busy`, `rate_limited`, `key_busy`, `in_line`, `waits_for`,
    `waiting`, `deadline`, `dead`, `done`, `unique` or `unknown`.
    """

    reason: str
    fields: Fields

    @classmethod
    def of(cls, fields: Fields) -> Why:
        return cls(fields["reason"], {name: value for name, value in fields.items() if name != "reason"})


# Sales


@dataclass(frozen=True)
class Sku:
    """A SKU of a new sale."""

    sku: str
    units: int
    """1 to 10,000,000."""
    per_buyer: int = contract.DEFAULT_PER_BUYER
    """Purchase limit: 1 to 10,000."""


@dataclass(frozen=True)
class SkuState:
    """Stock of a SKU: `total = free + held + confirmed + withdrawn`."""

    sku: str
    total: int
    free: int
    held: int
    confirmed: int
    withdrawn: int
    per_buyer: int


@dataclass(frozen=True)
class Halt:
    """Why a sale is halted: `lost_writes`, `operator` or `rebuilding`."""

    reason: str
    since_us: int


@dataclass(frozen=True)
class SaleState:
    """A sale and its stock. `status`: `created`, `open` or `ended`."""

    id: str
    status: str
    ledger: bool
    """Whether a ledger records the orders."""
    hold: float
    """Hold duration of a reservation, in seconds."""
    generation: int
    seq: int
    """Number of its latest event."""
    skus: List[SkuState]
    now_us: int
    opens_at_us: Optional[int] = None
    closes_at_us: Optional[int] = None
    next_expiry_us: Optional[int] = None
    halted: Optional[Halt] = None
    receipts_until_us: Optional[int] = None
    orders: Optional[Fields] = None
    """How far the ledger has followed the sale, if it has one."""

    @classmethod
    def of(cls, fields: Fields) -> SaleState:
        halted = fields.get("halted")
        return _pick(
            cls,
            fields,
            hold=fields["hold_ms"] / 1e3,
            skus=[_pick(SkuState, sku) for sku in fields["skus"]],
            halted=None if halted is None else _pick(Halt, halted),
        )


@dataclass(frozen=True)
class Hold:
    """A reservation and its units.

    `state` is `held`, `confirming`, `cancelling`, `expiring`, `confirmed`, `cancelled`, `expired` or `rejected`. The
    last four are final.
    """

    id: str
    buyer: str
    units: List[Tuple[str, int]]
    """SKU and number of each unit, by line and then by number."""
    state: str
    deadline_us: int
    """Deadline for the confirmation."""
    seq: int
    generation: int
    receipt: Optional[str] = None
    """Signed receipt, which restores the units if the store loses the reservation."""

    @property
    def is_final(self) -> bool:
        """Whether the state never changes again."""
        return self.state in contract.FINAL_STATE

    @classmethod
    def of(cls, fields: Fields) -> Hold:
        return _pick(cls, fields, units=[(unit["sku"], unit["unit"]) for unit in fields["units"]])


def _hold(fields: Fields) -> Optional[Hold]:
    hold = fields.get("hold")
    return None if hold is None else Hold.of(hold)


@dataclass(frozen=True)
class Reserved:
    """Outcome of a reservation.

    `reserved` or `replayed` (the same idempotency key again): the buyer has a `hold`. Otherwise `sold_out`, `all_held`,
    `limit_reached`, `not_open`, `ended`, `halted` or `key_reused` (the key was used for another cart).
    """

    outcome: str
    hold: Optional[Hold] = None
    sku: Optional[str] = None
    """SKU for which there are too few units, or whose purchase limit is exceeded."""
    free: Optional[int] = None
    next_expiry_us: Optional[int] = None
    limit: Optional[int] = None
    has: Optional[int] = None
    opens_at_us: Optional[int] = None
    retry_at_us: Optional[int] = None

    @classmethod
    def of(cls, fields: Fields) -> Reserved:
        return _pick(cls, fields, hold=_hold(fields))


@dataclass(frozen=True)
class Decision:
    """Outcome of a confirmation or a cancellation.

    `done`; `pending`: the ledger has not committed yet; `refused`: decided otherwise before, so refund a payment;
    `unknown`: there is no such reservation; `halted`: not decided, retry later.
    """

    outcome: str
    hold: Optional[Hold] = None
    state: Optional[str] = None
    """State of the reservation, if it is `refused`."""

    @classmethod
    def of(cls, fields: Fields) -> Decision:
        return _pick(cls, fields, hold=_hold(fields))


@dataclass(frozen=True)
class Restored:
    """Outcome of restoring a reservation from its receipt.

    `restored`, or `known` if the store had not lost it: `hold` is the reservation. Otherwise `expired`, `none_left`,
    `limit_reached`, `not_honored` or `halted`.
    """

    outcome: str
    hold: Optional[Hold] = None
    sku: Optional[str] = None
    free: Optional[int] = None
    limit: Optional[int] = None
    has: Optional[int] = None
    retry_at_us: Optional[int] = None

    @classmethod
    def of(cls, fields: Fields) -> Restored:
        return _pick(cls, fields, hold=_hold(fields))
