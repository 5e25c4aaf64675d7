"""Sends requests, and repeats a request whose answer was lost, with the same idempotency key."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Dict, Optional, Sequence, Tuple
from urllib.parse import quote, urlencode

from .. import contract
from .._plan import Disconnected, Fetch, Pause, Pauses, Plan, Stop, now
from ..errors import Corrupt, OutcomeUnknown, RushgateError, Unavailable, of_problem

Fields = Dict[str, Any]
# Method, and path with its parameters.
Operation = Tuple[str, str]


class Answer:
    """An answer of the server. `body` is decoded JSON."""

    def __init__(self, status: int, headers: Dict[str, str], content: bytes) -> None:
        self.status, self.headers = status, headers
        try:
            self.body: Any = json.loads(content) if content else None
        except ValueError as error:
            raise Corrupt(f"The server answered status {status} and what is not JSON.") from error

    @property
    def is_replayed(self) -> bool:
        """Whether the answer is an idempotent replay."""
        return self.headers.get(contract.HTTP_REPLAYED_HEADER) == "true"


def _target(operation: Operation, parameters: Sequence[str], query: Optional[Fields]) -> str:
    left = iter(parameters)
    path = re.sub(r"\{\w+\}", lambda _: quote(next(left), safe=""), operation[1])
    return path if query is None else f"{path}?{urlencode(query)}"


class Requests:
    """A Rushgate server."""

    def __init__(self, base: str, token: Optional[str], timeout: float, retry_for: float) -> None:
        self._base, self._timeout, self._retry_for = base, timeout, retry_for
        self._authorization = {} if token is None else {"Authorization": f"Bearer {token}"}

    def ask(
        self,
        operation: Operation,
        path: Sequence[str] = (),
        body: Optional[Fields] = None,
        key: Optional[str] = None,
        wait: float = 0,
        stop: Optional[Stop] = None,
        query: Optional[Fields] = None,
    ) -> Plan[Answer]:
        """Sends a request until it is answered. `path` has the parameters of the path, in their order.

        The server may wait up to `wait` seconds.

        Raises the exception of a problem. If `stop` ends the wait, the request is sent again without a wait: with the
        same key, it gets the answer that may have been under way.
        """
        target = _target(operation, path, query)
        until = now() + self._retry_for + wait
        pauses = Pauses()
        is_unknown = False
        while True:
            try:
                reply = yield self._fetch(operation[0], target, body, key, wait, stop)
                if reply is None:
                    wait, stop = 0, None
                    continue
                return _read(reply)
            except Disconnected as error:
                is_unknown = is_unknown or error.sent
                cause: Exception = error
                pause = pauses.draw()
            except RushgateError as problem:
                if problem.code not in contract.PASSING_PROBLEMS:
                    raise
                is_unknown = is_unknown or isinstance(problem, OutcomeUnknown)
                cause = problem
                pause = pauses.draw() if problem.retry_after is None else problem.retry_after
            if now() + pause >= until:
                kind = OutcomeUnknown if is_unknown else Unavailable
                raise kind(f"The server did not answer: {cause}") from cause
            yield Pause(pause)

    def _fetch(
        self, method: str, path: str, body: Optional[Fields], key: Optional[str], wait: float, stop: Optional[Stop]
    ) -> Fetch:
        headers = dict(self._authorization)
        content = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            content = json.dumps(body, separators=(",", ":")).encode()
        if key is not None:
            headers[contract.HTTP_KEY_HEADER] = key
        if wait > 0:
            headers["Prefer"] = f"wait={math.ceil(wait)}"
        return Fetch(
            method, self._base + path, headers, content, self._timeout + math.ceil(wait), stop if wait else None
        )


def _read(reply: Tuple[int, Dict[str, str], bytes]) -> Answer:
    status, headers, content = reply
    if status < 400:
        return Answer(status, headers, content)
    is_problem = headers.get("content-type", "").startswith(contract.HTTP_PROBLEM_TYPE)
    raise of_problem(status, Answer(status, headers, content).body if is_problem else {})
