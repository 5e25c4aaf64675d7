"""Benchmark: lock cycles, single enqueues and the drain by a worker, each per second, with one client.

The URL is in RUSHGATE_TEST_REDIS. Handlers do nothing. `bench.py SECONDS [TASKS]` sets the time of each measurement (default:
3) and the tasks of a drain (default: 5,000). The last column is the rate of Rushgate, divided by that of the library.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
import uuid
from typing import Any, Callable, List, Tuple

import arq
import arq.connections
import arq.worker
import huey
import pottery
import redis
import redis_lock
import rq

import rushgate
from rushgate import aio

URL = os.environ["RUSHGATE_TEST_REDIS"]
SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 3.0
TASKS = int(sys.argv[2]) if len(sys.argv) > 2 else 5_000
FEW_TASKS = TASKS // 10
# rq imports the work by name.
RQ_WORK = "builtins.abs"
Row = Tuple[str, str, float]


def rate(of: Callable[[], Any]) -> float:
    """Calls a function again and again, and returns how often per second."""
    of()
    begun, calls = time.perf_counter(), 0
    while time.perf_counter() - begun < SECONDS:
        of()
        calls += 1
    return calls / (time.perf_counter() - begun)


def name() -> str:
    return f"bench-{uuid.uuid4().hex[:8]}"


def locks(client: rushgate.Rushgate, server: Any) -> List[Row]:
    lock = client.lock(name())
    plain = server.lock(name(), timeout=30)
    other = redis_lock.Lock(server, name(), expire=30)
    pottery_lock = pottery.Redlock(key=name(), masters={server}, auto_release_time=30)

    def cycle(of: Any) -> Callable[[], None]:
        def once() -> None:
            of.acquire()
            of.release()

        return once

    return [
        ("lock cycles", "rushgate", rate(lambda: lock.acquire().release())),
        ("lock cycles", "redis-py Lock", rate(cycle(plain))),
        ("lock cycles", "python-redis-lock", rate(cycle(other))),
        ("lock cycles", "pottery Redlock", rate(cycle(pottery_lock))),
    ]


def nothing(*_: Any) -> None:
    """The work of a task."""


def queues(client: rushgate.Rushgate, server: Any) -> List[Row]:
    queue, of_huey = client.queue(name()), huey.RedisHuey(name(), url=URL)
    task, of_rq = of_huey.task()(nothing), rq.Queue(name(), connection=server)
    return [
        ("enqueues", "rushgate", rate(lambda: queue.enqueue(uuid.uuid4().hex, 1))),
        ("enqueues", "huey", rate(lambda: task(1))),
        ("enqueues", "rq", rate(lambda: of_rq.enqueue(RQ_WORK, 1))),
        ("enqueues, asyncio", "rushgate.aio", asyncio.run(enqueues_aio())),
        ("enqueues, asyncio", "arq", asyncio.run(enqueues_arq())),
        ("drain", "rushgate, 16 threads", drain(client)),
        ("drain", "huey, 16 threads", drain_huey()),
        ("drain", "rq, 1 process", drain_rq(server)),
        ("drain, asyncio", "rushgate.aio, 16 tasks", asyncio.run(drain_aio())),
        ("drain, asyncio", "arq, 16 tasks", asyncio.run(drain_arq())),
    ]


def filled(client: rushgate.Rushgate) -> str:
    queue = client.queue(name())
    for begin in range(0, TASKS, 1_000):
        queue.enqueue_many([rushgate.NewTask(f"t{begin + at}", 1) for at in range(1_000)])
    return queue.name


def drain(client: rushgate.Rushgate) -> float:
    worker = client.worker(filled(client), handlers={"*": nothing})
    begun = time.perf_counter()
    thread = threading.Thread(target=worker.run)
    thread.start()
    while worker.report.done < TASKS:
        time.sleep(0.005)
    taken = time.perf_counter() - begun
    worker.stop()
    thread.join()
    return TASKS / taken


async def drain_aio() -> float:
    with rushgate.Rushgate(URL) as sync:
        queue = filled(sync)

    async def handle(*_: Any) -> None:
        """The work of a task."""

    async with aio.Rushgate(URL) as client:
        worker = client.worker(queue, handlers={"*": handle})
        begun = time.perf_counter()
        running = asyncio.ensure_future(worker.run())
        while worker.report.done < TASKS:
            await asyncio.sleep(0.005)
        taken = time.perf_counter() - begun
        worker.stop()
        await running
    return TASKS / taken


async def rate_aio(of: Callable[[], Any]) -> float:
    await of()
    begun, calls = time.perf_counter(), 0
    while time.perf_counter() - begun < SECONDS:
        await of()
        calls += 1
    return calls / (time.perf_counter() - begun)


async def enqueues_aio() -> float:
    async with aio.Rushgate(URL) as client:
        queue = client.queue(name())
        return await rate_aio(lambda: queue.enqueue(uuid.uuid4().hex, 1))


ARQ = arq.connections.RedisSettings.from_dsn(URL)


async def enqueues_arq() -> float:
    pool, queue = await arq.create_pool(ARQ), name()
    try:
        return await rate_aio(lambda: pool.enqueue_job("work", 1, _queue_name=queue))
    finally:
        await pool.aclose()


async def drain_arq() -> float:
    async def work(*_: Any) -> None:
        """The work of a task."""

    pool, queue = await arq.create_pool(ARQ), name()
    for _ in range(FEW_TASKS):
        await pool.enqueue_job("work", 1, _queue_name=queue)
    worker = arq.worker.Worker(
        functions=[arq.worker.func(work, name="work")], redis_pool=pool, queue_name=queue, burst=True, max_jobs=16,
        poll_delay=0.005, handle_signals=False,
    )
    begun = time.perf_counter()
    await worker.main()
    taken = time.perf_counter() - begun
    await worker.close()
    return FEW_TASKS / taken


def drain_huey() -> float:
    of_huey = huey.RedisHuey(name(), url=URL, results=False)
    mutex, done = threading.Lock(), [0]

    @of_huey.task()
    def work(_: int) -> None:
        with mutex:
            done[0] += 1

    for _ in range(TASKS):
        work(1)
    consumer = of_huey.create_consumer(workers=16, periodic=False, initial_delay=0.005)
    begun = time.perf_counter()
    consumer.start()
    while done[0] < TASKS:
        time.sleep(0.005)
    taken = time.perf_counter() - begun
    consumer.stop()
    return TASKS / taken


def drain_rq(server: Any) -> float:
    queue = rq.Queue(name(), connection=server)
    for _ in range(FEW_TASKS):
        queue.enqueue(RQ_WORK, 1)
    begun = time.perf_counter()
    rq.SimpleWorker([queue], connection=server).work(burst=True, logging_level="ERROR")
    return FEW_TASKS / (time.perf_counter() - begun)


def main() -> None:
    with rushgate.Rushgate(URL) as client, redis.Redis.from_url(URL) as server:
        rows = [*locks(client, server), *queues(client, server)]
    ours = {what: value for what, library, value in rows if library.startswith("rushgate")}
    print("| per second | library | rate | rushgate / library |\n|---|---|---:|---:|")
    for what, library, value in rows:
        print(f"| {what} | {library} | {value:,.0f} | {ours[what] / value:.2f} |")


if __name__ == "__main__":
    main()
