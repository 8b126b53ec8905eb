from hypothesis import given
from hypothesis import strategies as st

from hamid.hooks.abi.budgets import (
    USAGE_BUDGET,
    BudgetUse,
    decode_budget,
    decode_places,
)
from hamid.hooks.abi.usage import USAGE_HEADER_BYTES
from tests.hooks.abi.test_pages import CARD, INSTANCE
from tests.hooks.abi.test_usage import usage_page


def header(**fields) -> bytes:
    return usage_page(**fields)[:USAGE_HEADER_BYTES]


def test_a_header_says_where_the_budget_of_each_device_is():
    assert decode_places(header()) == {CARD: 3200, INSTANCE: 3264}


def test_what_is_no_header_of_this_version_has_no_budgets():
    assert decode_places(b"") == {}
    assert decode_places(header(abi_version=2)) == {}
    assert decode_places(header(magic=1)) == {}


def test_a_device_whose_name_is_no_name_has_none():
    assert decode_places(header(names=(b"\x1b", INSTANCE.encode()))) == {INSTANCE: 3264}


def test_more_devices_than_a_page_holds_are_left_out():
    assert set(decode_places(header(device_count=2**32 - 1))) == {CARD, INSTANCE}


def test_a_budget_says_what_was_used_wanted_and_waited_for():
    assert decode_budget(USAGE_BUDGET.pack(9, 5, 7, 6, b"")) == BudgetUse(
        due_ns=9, charged_ns=5, wanted_ns=7, waited_ns=6
    )


def test_a_device_that_was_never_wanted_has_no_use():
    assert decode_budget(USAGE_BUDGET.pack(9, 5, 0, 6, b"")) is None
    assert decode_budget(b"") is None
    assert decode_budget(bytes(63)) is None


@given(st.binary(max_size=9000), st.booleans())
def test_any_bytes_are_places_within_the_header_or_none(noise, keeps_head):
    content = header()[: 44 if keeps_head else 0] + noise
    content = content.ljust(USAGE_HEADER_BYTES, b"\xff")

    places = decode_places(content)

    assert all(0 < at <= USAGE_HEADER_BYTES - USAGE_BUDGET.size for at in places.values())
    for at in places.values():
        decode_budget(content[at : at + USAGE_BUDGET.size])
