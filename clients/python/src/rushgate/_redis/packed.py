"""Packed records and answers."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Sequence

from .. import contract
from ..errors import Corrupt


def strange(what: object) -> Corrupt:
    return Corrupt(
        f"The server answered {what!r}, which protocol {contract.PROTOCOL} does not know.", hint="Update this package."
    )


def meaning(words: Sequence[str], number: int) -> str:
    """Returns the word for a number of an answer."""
    word = words[number] if 0 <= number < len(words) else ""
    if not word:
        raise strange(number)
    return word


def decode(value: bytes) -> str:
    return value.decode(errors="replace")


def optional(value: Any) -> Any:
    """Returns a number of an answer. None for ''."""
    return None if value in (b"", None) else int(value)


def rows(answer: List[Any], width: int) -> Iterator[List[Any]]:
    """Splits a flat answer into rows."""
    for at in range(0, len(answer), width):
        yield answer[at : at + width]


def pack(layout: contract.Layout, *numbers: int) -> bytes:
    return b"".join(number.to_bytes(size, "big") for (_, size), number in zip(layout, numbers))


class Packed:
    """Reads a packed record from its beginning."""

    __slots__ = ("_bytes", "_at")

    def __init__(self, record: bytes) -> None:
        self._bytes = record
        self._at = 0

    def take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._bytes):
            raise Corrupt("A record of the store is shorter than its layout.", hint="Update this package.")
        taken = self._bytes[self._at : end]
        self._at = end
        return taken

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def numbers(self, layout: contract.Layout) -> Dict[str, int]:
        return {name: self.number(size) for name, size in layout}

    def sized(self, length_size: int) -> bytes:
        """Takes bytes whose length precedes them."""
        return self.take(self.number(length_size))

    def text(self, length_size: int) -> str:
        return decode(self.sized(length_size))

    @property
    def rest(self) -> bytes:
        return self._bytes[self._at :]

    @property
    def is_empty(self) -> bool:
        return self._at >= len(self._bytes)
