"""Processes and forks."""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import signal
import subprocess
import sys
from typing import Any, List

import pytest
from support import API, URL, Thread, connect, options, unique, until

from rushgate import LockBusy, LockLost, Sku, aio

PEER = pathlib.Path(__file__).with_name("peer.py")
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")


def peers(*roles: List[str]) -> List[Any]:
    """Runs peers at the same time, and returns what they print."""
    started = [
        subprocess.Popen([sys.executable, str(PEER), URL, *map(str, role)], stdout=subprocess.PIPE, text=True)
        for role in roles
    ]
    texts = [process.communicate(timeout=120)[0] for process in started]
    assert [process.returncode for process in started] == [0] * len(started)
    return [answer(text) for text in texts]


def answer(text: str) -> Any:
    """What a peer has printed: an answer behind a mark, if any."""
    _, _, said = text.strip().partition("»")
    try:
        return json.loads(said) if said else None
    except ValueError:
        return pytest.fail(f"a peer has printed {text!r}")


@pytest.mark.skipif(API != "threads", reason="the peers are the same")
def test_processes_share_a_lock_and_lose_no_write_to_a_file(tmp_path):
    file = tmp_path / "fences"
    file.touch()
    peers(*[["count", unique("lock"), 25, file]] * 4)
    fences = [int(line.split()[0]) for line in file.read_text().splitlines()]
    assert len(fences) == 100 and fences == sorted(set(fences))


@pytest.mark.skipif(API != "threads", reason="a signal interrupts a blocking call")
def test_an_interrupted_wait_leaves_the_wait_queue(client):
    lock = client.lock(unique("lock"))
    held = lock.acquire()

    def interrupt():
        until(lambda: lock.state().waiters)
        os.kill(os.getpid(), signal.SIGINT)

    # A shell starts background jobs with SIGINT ignored, which Python keeps.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupting = Thread(interrupt)
    with pytest.raises(KeyboardInterrupt):
        lock.acquire(wait=60)
    interrupting.result()
    signal.signal(signal.SIGINT, before)
    assert lock.state().waiters == []
    held.release()


@pytest.mark.skipif(API != "threads", reason="the peers are the same")
def test_workers_in_processes_run_each_task_once(client):
    queue, done = unique("queue"), unique("done")
    peers(["enqueue", queue, 60])
    assert client.queue(queue).stats().ready == 60
    answers = peers(*[["work", queue, 60, done]] * 3)
    ids = [task for answer in answers for task in answer["done"]]
    assert sorted(ids) == sorted(f"python:{number}" for number in range(1, 61))


@pytest.mark.skipif(API != "threads", reason="the peers are the same")
def test_buyers_in_processes_buy_exactly_the_units(client):
    sale = client.sale(unique("sale"))
    client.create_sale(sale.id, [Sku("phone", 15, 1)], ledger=False)
    sale.open()
    answers = peers(["buy", sale.id, 10, "a"], ["buy", sale.id, 10, "b"], ["buy", sale.id, 10, "c"])
    units = [unit for answer in answers for _, *bought in answer["sold"] for unit in bought]
    assert sorted(units) == list(range(1, 16))
    assert sum(answer["refused"] for answer in answers) == 15


def child(of: Any) -> int:
    """Runs a function in a forked process, and returns its exit status."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            of()
            status = 0
        except BaseException as error:
            print(f"in the child: {error!r}", file=sys.stderr)
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@forks
@pytest.mark.skipif(API != "threads", reason="asyncio has a test of its own")
def test_a_forked_process_is_a_client_of_its_own(client):
    queue, lock = client.queue(unique("queue")), client.lock(unique("lock"))
    held = lock.acquire()
    with pytest.raises(LockBusy):
        lock.acquire(wait=0.05)
    queue.enqueue("parent")

    def use():
        assert held.lease_left == 0
        for verb in (held.release, held.extend, held.check):
            with pytest.raises(LockLost):
                verb()
        with pytest.raises(LockBusy):
            lock.acquire(wait=0.05)
        for number in range(20):
            assert queue.enqueue(f"child-{os.getpid()}-{number}").outcome == "added"
        with client.lock(lock.name + "-other").acquire(wait=20):
            pass

    assert [child(use) for _ in range(3)] == [0, 0, 0]
    for number in range(20):
        assert queue.enqueue(f"parent-{number}").outcome == "added"
    assert queue.stats().ready == 81
    held.check()
    held.release()


@forks
@pytest.mark.skipif(API != "asyncio", reason="threads have a test of their own")
def test_a_forked_process_with_asyncio_is_a_client_of_its_own():
    client = aio.Rushgate(URL, **options())
    name = unique("queue")

    async def use(word):
        queue = client.queue(name)
        for number in range(20):
            assert (await queue.enqueue(f"{word}-{number}")).outcome == "added"
        async with client.lock(name).acquire(wait=20):
            pass

    async def both():
        await use("parent")
        return await asyncio.get_running_loop().run_in_executor(None, lambda: 0)

    asyncio.run(both())
    assert child(lambda: asyncio.run(use("child"))) == 0
    assert connect().queue(name).stats().ready == 40
