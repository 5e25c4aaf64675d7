"""Decodes packed records into the fields of the HTTP API."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Optional, Sequence, Tuple

from .. import contract
from .._content import from_body
from .._cron import upcoming
from .packed import Packed, decode, meaning, optional, rows

Fields = Dict[str, Any]


def ticket_of(revision: int, claim: int, due: int, task: str) -> str:
    """Returns a ticket in the form of the HTTP API."""
    return f"{revision:x}.{claim:x}.{due:x}.{task}"


def read_ticket(ticket: str) -> Tuple[str, int, int]:
    """Returns the task ID, the claim number and the revision of a ticket."""
    revision, claim, _, task = ticket.split(".", 3)
    return task, int(claim, 16), int(revision, 16)


def read_tasks(answer: List[Any]) -> List[Fields]:
    return [_row(decode(task), record, run)[0] for task, record, run in rows(answer, 3)]


def read_infos(answer: List[Any]) -> List[Fields]:
    """Decodes the answer of `queue_tasks`, without the time in front."""
    now = answer[0]
    return [_info(decode(task), record, run, moment, now) for task, record, run, moment in rows(answer[1:], 4)]


def _info(task: str, record: bytes, run: bytes, moment: Any, now: int) -> Fields:
    if not record:
        return _finished(task, run)
    fields, more = _row(task, record, run)
    if more["leased"]:
        return {**fields, **more, "state": "leased"}
    not_before = optional(moment) if "key" in fields or moment == b"" else fields["due_us"]
    idle = {**fields, **more, "worker": None, "lease_until_us": None, "progress": None, "not_before_us": not_before}
    if not_before is None:
        return {**idle, "state": "blocked"}
    return {**idle, "state": "ready" if not_before <= now else "scheduled"}


def _finished(task: str, entry: bytes) -> Fields:
    packed = Packed(entry)
    end = packed.numbers(contract.FINISHED_LAYOUT)
    result = packed.sized(contract.RESULT_LENGTH_BYTES)
    run = packed.sized(contract.RUN_LENGTH_BYTES)
    fields, more = _row(task, packed.rest, run)
    finished = {
        "at_us": end["finished"],
        "how": meaning(contract.TASK_END, end["how"]),
        "result": from_body(result) if result else None,
    }
    over = {"waits": False, "cancelled": False, "replaced": False, "lease_until_us": None, "progress": None}
    worker = more["worker"] if more["leased"] else None
    return {**fields, **more, **over, "state": "done", "worker": worker, "finished": finished}


def _row(task: str, record: bytes, run: bytes) -> Tuple[Fields, Fields]:
    """Decodes a record and its run: the fields of the task, and those of its state."""
    packed = Packed(record)
    fixed = packed.numbers(contract.RECORD_LAYOUT)
    flags = fixed["priority"]
    revision = fixed["revision"] + fixed["turn"]
    fields: Fields = {
        "id": task,
        "revision": revision,
        "due_us": fixed["first"] if flags & contract.PRIORITY_AT_ONCE else packed.number(contract.DUE_BYTES),
        "priority": flags % contract.PRIORITY_KEYED,
        "attempt": 0,
        "max_attempts": fixed["max_attempts"],
    }
    if flags & contract.PRIORITY_DEADLINE:
        fields["deadline_us"] = packed.number(contract.DEADLINE_BYTES)
    if flags & contract.PRIORITY_KEYED:
        fields["key"] = packed.text(contract.KEY_LENGTH_BYTES)
    fields["content"] = from_body(packed.rest)
    more: Fields = {"waits": bool(flags & contract.PRIORITY_WAITS), "leased": False}
    claim = 0
    if run:
        fence = _run(run, fields, more)
        if more["leased"]:
            # Claims are numbered by the time.
            claim = fields["fence"] = fields["claimed_us"] = fence
    fields["ticket"] = ticket_of(revision, claim, fields["due_us"], task)
    return fields, more


def _run(run: bytes, fields: Fields, more: Fields) -> int:
    """Adds what a run says, and returns its claim number."""
    packed = Packed(run)
    fixed = packed.numbers(contract.RUN_LAYOUT)
    flags = fixed["flags"]
    fields["attempt"], fields["due_us"] = fixed["attempts"], fixed["due"]
    more["leased"] = bool(flags & contract.RUN_LEASED)
    more["cancelled"] = bool(flags & contract.RUN_CANCELED)
    more["replaced"] = bool(flags & contract.RUN_REPLACED)
    more["lease_until_us"] = fixed["lease_until"]
    more["worker"] = packed.text(contract.WORKER_LENGTH_BYTES)
    if flags & contract.RUN_PROGRESS:
        more["progress"] = _progress(packed)
    if flags & contract.RUN_PAST:
        more["past"] = _past(packed)
    if flags & contract.RUN_FAILED:
        more["error"] = decode(packed.rest)
    return fixed["claim"] + fixed["turn"]


def _progress(packed: Packed) -> Fields:
    length, percent = packed.number(contract.NOTE_LENGTH_BYTES), packed.number(contract.PERCENT_BYTES)
    note = decode(packed.take(length))
    return {"percent": None if percent == contract.NO_PERCENT else percent, "note": note}


def _past(packed: Packed) -> List[Fields]:
    past = Packed(packed.sized(contract.PAST_LENGTH_BYTES))
    runs = []
    while not past.is_empty:
        fixed = past.numbers(contract.PAST_LAYOUT)
        runs.append(
            {
                "attempt": fixed["attempt"],
                "began_us": fixed["began"],
                "ended_us": fixed["ended"],
                "how": meaning(contract.PAST_END, fixed["how"]),
                "worker": past.text(contract.WORKER_LENGTH_BYTES),
                "error": past.text(contract.PAST_ERROR_LENGTH_BYTES),
            }
        )
    return runs


def read_letters(answer: List[Any]) -> List[Fields]:
    return [_letter(decode(task), letter) for task, letter in rows(answer, 2)]


def _letter(task: str, letter: bytes) -> Fields:
    packed = Packed(letter)
    fixed = packed.numbers(contract.DEAD_LETTER_LAYOUT)
    flags = fixed["priority"]
    error = packed.text(contract.DEAD_LETTER_ERROR_LENGTH_BYTES)
    past = _past(packed) if flags & contract.PRIORITY_PAST else []
    key = packed.text(contract.KEY_LENGTH_BYTES) if flags & contract.PRIORITY_KEYED else None
    return {
        "id": task,
        "content": from_body(packed.rest),
        "priority": flags % contract.PRIORITY_KEYED,
        "attempts": fixed["attempts"],
        "max_attempts": fixed["max_attempts"],
        "error": error,
        "died_us": fixed["died"],
        "key": key,
        "past": past,
    }


def read_waited(answer: List[Any]) -> List[Fields]:
    """Decodes the finished dependencies of a task."""
    return [_waited(decode(task), entry) for task, entry in rows(answer, 2)]


def _waited(task: str, entry: bytes) -> Fields:
    packed = Packed(entry)
    fixed = packed.numbers(contract.FINISHED_LAYOUT)
    fields: Fields = {"id": task, "end": meaning(contract.TASK_END, fixed["how"]), "at_us": fixed["finished"]}
    if fields["end"] == contract.TASK_END[-1]:
        return {**fields, "error": decode(packed.rest)}
    return {**fields, "result": from_body(packed.rest) if packed.rest else None}


def read_waits(answer: List[Any]) -> Optional[Fields]:
    """Decodes what a task waits for. None if it never waited."""
    if not answer:
        return None
    is_open, if_dead, left, _, dead = answer[:5]
    first = [
        {"id": decode(task), "error": decode(error)} if is_dead else {"id": decode(task)}
        for task, is_dead, error in rows(answer[5:], 3)
    ]
    return {
        "open": is_open == 1,
        "if_dead": meaning(contract.IF_DEAD, if_dead),
        "left": left,
        "dead": dead,
        "first": first,
    }


def read_workers(answer: List[Any]) -> List[Fields]:
    return [_worker(decode(worker), record) for worker, record in rows(answer, 2)]


def _worker(worker: str, record: bytes) -> Fields:
    packed = Packed(record)
    fixed = packed.numbers(contract.WORKER_LAYOUT)
    return {
        "id": worker,
        "name": packed.text(contract.NAME_LENGTH_BYTES),
        "version": decode(packed.rest),
        "concurrency": fixed["concurrency"],
        "running": fixed["running"],
        "since_us": fixed["since"],
        "seen_us": fixed["seen"],
        "lease_until_us": fixed["lease_until"],
        "mode": meaning(contract.WORKER_MODE, fixed["mode"]),
    }


def read_schedules(answer: List[Any]) -> List[Fields]:
    schedules = [read_schedule(decode(schedule), record) for schedule, record in rows(answer, 2)]
    for fields in schedules:
        fields["upcoming_us"] = [] if fields["paused"] else upcoming(fields["recurrence"], fields["next_us"])
    return schedules


def read_schedule(schedule: str, record: bytes) -> Fields:
    packed = Packed(record)
    fixed = packed.numbers(contract.SCHEDULE_LAYOUT)
    recurrence = packed.text(contract.RECURRENCE_LENGTH_BYTES)
    return {
        "id": schedule,
        "recurrence": _recurrence(recurrence),
        "content": from_body(packed.rest),
        "priority": fixed["priority"],
        "max_attempts": fixed["max_attempts"],
        "paused": fixed["paused"] == 1,
        "revision": fixed["revision"],
        "next_us": fixed["next"] or None,
        "previous_us": fixed["previous"] or None,
    }


def _recurrence(text: str) -> Fields:
    """Decodes a recurrence. One that another program wrote in another form is shown as a pattern."""
    try:
        fields = json.loads(text)
    except ValueError:
        fields = None
    return fields if isinstance(fields, dict) else {"cron": text}


def read_stats(answer: List[Any]) -> Fields:
    """Decodes the answer of `queue_stats`."""
    counts = ("ready", "scheduled", "leased", "blocked", "dead", "done", "dropped")
    lag, rate_until, last_claim, paused, bound, limits = answer[len(counts) : len(counts) + 6]
    return {
        **dict(zip(counts, answer)),
        "lag_ms": int(lag) // 1_000,
        "rate_until_us": optional(rate_until),
        "last_claim_us": optional(last_claim) or None,
        "paused": paused == 1,
        "limits": _limits(decode(limits), optional(bound)),
    }


def _limits(text: str, bound: Optional[int]) -> Fields:
    words = text.split(" ") if text else ["-"] * 6 + ["0", "-", "-", "0", "-"]
    concurrency, n, per, key_concurrency, key_n, key_per, fifo, age, count, overflow, events = (
        None if word == "-" else int(word) for word in words[:11]
    )
    return {
        "bound": bound,
        "overflow": meaning(contract.OVERFLOW, overflow or 0),
        "concurrency": concurrency,
        "rate": _rate(n, per),
        "per_key": {"concurrency": key_concurrency, "rate": _rate(key_n, key_per), "fifo": fifo == 1},
        "retention": None if age is None else {"age_ms": age // 1_000, "count": count},
        "events": events,
    }


def _rate(n: Optional[int], per: Optional[int]) -> Optional[Fields]:
    return None if n is None or per is None else {"n": n, "per_ms": per / 1_000}


def read_holder(answer: List[Any]) -> Optional[Fields]:
    if not answer:
        return None
    _, fence, lease_until, owner = answer
    packed = Packed(owner)
    fixed = packed.numbers(contract.HOLDER_LAYOUT)
    return {**_owner(packed), "fence": fence, "since_us": fixed["since"], "lease_until_us": lease_until}


def read_waiters(answer: List[Any]) -> List[Fields]:
    """Decodes waiters, in the order of the wait queue."""
    waiters = []
    for _, waiter in rows(answer, 2):
        packed = Packed(waiter)
        fixed = packed.numbers(contract.WAITER_LAYOUT)
        more = {"since_us": fixed["since"], "wait_until_us": fixed["until"]}
        waiters.append((fixed["ticket"], {**_owner(packed), **more}))
    waiters.sort(key=lambda waiter: waiter[0])
    return [{"position": at, **waiter} for at, (_, waiter) in enumerate(waiters, 1)]


def _owner(packed: Packed) -> Fields:
    packed.take(contract.INBOX_BYTES)
    pid = packed.numbers(contract.OWNER_LAYOUT)["pid"]
    host = packed.text(contract.HOST_LENGTH_BYTES)
    return {"pid": pid, "host": host, "label": decode(packed.rest)}


def read_hold(record: bytes, reservation: str, skus: Sequence[str]) -> Fields:
    packed = Packed(record)
    fixed = packed.numbers(contract.HOLD_LAYOUT)
    buyer = packed.text(contract.BUYER_LENGTH_BYTES)
    packed.take(fixed["lines_length"])
    units = []
    while not packed.is_empty:
        found = packed.numbers(contract.UNITS_LAYOUT)
        sku = meaning(skus, found["sku"])
        units += [{"sku": sku, "unit": unit} for unit in range(found["first"], found["last"] + 1)]
    return {
        "id": reservation,
        "buyer": buyer,
        "units": units,
        "state": meaning(contract.HOLD_STATE, fixed["state"]),
        "deadline_us": fixed["deadline"],
        "seq": fixed["event"],
        "generation": fixed["generation"],
    }


def read_sku(sku: str, record: bytes) -> Fields:
    fixed = Packed(record).numbers(contract.SKU_LAYOUT)
    free = fixed["total"] + fixed["returned"] - fixed["next"] - fixed["ahead"]
    return {"sku": sku, "free": free, **fixed}
