"""The kubelet's device books: which ids exist, which are in use, who holds what.

Knows no socket. Keeps the real kubelet's quirk that the ids in use are recomputed from what is
recorded, as soon as a pod has ended: ids of an Allocate that still runs then count as free.
"""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import orjson

from hamid.kubelet import v1beta1

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Mapping

    from hamid.kubelet.port import AdvertisedDevice


class AllocationRefused(Exception):
    """The kubelet rejects the pod, in its own words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What one container holds of one resource."""

    pod_uid: str
    container_name: str
    resource_name: str
    slot_ids_by_numa: Mapping[int, tuple[str, ...]]
    response: bytes

    @property
    def slot_ids(self) -> tuple[str, ...]:
        """The ids, each once."""
        ids = (slot_id for part in self.slot_ids_by_numa.values() for slot_id in part)
        return tuple(dict.fromkeys(ids))


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """A resource as the node's status shows it."""

    capacity: int
    allocatable: int


@dataclass(slots=True, kw_only=True)
class Selection:
    """Ids being chosen for one container."""

    resource_name: str
    required: int
    taken: list[str]
    candidates: list[str]

    @property
    def needed(self) -> int:
        """How many ids are still to be chosen."""
        return self.required - len(self.taken)


@dataclass(slots=True, kw_only=True)
class DeviceBooks:
    """The books of all resources of the node."""

    rng: random.Random
    devices: dict[str, dict[str, AdvertisedDevice]] = field(default_factory=dict)
    recorded: dict[tuple[str, str, str], Recorded] = field(default_factory=dict)
    in_use: dict[str, set[str]] = field(default_factory=dict)

    def replace_devices(self, resource_name: str, devices: Iterable[AdvertisedDevice]) -> None:
        """Take a plugin's list in place of the last one."""
        self.devices[resource_name] = {device.slot_id: device for device in devices}

    def mark_unhealthy(self, resource_name: str) -> None:
        """Keep the ids, count none as healthy: the plugin went away."""
        known = self.devices.get(resource_name, {}).values()
        self.replace_devices(resource_name, [replace(device, is_healthy=False) for device in known])

    def capacity(self, resource_name: str) -> Capacity:
        """Return the numbers of the node's status."""
        devices = self.devices.get(resource_name, {}).values()
        healthy = sum(device.is_healthy for device in devices)
        return Capacity(capacity=len(devices), allocatable=healthy)

    def release_inactive(self, active_uids: Iterable[str]) -> None:
        """Free what pods hold that are no longer active."""
        active = set(active_uids)
        gone = [key for key, entry in self.recorded.items() if entry.pod_uid not in active]
        for key in gone:
            del self.recorded[key]
        if gone:
            self.recompute()

    def recompute(self) -> None:
        """Derive the ids in use from what is recorded."""
        self.in_use = {}
        for entry in self.recorded.values():
            self.in_use.setdefault(entry.resource_name, set()).update(entry.slot_ids)

    def begin(
        self, key: tuple[str, str, str], *, required: int, reusable: Iterable[str]
    ) -> Selection | None:
        """Begin to choose ids; None when they are on record. Raises `AllocationRefused`."""
        uid, container_name, resource_name = key
        held = self.recorded.get(key)
        if held is not None and len(held.slot_ids) != required:
            raise AllocationRefused(
                f'pod "{uid}" container "{container_name}" changed request for resource'
                f' "{resource_name}" from {len(held.slot_ids)} to {required}'
            )
        devices = self.devices.get(resource_name)
        if devices is None:
            raise AllocationRefused(f"cannot allocate unregistered device {resource_name}")
        healthy = {slot_id for slot_id, device in devices.items() if device.is_healthy}
        if not healthy:
            raise AllocationRefused(
                f"no healthy devices present; cannot allocate unhealthy devices {resource_name}"
            )
        if held is not None:
            if not healthy.issuperset(held.slot_ids):
                raise AllocationRefused(
                    "previously allocated devices are no longer healthy; cannot allocate"
                    f" unhealthy devices {resource_name}"
                )
            return None
        used = self.in_use.setdefault(resource_name, set())
        taken = self.shuffled(reusable)[:required]
        used.update(taken)
        candidates = self.shuffled(healthy - used)
        needed = required - len(taken)
        if len(candidates) < needed:
            raise AllocationRefused(
                f"requested number of devices unavailable for {resource_name}."
                f" Requested: {needed}, Available: {len(candidates)}"
            )
        return Selection(
            resource_name=resource_name, required=required, taken=taken, candidates=candidates
        )

    def finish(self, selection: Selection, preferred: Iterable[str]) -> tuple[str, ...]:
        """Take the preferred ids as far as they were offered, then any; return the choice."""
        offered = set(selection.candidates)
        wanted = [slot_id for slot_id in dict.fromkeys(preferred) if slot_id in offered]
        for slot_id in (*wanted, *selection.candidates):
            if selection.needed and slot_id not in selection.taken:
                selection.taken.append(slot_id)
        self.in_use.setdefault(selection.resource_name, set()).update(selection.taken)
        return tuple(self.shuffled(selection.taken))

    def record(
        self, key: tuple[str, str, str], slot_ids: Iterable[str], response: bytes
    ) -> Recorded:
        """Write down what a container was given."""
        uid, container_name, resource_name = key
        by_numa: dict[int, tuple[str, ...]] = {}
        devices = self.devices.get(resource_name, {})
        for slot_id in slot_ids:
            device = devices.get(slot_id)
            for node in (device.numa_nodes if device else ()) or (-1,):
                by_numa[node] = (*by_numa.get(node, ()), slot_id)
        entry = self.recorded[key] = Recorded(
            pod_uid=uid,
            container_name=container_name,
            resource_name=resource_name,
            slot_ids_by_numa=by_numa,
            response=response,
        )
        return entry

    def held_by(self, uid: str, container_name: str) -> tuple[Recorded, ...]:
        """Return what one container holds, by resource."""
        return tuple(
            entry
            for entry in self.recorded.values()
            if (entry.pod_uid, entry.container_name) == (uid, container_name)
        )

    def shuffled(self, ids: Iterable[str]) -> list[str]:
        """Return the ids in an order that means nothing, the same for the same seed."""
        ordered = sorted(ids)
        self.rng.shuffle(ordered)
        return ordered

    def encode_checkpoint(self) -> bytes:
        """Return the checkpoint file's content."""
        data = {
            "PodDeviceEntries": [
                {
                    "PodUID": entry.pod_uid,
                    "ContainerName": entry.container_name,
                    "ResourceName": entry.resource_name,
                    "DeviceIDs": {str(n): ids for n, ids in entry.slot_ids_by_numa.items()},
                    "AllocResp": base64.b64encode(entry.response).decode(),
                }
                for entry in self.recorded.values()
            ]
            or None,
            "RegisteredDevices": {
                name: self.shuffled(d.slot_id for d in devices.values() if d.is_healthy)
                for name, devices in self.devices.items()
            },
        }
        checksum = zlib.crc32(orjson.dumps(data))
        return orjson.dumps({"Data": data, "Checksum": checksum})

    def restore(self, content: bytes) -> None:
        """Begin anew from a checkpoint: allocations as recorded, resources known but empty."""
        data: Any = orjson.loads(content)["Data"]
        self.devices = {name: {} for name in data["RegisteredDevices"] or ()}
        self.recorded = {}
        for entry in data["PodDeviceEntries"] or ():
            key = (entry["PodUID"], entry["ContainerName"], entry["ResourceName"])
            self.recorded[key] = Recorded(
                pod_uid=entry["PodUID"],
                container_name=entry["ContainerName"],
                resource_name=entry["ResourceName"],
                slot_ids_by_numa={int(n): tuple(ids) for n, ids in entry["DeviceIDs"].items()},
                response=base64.b64decode(entry["AllocResp"]),
            )
        self.recompute()


def decode_response(entry: Recorded) -> v1beta1.ContainerAllocateResponse:
    """Return the recorded answer of the plugin."""
    return v1beta1.ContainerAllocateResponse.FromString(entry.response)
