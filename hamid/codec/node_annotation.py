"""What a node says of its devices, in all formats that the field has written.

Formats of the registration, told apart by their first character and their number of fields:

    5  id,count,memory,type,health:                        k8s-vgpu-scheduler to 2.2
    6  id,count,memory,cores,type,health:                  … 2.3.0 to 2.3.4
    7  id,count,memory,cores,type,numa,health:             … 2.3.5 on, HAMi 2.4
    9  id,count,memory,cores,type,numa,health,index,mode:  HAMi 2.5 to 2.7
    JSON  a list of objects, zero values left out           HAMi 2.8 on; the one that we write

Memory is MiB and cores are percent, both after scaling. What a format lacks: cores 100, no NUMA
node, index in the order of writing, mode `hami-core`. A NUMA node below 0 is none, and none is
written as -1: in JSON a missing one is node 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hamid.codec.jsontext import (
    INT32_MAX,
    ShapeError,
    as_bool,
    as_int,
    as_list,
    as_object,
    as_text,
    dumps,
    loads,
    quoted,
)
from hamid.errors import AnnotationError
from hamid.model.device import WHOLE_DEVICE_PERCENT, Device, DeviceMode, DeviceUuid
from hamid.model.node import NodeInventory, sorted_devices

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hamid.codec.jsontext import JsonObject

_CSV_LAYOUTS: Final = {
    5: ("id", "count", "devmem", "type", "health"),
    6: ("id", "count", "devmem", "devcore", "type", "health"),
    7: ("id", "count", "devmem", "devcore", "type", "numa", "health"),
    9: ("id", "count", "devmem", "devcore", "type", "numa", "health", "index", "mode"),
}
_NO_NUMA: Final = -1


def decode_node_inventory(text: str, *, node_name: str) -> NodeInventory:
    """The devices that the node registers.

    Raises:
        AnnotationError: it cannot be read as any of the formats.
    """
    try:
        is_json = text.lstrip()[:1] in ("[", "{")
        devices = _json_devices(text) if is_json else _csv_devices(text)
        _refuse_doubles(device.device_uuid for device in devices)
    except ShapeError as error:
        raise AnnotationError(
            f"node {node_name!r} registers its devices in text that cannot be read: "
            f"{error}: {quoted(text)}",
            hint="see which device plugin writes it and upgrade that; it registers anew by itself",
        ) from error
    return NodeInventory(node_name=node_name, devices=sorted_devices(devices))


def encode_node_inventory(inventory: NodeInventory) -> str:
    """HAMi's current JSON, sorted, with the same bytes for the same devices."""
    return dumps([_json_entry(device) for device in sorted_devices(inventory.devices)]).decode()


def decode_link_scores(text: str) -> dict[DeviceUuid, dict[DeviceUuid, int]]:
    """How well pairs of a node's devices are linked: device → other device → score."""
    try:
        entries = as_list(loads(text), what="the JSON")
        scores = [_link_scores(entry, what=f"entry {n}") for n, entry in enumerate(entries)]
        _refuse_doubles(uuid for uuid, _ in scores)
    except ShapeError as error:
        raise AnnotationError(
            f"link scores cannot be read: {error}: {quoted(text)}",
            hint="the device plugin of the node writes them; upgrade it, or switch scores off",
        ) from error
    return dict(scores)


def encode_link_scores(scores: Mapping[DeviceUuid, Mapping[DeviceUuid, int]]) -> str:
    """HAMi's JSON of the scores, sorted by UUID."""
    return dumps(
        [{"uuid": uuid, "score": dict(sorted(scores[uuid].items()))} for uuid in sorted(scores)]
    ).decode()


def decode_cordon(text: str) -> frozenset[DeviceUuid]:
    """The devices that the operator keeps free: UUIDs separated by commas."""
    return frozenset(DeviceUuid(entry.strip()) for entry in text.split(",") if entry.strip())


def _link_scores(value: object, *, what: str) -> tuple[DeviceUuid, dict[DeviceUuid, int]]:
    entry = as_object(value, what=what)
    uuid = DeviceUuid(as_text(entry.get("uuid"), what=f"{what}: uuid"))
    pairs = as_object(entry.get("score") or {}, what=f"{what}: score")
    return uuid, {
        DeviceUuid(other): as_int(score, what=f"{what}: score of {other}")
        for other, score in pairs.items()
    }


def _refuse_doubles(uuids: Iterable[DeviceUuid]) -> None:
    seen: set[DeviceUuid] = set()
    for uuid in uuids:
        if uuid in seen:
            raise ShapeError(f"device {uuid} appears twice")
        seen.add(uuid)


def _json_devices(text: str) -> tuple[Device, ...]:
    entries = as_list(loads(text), what="the JSON")
    return tuple(
        _device(as_object(entry, what=f"entry {index}"), what=f"entry {index}", index=0)
        for index, entry in enumerate(entries)
    )


def _csv_devices(text: str) -> tuple[Device, ...]:
    if ":" not in text:
        raise ShapeError("it is neither JSON nor entries that end with ':'")
    return tuple(_csv_device(entry, position=n) for n, entry in enumerate(_csv_entries(text)))


def _csv_entries(text: str) -> Iterable[str]:
    *entries, rest = text.split(":")
    if rest.strip():
        raise ShapeError("the last entry does not end with ':'")
    return (entry for entry in entries if entry.strip())


def _csv_device(entry: str, *, position: int) -> Device:
    what = f"entry {position}"
    fields = [text.strip() for text in entry.split(",")]
    layout = _CSV_LAYOUTS.get(len(fields))
    if layout is None:
        raise ShapeError(f"{what} has {len(fields)} fields; known are 5, 6, 7 and 9")
    texts = dict(zip(layout, fields, strict=True))
    values: JsonObject = {key: texts[key] for key in ("id", "type")}
    for key in ("count", "devmem", "devcore", "numa", "index"):
        if key in texts:
            values[key] = _int_of(texts[key], what=f"{what}: {key}")
    values["health"] = _bool_of(texts["health"], what=f"{what}: health")
    values["mode"] = texts.get("mode", DeviceMode.HAMI_CORE.value)
    values.setdefault("devcore", WHOLE_DEVICE_PERCENT)
    values.setdefault("numa", _NO_NUMA)
    return _device(values, what=what, index=position)


def _device(values: JsonObject, *, what: str, index: int) -> Device:
    def number(key: str, default: int = 0, minimum: int = 0) -> int:
        return as_int(values.get(key, default), what=f"{what}: {key}", minimum=minimum)

    numa = number("numa", minimum=-INT32_MAX)
    return Device(
        device_uuid=DeviceUuid(as_text(values.get("id"), what=f"{what}: id")),
        device_index=number("index", default=index),
        model=as_text(values.get("type"), what=f"{what}: type"),
        memory_mib=number("devmem"),
        core_percent=number("devcore"),
        slot_count=number("count"),
        numa_node=None if numa < 0 else numa,
        mode=_mode_of(values.get("mode", DeviceMode.HAMI_CORE.value), what=f"{what}: mode"),
        is_healthy=as_bool(values.get("health", False), what=f"{what}: health"),
    )


def _json_entry(device: Device) -> JsonObject:
    entry: JsonObject = {
        "id": device.device_uuid,
        "index": device.device_index,
        "count": device.slot_count,
        "devmem": device.memory_mib,
        "devcore": device.core_percent,
        "type": device.model,
        "numa": _NO_NUMA if device.numa_node is None else device.numa_node,
        "mode": device.mode.value,
        "health": device.is_healthy,
    }
    return {key: value for key, value in entry.items() if value}


def _int_of(text: str, *, what: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 10):  # noqa: PLR2004 - int32
        raise ShapeError(f"{what} is {quoted(text)}, not a whole number")
    return int(text)


def _bool_of(text: str, *, what: str) -> bool:
    if text not in ("true", "false"):
        raise ShapeError(f"{what} is {quoted(text)}, not true or false")
    return text == "true"


def _mode_of(value: object, *, what: str) -> DeviceMode:
    mode = as_text(value, what=what)
    if mode not in tuple(DeviceMode):
        raise ShapeError(f"{what} is {quoted(mode)}; known are {', '.join(DeviceMode)}")
    return DeviceMode(mode)
