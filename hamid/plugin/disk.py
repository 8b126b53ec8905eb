"""What goes wrong with our own files on this node, in our words."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from hamid.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def needing_the_disk(what: str, *, then: str = "") -> Iterator[None]:
    """Say of an error of the disk what cannot be done for it, and what to do once it is mended."""
    try:
        yield
    except OSError as error:
        is_in_the_way = isinstance(error, NotADirectoryError | FileExistsError | IsADirectoryError)
        mend = (
            f"move away what is in the way at {error.filename}"
            if is_in_the_way
            else "free or mend that disk of the node"
        )
        raise StateError(
            f"{what}: {error.strerror or error}", hint=f"{mend}{then and f', then {then}'}"
        ) from error
