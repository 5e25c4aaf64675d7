from __future__ import annotations

import threading
import time

import pytest
from support import IS_REDIS, Thread, unique, until

from rushgate import InvalidArgument, LockBusy, LockLost


def waiters(lock):
    return len(lock.state().waiters)


def test_one_client_holds_a_lock_and_fences_grow(client, connect):
    lock, other = client.lock(unique("lock")), connect()
    held = lock.acquire()
    with pytest.raises(LockBusy):
        other.lock(lock.name).acquire()
    assert lock.state().holder.fence == held.fence
    held.release()
    again = other.lock(lock.name).acquire()
    assert again.fence > held.fence
    again.release()
    assert lock.state().holder is None


def test_waiters_get_the_lock_in_the_order_of_their_arrival(client):
    lock = client.lock(unique("lock"))
    held, order, threads = lock.acquire(), [], []

    def take(number):
        got = lock.acquire(wait=30)
        order.append(number)
        got.release()

    for number in range(5):
        threads.append(Thread(lambda number=number: take(number)))
        until(lambda: waiters(lock) == number + 1)
    held.release()
    for thread in threads:
        thread.result()
    assert order == [0, 1, 2, 3, 4]


def test_a_waiter_is_woken_by_a_message(client, connect):
    lock = client.lock(unique("lock"), lease=60)
    held = lock.acquire()
    waiting = Thread(lambda: connect().lock(lock.name).acquire(wait=30))
    until(lambda: waiters(lock) == 1)
    # Let the waiter fall asleep after its answer.
    time.sleep(0.1)
    begun = time.monotonic()
    held.release()
    waiting.result().release()
    assert time.monotonic() - begun < 0.6


def test_a_wait_that_is_over_leaves_the_wait_queue(client):
    lock = client.lock(unique("lock"))
    held = lock.acquire()
    with pytest.raises(LockBusy):
        lock.acquire(wait=0.2)
    assert waiters(lock) == 0
    held.release()


def test_a_held_lock_is_renewed(client):
    lock = client.lock(unique("lock"), lease=2)
    held = lock.acquire()
    first = lock.state().holder.lease_until_us
    until(lambda: lock.state().holder.lease_until_us > first + 1_000_000)
    assert not held.lost.is_set()
    held.check()
    held.release()


def test_a_lock_whose_lease_ends_signals_the_loss_before_another_client_gets_it(client, connect):
    lock = client.lock(unique("lock"), lease=0.4, renew=False)
    held = lock.acquire()
    waiting = Thread(lambda: connect().lock(lock.name).acquire(wait=20))
    got = waiting.result()
    assert held.lost.is_set() and held.lease_left == 0
    for verb in (held.check, held.extend, held.release):
        with pytest.raises(LockLost):
            verb()
    assert got.fence > held.fence
    got.release()


def test_a_force_released_lock_signals_the_loss(client, connect):
    lock = client.lock(unique("lock"), lease=60 if IS_REDIS else 1)
    held = lock.acquire()
    assert connect().lock(lock.name).force_release().fence == held.fence
    until(held.lost.is_set)
    with pytest.raises(LockLost):
        held.check()


def test_an_extension_sets_the_lease(client):
    lock = client.lock(unique("lock"), lease=30, renew=False)
    held = lock.acquire()
    held.extend(600)
    assert held.lease_left > 500
    held.extend(20)
    assert held.lease_left < 30
    held.release()
    held.release()
    with pytest.raises(LockLost):
        held.extend()


def test_an_extension_outlives_renewals_with_its_own_lease(client):
    lock = client.lock(unique("lock"), lease=60)
    held = lock.acquire()
    held.extend(2)
    first = lock.state().holder.lease_until_us
    until(lambda: lock.state().holder.lease_until_us > first + 1_000_000)
    assert held.lease_left <= 2
    held.release()


def test_a_context_manager_releases_and_keeps_the_exception_of_the_work(client, connect):
    lock = client.lock(unique("lock"))
    with lock.acquire() as held:
        assert lock.state().holder.fence == held.fence
    assert lock.state().holder is None
    with pytest.raises(KeyError):
        with lock.acquire(wait=1):
            raise KeyError("the work's own")
    with pytest.raises(LockLost):
        with lock.acquire(wait=1):
            lock.force_release()
    with pytest.raises(KeyError):
        with lock.acquire(wait=1):
            lock.force_release()
            raise KeyError("the work's own")


def test_threads_share_a_client_and_no_increment_is_lost(client):
    lock, counter = client.lock(unique("lock")), [0]

    def count():
        for _ in range(10):
            with lock.acquire(wait=60):
                value = counter[0]
                time.sleep(0)
                counter[0] = value + 1

    threads = [Thread(count) for _ in range(8)]
    for thread in threads:
        thread.result()
    assert counter == [80]


def test_labels_of_holder_and_waiter_are_shown(client):
    lock = client.lock(unique("lock"), label="nightly")
    held = lock.acquire()
    waiting = Thread(lambda: lock.acquire(wait=20))
    until(lambda: waiters(lock) == 1)
    state = lock.state()
    assert state.holder.label == "nightly" and state.waiters[0].label == "nightly"
    assert state.waiters[0].position == 1 and state.holder.host
    held.release()
    waiting.result().release()


@pytest.mark.parametrize("name", ["", ".", "a b", "{a}", "a\n", "x" * 201, "\u200b", "\ud800", 7, None])
def test_a_bad_name_is_refused(client, name):
    with pytest.raises(InvalidArgument):
        client.lock(name)


def test_names_are_normalized(client):
    name = unique("porte")
    held = client.lock(name + "e\u0301").acquire()
    with pytest.raises(LockBusy):
        client.lock(name + "\u00e9").acquire()
    held.release()


@pytest.mark.parametrize("settings", [{"lease": 0.001}, {"lease": 86_401}, {"lease": "x"}, {"label": "\n"}])
def test_bad_settings_are_refused(client, settings):
    with pytest.raises(InvalidArgument):
        client.lock("lock", **settings)


def test_a_bad_wait_is_refused(client):
    for wait in (-1, 86_401, float("nan"), True):
        with pytest.raises(InvalidArgument):
            client.lock("lock").acquire(wait=wait)


def test_the_lost_signal_wakes_a_thread_that_waits_for_it(client):
    lock = client.lock(unique("lock"), lease=0.3, renew=False)
    held, woken = lock.acquire(), threading.Event()
    Thread(lambda: (until(held.lost.is_set), woken.set()))
    assert woken.wait(10)
