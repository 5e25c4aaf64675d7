"""Plays roles in a test with several processes or languages: peer.py URL [ROLE ARGUMENT…]

Without a role, it reads a role per line, with tabs between the words, and prints an answer to each. The environment has
the token of a Rushgate server in RUSHGATE_TEST_TOKEN, and the authority of TLS in RUSHGATE_TEST_CA.

  count LOCK TIMES FILE                  append the fencing token to a file under a lock: read all, write all
  hold LOCK WAIT LEASE                   acquire a lock, for times in seconds
  free LOCK                              release it
  enqueue QUEUE N                        enqueue tasks
  work QUEUE N DONE [STUCK_AFTER LEASE]  complete tasks until N are in the queue DONE. Or stay in a handler after some
  send QUEUE ID KIND TEXT                enqueue one task
  receive QUEUE                          claim one task and complete it
  buy SALE BUYERS                        buy one unit of the SKU `phone` per buyer
  reserve SALE SKU BUYER KEY             reserve one unit
  decide SALE confirm|cancel ID          decide a reservation
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
import threading
import time
from typing import Any, Dict, List, Optional

import rushgate

LANGUAGE = "python"
WAIT = 60


class Peer:
    def __init__(self, client: rushgate.Rushgate) -> None:
        self.client = client
        self.held: Dict[str, rushgate.HeldLock] = {}

    def count(self, lock: str, times: str, file: str) -> None:
        path = pathlib.Path(file)
        for _ in range(int(times)):
            with self.client.lock(lock).acquire(wait=WAIT) as held:
                path.write_text(f"{path.read_text()}{held.fence} {LANGUAGE}\n")

    def hold(self, lock: str, wait: str, lease: str) -> Any:
        try:
            self.held[lock] = self.client.lock(lock, lease=float(lease)).acquire(wait=float(wait))
        except rushgate.LockBusy:
            return None
        return {"fence": self.held[lock].fence}

    def free(self, lock: str) -> None:
        self.held.pop(lock).release()

    def enqueue(self, queue: str, n: str) -> None:
        numbers = range(1, int(n) + 1)
        tasks = [rushgate.NewTask(f"{LANGUAGE}:{i}", {"from": LANGUAGE, "n": i}) for i in numbers]
        outcomes = self.client.queue(queue).enqueue_many(tasks)
        assert all(outcome.is_live for outcome in outcomes), outcomes

    def work(self, name: str, n: str, done_name: str, stuck_after: str = "", lease: str = "30") -> Any:
        queue, counted = self.client.queue(name), self.client.queue(done_name)
        done: List[str] = []
        over = threading.Event()

        def handle(payload: Any, job: rushgate.Job) -> None:
            assert job.id == f"{payload['from']}:{payload['n']}", payload
            if stuck_after and len(done) == int(stuck_after):
                # Once the store has all completions, no task of this process runs again but the one that it holds.
                while any(queue.task(id) for id in done):
                    time.sleep(0.01)
                tell({"done": done, "stuck": job.id})
                over.wait()
            assert counted.enqueue(job.id).outcome == "added", job.id
            done.append(job.id)

        def watch() -> None:
            while not over.wait(0.02):
                left = queue.stats()
                if left.ready + left.leased + left.scheduled == 0 and counted.stats().ready >= int(n):
                    return worker.stop()

        concurrency = 1 if stuck_after else 16
        worker = self.client.worker(name, handlers={"*": handle}, concurrency=concurrency, lease=float(lease))
        threading.Thread(target=watch, daemon=True).start()
        worker.run()
        over.set()
        return {"done": done}

    def send(self, queue: str, id: str, kind: str, text: str) -> str:
        return self.client.queue(queue).enqueue(id, {"text": text}, kind=kind).outcome

    def receive(self, queue: str) -> Any:
        [task] = self.client.queue(queue).claim(wait=WAIT)
        assert task.complete() == "done"
        return {"id": task.id, "kind": task.kind, "text": task.payload["text"]}

    def buy(self, sale_id: str, buyers: str, name: str = LANGUAGE) -> Any:
        sale, sold, refused = self.client.sale(sale_id), [], 0
        for number in range(1, int(buyers) + 1):
            reserved = sale.reserve(f"{name}-{number}", "click", ["phone"])
            if reserved.hold is None:
                refused += 1
                continue
            decision = sale.confirm(reserved.hold.id)
            assert decision.outcome in ("done", "pending"), decision
            sold.append([reserved.hold.id, *(unit for _, unit in reserved.hold.units)])
        return {"sold": sold, "refused": refused}

    def reserve(self, sale: str, sku: str, buyer: str, key: str) -> Any:
        try:
            reserved = self.client.sale(sale).reserve(buyer, key, [sku])
        except rushgate.RushgateError as error:
            return {"outcome": error.code, "reservation": None}
        return {"outcome": reserved.outcome, "reservation": reserved.hold and reserved.hold.id}

    def decide(self, sale: str, verb: str, reservation: str) -> str:
        return getattr(self.client.sale(sale), verb)(reservation).outcome


def tell(answer: Any) -> None:
    print("»", json.dumps(answer), flush=True)


def main(url: str, *words: str) -> None:
    more: Dict[str, Optional[str]] = {}
    if url.startswith("http"):
        more["token"] = os.environ.get("RUSHGATE_TEST_TOKEN")
    if url.startswith("rediss"):
        more["ca"] = os.environ.get("RUSHGATE_TEST_CA")
    with rushgate.Rushgate(url, **more) as client:
        peer = Peer(client)
        for role, *arguments in [words] if words else (line.rstrip("\n").split("\t") for line in sys.stdin):
            tell(getattr(peer, role)(*arguments))


if __name__ == "__main__":
    main(*sys.argv[1:])
