from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import rushgate
from support import API, IS_PLAIN, Running, handler, options, unique, until, URL

from rushgate import (
    Backoff, Discard, GiveUp, InvalidArgument, KeyLimits, NewTask, QueueLimits, Retention, RetryAfter, Snooze,
)


@pytest.fixture
def queue(client):
    made = client.queue(unique("queue"))
    made.limit(QueueLimits(retention=Retention(3600, 1_000)))
    return made


def soon(**more):
    return {"backoff": Backoff(base=0.01, longest=0.05), **more}


def block_until_stopped(payload, job):
    """Runs until the worker wants it to end."""
    assert job.stop.wait(30)
    job.check()


async def sleep_until_canceled(payload, job):
    await asyncio.sleep(30)


BLOCK = block_until_stopped if API == "threads" else sleep_until_canceled


def test_handlers_are_selected_by_kind_and_results_are_kept(client, queue):
    worker = client.worker(queue.name)
    worker.handle("add", handler(lambda payload, job: sum(payload)))
    worker.handle("*", handler(lambda payload, job: [job.kind, job.id, job.attempt]))
    queue.enqueue_many([NewTask("a", [1, 2], kind="add"), NewTask("b", kind="other"), NewTask("c")])
    with Running(worker):
        assert queue.wait_for("a", wait=20).result == 3
        assert queue.wait_for("b", wait=20).result == ["other", "b", 1]
        assert queue.wait_for("c", wait=20).result == [None, "c", 1]
    assert (worker.report.claimed, worker.report.done) == (3, 3)


def test_each_task_of_many_is_run_once(client, queue):
    seen, mutex = [], threading.Lock()

    def note(payload, job):
        with mutex:
            seen.append(payload)

    queue.enqueue_many([NewTask(f"t{number}", number) for number in range(300)])
    worker = client.worker(queue.name, handlers={"*": handler(note)}, concurrency=8)
    with Running(worker):
        until(lambda: worker.report.done == 300)
    assert sorted(seen) == list(range(300))


def test_a_failed_attempt_is_retried_and_the_last_makes_a_dead_letter_with_the_trace(client, queue):
    def fail(payload, job):
        raise ValueError("broken pipe organ")

    queue.enqueue("a", max_attempts=3)
    worker = client.worker(queue.name, handlers={"*": handler(fail)}, **soon())
    with Running(worker):
        ended = queue.wait_for("a", wait=20)
    assert ended.outcome == "dead" and ended.attempts == 3
    assert "ValueError: broken pipe organ" in ended.error and "in fail" in ended.error
    assert (worker.report.retried, worker.report.dead) == (2, 1)


def test_exceptions_decide_how_a_task_ends(client, queue):
    def decide(payload, job):
        if payload == "give up":
            raise GiveUp("no address")
        if payload == "discard":
            raise Discard("nothing to do")
        if payload == "later" and job.attempt == 1:
            raise RetryAfter(0.05, "rate limit")
        if payload == "snooze" and not snoozed:
            snoozed.append(1)
            raise Snooze(0.05)
        return job.attempt

    snoozed = []
    for word in ("give up", "discard", "later", "snooze"):
        queue.enqueue(word.replace(" ", "-"), word)
    worker = client.worker(queue.name, handlers={"*": handler(decide)})
    with Running(worker):
        assert "no address" in queue.wait_for("give-up", wait=20).error
        assert queue.wait_for("discard", wait=20).task.finished.how == "discarded"
        assert queue.wait_for("later", wait=20).result == 2
        assert queue.wait_for("snooze", wait=20).result == 1
    report = worker.report
    assert (report.done, report.discarded, report.retried, report.dead, report.released) == (2, 1, 1, 1, 1)


def test_a_payload_that_cannot_be_decoded_and_a_kind_without_a_handler_fail_and_are_not_lost(client, queue):
    queue.enqueue("bad", b"{", content_type="application/json", kind="k", max_attempts=1)
    queue.enqueue("none", kind="other", max_attempts=1)
    worker = client.worker(queue.name, handlers={"k": handler(lambda payload, job: None)})
    with Running(worker):
        assert "Undecodable" in queue.wait_for("bad", wait=20).error
        assert "no handler for the kind other" in queue.wait_for("none", wait=20).error
    assert queue.dead()[0].content.bytes == b"{"


def test_a_result_that_cannot_be_stored_makes_a_dead_letter(client, queue):
    queue.enqueue("a")
    with Running(client.worker(queue.name, handlers={"*": handler(lambda payload, job: "x" * 70_000)})):
        assert "result" in queue.wait_for("a", wait=20).error


def test_a_handler_that_exceeds_its_timeout_fails(client, queue):
    queue.enqueue("a", max_attempts=1)
    worker = client.worker(queue.name, handlers={"*": BLOCK}, timeout=0.2)
    with Running(worker):
        ended = queue.wait_for("a", wait=20)
    assert ended.outcome == "dead" and "TaskTimeout" in ended.error
    assert worker.report.dead == 1


def test_a_deadline_ends_the_handler(client, queue):
    queue.enqueue("a", deadline=0.5, max_attempts=5)
    worker = client.worker(queue.name, handlers={"*": BLOCK}, **soon())
    with Running(worker):
        assert queue.wait_for("a", wait=20).outcome == "dead"


def test_a_lease_is_extended_while_the_handler_runs(client, queue):
    free = threading.Event()

    def wait(payload, job):
        job.progress(50, "halfway")
        if API == "threads":
            assert free.wait(30)

    async def wait_aio(payload, job):
        wait(payload, job)
        while not free.is_set():
            await asyncio.sleep(0.01)

    queue.enqueue("a")
    worker = client.worker(queue.name, handlers={"*": wait if API == "threads" else wait_aio}, lease=2)
    with Running(worker):
        first = until(lambda: queue.task("a").lease_until_us)
        until(lambda: queue.task("a").lease_until_us > first + 900_000)
        assert queue.task("a").progress.percent == 50
        free.set()
        assert queue.wait_for("a", wait=20).outcome == "finished"
    assert worker.report.lost == 0


def test_a_canceled_task_stops_its_handler(client, queue):
    queue.enqueue("a")
    worker = client.worker(queue.name, handlers={"*": BLOCK}, lease=0.6)
    with Running(worker):
        until(lambda: queue.task("a").state == "leased")
        assert queue.cancel("a") == "marked"
        assert queue.wait_for("a", wait=20).outcome == "finished"
    assert worker.report.cancelled == 1


def test_a_lost_claim_stops_its_handler(client, queue):
    reasons = []

    def note(payload, job):
        try:
            block_until_stopped(payload, job)
        finally:
            reasons.append(job.reason.code)

    async def note_aio(payload, job):
        try:
            await asyncio.sleep(30)
        finally:
            reasons.append(job.reason.code)

    queue.enqueue("a")
    worker = client.worker(queue.name, handlers={"*": note if API == "threads" else note_aio}, lease=0.6, concurrency=1)
    with Running(worker):
        info = until(lambda: (lambda info: info if info.state == "leased" else None)(queue.task("a")))
        # Another client ends the claim.
        from rushgate._calls import TaskCalls

        queue_client = client if API == "threads" else client._of
        call = TaskCalls(queue.name, info.ticket).complete()
        queue_client._run(call) if API == "threads" else client._loop.run(lambda: queue_client._run(call))
        until(lambda: reasons)
    assert reasons == ["stale"] and worker.report.lost == 1


def test_a_stop_lets_running_handlers_finish_and_returns_the_other_tasks(client, queue):
    begun, free = threading.Event(), threading.Event()

    def wait(payload, job):
        begun.set()
        assert free.wait(30)
        return "finished"

    async def wait_aio(payload, job):
        begun.set()
        while not free.is_set():
            await asyncio.sleep(0.01)
        return "finished"

    queue.enqueue_many([NewTask("a"), NewTask("b")])
    worker = client.worker(queue.name, handlers={"*": wait if API == "threads" else wait_aio}, concurrency=1)
    running = Running(worker)
    assert begun.wait(20)
    worker.stop()
    free.set()
    report = running.join()
    assert report.done == 1 and queue.stats().ready == 1 and queue.stats().leased == 0


def test_a_stop_returns_tasks_whose_handlers_exceed_the_grace(client, queue):
    queue.enqueue("a")
    worker = client.worker(queue.name, handlers={"*": BLOCK}, grace=0.2)
    running = Running(worker)
    until(lambda: queue.stats().leased == 1)
    until(lambda: worker.report.claimed == 1)
    begun = time.monotonic()
    report = running.stop()
    assert time.monotonic() - begun < 8
    assert report.released == 1 and queue.stats().ready == 1
    [task] = queue.claim()
    assert task.attempt == 1


def test_an_idle_worker_stops_at_once(client, queue):
    worker = client.worker(queue.name, handlers={"*": BLOCK})
    running = Running(worker)
    # Let it fall asleep.
    time.sleep(0.3)
    begun = time.monotonic()
    running.stop()
    assert time.monotonic() - begun < 3


def test_an_idle_worker_is_woken_by_a_message(client, queue):
    with Running(client.worker(queue.name, handlers={"*": handler(lambda payload, job: 1)})):
        time.sleep(0.3)
        begun = time.monotonic()
        queue.enqueue("a")
        assert queue.wait_for("a", wait=20).result == 1
        assert time.monotonic() - begun < 4


def test_a_handler_reads_the_results_of_its_dependencies(client, queue):
    def total(payload, job):
        return sum(of.result.value for of in job.results())

    async def total_aio(payload, job):
        return sum([of.result.value async for of in job.results()])

    worker = client.worker(queue.name)
    worker.handle("one", handler(lambda payload, job: payload))
    worker.handle("sum", total if API == "threads" else total_aio)
    queue.enqueue_many([NewTask("a", 1, kind="one"), NewTask("b", 2, kind="one"), NewTask("s", kind="sum", after=["a", "b"])])
    with Running(worker):
        assert queue.wait_for("s", wait=20).result == 3


def test_an_operator_sees_quiets_and_stops_a_worker(client, queue):
    worker = client.worker(queue.name, handlers={"*": handler(lambda payload, job: 1)}, label="shop", concurrency=3)
    core = worker._core
    core.announce_each = 0.05
    running = Running(worker)
    [seen] = until(queue.workers)
    assert (seen.name, seen.concurrency, seen.running, seen.mode) == ("shop", 3, 0, "work")
    assert seen.version == f"rushgate-python {rushgate.__version__}" and len(seen.id) == 16
    assert 29_000_000 <= seen.lease_until_us - seen.seen_us <= 31_000_000
    assert queue.set_worker(seen.id, "quiet")
    until(lambda: core.pause.is_set)
    queue.enqueue("a")
    time.sleep(0.3)
    assert queue.task("a").state == "ready" and queue.workers()[0].mode == "quiet"
    assert queue.set_worker(seen.id, "work")
    assert queue.wait_for("a", wait=20).result == 1
    assert queue.set_worker(seen.id, "stop")
    assert running.join().done == 1
    assert queue.workers() == [] and not queue.set_worker(seen.id, "work")
    with pytest.raises(InvalidArgument):
        queue.set_worker(seen.id, "sleep")


@pytest.mark.skipif(not IS_PLAIN, reason="the proxy cannot read this transport")
def test_a_server_without_announcements_stops_no_worker_and_is_logged_once(connect, proxy, queue, caplog):
    # As an older server answers: it has no such function, and no such route.
    proxy.replace("queue_announce", "queue_unknownn")
    proxy.replace("/workers/", "/unknown/")
    worker = connect(proxy.url).worker(queue.name, handlers={"*": handler(lambda payload, job: 1)})
    worker._core.announce_each = 0.05
    running = Running(worker)
    until(lambda: proxy.replaced >= 3)
    queue.enqueue("a")
    queue.wait_for("a", wait=20)
    assert running.stop().done == 1
    [logged] = [record.getMessage() for record in caplog.records if queue.name in record.getMessage()]
    assert logged.startswith(f"cannot announce the worker to the queue {queue.name}: ")
    assert proxy.url.startswith("http") or "or older than this package" in logged


def test_tasks_of_a_key_run_in_order(client, queue):
    queue.limit(QueueLimits(per_key=KeyLimits(fifo=True), retention=Retention(3600, 1_000)))
    seen = []
    queue.enqueue_many([NewTask(f"t{number}", number, key="k") for number in range(20)])
    worker = client.worker(queue.name, handlers={"*": handler(lambda payload, job: seen.append(payload))}, concurrency=8)
    with Running(worker):
        until(lambda: len(seen) == 20)
    assert seen == list(range(20))


def test_bad_settings_are_refused(client):
    for settings in ({"concurrency": 0}, {"lease": 0}, {"grace": -1}, {"timeout": 0}, {"label": "\n"}, {"handlers": {"a b": BLOCK}}):
        with pytest.raises(InvalidArgument):
            client.worker("queue", **settings)
    with pytest.raises(InvalidArgument):
        client.worker("queue").run()
    with pytest.raises(InvalidArgument):
        client.worker("queue").handle("a", BLOCK).handle("a", BLOCK)


SIGNALED = """
import signal, sys
from rushgate import Rushgate
client = Rushgate(sys.argv[1], **eval(sys.argv[3]))
worker = client.worker(sys.argv[2], handlers={"*": lambda payload, job: print("ran", flush=True)})
signal.signal(signal.SIGTERM, lambda *_: worker.stop())
print(worker.run(), flush=True)
"""


@pytest.mark.skipif(API != "threads", reason="asyncio has `loop.add_signal_handler`")
def test_a_signal_handler_stops_a_worker(queue):
    words = [sys.executable, "-c", SIGNALED, URL, queue.name, repr(options())]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        queue.enqueue("a")
        assert process.stdout.readline() == "ran\n"
        time.sleep(0.3)
        os.kill(process.pid, signal.SIGTERM)
        assert "done=1" in process.stdout.readline()
        assert process.wait(20) == 0


def test_the_backoff_grows_to_its_longest_delay():
    backoff = Backoff(jitter=False)
    assert [backoff.draw(attempt) for attempt in (1, 2, 4)] == [1_000_000, 2_000_000, 8_000_000]
    assert backoff.draw(100_000) == 3_600_000_000
    assert all(Backoff().draw(3) <= 4_000_000 for _ in range(100))
