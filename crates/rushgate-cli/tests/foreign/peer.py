"""One role in a scenario of tests/foreign.rs, in Python: `peer.py PORT ROLE ARGUMENT…`."""

import json
import multiprocessing
import os
import pathlib
import signal
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parents[4] / "examples/python"))

import redis  # noqa: E402
from rushgate import DEBOUNCE, Lost, Rushgate  # noqa: E402

server = redis.Redis(port=int(sys.argv[1]))
gate = Rushgate(server)


def count(name, times):
    for _ in range(int(times)):
        with gate.lock(name, wait=60) as held:
            assert held, "granted in time"
            server.set("counter", int(server.get("counter") or 0) + 1)
            server.rpush("fences", held.fence)


def fork(children, times):
    """The parent has a client id, a subscription, a lock and a queue before it forks."""
    queue, held = gate.queue("jobs"), gate.acquire("parent")
    assert gate.acquire("parent", wait=0.05) is None, "held"
    inbox = gate.inbox().id

    def use(name):
        for number in range(int(times)):
            assert queue.enqueue(f"{name}:{number}"), "room"
        count("counter", times)

    def child(name):
        assert gate.inbox().id != inbox, "a subscription of its own"
        for verb in (held.release, lambda: held.extend(30)):
            try:
                verb()
                raise AssertionError("the lock belongs to the parent")
            except Lost:
                pass
        use(name)

    def forked(name):
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                child(name)
                status = 0
            finally:
                os._exit(status)
        return pid

    # The first child through `multiprocessing`, the others through `os.fork`.
    process = multiprocessing.get_context("fork").Process(target=child, args=("process",))
    process.start()
    pids = [forked(number) for number in range(1, int(children))]
    use("parent")
    process.join()
    statuses = [process.exitcode, *(os.waitpid(pid, 0)[1] for pid in pids)]
    assert not any(statuses), statuses
    assert gate.inbox().id == inbox, "the parent keeps its own"
    held.release()


def debounce(name):
    queue = gate.queue(name)
    assert queue.enqueue("page", payload=1, delay=0.2, on_duplicate=DEBOUNCE, max_wait=60)
    begun = time.monotonic()
    assert queue.enqueue("page", payload=2, delay=0.4, on_duplicate=DEBOUNCE, max_wait=60)
    [task] = queue.claim(wait=30)
    assert time.monotonic() - begun >= 0.4, "not before its delay"
    assert task.payload == 2 and task.complete(), "the last of the burst"
    queue.enqueue("page", payload=3, delay=60, on_duplicate=DEBOUNCE, max_wait=0.2)
    queue.enqueue("page", payload=4, delay=60, on_duplicate=DEBOUNCE, max_wait=0.2)
    [task] = queue.claim(wait=30)
    assert task.payload == 4 and task.complete(), "due after max_wait at the latest"
    for wrong in ({"on_duplicate": DEBOUNCE}, {"max_wait": 1}):
        try:
            queue.enqueue("page", **wrong)
            raise AssertionError(f"{wrong} is refused")
        except ValueError as why:
            assert "max_wait" in str(why), why


def kinds(name):
    assert gate.queue("in").enqueue(name, payload={"from": name}, kind="mail:welcome"), "room"
    back = gate.queue(f"back-{name}")
    for told in (("mail:thanks", "application/json", {"to": name}), (None, "text/plain", "für dich")):
        [task] = back.claim(wait=60)
        assert (task.kind, task.content_type, task.payload) == told, told
        assert task.complete(), "ours until now"
    back.enqueue("bytes", payload=b"\xff", kind="b/c")
    [task] = back.claim()
    assert (task.kind, task.content_type, task.payload) == ("b/c", "application/octet-stream", b"\xff")
    try:
        back.enqueue("wrong", kind="two words")
        raise AssertionError("it is refused")
    except ValueError as why:
        assert "two words" in str(why), why


def interrupt(name):
    held = gate.acquire(name)

    def end_wait():
        while not server.exists(f"rg:{{l:{name}}}:line"):
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=end_wait).start()
    try:
        gate.acquire(name, wait=60)
        raise AssertionError("it is interrupted")
    except KeyboardInterrupt:
        pass
    held.release()
    held = gate.acquire(name)
    assert held, "the wait queue is empty"
    held.release()


def lose(name):
    thief = Rushgate(redis.Redis(port=int(sys.argv[1])))

    def steal():
        thief.acquire(name, wait=30).release()

    try:
        with gate.lock(name, lease=0.05):
            steal()
            raise KeyError("the work's own")
    except KeyError as fault:
        assert any("Lost" in note for note in fault.__notes__), fault.__notes__
    try:
        with gate.lock(name, lease=0.05):
            steal()
        raise AssertionError("it was lost")
    except Lost:
        pass


def work(name):
    queue = gate.queue(name)
    while True:
        [task] = queue.claim(wait=60)
        server.hincrby("done", task.id, 1)
        assert task.complete(), "ours until now"
        if task.id.startswith("stop:"):
            return


def relay(source, to, tasks):
    source, to = gate.queue(source), gate.queue(to)
    for _ in range(int(tasks)):
        [task] = source.claim(wait=60)
        assert to.enqueue(task.id, payload=[*task.payload, "python"], unique_for=60), "room"
        assert task.complete(), "ours until now"


def buy(sale, name):
    sale, told, buyer = gate.sale(sale), {"confirmed": [], "cancelled": [], "units": []}, -1
    while True:
        buyer += 1
        hold = sale.reserve(f"{name}-{buyer}", "click", {"phone": 1})
        if hold["outcome"] == "sold_out":
            break
        if hold["outcome"] == "all_held":
            time.sleep(0.002)
            continue
        assert hold["outcome"] == "reserved", hold
        assert [sku for sku, _ in hold["units"]] == ["phone"] and hold["state"] == "held", hold
        again = sale.reserve(f"{name}-{buyer}", "click", {"phone": 1})
        assert (again["outcome"], again["reservation"]) == ("replayed", hold["reservation"]), again
        verb, end = (sale.cancel, "cancelled") if buyer % 5 == 4 else (sale.confirm, "confirmed")
        assert verb(hold["reservation"]) == "pending", "left to the ledger"
        told[end].append(hold["reservation"])
        if end == "confirmed":
            told["units"].append(hold["units"][0][1])
    print("»", json.dumps(told))


def meet(sale, name, hold):
    sale = gate.sale(sale)
    told = sale.reserve(name, "click", {"phone": 1})
    told = {"reserve": told["outcome"], "retry_at_us": told["retry_at_us"]}
    print("»", json.dumps(told | {"confirm": sale.confirm(hold), "cancel": sale.cancel(hold)}))


def spell(name):
    """Every name twice, as decomposed and as composed characters."""
    sale = gate.sale("soire\u0301e")
    first = sale.reserve(f"{name}-Zoe\u0308", "cle\u0301", {"cafe\u0301": 1})
    assert first["outcome"] == "reserved", first
    again = sale.reserve(f"{name}-Zo\u00eb", "cl\u00e9", {"caf\u00e9": 1})
    assert (again["outcome"], again["reservation"]) == ("replayed", first["reservation"]), again
    other = sale.reserve(f"{name}-Zo\u00eb", "other", {"caf\u00e9": 1})
    assert other["outcome"] == "limit_reached", other
    assert sale.confirm(first["reservation"]) == "pending"

    assert gate.acquire(f"{name}-porte\u0301e", lease=600), "free"
    assert gate.acquire(f"{name}-port\u00e9e") is None, "one lock"

    assert gate.queue(f"{name}-cafe\u0301").enqueue("e\u0301te\u0301", key="cle\u0301"), "room"
    queue = gate.queue(f"{name}-caf\u00e9")
    assert queue.enqueue("\u00e9t\u00e9", key="cl\u00e9"), "room"
    tasks = queue.claim(n=2)
    assert [(task.id, task.key) for task in tasks] == [("\u00e9t\u00e9", "cl\u00e9")], "one task"
    assert tasks[0].complete()


def attempt(sale):
    sale = gate.sale(sale)
    try:
        said = sale.reserve("ann", "click", {"phone": 1})["outcome"]
    except RuntimeError as error:
        said = str(error)
    print("»", json.dumps(said))


# All processes start at once.
server.rpush("ready", "python")
server.blpop("go", 50)
{"count": count, "debounce": debounce, "fork": fork, "interrupt": interrupt, "kinds": kinds,
 "lose": lose, "work": work, "relay": relay, "buy": buy, "meet": meet, "try": attempt, "spell": spell}[sys.argv[2]](*sys.argv[3:])
