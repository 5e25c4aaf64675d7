"""The transport to a Rushgate server."""

from __future__ import annotations

import contextlib
import json
import uuid
from typing import Callable, Dict, List, Optional, Sequence, Set, Tuple, TypeVar

from .. import contract
from .._content import to_fields
from .._plan import Pause, Plan, now
from .._transport import (
    AcquireRequest,
    Announcement,
    Cart,
    ClaimRequest,
    Completion,
    EncodedSchedule,
    Failure,
    Fields,
    Grant,
    Heartbeat,
    NewSale,
    Release,
    Transport,
)
from ..errors import Conflict, LockBusy, LockLost, NotFound, RushgateError
from ..models import EncodedTask, QueueLimits, Rate
from . import operations as op
from .requests import Answer, Operation, Requests

T = TypeVar("T")

# Longest time between request and answer, in seconds, for which a lease counts from the request.
_QUICK = 0.1
# Shortest time between two requests that wait, in seconds, if the server does not wait.
_AGAIN = 0.25
# Outcomes of sales, by the codes of the API.
_RESERVED = {
    "idempotency_key_reused": "key_reused",
    "sold_out": "sold_out",
    "all_held": "all_held",
    "limit_reached": "limit_reached",
    "sale_not_open": "not_open",
    "sale_ended": "ended",
    "sale_halted": "halted",
}
_RESTORED = {
    "sold_out": "none_left",
    "limit_reached": "limit_reached",
    "hold_expired": "expired",
    "receipt_refused": "not_honored",
    "sale_halted": "halted",
}
_DECIDED = {"not_found": "unknown", "decided": "refused", "sale_halted": "halted"}


def _new_key() -> str:
    return uuid.uuid4().hex


def _millis(duration: Optional[int]) -> Optional[int]:
    """Returns µs as ms, rounded up."""
    return None if duration is None else -(-duration // 1_000)


def _present(fields: Fields) -> Fields:
    return {name: value for name, value in fields.items() if value is not None}


class HttpTransport(Transport):
    """All verbs, by the HTTP API. One request waits for at most a minute, and a longer wait takes several."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    # Locks

    def acquire(self, lock: str, request: AcquireRequest) -> Plan[Optional[Grant]]:
        key = _new_key()
        try:
            return (
                yield from _waiting(
                    request.wait / 1e6,
                    lambda wait: self._acquire_once(lock, request, key, wait),
                    lambda grant: grant is not None,
                )
            )
        except Exception:
            raise
        except BaseException:
            # An answer may have been under way. The same key leads to the same acquisition.
            with contextlib.suppress(RushgateError):
                grant = yield from self._acquire_once(lock, request, key, 0)
                if grant is not None:
                    yield from self.release_lock(lock, grant.token)
            raise

    def _acquire_once(self, lock: str, request: AcquireRequest, key: str, wait: float) -> Plan[Optional[Grant]]:
        body = {"lease_ms": _millis(request.lease), "label": request.label, "barging": request.barging}
        sent = now()
        try:
            answer = yield from self._requests.ask(op.ACQUIRE, (lock,), body, key, wait)
        except LockBusy:
            return None
        grant = _grant(answer.body["token"], answer.body, sent)
        if now() - sent < _QUICK:
            return grant
        # After a wait, the time of the request says nothing about the lease. An extension starts it again.
        return (yield from self.extend_lock(lock, grant.token, request.lease))

    def extend_lock(self, lock: str, token: str, lease: int) -> Plan[Optional[Grant]]:
        sent = now()
        body = {"token": token, "lease_ms": _millis(lease)}
        try:
            answer = yield from self._requests.ask(op.EXTEND_LOCK, (lock,), body)
        except LockLost:
            return None
        return _grant(token, answer.body, sent)

    def release_lock(self, lock: str, token: str) -> Plan[bool]:
        try:
            yield from self._requests.ask(op.RELEASE, (lock,), {"token": token})
        except LockLost:
            return False
        return True

    def watch_lock(self, token: str, lost: Callable[[], None]) -> Callable[[], None]:
        # The API does not push: a forced release shows at the next renewal.
        return lambda: None

    def show_lock(self, lock: str) -> Plan[Fields]:
        return (yield from self._requests.ask(op.SHOW_LOCK, (lock,))).body  # type: ignore[no-any-return]

    def force_release(self, lock: str) -> Plan[Fields]:
        answer = yield from self._requests.ask(op.FORCE_RELEASE, (lock,), {})
        return answer.body  # type: ignore[no-any-return]

    # Queues

    def enqueue(self, queue: str, tasks: List[EncodedTask]) -> Plan[List[Fields]]:
        return (yield from self._outcomes(queue, op.ENQUEUE_ALL, {"tasks": [_task_fields(task) for task in tasks]}))

    def claim(self, queue: str, request: ClaimRequest) -> Plan[List[Fields]]:
        return (
            yield from _waiting(
                request.wait / 1e6,
                lambda wait: self._claim_once(queue, request, wait),
                lambda tasks: bool(tasks) or request.stop is not None and request.stop.is_set,
            )
        )

    def _claim_once(self, queue: str, request: ClaimRequest, wait: float) -> Plan[List[Fields]]:
        body = {"n": request.n, "lease_ms": _millis(request.lease), "worker": request.worker}
        key = _new_key()
        try:
            answer = yield from self._requests.ask(op.CLAIM, (queue,), body, key, wait, request.stop)
        except Exception:
            raise
        except BaseException:
            # The call was interrupted. Sent again, it gets the same answer, whose tasks return to the queue.
            with contextlib.suppress(RushgateError):
                answer = yield from self._requests.ask(op.CLAIM, (queue,), body, key)
                if answer.body["tasks"]:
                    yield from self.release(queue, [Release(task["ticket"]) for task in answer.body["tasks"]])
            raise
        return answer.body["tasks"]  # type: ignore[no-any-return]

    def top(self, queue: str, n: int) -> Plan[List[Fields]]:
        answer = yield from self._requests.ask(op.TOP, (queue,), query={"n": n})
        return answer.body["tasks"]  # type: ignore[no-any-return]

    def dequeue(self, queue: str, ticket: str) -> Plan[str]:
        try:
            answer = yield from self._requests.ask(op.DEQUEUE, (queue,), {"ticket": ticket})
            return answer.body["outcome"]  # type: ignore[no-any-return]
        except RushgateError as problem:
            if problem.code not in contract.DEQUEUED:
                raise
            return problem.code

    def pop(self, queue: str, n: int) -> Plan[List[Fields]]:
        answer = yield from self._requests.ask(op.POP, (queue,), {"n": n}, _new_key())
        return answer.body["tasks"]  # type: ignore[no-any-return]

    def complete(self, queue: str, completions: List[Completion]) -> Plan[List[str]]:
        entries = [(completion.ticket, _completion_fields(completion)) for completion in completions]
        return [fields["outcome"] for fields in (yield from self._grouped(queue, op.COMPLETE, entries))]

    def retry(self, queue: str, failures: List[Failure]) -> Plan[List[Fields]]:
        entries = [
            (of.ticket, {"delay_ms": _millis(of.delay), "error": of.error, "give_up": of.give_up}) for of in failures
        ]
        return (yield from self._grouped(queue, op.RETRY, entries))

    def release(self, queue: str, releases: List[Release]) -> Plan[List[str]]:
        entries = [(release.ticket, {"delay_ms": _millis(release.delay)}) for release in releases]
        return [fields["outcome"] for fields in (yield from self._grouped(queue, op.RELEASE_TASKS, entries))]

    def extend(self, queue: str, heartbeats: List[Heartbeat], lease: int) -> Plan[List[str]]:
        entries = [(of.ticket, {"lease_ms": _millis(lease), **_progress_fields(of)}) for of in heartbeats]
        outcomes = yield from self._grouped(queue, op.EXTEND_TASKS, entries, is_keyed=False)
        return [fields["outcome"] for fields in outcomes]

    def _grouped(
        self, queue: str, operation: Operation, entries: List[Tuple[str, Fields]], is_keyed: bool = True
    ) -> Plan[List[Fields]]:
        """Sends one request for all tickets with the same fields. Returns the outcomes in the order of the entries."""
        groups: Dict[str, List[int]] = {}
        for at, (_, fields) in enumerate(entries):
            groups.setdefault(json.dumps(fields, sort_keys=True), []).append(at)
        outcomes: Dict[int, Fields] = {}
        for positions in groups.values():
            body = {"tickets": [entries[at][0] for at in positions], **entries[positions[0]][1]}
            answers = yield from self._outcomes(queue, operation, body, is_keyed)
            outcomes.update(zip(positions, answers))
        return [outcomes[at] for at in range(len(entries))]

    def _outcomes(
        self, queue: str, operation: Operation, body: Fields, is_keyed: bool = True
    ) -> Plan[List[Fields]]:
        key = _new_key() if is_keyed else None
        answer = yield from self._requests.ask(operation, (queue,), body, key)
        return answer.body["outcomes"]  # type: ignore[no-any-return]

    def cancel(self, queue: str, task: str) -> Plan[str]:
        answer = yield from self._found(op.CANCEL, (queue, task))
        return "not_found" if answer is None else answer.body["outcome"]

    def reschedule(self, queue: str, task: str, delay: int, due_us: Optional[int]) -> Plan[Fields]:
        body = {"delay_ms": _millis(delay)} if due_us is None else {"due_us": due_us}
        try:
            answer = yield from self._requests.ask(op.RESCHEDULE, (queue, task), body, _new_key())
            return answer.body  # type: ignore[no-any-return]
        except RushgateError as problem:
            if problem.code in contract.RESCHEDULED:
                return {"outcome": problem.code}
            if "deadline_us" not in problem.details:
                raise
            return {"outcome": "too_late", "deadline_us": problem.details["deadline_us"]}

    def clear_unique(self, queue: str, task: str) -> Plan[Optional[int]]:
        answer = yield from self._found(op.CLEAR_UNIQUE, (queue, task))
        return None if answer is None else answer.body["until_us"]

    def task(self, queue: str, task: str) -> Plan[Optional[Fields]]:
        found = yield from self._look(queue, task, 0)
        return found if "state" in found else found.get("task")

    def wait_for(self, queue: str, task: str, wait: int) -> Plan[Optional[Fields]]:
        # The server checks the retention of the queue only if it may wait.
        found = yield from _waiting(
            wait / 1e6, lambda part: self._look(queue, task, max(part, 0.001)), lambda found: "state" not in found
        )
        return None if "state" in found else found

    def _look(self, queue: str, task: str, wait: float) -> Plan[Fields]:
        """Returns a live task, or how it ended."""
        try:
            answer = yield from self._requests.ask(op.TASK, (queue, task), wait=wait)
        except NotFound:
            return {"outcome": "gone"}
        except Conflict as problem:
            if problem.code != "dead":
                raise
            return {"outcome": "dead", **problem.details}
        return {"outcome": "finished", "task": answer.body} if answer.body["state"] == "done" else answer.body

    def why(self, queue: str, task: str) -> Plan[List[Fields]]:
        answer = yield from self._requests.ask(op.WHY, (queue, task))
        return answer.body["reasons"]  # type: ignore[no-any-return]

    def close_batch(self, queue: str, task: str) -> Plan[Fields]:
        try:
            answer = yield from self._requests.ask(op.CLOSE_BATCH, (queue, task), {}, _new_key())
            return answer.body  # type: ignore[no-any-return]
        except RushgateError as problem:
            if problem.code not in contract.CLOSED:
                raise
            return {"outcome": problem.code}

    def dependents(self, queue: str, task: str, n: int) -> Plan[List[str]]:
        answer = yield from self._requests.ask(op.DEPENDENTS, (queue, task), query={"n": n})
        return answer.body["ids"]  # type: ignore[no-any-return]

    def waited(self, queue: str, task: str, after: str, limit: int) -> Plan[List[Fields]]:
        return (yield from self._page(op.WAITED, (queue, task), after, limit))

    def stats(self, queue: str) -> Plan[Fields]:
        return (yield from self._requests.ask(op.STATS, (queue,))).body  # type: ignore[no-any-return]

    def limit(self, queue: str, limits: QueueLimits) -> Plan[None]:
        retention = limits.retention
        body = {
            "bound": limits.bound,
            "overflow": limits.overflow,
            "concurrency": limits.concurrency,
            "rate": _rate_fields(limits.rate),
            "per_key": _present(
                {
                    "concurrency": limits.per_key.concurrency,
                    "rate": _rate_fields(limits.per_key.rate),
                    "fifo": limits.per_key.fifo,
                }
            ),
            "retention": retention and {"age_ms": _millis(retention.age_us), "count": retention.count},
            "events": limits.events,
        }
        yield from self._requests.ask(op.LIMIT, (queue,), _present(body))

    def pause(self, queue: str, paused: bool) -> Plan[None]:
        yield from self._requests.ask(op.PAUSE if paused else op.RESUME, (queue,), {})

    def dead(self, queue: str, after: str, limit: int) -> Plan[List[Fields]]:
        return (yield from self._page(op.DEAD, (queue,), after, limit))

    def requeue_dead(self, queue: str, ids: Optional[List[str]]) -> Plan[Fields]:
        answer = yield from self._requests.ask(op.REQUEUE_DEAD, (queue,), _selection(ids))
        return answer.body  # type: ignore[no-any-return]

    def delete_dead(self, queue: str, ids: Optional[List[str]]) -> Plan[int]:
        answer = yield from self._requests.ask(op.DELETE_DEAD, (queue,), _selection(ids))
        return answer.body["deleted"]  # type: ignore[no-any-return]

    def save_schedule(self, queue: str, schedule: str, settings: EncodedSchedule) -> Plan[str]:
        body = {
            **settings.recurrence,
            **to_fields(settings.content),
            "priority": settings.priority,
            "max_attempts": settings.max_attempts,
            "paused": settings.paused,
        }
        try:
            answer = yield from self._requests.ask(op.SCHEDULE, (queue, schedule), _present(body))
        except Conflict as problem:
            if problem.code != "queue_full":
                raise
            return "full"
        return answer.body["outcome"]  # type: ignore[no-any-return]

    def schedules(self, queue: str, after: str, limit: int) -> Plan[List[Fields]]:
        return (yield from self._page(op.SCHEDULES, (queue,), after, limit))

    def delete_schedule(self, queue: str, schedule: str) -> Plan[bool]:
        return (yield from self._found(op.UNSCHEDULE, (queue, schedule))) is not None

    def fire_schedules(self, queue: str, reported: Set[Tuple[str, int]]) -> Plan[Optional[float]]:
        yield from ()
        return None

    def announce(self, queue: str, worker: Announcement) -> Plan[str]:
        body = {
            "name": worker.name,
            "version": worker.version,
            "concurrency": worker.concurrency,
            "running": worker.running,
            "lease_ms": _millis(worker.lease),
        }
        answer = yield from self._requests.ask(op.ANNOUNCE, (queue, worker.id), body)
        return answer.body["mode"]  # type: ignore[no-any-return]

    def end_worker(self, queue: str, worker: str) -> Plan[None]:
        yield from self._requests.ask(op.END_WORKER, (queue, worker))

    def workers(self, queue: str, after: str, limit: int) -> Plan[List[Fields]]:
        return (yield from self._page(op.WORKERS, (queue,), after, limit))

    def set_worker(self, queue: str, worker: str, mode: str) -> Plan[bool]:
        try:
            yield from self._requests.ask(op.SET_WORKER, (queue, worker), {"mode": mode})
        except NotFound:
            return False
        return True

    # Sales

    def create_sale(self, sale: NewSale) -> Plan[str]:
        body = {
            "id": sale.id,
            "skus": sale.skus,
            "hold_ms": _millis(sale.hold),
            "opens_at_us": sale.opens_at_us,
            "closes_at_us": sale.closes_at_us,
            "ledger": sale.ledger,
        }
        try:
            yield from self._requests.ask(op.CREATE, (), _present(body), _new_key())
        except Conflict as problem:
            if problem.code != "exists":
                raise
            return "exists"
        return "created"

    def open_sale(self, sale: str) -> Plan[str]:
        answer = yield from self._requests.ask(op.OPEN, (sale,), {})
        return answer.body["status"]  # type: ignore[no-any-return]

    def end_sale(self, sale: str) -> Plan[str]:
        answer = yield from self._requests.ask(op.END, (sale,), {})
        return answer.body["status"]  # type: ignore[no-any-return]

    def sale(self, sale: str) -> Plan[Fields]:
        return (yield from self._requests.ask(op.SALE, (sale,))).body  # type: ignore[no-any-return]

    def reserve(self, sale: str, cart: Cart) -> Plan[Fields]:
        lines = [{"sku": sku, "quantity": quantity} for sku, quantity in cart.lines.items()]
        body = {"buyer": cart.buyer, "lines": lines, "same_number": cart.same_number, "pass": cart.admission}
        try:
            answer = yield from self._requests.ask(op.RESERVE, (sale,), _present(body), cart.key)
        except RushgateError as problem:
            return _outcome_of(problem, _RESERVED)
        return {"outcome": "replayed" if answer.is_replayed else "reserved", "hold": answer.body}

    def confirm(self, sale: str, reservation: str) -> Plan[Fields]:
        return (yield from self._decide(op.CONFIRM, sale, reservation))

    def cancel_hold(self, sale: str, reservation: str) -> Plan[Fields]:
        return (yield from self._decide(op.CANCEL_HOLD, sale, reservation))

    def _decide(self, operation: Operation, sale: str, reservation: str) -> Plan[Fields]:
        try:
            answer = yield from self._requests.ask(operation, (sale, reservation), {})
        except RushgateError as problem:
            return _outcome_of(problem, _DECIDED)
        return {"outcome": "pending" if answer.status == 202 else "done", "hold": answer.body}

    def reservation(self, sale: str, reservation: str, wait: int) -> Plan[Optional[Fields]]:
        def look(part: float) -> Plan[Optional[Fields]]:
            answer = yield from self._found(op.RESERVATION, (sale, reservation), part)
            return None if answer is None else answer.body

        return (
            yield from _waiting(wait / 1e6, look, lambda hold: hold is None or hold["state"] in contract.FINAL_STATE)
        )

    def restore(self, sale: str, receipt: str) -> Plan[Fields]:
        try:
            answer = yield from self._requests.ask(op.RESTORE, (sale,), {"receipt": receipt})
        except RushgateError as problem:
            return _outcome_of(problem, _RESTORED)
        return {"outcome": "restored" if answer.status == 201 else "known", "hold": answer.body}

    def _found(self, operation: Operation, path: Sequence[str], wait: float = 0) -> Plan[Optional[Answer]]:
        """Returns the answer. None if what the path names does not exist."""
        try:
            return (yield from self._requests.ask(operation, path, wait=wait))
        except NotFound:
            return None

    def _page(self, operation: Operation, path: Sequence[str], after: str, limit: int) -> Plan[List[Fields]]:
        """Reads a list. Large payloads make a page of the server smaller."""
        items: List[Fields] = []
        following: Optional[str] = after
        while following is not None and len(items) < limit:
            query = _present({"after": following or None, "limit": limit - len(items)})
            page = (yield from self._requests.ask(operation, path, query=query)).body
            items += page["items"]
            following = page.get("next")
        return items


def _waiting(wait: float, request: Callable[[float], Plan[T]], is_final: Callable[[T], bool]) -> Plan[T]:
    """Repeats a request that the server lets wait, until its answer is final or the wait ends."""
    until = now() + wait
    while True:
        sent = now()
        answer = yield from request(min(max(until - sent, 0), contract.HTTP_WAIT))
        if is_final(answer) or until <= now():
            return answer
        early = min(_AGAIN - (now() - sent), until - now())
        if early > 0:
            yield Pause(early)


def _grant(token: str, view: Fields, sent: float) -> Grant:
    return Grant(token, view["fence"], sent + view["lease_left_ms"] / 1e3)


def _task_fields(task: EncodedTask) -> Fields:
    fields = {
        "id": task.id,
        "delay_ms": _millis(task.delay),
        "due_us": task.due_us,
        "deadline_after_ms": _millis(task.deadline),
        "deadline_us": task.deadline_us,
        "priority": task.priority,
        "on_duplicate": task.on_duplicate,
        "max_wait_ms": _millis(task.max_wait),
        "max_attempts": task.max_attempts,
        "unique_for_ms": _millis(task.unique_for),
        "key": task.key,
        "after": task.after,
        "if_dead": task.if_dead,
        "held_open": task.held_open,
        "part_of": task.part_of,
    }
    return {**_present(fields), **to_fields(task.content)}


def _completion_fields(completion: Completion) -> Fields:
    result = {} if completion.result is None else to_fields(completion.result, "result", "result_type")
    return {"discarded": completion.discarded, **result}


def _progress_fields(heartbeat: Heartbeat) -> Fields:
    progress = heartbeat.progress
    return {} if progress is None else {"progress": _present({"percent": progress.percent, "note": progress.note})}


def _rate_fields(rate: Optional[Rate]) -> Optional[Fields]:
    if rate is None:
        return None
    n, per = rate.encode("rate")
    return {"n": n, "per_ms": _millis(per)}


def _selection(ids: Optional[List[str]]) -> Fields:
    return {"all": True} if ids is None else {"ids": ids}


def _outcome_of(problem: RushgateError, outcomes: Dict[str, str]) -> Fields:
    """Returns the outcome that a problem stands for, with its fields. Raises other problems."""
    if problem.code not in outcomes:
        raise problem
    return {**problem.details, "outcome": outcomes[problem.code]}
