"""Calls functions of the library as one client, which has a client ID, a counter and an inbox of its own."""

from __future__ import annotations

import itertools
import os
import socket
from typing import Any, Iterable, List, Optional, Set, Tuple

from .. import contract
from .._plan import Disconnected, Listen, Pause, Pauses, Plan, Refused, Send, Topics, Word, now
from ..errors import (
    Corrupt,
    Forbidden,
    InvalidArgument,
    Misconfigured,
    OutcomeUnknown,
    RushgateError,
    StoreFull,
    Unavailable,
)


def keys_of(group: contract.Group, name: str, client: str = "", most: Optional[int] = None) -> List[str]:
    """Returns the keys of a group, in their order. `most`: how many, from the first on."""
    tag, endings = group
    tail = f":{client}" if group is contract.ANSWERS_KEYS else ""
    return [f"{contract.KEY_PREFIX}{{{tag}:{name}}}:{ending}{tail}" for ending in endings[:most]]


class Store:
    """A Redis or Valkey server, a service behind sentinels, or a Cluster."""

    def __init__(self, is_cluster: bool, retry_for: float) -> None:
        self._is_cluster = is_cluster
        self._retry_for = retry_for
        self._client = os.urandom(contract.CLIENT_BYTES)
        self._client_hex = self._client.hex()
        self._ops = itertools.count(1)
        self._registered: Set[Tuple[str, str]] = set()
        self._is_checked = False
        self.inbox = os.urandom(contract.INBOX_BYTES)
        self.topics = Topics()
        self.host = socket.gethostname().encode()[: contract.NAME_BYTES]

    @property
    def channel(self) -> str:
        return contract.INBOX_PREFIX + self.inbox.hex()

    def op(self) -> bytes:
        """Returns bytes that this client never used before."""
        return next(self._ops).to_bytes(contract.OP_BYTES, "big")

    def token(self) -> bytes:
        """Returns a token for an acquisition."""
        return self._client + self.op()

    def listen(self, *topic: str) -> Plan[Any]:
        """Subscribes to the inbox, and returns a bell for a topic."""
        bell = yield Listen(topic)
        return bell

    def call(self, function: str, name: str, arguments: Iterable[Word], replay: Optional[str] = None) -> Plan[Any]:
        """Calls a function of a lock, a queue or a sale, with the keys of its groups.

        If the server is full, the function `replay` tells whether the call was executed before.
        """
        if not self._is_checked:
            yield from self._check_protocol()
        try:
            return (yield from self._function(function, name, arguments))
        except StoreFull:
            if replay is None:
                raise
            return (yield from self._function(replay, name, arguments))

    def _function(self, function: str, name: str, arguments: Iterable[Word]) -> Plan[Any]:
        keys: List[str] = []
        for group in contract.FUNCTIONS[function]:
            keys += keys_of(group, name, self._client_hex, None if self._is_cluster else 1)
        words = ("FCALL", contract.FUNCTION_PREFIX + function, len(keys), *keys, *arguments)
        return (yield from self._send(words, keys[0] if keys else None))

    def read(self, command: str, key: str, *arguments: Word) -> Plan[Any]:
        """Sends a command that is harmless to repeat."""
        return (yield from self._send((command, key, *arguments), key))

    def register(self, directory: str, name: str) -> Plan[None]:
        """Adds a name to a directory, once per client."""
        if (directory, name) not in self._registered:
            yield from self.read("ZADD", directory, 0, name)
            self._registered.add((directory, name))

    def _check_protocol(self) -> Plan[None]:
        protocol, version, *_ = yield from self._function("version", "", ())
        if protocol != contract.PROTOCOL:
            raise Misconfigured(
                f"Rushgate {version.decode()} on the server speaks protocol {protocol}, and this package "
                f"{contract.PROTOCOL}.",
                hint="Update the older one.",
            )
        self._is_checked = True

    def _send(self, words: Tuple[Word, ...], key: Optional[str]) -> Plan[Any]:
        """Sends a command until it is answered, with the same arguments each time."""
        until = now() + self._retry_for
        pauses = Pauses()
        is_sent = False
        while True:
            try:
                reply = yield Send(words, key)
                if reply != contract.AGAIN_STATUS:
                    return reply
                continue
            except Disconnected as error:
                is_sent = is_sent or error.sent
                cause: Exception = error
            except Refused as error:
                if error.code not in contract.PASSING_ERRORS:
                    raise _error_of(error) from None
                cause = error
            pause = pauses.draw()
            if now() + pause >= until:
                kind = OutcomeUnknown if is_sent else Unavailable
                raise kind(f"The store did not answer: {cause}.") from cause
            yield Pause(pause)


def _error_of(refused: Refused) -> RushgateError:
    text = str(refused)
    if "Function not found" in text:
        return Misconfigured(
            "The function library of the server is missing, or older than this package.",
            hint="Run `rushgate functions install --store URL`.",
        )
    if refused.code in ("INVALID", "DEADLINE"):
        return InvalidArgument(f"The server refused an argument: {text}.")
    if refused.code == "OOM":
        return StoreFull("The memory of the server is full.", hint="Free memory, or raise `maxmemory`.")
    if refused.code in ("NOAUTH", "WRONGPASS", "NOPERM"):
        return Forbidden(f"The server refused the user: {text}.")
    return Corrupt(f"The server refused the call: {text}.")


def topic_of(message: bytes) -> Tuple[str, ...]:
    """Returns the topic of a notification."""
    kind, rest = message[:1], message[1:]
    if kind in (contract.NOTIFY_GRANTED, contract.NOTIFY_REVOKED):
        return (kind.decode(), rest[: contract.TOKEN_BYTES].hex())
    words = rest.decode(errors="replace").split(" ")
    # Names have no spaces. The number of tasks or events in front does not matter.
    named = {contract.NOTIFY_TASKS: words[2:], contract.NOTIFY_SALE: words[1:], contract.NOTIFY_FINISHED: words}
    return (kind.decode(errors="replace"), *named.get(kind, []))
