"""Runs the suites of other packages, each in a database of its own, and prints their totals: run.py."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Tuple

HERE = pathlib.Path(__file__).resolve().parent
SOURCES = pathlib.Path(sys.prefix) / "sources"
# A test that hangs ends the run with the stacks of all threads.
LIMIT = ["-o", "faulthandler_timeout=60", "-o", "faulthandler_exit_on_timeout=true"]


@dataclass(frozen=True)
class Suite:
    name: str
    folder: pathlib.Path
    words: Tuple[str, ...]


REDIS, DOGPILE = SOURCES / "redis", SOURCES / "dogpile_cache"
ON_REDIS = ("-p", "adapters.redis_lock_plugin")
# redis-py's tests flush all databases, so they come first.
FLUSHING = [
    Suite("redis-py, threads", REDIS, (*ON_REDIS, "tests/test_lock.py")),
    Suite("redis-py, asyncio", REDIS, (*ON_REDIS, "tests/test_asyncio/test_lock.py")),
]
OTHERS = [
    Suite("dogpile.cache", DOGPILE, (
        "-o", "python_classes=*Test", "-p", "adapters.dogpile_plugin", "tests/test_lock.py", str(HERE / "test_dogpile.py"),
    )),
    Suite("tooz", HERE, ("--pyargs", "tooz.tests.test_coordination")),
    Suite("huey", HERE, ("test_huey.py",)),
]


def run(suite: Suite, url: str) -> Tuple[int, int]:
    begun = time.monotonic()
    with tempfile.NamedTemporaryFile("r") as counts:
        env = {
            **os.environ,
            "PYTHONPATH": str(HERE),
            "RUSHGATE_SUITE": suite.name,
            "RUSHGATE_COUNTS": counts.name,
            "RUSHGATE_TEST_REDIS": url,
            "TOOZ_TEST_URL": url.replace("redis:", "rushgate:"),
            "HUEY_SLOW_TESTS": "1",
        }
        pytest = [sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=short", "-p", "no:cacheprovider", "-p", "accounting"]
        on_redis = ["--redis-url", url] if suite.folder == REDIS else []
        done = subprocess.run(
            [*pytest, "-o", "addopts=", *LIMIT, *on_redis, *suite.words], env=env, cwd=suite.folder, capture_output=True, text=True
        )
        passed, failed = (int(word) for word in (counts.read() or "0 1").split())
    if done.returncode or failed:
        print(done.stdout, done.stderr, sep="\n")
        failed = failed or 1
    print(f"{suite.name}: {passed} passed, {failed} failed, {time.monotonic() - begun:.1f} s", flush=True)
    return passed, failed


def main() -> int:
    server = os.environ["RUSHGATE_TEST_REDIS"]
    results = [run(suite, f"{server}/1") for suite in FLUSHING]
    with ThreadPoolExecutor(len(OTHERS)) as pool:
        urls = [f"{server}/{2 + at}" for at in range(len(OTHERS))]
        results += pool.map(run, OTHERS, urls)
    passed, failed = (sum(counts) for counts in zip(*results))
    print(f"{passed} passed, {failed} failed")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
