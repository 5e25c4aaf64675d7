"""Deselects the tests that cannot apply, and counts the others. A test that skips itself without being listed fails."""

from __future__ import annotations

import os
from typing import Any, Dict

import pytest
from not_applicable import NOT_APPLICABLE

REASONS = {
    name: reason for reason, names in NOT_APPLICABLE[os.environ["RUSHGATE_SUITE"]].items() for name in names.split()
}
_COUNTS: Dict[str, int] = {"passed": 0, "failed": 0}


def name_of(item: Any) -> str:
    return getattr(item, "originalname", None) or item.name


def pytest_collection_modifyitems(config: Any, items: Any) -> None:
    unknown = REASONS.keys() - {name_of(item) for item in items}
    if unknown:
        raise pytest.UsageError(f"listed as not applicable, but not in the suite: {', '.join(sorted(unknown))}")
    skipped = [item for item in items if name_of(item) in REASONS]
    items[:] = [item for item in items if item not in skipped]
    config.hook.pytest_deselected(items=skipped)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any) -> Any:
    report = yield
    if report.skipped:
        report.outcome, report.longrepr = "failed", f"{item.nodeid} is skipped, but not listed: {report.longrepr}"
    return report


def pytest_runtest_logreport(report: Any) -> None:
    if report.failed:
        _COUNTS["failed"] += 1
    elif report.when == "call" and report.passed:
        _COUNTS["passed"] += 1


def pytest_sessionfinish() -> None:
    with open(os.environ["RUSHGATE_COUNTS"], "w") as counts:
        counts.write(f"{_COUNTS['passed']} {_COUNTS['failed']}")
