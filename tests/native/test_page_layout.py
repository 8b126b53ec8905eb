"""The two hand-written sides of the pages and paths agree: C as compiled, Python as imported."""

import json
import struct
import subprocess

import pytest

from hamid.hooks.abi import budgets, contract, live, pages, usage

pytestmark = pytest.mark.native

HEADER = "magic abi_version size_bytes header_bytes"
CONTROL_TAIL = "feature_bits priority crc32 flags reserved"
TABLES = "device_count slots_high_water shares_high_water"
FIELDS = {
    "hamid_control": (
        pages.CONTROL_HEADER,
        f"{HEADER} device_bytes device_count mode generation {CONTROL_TAIL}",
    ),
    "hamid_control_device": (
        pages.CONTROL_DEVICE,
        "uuid memory_limit_bytes core_percent weight context_bytes fixed_limit_bytes reserved",
    ),
    "hamid_live": (
        live.LIVE_HEADER,
        f"{HEADER} device_bytes device_count padding heartbeat_ns generation reserved",
    ),
    "hamid_live_device": (live.LIVE_DEVICE, "uuid rate_permille flags uncounted_bytes"),
    "hamid_budget": (budgets.USAGE_BUDGET, "due_ns charged_ns wanted_ns waited_ns reserved"),
    "hamid_usage": (
        usage.USAGE_HEADER,
        f"{HEADER} slot_bytes slot_count device_capacity feature_bits {TABLES} reserved",
    ),
    "hamid_usage_slot": (
        usage.USAGE_SLOT,
        "state pid start_time_ticks pid_namespace generation enforced reserved",
    ),
    "hamid_usage_cell": (usage.USAGE_CELL, "used_bytes pending_bytes"),
    "hamid_usage_share": (
        usage.USAGE_SHARE,
        "key size_bytes maker cell fixed_cell reserved users",
    ),
}


@pytest.fixture(scope="module")
def layout(native_build):
    printed = subprocess.run(
        [str(native_build / "bin/print_page_layout")], check=True, capture_output=True, text=True
    ).stdout
    return json.loads(printed)


def offsets_and_sizes(fields: struct.Struct):
    """[offset, size] of each item of a format."""
    offset = 0
    text = fields.format.removeprefix("<")
    items = []
    number = ""
    for char in text:
        if char.isdigit():
            number += char
            continue
        count = int(number or 1)
        items += [f"{count}s"] if char == "s" else [char] * count
        number = ""
    for item in items:
        size = struct.calcsize(f"<{item}")
        yield [offset, size]
        offset += size


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_lies_where_the_other_side_has_it(layout, name):
    fields, names = FIELDS[name]

    python = dict(zip(names.split(), offsets_and_sizes(fields), strict=True))
    c = {field: layout[f"{name}.{field}"] for field in python}

    assert python == c


def test_the_parts_are_as_long_as_the_other_side_has_them(layout):
    assert layout["hamid_control"] == pages.CONTROL_HEADER.size
    assert layout["hamid_control_device"] == pages.CONTROL_DEVICE.size
    assert layout["hamid_control.crc32"][0] == pages.CONTROL_CRC_OFFSET
    assert layout["hamid_usage"] == usage.USAGE_HEADER_BYTES
    assert layout["hamid_usage.device_uuids"] == [
        usage.USAGE_HEADER.size,
        contract.DEVICES_MAX * pages.UUID_BYTES,
    ]
    assert layout["hamid_usage.budgets"] == [
        budgets.USAGE_BUDGETS_OFFSET,
        contract.DEVICES_MAX * budgets.USAGE_BUDGET.size,
    ]
    assert layout["hamid_usage_slot"] == usage.USAGE_SLOT_BYTES
    assert layout["hamid_usage_slot.cells"] == [
        usage.USAGE_SLOT.size,
        contract.DEVICES_MAX * usage.USAGE_CELL.size,
    ]


def test_words_of_the_live_page_are_where_the_other_side_has_them(layout):
    heartbeat_offset, _ = layout["hamid_live.heartbeat_ns"]
    rate_offset, _ = layout["hamid_live_device.rate_permille"]

    assert heartbeat_offset == live.WORD * live.HEARTBEAT_WORD
    assert layout["hamid_live"] + layout["hamid_live_device"] * 3 + rate_offset == (
        live.WORD * live.rate_word(3)
    )


def test_numbers_and_paths_are_the_same_on_both_sides(layout):
    python = {
        "HAMID_ABI_VERSION": contract.ABI_VERSION,
        "HAMID_USAGE_VERSION": contract.USAGE_VERSION,
        "HAMID_LIVE_VERSION": contract.LIVE_VERSION,
        "HAMID_LIVE_MAGIC": live.LIVE_MAGIC,
        "HAMID_LIVE_STALE_NS": contract.LIVE_STALE_NS,
        "HAMID_LIVE_BYTES_MAX": live.LIVE_BYTES_MAX,
        "HAMID_LIVE_CONTENDED": live.CONTENDED,
        "HAMID_RATE_UNSAID": live.RATE_UNSAID,
        "HAMID_RATE_STOP": live.RATE_STOP,
        "HAMID_RATE_MAX_PERMILLE": live.RATE_MAX_PERMILLE,
        "HAMID_CONTROL_HAS_FLAGS": pages.CONTROL_HAS_FLAGS,
        "HAMID_FLAG_TRUST_MPS": pages.FLAG_TRUST_MPS,
        "HAMID_ENFORCED_MIG": usage.Enforced.MIG,
        "HAMID_ENFORCED_MPS": usage.Enforced.MPS,
        "HAMID_ENFORCED_DMEM": usage.Enforced.DMEM,
        "HAMID_SEEN_MPS": usage.Enforced.MPS_CLAIMED,
        "HAMID_CONTROL_HAS_MEMORY_TERMS": pages.CONTROL_HAS_MEMORY_TERMS,
        "HAMID_FIXED_SUFFIX": usage.FIXED_SUFFIX,
        "HAMID_CONTROL_MAGIC": pages.CONTROL_MAGIC,
        "HAMID_USAGE_MAGIC": usage.USAGE_MAGIC,
        "HAMID_UUID_BYTES": pages.UUID_BYTES,
        "HAMID_DEVICES_MAX": contract.DEVICES_MAX,
        "HAMID_SLOTS_MAX": contract.SLOTS_MAX,
        "HAMID_SHARES_MAX": contract.SHARES_MAX,
        "HAMID_UNLIMITED": pages.UNLIMITED,
        "HAMID_USAGE_BYTES": usage.USAGE_PAGE_BYTES,
        "HAMID_LOCK_SLOW": contract.LOCK_SLOW_OFFSET,
        "HAMID_LOCK_SLOT(0)": contract.slot_lock_offset(0),
        "HAMID_SLOT_FREE": usage.SLOT_FREE,
        "HAMID_SLOT_ACTIVE": usage.SLOT_ACTIVE,
        "HAMID_SLOT_EXITING": usage.SLOT_EXITING,
        "HAMID_SLOT_LEFT": usage.SLOT_LEFT,
        "HAMID_MODE_HARD": pages.CoreMode.HARD,
        "HAMID_MODE_LEND": pages.CoreMode.LEND,
        "HAMID_MODE_PRIORITY": pages.CoreMode.PRIORITY,
        "HAMID_LIMITS_DIR": contract.LIMITS_DIR,
        "HAMID_CONTROL_FILE": contract.CONTROL_PAGE_NAME,
        "HAMID_LIVE_FILE": contract.LIVE_PAGE_NAME,
        "HAMID_USAGE_DIR": contract.USAGE_DIR,
        "HAMID_USAGE_FILE": contract.USAGE_PAGE_NAME,
        "HAMID_ENV_LOG": contract.ENV_LOG,
    }

    assert {name: layout[name] for name in python} == python
