"""locks.py threads|tasks lock KEY=VALUE…: the Lock of redis-py, for threads with a connection pool or for asyncio tasks."""
import asyncio
import sys
import threading
import time

import redis
import redis.asyncio
from redis.asyncio.lock import Lock as AsyncLock
from redis.lock import Lock

from record import SERVER, now, settings, write

LEASE = 10
kind, said = sys.argv[1], settings()
callers, hot = said["callers"], said.get("hot")
hold, think = (said.get(key, 0) / 1000 for key in ("hold_ms", "think_ms"))
until = now() + said["seconds"] * 10**9
records = []


def name(caller, cycle):
    return "hot" if hot else f"lock:{caller}:{cycle}"


def record(caller, asked, got, leaving):
    records.append((caller, asked, got, leaving) if hot else (caller, asked, now(), 0))


def thread(caller, server, cycle=0):
    while now() < until:
        asked = now()
        lock = Lock(server, name(caller, cycle), timeout=LEASE)
        assert lock.acquire()
        got = now()
        if hold:
            time.sleep(hold)
        leaving = now()
        lock.release()
        record(caller, asked, got, leaving)
        cycle += 1
        if think:
            time.sleep(think)


async def task(caller, server, cycle=0):
    while now() < until:
        asked = now()
        lock = AsyncLock(server, name(caller, cycle), timeout=LEASE)
        assert await lock.acquire()
        got = now()
        if hold:
            await asyncio.sleep(hold)
        leaving = now()
        await lock.release()
        record(caller, asked, got, leaving)
        cycle += 1
        if think:
            await asyncio.sleep(think)


async def tasks():
    pool = redis.asyncio.BlockingConnectionPool(**SERVER, max_connections=callers + 1)
    await asyncio.gather(*(task(n, redis.asyncio.Redis(connection_pool=pool)) for n in range(callers)))


if kind == "tasks":
    asyncio.run(tasks())
else:
    server = redis.Redis(connection_pool=redis.BlockingConnectionPool(**SERVER, max_connections=callers + 1))
    threads = [threading.Thread(target=thread, args=(n, server)) for n in range(callers)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
write(*records)
