from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hamid.model.quantities import (
    MAX_MEMORY_MIB,
    MemoryMib,
    MemoryPercent,
    QuantityError,
    parse_memory_mib,
    parse_quantity,
    parse_whole,
    resolve_memory_mib,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("0", 0, id="zero"),
        pytest.param("3000", 3000, id="a plain number"),
        pytest.param("+3", 3, id="a plus sign"),
        pytest.param("-1.5", Fraction(-3, 2), id="a negative fraction"),
        pytest.param(".5", Fraction(1, 2), id="no digit before the point"),
        pytest.param("5.", 5, id="no digit after the point"),
        pytest.param("1500m", Fraction(3, 2), id="milli"),
        pytest.param("7u", Fraction(7, 10**6), id="micro"),
        pytest.param("7n", Fraction(7, 10**9), id="nano"),
        pytest.param("3k", 3000, id="kilo"),
        pytest.param("2M", 2 * 10**6, id="mega"),
        pytest.param("2E", 2 * 10**18, id="exa, not an exponent"),
        pytest.param("3e3", 3000, id="an exponent"),
        pytest.param("3E3", 3000, id="a capital exponent"),
        pytest.param("3e-1", Fraction(3, 10), id="a negative exponent"),
        pytest.param("3Ki", 3072, id="kibi"),
        pytest.param("16.0Gi", 16 * 2**30, id="gibi with a fraction of zero"),
        pytest.param("1Ei", 2**60, id="exbi"),
    ],
)
def test_a_quantity_is_read_exactly(text, value):
    assert parse_quantity(text).value == value


@pytest.mark.parametrize(
    ("text", "is_binary"), [("3Ki", True), ("3k", False), ("3e3", False), ("3", False)]
)
def test_a_quantity_remembers_whether_its_suffix_was_binary(text, is_binary):
    assert parse_quantity(text).is_binary is is_binary


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "3 ",
        "3 Gi",
        "Gi",
        "3gi",
        "3ki",
        "3K",
        "3GiB",
        "3GB",
        "1,5",
        "0x10",
        "1e",
        "1e999",
        "--1",
        "3m3",
        "NaN",
        "inf",
        "٣",
        ".",
    ],
)
def test_text_outside_the_grammar_is_refused(text):
    with pytest.raises(QuantityError, match="is no quantity"):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        pytest.param("3000", 3000, id="a plain number counts MiB"),
        pytest.param("4k", 4000, id="a decimal suffix counts MiB"),
        pytest.param("16Gi", 16384, id="a binary suffix counts bytes"),
        pytest.param("16.0Gi", 16384, id="a fraction of zero changes nothing"),
        pytest.param("1.5Gi", 1536, id="a fraction that is whole in MiB"),
        pytest.param("512Mi", 512, id="mebibytes are MiB"),
        pytest.param("1024Ki", 1, id="one MiB in kibibytes"),
        pytest.param("1", 1, id="the least"),
        pytest.param("16Ti", MAX_MEMORY_MIB, id="the most"),
    ],
)
def test_memory_is_read_in_mib(text, mib):
    assert parse_memory_mib(text) == mib


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("0", "out of range"),
        ("-1", "out of range"),
        ("0Gi", "out of range"),
        ("999999999999", "out of range"),
        ("17Ti", "out of range"),
        ("1500m", "whole number of MiB"),
        ("3Ki", "whole number of MiB"),
        ("0.5", "whole number of MiB"),
        ("lots", "no quantity"),
        ("9" * 1000, "no quantity"),
    ],
)
def test_memory_that_is_no_positive_whole_of_mib_is_refused_with_what_is_allowed(text, reason):
    with pytest.raises(QuantityError, match=f"{reason}.*; allowed are 1 to 16777216 MiB") as caught:
        parse_memory_mib(text)

    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("text", "value"), [("0", 0), ("100", 100), ("1000m", 1), ("0.1k", 100), ("-0", 0)]
)
def test_a_whole_number_within_its_bounds_is_taken(text, value):
    assert parse_whole(text, minimum=0, maximum=100) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("101", "'101' is out of range"),
        ("-5", "'-5' is out of range"),
        ("1.5", "'1.5' is not a whole number"),
        ("many", "'many' is no quantity"),
    ],
)
def test_other_numbers_are_refused_with_what_is_allowed(text, reason):
    with pytest.raises(QuantityError, match=f"{reason}; allowed are whole numbers from 0 to 100"):
        parse_whole(text, minimum=0, maximum=100)


@given(st.integers(1, MAX_MEMORY_MIB))
def test_every_whole_mib_survives_both_ways_of_writing_it(mib):
    assert parse_memory_mib(str(mib)) == mib
    assert parse_memory_mib(f"{mib}Mi") == mib
    assert parse_memory_mib(f"{mib * 1024}Ki") == mib


@given(st.text())
def test_any_text_is_either_an_amount_or_refused(text):
    for parse in (parse_quantity, parse_memory_mib):
        try:
            parse(text)
        except QuantityError:
            continue


@pytest.mark.parametrize(
    ("request_", "device_mib", "mib"),
    [
        pytest.param(MemoryMib(mib=3000), 40_000, 3000, id="MiB are themselves"),
        pytest.param(MemoryPercent(percent=100), 40_960, 40_960, id="all of it"),
        pytest.param(MemoryPercent(percent=33), 1_000, 330, id="a share"),
        pytest.param(MemoryPercent(percent=33), 16_001, 5_280, id="a share rounds down"),
        pytest.param(MemoryPercent(percent=1), 50, 1, id="a share is never 0"),
    ],
)
def test_a_memory_request_in_mib_of_a_device(request_, device_mib, mib):
    assert resolve_memory_mib(request_, device_memory_mib=device_mib) == mib


def test_a_memory_request_of_another_kind_is_a_bug():
    with pytest.raises(AssertionError):
        resolve_memory_mib("half", device_memory_mib=1)
