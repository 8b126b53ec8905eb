"""Bytes of a stream → its lines, without I/O.

An event holds a whole object, a Node easily 300 KiB, so lines are long and arrive in many pieces:
pieces are joined once per line. A line that never ends is an error, not a growing buffer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

# etcd refuses objects over 1.5 MiB and the API server requests over 3 MiB; JSON may be longer.
MAX_LINE_BYTES: Final = 16 * 1024 * 1024


class LineTooLong(ValueError):
    """The stream holds no line end for longer than any object can be."""


@dataclass(slots=True)
class LineSplitter:
    """Takes what arrives, gives the lines that are complete."""

    _pieces: list[bytes] = field(default_factory=list)
    _size_bytes: int = 0

    @property
    def pending_bytes(self) -> int:
        """How much of an unfinished line is held."""
        return self._size_bytes

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The lines that these bytes complete, without their ends and without empty ones."""
        *ends, rest = data.split(b"\n")
        for end in ends:
            line = b"".join((*self._pieces, end))
            self._pieces.clear()
            self._size_bytes = 0
            if line.strip():
                yield line
        if rest:
            self._pieces.append(rest)
            self._size_bytes += len(rest)
        if self._size_bytes > MAX_LINE_BYTES:
            raise LineTooLong(f"{self._size_bytes} bytes without a line end")
