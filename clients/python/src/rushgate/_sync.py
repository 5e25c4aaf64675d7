"""Performs effects with blocking sockets. Any number of threads may use a driver at a time."""

from __future__ import annotations

import collections
import contextlib
import http.client
import queue
import socket
import threading
import time
from typing import Any, Callable, Deque, Dict, Iterator, Optional, Sequence, Tuple, TypeVar

from . import _plan as plans
from ._client import Settings, fault_of, redis_errors, require_redis
from ._plan import Bell, Disconnected, Plan, now
from ._redis.store import topic_of
from ._redis.transport import RedisTransport
from ._transport import Transport
from ._url import HttpTarget, RedisTarget
from .errors import ClientClosed

T = TypeVar("T")

# Longest time in seconds for which an idle HTTP connection is used again. The server closes it after 10 s by default.
_IDLE_MAX = 5.0
# Longest time in seconds for which an idle Redis connection is used again without a check that it is still open.
_FRESH = 0.05
# Longest time in seconds between two checks of the subscription.
_CHECK = 10.0


class ThreadBell(Bell):
    """A bell for threads. Unlike an event, it may be rung in a signal handler."""

    def __init__(self) -> None:
        self._rings: queue.SimpleQueue[None] = queue.SimpleQueue()

    def ring(self) -> None:
        self._rings.put(None)

    def wait(self, seconds: Optional[float]) -> bool:
        """Waits until the bell has rung since the last wait. Returns whether it has."""
        try:
            self._rings.get(timeout=seconds)
        except queue.Empty:
            return False
        with contextlib.suppress(queue.Empty):
            while True:
                self._rings.get_nowait()
        return True


class Driver:
    """Performs the effects of plans."""

    def run(self, plan: Plan[T]) -> T:
        """Runs a plan to its end."""
        try:
            effect = next(plan)
            while True:
                try:
                    result = getattr(self, effect.verb)(effect)
                except BaseException as error:
                    effect = plan.throw(error)
                else:
                    effect = plan.send(result)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def wait(self, effect: plans.Wait) -> None:
        assert isinstance(effect.bell, ThreadBell)
        effect.bell.wait(effect.seconds)

    def pause(self, effect: plans.Pause) -> None:
        time.sleep(effect.seconds)

    def close(self) -> None:
        raise NotImplementedError


class RedisDriver(Driver):
    """Sends commands through redis-py, with one connection for each thread that calls."""

    def __init__(self, settings: Settings, transport: RedisTransport) -> None:
        assert isinstance(settings.target, RedisTarget)
        self._redis = require_redis()
        self._errors = redis_errors(self._redis)
        self._settings, self._target, self._transport = settings, settings.target, transport
        self._mutex = threading.Lock()
        self._connected: Any = None
        self._idle: Deque[Tuple[Any, float]] = collections.deque()
        self._inbox: Optional[Inbox] = None
        self._is_closed = False

    def send(self, effect: plans.Send) -> Any:
        try:
            client = self._client()
            if self._target.kind == "server" and effect.words[0] == "FCALL":
                return self._exchange(client.connection_pool, effect.words)
            if self._target.kind != "cluster":
                return client.execute_command(*effect.words)
            # Without a node, redis-py would first ask one which arguments are keys.
            node = client.get_random_node() if effect.key is None else client.get_node_from_key(effect.key)
            return client.execute_command(*effect.words, target_nodes=node)
        except self._errors as error:
            raise fault_of(self._redis, error) from error

    def _exchange(self, pool: Any, words: Sequence[plans.Word]) -> Any:
        """Sends a command and reads its reply, on a connection of the pool.

        `execute_command` returns the connection to the pool after each command, and checks it before the next one. That
        takes longer than the rest of a call, so a connection that was just used is kept for the next call.
        """
        connection = self._take(pool)
        try:
            connection.send_command(*words)
            reply = connection.read_response()
        except self._redis.ResponseError:
            self._idle.append((connection, now()))
            raise
        except BaseException:
            # The server may have closed the others too.
            connection.disconnect()
            pool.release(connection)
            self._release_idle(pool)
            raise
        self._idle.append((connection, now()))
        return reply

    def _take(self, pool: Any) -> Any:
        with contextlib.suppress(IndexError):
            connection, since = self._idle.pop()
            if now() - since < _FRESH:
                return connection
            # The others have been idle for longer.
            pool.release(connection)
            self._release_idle(pool)
        try:
            return pool.get_connection()
        except TypeError:
            # redis-py before 5.3 wants the name of a command.
            return pool.get_connection("FCALL")

    def _release_idle(self, pool: Any) -> None:
        with contextlib.suppress(IndexError):
            while True:
                pool.release(self._idle.pop()[0])

    def _client(self) -> Any:
        with self._mutex:
            if self._is_closed:
                raise ClientClosed("The client is closed.")
            if self._connected is None:
                self._connected = self._connect()
            return self._connected

    def _connect(self) -> Any:
        redis, target, options = self._redis, self._target, self._options()
        if target.kind == "cluster":
            nodes = [redis.cluster.ClusterNode(host, port) for host, port in target.nodes]
            return redis.RedisCluster(startup_nodes=nodes, require_full_coverage=False, **options)
        if target.kind == "sentinel":
            times = {name: options[name] for name in ("socket_timeout", "socket_connect_timeout")}
            sentinel = redis.sentinel.Sentinel(target.nodes, sentinel_kwargs=times)
            return sentinel.master_for(target.service, db=target.database, **options)
        [(host, port), *_] = target.nodes
        return redis.Redis(host=host, port=port, db=target.database, **options)

    def _options(self) -> Dict[str, Any]:
        once = self._redis.retry.Retry(self._redis.backoff.NoBackoff(), 0)
        return {**self._settings.redis_options(), "retry": once}

    def listen(self, effect: plans.Listen) -> ThreadBell:
        bell = ThreadBell()
        self._transport.topics.add(effect.topic, bell)
        with self._mutex:
            if self._inbox is None:
                self._transport.topics.on_unheard = self._answer_unheard
                self._inbox = Inbox(self)
        # Without a subscription, a wait only takes longer.
        self._inbox.is_tried.wait(self._settings.timeout)
        return bell

    def _answer_unheard(self, topic: Tuple[str, ...]) -> None:
        plan = self._transport.answer_unheard(topic)
        if plan is not None:
            threading.Thread(target=self._run_quietly, args=(plan,), daemon=True).start()

    def _run_quietly(self, plan: Plan[None]) -> None:
        with contextlib.suppress(Exception):
            self.run(plan)

    def subscribe(self) -> Any:
        """Returns a subscription to the inbox. In a Cluster, any node gets all messages."""
        client = self._client()
        if self._target.kind == "cluster":
            node = client.get_random_node()
            client = self._redis.Redis(host=node.host, port=node.port, **self._options())
        subscription = client.pubsub(ignore_subscribe_messages=False)
        subscription.subscribe(self._transport.channel)
        if subscription.get_message(timeout=self._settings.timeout) is None:
            subscription.close()
            raise self._redis.TimeoutError("no answer in time")
        return subscription

    def deliver(self, message: bytes) -> None:
        self._transport.topics.deliver(topic_of(message))

    def ring_all(self) -> None:
        self._transport.topics.ring_all()

    def close(self) -> None:
        with self._mutex:
            self._is_closed = True
            inbox, client, self._connected = self._inbox, self._connected, None
        if inbox is not None:
            inbox.close()
        if client is not None:
            with contextlib.suppress(*self._errors):
                client.close()


class Inbox:
    """A thread that listens to the notifications of a client."""

    def __init__(self, driver: RedisDriver) -> None:
        self.is_tried = threading.Event()
        self._driver = driver
        self._subscription: Any = None
        self._is_closed = False
        threading.Thread(target=self._listen, name="rushgate-inbox", daemon=True).start()

    def _listen(self) -> None:
        pauses = plans.Pauses()
        while not self._is_closed:
            try:
                self._subscription = self._driver.subscribe()
                self.is_tried.set()
                # Messages of the time without a subscription are lost.
                self._driver.ring_all()
                pauses = plans.Pauses()
                self._read()
            except Exception:
                # redis-py raises many kinds of errors on a connection that `close` ends. Any means: subscribe again.
                self.is_tried.set()
                if not self._is_closed:
                    time.sleep(pauses.draw())
            finally:
                self._drop()

    def _read(self) -> None:
        while not self._is_closed:
            message = self._subscription.get_message(timeout=_CHECK)
            if message is not None and message["type"] == "message":
                self._driver.deliver(message["data"])

    def _drop(self) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            with contextlib.suppress(Exception):
                subscription.close()

    def close(self) -> None:
        self._is_closed = True
        with contextlib.suppress(Exception):
            self._subscription.connection.disconnect()


class HttpDriver(Driver):
    """Sends requests, with one connection for each thread that calls. Connections are used again."""

    def __init__(self, settings: Settings) -> None:
        assert isinstance(settings.target, HttpTarget)
        self._settings, self._target = settings, settings.target
        self._context = settings.ssl_context() if settings.target.tls else None
        self._idle: Deque[Tuple[http.client.HTTPConnection, float]] = collections.deque()
        self._is_closed = False

    def fetch(self, effect: plans.Fetch) -> Optional[Tuple[int, Dict[str, str], bytes]]:
        if self._is_closed:
            raise ClientClosed("The client is closed.")
        if effect.stop is not None and effect.stop.is_set:
            return None
        connection = self._take()
        try:
            return self._exchange(connection, effect)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            if effect.stop is not None and effect.stop.is_set:
                return None
            raise Disconnected(error or type(error).__name__, not isinstance(error, ConnectionRefusedError)) from error
        except BaseException:
            # The answer is still under way.
            connection.close()
            raise

    def _exchange(
        self, connection: http.client.HTTPConnection, effect: plans.Fetch
    ) -> Tuple[int, Dict[str, str], bytes]:
        connection.timeout = self._settings.timeout
        if connection.sock is None:
            connection.connect()
        connection.sock.settimeout(effect.timeout)
        with _stopping(connection, effect.stop):
            connection.request(effect.method, effect.path, effect.body, effect.headers)
            response = connection.getresponse()
            content = response.read()
        headers = {name.lower(): value for name, value in response.getheaders()}
        if connection.sock is not None and not self._is_closed:
            self._idle.append((connection, now()))
        return response.status, headers, content

    def _take(self) -> http.client.HTTPConnection:
        with contextlib.suppress(IndexError):
            while True:
                connection, since = self._idle.pop()
                if now() - since < _IDLE_MAX:
                    return connection
                connection.close()
        target = self._target
        if self._context is not None:
            return http.client.HTTPSConnection(target.host, target.port, context=self._context)
        return http.client.HTTPConnection(target.host, target.port)

    def listen(self, effect: plans.Listen) -> ThreadBell:
        raise NotImplementedError("the HTTP API does not push")

    def close(self) -> None:
        self._is_closed = True
        with contextlib.suppress(IndexError):
            while True:
                self._idle.pop()[0].close()


@contextlib.contextmanager
def _stopping(connection: http.client.HTTPConnection, stop: Optional[plans.Stop]) -> Iterator[None]:
    """Ends the connection when the stop is requested."""
    cancel: Callable[[], None] = lambda: None
    if stop is not None:
        sock = connection.sock

        def shut() -> None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

        cancel = stop.on_set(shut)
    try:
        yield
    finally:
        cancel()


def driver_of(settings: Settings, transport: Transport) -> Driver:
    if isinstance(transport, RedisTransport):
        return RedisDriver(settings, transport)
    return HttpDriver(settings)
