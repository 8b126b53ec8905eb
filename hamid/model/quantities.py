"""Amounts, exactly: the Kubernetes quantity grammar, MiB and percent.

Source of the grammar: the `Quantity` type of Kubernetes' apimachinery. Values are parsed as
exact fractions; nothing is rounded, and nothing that is not a whole number of its unit is taken.

What a suffix means in a field that is counted in MiB (`parse_memory_mib`):

    3000     3000 MiB        a plain number, or one with a decimal suffix or exponent,
    3k       3000 MiB        counts MiB, as in HAMi
    16Gi     16384 MiB       a binary suffix (Ki, Mi, Gi, …) makes it an amount of bytes,
    16.0Gi   16384 MiB       which must be a whole number of MiB
    512Mi    512 MiB
    3Ki      refused         3072 bytes are no whole number of MiB

Read literally, `16Gi` would be 16 Gi MiB, more than any card has: whoever writes it means bytes.
The API server may rewrite `1024Mi` as `1Gi`; both readings above survive that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final, assert_never

MIB: Final = 1024 * 1024
MAX_MEMORY_MIB: Final = 16 * 1024 * 1024
"""16 TiB on one card: more is a slip of the pen."""
MAX_DEVICE_COUNT: Final = 64
"""Cards in one container: more than any node has is a slip of the pen."""

_QUOTE_LIMIT: Final = 64
_BINARY: Final = {
    suffix: 1024**n for n, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)
}
_DECIMAL: Final = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
}
_QUANTITY: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<number>\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})"
    r"(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?\d{1,2}))?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """An exact amount, and whether a binary suffix (Ki, Mi, …) was used to write it."""

    value: Fraction
    is_binary: bool


class QuantityError(ValueError):
    """Text that is no quantity, or one out of its range; says what would be right.

    Not a `HamidError`: only the caller knows which container and field to name.
    """


@lru_cache(maxsize=4_096)
def parse_quantity(text: str) -> Quantity:
    """Return the exact amount that a Kubernetes quantity denotes: `1500m` is 3/2."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise QuantityError(f"{_quoted(text)} is no quantity; write a number such as 3000")
    value = Fraction(
        match["number"] if not match["number"].startswith(".") else "0" + match["number"]
    )
    if match["sign"] == "-":
        value = -value
    if match["exponent"] is not None:
        return Quantity(value=value * Fraction(10) ** int(match["exponent"]), is_binary=False)
    suffix = match["suffix"] or ""
    if suffix in _BINARY:
        return Quantity(value=value * _BINARY[suffix], is_binary=True)
    return Quantity(value=value * _DECIMAL[suffix], is_binary=False)


def parse_whole(text: str, *, minimum: int, maximum: int) -> int:
    """Return the whole number that the quantity denotes, if it lies within the bounds."""
    allowed = f"allowed are whole numbers from {minimum} to {maximum}"
    value = _exact(text, allowed).value
    if value.denominator != 1:
        raise QuantityError(f"{_quoted(text)} is not a whole number; {allowed}")
    if not minimum <= value <= maximum:
        raise QuantityError(f"{_quoted(text)} is out of range; {allowed}")
    return int(value)


def parse_memory_mib(text: str) -> int:
    """Return the MiB that the quantity denotes, 1 to `MAX_MEMORY_MIB`; see the module's table."""
    allowed = f"allowed are 1 to {MAX_MEMORY_MIB} MiB, such as 3000 or 16Gi"
    quantity = _exact(text, allowed)
    mib = quantity.value / MIB if quantity.is_binary else quantity.value
    if mib.denominator != 1:
        raise QuantityError(f"{_quoted(text)} is not a whole number of MiB; {allowed}")
    if not 1 <= mib <= MAX_MEMORY_MIB:
        raise QuantityError(f"{_quoted(text)} is out of range; {allowed}")
    return int(mib)


def _exact(text: str, allowed: str) -> Quantity:
    try:
        return parse_quantity(text)
    except QuantityError:
        raise QuantityError(f"{_quoted(text)} is no quantity; {allowed}") from None


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _QUOTE_LIMIT else text[:_QUOTE_LIMIT] + "…")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryMib:
    """Device memory asked for in MiB per device."""

    mib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPercent:
    """Device memory asked for as a share of each device, 1 to 100 percent."""

    percent: int


MemoryRequest = MemoryMib | MemoryPercent

WHOLE_CARD: Final = MemoryPercent(percent=100)


def resolve_memory_mib(request: MemoryRequest, *, device_memory_mib: int) -> int:
    """Return the request in MiB on this device; a percentage rounds down, but never to 0."""
    match request:
        case MemoryMib(mib=mib):
            return mib
        case MemoryPercent(percent=percent):
            return max(device_memory_mib * percent // 100, 1)
        case _:
            assert_never(request)
