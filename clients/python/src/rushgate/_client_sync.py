"""The client for programs with threads."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Any, List, Mapping, Optional, Sequence, Set, Tuple, Type, TypeVar, Union

from . import _calls as calls
from . import _check as check
from . import contract
from ._check import Seconds
from ._client import Settings, process_now
from ._plan import Stop, now
from ._sync import Driver, ThreadBell, driver_of
from ._transport import Call, Grant, Transport, certain
from .errors import ClientClosed, InvalidArgument, LockLost, RushgateError
from .models import (
    Closed,
    DeadLetter,
    Decision,
    Ended,
    Enqueued,
    Hold,
    Holder,
    LockState,
    NewTask,
    Progress,
    QueueLimits,
    QueueStats,
    Recurrence,
    Rescheduled,
    Reserved,
    Restored,
    Retried,
    SaleState,
    Schedule,
    Sku,
    TaskInfo,
    TaskRecord,
    Waited,
    Why,
    WorkerInfo,
)

if TYPE_CHECKING:
    from ._worker_sync import Worker

T = TypeVar("T")

# Longest time in seconds between two attempts of a failed renewal.
_RENEW_AGAIN = 1.0
# Time in seconds for which the thread without locks stays ready, so that short locks do not wake it each time.
_LINGER = 1.0


class Backend:
    """What a client has in one process: a client ID, connections, and a thread that renews its locks."""

    def __init__(self, settings: Settings) -> None:
        self.process = process_now()
        self.transport: Transport = settings.transport()
        self.driver: Driver = driver_of(settings, self.transport)
        self.renewals = Renewals()

    def run(self, call: Call[T]) -> T:
        return self.driver.run(call(self.transport))

    def close(self) -> None:
        self.renewals.close()
        self.driver.close()


class Rushgate:
    """A client of locks, queues and sales.

    Any number of threads may share it, and everything that it returns. A forked process may use the client of its
    parent: it becomes a client of its own, with its own ID and connections.
    """

    def __init__(
        self,
        url: str,
        *,
        token: Optional[str] = None,
        ca: Optional[str] = None,
        timeout: Seconds = contract.DEFAULT_TIMEOUT,
        retry_for: Seconds = contract.DEFAULT_RETRY_FOR,
    ) -> None:
        """Makes a client. It connects when it is first used.

        - `url`: `redis://`, `redis+sentinel://` or `redis+cluster://`, the same with `rediss`, `http://` or `https://`.
        - `token`: API token of a Rushgate server.
        - `ca`: PEM file of the authority that signed the server's certificate. Default: those of the system.
        - `timeout`: time limit of one try of a call, in seconds, without the wait that the call asks for.
        - `retry_for`: how long a call is repeated after a lost connection, in seconds.

        Raises `InvalidArgument` for a malformed URL.
        """
        self._settings = Settings.of(url, token, ca, timeout, retry_for)
        self._mutex = threading.Lock()
        self._is_closed = False
        self._backend: Optional[Backend] = None
        _clients.add(self)

    def _backend_now(self) -> Backend:
        backend = self._backend
        if backend is not None and backend.process == process_now():
            return backend
        with self._mutex:
            if self._is_closed:
                raise ClientClosed("The client is closed.")
            if self._backend is None or self._backend.process != process_now():
                self._backend = Backend(self._settings)
            return self._backend

    def _run(self, call: Call[T]) -> T:
        return self._backend_now().run(call)

    def lock(
        self,
        name: str,
        *,
        lease: Seconds = contract.DEFAULT_LEASE,
        renew: bool = True,
        label: str = "",
        barging: bool = False,
    ) -> Lock:
        """Returns a lock by name.

        - `lease`: 10 ms to 24 h, in seconds. If the holder dies, the lock is free after this time.
        - `renew`: whether to renew the lease after each third of it, until the lock is released.
        - `label`: what the holder does, as shown to operators, at most 200 bytes.
        - `barging`: whether to take a free lock ahead of the wait queue.
        """
        return Lock(self, calls.LockCalls(name, lease, label, barging), renew)

    def queue(self, name: str) -> Queue:
        """Returns a queue by name."""
        return Queue(self, calls.QueueCalls(name))

    def worker(self, queue: str, **settings: Any) -> Worker:
        """Returns a worker for a queue, with the settings of `Worker`. It does nothing until it runs."""
        from ._worker_sync import Worker

        return Worker(self.queue(queue), **settings)

    def sale(self, sale: str) -> Sale:
        """Returns a sale by ID."""
        return Sale(self, calls.SaleCalls(sale))

    def create_sale(
        self,
        sale: str,
        skus: Sequence[Sku],
        *,
        hold: Seconds = contract.DEFAULT_HOLD,
        opens_at_us: Optional[int] = None,
        closes_at_us: Optional[int] = None,
        ledger: Optional[bool] = None,
    ) -> bool:
        """Creates a sale without opening it. Returns False if another sale has the ID.

        - `skus`: 1 to 1,000.
        - `hold`: how long a reservation holds its units, 10 ms to 30 days, in seconds.
        - `ledger`: whether a ledger records the orders. Default: no over Redis, and if the server has one over HTTP.
        """
        return self._run(calls.create_sale(sale, skus, hold, opens_at_us, closes_at_us, ledger))

    def close(self) -> None:
        """Closes the connections. Held locks end with their leases unless they were released."""
        with self._mutex:
            self._is_closed = True
            backend, self._backend = self._backend, None
        if backend is not None and backend.process == process_now():
            backend.close()

    def __enter__(self) -> Rushgate:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# In a forked process, another thread of the parent may have held the mutex.
_clients: weakref.WeakSet[Rushgate] = weakref.WeakSet()


def _reset_mutexes() -> None:
    for client in list(_clients):
        client._mutex = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_mutexes)


class Lock:
    """A distributed lock. One client holds it at a time, and waiters get it in the order of their arrival."""

    def __init__(self, client: Rushgate, lock: calls.LockCalls, renew: bool) -> None:
        self._client, self._calls, self._renew = client, lock, renew

    @property
    def name(self) -> str:
        return self._calls.name

    def acquire(self, wait: Seconds = 0) -> HeldLock:
        """Acquires the lock, within a wait of 0 to 24 h in seconds.

        Raises `LockBusy` if another client holds the lock when the wait ends. The answer is a context manager, which
        releases the lock at its end.
        """
        backend = self._client._backend_now()
        grant = backend.run(self._calls.acquire(wait))
        return HeldLock(backend, self._calls, grant, self._renew)

    def state(self) -> LockState:
        """Returns the holder and the wait queue."""
        return self._client._run(self._calls.state())

    def force_release(self) -> Optional[Holder]:
        """Takes the lock from its holder, who is notified, and grants it to the next waiter. For operators.

        Returns the former holder.
        """
        return self._client._run(self._calls.force_release())


class HeldLock:
    """A held lock, which is renewed until it is released or lost.

    It belongs to the process that acquired it. In a forked process it is lost.
    """

    def __init__(self, backend: Backend, lock: calls.LockCalls, grant: Grant, renew: bool) -> None:
        self._backend, self._calls = backend, lock
        self._token = grant.token
        self.fence = grant.fence
        """Fencing token: greater than that of every earlier grant. Let the protected resource refuse smaller ones."""
        self.lost = threading.Event()
        """Set before the store can grant the lock to another client: stop the work then."""
        self._is_released = False
        self._does_renew = renew
        # Extensions are sent one at a time, so that the last answer has the end.
        self._extending = threading.Lock()
        self._lease = lock.lease
        self._held_until = grant.held_until
        self._renew_at = self._next_renewal()
        self._unwatch = backend.transport.watch_lock(grant.token, self._lose)
        backend.renewals.add(self)

    @property
    def name(self) -> str:
        return self._calls.name

    @property
    def lease_left(self) -> float:
        """Seconds for which the lock is certainly held, unless it is renewed. 0 if it was lost or released."""
        if self.lost.is_set() or self._is_released or self._is_foreign:
            return 0.0
        return max(0.0, self._held_until - now())

    @property
    def _is_foreign(self) -> bool:
        return self._backend.process != process_now()

    def check(self) -> None:
        """Raises `LockLost` if the lock was lost or released."""
        if self.lease_left <= 0:
            raise self._lost_error()

    def extend(self, lease: Optional[Seconds] = None) -> None:
        """Extends the lease, to `lease` seconds from now, and renews it with that lease from then on.

        Default: the present lease. Raises `LockLost` if the lock was lost.
        """
        lease_us = None if lease is None else check.lease(lease)
        if self._is_foreign:
            raise self._lost_error()
        with self._extending:
            self._extend(self._lease if lease_us is None else lease_us)

    def _extend(self, lease_us: int) -> None:
        if self.lost.is_set() or self._is_released:
            raise self._lost_error()
        # Without an answer, the lease ends at the old or the new time.
        self._set_lease(lease_us, min(self._held_until, now() + certain(lease_us / 1e6)))
        try:
            grant = self._backend.run(self._calls.extend(self._token, lease_us))
        except BaseException:
            self._renew_soon()
            raise
        if grant is None:
            self._lose()
            raise self._lost_error()
        self._set_lease(lease_us, grant.held_until)

    def _set_lease(self, lease_us: int, held_until: float) -> None:
        self._lease, self._held_until = lease_us, held_until
        self._renew_at = self._next_renewal()
        self._backend.renewals.reschedule(self)

    def release(self) -> None:
        """Releases the lock. Raises `LockLost` if it was lost before. A second call does nothing."""
        if self._is_foreign:
            raise self._lost_error()
        if self._is_released:
            return
        self._is_released = True
        self._end()
        if not self._backend.run(self._calls.release(self._token)) or self.lost.is_set():
            raise self._lost_error()

    def _next_renewal(self) -> float:
        return now() + self._lease / 3e6 if self._does_renew else self._held_until

    def _check_in(self) -> float:
        """Signals the end of the lease, or starts a renewal. Returns when to check again."""
        time = now()
        if time >= self._held_until:
            self._lose()
        elif self._does_renew and time >= self._renew_at:
            # If no answer comes by then, the renewal is sent again.
            self._renew_at = time + self._lease / 4e6
            threading.Thread(target=self._renew, name="rushgate-renewal", daemon=True).start()
        return min(self._renew_at, self._held_until)

    def _renew(self) -> None:
        if self._extending.locked():
            return
        with contextlib.suppress(RushgateError):
            self.extend()

    def _renew_soon(self) -> None:
        """After a failed extension. The old lease may still run, so a third of the new one could be too late."""
        if self._does_renew:
            self._renew_at = now() + min(self._lease / 20e6, _RENEW_AGAIN)
            self._backend.renewals.reschedule(self)

    def _lose(self) -> None:
        if not self._is_released:
            self.lost.set()
            self._end()

    def _end(self) -> None:
        self._unwatch()
        self._backend.renewals.remove(self)

    def _lost_error(self) -> LockLost:
        return LockLost(f"The lock `{self.name}` was lost.")

    def __enter__(self) -> HeldLock:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if kind is None:
            self.release()
            return
        # The exception of the work matters more than that of the release.
        with contextlib.suppress(RushgateError):
            self.release()


class Renewals:
    """A thread that renews held locks, and signals the loss of those whose lease ends."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._held: Set[HeldLock] = set()
        self._wake_at = float("inf")
        self._bell = ThreadBell()
        self._thread: Optional[threading.Thread] = None
        self._is_closed = False

    def add(self, held: HeldLock) -> None:
        with self._mutex:
            self._held.add(held)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="rushgate-locks", daemon=True)
                self._thread.start()
        self.reschedule(held)

    def remove(self, held: HeldLock) -> None:
        with self._mutex:
            self._held.discard(held)

    def reschedule(self, held: HeldLock) -> None:
        """Wakes the thread if it would sleep for too long."""
        if min(held._renew_at, held._held_until) < self._wake_at:
            self._bell.ring()

    def _work(self) -> None:
        is_idle = False
        while not self._is_closed:
            # A lock that is added meanwhile rings the bell.
            self._wake_at = float("inf")
            with self._mutex:
                held = list(self._held)
            if held or not is_idle:
                self._wake_at = min((one._check_in() for one in held), default=now() + _LINGER)
            pause = self._wake_at - now()
            is_rung = self._bell.wait(None if pause == float("inf") else max(pause, 0.001))
            is_idle = not held and not is_rung

    def close(self) -> None:
        self._is_closed = True
        self._bell.ring()


class Queue:
    """A durable task queue. A task runs at least once, and a queue has at most one live task per ID."""

    def __init__(self, client: Rushgate, queue: calls.QueueCalls) -> None:
        self._client, self._calls = client, queue

    @property
    def name(self) -> str:
        return self._calls.name

    def enqueue(self, id: str, payload: Any = b"", **options: Any) -> Enqueued:
        """Enqueues a task. The options are the fields of `NewTask`."""
        return self.enqueue_many([new_task(id, payload, options)])[0]

    def enqueue_many(self, tasks: Sequence[NewTask]) -> List[Enqueued]:
        """Enqueues 1 to 1,000 tasks in one atomic step, in this order. Returns one outcome per task."""
        return self._client._run(self._calls.enqueue(tasks))

    def claim(
        self, n: int = 1, *, lease: Seconds = contract.DEFAULT_LEASE, wait: Seconds = 0, worker: Optional[str] = None
    ) -> List[ClaimedTask]:
        """Claims due tasks under a lease. Waits for the first one if none is due.

        - `n`: maximum number of tasks, 1 to 1,000.
        - `lease`: 10 ms to 24 h, in seconds. A task whose lease expires becomes available again.
        - `wait`: 0 to 24 h, in seconds.
        - `worker`: name as shown to operators, at most 200 bytes. Default: host and process ID.
        """
        return self._claim(n, lease, wait, worker, None)

    def _claim(
        self, n: int, lease: Seconds, wait: Seconds, worker: Optional[str], stop: Optional[Stop]
    ) -> List[ClaimedTask]:
        records = self._client._run(self._calls.claim(n, lease, wait, worker, stop))
        return [ClaimedTask(self._client, self.name, lease, record) for record in records]

    def top(self, n: int = 1) -> List[TaskRecord]:
        """Returns the first due tasks without claiming them."""
        return self._client._run(self._calls.top(n))

    def dequeue(self, ticket: str) -> bool:
        """Removes a task if it is unchanged since it was read with this ticket.

        False if it was changed, or a worker is running it.
        """
        return self._client._run(self._calls.dequeue(ticket))

    def pop(self, n: int = 1) -> List[TaskRecord]:
        """Removes the first due tasks and returns them. They are lost if the client dies."""
        return self._client._run(self._calls.pop(n))

    def task(self, id: str) -> Optional[TaskInfo]:
        """Returns a live or retained task. None if there is none."""
        return self._client._run(self._calls.task(id))

    def cancel(self, id: str) -> str:
        """Cancels a task: `removed`, `marked` (its worker stops it) or `not_found`."""
        return self._client._run(self._calls.cancel(id))

    def reschedule(
        self, id: str, *, delay: Optional[Seconds] = None, due_us: Optional[int] = None
    ) -> Rescheduled:
        """Changes when a waiting task is due, earlier or later. Everything else about the task stays.

        - `delay`: 0 to 400 days from now, in seconds. Over HTTP, rounded up to whole ms.
        - `due_us`: when the task is due, in µs since 1970, instead of `delay`. Default: now.
        """
        return self._client._run(self._calls.reschedule(id, delay, due_us))

    def clear_unique(self, id: str) -> Optional[int]:
        """Clears the uniqueness window of an ID. Returns when it would have ended, in µs. None if there was none."""
        return self._client._run(self._calls.clear_unique(id))

    def wait_for(self, id: str, wait: Seconds = 0) -> Optional[Ended]:
        """Waits until a task has ended. None if it is live after the wait. The queue needs a retention."""
        return self._client._run(self._calls.wait_for(id, wait))

    def why(self, id: str) -> List[Why]:
        """Returns reasons why a task is not running: at least one. The one that must end first comes first."""
        return self._client._run(self._calls.why(id))

    def close_batch(self, id: str) -> Closed:
        """Closes an open batch: its callback runs when all members have finished."""
        return self._client._run(self._calls.close_batch(id))

    def dependents(self, id: str, n: int = 100) -> List[str]:
        """Returns the IDs of up to `n` live tasks (1 to 1,000) that still wait for a task.

        They are ordered by their policy for a dead dependency, `if_dead`, and then by arrival.
        """
        return self._client._run(self._calls.dependents(id, n))

    def waited(self, id: str, *, after: str = "", limit: int = contract.WAITED_PAGE[1]) -> List[Waited]:
        """Returns finished tasks that a live task waited for, by ID, with their results. `limit`: 1 to 100."""
        return self._client._run(self._calls.waited(id, after, limit))

    def stats(self) -> QueueStats:
        """Returns task counts, lag and limits."""
        return self._client._run(self._calls.stats())

    def limit(self, limits: QueueLimits) -> None:
        """Sets the limits of the queue. A limit that is None does not apply from now on."""
        self._client._run(self._calls.limit(limits))

    def pause(self) -> None:
        """Pauses the queue: workers get no tasks from it."""
        self._client._run(self._calls.pause(True))

    def resume(self) -> None:
        """Resumes the queue."""
        self._client._run(self._calls.pause(False))

    def dead(self, *, after: str = "", limit: int = contract.BATCH[1]) -> List[DeadLetter]:
        """Returns dead letters by ID. `limit`: 1 to 1,000."""
        return self._client._run(self._calls.dead(after, limit))

    def requeue_dead(self, ids: Optional[Sequence[str]] = None) -> Tuple[int, int]:
        """Requeues these dead letters, or all, due at once.

        Returns how many were requeued, and how many were kept because their ID is live or the queue is full.
        """
        return self._client._run(self._calls.requeue_dead(ids))

    def delete_dead(self, ids: Optional[Sequence[str]] = None) -> int:
        """Deletes these dead letters, or all. Returns how many."""
        return self._client._run(self._calls.delete_dead(ids))

    def save_schedule(
        self,
        id: str,
        recurrence: Recurrence,
        payload: Any = b"",
        *,
        content_type: Optional[str] = None,
        kind: Optional[str] = None,
        priority: int = contract.DEFAULT_PRIORITY,
        max_attempts: int = contract.DEFAULT_ATTEMPTS,
        paused: Optional[bool] = None,
    ) -> str:
        """Creates or changes a schedule: `added`, `changed`, `unchanged` or `full` (the queue has 10,000).

        Its ID has at most 170 bytes. Workers of the queue and `rushgate serve` fire it: each occurrence enqueues a task with
        an ID such as `ID@2026-11-22T03:30:00Z`.
        """
        call = self._calls.save_schedule(id, recurrence, payload, content_type, kind, priority, max_attempts, paused)
        return self._client._run(call)

    def schedules(self, *, after: str = "", limit: int = contract.SCHEDULES_PAGE[1]) -> List[Schedule]:
        """Returns schedules by ID. `limit`: 1 to 10,000."""
        return self._client._run(self._calls.schedules(after, limit))

    def delete_schedule(self, id: str) -> bool:
        """Deletes a schedule. Returns False if it does not exist. Tasks that it enqueued stay."""
        return self._client._run(self._calls.delete_schedule(id))

    def workers(self, *, after: str = "", limit: int = contract.WORKERS_PAGE[1]) -> List[WorkerInfo]:
        """Returns workers that run, busy or idle, by ID. `limit`: 1 to 10,000."""
        return self._client._run(self._calls.workers(after, limit))

    def set_worker(self, id: str, mode: str) -> bool:
        """Lets a worker `work`, be `quiet` (it claims nothing from this queue) or `stop`. For operators.

        The worker obeys within 10 s. Returns False if it is not listed.
        """
        return self._client._run(self._calls.set_worker(id, mode))


def new_task(id: str, payload: Any, options: Mapping[str, Any]) -> NewTask:
    try:
        return NewTask(id, payload, **options)
    except TypeError as error:
        raise InvalidArgument(f"Unknown option of a task: {error}.", field="options") from None


class ClaimedTask:
    """A claimed task. End it before its lease expires; otherwise another worker gets it."""

    def __init__(self, client: Rushgate, queue: str, lease: Seconds, record: TaskRecord) -> None:
        self.record = record
        """The task as it was claimed."""
        self._client, self._lease = client, lease
        self._calls = calls.TaskCalls(queue, record.ticket)

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def payload(self) -> Any:
        """The decoded content. Raises `Undecodable` if it does not match its content type."""
        return self.record.payload

    @property
    def kind(self) -> Optional[str]:
        return self.record.kind

    @property
    def attempt(self) -> int:
        """Number of claims so far, this one included."""
        return self.record.attempt

    @property
    def fence(self) -> int:
        """Fencing token of the claim. It only grows within a queue."""
        return self.record.fence or 0

    def complete(self, result: Any = None) -> str:
        """Completes the task: `done`, `requeued` (a pending replacement took over) or `stale` (the claim was lost).

        A result of at most 64 KiB is kept if the queue has a retention.
        """
        return self._client._run(self._calls.complete(result))

    def discard(self) -> str:
        """Completes the task without work, because there is nothing to do."""
        return self._client._run(self._calls.complete(discarded=True))

    def retry(self, error: str, *, delay: Seconds = 0, give_up: bool = False) -> Retried:
        """Fails the attempt. The task is due again after `delay` seconds.

        After its last attempt, or with `give_up`, it becomes a dead letter. The last 2,000 bytes of `error` are kept.
        """
        return self._client._run(self._calls.retry(error, delay, give_up))

    def release(self, *, delay: Seconds = 0) -> str:
        """Returns the task to the queue: `waiting`, `cancelled` or `stale`. The attempt does not count."""
        return self._client._run(self._calls.release(delay))

    def extend(self, lease: Optional[Seconds] = None, progress: Optional[Progress] = None) -> str:
        """Extends the lease from now, and stores progress: `extended`, `cancelled` or `lost`.

        Default: the lease of the claim.
        """
        return self._client._run(self._calls.extend(self._lease if lease is None else lease, progress))


class Sale:
    """A sale of numbered units. N units are sold exactly once each, to any number of buyers."""

    def __init__(self, client: Rushgate, sale: calls.SaleCalls) -> None:
        self._client, self._calls = client, sale

    @property
    def id(self) -> str:
        return self._calls.id

    def state(self) -> SaleState:
        """Returns the sale and its stock."""
        return self._client._run(self._calls.state())

    def open(self) -> str:
        """Opens the sale, from its opening time on if it has one. Returns its status."""
        return self._client._run(self._calls.open())

    def end(self) -> str:
        """Ends the sale permanently. Holds can still be decided. Returns its status."""
        return self._client._run(self._calls.end())

    def reserve(
        self,
        buyer: str,
        key: str,
        lines: Union[Mapping[str, int], Sequence[str]],
        *,
        same_number: bool = False,
        admission: Optional[str] = None,
    ) -> Reserved:
        """Reserves units for a buyer, all lines or none.

        - `key`: idempotency key of this attempt to buy, 1 to 128 visible ASCII characters. Reuse it to retry.
        - `lines`: quantity (1 to 1,000) by SKU, or SKUs of which the buyer wants one each. At most 32.
        - `same_number`: whether every line must get the same unit number.
        - `admission`: admission token of the waiting room, for a buyer over HTTP.
        """
        return self._client._run(self._calls.reserve(buyer, key, lines, same_number, admission))

    def reservation(self, id: str, *, wait: Seconds = 0) -> Optional[Hold]:
        """Returns a reservation, once it is final or after the wait. None if there is none."""
        return self._client._run(self._calls.reservation(id, wait))

    def confirm(self, id: str, *, wait: Seconds = 0) -> Decision:
        """Confirms a reservation that is paid for. `refused`: refund the payment.

        In a sale with a ledger the outcome is `pending` until the ledger has the order. With a wait, it is the outcome
        after that.
        """
        return self._client._run(self._calls.confirm(id, wait))

    def cancel(self, id: str, *, wait: Seconds = 0) -> Decision:
        """Cancels a reservation. With a wait, waits for the ledger as `confirm` does."""
        return self._client._run(self._calls.cancel(id, wait))

    def restore(self, receipt: str) -> Restored:
        """Restores a reservation that the store has lost, from its receipt."""
        return self._client._run(self._calls.restore(receipt))
