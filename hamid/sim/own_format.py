"""Traces of our own: a JSON object a line, in the words of manifests.

    nodes   {"name": "n-0", "cards": 8, "model": "A100", "cardmem": "80Gi", "slots": 10,
             "cpu": "96", "memory": "1Ti"}
    tasks   {"name": "t-0", "gpu": 1, "gpumem": "16Gi", "gpumem-percentage": 50, "gpucores": 50,
             "models": ["A100"], "cpu": "4", "memory": "8Gi", "arrives_at_s": 0, "lasts_s": 60}

Of a node, `name`, `cards` and `cardmem` must be there, and `cpu` and `memory` both or neither: then
there is enough of them. Of a task, `name` must be there. What is left out counts as in a manifest: a
task without memory or cores asks for whole cards.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any, Final

from hamid.codec.jsontext import ShapeError, as_object, as_text, loads
from hamid.errors import TraceError
from hamid.model.device import Device, DeviceUuid
from hamid.model.node import NO_HOST, HostAmount
from hamid.model.quantities import (
    MAX_DEVICE_COUNT,
    MIB,
    WHOLE_CARD,
    MemoryMib,
    MemoryPercent,
    QuantityError,
    parse_memory_mib,
    parse_quantity,
    parse_whole,
)
from hamid.sim.workload import MILLI, SimNode, Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from fractions import Fraction
    from typing import TypeVar

    from hamid.model.quantities import MemoryRequest

    T = TypeVar("T")

NODE_KEYS: Final = ("name", "cards", "model", "cardmem", "slots", "cpu", "memory")
TASK_KEYS: Final = (
    "name",
    "gpu",
    "gpumem",
    "gpumem-percentage",
    "gpucores",
    "models",
    "cpu",
    "memory",
    "arrives_at_s",
    "lasts_s",
)


def read_nodes(lines: Iterable[str], *, source: str) -> tuple[SimNode, ...]:
    """The nodes, one a line.

    Raises:
        TraceError: a line cannot be read.
    """
    return _each(lines, source, NODE_KEYS, _node)


def read_tasks(lines: Iterable[str], *, source: str) -> tuple[Task, ...]:
    """The tasks, one a line.

    Raises:
        TraceError: a line cannot be read.
    """
    return _each(lines, source, TASK_KEYS, _task)


def _each(
    lines: Iterable[str], source: str, keys: tuple[str, ...], read: Callable[[dict[str, Any]], T]
) -> tuple[T, ...]:
    found = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            entry = as_object(loads(line), what="the line")
            _refuse_unknown(entry, keys)
            found.append(read(entry))
        except (ShapeError, QuantityError) as error:
            raise TraceError(
                f"{source}, line {number}: {error}", hint="mend the line, or leave it out"
            ) from error
    return tuple(found)


def _refuse_unknown(entry: dict[str, Any], keys: tuple[str, ...]) -> None:
    unknown = sorted(entry.keys() - set(keys))
    if unknown:
        raise ShapeError(f"{unknown[0]} is unknown; known are {', '.join(keys)}")


def _node(entry: dict[str, Any]) -> SimNode:
    name = as_text(entry.get("name"), what="name")
    count, memory_mib = _count(entry, "cards"), _amount(entry, "cardmem", parse_memory_mib)
    if count is None:
        raise ShapeError("cards is missing: how many cards the node has, 0 for none")
    if memory_mib is None:
        raise ShapeError("cardmem is missing: the memory of each card, such as 80Gi")
    host = _host(entry)
    if host is not None and (entry.get("cpu") is None or entry.get("memory") is None):
        raise ShapeError("of cpu and memory one is missing: give both, or neither")
    slots = _amount(entry, "slots", lambda text: parse_whole(text, minimum=1, maximum=1_000))
    return SimNode(
        name=name,
        devices=tuple(
            Device(
                device_uuid=DeviceUuid(f"{name}-gpu-{index}"),
                device_index=index,
                model=as_text(entry["model"], what="model") if entry.get("model") else "",
                memory_mib=memory_mib,
                slot_count=10 if slots is None else slots,
            )
            for index in range(count)
        ),
        host=host,
    )


def _task(entry: dict[str, Any]) -> Task:
    memory = _memory(entry)
    cores = _amount(entry, "gpucores", lambda text: parse_whole(text, minimum=0, maximum=100))
    if cores is None:
        cores = 100 if memory == WHOLE_CARD else 0
    count = _count(entry, "gpu")
    if count is None:
        count = int(any(key in entry for key in ("gpumem", "gpumem-percentage", "gpucores")))
    models = entry.get("models") or []
    if not isinstance(models, list):
        raise ShapeError("models is not a list")
    return Task(
        name=as_text(entry.get("name"), what="name"),
        device_count=count,
        memory=memory,
        core_percent=cores,
        models=tuple(as_text(model, what="models") for model in models),
        host=_host(entry) or NO_HOST,
        arrives_at_s=_seconds(entry, "arrives_at_s") or 0.0,
        lasts_s=_seconds(entry, "lasts_s"),
    )


def _memory(entry: dict[str, Any]) -> MemoryRequest:
    mib = _amount(entry, "gpumem", parse_memory_mib)
    if mib is not None:
        return MemoryMib(mib=mib)
    percent = _amount(
        entry, "gpumem-percentage", lambda text: parse_whole(text, minimum=1, maximum=100)
    )
    return WHOLE_CARD if percent is None else MemoryPercent(percent=percent)


def _count(entry: dict[str, Any], key: str) -> int | None:
    return _amount(entry, key, lambda text: parse_whole(text, minimum=0, maximum=MAX_DEVICE_COUNT))


def _seconds(entry: dict[str, Any], key: str) -> float | None:
    return _amount(entry, key, lambda text: float(_at_least_0(text)))


def _host(entry: dict[str, Any]) -> HostAmount | None:
    """Processors and main memory, where any is given; rounded up as kube-scheduler does."""
    cpu_milli = _amount(entry, "cpu", lambda text: ceil(_at_least_0(text) * MILLI))
    memory_mib = _amount(entry, "memory", lambda text: ceil(_at_least_0(text) / MIB))
    if cpu_milli is None and memory_mib is None:
        return None
    return HostAmount(cpu_milli=cpu_milli or 0, memory_mib=memory_mib or 0)


def _at_least_0(text: str) -> Fraction:
    value = parse_quantity(text).value
    if value < 0:
        raise QuantityError(f"{text!r} is below 0")
    return value


def _amount(entry: dict[str, Any], key: str, parse: Callable[[str], T]) -> T | None:
    if entry.get(key) is None:
        return None
    try:
        return parse(str(entry[key]))
    except QuantityError as error:
        raise QuantityError(f"{key}: {error}") from error
