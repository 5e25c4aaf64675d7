"""Runs redis-py's `tests/test_lock.py` with the adapter. What cannot apply is deselected, by name and with its reason."""

from __future__ import annotations

import os
from typing import Any

import pytest
import redis_lock

import rushgate

STATE = "reads or writes the key in which redis-py stores the token, or its TTL"
CLOCK = "replaces the clock and the sleeps of redis-py's polling; waiters of Rushgate are woken by messages"
NOT_APPLICABLE = {
    "test_lock": STATE,
    "test_lock_token": STATE,
    "test_lock_token_thread_local_false": STATE,
    "test_timeout": STATE,
    "test_float_timeout": STATE,
    "test_blocking_timeout": CLOCK,
    "test_context_manager": STATE,
    "test_context_manager_blocking_timeout": CLOCK,
    "test_context_manager_raises_when_locked_not_acquired": STATE,
    "test_high_sleep_small_blocking_timeout": CLOCK,
    "test_releasing_lock_no_longer_owned_raises_error": STATE,
    "test_extend_lock": STATE,
    "test_extend_lock_replace_ttl": STATE,
    "test_extend_lock_float": STATE,
    "test_extending_lock_no_longer_owned_raises_error": STATE,
    "test_reacquire_lock": STATE,
    "test_reacquiring_lock_no_longer_owned_raises_error": STATE,
    "test_context_manager_reacquiring_lock_no_longer_owned_raises_error": STATE,
    "test_lock_error_gives_correct_lock_name": STATE,
}


@pytest.fixture(autouse=True)
def rushgate_lock(monkeypatch: Any) -> Any:
    from tests import test_lock

    with rushgate.Rushgate(os.environ["RUSHGATE_TEST_REDIS"]) as client:
        monkeypatch.setattr(redis_lock.Lock, "client", client, raising=False)
        monkeypatch.setattr(test_lock, "Lock", redis_lock.Lock)
        yield


def pytest_collection_modifyitems(config: Any, items: Any) -> None:
    skipped = [item for item in items if item.originalname in NOT_APPLICABLE]
    for item in skipped:
        print(f"not applicable: {item.originalname}: {NOT_APPLICABLE[item.originalname]}")
    items[:] = [item for item in items if item not in skipped]
    config.hook.pytest_deselected(items=skipped)
