"""Performs effects with asyncio. A driver belongs to the event loop that first uses it."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import ssl
import sys
from typing import Any, Awaitable, Callable, Deque, Dict, Iterator, Optional, Set, Tuple, TypeVar

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
# Longest time in seconds between two checks of the subscription.
_CHECK = 10.0
_TIMEOUTS = (asyncio.TimeoutError, TimeoutError)


async def within(seconds: Optional[float], work: Awaitable[T], drop: Callable[[T], None] = lambda result: None) -> T:
    """Waits for a result, as `asyncio.wait_for` does. `drop` gets the result if the waiter was canceled.

    Before Python 3.12, `wait_for` loses a cancellation that comes together with the result.
    """
    if sys.version_info >= (3, 12):
        return await asyncio.wait_for(work, seconds)
    task = asyncio.ensure_future(work)

    def end(_: object) -> None:
        if not task.cancelled() and task.exception() is None:
            drop(task.result())

    try:
        await asyncio.wait({task}, timeout=seconds)
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
    except asyncio.CancelledError:
        task.cancel()
        task.add_done_callback(end)
        raise
    if task.cancelled():
        raise asyncio.TimeoutError
    return task.result()


class AioBell(Bell):
    """A bell for the tasks of an event loop."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def ring(self) -> None:
        self._event.set()

    async def wait(self, seconds: Optional[float]) -> None:
        """Waits until the bell has rung since the last wait."""
        with contextlib.suppress(*_TIMEOUTS):
            await within(seconds, self._event.wait())
        self._event.clear()


class Driver:
    """Performs the effects of plans."""

    async def run(self, plan: Plan[T]) -> T:
        """Runs a plan to its end."""
        try:
            effect = next(plan)
            while True:
                try:
                    result = await getattr(self, effect.verb)(effect)
                except BaseException as error:
                    effect = plan.throw(error)
                else:
                    effect = plan.send(result)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    async def wait(self, effect: plans.Wait) -> None:
        assert isinstance(effect.bell, AioBell)
        await effect.bell.wait(effect.seconds)

    async def pause(self, effect: plans.Pause) -> None:
        await asyncio.sleep(effect.seconds)

    async def close(self) -> None:
        raise NotImplementedError


class RedisDriver(Driver):
    """Sends commands through redis-py."""

    def __init__(self, settings: Settings, transport: RedisTransport) -> None:
        assert isinstance(settings.target, RedisTarget)
        self._redis = require_redis()
        self._errors = redis_errors(self._redis)
        self._settings, self._target, self._transport = settings, settings.target, transport
        self._connected: Any = None
        self._connecting = asyncio.Lock()
        self._inbox: Optional[Inbox] = None
        self._declining: Set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def send(self, effect: plans.Send) -> Any:
        try:
            # redis-py waits by `asyncio.wait_for`.
            return await within(None, self._execute(effect))
        except self._errors as error:
            raise fault_of(self._redis, error) from error
        except _TIMEOUTS as error:
            raise Disconnected("no answer in time", True) from error

    async def _execute(self, effect: plans.Send) -> Any:
        client = self._connected or await self._client()
        if self._target.kind != "cluster":
            return await client.execute_command(*effect.words)
        # Without a node, redis-py would first ask one which arguments are keys.
        node = client.get_random_node() if effect.key is None else client.get_node_from_key(effect.key)
        return await client.execute_command(*effect.words, target_nodes=node)

    async def _client(self) -> Any:
        async with self._connecting:
            if self._is_closed:
                raise ClientClosed("The client is closed.")
            if self._connected is None:
                client = self._make()
                if self._target.kind == "cluster":
                    await client.initialize()
                self._connected = client
            return self._connected

    def _make(self) -> Any:
        redis, target, options = self._redis.asyncio, self._target, self._options()
        if target.kind == "cluster":
            nodes = [redis.cluster.ClusterNode(host, port) for host, port in target.nodes]
            return redis.RedisCluster(startup_nodes=nodes, require_full_coverage=False, **options)
        if target.kind == "sentinel":
            times = {name: options[name] for name in ("socket_timeout", "socket_connect_timeout")}
            sentinel = redis.Sentinel(target.nodes, sentinel_kwargs=times)
            return sentinel.master_for(str(target.service), db=target.database, **options)
        [(host, port), *_] = target.nodes
        return redis.Redis(host=host, port=port, db=target.database, **options)

    def _options(self) -> Dict[str, Any]:
        once = self._redis.asyncio.retry.Retry(self._redis.backoff.NoBackoff(), 0)
        return {**self._settings.redis_options(), "retry": once}

    async def listen(self, effect: plans.Listen) -> AioBell:
        bell = AioBell()
        self._transport.topics.add(effect.topic, bell)
        if self._is_closed:
            raise ClientClosed("The client is closed.")
        if self._inbox is None:
            self._transport.topics.on_unheard = self._answer_unheard
            self._inbox = Inbox(self)
        # Without a subscription, a wait only takes longer.
        with contextlib.suppress(*_TIMEOUTS):
            await within(self._settings.timeout, self._inbox.is_tried.wait())
        return bell

    def _answer_unheard(self, topic: Tuple[str, ...]) -> None:
        plan = self._transport.answer_unheard(topic)
        if plan is not None:
            task = asyncio.ensure_future(self._run_quietly(plan))
            self._declining.add(task)
            task.add_done_callback(self._declining.discard)

    async def _run_quietly(self, plan: Plan[None]) -> None:
        with contextlib.suppress(Exception):
            await self.run(plan)

    async def subscribe(self) -> Any:
        """Returns a subscription to the inbox. In a Cluster, any node gets all messages."""
        client = await self._client()
        if self._target.kind == "cluster":
            node = client.get_random_node()
            client = self._redis.asyncio.Redis(host=node.host, port=node.port, **self._options())
        subscription = client.pubsub(ignore_subscribe_messages=False)
        await subscription.subscribe(self._transport.channel)
        if await subscription.get_message(timeout=self._settings.timeout) is None:
            await subscription.aclose()
            raise self._redis.TimeoutError("no answer in time")
        return subscription

    def deliver(self, message: bytes) -> None:
        self._transport.topics.deliver(topic_of(message))

    def ring_all(self) -> None:
        self._transport.topics.ring_all()

    async def close(self) -> None:
        self._is_closed = True
        for task in list(self._declining):
            task.cancel()
        if self._inbox is not None:
            await self._inbox.close()
        client, self._connected = self._connected, None
        if client is not None:
            with contextlib.suppress(*self._errors):
                await (client.aclose() if hasattr(client, "aclose") else client.close())


class Inbox:
    """A task that listens to the notifications of a client."""

    def __init__(self, driver: RedisDriver) -> None:
        self.is_tried = asyncio.Event()
        self._driver = driver
        self._is_closed = False
        self._task = asyncio.ensure_future(self._listen())

    async def _listen(self) -> None:
        pauses = plans.Pauses()
        while not self._is_closed:
            subscription = None
            try:
                subscription = await self._driver.subscribe()
                self.is_tried.set()
                # Messages of the time without a subscription are lost.
                self._driver.ring_all()
                pauses = plans.Pauses()
                while not self._is_closed:
                    message = await subscription.get_message(timeout=_CHECK)
                    if message is not None and message["type"] == "message":
                        self._driver.deliver(message["data"])
            except Exception:
                # Any kind of error means: subscribe again.
                self.is_tried.set()
                await asyncio.sleep(pauses.draw())
            finally:
                if subscription is not None:
                    with contextlib.suppress(Exception):
                        await subscription.aclose()

    async def close(self) -> None:
        self._is_closed = True
        while not self._task.done():
            # redis-py may swallow a cancellation while it closes a connection.
            self._task.cancel()
            await asyncio.wait([self._task], timeout=0.1)


class HttpDriver(Driver):
    """Sends requests of HTTP/1.1, one at a time on each connection. Connections are used again."""

    def __init__(self, settings: Settings) -> None:
        assert isinstance(settings.target, HttpTarget)
        self._settings, self._target = settings, settings.target
        self._context: Optional[ssl.SSLContext] = settings.ssl_context() if settings.target.tls else None
        self._idle: Deque[Tuple[Connection, float]] = collections.deque()
        self._is_closed = False

    async def fetch(self, effect: plans.Fetch) -> Optional[Tuple[int, Dict[str, str], bytes]]:
        if self._is_closed:
            raise ClientClosed("The client is closed.")
        if effect.stop is not None and effect.stop.is_set:
            return None
        connection = await self._take()
        try:
            with _stopping(connection, effect.stop):
                reply = await within(effect.timeout, connection.exchange(self._target, effect))
        except (OSError, EOFError, ValueError, *_TIMEOUTS) as error:
            connection.close()
            if effect.stop is not None and effect.stop.is_set:
                return None
            raise Disconnected(error or type(error).__name__, True) from error
        except BaseException:
            # The answer is still under way.
            connection.close()
            raise
        if connection.is_reusable and not self._is_closed:
            self._idle.append((connection, now()))
        else:
            connection.close()
        return reply

    async def _take(self) -> Connection:
        while self._idle:
            connection, since = self._idle.pop()
            if now() - since < _IDLE_MAX:
                return connection
            connection.close()
        try:
            return await within(self._settings.timeout, self._open(), Connection.close)
        except (OSError, *_TIMEOUTS) as error:
            raise Disconnected(error or type(error).__name__, sent=False) from error

    async def _open(self) -> Connection:
        streams = await asyncio.open_connection(self._target.host, self._target.port, ssl=self._context)
        return Connection(*streams)

    async def listen(self, effect: plans.Listen) -> AioBell:
        raise NotImplementedError("the HTTP API does not push")

    async def close(self) -> None:
        self._is_closed = True
        while self._idle:
            self._idle.pop()[0].close()


class Connection:
    """A connection of HTTP/1.1. Raises `ValueError` for an answer that is not HTTP."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.is_reusable = True

    async def exchange(self, target: HttpTarget, effect: plans.Fetch) -> Tuple[int, Dict[str, str], bytes]:
        host = f"[{target.host}]" if ":" in target.host else target.host
        headers = {"Host": f"{host}:{target.port}", **effect.headers}
        if effect.body is not None:
            headers["Content-Length"] = str(len(effect.body))
        lines = [f"{effect.method} {effect.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        self._writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + (effect.body or b""))
        await self._writer.drain()
        status, headers = await self._read_head()
        return status, headers, await self._read_body(status, headers)

    async def _read_head(self) -> Tuple[int, Dict[str, str]]:
        status = 100
        while 100 <= status < 200:
            version, code, *_ = (await self._read_line()).split(" ", 2)
            status = int(code)
            headers = {}
            line = await self._read_line()
            while line:
                name, _, value = line.partition(":")
                headers[name.strip().lower()] = value.strip()
                line = await self._read_line()
        self.is_reusable = version == "HTTP/1.1" and headers.get("connection", "").lower() != "close"
        return status, headers

    async def _read_body(self, status: int, headers: Dict[str, str]) -> bytes:
        if status in (204, 304):
            return b""
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return await self._read_chunks()
        if "content-length" in headers:
            return await self._reader.readexactly(int(headers["content-length"]))
        self.is_reusable = False
        return await self._reader.read()

    async def _read_chunks(self) -> bytes:
        chunks = []
        while True:
            size = int((await self._read_line()).split(";", 1)[0], 16)
            if size == 0:
                break
            chunks.append(await self._reader.readexactly(size))
            await self._read_line()
        while await self._read_line():
            pass
        return b"".join(chunks)

    async def _read_line(self) -> str:
        line = await self._reader.readline()
        if not line.endswith(b"\n"):
            raise EOFError("the server closed the connection")
        return line.decode("latin-1").rstrip("\r\n")

    def close(self) -> None:
        self._writer.close()


@contextlib.contextmanager
def _stopping(connection: Connection, stop: Optional[plans.Stop]) -> Iterator[None]:
    """Ends the connection when the stop is requested."""
    cancel: Callable[[], None] = (lambda: None) if stop is None else stop.on_set(connection.close)
    try:
        yield
    finally:
        cancel()


def driver_of(settings: Settings, transport: Transport) -> Driver:
    if isinstance(transport, RedisTransport):
        return RedisDriver(settings, transport)
    return HttpDriver(settings)
