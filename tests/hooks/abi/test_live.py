import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hamid.errors import AbiMismatch, HookError, PageCorrupt
from hamid.hooks.abi.live import (
    HEARTBEAT_WORD,
    RATE_STOP,
    RATE_UNSAID,
    LiveRates,
    decode_live_page,
    encode_live_page,
    rate_word,
    uncounted_word,
)

CARDS = ("GPU-1", "GPU-2")


def test_a_new_page_says_nothing():
    page = encode_live_page(CARDS, generation=7)

    assert decode_live_page(page) == LiveRates(
        generation=7,
        heartbeat_ns=0,
        rate_by_uuid=(("GPU-1", RATE_UNSAID), ("GPU-2", RATE_UNSAID)),
        uncounted_bytes=(0, 0),
    )


def test_words_that_are_stored_in_place_are_read_back():
    words = memoryview(bytearray(encode_live_page(CARDS, generation=7))).cast("Q")
    words[HEARTBEAT_WORD] = 123
    words[rate_word(0)] = 300
    words[rate_word(1)] = RATE_STOP
    words[uncounted_word(1)] = 4096

    assert decode_live_page(words.tobytes()) == LiveRates(
        generation=7,
        heartbeat_ns=123,
        rate_by_uuid=(("GPU-1", 300), ("GPU-2", RATE_STOP)),
        uncounted_bytes=(0, 4096),
    )


@pytest.mark.parametrize(
    ("offset", "patch", "error"),
    [
        pytest.param(0, b"h", PageCorrupt, id="another magic"),
        pytest.param(8, b"\x01", AbiMismatch, id="another version"),
        pytest.param(12, b"\x01", PageCorrupt, id="another size"),
        pytest.param(16, b"\x40", PageCorrupt, id="a shorter header"),
        pytest.param(24, b"\x01", PageCorrupt, id="fewer devices"),
    ],
)
def test_what_is_no_live_page_is_refused(offset, patch, error):
    page = encode_live_page(CARDS, generation=7)
    changed = page[:offset] + patch + page[offset + len(patch) :]

    with pytest.raises(error) as caught:
        decode_live_page(changed)

    assert type(caught.value) is error


def test_a_page_that_is_cut_off_is_refused():
    with pytest.raises(HookError):
        decode_live_page(encode_live_page(CARDS, generation=7)[:-1])
    with pytest.raises(HookError):
        decode_live_page(struct.pack("<Q", 5))


@given(st.binary(max_size=400), st.integers(0, 40))
def test_any_bytes_are_a_live_page_or_are_refused_as_none(noise, kept):
    page = encode_live_page(CARDS, generation=7)
    behind_the_head = page[:kept] + noise[: len(page) - kept]

    for changed in (noise, behind_the_head + page[len(behind_the_head) :]):
        with contextlib.suppress(HookError):
            assert isinstance(decode_live_page(changed), LiveRates)
