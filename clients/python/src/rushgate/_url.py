"""Where a URL leads to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import List, Optional, Tuple
from urllib.parse import unquote, urlsplit

from . import _check as check
from .errors import InvalidArgument

_REDIS = re.compile(r"(rediss?)(?:\+(sentinel|cluster))?://(?:([^@/]*)@)?([^/?#]+)(?:/([^?#]*))?")
_NODE = re.compile(r"(?:\[([^\]]+)\]|([^:\[\]]+))(?::(\d{1,5}))?")
_PORTS = {"server": 6379, "sentinel": 26379, "cluster": 6379}
_FORMS = "Use redis://HOST, redis+sentinel://HOST/SERVICE, redis+cluster://HOST or https://HOST."

Node = Tuple[str, int]


@dataclass(frozen=True)
class RedisTarget:
    """A Redis or Valkey server, a service behind sentinels, or a Cluster."""

    kind: str
    tls: bool
    username: Optional[str]
    password: Optional[str]
    nodes: List[Node]
    service: Optional[str]
    database: int


@dataclass(frozen=True)
class HttpTarget:
    """A Rushgate server."""

    tls: bool
    host: str
    port: int
    base: str


def parse_http(url: str) -> Optional[HttpTarget]:
    """Parses an HTTP URL. None for any other URL."""
    if not check.text("url", url).startswith(("http://", "https://")):
        return None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise check.invalid("url", f"is malformed: {error}") from None
    if not parts.hostname or parts.query or parts.fragment or parts.username is not None:
        raise InvalidArgument("The URL of a Rushgate server has a host, and neither user nor query.", field="url")
    tls = parts.scheme == "https"
    return HttpTarget(tls, parts.hostname, port or (443 if tls else 80), parts.path.rstrip("/"))


def parse_redis(url: str) -> RedisTarget:
    parts = _REDIS.fullmatch(url)
    if parts is None:
        raise InvalidArgument("The URL is malformed.", field="url", hint=_FORMS)
    scheme, word, account, hosts, path = parts.groups()
    kind = word or "server"
    segments = [unquote(segment) for segment in (path or "").split("/") if segment]
    service = segments.pop(0) if kind == "sentinel" and segments else None
    if kind == "sentinel" and service is None:
        raise InvalidArgument("The URL names no service.", field="url", hint=_FORMS)
    username, password = _credentials(account)
    nodes = [_node(host, _PORTS[kind]) for host in hosts.split(",")]
    return RedisTarget(kind, scheme == "rediss", username, password, nodes, service, _database(segments))


def _credentials(account: Optional[str]) -> Tuple[Optional[str], Optional[str]]:
    if account is None:
        return None, None
    username, colon, password = account.partition(":")
    return unquote(username) or None, unquote(password) if colon else None


def _node(text: str, port: int) -> Node:
    parts = _NODE.fullmatch(text)
    if parts is None:
        raise InvalidArgument("The URL has a malformed host.", field="url", hint=_FORMS)
    return parts[1] or parts[2], int(parts[3] or port)


def _database(segments: List[str]) -> int:
    if not segments:
        return 0
    if len(segments) > 1 or not re.fullmatch(r"[0-9]{1,5}", segments[0]):
        raise InvalidArgument("The URL has a malformed database.", field="url", hint="Use a number.")
    return int(segments[0])
