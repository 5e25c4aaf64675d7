"""Runs the tests on every target with both clients, and prints the totals: run.py [TARGET…]."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile
import time

from support import TARGETS

HERE = pathlib.Path(__file__).resolve().parent
# A test that hangs ends the run with the stacks of all threads.
LIMIT = ["-o", "faulthandler_timeout=90", "-o", "faulthandler_exit_on_timeout=true"]


def run(target: str, api: str) -> tuple[int, int]:
    with tempfile.NamedTemporaryFile("r") as counts:
        env = {**os.environ, "RUSHGATE_TARGET": target, "RUSHGATE_API": api, "RUSHGATE_COUNTS": counts.name}
        begun = time.monotonic()
        words = [sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=short", "-p", "no:cacheprovider", *LIMIT, str(HERE)]
        done = subprocess.run([*words, *os.environ.get("PYTEST_WORDS", "").split()], env=env, cwd=HERE, capture_output=True, text=True)
        passed, failed = (int(word) for word in (counts.read() or "0 1").split())
    if done.returncode or failed:
        print(done.stdout, done.stderr, sep="\n")
        failed = failed or 1
    print(f"{target} {api}: {passed} passed, {failed} failed, {time.monotonic() - begun:.1f} s", flush=True)
    return passed, failed


def main(only: list[str]) -> int:
    passed = failed = 0
    for target, name in TARGETS.items():
        if not os.environ.get(f"RUSHGATE_TEST_{name}") or only and target not in only:
            continue
        for api in ("threads", "asyncio"):
            more = run(target, api)
            passed, failed = passed + more[0], failed + more[1]
    print(f"{passed} passed, {failed} failed")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
