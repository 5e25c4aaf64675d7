"""Plans: what a call sends and what follows from each answer, without doing input and output.

A plan is a generator. It yields effects, which a driver performs with or without asyncio, and receives their results.
So each verb is written once.
"""

from __future__ import annotations

import random
import threading
import time
from typing import Any, Callable, Dict, Generator, Optional, Sequence, Set, Tuple, TypeVar, Union

T = TypeVar("T")
Plan = Generator["Effect", Any, T]
Word = Union[bytes, str, int]


class Disconnected(Exception):
    """The connection ended, or no answer arrived in time. `sent`: the call may have been executed."""

    def __init__(self, why: object, sent: bool) -> None:
        super().__init__(str(why))
        self.sent = sent


class Refused(Exception):
    """The Redis server answered with an error, which begins with its code."""

    @property
    def code(self) -> str:
        return str(self).split(" ", 1)[0]


class Bell:
    """Wakes a waiter. A driver decides how it waits."""

    is_hint = True
    """Whether a ring only says that the waiter should ask the store."""

    def ring(self) -> None:
        raise NotImplementedError


class Stop:
    """A request to stop, which ends the waits of a worker. It may be set in a signal handler."""

    def __init__(self) -> None:
        self.is_set = False
        self._callbacks: Dict[object, Callable[[], None]] = {}

    def set(self) -> None:
        self.is_set = True
        for callback in list(self._callbacks.values()):
            callback()

    def on_set(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls `callback` when the stop is requested, or at once. Returns a function that takes it back."""
        key = object()
        self._callbacks[key] = callback
        if self.is_set:
            callback()
        return lambda: self._callbacks.pop(key, None) and None


class Effect:
    """One step of input or output. `verb` names the driver's method that performs it."""

    verb = ""


class Send(Effect):
    """Sends a command to the Redis server that owns `key`, once. The result is the reply."""

    verb = "send"

    def __init__(self, words: Sequence[Word], key: Optional[str]) -> None:
        self.words, self.key = words, key


class Fetch(Effect):
    """Sends a request to the Rushgate server, once. The result is status, headers and body; None if it was stopped."""

    verb = "fetch"

    def __init__(
        self,
        method: str,
        path: str,
        headers: Dict[str, str],
        body: Optional[bytes],
        timeout: float,
        stop: Optional[Stop],
    ) -> None:
        self.method, self.path, self.headers, self.body = method, path, headers, body
        self.timeout, self.stop = timeout, stop


class Listen(Effect):
    """Subscribes to the inbox. The result is a bell that rings for the notifications of a topic."""

    verb = "listen"

    def __init__(self, topic: Tuple[str, ...]) -> None:
        self.topic = topic


class Wait(Effect):
    """Waits for a bell, for at most `seconds`."""

    verb = "wait"

    def __init__(self, bell: Bell, seconds: float) -> None:
        self.bell, self.seconds = bell, seconds


class Pause(Effect):
    """Sleeps."""

    verb = "pause"

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


class Pauses:
    """Pauses between attempts: exponential with jitter, from 20 ms to 1 s."""

    FIRST, LAST = 0.02, 1.0

    def __init__(self) -> None:
        self._longest = self.FIRST

    def draw(self) -> float:
        pause = self._longest * random.uniform(0.5, 1)
        self._longest = min(self._longest * 2, self.LAST)
        return pause


class Topics:
    """Bells by the topic of the notifications for which they ring."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._bells: Dict[Tuple[str, ...], Set[Bell]] = {}
        self.on_unheard: Callable[[Tuple[str, ...]], None] = lambda topic: None
        """Called with the topic of a notification for which no bell rings."""

    def add(self, topic: Tuple[str, ...], bell: Bell) -> None:
        # A new set each time, because another thread may iterate over the old one.
        with self._mutex:
            self._bells[topic] = self._bells.get(topic, set()) | {bell}

    def remove(self, topic: Tuple[str, ...], bell: Bell) -> None:
        with self._mutex:
            rest = self._bells.get(topic, set()) - {bell}
            if rest:
                self._bells[topic] = rest
            else:
                self._bells.pop(topic, None)

    def deliver(self, topic: Tuple[str, ...]) -> None:
        bells = self._bells.get(topic)
        if bells is None:
            self.on_unheard(topic)
            return
        for bell in bells:
            bell.ring()

    def ring_all(self) -> None:
        """After a lost subscription, every waiter asks the store again."""
        for bells in list(self._bells.values()):
            for bell in bells:
                if bell.is_hint:
                    bell.ring()


now = time.monotonic
