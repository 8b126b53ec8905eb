import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hamid.errors import AbiMismatch, HookError, PageCorrupt
from hamid.hooks.abi import usage
from hamid.hooks.abi.contract import DEVICES_MAX, SHARES_MAX, SLOTS_MAX, USAGE_VERSION
from hamid.hooks.abi.usage import ProcessUsage, UsageReport, decode_usage_page, used_part_bytes
from tests.hooks.abi.test_pages import CARD, INSTANCE, MIB


def usage_page(
    *slots: tuple[int, int, dict[int, int]],
    names: tuple[bytes, ...] = (CARD.encode(), INSTANCE.encode()),
    device_count: int | None = None,
    slots_end: int | None = None,
    **header: int,
) -> bytes:
    """A page with slots (state, pid, bytes by device index)."""
    version = header.get("abi_version", USAGE_VERSION)
    header_bytes = 4096 if version in (1, 2) else usage.USAGE_HEADER_BYTES
    size = header_bytes + SLOTS_MAX * usage.USAGE_SLOT_BYTES
    if version not in (1, 2, 3):
        size += SHARES_MAX * usage.USAGE_SHARE.size
    fields = {
        "magic": usage.USAGE_MAGIC,
        "abi_version": version,
        "size": size,
        "header_bytes": header_bytes,
        "slot_bytes": usage.USAGE_SLOT_BYTES,
        "slot_count": SLOTS_MAX,
        "device_capacity": DEVICES_MAX,
        "features": 0,
        **header,
    }
    page = bytearray(size)
    usage.USAGE_HEADER.pack_into(
        page,
        0,
        *fields.values(),
        len(names) if device_count is None else device_count,
        len(slots) if slots_end is None else slots_end,
        0,
        b"",
    )
    for index, name in enumerate(names):
        struct.pack_into("48s", page, 128 + index * 48, name)
    for index, (state, pid, used) in enumerate(slots):
        start = header_bytes + index * usage.USAGE_SLOT_BYTES
        usage.USAGE_SLOT.pack_into(page, start, state, pid, 1000 + pid, 42, 1, 0, b"")
        for device, used_bytes in used.items():
            usage.USAGE_CELL.pack_into(page, start + 64 + device * 16, used_bytes, 99)
    return bytes(page)


def process(slot_index: int, pid: int, *used: tuple[str, int]) -> ProcessUsage:
    return ProcessUsage(
        slot_index=slot_index,
        pid=pid,
        start_time_ticks=1000 + pid,
        pid_namespace=42,
        used_bytes_by_uuid=used,
    )


def test_a_report_has_each_process_and_what_it_holds():
    page = usage_page((1, 10, {0: 5 * MIB, 1: 7}), (0, 0, {}), (1, 11, {1: 8}), (1, 12, {}))

    report = decode_usage_page(page)

    assert report == UsageReport(
        processes=(
            process(0, 10, (CARD, 5 * MIB), (INSTANCE, 7)),
            process(2, 11, (INSTANCE, 8)),
            process(3, 12),
        )
    )
    assert report.used_bytes(INSTANCE) == 15
    assert report.used_bytes("GPU-unknown") == 0


def test_what_processes_have_open_of_one_that_ended_counts_for_the_container():
    page = usage_page((1, 10, {0: 5}), (3, 0, {0: 7, 1: 9}), (3, 0, {0: 1}))

    report = decode_usage_page(page)

    assert report.processes == (process(0, 10, (CARD, 5)),)
    assert report.left_bytes_by_uuid == ((CARD, 7), (INSTANCE, 9))
    assert (report.used_bytes(CARD), report.used_bytes(INSTANCE)) == (12, 9)


def test_the_part_in_use_is_enough_of_a_page():
    page = usage_page((1, 10, {0: MIB}), (1, 11, {1: 7}))

    used = page[: used_part_bytes(page[: usage.USAGE_HEADER_BYTES])]

    assert len(used) == usage.USAGE_HEADER_BYTES + 2 * usage.USAGE_SLOT_BYTES
    assert decode_usage_page(used) == decode_usage_page(page)
    with pytest.raises(PageCorrupt):
        decode_usage_page(used[:-1])


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        pytest.param(b"", 0, id="an empty file"),
        pytest.param(b"x" * 100, 100, id="less than a header"),
        pytest.param(usage_page(), usage.USAGE_HEADER_BYTES, id="a page that nobody joined"),
        pytest.param(
            usage_page(slots_end=2**32 - 1),
            usage.USAGE_HEADER_BYTES + SLOTS_MAX * usage.USAGE_SLOT_BYTES,
            id="more slots than there are",
        ),
    ],
)
def test_the_part_in_use_is_never_more_than_a_page(header, expected):
    assert used_part_bytes(header) == expected


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(b"", id="an empty file"),
        pytest.param(bytes(usage.USAGE_PAGE_BYTES), id="a page that is being made"),
        pytest.param(usage_page(), id="a page that nobody joined"),
        pytest.param(usage_page((2, 10, {0: MIB})), id="a process that said good-bye"),
        pytest.param(usage_page((4, 10, {0: MIB})), id="a state that there is not"),
        pytest.param(usage_page((3, 10, {0: MIB})), id="a process in the place of what is left"),
        pytest.param(usage_page((1, 0, {0: MIB})), id="a process without a pid"),
        pytest.param(usage_page((1, 2**31, {0: MIB})), id="a pid that there cannot be"),
    ],
)
def test_a_page_without_processes_reports_none(page):
    assert decode_usage_page(page) == UsageReport()


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_a_page_of_this_version_or_one_before_is_read(version):
    page = usage_page((1, 10, {0: MIB}), abi_version=version)
    used = page[: used_part_bytes(page[: usage.USAGE_HEADER_BYTES])]

    assert decode_usage_page(page).processes == (process(0, 10, (CARD, MIB)),)
    assert decode_usage_page(used) == decode_usage_page(page)


def test_what_else_holds_a_process_is_told_as_far_as_it_is_known():
    page = bytearray(usage_page((1, 10, {0: MIB})))
    struct.pack_into("<I", page, usage.USAGE_HEADER_BYTES + 32, 0xFFFFFF02)

    assert decode_usage_page(bytes(page)).processes[0].enforced == usage.Enforced.MPS


@pytest.mark.parametrize(
    ("page", "error"),
    [
        pytest.param(b"x", PageCorrupt, id="too short"),
        pytest.param(usage_page() + b"\0", PageCorrupt, id="too long"),
        pytest.param(usage_page(magic=5), PageCorrupt, id="another magic"),
        pytest.param(usage_page(abi_version=5), AbiMismatch, id="another version"),
        pytest.param(usage_page(features=1), AbiMismatch, id="a feature that we do not know"),
        pytest.param(usage_page(size=1), PageCorrupt, id="another size"),
        pytest.param(usage_page(slot_bytes=1), PageCorrupt, id="other slots"),
        pytest.param(usage_page(slot_count=2**32 - 1), PageCorrupt, id="more slots"),
    ],
)
def test_what_is_no_usage_page_is_refused(page, error):
    with pytest.raises(error):
        decode_usage_page(page)


def test_counts_beyond_the_page_are_clamped():
    page = usage_page((1, 10, {0: MIB}), device_count=2**32 - 1, slots_end=2**32 - 1)

    assert decode_usage_page(page).processes == (process(0, 10, (CARD, MIB)),)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"x" * 48, id="without an end"),
        pytest.param(b"GPU-\x1b[2J", id="with control characters"),
        pytest.param(b"GPU-\xff", id="not ASCII"),
        pytest.param(b"GPU-1\0x", id="with something behind its end"),
    ],
)
def test_a_device_whose_name_is_no_name_is_left_out(name):
    page = usage_page((1, 10, {0: MIB, 1: 7}), names=(name, INSTANCE.encode()))

    assert decode_usage_page(page).processes == (process(0, 10, (INSTANCE, 7)),)


def test_two_devices_of_one_name_are_added_up_within_bounds():
    twice = (CARD.encode(), CARD.encode())

    added = decode_usage_page(usage_page((1, 10, {0: 3, 1: 4}), names=twice))
    huge = decode_usage_page(usage_page((1, 10, {0: 2**64 - 1, 1: 2**64 - 1}), names=twice))

    assert added.used_bytes(CARD) == 7
    assert huge.used_bytes(CARD) == 2**63 - 1


@given(st.binary(max_size=9000), st.integers(0, 9000), st.booleans())
def test_any_bytes_are_a_usage_page_or_are_refused_as_none(noise, length, keeps_head):
    page = bytearray(usage_page()[:length].ljust(length, b"\0"))
    start = 48 if keeps_head else 0
    page[start : start + len(noise)] = noise

    for changed in (noise, bytes(page)):
        with contextlib.suppress(HookError):
            assert isinstance(decode_usage_page(changed), UsageReport)


@given(st.data())
def test_no_bytes_behind_a_good_header_make_the_reader_fail(data):
    page = bytearray(usage_page(device_count=64, slots_end=8))
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(128, 4096 + 8 * usage.USAGE_SLOT_BYTES - 64))
        noise = data.draw(st.binary(min_size=1, max_size=64))
        page[at : at + len(noise)] = noise

    report = decode_usage_page(bytes(page))

    assert all(0 < used < 2**63 for p in report.processes for _, used in p.used_bytes_by_uuid)
