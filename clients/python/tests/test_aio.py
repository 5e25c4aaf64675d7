"""What only clients with asyncio do."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from support import API, IS_HTTP, IS_REDIS, URL, options, unique

from rushgate import LockBusy, LockLost
from rushgate._aio_driver import AioBell, within
from rushgate.aio import Rushgate

pytestmark = pytest.mark.skipif(API != "asyncio", reason="threads")


def run(test: Any) -> Any:
    async def call() -> Any:
        async with Rushgate(URL, **options()) as client:
            return await test(client)

    return asyncio.run(call())


async def reached(is_true: Any) -> None:
    end = time.monotonic() + 20
    while not await is_true():
        assert time.monotonic() < end, "the condition did not become true"
        await asyncio.sleep(0.005)


def test_the_body_is_canceled_when_the_lock_is_lost():
    async def test(client):
        lock = client.lock(unique("lock"), lease=60 if IS_REDIS else 1)
        with pytest.raises(LockLost):
            async with lock.acquire() as held:
                assert await lock.force_release()
                await asyncio.sleep(30)
        assert held.lost.is_set()
        # The task continues.
        await asyncio.sleep(0)
        async with lock.acquire(wait=1):
            pass

    run(test)


def test_the_body_is_canceled_before_the_lease_ends():
    async def test(client):
        lock = client.lock(unique("lock"), lease=0.4, renew=False)
        begun = time.monotonic()
        with pytest.raises(LockLost):
            async with lock.acquire():
                await asyncio.sleep(30)
        assert time.monotonic() - begun < 5

    run(test)


def test_a_cancellation_from_outside_stays_a_cancellation():
    async def test(client):
        lock, begun = client.lock(unique("lock")), asyncio.Event()

        async def body():
            async with lock.acquire():
                begun.set()
                await asyncio.sleep(30)

        task = asyncio.ensure_future(body())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await lock.state()).holder is None

    run(test)


def test_a_canceled_waiter_leaves_the_wait_queue():
    async def test(client):
        lock = client.lock(unique("lock"))
        held = await lock.acquire()
        waiting = asyncio.ensure_future(client.lock(lock.name).acquire(wait=60)._acquire())

        async def is_waiting():
            return len((await lock.state()).waiters) == 1

        async def is_empty():
            return not (await lock.state()).waiters

        await reached(is_waiting)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await reached(is_empty)
        await held.release()
        (await lock.acquire()) and None

    run(test)


def test_a_cancellation_is_kept_when_it_comes_with_the_result():
    async def test():
        bell = AioBell()
        waiting = asyncio.ensure_future(bell.wait(60))
        await asyncio.sleep(0)
        bell.ring()
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(test())


def test_a_connection_that_opens_while_its_waiter_is_canceled_is_closed():
    async def test():
        opened, closed = asyncio.get_running_loop().create_future(), []
        waiting = asyncio.ensure_future(within(60, opened, closed.append))
        await asyncio.sleep(0)
        opened.set_result("connection")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await asyncio.sleep(0)
        assert closed == ["connection"]

    asyncio.run(test())


def test_a_wait_that_is_over_is_a_timeout():
    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(within(0.01, asyncio.sleep(60)))


def test_a_canceled_claim_returns_its_tasks():
    async def test(client):
        queue = client.queue(unique("queue"))
        for round in range(20):
            await queue.enqueue(f"t{round}")
            claim = asyncio.ensure_future(queue.claim(wait=5))
            await asyncio.sleep(0.0005 * (round % 5))
            claim.cancel()
            try:
                [task] = await claim
                await task.release()
            except asyncio.CancelledError:
                pass

            async def is_back():
                return (await queue.stats()).ready == 1

            await reached(is_back)
            [task] = await queue.claim()
            assert task.attempt == 1 and await task.complete() == "done"

    run(test)


def test_many_tasks_share_a_client_and_a_lock():
    async def test(client):
        lock, counter = client.lock(unique("lock")), 0

        async def count():
            nonlocal counter
            for _ in range(5):
                async with lock.acquire(wait=60):
                    value = counter
                    await asyncio.sleep(0)
                    counter = value + 1

        await asyncio.gather(*(count() for _ in range(20 if IS_HTTP else 40)))
        assert counter == (100 if IS_HTTP else 200)

    run(test)


def test_a_worker_runs_handlers_at_the_same_time_and_shuts_down_when_it_is_canceled():
    async def test(client):
        queue, running, most = client.queue(unique("queue")), 0, 0

        async def handle(payload, job):
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.05)
            running -= 1

        for number in range(10):
            await queue.enqueue(f"t{number}")
        worker = client.worker(queue.name, handlers={"*": handle}, concurrency=5)
        task = asyncio.ensure_future(worker.run())

        async def is_done():
            return worker.report.done == 10

        await reached(is_done)
        assert most == 5
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await queue.stats()).leased == 0

    run(test)


def test_a_busy_lock_is_an_exception():
    async def test(client):
        lock = client.lock(unique("lock"))
        async with lock.acquire():
            with pytest.raises(LockBusy):
                await lock.acquire()

    run(test)
