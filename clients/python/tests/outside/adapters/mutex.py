"""A mutex that reports success, on a Rushgate lock."""

from __future__ import annotations

from typing import Optional

import rushgate

FOREVER = 86_400


class Mutex:
    def __init__(self, client: rushgate.Rushgate, name: str) -> None:
        self.on = client.lock(name)
        self.held: Optional[rushgate.HeldLock] = None

    def acquire(self, blocking: bool = True, timeout: Optional[float] = None) -> bool:
        wait = FOREVER if timeout is None else timeout
        try:
            self.held = self.on.acquire(wait if blocking else 0)
        except rushgate.LockBusy:
            return False
        return True

    def release(self) -> bool:
        held, self.held = self.held, None
        try:
            if held is not None:
                held.release()
        except rushgate.LockLost:
            return False
        return held is not None

    def locked(self) -> bool:
        return self.on.state().holder is not None
