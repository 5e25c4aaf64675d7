"""Workers with threads."""

from __future__ import annotations

import contextlib
import queue as queues
import threading
import time
from typing import Any, Callable, Iterator, List, Mapping, Optional

from . import contract
from ._check import Seconds
from ._client_sync import ClaimedTask, Queue
from ._plan import Pauses
from ._sync import ThreadBell
from ._worker import CLAIM_WAIT, FLUSH, LEAVE, SETTLE_MAX, Backoff, Ending, Job, Run, WorkerCore, WorkerReport
from .errors import InvalidArgument, RushgateError
from .models import TaskRecord, Waited

Handler = Callable[[Any, "ThreadJob"], Any]


class ThreadJob(Job):
    """One claimed task, as its handler gets it."""

    def __init__(self, queue: Queue, record: TaskRecord) -> None:
        super().__init__(queue.name, record)
        self._queue = queue
        self.stop = threading.Event()
        """Set when the handler must stop. `check` raises the reason."""

    def results(self) -> Iterator[Waited]:
        """Yields the results of the tasks that this task waited for, by ID."""
        after = ""
        while True:
            page = self._queue.waited(self.id, after=after)
            yield from page
            if len(page) < contract.WAITED_PAGE[1]:
                return
            after = page[-1].id


class Worker:
    """Claims tasks of a queue, runs a handler for each in a thread, and reports one outcome per task.

    What a handler returns is the result of the task. What it raises fails the attempt: the task is retried with a
    backoff, and becomes a dead letter after its last attempt. `GiveUp`, `Discard`, `RetryAfter` and `Snooze` decide
    otherwise.

    A thread cannot be stopped from outside. After a timeout, a cancellation or the loss of the lease, the worker sets
    `job.stop` and ignores what the handler does. Its thread is free when it returns.
    """

    def __init__(
        self,
        queue: Queue,
        handlers: Optional[Mapping[str, Handler]] = None,
        *,
        concurrency: int = contract.DEFAULT_CONCURRENCY,
        lease: Seconds = contract.DEFAULT_LEASE,
        grace: Seconds = contract.DEFAULT_GRACE,
        timeout: Optional[Seconds] = None,
        backoff: Backoff = Backoff(),
        label: Optional[str] = None,
    ) -> None:
        """Makes a worker. Durations are in seconds.

        - `handlers`: handlers by kind. `*` gets every task without a handler of its own.
        - `concurrency`: how many handlers run at a time, 1 to 10,000.
        - `lease`: 10 ms to 24 h. It is extended while the handler runs.
        - `grace`: time that handlers have to end after a stop or a cancellation.
        - `timeout`: maximum run time of a handler. Default: unlimited.
        - `backoff`: retry delay of failed tasks.
        - `label`: name as shown to operators, at most 200 bytes. Default: host and process ID.
        """
        self._core: WorkerCore[Handler] = WorkerCore(
            queue.name, concurrency=concurrency, lease=lease, grace=grace, timeout=timeout, backoff=backoff, label=label
        )
        self._queue = queue
        self._core.put = self._put
        self._endings: queues.SimpleQueue[Optional[Ending]] = queues.SimpleQueue()
        self._runs: queues.SimpleQueue[Optional[Run]] = queues.SimpleQueue()
        self._freed = ThreadBell()
        self._settled = ThreadBell()
        self._beats = ThreadBell()
        self._fires = ThreadBell()
        self._announces = ThreadBell()
        self._mutex = threading.Lock()
        self._threads = 0
        self._busy = 0
        self._is_running = False
        self._is_over = False
        for kind, handler in (handlers or {}).items():
            self.handle(kind, handler)

    def handle(
        self, kind: str, handler: Handler, *, timeout: Optional[Seconds] = None, backoff: Optional[Backoff] = None
    ) -> Worker:
        """Sets the handler for a kind, with its own timeout and backoff. `*` stands for all other kinds."""
        self._core.handle(kind, handler, timeout, backoff)
        return self

    @property
    def report(self) -> WorkerReport:
        """Counters of this worker, readable while it runs and after."""
        return self._core.report.copy()

    def stop(self) -> None:
        """Stops the worker: it claims no more, lets running handlers end within the grace, and returns the other tasks.

        Any thread may call it, and a signal handler too.
        """
        self._core.stop.set()

    def run(self) -> WorkerReport:
        """Runs until `stop`, then shuts down in order.

        Outages are not errors: the worker waits until they end. Any other error of a claim is raised after the same
        shutdown.
        """
        if self._is_running:
            raise InvalidArgument("The worker runs already, or has run.")
        self._core.check_routes()
        self._is_running = True
        cancels = [self._core.stop.on_set(bell.ring) for bell in (self._freed, self._fires)]
        threading.Thread(target=self._fire_schedules, name="rushgate-schedules", daemon=True).start()
        helpers = [threading.Thread(target=of, daemon=True) for of in (self._settle_all, self._keep_leases)]
        presence = threading.Thread(target=self._announce, name="rushgate-presence", daemon=True)
        for helper in (*helpers, presence):
            helper.start()
        try:
            self._claim_all()
        finally:
            self.stop()
            for cancel in cancels:
                cancel()
            self._finish()
            for helper in helpers:
                helper.join()
            presence.join(LEAVE)
        return self.report

    def _claim_all(self) -> None:
        core, pauses = self._core, Pauses()
        while not core.stop.is_set:
            free = core.concurrency - self._busy
            if free <= 0:
                self._freed.wait(None)
                continue
            pause = core.pause
            if pause.is_set:
                self._freed.wait(None)
                continue
            try:
                n = min(free, contract.BATCH[1])
                tasks = self._queue._claim(n, core.lease, CLAIM_WAIT, core.label, pause)
                pauses = Pauses()
            except RushgateError as error:
                if not error.retryable:
                    raise
                self._freed.wait(pauses.draw())
                continue
            for task in tasks:
                self._start(task)

    def _start(self, task: ClaimedTask) -> None:
        job = ThreadJob(self._queue, task.record)
        run = self._core.begin(task.record, job, job.stop.set)
        self._beats.ring()
        if self._core.pause.is_set:
            self._core.release(run)
            return
        with self._mutex:
            self._busy += 1
            is_short = self._busy > self._threads
            self._threads += is_short
        self._runs.put(run)
        if is_short:
            threading.Thread(target=self._handle_all, name="rushgate-worker", daemon=True).start()

    def _handle_all(self) -> None:
        while True:
            run = self._runs.get()
            if run is None:
                return
            if self._core.stop.is_set and run.job.reason is None:
                # It was not started.
                self._core.release(run)
            else:
                self._handle(run)
            with self._mutex:
                self._busy -= 1
            self._freed.ring()

    def _handle(self, run: Run) -> None:
        core = self._core
        try:
            if run.route is None:
                raise LookupError(f"no handler for the kind {run.job.kind or '(none)'}")
            value = run.route.handler(run.job.record.payload, run.job)
        except BaseException as error:
            core.raised(run, error)
        else:
            core.returned(run, value)

    def _put(self, ending: Ending) -> None:
        self._endings.put(ending)

    def _settle_all(self) -> None:
        """Sends the ends of claims. Those that wait together share a call."""
        while True:
            ending = self._endings.get()
            if ending is None:
                return
            batch = [ending]
            with contextlib.suppress(queues.Empty):
                while len(batch) < SETTLE_MAX:
                    more = self._endings.get_nowait()
                    if more is None:
                        self._endings.put(None)
                        break
                    batch.append(more)
            self._queue._client._run(lambda transport: self._core.settle(transport, batch))
            self._settled.ring()

    def _fire_schedules(self) -> None:
        core, pauses = self._core, Pauses()
        while not core.stop.is_set:
            try:
                pause = self._queue._client._run(core.fire_schedules)
                pauses = Pauses()
            except RushgateError as error:
                pause = core.schedules_failed(error, pauses)
            if pause is None:
                return
            self._fires.wait(pause)

    def _announce(self) -> None:
        core = self._core
        while not self._is_over:
            self._queue._client._run(core.announce)
            self._freed.ring()
            self._announces.wait(core.announce_each)
        self._queue._client._run(core.leave)

    def _keep_leases(self) -> None:
        core = self._core
        while not self._is_over:
            pause = core.check_times() if core.runs else None
            due = core.due()
            if due:
                # The time of other handlers passes while the store answers.
                threading.Thread(target=self._beat, args=(due,), name="rushgate-heartbeat", daemon=True).start()
            self._beats.wait(pause)

    def _beat(self, due: List[Run]) -> None:
        self._queue._client._run(lambda transport: self._core.beat(transport, due))

    def _finish(self) -> None:
        """Shuts down in order. The heartbeats continue until the last end is stored."""
        core = self._core
        self._wait_until(lambda: self._busy == 0, self._freed, core.grace)
        core.abort()
        self._wait_until(lambda: not core.runs, self._settled, FLUSH)
        core.hurry.set()
        self._endings.put(None)
        for _ in range(self._threads):
            self._runs.put(None)
        self._is_over = True
        self._beats.ring()
        self._announces.ring()

    @staticmethod
    def _wait_until(is_true: Callable[[], bool], bell: ThreadBell, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not is_true() and time.monotonic() < until:
            bell.wait(min(0.05, max(until - time.monotonic(), 0.001)))
