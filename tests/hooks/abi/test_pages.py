import contextlib
import struct
import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hamid.errors import AbiMismatch, HookError, PageCorrupt
from hamid.hooks.abi import pages
from hamid.hooks.abi.contract import DEVICES_MAX, SLOTS_MAX
from hamid.hooks.abi.pages import (
    ContainerLimits,
    CoreMode,
    DeviceLimit,
    ProcessUsage,
    UsageReport,
    decode_control_page,
    decode_usage_page,
    encode_control_page,
    used_part_bytes,
)

CARD = "GPU-11111111-2222-3333-4444-555555555555"
INSTANCE = "MIG-22222222-2222-3333-4444-555555555555"
MIB = 1 << 20

LIMITS = ContainerLimits(
    devices=(
        DeviceLimit(device_uuid=CARD, memory_bytes=3000 * MIB, core_percent=30),
        DeviceLimit(device_uuid=INSTANCE, memory_bytes=None, weight=5),
    ),
    priority=1,
    generation=7,
    mode=CoreMode.LEND,
)

uuids = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=47)
device_limits = st.builds(
    DeviceLimit,
    device_uuid=uuids,
    memory_bytes=st.none() | st.integers(0, 2**64 - 2),
    core_percent=st.integers(0, 100),
    weight=st.integers(0, 2**32 - 1),
    context_bytes=st.integers(0, 2**64 - 1),
    fixed_bytes=st.none() | st.integers(0, 2**64 - 2),
)
container_limits = st.builds(
    ContainerLimits,
    devices=st.lists(device_limits, max_size=DEVICES_MAX, unique_by=lambda d: d.device_uuid).map(
        tuple
    ),
    priority=st.integers(0, 2**32 - 1),
    generation=st.integers(0, 2**64 - 1),
    mode=st.sampled_from(CoreMode),
    trusts_mps=st.booleans(),
)


# The control page.


def test_a_control_page_has_these_bytes():
    page = encode_control_page(LIMITS)

    assert page[:8] == b"HAMIDCTL"
    assert len(page) == 128 + 2 * 128
    assert struct.unpack_from("<IIIIII", page, 8) == (1, 384, 128, 128, 2, 1)
    assert struct.unpack_from("<QQI", page, 32) == (7, 0, 1)
    assert struct.unpack_from("<I", page, 52)[0] == zlib.crc32(page[:52] + bytes(4) + page[56:])
    assert page[128:176] == CARD.encode().ljust(48, b"\0")
    assert struct.unpack_from("<QII", page, 176) == (3000 * MIB, 30, 1)
    assert struct.unpack_from("<QII", page, 304) == (2**64 - 1, 0, 5)


def test_memory_terms_are_written_with_a_feature_bit_that_older_libraries_refuse():
    terms = replace(LIMITS.devices[0], context_bytes=300 * MIB, fixed_bytes=1500 * MIB)
    page = encode_control_page(replace(LIMITS, devices=(terms, LIMITS.devices[1])))

    assert struct.unpack_from("<Q", page, 40) == (pages.CONTROL_HAS_MEMORY_TERMS,)
    assert struct.unpack_from("<QQ", page, 192) == (300 * MIB, 1500 * MIB)
    assert struct.unpack_from("<QQ", page, 320) == (0, 2**64 - 1)


@given(container_limits)
def test_what_is_written_is_read_back(limits):
    assert decode_control_page(encode_control_page(limits)) == limits


@given(st.binary(max_size=600))
def test_any_other_bytes_are_refused(page):
    with pytest.raises(HookError):
        decode_control_page(page)


def test_every_flipped_bit_is_noticed():
    page = encode_control_page(LIMITS)
    for bit in range(len(page) * 8):
        damaged = bytearray(page)
        damaged[bit // 8] ^= 1 << bit % 8

        with pytest.raises((PageCorrupt, AbiMismatch)):
            decode_control_page(bytes(damaged))


def sealed(page: bytes, offset: int, patch: bytes) -> bytes:
    """A page with a change that its checksum does not betray."""
    changed = page[:offset] + patch + page[offset + len(patch) :]
    return pages._with_crc(changed)


@pytest.mark.parametrize(
    ("offset", "patch", "error"),
    [
        pytest.param(0, b"h", PageCorrupt, id="another magic"),
        pytest.param(8, b"\x02", AbiMismatch, id="another version"),
        pytest.param(47, b"\x80", AbiMismatch, id="a feature that we do not know"),
        pytest.param(12, b"\x00", PageCorrupt, id="another size"),
        pytest.param(16, b"\x40", PageCorrupt, id="a shorter header"),
        pytest.param(20, b"\x40", PageCorrupt, id="shorter devices"),
        pytest.param(24, b"\x01", PageCorrupt, id="fewer devices than there are"),
        pytest.param(24, b"\xff\xff\xff\xff", PageCorrupt, id="four billion devices"),
        pytest.param(28, b"\x03", PageCorrupt, id="a mode that we do not know"),
        pytest.param(56, b"\x01", PageCorrupt, id="flags without the feature"),
        pytest.param(127, b"\x01", PageCorrupt, id="something in reserved bytes"),
        pytest.param(192, b"\x01", PageCorrupt, id="a context's cost without its feature bit"),
        pytest.param(200, b"\x01", PageCorrupt, id="a real share without its feature bit"),
        pytest.param(255, b"\x01", PageCorrupt, id="something in a device's reserved bytes"),
        pytest.param(128, b"\0" * 48, PageCorrupt, id="a device without a name"),
        pytest.param(128, b"x" * 48, PageCorrupt, id="a name without an end"),
        pytest.param(130, b"\n", PageCorrupt, id="a name with a control character"),
        pytest.param(130, b"\xff", PageCorrupt, id="a name that is not ASCII"),
        pytest.param(175, b"x", PageCorrupt, id="a name with something behind its end"),
        pytest.param(184, b"\x65", PageCorrupt, id="101 percent"),
        pytest.param(256, CARD.encode(), PageCorrupt, id="one device twice"),
    ],
)
def test_a_page_that_no_correct_writer_writes_is_refused(offset, patch, error):
    with pytest.raises(error) as caught:
        decode_control_page(sealed(encode_control_page(LIMITS), offset, patch))

    assert type(caught.value) is error
    assert "delete" in caught.value.hint or "deleted" in caught.value.hint


DEVICE = LIMITS.devices[0]


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param(replace(LIMITS, devices=(DEVICE, DEVICE)), id="one device twice"),
        pytest.param(
            replace(
                LIMITS,
                devices=tuple(
                    replace(DEVICE, device_uuid=f"GPU-{n}") for n in range(DEVICES_MAX + 1)
                ),
            ),
            id="more devices than a page holds",
        ),
        pytest.param(replace(LIMITS, priority=-1), id="a negative priority"),
        pytest.param(replace(LIMITS, generation=2**64), id="a generation beyond 64 bits"),
        pytest.param(
            replace(LIMITS, devices=(replace(DEVICE, memory_bytes=-1),)), id="negative memory"
        ),
        pytest.param(
            replace(LIMITS, devices=(replace(DEVICE, memory_bytes=2**64 - 1),)),
            id="a limit that would read as none",
        ),
        pytest.param(
            replace(LIMITS, devices=(replace(DEVICE, core_percent=101),)), id="101 percent"
        ),
        pytest.param(
            replace(LIMITS, devices=(replace(DEVICE, weight=2**32),)), id="too large a weight"
        ),
        pytest.param(
            replace(LIMITS, devices=(replace(DEVICE, context_bytes=-1),)), id="a negative context"
        ),
        pytest.param(
            replace(LIMITS, devices=(replace(DEVICE, fixed_bytes=2**64 - 1),)),
            id="a real share that would read as none",
        ),
        pytest.param(replace(LIMITS, devices=(replace(DEVICE, device_uuid=""),)), id="no name"),
        pytest.param(
            replace(LIMITS, devices=(replace(DEVICE, device_uuid="x" * 48),)), id="a long name"
        ),
        pytest.param(
            replace(LIMITS, devices=(replace(DEVICE, device_uuid="GPU-é"),)), id="a name not ASCII"
        ),
    ],
)
def test_limits_that_do_not_fit_are_not_written(limits):
    with pytest.raises(HookError):
        encode_control_page(limits)


# The usage page.


def usage_page(
    *slots: tuple[int, int, dict[int, int]],
    names: tuple[bytes, ...] = (CARD.encode(), INSTANCE.encode()),
    device_count: int | None = None,
    slots_end: int | None = None,
    **header: int,
) -> bytes:
    """A page with slots (state, pid, bytes by device index)."""
    header_bytes = 4096 if header.get("abi_version") in (1, 2) else pages.USAGE_HEADER_BYTES
    size = header_bytes + SLOTS_MAX * pages.USAGE_SLOT_BYTES
    fields = {
        "magic": pages.USAGE_MAGIC,
        "abi_version": 3,
        "size": size,
        "header_bytes": header_bytes,
        "slot_bytes": pages.USAGE_SLOT_BYTES,
        "slot_count": SLOTS_MAX,
        "device_capacity": DEVICES_MAX,
        "features": 0,
        **header,
    }
    page = bytearray(size)
    pages.USAGE_HEADER.pack_into(
        page,
        0,
        *fields.values(),
        len(names) if device_count is None else device_count,
        len(slots) if slots_end is None else slots_end,
        b"",
    )
    for index, name in enumerate(names):
        struct.pack_into("48s", page, 128 + index * 48, name)
    for index, (state, pid, used) in enumerate(slots):
        start = header_bytes + index * pages.USAGE_SLOT_BYTES
        pages.USAGE_SLOT.pack_into(page, start, state, pid, 1000 + pid, 42, 1, 0, b"")
        for device, used_bytes in used.items():
            pages.USAGE_CELL.pack_into(page, start + 64 + device * 16, used_bytes, 99)
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


def test_the_part_in_use_is_enough_of_a_page():
    page = usage_page((1, 10, {0: MIB}), (1, 11, {1: 7}))

    used = page[: used_part_bytes(page[: pages.USAGE_HEADER_BYTES])]

    assert len(used) == pages.USAGE_HEADER_BYTES + 2 * pages.USAGE_SLOT_BYTES
    assert decode_usage_page(used) == decode_usage_page(page)
    with pytest.raises(PageCorrupt):
        decode_usage_page(used[:-1])


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        pytest.param(b"", 0, id="an empty file"),
        pytest.param(b"x" * 100, 100, id="less than a header"),
        pytest.param(usage_page(), pages.USAGE_HEADER_BYTES, id="a page that nobody joined"),
        pytest.param(
            usage_page(slots_end=2**32 - 1), pages.USAGE_PAGE_BYTES, id="more slots than there are"
        ),
    ],
)
def test_the_part_in_use_is_never_more_than_a_page(header, expected):
    assert used_part_bytes(header) == expected


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(b"", id="an empty file"),
        pytest.param(bytes(pages.USAGE_PAGE_BYTES), id="a page that is being made"),
        pytest.param(usage_page(), id="a page that nobody joined"),
        pytest.param(usage_page((2, 10, {0: MIB})), id="a process that said good-bye"),
        pytest.param(usage_page((3, 10, {0: MIB})), id="a state that there is not"),
        pytest.param(usage_page((1, 0, {0: MIB})), id="a process without a pid"),
        pytest.param(usage_page((1, 2**31, {0: MIB})), id="a pid that there cannot be"),
    ],
)
def test_a_page_without_processes_reports_none(page):
    assert decode_usage_page(page) == UsageReport()


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_page_of_this_version_or_one_before_is_read(version):
    page = usage_page((1, 10, {0: MIB}), abi_version=version)
    used = page[: used_part_bytes(page[: pages.USAGE_HEADER_BYTES])]

    assert decode_usage_page(page).processes == (process(0, 10, (CARD, MIB)),)
    assert decode_usage_page(used) == decode_usage_page(page)


def test_what_else_holds_a_process_is_told_as_far_as_it_is_known():
    page = bytearray(usage_page((1, 10, {0: MIB})))
    struct.pack_into("<I", page, pages.USAGE_HEADER_BYTES + 32, 0xFFFFFF02)

    assert decode_usage_page(bytes(page)).processes[0].enforced == pages.Enforced.MPS


@pytest.mark.parametrize(
    ("page", "error"),
    [
        pytest.param(b"x", PageCorrupt, id="too short"),
        pytest.param(usage_page() + b"\0", PageCorrupt, id="too long"),
        pytest.param(usage_page(magic=5), PageCorrupt, id="another magic"),
        pytest.param(usage_page(abi_version=4), AbiMismatch, id="another version"),
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
        at = data.draw(st.integers(128, 4096 + 8 * pages.USAGE_SLOT_BYTES - 64))
        noise = data.draw(st.binary(min_size=1, max_size=64))
        page[at : at + len(noise)] = noise

    report = decode_usage_page(bytes(page))

    assert all(0 < used < 2**63 for p in report.processes for _, used in p.used_bytes_by_uuid)
