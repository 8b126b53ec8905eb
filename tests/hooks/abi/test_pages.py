import struct
import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hamid.errors import AbiMismatch, HookError, PageCorrupt
from hamid.hooks.abi import pages
from hamid.hooks.abi.contract import DEVICES_MAX
from hamid.hooks.abi.pages import (
    ContainerLimits,
    CoreMode,
    DeviceLimit,
    decode_control_page,
    encode_control_page,
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
