"""Checks of arguments against the limits of the protocol, before anything is sent."""

from __future__ import annotations

import math
import re
import unicodedata
from datetime import timedelta
from typing import Any, List, Optional, Sequence, Tuple, TypeVar, Union

from . import contract
from .errors import InvalidArgument

T = TypeVar("T")
Seconds = Union[int, float, timedelta]

_FORBIDDEN_IN_NAMES = re.compile(r"[\s\x00-\x1f\x7f-\x9f{}]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_KIND = re.compile(r"[A-Za-z0-9._:/-]+")
_VISIBLE = re.compile(r"[!-~]+")
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_RESERVATION = re.compile(r"[0-9a-f]{%d}" % (2 * contract.RESERVATION_BYTES))


def invalid(field: str, why: str) -> InvalidArgument:
    return InvalidArgument(f"{field} {why}.", field=field)


def text(field: str, value: object) -> str:
    """Checks that a value is a string of valid Unicode."""
    if not isinstance(value, str):
        raise invalid(field, "must be a string")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise invalid(field, "is not valid Unicode") from None
    return value


def _is_invisible(character: str) -> bool:
    return any(first <= ord(character) <= last for first, last in contract.INVISIBLE)


def name(field: str, value: object, most: int = contract.NAME_BYTES) -> str:
    """Returns a name in Normalization Form C."""
    normal = unicodedata.normalize("NFC", text(field, value))
    length = len(normal.encode())
    if not 1 <= length <= most:
        raise invalid(field, f"has {length} bytes; it must have 1 to {most}")
    if normal in (".", ".."):
        raise invalid(field, f"is `{normal}`, which is reserved in URLs")
    if _FORBIDDEN_IN_NAMES.search(normal) or not normal.isascii() and any(map(_is_invisible, normal)):
        raise invalid(field, "contains white space, a brace, or a control or invisible character")
    return normal


def label(field: str, value: object) -> str:
    """Checks a text for operators."""
    checked = text(field, value)
    if len(checked.encode()) > contract.LABEL_BYTES:
        raise invalid(field, f"has more than {contract.LABEL_BYTES} bytes")
    if _CONTROL.search(checked):
        raise invalid(field, "contains a control character")
    return checked


def kind(value: object) -> str:
    checked = text("kind", value)
    if len(checked) > contract.KIND_BYTES or not _KIND.fullmatch(checked):
        raise invalid(
            "kind", f"is `{checked}`; it must be 1 to {contract.KIND_BYTES} ASCII letters, digits and . _ : / -"
        )
    return checked


def traceparent(value: object) -> str:
    checked = text("traceparent", value)
    if not _TRACEPARENT.fullmatch(checked):
        raise invalid("traceparent", "is not a W3C traceparent")
    return checked


def content_type(value: object) -> str:
    """Checks a media type, and removes white space around its parameters."""
    checked = re.sub(r"\s*;\s*", ";", text("content_type", value).strip())
    is_short = len(checked) <= contract.CONTENT_TYPE_BYTES
    if not is_short or not _VISIBLE.fullmatch(checked) or "/" not in checked or re.search("[{}]", checked):
        raise invalid("content_type", "is not a media type")
    return checked


def idempotency_key(value: object) -> str:
    checked = name("key", value, contract.IDEMPOTENCY_KEY_BYTES)
    if not _VISIBLE.fullmatch(checked):
        raise invalid("key", "contains a character that is not visible ASCII")
    return checked


def reservation(value: object) -> str:
    checked = text("reservation", value)
    if not _RESERVATION.fullmatch(checked):
        raise invalid("reservation", f"must be {2 * contract.RESERVATION_BYTES} lower-case hexadecimal digits")
    return checked


def ticket(value: object) -> str:
    checked = text("ticket", value)
    if not re.fullmatch(r"[0-9a-f]+\.[0-9a-f]+\.[0-9a-f]+\..+", checked):
        raise invalid("ticket", "is malformed")
    return checked


def whole(field: str, value: object, limits: contract.Range) -> int:
    """Checks a whole number."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise invalid(field, "must be a whole number")
    if not limits[0] <= value <= limits[1]:
        raise invalid(field, f"is {value}; it must be {limits[0]} to {limits[1]}")
    return value


def micros(field: str, value: object, limits: contract.Range) -> int:
    """Returns a duration in µs. The argument is in seconds, and the limits are in µs."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not math.isfinite(seconds):
        raise invalid(field, "must be a number of seconds or a timedelta")
    duration = round(seconds * 1_000_000)
    if not limits[0] <= duration <= limits[1]:
        raise invalid(field, f"is {seconds} s; it must be {limits[0] / 1e6:g} to {limits[1] / 1e6:g} s")
    return duration


def lease(value: object) -> int:
    return micros("lease", value, contract.LEASE_US)


def wait(value: object) -> int:
    return micros("wait", value, contract.WAIT_US)


def optional_micros(field: str, value: object, limits: contract.Range) -> Optional[int]:
    return None if value is None else micros(field, value, limits)


def moment(field: str, value: object) -> Optional[int]:
    """Checks a timestamp in µs since 1970, or None."""
    return None if value is None else whole(field, value, contract.MOMENT_US)


def choice(field: str, value: object, words: Sequence[str]) -> str:
    if not isinstance(value, str) or not value or value not in words:
        raise invalid(field, f"is `{value}`; it must be one of {', '.join(filter(None, words))}")
    return value


def entries(field: str, values: Sequence[T], limits: contract.Range) -> List[T]:
    """Checks the length of a list."""
    if isinstance(values, (str, bytes)):
        raise invalid(field, "must be a list")
    listed = list(values)
    if not limits[0] <= len(listed) <= limits[1]:
        raise invalid(field, f"has {len(listed)} entries; it must have {limits[0]} to {limits[1]}")
    return listed


def page(after: Any, limit: object, limits: contract.Range) -> Tuple[str, int]:
    return (after and name("after", after)), whole("limit", limit, limits)


def ids(values: Optional[Sequence[str]]) -> Optional[List[str]]:
    """Checks IDs, and sorts them as the store does. None stands for all."""
    if values is None:
        return None
    listed = entries("ids", values, contract.BATCH)
    return sorted({name("ids", value) for value in listed}, key=str.encode)


def cut(value: str, most: int) -> str:
    """Cuts a text to its last `most` bytes of UTF-8, between characters."""
    return value.encode(errors="replace")[-most:].decode(errors="ignore")
