"""A lock with the interface of redis-py's, on a Rushgate lock.

Without a timeout, redis-py never lets a lock expire. Here, such a lock is renewed until it is released.
"""

from __future__ import annotations

import threading
import time
import types
from typing import Any, Optional

from redis.exceptions import LockError, LockNotOwnedError

import rushgate

from .mutex import FOREVER


class Settings:
    """What the locks for threads and for asyncio have in common."""

    client: Any

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
        self._hold(None)
        lease = {} if timeout is None else {"lease": timeout}
        self._lock = self.client.lock(name, renew=timeout is None, **lease)

    def _hold(self, held: Any) -> None:
        self.local.held = held
        self.local.token = None if held is None else token_of(held)

    def _wait(self, blocking: Optional[bool], blocking_timeout: Optional[float]) -> float:
        wait = self.blocking_timeout if blocking_timeout is None else blocking_timeout
        is_blocking = self.blocking if blocking is None else blocking
        return (FOREVER if wait is None else wait) if is_blocking else 0

    def _held(self, verb: str) -> Any:
        if self.local.held is None:
            raise LockError(f"Cannot {verb} a lock that's not owned or is no longer owned.", lock_name=self.name)
        if verb != "release" and self.timeout is None:
            raise LockError(f"Cannot {verb} a lock with no timeout", lock_name=self.name)
        return self.local.held

    def _not_acquired(self) -> LockError:
        return LockError("Unable to acquire lock within the time specified", lock_name=self.name)

    def _not_owned(self, verb: str) -> LockNotOwnedError:
        return LockNotOwnedError(f"Cannot {verb} a lock that's no longer owned", lock_name=self.name)


class Lock(Settings):
    def acquire(
        self, sleep: Optional[float] = None, blocking: Optional[bool] = None, blocking_timeout: Optional[float] = None
    ) -> bool:
        try:
            self._hold(self._lock.acquire(wait=self._wait(blocking, blocking_timeout)))
        except rushgate.LockBusy:
            return False
        return True

    def locked(self) -> bool:
        return self._lock.state().holder is not None

    def owned(self) -> bool:
        holder = self._lock.state().holder
        return holder is not None and self.local.token == token_of(holder)

    def release(self) -> None:
        held = self._held("release")
        self._hold(None)
        try:
            held.release()
        except rushgate.LockLost:
            raise self._not_owned("release") from None

    def extend(self, additional_time: float, replace_ttl: bool = False) -> bool:
        left = 0 if replace_ttl else left_of(self._lock.state())
        return self._extend("extend", additional_time + left)

    def reacquire(self) -> bool:
        return self._extend("reacquire", self.timeout)

    def _extend(self, verb: str, lease: Optional[float]) -> bool:
        try:
            self._held(verb).extend(lease)
        except rushgate.LockLost:
            raise self._not_owned(verb) from None
        return True

    def __enter__(self) -> Lock:
        if self.acquire():
            return self
        raise self._not_acquired()

    def __exit__(self, *_: object) -> None:
        try:
            self.release()
        except LockError:
            if self.raise_on_release_error:
                raise


class AsyncLock(Settings):
    async def acquire(self, blocking: Optional[bool] = None, blocking_timeout: Optional[float] = None) -> bool:
        try:
            self._hold(await self._lock.acquire(wait=self._wait(blocking, blocking_timeout)))
        except rushgate.LockBusy:
            return False
        return True

    async def locked(self) -> bool:
        return (await self._lock.state()).holder is not None

    async def owned(self) -> bool:
        holder = (await self._lock.state()).holder
        return holder is not None and self.local.token == token_of(holder)

    async def release(self) -> None:
        held = self._held("release")
        self._hold(None)
        try:
            await held.release()
        except rushgate.LockLost:
            raise self._not_owned("release") from None

    async def extend(self, additional_time: float, replace_ttl: bool = False) -> bool:
        left = 0 if replace_ttl else left_of(await self._lock.state())
        return await self._extend("extend", additional_time + left)

    async def reacquire(self) -> bool:
        return await self._extend("reacquire", self.timeout)

    async def _extend(self, verb: str, lease: Optional[float]) -> bool:
        try:
            await self._held(verb).extend(lease)
        except rushgate.LockLost:
            raise self._not_owned(verb) from None
        return True

    async def __aenter__(self) -> AsyncLock:
        if await self.acquire():
            return self
        raise self._not_acquired()

    async def __aexit__(self, *_: object) -> None:
        try:
            await self.release()
        except LockError:
            if self.raise_on_release_error:
                raise


def token_of(holder: Any) -> bytes:
    return str(holder.fence).encode()


def left_of(state: rushgate.LockState) -> float:
    """Returns the rest of the lease on the store's clock, which is that of this machine."""
    return 0 if state.holder is None else state.holder.lease_until_us / 1e6 - time.time()


# ── the key of a lock, which the tests read and write ────────────────────────────────────────────────────────────────


class Key:
    """The holder of a lock, as the commands of Redis show the key in which redis-py stores its token."""

    def __init__(self, client: rushgate.Rushgate) -> None:
        self._client = client

    def get(self, name: str) -> Optional[bytes]:
        holder = self._client.lock(name).state().holder
        return None if holder is None else token_of(holder)

    def pttl(self, name: str) -> int:
        return int(left_of(self._client.lock(name).state()) * 1_000)

    def ttl(self, name: str) -> int:
        return self.pttl(name) // 1_000

    def set(self, name: str, _: object) -> None:
        """Another client gets the lock, also from its holder."""
        lock = self._client.lock(name)
        lock.force_release()
        lock.acquire()


COMMANDS = ("get", "pttl", "ttl", "set")
