from __future__ import annotations

import time

import pytest
from support import IS_HTTP, IS_PLAIN, KIND, URL, Running, Thread, handler, unique, until

from rushgate import ClientClosed, Forbidden, InvalidArgument, LockLost, Misconfigured, Sku, Unavailable

# What a call of a verb contains, by the transport.
VERBS = {
    "acquire": ("lock_acquire", "/acquire"), "extend_lock": ("lock_extend", "/extend"),
    "release_lock": ("lock_release", "/release"), "enqueue": ("queue_enqueue", "/batch"),
    "claim": ("queue_claim", "/claim"), "complete": ("queue_complete", "/complete"), "retry": ("queue_retry", "/retry"),
    "release": ("queue_release", "/release"), "requeue": ("requeue_dead", "/requeue"),
    "reserve": ("reserve_by_key", "/reservations"), "confirm": ("sale_confirm", "/confirm"),
}

plain = pytest.mark.skipif(not IS_PLAIN, reason="the proxy cannot read this transport")


def losing(proxy, verb, call, how="cut_after"):
    """Makes a call whose answer is lost."""
    getattr(proxy, how)(VERBS[verb][IS_HTTP])
    result = call()
    assert proxy.lost.is_set(), verb
    return result


@plain
def test_a_call_whose_connection_ends_before_the_answer_is_executed_once(connect, proxy):
    client, direct = connect(proxy.url, timeout=1), connect()
    queue, same = client.queue(unique("queue")), None
    same = direct.queue(queue.name)
    assert losing(proxy, "enqueue", lambda: queue.enqueue("a", max_attempts=5)).outcome == "added"
    assert same.stats().ready == 1
    [task] = losing(proxy, "claim", queue.claim)
    assert task.attempt == 1
    assert losing(proxy, "retry", lambda: task.retry("x")).outcome == "scheduled"
    [task] = queue.claim(wait=5)
    assert task.attempt == 2
    assert losing(proxy, "release", task.release) == "waiting"
    [task] = queue.claim()
    assert task.attempt == 2
    assert losing(proxy, "complete", task.complete) == "done"
    lock = client.lock(unique("lock"))
    held = losing(proxy, "acquire", lock.acquire)
    assert direct.lock(lock.name).state().holder.fence == held.fence
    losing(proxy, "extend_lock", held.extend)
    if IS_HTTP:
        held.release()
    else:
        losing(proxy, "release_lock", held.release)
    assert direct.lock(lock.name).state().holder is None


@plain
def test_a_reservation_whose_answer_is_lost_takes_its_units_once(connect, proxy):
    client = connect(proxy.url, timeout=1)
    sale = client.sale(unique("sale"))
    client.create_sale(sale.id, [Sku("phone", 5, 5)], ledger=False)
    sale.open()
    reserved = losing(proxy, "reserve", lambda: sale.reserve("ann", "click", ["phone"]))
    assert reserved.outcome in ("reserved", "replayed")
    assert losing(proxy, "confirm", lambda: sale.confirm(reserved.hold.id)).outcome == "done"
    stock = sale.state().skus[0]
    assert (stock.held, stock.confirmed) == (0, 1)


@plain
def test_a_connection_that_stalls_is_replaced_and_the_call_is_executed_once(connect, proxy):
    client = connect(proxy.url, timeout=1, retry_for=20)
    queue = client.queue(unique("queue"))
    assert losing(proxy, "enqueue", lambda: queue.enqueue("a"), "stall_after").outcome == "added"
    assert queue.stats().ready == 1


@plain
def test_an_extension_to_an_earlier_end_signals_the_loss_at_that_end_without_an_answer(connect, proxy):
    client, direct = connect(proxy.url, timeout=3), connect()
    held = client.lock(unique("lock"), lease=30, renew=False).acquire()
    proxy.stall_after(VERBS["extend_lock"][IS_HTTP])
    extension = Thread(lambda: held.extend(1.5))
    with direct.lock(held.name).acquire(wait=20):
        assert held.lost.is_set()
    with pytest.raises(LockLost):
        extension.result()


@plain
def test_a_failed_extension_is_repeated_before_the_old_lease_ends(connect, proxy):
    client, direct = connect(proxy.url, timeout=1, retry_for=1), connect()
    held = client.lock(unique("lock"), lease=30).acquire()
    state = direct.lock(held.name).state
    proxy.pause()
    with pytest.raises(Unavailable):
        held.extend(600)
    first = state().holder.lease_until_us
    proxy.resume()
    # A third of the new lease would be after the end of the old one.
    until(lambda: state().holder.lease_until_us > first)
    until(lambda: held.lease_left > 500)
    held.release()


@plain
def test_a_held_lock_and_a_waiter_survive_the_end_of_all_connections(connect, proxy):
    client, direct = connect(proxy.url, timeout=1), connect()
    lock = client.lock(unique("lock"), lease=2)
    held = lock.acquire()
    waiting = Thread(lambda: lock.acquire(wait=30))
    state = direct.lock(lock.name).state
    until(lambda: len(state().waiters) == 1)
    first = state().holder.lease_until_us
    proxy.cut_all()
    until(lambda: state().holder.lease_until_us > first)
    until(lambda: len(state().waiters) == 1)
    assert not held.lost.is_set()
    held.release()
    got = waiting.result()
    assert got.fence > held.fence
    got.release()


@plain
def test_a_worker_continues_after_the_end_of_its_connections(connect, proxy):
    client, queue = connect(proxy.url, timeout=1), connect().queue(unique("queue"))
    worker = client.worker(queue.name, handlers={"*": handler(lambda payload, job: None)})
    with Running(worker):
        queue.enqueue("a")
        until(lambda: worker.report.done == 1)
        proxy.cut_all()
        queue.enqueue("b")
        until(lambda: worker.report.done == 2)


@plain
def test_what_is_refused_was_not_sent(connect, proxy):
    client = connect(proxy.url)
    queue = client.queue("q")
    for call in (
        lambda: queue.enqueue("a b"), lambda: queue.enqueue("a", b"x" * 1_048_577), lambda: queue.claim(0),
        lambda: client.lock("l").acquire(-1), lambda: client.lock("a b"), lambda: client.sale("s").reserve("a", "", ["x"]),
        lambda: queue.enqueue("a", priority=11), lambda: client.create_sale("s", []),
    ):
        with pytest.raises(InvalidArgument):
            call()
    assert proxy.sent == 0


@plain
def test_a_server_that_is_gone_makes_calls_fail_in_time(connect, proxy):
    client = connect(proxy.url, timeout=1, retry_for=1)
    client.queue("q").stats()
    proxy.stop()
    begun = time.monotonic()
    with pytest.raises(Unavailable) as error:
        client.queue("q").enqueue("a")
    assert time.monotonic() - begun < 5 and error.value.retryable


def test_a_closed_client_refuses_calls(connect):
    client = connect()
    client.queue("q").stats()
    client.close()
    with pytest.raises(ClientClosed):
        client.queue("q").stats()
    client.close()


def test_a_url_that_names_no_store_is_refused(connect):
    for url in ("mysql://127.0.0.1", "redis://", "redis+sentinel://127.0.0.1", "redis://127.0.0.1/x", "http://", "x", 7):
        with pytest.raises(InvalidArgument):
            connect(url, token=None, ca=None)
    with pytest.raises(InvalidArgument):
        connect("redis://127.0.0.1", token="x", ca=None)
    for more in ({"timeout": 0}, {"retry_for": -1}, {"timeout": "x"}):
        with pytest.raises(InvalidArgument):
            connect(**more)


@pytest.mark.skipif(not IS_HTTP, reason="a Redis URL has no token")
def test_a_wrong_token_is_refused(connect):
    with pytest.raises(Forbidden):
        connect(token="wrong").queue("q").stats()


@pytest.mark.skipif(KIND != "redis", reason="one server is enough")
def test_a_wrong_password_is_refused(connect):
    with pytest.raises(Forbidden):
        connect(URL.replace("//", "//nobody:wrong@")).queue("q").stats()


@pytest.fixture
def admin():
    redis = pytest.importorskip("redis")
    with redis.Redis.from_url(URL) as made:
        yield made


@pytest.mark.skipif(KIND != "redis", reason="a single server")
def test_a_waiter_is_woken_after_its_subscription_was_killed(connect, admin):
    client = connect()
    lock = client.lock(unique("lock"), lease=60)
    held = lock.acquire()
    waiting = Thread(lambda: lock.acquire(wait=30))
    until(lambda: len(lock.state().waiters) == 1)
    admin.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
    until(lambda: admin.pubsub_channels("rg:in:*"))
    begun = time.monotonic()
    held.release()
    waiting.result().release()
    assert time.monotonic() - begun < 2


@pytest.mark.skipif(KIND != "redis", reason="a single server")
def test_killed_connections_lose_nothing(connect, admin):
    queue = connect().queue(unique("queue"))
    is_over = []

    def kill():
        while not is_over:
            admin.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            time.sleep(0.01)

    killer = Thread(kill)
    for number in range(100):
        assert queue.enqueue(f"t{number}").outcome == "added"
    is_over.append(1)
    killer.result()
    assert queue.stats().ready == 100


@pytest.mark.skipif(KIND != "redis", reason="one server is enough")
def test_a_server_without_the_function_library_is_misconfigured(connect, admin):
    import rushgate.contract as contract

    prefix, contract.FUNCTION_PREFIX = contract.FUNCTION_PREFIX, "rushgate_0_"
    try:
        with pytest.raises(Misconfigured, match="functions install"):
            connect().queue("q").stats()
    finally:
        contract.FUNCTION_PREFIX = prefix


