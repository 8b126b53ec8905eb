"""A container's live page as a file: made beside its control page, then written word by word.

It stays mapped, and each word is stored whole, so a library never reads half a rate. The file is in
a directory that only the host writes.
"""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from hamid.errors import HookError
from hamid.hooks.abi import contract
from hamid.hooks.abi.live import (
    CONTENDED,
    HEARTBEAT_WORD,
    decode_live_page,
    encode_live_page,
    flags_word,
    rate_word,
    uncounted_word,
)
from hamid.hooks.files import replace_file

if TYPE_CHECKING:
    from pathlib import Path

    from hamid.hooks.abi.pages import ContainerLimits

_MODE = 0o644


@dataclass(slots=True, kw_only=True)
class LivePage:
    """An open page; made by `open`."""

    _mapped: mmap.mmap
    _words: memoryview

    @classmethod
    def open(cls, limits_dir: Path, limits: ContainerLimits) -> Self:
        """Open the page that goes with these limits; one that does not is replaced.

        Raises:
            OSError: the disk does not take it.
        """
        path = limits_dir / contract.LIVE_PAGE_NAME
        uuids = tuple(device.device_uuid for device in limits.devices)
        if not _is_of(path, uuids, limits.generation):
            page = encode_live_page(uuids, generation=limits.generation)
            replace_file(path, page, mode=_MODE)
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            mapped = mmap.mmap(descriptor, 0)
        finally:
            os.close(descriptor)
        return cls(_mapped=mapped, _words=memoryview(mapped).cast("Q"))

    def say(self, device_index: int, rate: int, *, is_contended: bool) -> None:
        """Store the rate of the device with this index in the control page."""
        self._words[flags_word(device_index)] = CONTENDED if is_contended else 0
        self._words[rate_word(device_index)] = rate

    def say_uncounted(self, device_index: int, uncounted_bytes: int) -> None:
        """Store what the container holds of the device beyond what it is charged."""
        self._words[uncounted_word(device_index)] = uncounted_bytes

    def beat(self, now_ns: int) -> None:
        """Say that somebody still decides."""
        self._words[HEARTBEAT_WORD] = now_ns

    def close(self) -> None:
        """Let go of the file; without a heartbeat it soon counts for nothing."""
        self._words.release()
        self._mapped.close()


def _is_of(path: Path, uuids: tuple[str, ...], generation: int) -> bool:
    try:
        found = decode_live_page(path.read_bytes())
    except (OSError, HookError):
        return False
    return found.generation == generation and tuple(u for u, _ in found.rate_by_uuid) == uuids
