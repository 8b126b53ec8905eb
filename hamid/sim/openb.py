"""Traces in the format of openb (Alibaba's cluster-trace-gpu-v2023): CSV with a head line.

    nodes   sn,cpu_milli,memory_mib,gpu,model
    tasks   name,cpu_milli,memory_mib,num_gpu,gpu_milli[,gpu_spec,…,creation_time,deletion_time]

`gpu_milli` is per GPU, and stands for memory and cores at once: 460 asks for 46 % of both, 461 for
47 %. Without a `deletion_time`, or with one before its start, a task stays.
`gpu_spec` lists allowed models, `V100M16|V100M32`. The trace does not say how much memory the
GPUs have; `CARD_MEMORY_MIB` is assumed, and makes no difference as long as shares are asked for.
"""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Final

from hamid.errors import TraceError
from hamid.model.device import Device, DeviceUuid
from hamid.model.node import HostAmount
from hamid.model.quantities import WHOLE_CARD, MemoryPercent
from hamid.sim.workload import SimNode, Task

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CARD_MEMORY_MIB: Final = 16_000
SLOTS: Final = 100
NODE_COLUMNS: Final = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
TASK_COLUMNS: Final = ("name", "num_gpu", "gpu_milli", "cpu_milli", "memory_mib")
_MILLI_PER_PERCENT: Final = 10
_MAX_COUNT: Final = 64
_MAX_MILLI: Final = 1_000


def read_nodes(lines: Iterable[str], *, source: str) -> tuple[SimNode, ...]:
    """The nodes of a list.

    Raises:
        TraceError: a column is missing, or a value is not what it should be.
    """
    return tuple(_node(row) for row in _rows(lines, source, NODE_COLUMNS))


def read_tasks(lines: Iterable[str], *, source: str) -> tuple[Task, ...]:
    """The tasks of a list.

    Raises:
        TraceError: a column is missing, or a value is not what it should be.
    """
    return tuple(_task(row) for row in _rows(lines, source, TASK_COLUMNS))


class _Row:
    """One line, and how to speak of it."""

    def __init__(self, values: Mapping[str, str | None], where: str) -> None:
        self._values = values
        self._where = where

    def text(self, column: str) -> str:
        return (self._values.get(column) or "").strip()

    def name(self, column: str) -> str:
        text = self.text(column)
        if not text:
            raise TraceError(
                f"{self._where}: {column} is empty", hint="mend the line, or leave it out"
            )
        return text

    def whole(self, column: str, maximum: int = 1 << 40) -> int:
        text = self.text(column) or "0"
        try:
            value = int(text)
        except ValueError:
            value = -1
        if not 0 <= value <= maximum:
            raise TraceError(
                f"{self._where}: {column} is {text!r}, not a whole number from 0 to {maximum}",
                hint="mend the line, or leave it out",
            )
        return value


def _rows(lines: Iterable[str], source: str, columns: tuple[str, ...]) -> Iterable[_Row]:
    reader = csv.DictReader(lines)
    try:
        missing = [name for name in columns if name not in (reader.fieldnames or ())]
        if missing:
            raise TraceError(
                f"{source}: the head line has no column {missing[0]}",
                hint=f"needed are {', '.join(columns)}, as in the openb trace",
            )
        for values in reader:
            yield _Row(values, f"{source}, line {reader.line_num}")
    except csv.Error as error:
        raise TraceError(
            f"{source}, line {reader.line_num + 1}: {error}", hint="mend the line, or leave it out"
        ) from error


def _node(row: _Row) -> SimNode:
    name = row.name("sn")
    return SimNode(
        name=name,
        devices=tuple(
            Device(
                device_uuid=DeviceUuid(f"{name}-gpu-{index}"),
                device_index=index,
                model=row.text("model"),
                memory_mib=CARD_MEMORY_MIB,
                slot_count=SLOTS,
            )
            for index in range(row.whole("gpu", _MAX_COUNT))
        ),
        host=_host(row),
    )


def _task(row: _Row) -> Task:
    count = row.whole("num_gpu", _MAX_COUNT)
    percent = -(-row.whole("gpu_milli", _MAX_MILLI) // _MILLI_PER_PERCENT)
    created, deleted = row.whole("creation_time"), row.whole("deletion_time")
    return Task(
        name=row.name("name"),
        device_count=count if percent else 0,
        memory=WHOLE_CARD if percent in (0, 100) else MemoryPercent(percent=percent),
        core_percent=percent or 100,
        models=tuple(model for model in row.text("gpu_spec").split("|") if model),
        host=_host(row),
        arrives_at_s=created,
        lasts_s=deleted - created if deleted and deleted >= created else None,
    )


def _host(row: _Row) -> HostAmount:
    return HostAmount(cpu_milli=row.whole("cpu_milli"), memory_mib=row.whole("memory_mib"))
