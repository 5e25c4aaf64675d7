"""dogpile.cache's tests of a backend's mutex, with the mutex of Rushgate."""

from __future__ import annotations

import os
from typing import Any

from adapters.mutex import Mutex
from dogpile.cache import register_backend
from dogpile.cache.backends.memory import MemoryBackend
from dogpile.testing.fixtures import _GenericMutexTestSuite
from tests.cache import test_redis_backend

import rushgate


class Backend(MemoryBackend):  # type: ignore[misc]
    client = rushgate.Rushgate(os.environ["RUSHGATE_TEST_REDIS"])

    def get_mutex(self, key: str) -> Mutex:
        return Mutex(self.client, key)


register_backend("rushgate.test", __name__, "Backend")


class RushgateMutexTest(_GenericMutexTestSuite):  # type: ignore[misc]
    backend = "rushgate.test"


class RushgateAsyncCreationTest(test_redis_backend.RedisAsyncCreationTest):  # type: ignore[misc]
    backend = "rushgate.test"
    config_args: Any = {}

    @classmethod
    def _check_backend_available(cls, backend: Any) -> None:
        """There is always one."""
