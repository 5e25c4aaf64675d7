from __future__ import annotations

import os
from typing import Any, Dict, Iterator, List

import pytest
import support

_COUNTS: Dict[str, int] = {"passed": 0, "failed": 0}


@pytest.fixture
def connect() -> Iterator[Any]:
    """Makes clients, and closes them after the test."""
    clients: List[Any] = []

    def make(*words: Any, **more: Any) -> Any:
        clients.append(support.connect(*words, **more))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def client(connect: Any) -> Any:
    return connect()


@pytest.fixture
def proxy() -> Iterator[support.Proxy]:
    made = support.Proxy(support.URL)
    yield made
    made.stop()


def pytest_runtest_logreport(report: Any) -> None:
    if report.failed:
        _COUNTS["failed"] += 1
    elif report.when == "call" and report.passed:
        _COUNTS["passed"] += 1


def pytest_sessionfinish() -> None:
    path = os.environ.get("RUSHGATE_COUNTS")
    if path:
        with open(path, "w") as counts:
            counts.write(f"{_COUNTS['passed']} {_COUNTS['failed']}")
