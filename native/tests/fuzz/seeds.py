"""Writes what the fuzzed readers start from into a directory: one small file a case, in <target>/.

Made of the daemon's own encoders each time, so that they are pages of today's version.

    python -m native.tests.fuzz.seeds DIRECTORY
"""

import struct
import sys
from pathlib import Path

from hamid.hooks.abi.live import LIVE_DEVICE, LIVE_HEADER, encode_live_page
from hamid.hooks.abi.pages import (
    UUID_BYTES,
    ContainerLimits,
    CoreMode,
    DeviceLimit,
    encode_control_page,
)
from hamid.hooks.abi.usage import USAGE_SLOT_BYTES

CARD = "GPU-11111111-2222-3333-4444-555555555555"
INSTANCE = "MIG-22222222-2222-3333-4444-555555555555"
AS_IT_IS, MADE_RIGHT = b"\0", b"\1"

# fuzz_usage.c: where a record writes, and the fields of the first slot.
HEADER, ANYWHERE_IN_IT, SLOTS, SHARES = 0, 1 << 30, 2 << 30, 3 << 30
STATE, START_TIME, NAMESPACE, USED, PENDING = 0, 1, 2, 8, 9
_SLOT_WORDS = USAGE_SLOT_BYTES // 8
EMPTY, GOOD, GOOD_BUT_CUT, GOOD_AND_ALIVE = b"\0", b"\1", b"\3", b"\5"


def control_seeds() -> dict[str, bytes]:
    """A byte (is the checksum to be made right), then a page."""
    plain = DeviceLimit(device_uuid=CARD, memory_bytes=3000 << 20, core_percent=30)
    terms = DeviceLimit(
        device_uuid=CARD, memory_bytes=3000 << 20, context_bytes=300 << 20, fixed_bytes=1 << 30
    )
    pages = {
        "none": ContainerLimits(devices=(), priority=0, generation=1),
        "one": ContainerLimits(devices=(plain,), priority=1, generation=2),
        "terms": ContainerLimits(devices=(terms,), priority=1, generation=3),
        "two": ContainerLimits(
            devices=(plain, DeviceLimit(device_uuid=INSTANCE, memory_bytes=None, weight=5)),
            priority=1,
            generation=4,
            mode=CoreMode.PRIORITY,
            trusts_mps=True,
        ),
    }
    seeds = {name: MADE_RIGHT + encode_control_page(limits) for name, limits in pages.items()}
    head = bytearray(encode_control_page(pages["none"]))
    struct.pack_into("<I", head, 12, len(head) + 65 * 128)
    struct.pack_into("<I", head, 24, 65)
    cards = [f"GPU-{number}".encode().ljust(128, b"\0") for number in range(65)]
    return seeds | {
        "as-it-is": AS_IT_IS + seeds["two"][1:],
        "empty": AS_IT_IS,
        "too-many": MADE_RIGHT + bytes(head) + b"".join(cards),
    }


def live_seeds() -> dict[str, bytes]:
    """A byte (does its heart beat), then a page."""
    page = encode_live_page((CARD, INSTANCE), generation=7)
    head, rate = LIVE_HEADER.size, LIVE_HEADER.size + UUID_BYTES
    size = LIVE_DEVICE.size
    return {
        "unsaid": MADE_RIGHT + page,
        "rate": MADE_RIGHT + page[:rate] + struct.pack("<Q", 500) + page[rate + 8 :],
        "stop": MADE_RIGHT + page[:rate] + b"\xff" * 8 + page[rate + 8 :],
        "stale": AS_IT_IS + page,
        "short": MADE_RIGHT + page[:-1],
        "empty": AS_IT_IS,
        "too-many": MADE_RIGHT
        + page[:12]
        + struct.pack("<IIIII", head + 65 * size, head, size, 65, 0)
        + page[32:head]
        + page[head : head + size] * 65,
    }


def _record(region: int, word: int, value: int) -> bytes:
    return struct.pack("<IQ", region | word, value)


def usage_seeds() -> dict[str, bytes]:
    """A byte (what to begin with), then records of what is written where."""
    alive = _record(SLOTS, STATE, 1 | 1 << 32)
    second = _SLOT_WORDS
    two = alive + _record(SLOTS, second + STATE, 1 | 2 << 32)
    share = [_record(SHARES, 0, 1), _record(SHARES, 1, 1 << 62), _record(SHARES, 2, 1 | 65 << 32)]
    halves = _record(SLOTS, USED, 1 << 63) + _record(SLOTS, second + USED, 1 << 63)
    return {
        "new": EMPTY,
        "good": GOOD,
        "cut": GOOD_BUT_CUT + b"\0\x20\0",
        "halves": GOOD_AND_ALIVE + two + halves,
        "alive": GOOD_AND_ALIVE + two + _record(SLOTS, USED, 30 << 20),
        "held": GOOD + alive + _record(SLOTS, USED, 50 << 20),
        "announced": GOOD + alive + _record(SLOTS, PENDING, 2**64 - 1),
        "other-namespace": GOOD + alive + _record(SLOTS, NAMESPACE, 7),
        "reused-pid": GOOD + alive + _record(SLOTS, START_TIME, 1) + _record(SLOTS, USED, 1 << 52),
        "many-slots": GOOD + _record(HEADER, 5, 64 | 0xFFFFFFFF << 32),
        "other-version": GOOD + _record(HEADER, 1, 2 | 0x1000 << 32),
        "share": GOOD + alive + _record(HEADER, 6, 1) + b"".join(share),
        "share-of-none": GOOD + _record(HEADER, 6, 2**32 - 1) + b"".join(share[:2]),
        "name-without-end": GOOD
        + b"".join(_record(ANYWHERE_IN_IT, 16 + i, 0x4141414141414141) for i in range(6)),
    }


def surroundings_seeds() -> dict[str, bytes]:
    """A byte that says what it is, then the text."""
    fields = " ".join(str(n) for n in range(4, 45))
    return {
        "stat": b"\x80" + f"42 (a program) S {fields}\n".encode(),
        "stat-named-oddly": b"\x80" + f"42 (a ) R 1 (b)) Z {fields}\n".encode(),
        "stat-cut": b"\x80" + b"42 (sh) S 1 2 3",
        "name": b"\x40" + CARD.encode(),
        "percent": b"\x03" + b"33.5",
        "percent-exponent": b"\x02" + b"1e1",
        "dmem": b"\x04" + b"drm/0000:03:00.0/vram0 max\ndrm/1 1073741824\n",
        "device": b"\x08" + INSTANCE.encode(),
    }


def budget_seeds() -> dict[str, bytes]:
    """Due, now, cost, correction, rate."""
    now = 10**12
    words = {
        "start": (now, now, 10**6, 0, 300),
        "debt": (now + 10**9, now, 10**6, 10**9, 300),
        "credit": (0, now, 10**6, 2**64 - 10**6, 999),
        "nonsense": (2**64 - 1, now, 2**64 - 1, 1 << 63, 0),
    }
    return {
        name: struct.pack("<QQQQH", due, time << 2, cost, more, rate)
        for name, (due, time, cost, more, rate) in words.items()
    }


SEEDS = {
    "budget": budget_seeds,
    "control": control_seeds,
    "live": live_seeds,
    "surroundings": surroundings_seeds,
    "usage": usage_seeds,
}
"""Those of each target."""


def write_seeds(directory: Path) -> None:
    """Write all of them, and nothing else remains there."""
    for target, seeds in SEEDS.items():
        place = directory / target
        place.mkdir(parents=True, exist_ok=True)
        for path in place.iterdir():
            path.unlink()
        for name, content in seeds().items():
            (place / name).write_bytes(content)


if __name__ == "__main__":
    write_seeds(Path(sys.argv[1]))
