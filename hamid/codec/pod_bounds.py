"""How much a pod may ask for at all: what no pod needs would stand in the way of all others.

The API server takes so many bytes of annotations on a pod, names and values together. When a pod is
bound it does not look, but at each change of the pod after that: one with too many would run, and
its kubelet could never say so. So a pod needs room for what is decided about it beside its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hamid.model.names import WRITTEN_BY_US

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hamid.model.request import ContainerRequest

MAX_ASKING: Final = 256
"""Containers of one pod that ask for devices."""
MAX_ENTRIES: Final = 256
"""Of a list in an annotation; each card is held against each."""
MAX_ANNOTATION_BYTES: Final = 256 * 1024

# What a decision takes at most, in our record and in HAMi's words together.
_ANY: Final = 1_000
_A_CONTAINER: Final = 64
_A_SHARE: Final = 192


def size_problems(
    requests: Sequence[ContainerRequest], annotations: Mapping[str, str], *, container_count: int
) -> Iterator[str]:
    """What is too much of the pod, a sentence each.

    Args:
        requests: of the containers that ask for devices.
        annotations: of the pod; those that a decision replaces do not count.
        container_count: all of them.
    """
    if not requests:
        return
    if len(requests) > MAX_ASKING:
        yield f"{len(requests)} containers ask for devices; allowed are {MAX_ASKING}"
        return
    given = sum(
        _bytes(key) + _bytes(text) for key, text in annotations.items() if key not in WRITTEN_BY_US
    )
    needed = _ANY + 2 * container_count
    for asking in requests:
        needed += _A_CONTAINER + len(asking.container_name) + _A_SHARE * asking.device_count
    if given + needed > MAX_ANNOTATION_BYTES:
        yield (
            f"the pod's annotations take {given} bytes, and what is decided about it may take "
            f"{needed} more; it can have {MAX_ANNOTATION_BYTES} in all"
        )


def _bytes(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))
