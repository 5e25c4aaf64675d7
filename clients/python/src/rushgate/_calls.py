"""Calls of locks, queues and sales: arguments are checked, and answers become models. With and without asyncio."""

from __future__ import annotations

import os
import socket
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union

from . import _check as check
from . import contract
from ._check import Seconds
from ._content import encode, encode_result
from ._cron import Pattern, zone_of
from ._plan import Plan, Stop
from ._transport import (
    AcquireRequest,
    Call,
    Cart,
    ClaimRequest,
    Completion,
    EncodedSchedule,
    Failure,
    Grant,
    Heartbeat,
    NewSale,
    Release,
    Transport,
)
from .errors import InvalidArgument, LockBusy
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
    encode_task,
    holder_of,
)

T = TypeVar("T")


def default_worker() -> str:
    """Name of this process, as shown to operators."""
    return f"{socket.gethostname()[:150]}:{os.getpid()}"


class LockCalls:
    """Calls of a lock."""

    def __init__(self, name: str, lease: Seconds, label: str, barging: bool) -> None:
        self.name = check.name("lock", name)
        self.lease = check.lease(lease)
        self._label = check.label("label", label)
        self._barging = bool(barging)

    def acquire(self, wait: Seconds) -> Call[Grant]:
        request = AcquireRequest(self.lease, check.wait(wait), self._label, self._barging)

        def call(transport: Transport) -> Plan[Grant]:
            grant = yield from transport.acquire(self.name, request)
            if grant is None:
                raise LockBusy(f"Another client holds the lock `{self.name}`.")
            return grant

        return call

    def extend(self, token: str, lease: int) -> Call[Optional[Grant]]:
        return lambda transport: transport.extend_lock(self.name, token, lease)

    def release(self, token: str) -> Call[bool]:
        return lambda transport: transport.release_lock(self.name, token)

    def state(self) -> Call[LockState]:
        def call(transport: Transport) -> Plan[LockState]:
            return LockState.of(self.name, (yield from transport.show_lock(self.name)))

        return call

    def force_release(self) -> Call[Optional[Holder]]:
        def call(transport: Transport) -> Plan[Optional[Holder]]:
            return holder_of((yield from transport.force_release(self.name)))

        return call


class TaskCalls:
    """Calls that end or extend a claim."""

    def __init__(self, queue: str, ticket: str) -> None:
        self._queue, self._ticket = queue, ticket

    def complete(self, result: Any = None, discarded: bool = False) -> Call[str]:
        completion = Completion(self._ticket, encode_result(result), discarded)

        def call(transport: Transport) -> Plan[str]:
            return (yield from transport.complete(self._queue, [completion]))[0]

        return call

    def retry(self, error: str, delay: Seconds, give_up: bool) -> Call[Retried]:
        text = check.cut(check.text("error", error), contract.ERROR_BYTES)
        failure = Failure(self._ticket, text, check.micros("delay", delay, contract.DELAY_US), give_up)

        def call(transport: Transport) -> Plan[Retried]:
            return Retried.of((yield from transport.retry(self._queue, [failure]))[0])

        return call

    def release(self, delay: Seconds) -> Call[str]:
        release = Release(self._ticket, check.micros("delay", delay, contract.DELAY_US))

        def call(transport: Transport) -> Plan[str]:
            return (yield from transport.release(self._queue, [release]))[0]

        return call

    def extend(self, lease: Seconds, progress: Optional[Progress]) -> Call[str]:
        lease_us = check.lease(lease)
        heartbeat = Heartbeat(self._ticket, None if progress is None else check_progress(progress))

        def call(transport: Transport) -> Plan[str]:
            return (yield from transport.extend(self._queue, [heartbeat], lease_us))[0]

        return call


def check_progress(progress: Progress) -> Progress:
    if progress.percent is not None:
        check.whole("percent", progress.percent, contract.PERCENT)
    check.label("note", progress.note)
    return progress


class QueueCalls:
    """Calls of a queue."""

    def __init__(self, name: str) -> None:
        self.name = check.name("queue", name)

    def enqueue(self, tasks: Sequence[NewTask]) -> Call[List[Enqueued]]:
        encoded = [encode_task(task) for task in check.entries("tasks", tasks, contract.BATCH)]

        def call(transport: Transport) -> Plan[List[Enqueued]]:
            return [Enqueued.of(fields) for fields in (yield from transport.enqueue(self.name, encoded))]

        return call

    def claim(
        self, n: int, lease: Seconds, wait: Seconds, worker: Optional[str], stop: Optional[Stop] = None
    ) -> Call[List[TaskRecord]]:
        name = default_worker() if worker is None else check.label("worker", worker)
        check.whole("n", n, contract.BATCH)
        request = ClaimRequest(n, check.lease(lease), check.wait(wait), name, stop)

        def call(transport: Transport) -> Plan[List[TaskRecord]]:
            return [TaskRecord.of(fields) for fields in (yield from transport.claim(self.name, request))]

        return call

    def top(self, n: int) -> Call[List[TaskRecord]]:
        check.whole("n", n, contract.BATCH)

        def call(transport: Transport) -> Plan[List[TaskRecord]]:
            return [TaskRecord.of(fields) for fields in (yield from transport.top(self.name, n))]

        return call

    def dequeue(self, ticket: str) -> Call[bool]:
        checked = check.ticket(ticket)

        def call(transport: Transport) -> Plan[bool]:
            return (yield from transport.dequeue(self.name, checked)) == "removed"

        return call

    def pop(self, n: int) -> Call[List[TaskRecord]]:
        check.whole("n", n, contract.BATCH)

        def call(transport: Transport) -> Plan[List[TaskRecord]]:
            return [TaskRecord.of(fields) for fields in (yield from transport.pop(self.name, n))]

        return call

    def task(self, task: str) -> Call[Optional[TaskInfo]]:
        checked = check.name("id", task)

        def call(transport: Transport) -> Plan[Optional[TaskInfo]]:
            fields = yield from transport.task(self.name, checked)
            return None if fields is None else TaskInfo.of(fields)

        return call

    def cancel(self, task: str) -> Call[str]:
        checked = check.name("id", task)
        return lambda transport: transport.cancel(self.name, checked)

    def reschedule(self, task: str, delay: Optional[Seconds], due_us: Optional[int]) -> Call[Rescheduled]:
        if delay is not None and due_us is not None:
            raise check.invalid("delay", "cannot be set together with due_us")
        checked, at_us = check.name("id", task), check.moment("due_us", due_us)
        delay_us = check.optional_micros("delay", delay, contract.DELAY_US) or 0

        def call(transport: Transport) -> Plan[Rescheduled]:
            return Rescheduled.of((yield from transport.reschedule(self.name, checked, delay_us, at_us)))

        return call

    def clear_unique(self, task: str) -> Call[Optional[int]]:
        checked = check.name("id", task)
        return lambda transport: transport.clear_unique(self.name, checked)

    def wait_for(self, task: str, wait: Seconds) -> Call[Optional[Ended]]:
        checked, wait_us = check.name("id", task), check.wait(wait)

        def call(transport: Transport) -> Plan[Optional[Ended]]:
            fields = yield from transport.wait_for(self.name, checked, wait_us)
            return None if fields is None else Ended.of(fields)

        return call

    def why(self, task: str) -> Call[List[Why]]:
        checked = check.name("id", task)

        def call(transport: Transport) -> Plan[List[Why]]:
            return [Why.of(fields) for fields in (yield from transport.why(self.name, checked))]

        return call

    def close_batch(self, task: str) -> Call[Closed]:
        checked = check.name("id", task)

        def call(transport: Transport) -> Plan[Closed]:
            return Closed.of((yield from transport.close_batch(self.name, checked)))

        return call

    def dependents(self, task: str, n: int) -> Call[List[str]]:
        checked, most = check.name("id", task), check.whole("n", n, contract.BATCH)
        return lambda transport: transport.dependents(self.name, checked, most)

    def waited(self, task: str, after: str, limit: int) -> Call[List[Waited]]:
        checked, page = check.name("id", task), check.page(after, limit, contract.WAITED_PAGE)

        def call(transport: Transport) -> Plan[List[Waited]]:
            return [Waited.of(fields) for fields in (yield from transport.waited(self.name, checked, *page))]

        return call

    def stats(self) -> Call[QueueStats]:
        def call(transport: Transport) -> Plan[QueueStats]:
            return QueueStats.of((yield from transport.stats(self.name)))

        return call

    def limit(self, limits: QueueLimits) -> Call[None]:
        limits.check()
        return lambda transport: transport.limit(self.name, limits)

    def pause(self, paused: bool) -> Call[None]:
        return lambda transport: transport.pause(self.name, paused)

    def dead(self, after: str, limit: int) -> Call[List[DeadLetter]]:
        page = check.page(after, limit, contract.BATCH)

        def call(transport: Transport) -> Plan[List[DeadLetter]]:
            return [DeadLetter.of(fields) for fields in (yield from transport.dead(self.name, *page))]

        return call

    def requeue_dead(self, ids: Optional[Sequence[str]]) -> Call[Tuple[int, int]]:
        checked = check.ids(ids)

        def call(transport: Transport) -> Plan[Tuple[int, int]]:
            fields = yield from transport.requeue_dead(self.name, checked)
            return fields["requeued"], fields["kept"]

        return call

    def delete_dead(self, ids: Optional[Sequence[str]]) -> Call[int]:
        checked = check.ids(ids)
        return lambda transport: transport.delete_dead(self.name, checked)

    def save_schedule(
        self,
        schedule: str,
        recurrence: Recurrence,
        payload: Any,
        content_type: Optional[str],
        kind: Optional[str],
        priority: int,
        max_attempts: int,
        paused: Optional[bool],
    ) -> Call[str]:
        checked = check.name("id", schedule, contract.SCHEDULE_ID_BYTES)
        settings = EncodedSchedule(
            _stored(recurrence),
            encode(payload, content_type, kind),
            check.whole("priority", priority, contract.PRIORITY),
            check.whole("max_attempts", max_attempts, contract.ATTEMPTS),
            None if paused is None else bool(paused),
        )
        return lambda transport: transport.save_schedule(self.name, checked, settings)

    def schedules(self, after: str, limit: int) -> Call[List[Schedule]]:
        page = check.page(after, limit, contract.SCHEDULES_PAGE)

        def call(transport: Transport) -> Plan[List[Schedule]]:
            return [Schedule.of(fields) for fields in (yield from transport.schedules(self.name, *page))]

        return call

    def delete_schedule(self, schedule: str) -> Call[bool]:
        checked = check.name("id", schedule, contract.SCHEDULE_ID_BYTES)
        return lambda transport: transport.delete_schedule(self.name, checked)

    def workers(self, after: str, limit: int) -> Call[List[WorkerInfo]]:
        page = check.page(after, limit, contract.WORKERS_PAGE)

        def call(transport: Transport) -> Plan[List[WorkerInfo]]:
            return [WorkerInfo.of(fields) for fields in (yield from transport.workers(self.name, *page))]

        return call

    def set_worker(self, worker: str, mode: str) -> Call[bool]:
        checked, mode = check.name("id", worker), check.choice("mode", mode, contract.WORKER_MODE)
        return lambda transport: transport.set_worker(self.name, checked, mode)


def _stored(recurrence: Recurrence) -> Dict[str, Any]:
    """Checks a recurrence, and returns its stored form."""
    missed = check.choice("missed", recurrence.missed, contract.MISSED)
    if (recurrence.cron is None) == (recurrence.every is None):
        raise InvalidArgument("A recurrence has either a cron pattern or an interval.", field="recurrence")
    if recurrence.every is not None:
        if recurrence.zone is not None:
            raise check.invalid("zone", "applies to cron patterns only")
        return {"every_ms": check.micros("every", recurrence.every, contract.INTERVAL_US) // 1_000, "missed": missed}
    Pattern(recurrence.cron or "")
    if recurrence.zone is None:
        return {"cron": recurrence.cron, "missed": missed}
    zone_of(recurrence.zone)
    return {"cron": recurrence.cron, "zone": recurrence.zone, "missed": missed}


class SaleCalls:
    """Calls of a sale."""

    def __init__(self, sale: str) -> None:
        self.id = check.name("sale", sale)

    def open(self) -> Call[str]:
        return lambda transport: transport.open_sale(self.id)

    def end(self) -> Call[str]:
        return lambda transport: transport.end_sale(self.id)

    def state(self) -> Call[SaleState]:
        def call(transport: Transport) -> Plan[SaleState]:
            return SaleState.of((yield from transport.sale(self.id)))

        return call

    def reserve(
        self,
        buyer: str,
        key: str,
        lines: Union[Mapping[str, int], Sequence[str]],
        same_number: bool,
        admission: Optional[str],
    ) -> Call[Reserved]:
        cart = Cart(
            check.name("buyer", buyer),
            check.idempotency_key(key),
            _lines(lines, same_number),
            bool(same_number),
            admission,
        )

        def call(transport: Transport) -> Plan[Reserved]:
            return Reserved.of((yield from transport.reserve(self.id, cart)))

        return call

    def confirm(self, reservation: str, wait: Seconds) -> Call[Decision]:
        checked, wait_us = check.reservation(reservation), check.wait(wait)
        return lambda transport: self._settled(transport, transport.confirm(self.id, checked), "confirmed", wait_us)

    def cancel(self, reservation: str, wait: Seconds) -> Call[Decision]:
        checked, wait_us = check.reservation(reservation), check.wait(wait)
        return lambda transport: self._settled(transport, transport.cancel_hold(self.id, checked), "cancelled", wait_us)

    def _settled(self, transport: Transport, plan: Plan[Dict[str, Any]], wanted: str, wait: int) -> Plan[Decision]:
        """Waits until the ledger has committed a decision."""
        decision = Decision.of((yield from plan))
        if decision.outcome != "pending" or decision.hold is None or wait == 0:
            return decision
        fields = yield from transport.reservation(self.id, decision.hold.id, wait)
        if fields is None:
            return Decision("unknown")
        hold = Hold.of(fields)
        if hold.state == wanted:
            return Decision("done", hold)
        return Decision("refused", state=hold.state) if hold.is_final else Decision("pending", hold)

    def reservation(self, reservation: str, wait: Seconds) -> Call[Optional[Hold]]:
        checked, wait_us = check.reservation(reservation), check.wait(wait)

        def call(transport: Transport) -> Plan[Optional[Hold]]:
            fields = yield from transport.reservation(self.id, checked, wait_us)
            return None if fields is None else Hold.of(fields)

        return call

    def restore(self, receipt: str) -> Call[Restored]:
        checked = check.text("receipt", receipt)

        def call(transport: Transport) -> Plan[Restored]:
            return Restored.of((yield from transport.restore(self.id, checked)))

        return call


def _lines(lines: Union[Mapping[str, int], Sequence[str]], same_number: bool) -> Dict[str, int]:
    """Checks the lines of a cart. A list of SKUs stands for one unit of each."""
    entries = (
        list(lines.items())
        if isinstance(lines, Mapping)
        else [(sku, 1) for sku in check.entries("lines", lines, contract.LINES)]
    )
    checked = {
        check.name("sku", sku): check.whole("quantity", quantity, contract.QUANTITY)
        for sku, quantity in check.entries("lines", entries, contract.LINES)
    }
    if len(checked) < len(entries):
        raise check.invalid("lines", "has a SKU twice")
    if same_number and any(quantity != 1 for quantity in checked.values()):
        raise check.invalid("same_number", "requires a quantity of 1 in every line")
    return checked


def create_sale(
    sale: str,
    skus: Sequence[Sku],
    hold: Seconds,
    opens_at_us: Optional[int],
    closes_at_us: Optional[int],
    ledger: Optional[bool],
) -> Call[bool]:
    checked = [
        {
            "sku": check.name("sku", sku.sku),
            "units": check.whole("units", sku.units, contract.UNITS),
            "per_buyer": check.whole("per_buyer", sku.per_buyer, contract.PER_BUYER),
        }
        for sku in check.entries("skus", skus, contract.SKUS)
    ]
    if len({sku["sku"] for sku in checked}) < len(checked):
        raise check.invalid("skus", "has a SKU twice")
    new = NewSale(
        check.name("sale", sale),
        checked,
        check.micros("hold", hold, contract.HOLD_US),
        check.moment("opens_at_us", opens_at_us),
        check.moment("closes_at_us", closes_at_us),
        ledger,
    )

    def call(transport: Transport) -> Plan[bool]:
        return (yield from transport.create_sale(new)) == "created"

    return call
