"""Content of tasks and results: how values become bytes, and back."""

from __future__ import annotations

import base64
import json
import re
from typing import Any, Dict, Optional

from . import _check as check
from . import contract
from .errors import Undecodable

BYTES_TYPE, JSON_TYPE = contract.BYTES_TYPE, contract.JSON_TYPE
# Content types that a body has as a single byte. Any other is preceded by its length.
_SHORT_TYPES = {contract.BYTES_CODE: BYTES_TYPE, contract.JSON_CODE: JSON_TYPE}
_SHORT_BYTES = {content_type: bytes([byte]) for byte, content_type in _SHORT_TYPES.items()}
_PARAMETERS = re.compile(r'(?:[^;"]|"[^"]*")+')
_KIND = re.compile(r'kind="?([A-Za-z0-9._:/-]{1,%d})"?' % contract.KIND_BYTES, re.IGNORECASE)
_TRACE = re.compile(r'traceparent="?([0-9a-f-]{55})"?', re.IGNORECASE)


class Content:
    """Content of a task, a result or a schedule: bytes, and what they mean."""

    __slots__ = ("bytes", "content_type", "kind", "traceparent")

    def __init__(
        self, content: bytes, content_type: str, kind: Optional[str] = None, traceparent: Optional[str] = None
    ) -> None:
        self.bytes = content
        self.content_type = content_type
        """Media type, without the kind and the trace."""
        self.kind = kind
        """Kind of work, by which a worker selects the handler."""
        self.traceparent = traceparent
        """W3C `traceparent` of the span that enqueued the task."""

    def __repr__(self) -> str:
        return f"Content({len(self.bytes)} bytes, {self.content_type!r}, kind={self.kind!r})"

    @property
    def value(self) -> Any:
        """The decoded content: JSON is parsed, text is a `str`, anything else is `bytes`.

        Raises `Undecodable` if the bytes do not match the content type.
        """
        try:
            if _is_json(self.content_type):
                return json.loads(self.bytes)
            return self.bytes.decode() if _is_text(self.content_type) else self.bytes
        except (ValueError, RecursionError) as error:
            raise Undecodable(f"The content is not valid {self.content_type}: {error}.") from error


def _essence(content_type: str) -> str:
    return content_type.split(";", 1)[0].strip().lower()


def _is_json(content_type: str) -> bool:
    essence = _essence(content_type)
    return essence == JSON_TYPE or essence.endswith("+json")


def _is_text(content_type: str) -> bool:
    return _essence(content_type).startswith("text/")


def encode(
    payload: Any,
    content_type: Optional[str] = None,
    kind: Optional[str] = None,
    traceparent: Optional[str] = None,
    field: str = "payload",
    most: int = contract.PAYLOAD_BYTES,
) -> Content:
    """Checks and encodes content. `field` names it in errors."""
    is_bytes = isinstance(payload, (bytes, bytearray, memoryview))
    if content_type is None:
        content_type = BYTES_TYPE if is_bytes else JSON_TYPE
    else:
        content_type = check.content_type(content_type)
    content = bytes(payload) if is_bytes else _bytes_of(payload, content_type, field)
    if len(content) > most:
        raise check.invalid(field, f"has {len(content)} bytes; at most {most} are allowed")
    return Content(
        content,
        content_type,
        None if kind is None else check.kind(kind),
        None if traceparent is None else check.traceparent(traceparent),
    )


def encode_result(result: Any) -> Optional[Content]:
    """Encodes the result of a task. None stands for no result."""
    return None if result is None else encode(result, field="result", most=contract.RESULT_BYTES)


def _bytes_of(payload: Any, content_type: str, field: str) -> bytes:
    if _is_json(content_type):
        try:
            return json.dumps(payload, separators=(",", ":"), allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise check.invalid(field, f"cannot be written as JSON: {error}") from error
    if not isinstance(payload, str):
        raise check.invalid(field, f"must be a string or bytes, because the content type is {content_type}")
    return check.text(field, payload).encode()


def to_body(content: Content) -> bytes:
    """Encodes content as a body of the Redis protocol."""
    content_type = content.content_type
    if content.kind is not None:
        content_type += f';kind="{content.kind}"'
    if content.traceparent is not None:
        content_type += f";traceparent={content.traceparent}"
    short = _SHORT_BYTES.get(content_type)
    if short is not None:
        return short + content.bytes
    encoded = content_type.encode("latin-1")
    if len(encoded) >= max(_SHORT_TYPES):
        raise check.invalid("content_type", "is too long with the kind and the trace")
    return bytes([len(encoded)]) + encoded + content.bytes


def from_body(body: bytes) -> Content:
    """Decodes a body of the Redis protocol."""
    short = _SHORT_TYPES.get(body[0])
    if short is not None:
        return Content(body[1:], short)
    end = 1 + body[0]
    essence, *parameters = _PARAMETERS.findall(body[1:end].decode("latin-1"))
    kind: Optional[str] = None
    traceparent: Optional[str] = None
    others = [essence]
    for parameter in parameters:
        named, traced = _KIND.fullmatch(parameter.strip()), _TRACE.fullmatch(parameter.strip())
        if named:
            kind = named[1]
        elif traced:
            traceparent = traced[1]
        else:
            others.append(parameter)
    return Content(body[end:], ";".join(others), kind, traceparent)


def to_fields(content: Content, name: str = "payload", type_name: str = "content_type") -> Dict[str, Any]:
    """Encodes content as fields of the HTTP API. Base64 keeps every byte."""
    fields = {
        f"{name}_base64": base64.b64encode(content.bytes).decode(),
        type_name: content.content_type,
        "kind": content.kind,
        "traceparent": content.traceparent,
    }
    return {key: value for key, value in fields.items() if value is not None}


def from_fields(fields: Dict[str, Any]) -> Content:
    """Decodes fields of the HTTP API: JSON and text arrive as `payload`, anything else in base64."""
    content_type = fields.get("content_type", JSON_TYPE)
    if "payload" not in fields:
        content = base64.b64decode(fields.get("payload_base64", ""))
    elif _is_json(content_type):
        content = json.dumps(fields["payload"], separators=(",", ":")).encode()
    else:
        content = fields["payload"].encode()
    return Content(content, content_type, fields.get("kind"), fields.get("traceparent"))
