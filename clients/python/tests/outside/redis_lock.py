"""A lock with the interface of `redis.lock.Lock`, on a Rushgate lock. For the tests of redis-py's lock.

Without a timeout, redis-py never lets a lock expire. Here, such a lock is renewed until it is released.
"""

from __future__ import annotations

import threading
import types
from typing import Any, Optional

from redis.exceptions import LockError, LockNotOwnedError

import rushgate


class Lock:
    client: rushgate.Rushgate

    def __init__(
        self,
        redis: Any,
        name: str,
        timeout: Optional[float] = None,
        sleep: float = 0.1,
        blocking: bool = True,
        blocking_timeout: Optional[float] = None,
        thread_local: bool = True,
        raise_on_release_error: bool = True,
    ) -> None:
        self.name, self.timeout, self.blocking, self.blocking_timeout = name, timeout, blocking, blocking_timeout
        self.raise_on_release_error = raise_on_release_error
        self.local: Any = threading.local() if thread_local else types.SimpleNamespace()
        self.local.held = None
        lease = {} if timeout is None else {"lease": timeout}
        self._lock = self.client.lock(name, renew=timeout is None, **lease)

    def acquire(
        self, sleep: Optional[float] = None, blocking: Optional[bool] = None, blocking_timeout: Optional[float] = None
    ) -> bool:
        is_blocking = self.blocking if blocking is None else blocking
        wait = self.blocking_timeout if blocking_timeout is None else blocking_timeout
        try:
            self.local.held = self._lock.acquire(wait=(86_400 if wait is None else wait) if is_blocking else 0)
        except rushgate.LockBusy:
            return False
        return True

    def locked(self) -> bool:
        return self._lock.state().holder is not None

    def owned(self) -> bool:
        holder = self._lock.state().holder
        return self._held is not None and holder is not None and holder.fence == self._held.fence

    @property
    def _held(self) -> Optional[rushgate.HeldLock]:
        return getattr(self.local, "held", None)

    def release(self) -> None:
        held = self._held
        if held is None:
            raise LockError("Cannot release a lock that's not owned or is no longer owned.", lock_name=self.name)
        self.local.held = None
        try:
            held.release()
        except rushgate.LockLost:
            raise LockNotOwnedError("Cannot release a lock that's no longer owned", lock_name=self.name) from None

    def extend(self, additional_time: float, replace_ttl: bool = False) -> bool:
        return self._extend("extend", additional_time if replace_ttl else additional_time + self._left())

    def reacquire(self) -> bool:
        return self._extend("reacquire", self.timeout or 0)

    def _left(self) -> float:
        return 0.0 if self._held is None else self._held.lease_left

    def _extend(self, verb: str, lease: float) -> bool:
        if self._held is None:
            raise LockError(f"Cannot {verb} an unlocked lock", lock_name=self.name)
        if self.timeout is None:
            raise LockError(f"Cannot {verb} a lock with no timeout", lock_name=self.name)
        try:
            self._held.extend(lease)
        except rushgate.LockLost:
            raise LockNotOwnedError(f"Cannot {verb} a lock that's no longer owned", lock_name=self.name) from None
        return True

    def __enter__(self) -> Lock:
        if self.acquire():
            return self
        raise LockError("Unable to acquire lock within the time specified", lock_name=self.name)

    def __exit__(self, *_: object) -> None:
        try:
            self.release()
        except LockError:
            if self.raise_on_release_error:
                raise
