"""Receipts: signed texts that restore a reservation."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any, Dict, Optional

from .. import contract

Fields = Dict[str, Any]


def _encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _signature(secret: bytes, content: str) -> str:
    return _encode(hmac.new(secret, contract.RECEIPT_DOMAIN + content.encode(), hashlib.sha256).digest())


def write(sale: str, secret: bytes, hold: Fields) -> str:
    """Returns the receipt of a reservation."""
    receipt = {
        "s": sale,
        "g": hold["generation"],
        "q": hold["seq"],
        "i": hold["id"],
        "b": hold["buyer"],
        "u": [[unit["sku"], unit["unit"]] for unit in hold["units"]],
        "d": hold["deadline_us"],
    }
    content = _encode(json.dumps(receipt, separators=(",", ":"), ensure_ascii=False).encode())
    return f"{contract.RECEIPT_PREFIX}{content}.{_signature(secret, content)}"


def read(sale: str, secret: bytes, text: str) -> Optional[Fields]:
    """Returns the content of a receipt that this sale signed. None for any other text."""
    text = text.strip()
    parts = text[len(contract.RECEIPT_PREFIX) :].split(".")
    if not text.startswith(contract.RECEIPT_PREFIX) or len(parts) != 2 or not text.isascii():
        return None
    content, signed = parts
    if not hmac.compare_digest(_signature(secret, content), signed):
        return None
    receipt: Fields = json.loads(base64.urlsafe_b64decode(content + "=" * (-len(content) % 4)))
    return receipt if receipt["s"] == sale else None
