from __future__ import annotations

from datetime import datetime, timezone

import pytest
import redis
from support import API, KIND, URL, Running, handler, unique, until

from rushgate import Recurrence
from rushgate._content import encode, to_body
from rushgate._cron import latest_until, next_after
from rushgate._redis.schedules import due_of, written

HOUR = 3_600_000_000


def us(text):
    return int(datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(timezone.utc).timestamp()) * 1_000_000


@pytest.mark.parametrize(
    "cron, zone, after, expected",
    [
        ("30 3 * * *", None, "2026-11-22T12:00:00Z", ["2026-11-23T03:30:00Z", "2026-11-24T03:30:00Z"]),
        ("*/10 * * * * *", None, "2026-11-22T12:00:00Z", ["2026-11-22T12:00:10Z", "2026-11-22T12:00:20Z"]),
        ("0 0 29 2 *", None, "2026-11-22T12:00:00Z", ["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"]),
        # Clocks go forward on 2027-03-28, from 2:00 to 3:00, and back on 2027-10-31, from 3:00 to 2:00.
        ("30 2 * * *", "Europe/Berlin", "2027-03-27T12:00:00Z", ["2027-03-28T01:00:00Z", "2027-03-29T00:30:00Z"]),
        ("30 2 * * *", "Europe/Berlin", "2027-10-30T12:00:00Z", ["2027-10-31T00:30:00Z", "2027-11-01T01:30:00Z"]),
        ("*/30 2 * * *", "Europe/Berlin", "2027-03-27T12:00:00Z", ["2027-03-29T00:00:00Z", "2027-03-29T00:30:00Z"]),
        ("0 2,4 * * *", "Europe/Berlin", "2027-10-30T12:00:00Z", ["2027-10-31T00:00:00Z", "2027-10-31T01:00:00Z"]),
    ],
)
def test_patterns_have_the_same_occurrences_as_in_rust(cron, zone, after, expected):
    recurrence = {"cron": cron, "zone": zone}
    found = [next_after(recurrence, us(after))]
    found.append(next_after(recurrence, found[0]))
    assert [written(at) for at in found] == expected
    assert latest_until(recurrence, us(after), found[1] + 5) == found[1]
    assert latest_until(recurrence, found[0], found[1] - 1) == found[0]


def test_missed_occurrences_follow_the_policy_of_the_schedule():
    first, late, after = us("2026-11-22T09:00:00Z"), us("2026-11-22T12:30:00Z"), us("2026-11-22T13:00:00Z")
    due = {missed: due_of({"cron": "0 * * * *", "missed": missed}, first, late, 1_000) for missed in ("skip", "once", "all")}
    assert due["skip"] == ([], after)
    assert due["once"] == ([first + 3 * HOUR], after)
    assert due["all"] == ([first + hours * HOUR for hours in range(4)], after)
    for missed in due:
        assert due_of({"cron": "0 * * * *", "missed": missed}, first, first + 2_000_000, 1_000).runs == [first]
    assert due_of({"every_ms": 1_000, "missed": "all"}, first, late, 10) == (
        [first + second * 1_000_000 for second in range(10)],
        first + 10_000_000,
    )


def test_a_moment_has_the_fractions_that_it_needs():
    assert written(us("2026-11-22T03:30:00Z")) == "2026-11-22T03:30:00Z"
    assert written(us("2026-11-22T03:30:00Z") + 500_000) == "2026-11-22T03:30:00.5Z"


def test_workers_fire_each_occurrence_of_a_schedule_once(client, connect):
    queue = client.queue(unique("queue"))
    seen = []
    note = handler(lambda payload, job: seen.append((job.id, payload, job.kind)))
    queue.save_schedule("beat", Recurrence(every=1), {"n": 1}, kind="pulse")
    with Running(client.worker(queue.name, handlers={"*": note})), Running(connect().worker(queue.name, handlers={"*": note})):
        until(lambda: len(seen) >= 3)
    fired = sorted(seen)
    moments = [us(id.partition("@")[2]) for id, _, _ in fired]
    assert [second - first for first, second in zip(moments, moments[1:])] == [1_000_000] * (len(fired) - 1)
    assert all(one[1:] == ({"n": 1}, "pulse") and one[0].startswith("beat@") for one in fired)


# As later versions or other programs might write them.
UNREADABLE = ['{"cron":"0 0 X * *"}', '{"cron":5}', '{"cron":["@daily"]}', '{"cron":"@daily","zone":5}', '{"every_ms":0}',
              '{"every_ms":"1s"}', '{"every_ms":1e400}', '{"every_ms":1000,"missed":"later"}', "{}", "null", ""]


@pytest.mark.skipif(
    API != "threads" or KIND != "redis",
    reason="asyncio does the same, over HTTP the server fires schedules, and the test writes to one server",
)
def test_a_schedule_that_cannot_be_read_stays_and_stops_no_other(client, caplog):
    queue = client.queue(unique("queue"))
    seen = []
    queue.save_schedule("beat", Recurrence(every=1))
    broken = [f"broken-{at}" for at in range(len(UNREADABLE))]
    for id, recurrence in zip(broken, UNREADABLE):
        words = (id, recurrence, to_body(encode(1)), 5, 20, 1, "", "")
        client._run(lambda transport: transport._store.call("queue_schedule", queue.name, words))
    key = "rg:{q:" + queue.name + "}:"
    store = redis.Redis.from_url(URL)
    store.hset(key + "schedules", "cut off", store.hget(key + "schedules", "broken-0")[:3])
    store.zadd(key + "schedule_moments", {"cut off": 1})
    with Running(client.worker(queue.name, handlers={"*": lambda payload, job: seen.append(job.id)})):
        until(lambda: len(seen) >= 3)
    assert all(id.startswith("beat@") for id in seen)
    due = store.zrangebyscore(key + "schedule_moments", 1, 1)
    assert {id.decode() for id in due} == {*broken, "cut off"}
    logged = [record.getMessage().partition(" of ")[0] for record in caplog.records]
    assert sorted(logged) == sorted(f"cannot fire the schedule {id}" for id in [*broken, "cut off"])
    # A server on the same store would keep logging them.
    store.delete(key + "schedules", key + "schedule_ids", key + "schedule_moments")
    store.close()
