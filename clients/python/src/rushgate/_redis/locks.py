"""Locks over Redis."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Callable, List, Optional

from .. import contract
from .._plan import Bell, Plan, Wait, now
from .._transport import AcquireRequest, Fields, Grant, Transport, certain
from ..errors import RushgateError, Unavailable
from .packed import meaning, pack
from .records import read_holder, read_waiters
from .store import Store

GRANTED, REVOKED = contract.NOTIFY_GRANTED.decode(), contract.NOTIFY_REVOKED.decode()


class Callback(Bell):
    """A bell that calls a function, for a notification that no answer repeats."""

    is_hint = False

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring

    def ring(self) -> None:
        self._ring()


class LockVerbs(Transport):
    _store: Store

    def acquire(self, lock: str, request: AcquireRequest) -> Plan[Optional[Grant]]:
        token = self._store.token()
        topic = (GRANTED, token.hex())
        # Without a wait, the subscription still reports a forced release.
        bell = yield from self._store.listen(*topic)
        try:
            grant = yield from self._ask(lock, token, request, bell)
        except Unavailable:
            raise
        except BaseException:
            # The wait queue forgets a waiter at the end of its wait, so a failure costs at most that.
            with contextlib.suppress(RushgateError):
                yield from self._leave(lock, token)
            raise
        finally:
            self._store.topics.remove(topic, bell)
        if grant is None and request.wait > 0:
            yield from self._leave(lock, token)
        return grant

    def _ask(self, lock: str, token: bytes, request: AcquireRequest, bell: Bell) -> Plan[Optional[Grant]]:
        """Asks until the lock is granted or the wait ends."""
        until = now() + request.wait / 1e6
        owner = pack(contract.OWNER_LAYOUT, os.getpid()) + bytes([len(self._store.host)]) + self._store.host
        owner += request.label.encode()
        while True:
            sent = now()
            left = max(0.0, until - sent)
            arguments = (token, request.lease, round(left * 1e6), int(request.barging), self._store.inbox, owner)
            [answer] = yield from self._store.call("lock_acquire", lock, arguments, replay="lock_confirm")
            outcome = meaning(contract.ACQUIRED, answer[0])
            if outcome == "granted":
                return _grant(token.hex(), answer[1:], sent)
            if outcome == "busy" or left <= 0:
                return None
            _, position, check_after, *_ = answer
            longest = min(contract.POSITION_SLEEP * position, contract.LOCK_SLEEP, max(check_after, 1_000) / 1e6)
            yield Wait(bell, min(left, longest))

    def _leave(self, lock: str, token: bytes) -> Plan[None]:
        yield from self._store.call("lock_leave", lock, (token,))

    def extend_lock(self, lock: str, token: str, lease: int) -> Plan[Optional[Grant]]:
        sent = now()
        answer = yield from self._store.call("lock_extend", lock, (bytes.fromhex(token), lease))
        return _grant(token, answer, sent) if answer else None

    def release_lock(self, lock: str, token: str) -> Plan[bool]:
        [outcome] = yield from self._store.call("lock_release", lock, (bytes.fromhex(token),))
        return meaning(contract.RELEASED, outcome) == "released"

    def watch_lock(self, token: str, lost: Callable[[], None]) -> Callable[[], None]:
        topic, bell = (REVOKED, token), Callback(lost)
        self._store.topics.add(topic, bell)
        return lambda: self._store.topics.remove(topic, bell)

    def show_lock(self, lock: str) -> Plan[Fields]:
        holder, waiters = yield from self._store.call("lock_show", lock, ())
        return {"holder": read_holder(holder), "waiters": read_waiters(waiters)}

    def force_release(self, lock: str) -> Plan[Fields]:
        answer = yield from self._store.call("lock_force_release", lock, ())
        return {"holder": read_holder(answer)}


def _grant(token: str, answer: List[Any], sent: float) -> Grant:
    """The lease counts from the time at which the call was sent."""
    fence, _, lease_left = answer[:3]
    return Grant(token, fence, sent + certain(lease_left / 1e6))
