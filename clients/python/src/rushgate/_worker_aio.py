"""Workers with asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from typing import TYPE_CHECKING, Any, AsyncIterator, Awaitable, Callable, List, Mapping, Optional, Set, Union

from . import contract
from ._aio_driver import AioBell
from ._check import Seconds
from ._plan import Pauses, now
from ._worker import CLAIM_WAIT, FLUSH, LEAVE, SETTLE_MAX, Backoff, Ending, Job, Run, WorkerCore, WorkerReport
from .errors import InvalidArgument, RushgateError
from .models import TaskRecord, Waited

if TYPE_CHECKING:
    from .aio import ClaimedTask, Queue

Handler = Callable[[Any, "AioJob"], Union[Awaitable[Any], Any]]


class AioJob(Job):
    """One claimed task, as its handler gets it. If the handler must stop, it is canceled, and `reason` says why."""

    def __init__(self, queue: Queue, record: TaskRecord) -> None:
        super().__init__(queue.name, record)
        self._queue = queue
        self.handling: Optional[asyncio.Task[None]] = None
        """The task of asyncio that runs the handler."""

    def interrupt(self) -> None:
        """Cancels the handler. Called by the worker."""
        if self.handling is not None:
            self.handling.cancel()

    async def results(self) -> AsyncIterator[Waited]:
        """Yields the results of the tasks that this task waited for, by ID."""
        after = ""
        while True:
            page = await self._queue.waited(self.id, after=after)
            for waited in page:
                yield waited
            if len(page) < contract.WAITED_PAGE[1]:
                return
            after = page[-1].id


class Worker:
    """Claims tasks of a queue, runs a handler for each, and reports one outcome per task.

    What a handler returns is the result of the task. What it raises fails the attempt: the task is retried with a
    backoff, and becomes a dead letter after its last attempt. `GiveUp`, `Discard`, `RetryAfter` and `Snooze` decide
    otherwise.

    After a timeout, a cancellation or the loss of the lease, the worker cancels the handler.
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
        """Makes a worker. The settings are those of `rushgate.Worker`. Handlers are coroutine functions."""
        self._core: WorkerCore[Handler] = WorkerCore(
            queue.name, concurrency=concurrency, lease=lease, grace=grace, timeout=timeout, backoff=backoff, label=label
        )
        self._queue = queue
        self._core.put = self._put
        self._endings: List[Ending] = []
        self._handling: Set[asyncio.Task[None]] = set()
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

        Call it in the event loop, for example by `loop.add_signal_handler`.
        """
        self._core.stop.set()

    async def run(self) -> WorkerReport:
        """Runs until `stop`, then shuts down in order.

        Outages are not errors: the worker waits until they end. Any other error of a claim is raised after the same
        shutdown. If the task that runs the worker is canceled, the worker shuts down in the same way first.
        """
        if self._is_running:
            raise InvalidArgument("The worker runs already, or has run.")
        self._core.check_routes()
        self._is_running = True
        self._freed, self._ended, self._settled, self._beats = AioBell(), AioBell(), AioBell(), AioBell()
        self._announces = AioBell()
        cancel = self._core.stop.on_set(self._freed.ring)
        helpers = [asyncio.ensure_future(of) for of in (self._settle_all(), self._keep_leases(), self._fire_schedules())]
        presence = asyncio.ensure_future(self._announce())
        try:
            await self._claim_all()
        finally:
            self.stop()
            cancel()
            await self._finish()
            self._is_over = True
            self._announces.ring()
            await asyncio.wait([presence], timeout=LEAVE)
            helpers.append(presence)
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)
        return self.report

    async def _claim_all(self) -> None:
        core, pauses = self._core, Pauses()
        while not core.stop.is_set:
            free = core.concurrency - len(self._handling)
            if free <= 0:
                await self._freed.wait(None)
                continue
            pause = core.pause
            if pause.is_set:
                await self._freed.wait(None)
                continue
            try:
                n = min(free, contract.BATCH[1])
                tasks = await self._queue._claim(n, core.lease, CLAIM_WAIT, core.label, pause)
                pauses = Pauses()
            except RushgateError as error:
                if not error.retryable:
                    raise
                await self._freed.wait(pauses.draw())
                continue
            for task in tasks:
                self._start(task)

    def _start(self, task: ClaimedTask) -> None:
        job = AioJob(self._queue, task.record)
        run = self._core.begin(task.record, job, job.interrupt)
        self._beats.ring()
        if self._core.pause.is_set:
            self._core.release(run)
            return
        handling = job.handling = asyncio.ensure_future(self._handle(run))
        self._handling.add(handling)
        handling.add_done_callback(self._handled)

    def _handled(self, handling: asyncio.Task[None]) -> None:
        self._handling.discard(handling)
        self._freed.ring()

    async def _handle(self, run: Run) -> None:
        core = self._core
        try:
            if run.route is None:
                raise LookupError(f"no handler for the kind {run.job.kind or '(none)'}")
            value = run.route.handler(run.job.record.payload, run.job)
            if inspect.isawaitable(value):
                value = await value
        except asyncio.CancelledError as error:
            # The worker canceled the handler, or the handler failed by a cancellation of its own.
            core.raised(run, error)
        except Exception as error:
            core.raised(run, error)
        else:
            core.returned(run, value)

    def _put(self, ending: Ending) -> None:
        self._endings.append(ending)
        self._ended.ring()

    async def _settle_all(self) -> None:
        """Sends the ends of claims. Those that wait together share a call."""
        while True:
            if not self._endings:
                await self._ended.wait(None)
            batch, self._endings = self._endings[:SETTLE_MAX], self._endings[SETTLE_MAX:]
            await self._queue._client._run(lambda transport: self._core.settle(transport, batch))
            self._settled.ring()

    async def _fire_schedules(self) -> None:
        core, pauses = self._core, Pauses()
        while not core.stop.is_set:
            try:
                pause = await self._queue._client._run(core.fire_schedules)
                pauses = Pauses()
            except RushgateError as error:
                pause = core.schedules_failed(error, pauses)
            if pause is None:
                return
            await asyncio.sleep(pause)

    async def _announce(self) -> None:
        core = self._core
        while not self._is_over:
            await self._queue._client._run(core.announce)
            self._freed.ring()
            await self._announces.wait(core.announce_each)
        await self._queue._client._run(core.leave)

    async def _keep_leases(self) -> None:
        core, beats = self._core, set()
        while True:
            pause = core.check_times() if core.runs else None
            due = core.due()
            if due:
                # The time of other handlers passes while the store answers.
                beat = asyncio.ensure_future(self._beat(due))
                beats.add(beat)
                beat.add_done_callback(beats.discard)
            await self._beats.wait(pause)

    async def _beat(self, due: List[Run]) -> None:
        await self._queue._client._run(lambda transport: self._core.beat(transport, due))

    async def _finish(self) -> None:
        """Shuts down in order. The heartbeats continue until the last end is stored."""
        core = self._core
        if self._handling:
            await asyncio.wait(self._handling, timeout=core.grace)
        core.abort()
        until = now() + FLUSH
        while core.runs and now() < until:
            with contextlib.suppress(asyncio.CancelledError):
                await self._settled.wait(0.05)
        core.hurry.set()
