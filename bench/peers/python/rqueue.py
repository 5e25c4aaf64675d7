"""rqueue.py rq put|work KEY=VALUE…: RQ, with the worker that runs tasks in its own process."""
import os
import sys
import threading
import time

import redis
from rq import Queue

from record import SERVER, URL, now, settings, write

PAYLOAD = "0123456789abcdef"
verb, said = sys.argv[2], settings()
if verb == "work":
    program = os.path.join(os.path.dirname(sys.executable), "rq")
    os.chdir(os.path.dirname(os.path.abspath(__file__)))
    os.execv(program, [program, "worker", "-u", URL, "-w", "rq.SimpleWorker", "--quiet", "bench"])

first, n, bulk, callers, gap = (said.get(key, 0) for key in ("first", "n", "bulk", "callers", "gap_ms"))
callers = max(callers, 1)
pool = redis.BlockingConnectionPool(**SERVER, max_connections=callers + 1)
queue = Queue("bench", connection=redis.Redis(connection_pool=pool))
records = []


def single(caller, began):
    for i in range(first + caller, first + n, callers):
        early = began + (i - first) * gap * 10**6 - now()
        if gap and early > 0:
            time.sleep(early / 1e9)
        asked = now()
        queue.enqueue("handler.noop", i, PAYLOAD, result_ttl=0)
        records.append((i, asked, now(), 1))


if bulk:
    for start in range(first, first + n, bulk):
        numbers = range(start, min(start + bulk, first + n))
        asked = now()
        queue.enqueue_many([Queue.prepare_data("handler.noop", (i, PAYLOAD), result_ttl=0) for i in numbers])
        records.append((start, asked, now(), len(numbers)))
else:
    threads = [threading.Thread(target=single, args=(caller, now())) for caller in range(callers)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
write(*records)
