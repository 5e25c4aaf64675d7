"""Why a task is not running: the same reasons in the same order as the HTTP API gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, Optional

from .. import contract
from .._plan import Plan
from .._transport import Fields
from .packed import decode
from .records import read_infos, read_tasks, read_waits
from .store import Store, keys_of

if TYPE_CHECKING:
    from .queues import QueueVerbs


class Explanation:
    """Combines several reads, so it may be slightly out of date."""

    def __init__(self, queues: QueueVerbs, store: Store, queue: str) -> None:
        self._queues, self._store, self._queue = queues, store, queue

    def reasons(self, task: str) -> Plan[List[Fields]]:
        """Returns at least one reason. The one that must end first comes first."""
        for _ in range(contract.WHY_TRIES):
            reasons = yield from self._once(task)
            if reasons:
                return reasons
            # No reason found: the task changed its state between two reads.
        return [{"reason": "unknown"}]

    def _once(self, task: str) -> Plan[List[Fields]]:
        answer = yield from self._store.call("queue_tasks", self._queue, (0, task))
        now, infos = answer[0], read_infos(answer)
        if not infos or infos[0]["state"] == "done":
            return (yield from self._over(task, now))
        info = infos[0]
        reasons = [_running(info, now)] if info["state"] == "leased" else (yield from self._waiting(info, now))
        return [*reasons, *_deadline(info, now)] if reasons else []

    def _over(self, task: str, now: int) -> Plan[List[Fields]]:
        ended = yield from self._queues.ended(self._queue, task)
        if ended is None:
            return []
        until = yield from self._store.call("queue_unique_until", self._queue, (task,))
        unique = [{"reason": "unique", "until_us": until, "left_ms": _millis(now, until)}] if until > now else []
        if ended["outcome"] == "gone":
            return unique or [{"reason": "unknown"}]
        if ended["outcome"] == "dead":
            names = ("attempts", "max_attempts", "error", "died_us")
            return [{"reason": "dead", **{name: ended[name] for name in names}}, *unique]
        finished = ended["task"]["finished"]
        done = {"reason": "done", "how": finished["how"], "finished_us": finished["at_us"]}
        return [{**done, "worker": ended["task"]["worker"]}, *unique]

    def _waiting(self, info: Fields, now: int) -> Plan[List[Fields]]:
        stats = yield from self._queues.stats(self._queue)
        general = [
            *([{"reason": "paused"}] if stats["paused"] else []),
            *(yield from self._busy(stats)),
            *([_rate_limited(None, stats["rate_until_us"], now)] if stats["rate_until_us"] else []),
        ]
        if info["state"] == "scheduled":
            return [*general, _not_due(info, now)]
        if info["state"] == "blocked":
            own = yield from (self._waits(info, now) if info["waits"] else self._blocked(info, stats))
            return [*general, *own]
        return general or (yield from self._unclaimed(info, stats, now))

    def _busy(self, stats: Fields) -> Plan[List[Fields]]:
        concurrency = stats["limits"]["concurrency"]
        if concurrency is None or stats["leased"] < concurrency:
            return []
        running = _running_of((yield from self._leased(contract.WHY_RUNNING)))
        return [{"reason": "queue_busy", "concurrency": concurrency, "running": running}]

    def _unclaimed(self, info: Fields, stats: Fields, now: int) -> Plan[List[Fields]]:
        ids = [task["id"] for task in (yield from self._top())]
        ahead = ids.index(info["id"]) if info["id"] in ids else None
        if ahead is None and len(ids) < contract.WHY_AHEAD:
            return []
        due_for = _millis(info["not_before_us"] or info["due_us"], now)
        waiting = {"reason": "waiting", "ahead": ahead, "leased": stats["leased"], "due_for_ms": due_for}
        return [{**waiting, "last_claim_us": stats["last_claim_us"]}]

    def _waits(self, info: Fields, now: int) -> Plan[List[Fields]]:
        waits = read_waits((yield from self._store.call("queue_waits", self._queue, (info["id"],))))
        if waits is None:
            return []
        reasons = [{"reason": "waits_for", **waits}] if waits["open"] or waits["left"] > 0 else []
        return [*reasons, *([_not_due(info, now)] if info["due_us"] > now else [])]

    def _blocked(self, info: Fields, stats: Fields) -> Plan[List[Fields]]:
        key = info.get("key")
        if key is None:
            return []
        per_key = stats["limits"]["per_key"]
        most = 1 if per_key["fifo"] else per_key["concurrency"]
        if most is not None:
            running = [task for task in (yield from self._leased(contract.WHY_LISTED)) if task.get("key") == key]
            if len(running) >= most:
                return [{"reason": "key_busy", "key": key, "running": _running_of(running)}]
        first = _first_of_group((yield from self._top()), info)
        if first is None:
            # The first task of the group may wait for its next attempt.
            first = _first_of_group((yield from self._scheduled(info["priority"])), info)
        return [{"reason": "in_line", "key": key, "first": first}]

    def _top(self) -> Plan[List[Fields]]:
        return read_tasks((yield from self._store.call("queue_top", self._queue, (contract.WHY_AHEAD,))))

    def _leased(self, most: int) -> Plan[List[Fields]]:
        tasks = yield from self._members(contract.LEASES_KEY, contract.LEASES_HEAD_BYTES, most)
        return [task for task in tasks if task["state"] == "leased"]

    def _scheduled(self, priority: int) -> Plan[List[Fields]]:
        end = f"{contract.WAITING_KEY}{priority}"
        return (yield from self._members(end, contract.WAITING_HEAD_BYTES, contract.WHY_LISTED))

    def _members(self, end: str, head: int, most: int) -> Plan[List[Fields]]:
        """Reads the tasks that a sorted set lists."""
        key = keys_of(contract.QUEUE_KEYS, self._queue)[contract.QUEUE_KEYS[1].index(end)]
        members: List[Any] = yield from self._store.read("ZRANGE", key, 0, most - 1)
        tasks: List[Fields] = []
        for at in range(0, len(members), contract.BATCH[1]):
            ids = [decode(member[head:]) for member in members[at : at + contract.BATCH[1]]]
            tasks += read_infos((yield from self._store.call("queue_tasks", self._queue, (0, *ids))))
        return tasks


def _millis(since: int, until: int) -> int:
    return max(0, until - since) // 1_000


def _running(info: Fields, now: int) -> Fields:
    names = ("worker", "attempt", "fence", "lease_until_us", "cancelled", "replaced")
    fields = {name: info[name] for name in names}
    return {"reason": "running", **fields, "lease_left_ms": _millis(now, info["lease_until_us"])}


def _running_of(tasks: List[Fields]) -> List[Fields]:
    names = ("id", "worker", "lease_until_us")
    return [{name: task[name] for name in names} for task in tasks[: contract.WHY_RUNNING]]


def _rate_limited(key: Optional[str], until: int, now: int) -> Fields:
    return {"reason": "rate_limited", "key": key, "until_us": until, "wait_ms": _millis(now, until)}


def _not_due(info: Fields, now: int) -> Fields:
    not_before, due = info["not_before_us"], info["due_us"]
    if not_before is not None and not_before > due:
        return _rate_limited(info.get("key"), not_before, now)
    attempts = {"attempts": info["attempt"], "max_attempts": info["max_attempts"], "error": info.get("error")}
    return {"reason": "not_due", "due_us": due, "wait_ms": _millis(now, due), **attempts}


def _deadline(info: Fields, now: int) -> List[Fields]:
    deadline = info.get("deadline_us")
    return (
        [] if deadline is None else [{"reason": "deadline", "deadline_us": deadline, "left_ms": _millis(now, deadline)}]
    )


def _first_of_group(tasks: List[Fields], info: Fields) -> Optional[str]:
    group = (info["key"], info["priority"])
    return next((task["id"] for task in tasks if (task.get("key"), task["priority"]) == group), None)
