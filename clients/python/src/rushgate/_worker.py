"""What workers with and without asyncio share: settings, running tasks, and how a task ends."""

from __future__ import annotations

import logging
import os
import random
import threading
import traceback
from dataclasses import dataclass, fields
from typing import Any, Callable, Dict, Generic, List, Optional, Sequence, Set, Tuple, TypeVar, Union

from . import _check as check
from . import contract
from ._calls import check_progress, default_worker
from ._check import Seconds
from ._content import encode_result
from ._plan import Pause, Pauses, Plan, Stop, now
from ._transport import Announcement, Completion, Failure, Heartbeat, Release, Transport, certain
from .errors import ClaimLost, ClientClosed, InvalidArgument, RushgateError, TaskCancelled, TaskTimeout, WorkerStopped
from .models import Progress, TaskRecord

H = TypeVar("H")
_log = logging.getLogger("rushgate")

ANY_KIND = "*"
# Maximum number of ends per call. It keeps a call short, so that other calls get their turn.
SETTLE_MAX = 256
# Longest wait of one claim, in seconds.
CLAIM_WAIT = 60.0
# Time in seconds for sending the remaining ends after the last handler has ended.
FLUSH = 5.0
# Longest time in seconds between two checks of the leases.
CHECK = 0.5
# Time limit in seconds for saying that a worker has ended.
LEAVE = 1.0
# How long a worker is listed after its last announcement, in µs.
_LISTED = 30_000_000
_BEAT_AGAIN = 1.0
_CONCURRENCY = (1, 10_000)
_TIMEOUT = (1, contract.DELAY_US[1])


class GiveUp(Exception):
    """Raised by a handler: the task becomes a dead letter now."""


class Discard(Exception):
    """Raised by a handler: the task leaves the queue without work, because there is nothing to do."""


class RetryAfter(Exception):
    """Raised by a handler: the attempt failed, and the next one is due after `delay` seconds."""

    def __init__(self, delay: Seconds, message: str = "") -> None:
        super().__init__(message)
        self.delay = min(check.micros("delay", delay, contract.MOMENT_US), contract.DELAY_US[1])


class Snooze(Exception):
    """Raised by a handler: the task is due again after `delay` seconds, and the attempt does not count."""

    def __init__(self, delay: Seconds) -> None:
        super().__init__(f"due again after {delay}")
        self.delay = min(check.micros("delay", delay, contract.MOMENT_US), contract.DELAY_US[1])


@dataclass(frozen=True)
class Backoff:
    """Retry delay of failed tasks in seconds: exponential, capped, with full jitter.

    The delay after attempt n is drawn evenly from zero to `base * factor ** (n - 1)`, at most `longest`. Without
    jitter, it is that upper end.
    """

    base: float = contract.DEFAULT_BACKOFF_BASE
    factor: float = contract.DEFAULT_BACKOFF_FACTOR
    longest: float = contract.DEFAULT_BACKOFF_MAX
    jitter: bool = True

    def draw(self, attempt: int) -> int:
        """Returns the delay after attempt number `attempt` (1 for the first), in µs."""
        longest = min(self.longest, contract.DELAY_US[1] / 1e6)
        try:
            delay = min(self.base * max(self.factor, 1.0) ** max(attempt - 1, 0), longest)
        except OverflowError:
            delay = longest
        return round((random.uniform(0, delay) if self.jitter else delay) * 1e6)


@dataclass
class WorkerReport:
    """How many tasks a worker has claimed, and how they ended."""

    claimed: int = 0
    done: int = 0
    discarded: int = 0
    retried: int = 0
    dead: int = 0
    released: int = 0
    cancelled: int = 0
    lost: int = 0
    """The claim was lost before the end was stored."""
    unanswered: int = 0
    """The store did not take the end: the task runs again."""

    def copy(self) -> WorkerReport:
        return WorkerReport(**{of.name: getattr(self, of.name) for of in fields(self)})


@dataclass(frozen=True)
class Route(Generic[H]):
    """The handler for a kind, and its settings."""

    handler: H
    timeout: Optional[float]
    backoff: Backoff


class Job:
    """One claimed task, as its handler gets it."""

    def __init__(self, queue: str, record: TaskRecord) -> None:
        self.queue = queue
        self.record = record
        """The task as it was claimed."""
        self.reason: Optional[RushgateError] = None
        """Why the handler must stop: `ClaimLost`, `TaskCancelled`, `TaskTimeout` or `WorkerStopped`."""
        self._progress: Optional[Progress] = None

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def kind(self) -> Optional[str]:
        return self.record.kind

    @property
    def attempt(self) -> int:
        """Number of claims so far, this one included."""
        return self.record.attempt

    @property
    def max_attempts(self) -> int:
        return self.record.max_attempts

    @property
    def fence(self) -> int:
        """Fencing token of the claim. It only grows within a queue: use it to fence the task's writes."""
        return self.record.fence or 0

    def progress(self, percent: Optional[int] = None, note: str = "") -> None:
        """Reports progress, which operators see after the next heartbeat. `percent`: 0 to 100."""
        self._progress = check_progress(Progress(percent, note))

    def check(self) -> None:
        """Raises the reason for which the handler must stop, if there is one."""
        if self.reason is not None:
            raise self.reason


@dataclass(eq=False)
class Run:
    """A claim that has not been settled yet."""

    job: Job
    route: Optional[Route[Any]]
    held_until: float
    beat_at: float
    timeout_at: float
    interrupt: Callable[[], None]
    """Makes the handler stop."""
    cancelled_at: float = float("inf")
    """When a canceled handler has had its grace."""
    is_over: bool = False

    @property
    def ticket(self) -> str:
        return self.job.record.ticket


@dataclass(frozen=True)
class Ending:
    """How a claim ends. `counter` counts it if it is completed."""

    run: Run
    end: Union[Completion, Failure, Release]
    counter: str = ""


def error_text(error: BaseException) -> str:
    """Returns the tail of the trace, which says what failed and where."""
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__)).strip()
    return check.cut(text, contract.ERROR_BYTES)


class WorkerCore(Generic[H]):
    """Settings and running tasks of a worker. The shell around it has the threads or the tasks of asyncio."""

    def __init__(
        self,
        queue: str,
        *,
        concurrency: int,
        lease: Seconds,
        grace: Seconds,
        timeout: Optional[Seconds],
        backoff: Backoff,
        label: Optional[str],
    ) -> None:
        self.queue = queue
        self.concurrency = check.whole("concurrency", concurrency, _CONCURRENCY)
        self.lease_us = check.lease(lease)
        self.lease = self.lease_us / 1e6
        self.grace = check.micros("grace", grace, contract.DELAY_US) / 1e6
        self.label = default_worker() if label is None else check.label("label", label)
        self.report = WorkerReport()
        self.stop = Stop()
        self.pause = Stop()
        """Ends a claim that waits. It is set while the worker claims nothing, and replaced when it may claim again."""
        self.stop.on_set(lambda: self.pause.set())
        self.announce_each = contract.DEFAULT_ANNOUNCE
        self._id = os.urandom(8).hex()
        self._is_refused = False
        """Whether the store refused an announcement."""
        self.hurry = Stop()
        """Set when the worker has no more time to repeat a call."""
        self.runs: Set[Run] = set()
        self._unreadable: Set[Tuple[str, int]] = set()
        self.put: Callable[[Ending], None]
        """Takes the end of a claim, to send it."""
        self._timeout, self._backoff = _seconds(timeout), backoff
        self._routes: Dict[str, Route[H]] = {}
        self._mutex = threading.RLock()

    def handle(self, kind: str, handler: H, timeout: Optional[Seconds], backoff: Optional[Backoff]) -> None:
        """Sets the handler for a kind, or with `*` for all kinds without a handler of their own."""
        if kind != ANY_KIND:
            check.kind(kind)
        if kind in self._routes:
            raise InvalidArgument(f"The kind `{kind}` has a handler already.", field="kind")
        own = self._timeout if timeout is None else _seconds(timeout)
        self._routes[kind] = Route(handler, own, backoff or self._backoff)

    def check_routes(self) -> None:
        if not self._routes:
            raise InvalidArgument("The worker has no handler.", field="kind")

    def begin(self, record: TaskRecord, job: Job, interrupt: Callable[[], None]) -> Run:
        """Adds a claim, which was answered just now."""
        time = now()
        route = self._routes.get(record.kind or ANY_KIND) or self._routes.get(ANY_KIND)
        timeout_at = time + self._longest(record, route)
        run = Run(job, route, time + certain(self.lease), time + self.lease / 3, timeout_at, interrupt)
        with self._mutex:
            self.report.claimed += 1
            self.runs.add(run)
        return run

    def _longest(self, record: TaskRecord, route: Optional[Route[H]]) -> float:
        """Returns how long a handler may run: until its timeout, or the deadline of the task."""
        timeout = float("inf") if route is None or route.timeout is None else route.timeout
        if record.deadline_us is None or record.fence is None:
            return timeout
        # The claim number is the time of the claim.
        return min(timeout, max(0.0, (record.deadline_us - record.fence) / 1e6))

    # How a handler ends

    def returned(self, run: Run, value: Any) -> None:
        """Ends a claim whose handler returned."""
        try:
            self._finish(run, Ending(run, Completion(run.ticket, encode_result(value)), "done"))
        except InvalidArgument as error:
            # No client shall wait for a result that cannot be stored.
            self._finish(run, Ending(run, Failure(run.ticket, error_text(error), give_up=True)))

    def raised(self, run: Run, error: BaseException) -> None:
        """Ends a claim whose handler raised an exception, or could not be called."""
        if isinstance(error, Discard):
            self._finish(run, Ending(run, Completion(run.ticket, discarded=True), "discarded"))
        elif isinstance(error, Snooze):
            self._finish(run, Ending(run, Release(run.ticket, error.delay)))
        else:
            backoff = self._backoff if run.route is None else run.route.backoff
            delay = error.delay if isinstance(error, RetryAfter) else backoff.draw(run.job.attempt)
            failure = Failure(run.ticket, error_text(error), delay, isinstance(error, GiveUp))
            self._finish(run, Ending(run, failure))

    def release(self, run: Run) -> None:
        """Returns the task of a claim to the queue."""
        self._finish(run, Ending(run, Release(run.ticket)))

    def _finish(self, run: Run, ending: Ending) -> None:
        """Ends a claim, unless it ended before. A canceled task is over, whatever its handler did."""
        with self._mutex:
            if run.is_over:
                return
            run.is_over = True
        if isinstance(run.job.reason, TaskCancelled):
            ending = Ending(run, Completion(run.ticket), "cancelled")
        self.put(ending)

    def _interrupt(self, run: Run, reason: RushgateError) -> None:
        if run.job.reason is None:
            run.job.reason = reason
        run.interrupt()

    # Schedules

    def fire_schedules(self, transport: Transport) -> Plan[Optional[float]]:
        """Fires due schedules. Returns the seconds until the next look. None if the server fires schedules."""
        return (yield from transport.fire_schedules(self.queue, self._unreadable))

    def schedules_failed(self, error: RushgateError, pauses: Pauses) -> float:
        """Returns the seconds until the next try. Outages show in the claims."""
        if error.retryable:
            return pauses.draw()
        _log.error("cannot fire the schedules of the queue %s: %s", self.queue, error)
        return CLAIM_WAIT

    # Presence

    def announce(self, transport: Transport) -> Plan[None]:
        """Announces the worker to its queue, and does what an operator asks of it.

        A failure never stops the worker. Outages show in the claims. A refusal, such as that of a library without the
        function, is logged once.
        """
        from . import __version__

        version, running = f"rushgate-python {__version__}", len(self.runs)
        worker = Announcement(self._id, self.label, version, self.concurrency, running, _LISTED)
        try:
            self._obey((yield from transport.announce(self.queue, worker)))
        except RushgateError as error:
            if not error.retryable and not isinstance(error, ClientClosed) and not self._is_refused:
                self._is_refused = True
                _log.warning("cannot announce the worker to the queue %s: %s", self.queue, error)

    def _obey(self, mode: str) -> None:
        if mode == "stop":
            self.stop.set()
        elif mode == "quiet":
            self.pause.set()
        elif self.pause.is_set:
            self.pause = Stop()
            # It may have been set just before.
            if self.stop.is_set:
                self.pause.set()

    def leave(self, transport: Transport) -> Plan[None]:
        """Says that the worker has ended. If that fails, it is listed a while longer."""
        try:
            yield from transport.end_worker(self.queue, self._id)
        except RushgateError:
            pass

    # Leases

    def check_times(self) -> float:
        """Stops handlers whose lease, timeout or grace is over. Returns the seconds until the next check."""
        time, soonest = now(), CHECK
        for run in self._runs():
            if run.held_until <= time:
                self._lose(run)
                continue
            if not run.is_over:
                self._check_run(run, time)
            soonest = min(soonest, run.held_until - time, run.beat_at - time)
            if not run.is_over:
                soonest = min(soonest, run.timeout_at - time, run.cancelled_at - time)
        return max(soonest, 0.001)

    def _check_run(self, run: Run, time: float) -> None:
        if run.timeout_at <= time:
            error = TaskTimeout(f"The handler of `{run.job.id}` did not end in time.")
            # The failure comes before the handler's own end.
            self.raised(run, error)
            self._interrupt(run, error)
        elif run.cancelled_at <= time:
            self.release(run)
            run.interrupt()

    def due(self) -> List[Run]:
        """Returns claims whose lease is due for extension."""
        time = now()
        due = [run for run in self._runs() if run.beat_at <= time + self.lease / 10][: contract.BATCH[1]]
        for run in due:
            # If no answer comes by then, the heartbeat is sent again.
            run.beat_at = time + self.lease / 4
        return due

    def beat(self, transport: Transport, due: List[Run]) -> Plan[None]:
        """Extends leases."""
        sent = now()
        progress = [run.job._progress for run in due]
        heartbeats = [Heartbeat(run.ticket, noted) for run, noted in zip(due, progress)]
        try:
            outcomes = yield from transport.extend(self.queue, heartbeats, self.lease_us)
        except RushgateError:
            for run in due:
                run.beat_at = now() + min(self.lease / 20, _BEAT_AGAIN)
            return
        for run, noted, outcome in zip(due, progress, outcomes):
            if run.job._progress is noted:
                run.job._progress = None
            self._beaten(run, outcome, sent)

    def _beaten(self, run: Run, outcome: str, sent: float) -> None:
        if run not in self.runs:
            return
        if outcome == "lost":
            self._lose(run)
            return
        run.held_until = max(run.held_until, sent + certain(self.lease))
        run.beat_at = sent + self.lease / 3
        if outcome == "cancelled" and run.job.reason is None:
            run.cancelled_at = now() + self.grace
            run.job.reason = TaskCancelled(f"The task `{run.job.id}` was canceled.")
            run.interrupt()

    def _lose(self, run: Run) -> None:
        with self._mutex:
            was_over, run.is_over = run.is_over, True
            self.runs.discard(run)
        if not was_over:
            self._count("lost")
            self._interrupt(run, ClaimLost(f"The claim of the task `{run.job.id}` was lost."))

    def abort(self) -> None:
        """Returns all tasks whose handlers have not ended, because the grace is over."""
        for run in self._runs():
            if not run.is_over:
                self.release(run)
                self._interrupt(run, WorkerStopped(f"The worker stopped before `{run.job.id}` ended."))

    def _runs(self) -> List[Run]:
        with self._mutex:
            return list(self.runs)

    # Ends

    def settle(self, transport: Transport, endings: Sequence[Ending]) -> Plan[None]:
        """Sends the ends of claims, one call for each sort, and counts them."""
        for sort, send in ((Completion, self._complete), (Failure, self._retry), (Release, self._release)):
            of_sort = [ending for ending in endings if isinstance(ending.end, sort)]
            if of_sort:
                yield from self._settle_sort(transport, send, of_sort)

    def _settle_sort(
        self, transport: Transport, send: Callable[..., Plan[List[str]]], endings: List[Ending]
    ) -> Plan[None]:
        pauses = Pauses()
        while True:
            try:
                counters = yield from send(transport, endings)
                break
            except RushgateError as error:
                if error.retryable and not self.hurry.is_set:
                    # An outage ends eventually. An answer that arrives too late is stale and has no effect.
                    yield Pause(pauses.draw())
                    continue
                if not error.retryable and len(endings) > 1:
                    # One of them is at fault.
                    for ending in endings:
                        yield from self._settle_sort(transport, send, [ending])
                    return
                counters = ["unanswered"] * len(endings)
                break
        for ending, counter in zip(endings, counters):
            with self._mutex:
                self.runs.discard(ending.run)
            self._count(counter)

    def _complete(self, transport: Transport, endings: List[Ending]) -> Plan[List[str]]:
        outcomes = yield from transport.complete(self.queue, [ending.end for ending in endings])  # type: ignore[misc]
        return ["lost" if outcome == "stale" else ending.counter for ending, outcome in zip(endings, outcomes)]

    def _retry(self, transport: Transport, endings: List[Ending]) -> Plan[List[str]]:
        counters = {
            "scheduled": "retried",
            "requeued": "retried",
            "dead": "dead",
            "cancelled": "cancelled",
            "stale": "lost",
        }
        outcomes = yield from transport.retry(self.queue, [ending.end for ending in endings])  # type: ignore[misc]
        return [counters[outcome["outcome"]] for outcome in outcomes]

    def _release(self, transport: Transport, endings: List[Ending]) -> Plan[List[str]]:
        counters = {"waiting": "released", "cancelled": "cancelled", "stale": "lost"}
        outcomes = yield from transport.release(self.queue, [ending.end for ending in endings])  # type: ignore[misc]
        return [counters[outcome] for outcome in outcomes]

    def _count(self, counter: str) -> None:
        with self._mutex:
            setattr(self.report, counter, getattr(self.report, counter) + 1)


def _seconds(timeout: Optional[Seconds]) -> Optional[float]:
    return None if timeout is None else check.micros("timeout", timeout, _TIMEOUT) / 1e6
