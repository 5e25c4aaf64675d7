"""Firing of schedules, by workers over Redis. Each occurrence fires once, however many workers there are."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta, timezone
from typing import List, NamedTuple, Set, Tuple

from .. import _check as check
from .. import contract
from .._cron import latest_until, next_after
from .._plan import Plan, Word
from .._transport import Fields
from .packed import decode, rows
from .records import read_schedule
from .store import Store

# Longest time in seconds until a schedule that another program has saved is noticed.
LOOK_EVERY = 5.0
_AT_A_TIME = 1_000
# Time in seconds between two looks while a schedule cannot be read.
_UNREADABLE = 1.0
# Maximum payload size of one step, unless a single task exceeds it.
_STEP_BYTES = 4 << 20
# How late an occurrence may be noticed before it counts as missed, in µs.
_LATE = 60_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_log = logging.getLogger("rushgate")


class Due(NamedTuple):
    runs: List[int]
    """Occurrences to enqueue tasks for."""
    next: int


def fire_due(store: Store, queue: str, reported: Set[Tuple[str, int]]) -> Plan[float]:
    """Fires due schedules, and returns the time in seconds until the next look.

    A schedule that cannot be read stays due, for other programs, and is logged once.
    """
    now_us, next_us, *due = yield from store.call("queue_due_schedules", queue, (_AT_A_TIME,))
    pause = min(max(next_us - now_us, 0) / 1e6, LOOK_EVERY) if next_us else LOOK_EVERY
    for schedule, record in rows(due, 2):
        id, revision = decode(schedule), 0
        try:
            fields = read_schedule(id, record)
            revision = fields["revision"]
            step = _step(fields, now_us)
        except Exception as error:
            # Whatever is wrong with this one, the others fire.
            pause = max(pause, _UNREADABLE)
            if (id, revision) not in reported:
                reported.add((id, revision))
                _log.error("cannot fire the schedule %s of the queue %s: %r", id, queue, error)
            continue
        yield from store.call("queue_fire", queue, step)
        # More occurrences may be due.
        pause = 0.0
    return pause


def _step(schedule: Fields, now_us: int) -> List[Word]:
    size = max(len(schedule["content"].bytes), 1)
    most = min(max(_STEP_BYTES // size, 1), contract.BATCH[1])
    due = due_of(schedule["recurrence"], schedule["next_us"], now_us, most)
    step: List[Word] = [schedule["id"], schedule["revision"], due.next]
    for at in due.runs:
        # A schedule that was changed while another program fired it may list an occurrence again.
        if at > (schedule["previous_us"] or 0):
            step += [f"{schedule['id']}@{written(at)}", at]
    return step


def due_of(recurrence: Fields, first: int, now_us: int, most: int) -> Due:
    """Returns what a schedule does now whose next occurrence is `first`, all in µs. At most `most` runs."""
    if "every_ms" in recurrence:
        check.whole("every_ms", recurrence["every_ms"], (contract.INTERVAL_US[0] // 1_000, contract.INTERVAL_US[1] // 1_000))
    missed = check.choice("missed", recurrence.get("missed", "once"), contract.MISSED)
    if missed == "all":
        runs = [first]
        while len(runs) < most and (at := next_after(recurrence, runs[-1])) <= now_us:
            runs.append(at)
        return Due(runs, next_after(recurrence, runs[-1]))
    latest = latest_until(recurrence, first, now_us)
    counts = missed == "once" or now_us - latest <= _LATE
    return Due([latest] if counts else [], next_after(recurrence, now_us))


def written(at: int) -> str:
    """Returns a moment in µs as in the IDs of tasks: `2026-11-22T03:30:00Z`."""
    text = (_EPOCH + timedelta(microseconds=at)).strftime("%Y-%m-%dT%H:%M:%S.%f")
    return text.rstrip("0").rstrip(".") + "Z"
