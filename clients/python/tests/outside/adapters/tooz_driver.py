"""A driver of tooz with the locks of Rushgate: `rushgate://HOST:PORT/DATABASE`."""

from __future__ import annotations

from typing import Any, Optional, Union

import tooz
from tooz import coordination, locking, utils

import rushgate

from .mutex import Mutex


class Lock(locking.Lock):
    def __init__(self, client: rushgate.Rushgate, name: bytes) -> None:
        super().__init__(name)
        self._mutex = Mutex(client, name.decode())

    def acquire(self, blocking: Union[bool, float] = True, shared: bool = False, timeout: Optional[float] = None) -> bool:
        if shared:
            raise tooz.NotImplemented
        return self._mutex.acquire(*utils.convert_blocking(blocking, timeout))

    def release(self) -> bool:
        return self._mutex.release()

    def is_still_owner(self) -> bool:
        return self._mutex.held is not None and self._mutex.held.lease_left > 0

    def break_(self) -> bool:
        return self._mutex.on.force_release() is not None


class Driver(coordination.CoordinationDriver):
    CHARACTERISTICS = (
        coordination.Characteristics.DISTRIBUTED_ACROSS_THREADS,
        coordination.Characteristics.DISTRIBUTED_ACROSS_PROCESSES,
        coordination.Characteristics.DISTRIBUTED_ACROSS_HOSTS,
    )

    def __init__(self, member_id: bytes, parsed_url: Any, options: Any) -> None:
        super().__init__(member_id, parsed_url, options)
        self._url = f"redis://{parsed_url.netloc}"

    def _start(self) -> None:
        self._client = rushgate.Rushgate(self._url, timeout=5, retry_for=0.5)
        try:
            self._client.lock("tooz").state()
        except rushgate.Unavailable as error:
            raise coordination.ToozConnectionError(str(error)) from error

    def _stop(self) -> None:
        self._client.close()

    def get_lock(self, name: bytes) -> Lock:
        return Lock(self._client, name)
