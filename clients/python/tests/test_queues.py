from __future__ import annotations

import time
from datetime import timedelta

import pytest
from support import Thread, unique, until

from rushgate import (
    InvalidArgument, KeyLimits, NewTask, Progress, QueueLimits, Rate, Recurrence, Retention, Undecodable,
)


@pytest.fixture
def queue(client):
    return client.queue(unique("queue"))


def keep(queue):
    queue.limit(QueueLimits(retention=Retention(3600, 100)))


def test_a_task_is_claimed_once_and_completed(queue):
    added = queue.enqueue("a", {"to": "ann"}, kind="mail:welcome", priority=3, key="tenant")
    assert added.outcome == "added" and added.is_live and added.revision > 0
    [task] = queue.claim()
    assert queue.claim() == []
    assert (task.id, task.payload, task.kind, task.attempt) == ("a", {"to": "ann"}, "mail:welcome", 1)
    record = task.record
    assert (record.priority, record.key, record.max_attempts, record.content.content_type) == (3, "tenant", 20, "application/json")
    assert task.fence > 0
    assert task.complete() == "done"
    assert task.complete() == "stale"
    assert queue.task("a") is None


@pytest.mark.parametrize("payload, content_type", [
    ({"a": [1, 2.5, None, "\u00e9"]}, None), (None, None), (b"\xff\x00", None), (b"", None), ("text \u00fc", "text/plain"),
    ([1], "application/ld+json"),
])
def test_payloads_arrive_as_they_were_sent(queue, payload, content_type):
    queue.enqueue("a", payload, content_type=content_type, kind="k")
    [task] = queue.claim()
    assert task.payload == payload and type(task.payload) is type(payload) and task.kind == "k"
    assert task.record.content.content_type == content_type or content_type is None


def test_content_that_does_not_match_its_type_stays_in_the_store(queue):
    queue.enqueue("a", b"{", content_type="application/json")
    [task] = queue.claim()
    with pytest.raises(Undecodable):
        _ = task.payload
    assert task.record.content.bytes == b"{"
    assert task.release() == "waiting"
    assert queue.stats().ready == 1


def test_many_tasks_are_enqueued_in_one_step_and_claimed_by_priority(queue):
    tasks = [NewTask(f"t{number}", number, priority=9 - number) for number in range(10)]
    assert {of.outcome for of in queue.enqueue_many(tasks)} == {"added"}
    assert [task.payload for task in queue.claim(10)] == list(range(9, -1, -1))


def test_duplicates_are_kept_replaced_or_debounced(queue):
    assert queue.enqueue("a", 1, delay=60).outcome == "added"
    assert queue.enqueue("a", 2).outcome == "kept"
    assert queue.enqueue("a", 3, delay=60, on_duplicate="replace").outcome == "replaced"
    assert queue.enqueue("a", 4, on_duplicate="earliest").outcome in ("kept", "replaced")
    [task] = queue.claim(wait=5)
    assert task.payload == 3
    assert queue.enqueue("b", 1, delay=60, on_duplicate="debounce", max_wait=0.2).outcome == "added"
    assert queue.enqueue("b", 2, delay=60, on_duplicate="debounce", max_wait=0.2).outcome == "replaced"
    [task] = queue.claim(wait=5)
    assert (task.id, task.payload) == ("b", 2)


def test_delays_and_moments_are_due_times(queue):
    queue.enqueue("delay", delay=timedelta(milliseconds=300))
    queue.enqueue("moment", due_us=round((time.time() + 3600) * 1e6))
    assert queue.claim() == []
    assert queue.task("moment").state == "scheduled"
    [task] = queue.claim(2, wait=10)
    assert task.id == "delay"


def test_a_claim_waits_for_a_task_and_is_woken_by_a_message(queue, connect):
    waiting = Thread(lambda: connect().queue(queue.name).claim(wait=30))
    # Let it fall asleep.
    time.sleep(0.3)
    begun = time.monotonic()
    queue.enqueue("a")
    assert [task.id for task in waiting.result()] == ["a"]
    assert time.monotonic() - begun < 4
    begun = time.monotonic()
    assert queue.claim(wait=0.3) == []
    assert time.monotonic() - begun < 5


def test_a_failed_task_is_retried_and_becomes_a_dead_letter(queue):
    queue.enqueue("a", {"n": 1}, max_attempts=2)
    [task] = queue.claim()
    retried = task.retry("first")
    assert retried.outcome == "scheduled" and retried.due_us > 0
    [task] = queue.claim(wait=5)
    assert task.attempt == 2 and queue.task("a").past[0].error == "first"
    assert task.retry("second").outcome == "dead"
    [letter] = queue.dead()
    assert (letter.id, letter.error, letter.attempts, letter.payload) == ("a", "second", 2, {"n": 1})
    assert queue.requeue_dead(["a"]) == (1, 0)
    [task] = queue.claim()
    assert task.retry("x" * 5_000, give_up=True).outcome == "dead"
    assert queue.requeue_dead() == (1, 0)
    [task] = queue.claim()
    task.retry("no", give_up=True)
    assert queue.delete_dead(["a", "b"]) == 1
    assert queue.delete_dead() == 0


def test_a_released_task_keeps_its_attempts(queue):
    queue.enqueue("a")
    [task] = queue.claim()
    assert task.release() == "waiting"
    [task] = queue.claim()
    assert task.attempt == 1
    assert task.release(delay=60) == "waiting"
    assert queue.claim() == [] and queue.task("a").state == "scheduled"


def test_an_extension_stores_progress_and_tells_of_a_cancellation(queue):
    queue.enqueue("a")
    [task] = queue.claim(lease=5)
    assert task.extend(60, Progress(40, "rendering")) == "extended"
    info = queue.task("a")
    assert (info.state, info.progress.percent, info.progress.note) == ("leased", 40, "rendering")
    assert task.extend() == "extended"
    assert queue.task("a").progress.percent == 40
    assert queue.cancel("a") == "marked"
    assert task.extend() == "cancelled" and queue.task("a").cancelled
    assert task.complete() == "done"
    assert task.extend() == "lost"


def test_a_task_whose_lease_ends_is_claimed_again(queue):
    queue.enqueue("a")
    [lost] = queue.claim(lease=0.1)
    [task] = queue.claim(wait=10)
    assert task.attempt == 2 and task.fence > lost.fence
    assert lost.complete() == "stale"
    assert task.complete() == "done"


def test_a_waiting_task_is_canceled(queue):
    queue.enqueue("a")
    assert queue.cancel("a") == "removed"
    assert queue.cancel("a") == "not_found"


def test_a_waiting_task_is_rescheduled(queue):
    queue.enqueue("a", delay=600, deadline=3600)
    moved = queue.reschedule("a", delay=60)
    assert moved.outcome == "rescheduled" and moved.due_us == queue.task("a").due_us
    assert 0 < moved.due_us - queue.task("a").deadline_us + 3_600_000_000 < 120_000_000
    late = queue.reschedule("a", delay=7200)
    assert (late.outcome, late.due_us, late.deadline_us) == ("too_late", None, queue.task("a").deadline_us)
    at = moved.due_us + 1_000_001
    assert queue.reschedule("a", due_us=at).due_us == at == queue.task("a").due_us
    assert queue.claim() == []
    assert queue.reschedule("a").outcome == "rescheduled"
    [task] = queue.claim()
    assert task.attempt == 1 and queue.reschedule("a", delay=timedelta(minutes=1)).outcome == "leased"
    task.complete()
    assert queue.reschedule("a").outcome == "not_found"
    for options in ({"delay": -1}, {"delay": 34_560_001}, {"due_us": -1}, {"delay": 1, "due_us": 1}):
        with pytest.raises(InvalidArgument):
            queue.reschedule("a", **options)


def test_a_task_says_when_it_was_claimed(queue):
    queue.enqueue("a")
    assert queue.task("a").claimed_us is None
    [task] = queue.claim()
    assert task.record.claimed_us == task.fence == queue.task("a").claimed_us
    assert abs(task.record.claimed_us / 1e6 - time.time()) < 60


def test_a_result_is_waited_for(queue, connect):
    keep(queue)
    queue.enqueue("a")
    assert queue.wait_for("a") is None
    waiting = Thread(lambda: connect().queue(queue.name).wait_for("a", wait=30))
    [task] = queue.claim()
    task.complete({"sum": 3})
    ended = waiting.result()
    assert ended.outcome == "finished" and ended.result == {"sum": 3} and ended.task.finished.how == "done"
    queue.enqueue("b")
    [task] = queue.claim()
    task.retry("broken", give_up=True)
    dead = queue.wait_for("b", wait=5)
    assert (dead.outcome, dead.error, dead.attempts) == ("dead", "broken", 1)
    assert queue.wait_for("c", wait=5).outcome == "gone"
    queue.enqueue("d")
    [task] = queue.claim()
    assert task.discard() == "done"
    assert queue.task("d").finished.how == "discarded"


def test_a_queue_without_retention_cannot_be_waited_for(queue):
    queue.enqueue("a")
    with pytest.raises(InvalidArgument) as error:
        queue.wait_for("a", wait=1)
    assert error.value.code == "nothing_kept"


def test_a_task_runs_after_its_dependencies(queue):
    keep(queue)
    assert queue.enqueue("sum", after=["unknown"]).outcome == "refused"
    queue.enqueue_many([NewTask("a", 1), NewTask("b", 2), NewTask("sum", after=["a", "b"], if_dead="run")])
    assert queue.task("sum").state == "blocked"
    for task in queue.claim(5):
        task.complete(task.payload * 10)
    [task] = queue.claim()
    waited = queue.waited("sum")
    assert task.id == "sum" and [(of.id, of.end, of.result.value) for of in waited] == [("a", "done", 10), ("b", "done", 20)]
    assert queue.waited("sum", after="a")[0].id == "b"


def test_the_tasks_that_wait_for_a_task_are_listed(queue):
    assert queue.dependents("a") == []
    queue.enqueue_many([
        NewTask("a"), NewTask("z", after=["a"]), NewTask("y", after=["a"]), NewTask("x", after=["a"], if_dead="wait"),
    ])
    every = queue.dependents("a")
    assert sorted(every) == ["x", "y", "z"] and every.index("z") < every.index("y")
    assert queue.dependents("a", 2) == every[:2] and queue.dependents("z") == []
    for bad in (lambda: queue.dependents("a b"), lambda: queue.dependents("a", 0), lambda: queue.dependents("a", 1_001)):
        with pytest.raises(InvalidArgument):
            bad()


def test_a_batch_runs_its_callback_when_all_members_have_finished(queue):
    queue.enqueue("batch", held_open=True)
    queue.enqueue_many([NewTask("m1", part_of="batch"), NewTask("m2", part_of="batch")])
    closed = queue.close_batch("batch")
    assert (closed.outcome, closed.left) == ("closed", 2)
    assert queue.close_batch("batch").outcome == "not_open"
    assert queue.close_batch("none").outcome == "not_found"
    for task in queue.claim(5):
        assert task.id != "batch"
        task.complete()
    [task] = queue.claim()
    assert task.id == "batch"
    assert queue.enqueue("m3", part_of="batch").outcome == "refused"


def test_a_unique_id_is_recent_until_its_window_is_cleared(queue):
    queue.enqueue("a", unique_for=600)
    [task] = queue.claim()
    task.complete()
    recent = queue.enqueue("a")
    assert recent.outcome == "recent" and recent.until_us > 0 and not recent.is_live
    assert [of.reason for of in queue.why("a")] == ["unique"]
    assert queue.clear_unique("a") == recent.until_us
    assert queue.clear_unique("a") is None
    assert queue.enqueue("a").outcome == "added"


def test_a_task_that_misses_its_deadline_becomes_a_dead_letter(queue):
    queue.pause()
    queue.enqueue("a", deadline=0.1)
    assert until(queue.dead)[0].id == "a"
    with pytest.raises(InvalidArgument):
        queue.enqueue("b", delay=10, deadline=5)


def test_limits_are_set_and_read(queue):
    limits = QueueLimits(
        bound=2, overflow="drop_new", concurrency=5, rate=Rate(100, 60), per_key=KeyLimits(1, Rate(10, 1.5), True),
        retention=Retention(60, 7), events=9,
    )
    queue.limit(limits)
    assert queue.stats().limits == limits
    queue.enqueue("a")
    queue.enqueue("b")
    dropped = queue.enqueue("c")
    assert (dropped.outcome, dropped.bound) == ("dropped", 2)
    queue.limit(QueueLimits(bound=2))
    assert queue.enqueue("c").outcome == "full"
    queue.limit(QueueLimits(bound=2, overflow="drop_oldest"))
    displaced = queue.enqueue("c")
    assert (displaced.outcome, displaced.dropped) == ("displaced", "a")
    for bad in (QueueLimits(concurrency=0), QueueLimits(rate=Rate(0, 1)), QueueLimits(overflow="x"), QueueLimits(bound=-1),
                QueueLimits(per_key=KeyLimits(2, fifo=True))):
        with pytest.raises(InvalidArgument):
            queue.limit(bad)


def test_a_paused_queue_gives_no_task(queue):
    queue.enqueue("a")
    queue.pause()
    assert queue.claim() == [] and queue.stats().paused
    assert [of.reason for of in queue.why("a")] == ["paused"]
    queue.resume()
    assert len(queue.claim()) == 1


def test_why_explains_each_state(queue):
    def reasons(task):
        return [of.reason for of in queue.why(task)]

    queue.enqueue("ready", deadline=600)
    assert reasons("ready") == ["waiting", "deadline"]
    assert queue.why("ready")[0].fields["ahead"] == 0
    queue.enqueue("later", delay=60)
    assert reasons("later") == ["not_due"] and queue.why("later")[0].fields["attempts"] == 0
    queue.enqueue("after", after=["later"])
    assert reasons("after") == ["waits_for"] and queue.why("after")[0].fields["left"] == 1
    [task] = queue.claim()
    assert reasons("ready") == ["running", "deadline"]
    queue.limit(QueueLimits(concurrency=1, retention=Retention(60, 10), per_key=KeyLimits(fifo=True)))
    queue.enqueue("next")
    assert reasons("next") == ["queue_busy"]
    assert queue.why("next")[0].fields["running"][0]["id"] == "ready"
    task.complete()
    assert reasons("ready") == ["done"]
    queue.enqueue_many([NewTask("k1", key="k", priority=0), NewTask("k2", key="k", priority=0)])
    assert reasons("k2") == ["in_line"] and queue.why("k2")[0].fields["first"] == "k1"
    [task] = queue.claim()
    queue.limit(QueueLimits(per_key=KeyLimits(fifo=True)))
    assert reasons("k2") == ["key_busy"] and queue.why("k2")[0].fields["running"][0]["id"] == "k1"
    task.retry("broken", give_up=True)
    assert reasons("k1") == ["dead"] and queue.why("k1")[0].fields["error"] == "broken"
    queue.limit(QueueLimits(rate=Rate(1, 600)))
    queue.claim()
    assert reasons("next") == ["rate_limited"]
    assert reasons("none") == ["unknown"]


def test_schedules_are_saved_listed_and_deleted(queue):
    daily = Recurrence(cron="30 3 * * mon-fri", zone="Europe/Berlin", missed="skip")
    assert queue.save_schedule("daily", daily, {"n": 1}, kind="report", priority=2) == "added"
    assert queue.save_schedule("daily", daily, {"n": 1}, kind="report", priority=2) == "unchanged"
    assert queue.save_schedule("daily", daily, {"n": 2}, kind="report", paused=True) == "changed"
    assert queue.save_schedule("often", Recurrence(every=60)) == "added"
    stored = queue.schedules()
    assert [of.id for of in stored] == ["daily", "often"]
    assert (stored[0].recurrence, stored[0].payload, stored[0].paused) == (daily, {"n": 2}, True)
    assert stored[1].recurrence == Recurrence(every=60) and stored[1].next_us % 60_000_000 == 0
    assert stored[1].upcoming_us == [stored[1].next_us + minutes * 60_000_000 for minutes in range(5)]
    assert stored[0].upcoming_us == []
    queue.save_schedule("daily", daily, {"n": 2}, kind="report", paused=False)
    upcoming = queue.schedules()[0].upcoming_us
    assert len(upcoming) == 5 and upcoming[0] == stored[0].next_us and upcoming == sorted(set(upcoming))
    assert [of.id for of in queue.schedules(after="daily", limit=1)] == ["often"]
    assert queue.delete_schedule("daily") and not queue.delete_schedule("daily")
    for bad in (Recurrence(), Recurrence(cron="x"), Recurrence(cron="* * * *"), Recurrence(every=0.5),
                Recurrence(cron="* * * * *", zone="Nowhere/None"), Recurrence(every=60, missed="x")):
        with pytest.raises(InvalidArgument):
            queue.save_schedule("bad", bad)


def test_due_tasks_are_read_removed_and_popped(queue):
    queue.enqueue_many([NewTask("a", 1), NewTask("b", 2)])
    [read] = queue.top()
    assert (read.id, read.payload, read.fence) == ("a", 1, None)
    queue.enqueue("a", 3, on_duplicate="replace")
    assert not queue.dequeue(read.ticket)
    assert queue.dequeue(queue.task("a").ticket)
    assert [task.payload for task in queue.pop(5)] == [2]
    assert queue.stats().ready == 0
    for refused in (lambda: queue.top(0), lambda: queue.pop(1_001), lambda: queue.dequeue("a")):
        with pytest.raises(InvalidArgument):
            refused()


def test_stats_count_the_tasks(queue):
    queue.enqueue_many([NewTask("a"), NewTask("b", delay=60), NewTask("c")])
    queue.claim()
    stats = queue.stats()
    assert (stats.ready, stats.scheduled, stats.leased, stats.dead, stats.paused) == (1, 1, 1, 0, False)
    assert stats.last_claim_us > 0


@pytest.mark.parametrize("options", [
    {"priority": 10}, {"priority": 1.5}, {"max_attempts": 0}, {"delay": -1}, {"delay": float("inf")}, {"kind": "two words"},
    {"on_duplicate": "x"}, {"on_duplicate": "debounce"}, {"max_wait": 1}, {"delay": 1, "due_us": 1}, {"unique_for": 0},
    {"key": "a b"}, {"after": ["a"], "part_of": "b"}, {"after": "abc"}, {"if_dead": ""}, {"content_type": "x"},
    {"traceparent": "x"}, {"payload_": 1},
])
def test_bad_options_of_a_task_are_refused(queue, options):
    with pytest.raises(InvalidArgument):
        queue.enqueue("a", **options)


@pytest.mark.parametrize("payload", [float("nan"), object(), {1: object()}, b"x" * 1_048_577, {"x": "y" * 1_048_576}])
def test_a_bad_payload_is_refused(queue, payload):
    with pytest.raises(InvalidArgument):
        queue.enqueue("a", payload)


def test_bad_arguments_of_calls_are_refused(queue):
    for call in (
        lambda: queue.claim(0), lambda: queue.claim(1_001), lambda: queue.claim(lease=0), lambda: queue.enqueue("a b"),
        lambda: queue.enqueue_many([]), lambda: queue.enqueue_many(["a"]), lambda: queue.dead(limit=0),
        lambda: queue.requeue_dead([]), lambda: queue.claim(worker="\n"),
    ):
        with pytest.raises(InvalidArgument):
            call()
