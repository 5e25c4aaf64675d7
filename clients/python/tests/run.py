"""Runs the tests on every target with both clients, and prints the totals: run.py [TARGET…].

The target `outside` runs tests of other packages.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from support import TARGETS

HERE = pathlib.Path(__file__).resolve().parent
# Tests of other packages, on the Redis server, with the environment that these packages need.
OUTSIDE = ["../../.outside/bin/python", "outside/run.py"]
TESTS = ["--ignore", str(HERE / "outside"), str(HERE)]
# A test that hangs ends the run with the stacks of all threads.
LIMIT = ["-o", "faulthandler_timeout=90", "-o", "faulthandler_exit_on_timeout=true"]


def run(target: str, api: str) -> tuple[int, int]:
    with tempfile.NamedTemporaryFile("r") as counts:
        env = {**os.environ, "RUSHGATE_TARGET": target, "RUSHGATE_API": api, "RUSHGATE_COUNTS": counts.name}
        begun = time.monotonic()
        words = [sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=short", "-p", "no:cacheprovider", *LIMIT, *TESTS]
        done = subprocess.run([*words, *os.environ.get("PYTEST_WORDS", "").split()], env=env, cwd=HERE, capture_output=True, text=True)
        passed, failed = (int(word) for word in (counts.read() or "0 1").split())
    if done.returncode or failed:
        print(done.stdout, done.stderr, sep="\n")
        failed = failed or 1
    print(f"{target} {api}: {passed} passed, {failed} failed, {time.monotonic() - begun:.1f} s", flush=True)
    return passed, failed


def outside() -> tuple[int, int]:
    done = subprocess.run(OUTSIDE, cwd=HERE, stdout=subprocess.PIPE, text=True)
    *lines, total = done.stdout.splitlines() or [""]
    print(*lines, sep="\n", flush=True)
    counts = re.fullmatch(r"(\d+) passed, (\d+) failed", total)
    return (int(counts[1]), int(counts[2])) if counts else (0, 1)


def main(only: list[str]) -> int:
    passed = failed = 0
    for target, name in TARGETS.items():
        if not os.environ.get(f"RUSHGATE_TEST_{name}") or only and target not in only:
            continue
        for api in ("threads", "asyncio"):
            more = run(target, api)
            passed, failed = passed + more[0], failed + more[1]
    if os.environ.get("RUSHGATE_TEST_REDIS") and (not only or "outside" in only):
        more = outside()
        passed, failed = passed + more[0], failed + more[1]
    print(f"{passed} passed, {failed} failed")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
