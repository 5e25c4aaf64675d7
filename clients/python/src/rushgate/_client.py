"""What clients with and without asyncio share: settings, and a transport per process."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from typing import Any, Dict, Optional, Union

from . import _check as check
from . import contract
from ._check import Seconds
from ._http.requests import Requests
from ._http.transport import HttpTransport
from ._plan import Disconnected, Refused
from ._redis.store import Store
from ._redis.transport import RedisTransport
from ._url import HttpTarget, RedisTarget, parse_http, parse_redis
from .errors import InvalidArgument, Misconfigured

_forks = 0


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


def process_now() -> int:
    """Returns a number that differs between a process and its forks."""
    return _forks


@dataclass(frozen=True)
class Settings:
    """Where a client connects to, and how."""

    target: Union[HttpTarget, RedisTarget]
    token: Optional[str]
    ca: Optional[str]
    timeout: float
    retry_for: float

    @classmethod
    def of(cls, url: str, token: Optional[str], ca: Optional[str], timeout: Seconds, retry_for: Seconds) -> Settings:
        http = parse_http(url)
        if http is None and token is not None:
            raise InvalidArgument("Only a Rushgate server has API tokens.", field="token")
        if token is not None and not (check.text("token", token).isascii() and token.isprintable()):
            raise check.invalid("token", "contains a character that is not visible ASCII")
        limits = (1_000, contract.WAIT_US[1])
        times = [check.micros(name, of, limits) / 1e6 for name, of in (("timeout", timeout), ("retry_for", retry_for))]
        return cls(http or parse_redis(url), token, ca, times[0], times[1])

    def transport(self) -> Union[HttpTransport, RedisTransport]:
        """Makes a transport with a client ID of its own."""
        if isinstance(self.target, HttpTarget):
            return HttpTransport(Requests(self.target.base, self.token, self.timeout, self.retry_for))
        return RedisTransport(Store(self.target.kind == "cluster", self.retry_for))

    def ssl_context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.ca)

    def redis_options(self) -> Dict[str, Any]:
        """Returns the options that redis-py clients of all kinds take."""
        assert isinstance(self.target, RedisTarget)
        options = {
            "username": self.target.username,
            "password": self.target.password,
            "socket_timeout": self.timeout,
            "socket_connect_timeout": self.timeout,
            "socket_keepalive": True,
        }
        if self.target.tls:
            options.update(ssl=True, ssl_cert_reqs="required", ssl_check_hostname=True, ssl_ca_certs=self.ca)
        return options


def require_redis() -> Any:
    """Imports redis-py, which only Redis URLs need."""
    try:
        import redis
    except ImportError:
        raise Misconfigured("A Redis URL needs redis-py.", hint="Run `pip install rushgate[redis]`.") from None
    return redis


def redis_errors(redis: Any) -> Any:
    """Returns the exceptions of redis-py that say that a call failed."""
    return (redis.RedisError, OSError, EOFError)


def fault_of(redis: Any, error: BaseException) -> Exception:
    """Returns what an exception of redis-py means."""
    errors = redis.exceptions
    code = _code_of(errors, error)
    if code is not None:
        return Refused(f"{code} {error}")
    if isinstance(error, errors.ResponseError):
        return Refused(str(error))
    return Disconnected(error or type(error).__name__, not _is_refused(error))


# redis-py removes the code from the text of these errors.
_CODES = {
    "OutOfMemoryError": "OOM",
    "BusyLoadingError": "LOADING",
    "ReadOnlyError": "READONLY",
    "AuthenticationError": "NOAUTH",
    "NoPermissionError": "NOPERM",
    "AuthorizationError": "NOPERM",
    "ClusterDownError": "CLUSTERDOWN",
    "MasterDownError": "MASTERDOWN",
    "TryAgainError": "TRYAGAIN",
    "MovedError": "MOVED",
    "AskError": "ASK",
}


def _code_of(errors: Any, error: BaseException) -> Optional[str]:
    for name, code in _CODES.items():
        if isinstance(error, getattr(errors, name, ())) and not str(error).startswith(code):
            return code
    return None


def _is_refused(error: Optional[BaseException]) -> bool:
    """Returns whether no connection was made, so that nothing can have happened."""
    while error is not None:
        if isinstance(error, ConnectionRefusedError):
            return True
        error = error.__cause__ or error.__context__
    return False
