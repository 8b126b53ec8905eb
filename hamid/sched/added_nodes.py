"""Nodes that are only supposed, as people describe them: like one that is there, or by what it has.

    gpu-7                                                like the node gpu-7, with nobody on it
    cards=8,model=NVIDIA A100-SXM4-80GB                  cards like those of that model in the cluster
    cards=4,cardmem=24Gi,model=L4,cpu=48,memory=192Gi    cards that the cluster does not know

Without `cpu` or `memory` the node has enough of both.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hamid.errors import RequestError
from hamid.model.device import Device, DeviceUsage, DeviceUuid, model_matches
from hamid.model.node import HostAmount, NodeSnapshot
from hamid.model.quantities import MIB, QuantityError, parse_memory_mib, parse_quantity, parse_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from fractions import Fraction
    from typing import TypeVar

    T = TypeVar("T")

WORDS: Final = ("cards", "model", "cardmem", "cpu", "memory")
MAX_CARDS: Final = 64
DEFAULT_SLOTS: Final = 10
_MILLI: Final = 1_000
_PLENTY: Final = HostAmount(cpu_milli=1 << 40, memory_mib=1 << 40)
_EXAMPLE: Final = "write the name of a node, or cards=8,model=A100,cardmem=80Gi,cpu=96,memory=1Ti"


def added_node(
    text: str,
    number: int,
    *,
    emptied: Callable[[str], NodeSnapshot | None],
    known: Iterable[Device],
) -> NodeSnapshot:
    """The node that the text describes.

    Args:
        text: see the module.
        number: among those that are supposed, from 1; its name says it.
        emptied: a node that is there, as it would be without any pod.
        known: the devices of the cluster.

    Raises:
        RequestError: the text describes none.
    """
    if "=" not in text:
        like = emptied(text)
        if like is None:
            raise RequestError(f"there is no node {text!r} to be like", hint=_EXAMPLE)
        return _renamed(like, number, f"like {text}")
    given = _words(text)
    count = _read(given, "cards", lambda t: parse_whole(t, minimum=1, maximum=MAX_CARDS))
    if count is None:
        raise RequestError(f"{text!r} does not say how many cards", hint=_EXAMPLE)
    card = _card(given, text, known)
    cpu = _read(given, "cpu", lambda t: int(_amount(t) * _MILLI))
    memory_mib = _read(given, "memory", lambda t: int(_amount(t)) // MIB)
    host = HostAmount(
        cpu_milli=_PLENTY.cpu_milli if cpu is None else cpu,
        memory_mib=_PLENTY.memory_mib if memory_mib is None else memory_mib,
    )
    devices = (replace(card, device_index=index) for index in range(count))
    known_host = None if cpu is None and memory_mib is None else host
    node = NodeSnapshot(
        node_name="",
        usages=tuple(DeviceUsage(device=device) for device in devices),
        host_free=known_host,
        host_capacity=known_host,
    )
    return _renamed(node, number, f"{count} x {card.model}")


def _renamed(node: NodeSnapshot, number: int, what: str) -> NodeSnapshot:
    """The node under a name, and its cards under UUIDs, that nothing in a cluster has."""
    devices = [
        replace(usage.device, device_uuid=DeviceUuid(f"+{number}-card-{position}"))
        for position, usage in enumerate(node.usages)
    ]
    return replace(
        node,
        node_name=f"+{number} ({what})",
        usages=tuple(DeviceUsage(device=device) for device in devices),
        cordoned=frozenset(
            device.device_uuid
            for device, usage in zip(devices, node.usages, strict=True)
            if usage.device.device_uuid in node.cordoned
        ),
    )


def _words(text: str) -> dict[str, str]:
    given: dict[str, str] = {}
    for part in text.split(","):
        word, is_given, value = (each.strip() for each in part.partition("="))
        if not is_given or not value or word not in WORDS or word in given:
            raise RequestError(
                f"{part.strip()!r} in {text!r} means nothing here",
                hint=f"use each of {', '.join(WORDS)} once at most, as WORD=VALUE",
            )
        given[word] = value
    return given


def _card(given: dict[str, str], text: str, known: Iterable[Device]) -> Device:
    """One card of the model: as in the cluster, and with as much memory as is said."""
    by_model = {device.model: device for device in known}
    model = given.get("model", "")
    alike = [model] if model in by_model else [m for m in by_model if model_matches(model, m)]
    memory_mib = _read(given, "cardmem", parse_memory_mib)
    if len(alike) == 1:
        card = replace(by_model[alike[0]], is_healthy=True, numa_node=None)
        return card if memory_mib is None else replace(card, memory_mib=memory_mib)
    if memory_mib is None:
        raise RequestError(
            f"{text!r} does not say how much memory a card has, and {model!r} is "
            f"{'more than one' if alike else 'no'} model of this cluster",
            hint=f"add cardmem=80Gi, or name one of the models {', '.join(sorted(by_model))}",
        )
    return Device(
        device_uuid=DeviceUuid(""),
        device_index=0,
        model=model or "card",
        memory_mib=memory_mib,
        slot_count=DEFAULT_SLOTS,
    )


def _amount(text: str) -> Fraction:
    value = parse_quantity(text).value
    if value < 0:
        raise QuantityError(f"{text!r} is negative; write 0 or more")
    return value


def _read(given: dict[str, str], word: str, parse: Callable[[str], T]) -> T | None:
    if word not in given:
        return None
    try:
        return parse(given[word])
    except QuantityError as error:
        raise RequestError(f"{word}: {error}", hint=_EXAMPLE) from error
