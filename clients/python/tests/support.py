"""Helpers of the tests: the target under test, clients of both kinds behind one interface, and a TCP proxy."""

from __future__ import annotations

import asyncio
import inspect
import os
import socket
import threading
import time
import uuid
from typing import Any, Callable, Dict, List, Optional, Tuple

import rushgate
from rushgate import aio

TARGETS = {
    "redis": "REDIS",
    "cluster": "CLUSTER",
    "sentinel": "SENTINEL",
    "tls": "TLS",
    "http": "HTTP",
    "http-redis": "HTTP_REDIS",
}
KIND = os.environ.get("RUSHGATE_TARGET", "redis")
API = os.environ.get("RUSHGATE_API", "threads")
URL = os.environ.get(f"RUSHGATE_TEST_{TARGETS[KIND]}", "")
IS_HTTP = KIND.startswith("http")
IS_REDIS = not IS_HTTP
# A proxy sees the calls of these.
IS_PLAIN = KIND in ("redis", "http", "http-redis")
PATIENCE = 20.0


def options() -> Dict[str, Any]:
    if IS_HTTP:
        return {"token": os.environ["RUSHGATE_TEST_TOKEN"]}
    return {"ca": os.environ["RUSHGATE_TEST_CA"]} if KIND == "tls" else {}


def unique(word: str) -> str:
    return f"py-{word}-{uuid.uuid4().hex[:12]}"


def until(is_true: Callable[[], Any]) -> Any:
    """Waits for a condition, and returns its value."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        value = is_true()
        if value:
            return value
        time.sleep(0.005)
    raise AssertionError("the condition did not become true")


class Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def run(self, make: Callable[[], Any]) -> Any:
        async def call() -> Any:
            value = make()
            return await value if inspect.isawaitable(value) else value

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(80)


class Bridge:
    """An object of `rushgate.aio` as the tests for threads use it: its coroutines run in the event loop."""

    def __init__(self, loop: Loop, of: Any) -> None:
        self._loop, self._of = loop, of

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._of, name)
        if callable(value):
            return lambda *words, **more: self._wrap(self._loop.run(lambda: value(*words, **more)))
        return self._wrap(value)

    def _wrap(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._wrap(one) for one in value]
        is_own = type(value).__module__ in ("rushgate.aio", "rushgate._worker_aio")
        return Bridge(self._loop, value) if is_own or isinstance(value, asyncio.Event) else value

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        try:
            self.release()
        except rushgate.RushgateError:
            if kind is None:
                raise


LOOP: Optional[Loop] = None


def connect(url: str = URL, **more: Any) -> Any:
    """Returns a client of the kind under test."""
    global LOOP
    if API == "threads":
        return rushgate.Rushgate(url, **{**options(), **more})
    LOOP = LOOP or Loop()
    loop = LOOP
    return loop.run(lambda: Bridge(loop, aio.Rushgate(url, **{**options(), **more})))


def handler(of: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a handler for a worker of the kind under test. `of` must not block for long."""
    if API == "threads":
        return of

    async def handle(payload: Any, job: Any) -> Any:
        return of(payload, job)

    return handle


class Running:
    """A worker that runs in a thread."""

    def __init__(self, worker: Any) -> None:
        self.worker = worker
        self.error: Optional[BaseException] = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.worker.run()
        except BaseException as error:
            self.error = error

    def stop(self) -> Any:
        self.worker.stop()
        return self.join()

    def join(self) -> Any:
        self._thread.join(PATIENCE * 2)
        assert not self._thread.is_alive(), "the worker did not stop"
        if self.error is not None:
            raise self.error
        return self.worker.report

    def __enter__(self) -> Any:
        return self.worker

    def __exit__(self, *_: Any) -> None:
        self.stop()


class Thread(threading.Thread):
    """A thread whose result or exception `result` returns or raises."""

    def __init__(self, of: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._of, self._value, self._error = of, None, None  # type: ignore[var-annotated]
        self.start()

    def run(self) -> None:
        try:
            self._value = self._of()
        except BaseException as error:
            self._error = error

    def result(self) -> Any:
        self.join(PATIENCE * 2)
        assert not self.is_alive(), "the thread did not end"
        if self._error is not None:
            raise self._error
        return self._value


class Proxy:
    """A TCP proxy, which loses answers and replaces words of requests."""

    def __init__(self, url: str) -> None:
        scheme, _, rest = url.partition("://")
        host, port = rest.split("/")[0].split(":")
        self._to = (host, int(port))
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"{scheme}://127.0.0.1:{self._server.getsockname()[1]}"
        self.sent = 0
        self._pairs: List[List[socket.socket]] = []
        self._cut: Optional[bytes] = None
        self._stall: Optional[bytes] = None
        self._refuses = False
        self._words: List[Tuple[bytes, bytes]] = []
        self.replaced = 0
        """Requests in which words were replaced."""
        self.lost = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_after(self, verb: str) -> None:
        """Ends the connection of the next call of a verb, once the server has answered."""
        self.lost.clear()
        self._cut = verb.encode()

    def stall_after(self, verb: str) -> None:
        """Keeps the answer of the next call of a verb."""
        self.lost.clear()
        self._stall = verb.encode()

    def replace(self, word: str, by: str) -> None:
        """Replaces a word of requests by one of the same length."""
        self._words.append((word.encode(), by.encode()))

    def cut_all(self) -> None:
        for pair in list(self._pairs):
            _shut(pair)

    def pause(self) -> None:
        """Ends all connections, and refuses new ones until `resume`."""
        self._refuses = True
        self.cut_all()

    def resume(self) -> None:
        self._refuses = False

    def stop(self) -> None:
        # A thread that waits in `accept` would keep the port.
        with_suppressed(lambda: self._server.shutdown(socket.SHUT_RDWR))
        self._server.close()
        self.cut_all()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            if self._refuses:
                client.close()
                continue
            pair = [client, socket.create_connection(self._to)]
            self._pairs.append(pair)
            state: Dict[str, str] = {}
            for of in (self._upstream, self._downstream):
                threading.Thread(target=of, args=(pair, state), daemon=True).start()

    def _upstream(self, pair: List[socket.socket], state: Dict[str, str]) -> None:
        for data in _chunks(pair[0]):
            self.sent += len(data)
            if self._cut is not None and self._cut in data:
                state["reply"], self._cut = "cut", None
            if self._stall is not None and self._stall in data:
                state["reply"], self._stall = "stall", None
            with_suppressed(lambda: pair[1].sendall(self._with_words(data)))
        _shut(pair)

    def _with_words(self, data: bytes) -> bytes:
        passed = data
        for word, by in self._words:
            passed = passed.replace(word, by)
        self.replaced += passed != data
        return passed

    def _downstream(self, pair: List[socket.socket], state: Dict[str, str]) -> None:
        for data in _chunks(pair[1]):
            if "reply" in state:
                self.lost.set()
                if state["reply"] == "stall":
                    continue
                break
            with_suppressed(lambda: pair[0].sendall(data))
        _shut(pair)


def _chunks(of: socket.socket) -> Any:
    while True:
        try:
            data = of.recv(65_536)
        except OSError:
            return
        if not data:
            return
        yield data


def _shut(pair: List[socket.socket]) -> None:
    for one in pair:
        with_suppressed(lambda: one.shutdown(socket.SHUT_RDWR))


def with_suppressed(of: Callable[[], Any]) -> None:
    try:
        of()
    except OSError:
        pass


