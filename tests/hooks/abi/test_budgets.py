from hamid.hooks.abi.budgets import (
    USAGE_BUDGET,
    USAGE_BUDGETS_OFFSET,
    BudgetUse,
    decode_budgets,
)
from hamid.hooks.abi.pages import USAGE_HEADER_BYTES
from tests.hooks.abi.test_pages import CARD, INSTANCE, usage_page


def header_with(*budgets: tuple[int, int, int, int], **fields: int) -> bytes:
    page = bytearray(usage_page(**fields)[:USAGE_HEADER_BYTES])
    for index, budget in enumerate(budgets):
        at = USAGE_BUDGETS_OFFSET + index * USAGE_BUDGET.size
        USAGE_BUDGET.pack_into(page, at, *budget, b"")
    return bytes(page)


def test_a_header_says_what_was_used_of_each_device_that_was_wanted():
    header = header_with((9, 5, 7, 6), (1, 1, 0, 0))

    assert decode_budgets(header) == {
        CARD: BudgetUse(due_ns=9, charged_ns=5, wanted_ns=7, waited_ns=6)
    }


def test_all_devices_of_a_header_are_told_apart():
    header = header_with((9, 5, 7, 6), (1, 2, 3, 4))

    assert decode_budgets(header)[INSTANCE].charged_ns == 2


def test_what_is_no_header_of_this_version_says_nothing():
    assert decode_budgets(b"") == {}
    assert decode_budgets(header_with((9, 5, 7, 6), abi_version=2)) == {}
    assert decode_budgets(header_with((9, 5, 7, 6), magic=1)) == {}


def test_more_devices_than_a_page_holds_are_left_out():
    assert set(decode_budgets(header_with((9, 5, 7, 6), device_count=2**32 - 1))) == {CARD}
