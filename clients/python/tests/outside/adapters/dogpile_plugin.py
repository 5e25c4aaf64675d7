"""Gives dogpile's tests of its lock a mutex of Rushgate, in place of one of the process."""

from __future__ import annotations

import os
import threading
import types
import uuid
from typing import Any

import pytest

import rushgate

from .mutex import Mutex


@pytest.fixture(autouse=True)
def rushgate_mutex(monkeypatch: Any) -> Any:
    from tests import test_lock

    with rushgate.Rushgate(os.environ["RUSHGATE_TEST_REDIS"]) as client:
        made = types.SimpleNamespace(Thread=threading.Thread, Lock=lambda: Mutex(client, f"dogpile-{uuid.uuid4()}"))
        monkeypatch.setattr(test_lock, "threading", made)
        yield
