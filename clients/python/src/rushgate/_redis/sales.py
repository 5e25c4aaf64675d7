"""Sales over Redis."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Iterable, List, Optional, Tuple

from .. import contract
from .._plan import Plan, Wait, Word, now
from .._transport import Cart, Fields, NewSale, Transport
from ..errors import Corrupt, NotFound
from . import receipts
from .packed import meaning, optional, pack
from .records import read_hold, read_sku
from .store import Store, keys_of

SALE_CHANGED = contract.NOTIFY_SALE.decode()


class Specification:
    """The specification of a sale, which never changes."""

    def __init__(self, stored: bytes) -> None:
        self.fields: Fields = json.loads(stored)
        self.secret = bytes.fromhex(self.fields["secret"])
        self.skus: List[str] = [sku for sku, *_ in self.fields["skus"]]

    def number_of(self, sku: str) -> int:
        return self.skus.index(sku) if sku in self.skus else -1


class SaleVerbs(Transport):
    _store: Store
    _specifications: Dict[str, Specification]

    def create_sale(self, sale: NewSale) -> Plan[str]:
        yield from self._store.register(contract.SALE_DIRECTORY, sale.id)
        secret = os.urandom(contract.SECRET_BYTES)
        ledger = bool(sale.ledger)
        # The fields are in alphabetical order, as every writer has them.
        specification = {
            "closes_us": sale.closes_at_us,
            "hold_us": sale.hold,
            "ledger": ledger,
            "opens_us": sale.opens_at_us,
            "secret": secret.hex(),
            "skus": [[sku["sku"], sku["units"], sku["per_buyer"]] for sku in sale.skus],
        }
        moments = ["" if moment is None else moment for moment in (sale.opens_at_us, sale.closes_at_us)]
        stock = [number for sku in sale.skus for number in (sku["units"], sku["per_buyer"])]
        text = json.dumps(specification, separators=(",", ":"), ensure_ascii=False)
        arguments = (text, secret, sale.hold, *moments, int(ledger), *stock)
        return meaning(contract.CREATED, (yield from self._store.call("sale_create", sale.id, arguments)))

    def open_sale(self, sale: str) -> Plan[str]:
        status, _ = yield from self._call("sale_open", sale)
        return meaning(contract.SALE_STATUS, status)

    def end_sale(self, sale: str) -> Plan[str]:
        status, _ = yield from self._call("sale_end", sale)
        return meaning(contract.SALE_STATUS, status)

    def sale(self, sale: str) -> Plan[Fields]:
        specification = yield from self._specification(sale)
        count = len(specification.skus)
        answer, specification = yield from self._call("sale_show", sale, (count,))
        status, generation, seq, next_expiry, now_us = answer[:5]
        halted_since, reason, receipts_until, through, behind_since, failed, worker_until = answer[5 + count :][:7]
        orders = {
            "through": through,
            "behind_since_us": optional(behind_since),
            "failed": failed,
            "worker_until_us": optional(worker_until),
        }
        halted = {"reason": meaning(contract.HALT_REASON, int(reason or 0)), "since_us": optional(halted_since)}
        return {
            "id": sale,
            "status": meaning(contract.SALE_STATUS, status),
            "ledger": specification.fields["ledger"],
            "hold_ms": specification.fields["hold_us"] / 1_000,
            "opens_at_us": specification.fields["opens_us"],
            "closes_at_us": specification.fields["closes_us"],
            "generation": generation,
            "seq": seq,
            "skus": [read_sku(sku, record) for sku, record in zip(specification.skus, answer[5:])],
            "next_expiry_us": optional(next_expiry),
            "halted": None if halted["since_us"] is None else halted,
            "receipts_until_us": optional(receipts_until),
            "orders": orders if specification.fields["ledger"] else None,
            "now_us": now_us,
        }

    def reserve(self, sale: str, cart: Cart) -> Plan[Fields]:
        specification = yield from self._specification(sale)
        lines: List[Word] = [
            word for sku, quantity in cart.lines.items() for word in (specification.number_of(sku), quantity)
        ]
        arguments = (cart.key, cart.buyer, int(cart.same_number), *lines)
        answer, specification = yield from self._call("sale_reserve_by_key", sale, arguments)
        outcome, values = meaning(contract.RESERVED, answer[0]), answer[1:]
        if outcome in ("reserved", "replayed"):
            return {"outcome": outcome, "hold": _hold(sale, specification, values[1].hex(), values[0])}
        if outcome == "no_such_sku":
            raise NotFound(f"The sale `{sale}` has no SKU `{list(cart.lines)[values[0]]}`.")
        if outcome == "not_open":
            return {"outcome": outcome, "opens_at_us": specification.fields["opens_us"]}
        return {"outcome": outcome, **_refusal(outcome, specification, values)}

    def confirm(self, sale: str, reservation: str) -> Plan[Fields]:
        return (yield from self._decide("sale_confirm", sale, reservation))

    def cancel_hold(self, sale: str, reservation: str) -> Plan[Fields]:
        return (yield from self._decide("sale_cancel_hold", sale, reservation))

    def _decide(self, function: str, sale: str, reservation: str) -> Plan[Fields]:
        [answer], specification = yield from self._call(function, sale, (bytes.fromhex(reservation),))
        outcome = meaning(contract.DECIDED, answer[0])
        if outcome in ("unknown", "halted"):
            return {"outcome": outcome}
        hold = read_hold(answer[1], reservation, specification.skus)
        return (
            {"outcome": outcome, "state": hold["state"]} if outcome == "refused" else {"outcome": outcome, "hold": hold}
        )

    def reservation(self, sale: str, reservation: str, wait: int) -> Plan[Optional[Fields]]:
        if wait == 0:
            return (yield from self._read_hold(sale, reservation))
        bell = yield from self._store.listen(SALE_CHANGED, sale)
        until = now() + wait / 1e6
        try:
            while True:
                state = yield from self.sale(sale)
                hold = yield from self._read_hold(sale, reservation)
                left = until - now()
                if hold is None or hold["state"] in contract.FINAL_STATE or left <= 0:
                    return hold
                longest = contract.SALE_SLEEP
                if hold["state"] == "held":
                    longest = min(longest, (hold["deadline_us"] - state["now_us"]) / 1e6)
                if longest <= 0:
                    yield from self._call("sale_expire", sale, (contract.EXPIRE[1],))
                    continue
                arguments = (self._store.inbox.hex(), state["seq"])
                registered, _ = yield from self._call("sale_listen", sale, arguments)
                if registered == 1:
                    yield Wait(bell, min(left, max(longest, 0.001)))
        finally:
            self._store.topics.remove((SALE_CHANGED, sale), bell)

    def _read_hold(self, sale: str, reservation: str) -> Plan[Optional[Fields]]:
        answer, specification = yield from self._call("sale_reservation", sale, (bytes.fromhex(reservation),))
        return read_hold(answer[0], reservation, specification.skus) if answer else None

    def restore(self, sale: str, receipt: str) -> Plan[Fields]:
        specification = yield from self._specification(sale)
        content = receipts.read(sale, specification.secret, receipt)
        if content is None:
            return {"outcome": "not_honored"}
        units = [(specification.number_of(sku), unit) for sku, unit in content["u"]]
        ranges = b"".join(pack(contract.UNITS_LAYOUT, *of) for of in _ranges(units))
        reservation = bytes.fromhex(content["i"])
        arguments = (reservation, content["b"], content["g"], content["d"], int(_is_same_number(units)), ranges)
        answer, specification = yield from self._call("sale_restore", sale, arguments)
        outcome, values = meaning(contract.RESTORED, answer[0]), answer[1:]
        if outcome in ("restored", "known"):
            return {"outcome": outcome, "hold": _hold(sale, specification, content["i"], values[0])}
        return {"outcome": outcome, **_refusal(outcome, specification, values)}

    def _call(self, function: str, sale: str, arguments: Iterable[Word] = ()) -> Plan[Tuple[Any, Specification]]:
        """Calls a function with the secret in front. A sale that was created again has another specification."""
        specification = yield from self._specification(sale)
        while True:
            answer = yield from self._store.call(function, sale, (specification.secret, *arguments))
            if answer != contract.MISSING_STATUS:
                return answer, specification
            self._specifications.pop(sale, None)
            current = yield from self._specification(sale)
            if current.secret == specification.secret:
                raise Corrupt(
                    f"The keys of the sale `{sale}` are missing.",
                    hint="Rebuild the sale from its ledger, or restore a backup.",
                )
            specification = current

    def _specification(self, sale: str) -> Plan[Specification]:
        known = self._specifications.get(sale)
        if known is None:
            [home] = keys_of(contract.HOME_KEYS, sale)
            stored = yield from self._store.read("GET", home)
            if stored is None:
                raise NotFound(f"There is no sale `{sale}`.", hint="Run `rushgate sale ls` to list the sales.")
            known = self._specifications[sale] = Specification(stored)
        return known


def _hold(sale: str, specification: Specification, reservation: str, record: bytes) -> Fields:
    hold = read_hold(record, reservation, specification.skus)
    return {**hold, "receipt": receipts.write(sale, specification.secret, hold)}


def _refusal(outcome: str, specification: Specification, values: List[Any]) -> Fields:
    if outcome in ("sold_out", "all_held", "none_left"):
        next_expiry = optional(values[2]) if len(values) > 2 else None
        return {"sku": meaning(specification.skus, values[0]), "free": values[1], "next_expiry_us": next_expiry}
    if outcome == "limit_reached":
        return {"sku": meaning(specification.skus, values[0]), "limit": values[1], "has": values[2]}
    return {"retry_at_us": optional(values[0])} if outcome == "halted" else {}


def _is_same_number(units: List[Tuple[int, int]]) -> bool:
    """Returns whether other units of a receipt must have one number in every line, as these have."""
    skus, numbers = {sku for sku, _ in units}, {unit for _, unit in units}
    return len(units) > 1 and len(skus) == len(units) and len(numbers) == 1


def _ranges(units: List[Tuple[int, int]]) -> List[Tuple[int, int, int]]:
    """Returns ranges of consecutive units, line by line."""
    ranges: List[Tuple[int, int, int]] = []
    for sku, unit in units:
        if ranges and ranges[-1][0] == sku and ranges[-1][2] == unit - 1:
            ranges[-1] = (sku, ranges[-1][1], unit)
        else:
            ranges.append((sku, unit, unit))
    return ranges
