"""Queues over Redis."""

from __future__ import annotations

import json
from typing import Any, Iterable, List, Optional, Set, Tuple

from .. import contract
from .._content import to_body
from .._cron import next_after
from .._plan import Plan, Wait, Word, now
from .._transport import (
    Announcement,
    ClaimRequest,
    Completion,
    EncodedSchedule,
    Failure,
    Fields,
    Heartbeat,
    Release,
    Transport,
)
from ..errors import InvalidArgument, RushgateError
from ..models import EncodedTask, QueueLimits, Rate
from .packed import decode, meaning
from .records import (
    read_infos,
    read_letters,
    read_schedules,
    read_stats,
    read_tasks,
    read_ticket,
    read_waited,
    read_workers,
)
from .schedules import fire_due
from .store import Store
from .why import Explanation

TASKS_READY, TASK_FINISHED = contract.NOTIFY_TASKS.decode(), contract.NOTIFY_FINISHED.decode()


class QueueVerbs(Transport):
    _store: Store

    def enqueue(self, queue: str, tasks: List[EncodedTask]) -> Plan[List[Fields]]:
        yield from self._store.register(contract.QUEUE_DIRECTORY, queue)
        # The op precedes the first task, and the others belong to the same request.
        arguments: List[Word] = []
        for task in tasks:
            arguments += ["" if arguments else self._store.op(), task.id, _terms(task), to_body(task.content)]
        [answer] = yield from self._store.call("queue_enqueue", queue, arguments, replay="queue_replay")
        return _read_enqueued(iter(answer))

    def claim(self, queue: str, request: ClaimRequest) -> Plan[List[Fields]]:
        until = now() + request.wait / 1e6
        bell = None if request.wait == 0 else (yield from self._store.listen(TASKS_READY, queue))
        cancel = None if request.stop is None or bell is None else request.stop.on_set(bell.ring)
        try:
            while True:
                next_due, wake_ups, *rows = yield from self._claim_once(queue, request)
                left = until - now()
                is_stopped = request.stop is not None and request.stop.is_set
                if rows or bell is None or left <= 0 or is_stopped:
                    return read_tasks(rows)
                arguments = (self._store.inbox.hex(), wake_ups)
                missed, _ = yield from self._store.call("queue_listen", queue, arguments)
                if missed == 0:
                    longest = min(int(next_due) / 1e6 if next_due else left, contract.CLAIM_SLEEP)
                    yield Wait(bell, min(left, max(longest, 0.001)))
                    if request.stop is not None and request.stop.is_set:
                        return []
        finally:
            if bell is not None:
                self._store.topics.remove((TASKS_READY, queue), bell)
            if cancel is not None:
                cancel()

    def _claim_once(self, queue: str, request: ClaimRequest) -> Plan[List[Any]]:
        arguments = (self._store.op(), request.n, request.lease, request.worker)
        try:
            [answer] = yield from self._store.call("queue_claim", queue, arguments)
        except Exception:
            raise
        except BaseException:
            # The call was interrupted. Sent again, it gets the same answer, whose tasks return to the queue.
            yield from self._return_claimed(queue, arguments)
            raise
        return answer  # type: ignore[no-any-return]

    def _return_claimed(self, queue: str, arguments: Iterable[Word]) -> Plan[None]:
        try:
            [answer] = yield from self._store.call("queue_claim", queue, arguments)
            if answer[2:]:
                yield from self.release(queue, [Release(task["ticket"]) for task in read_tasks(answer[2:])])
        except RushgateError:
            pass

    def top(self, queue: str, n: int) -> Plan[List[Fields]]:
        return read_tasks((yield from self._store.call("queue_top", queue, (n,))))

    def dequeue(self, queue: str, ticket: str) -> Plan[str]:
        task, claim, revision = read_ticket(ticket)
        [outcome] = yield from self._once("queue_dequeue", queue, (task, revision, claim))
        return meaning(contract.DEQUEUED, outcome)

    def pop(self, queue: str, n: int) -> Plan[List[Fields]]:
        return read_tasks((yield from self._once("queue_pop", queue, (n,))))

    def complete(self, queue: str, completions: List[Completion]) -> Plan[List[str]]:
        is_plain = all(completion.result is None and not completion.discarded for completion in completions)
        arguments: List[Word] = []
        for completion in completions:
            arguments += ["" if arguments else self._store.op(), *read_ticket(completion.ticket)[:2]]
            if not is_plain:
                arguments += [int(completion.discarded), to_body(completion.result) if completion.result else b""]
        function = "queue_complete" if is_plain else "queue_finish"
        [outcomes] = yield from self._store.call(function, queue, arguments)
        return [meaning(contract.COMPLETED, outcome) for outcome in outcomes]

    def retry(self, queue: str, failures: List[Failure]) -> Plan[List[Fields]]:
        arguments: List[Word] = []
        for failure in failures:
            arguments += [*read_ticket(failure.ticket)[:2], failure.delay, int(failure.give_up), failure.error]
        answer = yield from self._once("queue_retry", queue, arguments)
        return [
            {"outcome": meaning(contract.RETRIED, outcome), "due_us": due or None}
            for outcome, due in zip(answer[::2], answer[1::2])
        ]

    def release(self, queue: str, releases: List[Release]) -> Plan[List[str]]:
        arguments: List[Word] = []
        for release in releases:
            arguments += [*read_ticket(release.ticket)[:2], release.delay]
        answer = yield from self._once("queue_release", queue, arguments)
        return [meaning(contract.TASK_RELEASED, outcome) for outcome in answer]

    def extend(self, queue: str, heartbeats: List[Heartbeat], lease: int) -> Plan[List[str]]:
        arguments: List[Word] = [lease]
        for heartbeat in heartbeats:
            progress = heartbeat.progress
            arguments += read_ticket(heartbeat.ticket)[:2]
            if progress is None:
                arguments += [0, "", ""]
            else:
                arguments += [1, "" if progress.percent is None else progress.percent, progress.note]
        answer = yield from self._store.call("queue_extend", queue, arguments)
        return [meaning(contract.TASK_EXTENDED, outcome) for outcome in answer]

    def cancel(self, queue: str, task: str) -> Plan[str]:
        [outcome] = yield from self._once("queue_cancel", queue, (task,))
        return meaning(contract.CANCELED, outcome)

    def reschedule(self, queue: str, task: str, delay: int, due_us: Optional[int]) -> Plan[Fields]:
        due = (delay, 1) if due_us is None else (due_us, 0)
        number, time = yield from self._once("queue_reschedule", queue, (task, *due))
        outcome = meaning(contract.RESCHEDULED, number)
        if outcome == "rescheduled":
            return {"outcome": outcome, "due_us": time}
        return {"outcome": outcome, "deadline_us": time or None}

    def clear_unique(self, queue: str, task: str) -> Plan[Optional[int]]:
        [until] = yield from self._once("queue_clear_unique", queue, (task,))
        return int(until) or None

    def task(self, queue: str, task: str) -> Plan[Optional[Fields]]:
        infos = read_infos((yield from self._store.call("queue_tasks", queue, (0, task))))
        return infos[0] if infos else None

    def wait_for(self, queue: str, task: str, wait: int) -> Plan[Optional[Fields]]:
        bell = yield from self._store.listen(TASK_FINISHED, task, queue)
        until = now() + wait / 1e6
        longest = contract.RESULT_SLEEP
        try:
            while True:
                # Registered before the read, so that no end is missed in between.
                watched = yield from self._store.call("queue_watch", queue, (self._store.inbox.hex(), task))
                ended = yield from self.ended(queue, task)
                if ended is not None:
                    return ended
                if watched == 0:
                    yield from self._check_retention(queue)
                left = until - now()
                if left <= 0:
                    return None
                yield Wait(bell, min(left, longest))
                longest = min(longest * 2, contract.LAST_RESULT_SLEEP)
        finally:
            self._store.topics.remove((TASK_FINISHED, task, queue), bell)

    def _check_retention(self, queue: str) -> Plan[None]:
        stats = yield from self.stats(queue)
        if stats["limits"]["retention"] is None:
            raise InvalidArgument(
                "The queue has no retention, so clients cannot wait for its tasks.",
                code="nothing_kept",
                hint="Set a retention with `limit`.",
            )

    def ended(self, queue: str, task: str) -> Plan[Optional[Fields]]:
        """Returns how a task ended. None if it is live."""
        info = yield from self.task(queue, task)
        if info is not None and info["state"] != "done":
            return None
        letter = yield from self.dead_letter(queue, task)
        if letter is None and info is None and (yield from self.task(queue, task)) is not None:
            # The dead letter was requeued between the two reads.
            return None
        if letter is not None and (info is None or info["finished"]["at_us"] < letter["died_us"]):
            return {"outcome": "dead", **letter}
        return {"outcome": "gone"} if info is None else {"outcome": "finished", "task": info}

    def dead_letter(self, queue: str, task: str) -> Plan[Optional[Fields]]:
        letters = read_letters((yield from self._store.call("queue_dead_letter", queue, (task,))))
        return letters[0] if letters else None

    def why(self, queue: str, task: str) -> Plan[List[Fields]]:
        return (yield from Explanation(self, self._store, queue).reasons(task))

    def close_batch(self, queue: str, task: str) -> Plan[Fields]:
        outcome, *left = yield from self._once("queue_close_batch", queue, (task,))
        return {"outcome": meaning(contract.CLOSED, outcome), "left": left[0] if left else 0}

    def dependents(self, queue: str, task: str, n: int) -> Plan[List[str]]:
        return [decode(id) for id in (yield from self._store.call("queue_dependents", queue, (task, n)))]

    def waited(self, queue: str, task: str, after: str, limit: int) -> Plan[List[Fields]]:
        return read_waited((yield from self._store.call("queue_waited", queue, (task, after, limit))))

    def stats(self, queue: str) -> Plan[Fields]:
        return read_stats((yield from self._store.call("queue_stats", queue, ())))

    def limit(self, queue: str, limits: QueueLimits) -> Plan[None]:
        yield from self._store.register(contract.QUEUE_DIRECTORY, queue)
        per_key, retention = limits.per_key, limits.retention
        arguments = (
            _or_empty(limits.bound),
            _or_empty(limits.concurrency),
            *_rate(limits.rate),
            _or_empty(per_key.concurrency),
            *_rate(per_key.rate),
            int(per_key.fifo),
            *(("", "") if retention is None else (retention.age_us, retention.count)),
            contract.OVERFLOW.index(limits.overflow),
            _or_empty(limits.events),
        )
        yield from self._store.call("queue_limit", queue, arguments)

    def pause(self, queue: str, paused: bool) -> Plan[None]:
        yield from self._store.register(contract.QUEUE_DIRECTORY, queue)
        yield from self._store.call("queue_pause", queue, (int(paused),))

    def dead(self, queue: str, after: str, limit: int) -> Plan[List[Fields]]:
        return read_letters((yield from self._store.call("queue_dead", queue, (after, limit))))

    def requeue_dead(self, queue: str, ids: Optional[List[str]]) -> Plan[Fields]:
        requeued, kept = yield from self._once("queue_requeue_dead", queue, _selection(ids))
        return {"requeued": requeued, "kept": kept}

    def delete_dead(self, queue: str, ids: Optional[List[str]]) -> Plan[int]:
        [deleted] = yield from self._once("queue_delete_dead", queue, _selection(ids))
        return int(deleted)

    def save_schedule(self, queue: str, schedule: str, settings: EncodedSchedule) -> Plan[str]:
        yield from self._store.register(contract.QUEUE_DIRECTORY, queue)
        [now_us, *_] = yield from self._store.call("queue_due_schedules", queue, (1,))
        arguments = (
            schedule,
            json.dumps(settings.recurrence, separators=(",", ":")),
            to_body(settings.content),
            settings.priority,
            settings.max_attempts,
            next_after(settings.recurrence, now_us),
            "" if settings.paused is None else int(settings.paused),
            "",
        )
        outcome, *_ = yield from self._store.call("queue_schedule", queue, arguments)
        return meaning(contract.SCHEDULED, outcome)

    def schedules(self, queue: str, after: str, limit: int) -> Plan[List[Fields]]:
        return read_schedules((yield from self._store.call("queue_schedules", queue, (after, limit))))

    def delete_schedule(self, queue: str, schedule: str) -> Plan[bool]:
        deleted: int = yield from self._store.call("queue_unschedule", queue, (schedule,))
        return deleted == 1

    def fire_schedules(self, queue: str, reported: Set[Tuple[str, int]]) -> Plan[Optional[float]]:
        return (yield from fire_due(self._store, queue, reported))

    def announce(self, queue: str, worker: Announcement) -> Plan[str]:
        yield from self._store.register(contract.QUEUE_DIRECTORY, queue)
        of = worker
        arguments = (of.id, of.name, of.version, of.concurrency, of.running, of.lease)
        mode = yield from self._store.call("queue_announce", queue, arguments)
        return meaning(contract.WORKER_MODE, mode)

    def end_worker(self, queue: str, worker: str) -> Plan[None]:
        yield from self._store.call("queue_announce", queue, (worker, "", "", 1, 0, 0))

    def workers(self, queue: str, after: str, limit: int) -> Plan[List[Fields]]:
        return read_workers((yield from self._store.call("queue_workers", queue, (after, limit))))

    def set_worker(self, queue: str, worker: str, mode: str) -> Plan[bool]:
        arguments = (worker, contract.WORKER_MODE.index(mode))
        found: int = yield from self._store.call("queue_set_worker", queue, arguments)
        return found == 1

    def _once(self, function: str, queue: str, arguments: Iterable[Word]) -> Plan[Any]:
        """Makes a call with an op, which is executed once."""
        return (yield from self._store.call(function, queue, (self._store.op(), *arguments)))


def _terms(task: EncodedTask) -> str:
    """Returns due time and rules of a task, as docs/protocol/queues.md describes them."""
    mode = contract.ON_DUPLICATE.index(task.on_duplicate)
    due = _time(task.delay or 0, task.due_us)
    terms = f"{due} {task.priority} {mode} {task.max_wait or 0} {task.max_attempts}"
    if task.deadline is not None or task.deadline_us is not None:
        terms += "<" + _time(task.deadline or 0, task.deadline_us)
    if task.unique_for is not None:
        terms += f"!{task.unique_for}"
    if task.key is not None:
        terms += f" {task.key}"
    if task.after or task.held_open or task.part_of is not None:
        terms += _dependencies(task)
    return terms


def _time(after: int, moment: Optional[int]) -> str:
    return f"+{after}" if moment is None else str(moment)


def _dependencies(task: EncodedTask) -> str:
    batch = "" if task.part_of is None else f" {task.part_of}"
    head = f"{contract.IF_DEAD.index(task.if_dead)}{int(task.held_open)}{batch}"
    return "\n" + "\n".join([head, *task.after])


def _read_enqueued(answer: Any) -> List[Fields]:
    """Splits the answer: an outcome and one value per task, and an ID with some outcomes."""
    outcomes = []
    for number in answer:
        outcome, value = meaning(contract.ENQUEUED, number), next(answer)
        fields: Fields = {"outcome": outcome}
        if outcome in ("full", "dropped"):
            fields["bound"] = int(value)
        elif outcome == "recent":
            fields["until_us"] = int(value)
        elif outcome == "refused":
            fields.update(why=meaning(contract.UNMET, value), task=decode(next(answer)))
        else:
            fields["revision"] = value
        if outcome == "displaced":
            fields["dropped"] = decode(next(answer))
        outcomes.append(fields)
    return outcomes


def _or_empty(value: Optional[int]) -> Word:
    return "" if value is None else value


def _rate(rate: Optional[Rate]) -> Iterable[Word]:
    return ("", "") if rate is None else rate.encode("rate")


def _selection(ids: Optional[List[str]]) -> List[Word]:
    return [1] if ids is None else [0, *ids]
