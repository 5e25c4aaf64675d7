"""Lets redis-py's lock tests use the adapter, in place of its locks and of the keys in which it stores them."""

from __future__ import annotations

import importlib
import os
from typing import Any

import pytest
import pytest_asyncio
import redis
import redis.asyncio

import rushgate
from rushgate import aio

from . import redis_lock

URL = os.environ["RUSHGATE_TEST_REDIS"]


@pytest.fixture
def key() -> Any:
    with rushgate.Rushgate(URL) as client:
        yield redis_lock.Key(client)


@pytest.fixture
def threads(monkeypatch: Any, key: Any) -> Any:
    for command in redis_lock.COMMANDS:
        monkeypatch.setattr(redis.Redis, command, lambda _, *words, of=getattr(key, command): of(*words))
    monkeypatch.setattr(importlib.import_module("tests.test_lock"), "Lock", redis_lock.Lock)
    with rushgate.Rushgate(URL) as client:
        monkeypatch.setattr(redis_lock.Lock, "client", client, raising=False)
        yield


@pytest_asyncio.fixture
async def tasks(monkeypatch: Any, key: Any) -> Any:
    def command(of: Any) -> Any:
        async def call(_: Any, *words: Any) -> Any:
            return of(*words)

        return call

    for name in redis_lock.COMMANDS:
        monkeypatch.setattr(redis.asyncio.Redis, name, command(getattr(key, name)))
    monkeypatch.setattr(importlib.import_module("tests.test_asyncio.test_lock"), "Lock", redis_lock.AsyncLock)
    async with aio.Rushgate(URL) as client:
        monkeypatch.setattr(redis_lock.AsyncLock, "client", client, raising=False)
        yield


def pytest_collection_modifyitems(items: Any) -> None:
    for item in items:
        item.fixturenames.insert(0, "tasks" if "asyncio" in str(item.path) else "threads")
