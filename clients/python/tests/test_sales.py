from __future__ import annotations

import pytest
from support import IS_REDIS, Thread, unique

from rushgate import InvalidArgument, NotFound, Sku


def new_sale(client, units=10, per_buyer=1, **more):
    sale = client.sale(unique("sale"))
    assert client.create_sale(sale.id, [Sku("phone", units, per_buyer), Sku("case", 100, 10)], ledger=False, **more)
    sale.open()
    return sale


def test_more_buyers_than_units_buy_exactly_the_units(client, connect):
    sale = new_sale(client, units=20)

    def buy(number):
        mine, sold = connect().sale(sale.id), []
        for buyer in range(10):
            reserved = mine.reserve(f"buyer-{number}-{buyer}", "click", {"phone": 1})
            if reserved.hold is None:
                assert reserved.outcome in ("sold_out", "all_held") and reserved.sku == "phone"
                continue
            assert mine.confirm(reserved.hold.id).outcome == "done"
            sold += reserved.hold.units
        return sold

    threads = [Thread(lambda number=number: buy(number)) for number in range(5)]
    sold = [unit for thread in threads for unit in thread.result()]
    assert sorted(sold) == [("phone", unit) for unit in range(1, 21)]
    stock = sale.state().skus[0]
    assert (stock.total, stock.confirmed, stock.free, stock.held) == (20, 20, 0, 0)


def test_the_same_key_gets_the_same_reservation_once(client):
    sale = new_sale(client)
    first = sale.reserve("ann", "click-1", {"phone": 1, "case": 2})
    again = sale.reserve("ann", "click-1", {"phone": 1, "case": 2})
    assert (first.outcome, again.outcome) == ("reserved", "replayed")
    assert first.hold.id == again.hold.id and first.hold.units == again.hold.units
    assert sorted(first.hold.units) == [("case", 1), ("case", 2), ("phone", 1)]
    assert sale.reserve("ann", "click-1", {"case": 1}).outcome == "key_reused"
    assert sale.state().skus[0].held == 1


def test_refusals_say_why(client):
    sale = new_sale(client, units=1)
    assert sale.reserve("ann", "1", ["phone"]).outcome == "reserved"
    limited = sale.reserve("ann", "2", ["phone"])
    assert (limited.outcome, limited.sku, limited.limit, limited.has) == ("limit_reached", "phone", 1, 1)
    held = sale.reserve("bob", "1", ["phone"])
    assert (held.outcome, held.free) == ("all_held", 0) and held.next_expiry_us > 0
    with pytest.raises(NotFound):
        sale.reserve("bob", "2", ["tablet"])
    assert sale.end() == "ended"
    assert sale.reserve("cid", "1", ["phone"]).outcome == "ended"


def test_a_sale_that_is_not_open_refuses_buyers(client):
    sale = client.sale(unique("sale"))
    assert client.create_sale(sale.id, [Sku("phone", 1)], ledger=False)
    assert sale.reserve("ann", "1", ["phone"]).outcome == "not_open"
    assert sale.state().status == "created"


def test_a_canceled_hold_frees_its_units(client):
    sale = new_sale(client, units=1)
    hold = sale.reserve("ann", "1", ["phone"]).hold
    assert sale.cancel(hold.id).outcome == "done"
    assert sale.reservation(hold.id).state == "cancelled"
    refused = sale.confirm(hold.id)
    assert (refused.outcome, refused.state) == ("refused", "cancelled")
    assert sale.reserve("bob", "1", ["phone"]).outcome == "reserved"


def test_a_hold_that_expires_is_final_and_frees_its_units(client):
    sale = new_sale(client, units=1, hold=0.3)
    hold = sale.reserve("ann", "1", ["phone"]).hold
    assert sale.reservation(hold.id, wait=20).state == "expired"
    assert sale.confirm(hold.id).outcome == "refused"
    assert sale.reserve("bob", "1", ["phone"]).outcome == "reserved"


def test_a_wait_for_a_reservation_ends_with_the_decision_of_another_client(client, connect):
    sale = new_sale(client)
    hold = sale.reserve("ann", "1", ["phone"]).hold
    waiting = Thread(lambda: connect().sale(sale.id).reservation(hold.id, wait=30))
    assert sale.confirm(hold.id, wait=5).outcome == "done"
    assert waiting.result().state == "confirmed" and waiting.result().is_final


def test_a_receipt_of_a_known_reservation_is_honored(client):
    sale = new_sale(client)
    hold = sale.reserve("ann", "1", ["phone"]).hold
    assert hold.receipt.startswith("rg1.")
    restored = sale.restore(hold.receipt)
    assert (restored.outcome, restored.hold.id, restored.hold.units) == ("known", hold.id, hold.units)
    for forged in ("rg1.a.b", "x", hold.receipt[:-2] + "AA", new_sale(client).reserve("z", "1", ["phone"]).hold.receipt):
        assert sale.restore(forged).outcome == "not_honored"


def test_an_unknown_sale_or_reservation_is_not_found(client):
    with pytest.raises(NotFound):
        client.sale(unique("sale")).state()
    sale = new_sale(client)
    assert sale.reservation("0" * 32) is None
    assert sale.confirm("0" * 32).outcome == "unknown"


def test_a_sale_id_is_taken_once(client):
    sale = new_sale(client)
    assert not client.create_sale(sale.id, [Sku("phone", 2)], ledger=False)


def test_the_same_number_in_every_line(client):
    sale = new_sale(client)
    sale.reserve("ann", "1", ["phone"])
    hold = sale.reserve("bob", "1", ["phone", "case"], same_number=True).hold
    assert len({unit for _, unit in hold.units}) == 1


def test_bad_arguments_are_refused(client):
    sale = client.sale(unique("sale"))
    for words in (
        ("ann", "", ["phone"]), ("ann", "k", []), ("ann", "k", {"phone": 0}), ("ann", "k", {"phone": 1_001}),
        ("a b", "k", ["phone"]), ("ann", "k\u00e9", ["phone"]), ("ann", "k", ["phone", "phone"]), ("ann", "k", "phone"),
    ):
        with pytest.raises(InvalidArgument):
            sale.reserve(*words)
    with pytest.raises(InvalidArgument):
        sale.reserve("ann", "k", {"phone": 2}, same_number=True)
    with pytest.raises(InvalidArgument):
        sale.confirm("x")
    for skus in ([], [Sku("phone", 0)], [Sku("a", 1), Sku("a", 1)], [Sku("a", 1, 0)]):
        with pytest.raises(InvalidArgument):
            client.create_sale(sale.id, skus)


if IS_REDIS:

    def test_the_example_receipt_of_the_protocol_is_written(client):
        from rushgate._redis import receipts

        hold = {
            "generation": 1, "seq": 2, "id": "88eb47d6035bd0f11841ff70a2235033", "buyer": "ann",
            "units": [{"sku": "phone", "unit": 1}], "deadline_us": 1_800_000_000_000_000,
        }
        receipt = receipts.write("phones", bytes(range(16)), hold)
        assert receipt.endswith(".pFvcbTD1-obysGGur9kBrXHsogGBNkD7xfydLpk67C0")
        assert receipts.read("phones", bytes(range(16)), receipt)["b"] == "ann"
