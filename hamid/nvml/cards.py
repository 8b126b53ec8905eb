"""Listing and sampling cards: the blocking half, which runs in the client's asking thread."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

import structlog

from hamid.model.device import DeviceUuid
from hamid.nvml.binding import fault_of, if_supported, nvml, raise_if_driver_wide
from hamid.nvml.port import DeviceSample, MigInstance, NvmlDevice, ProcessLoad, ProcessMemory
from hamid.nvml.topology import Links, bus_id_of, pair_score

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

log = structlog.get_logger(__name__)

NUMA_WORDS: Final = 4
"""64 nodes each."""

WHOLE_CARD: Final = 0xFFFFFFFF
"""In place of an instance id: not on MIG."""

NVIDIA_VENDOR: Final = "0x10de"


@dataclass(slots=True, kw_only=True)
class Cards:
    """The cards seen so far, their facts and handles.

    The events' thread reads `handles` and `devices`: entries are added whole, none is removed.
    """

    host_root: Path
    devices: dict[DeviceUuid, NvmlDevice] = field(default_factory=dict)
    handles: dict[DeviceUuid, Any] = field(default_factory=dict)
    unreadable: dict[int, str] = field(default_factory=dict)
    loads_until_us: dict[DeviceUuid, int] = field(default_factory=dict)
    """Up to when processes' loads were told, by the driver's clock."""

    def list_devices(self) -> tuple[NvmlDevice, ...]:
        """Look for cards; those that cannot be read now keep the facts read before, if any."""
        unreadable = {}
        for index in range(nvml.nvmlDeviceGetCount()):
            try:
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
                device = _describe(handle, index=index, host_root=self.host_root)
            except nvml.NVMLError as error:
                raise_if_driver_wide(error)
                unreadable[index] = fault_of(error).reason
                continue
            self.devices[device.device_uuid] = device
            self.handles.setdefault(device.device_uuid, handle)
        if unreadable != self.unreadable:
            log.warning("cards unreadable", reason_by_index=unreadable)
            self.unreadable = unreadable
        return self._in_order()

    def _in_order(self) -> tuple[NvmlDevice, ...]:
        return tuple(sorted(self.devices.values(), key=lambda d: (d.device_index, d.device_uuid)))

    def sample_devices(self) -> tuple[DeviceSample, ...]:
        """One sample for each card seen so far."""
        nvml.nvmlDeviceGetCount()  # raises if there is no driver, also where there are no cards
        return tuple(
            _sample(device.device_uuid, self.handles[device.device_uuid])
            for device in self._in_order()
        )

    def sample_process_loads(self) -> tuple[ProcessLoad, ...]:
        """Who was busy since the last call, of the cards that tell."""
        nvml.nvmlDeviceGetCount()
        return tuple(
            load
            for device in self._in_order()
            if not device.mig_enabled
            for load in self._process_loads(device.device_uuid)
        )

    def sample_gpu_percents(self) -> dict[DeviceUuid, int]:
        """How busy each card is that tells."""
        nvml.nvmlDeviceGetCount()
        found = {}
        for device in self._in_order():
            try:
                load = if_supported(
                    nvml.nvmlDeviceGetUtilizationRates, self.handles[device.device_uuid]
                )
            except nvml.NVMLError as error:
                raise_if_driver_wide(error)
                continue  # what is wrong with it, its sample says
            if load is not None:
                found[device.device_uuid] = int(load.gpu)
        return found

    def _process_loads(self, uuid: DeviceUuid) -> list[ProcessLoad]:
        question, since_us = nvml.nvmlDeviceGetProcessUtilization, self.loads_until_us.get(uuid, 0)
        try:
            samples = if_supported(question, self.handles[uuid], since_us) or ()
        except nvml.NVMLError as error:
            raise_if_driver_wide(error)
            return []  # also when nobody was busy; what is wrong with a card, its sample says
        by_pid: dict[int, list[int]] = {}
        for sample in samples:
            by_pid.setdefault(sample.pid, []).append(sample.smUtil)
        # They come in no order.
        self.loads_until_us[uuid] = max([since_us, *(sample.timeStamp for sample in samples)])
        return [
            ProcessLoad(device_uuid=uuid, pid=pid, gpu_percent=sum(loads) / len(loads))
            for pid, loads in sorted(by_pid.items())
        ]

    def link_scores(self) -> dict[DeviceUuid, Mapping[DeviceUuid, int]]:
        """The score of each two cards, both ways; pairs with a failing card are left out."""
        links: dict[DeviceUuid, Links] = {}
        for device in self._in_order():
            try:
                links[device.device_uuid] = _links_of(self.handles[device.device_uuid])
            except nvml.NVMLError as error:
                raise_if_driver_wide(error)
        scores: dict[DeviceUuid, dict[DeviceUuid, int]] = {uuid: {} for uuid in links}
        for one, other in combinations(links, 2):
            try:
                score = self._score(one, other, links)
            except nvml.NVMLError as error:
                raise_if_driver_wide(error)
                continue
            scores[one][other] = scores[other][one] = score
        return dict(scores)

    def _score(self, one: DeviceUuid, other: DeviceUuid, links: Mapping[DeviceUuid, Links]) -> int:
        a, b = self.handles[one], self.handles[other]
        status = if_supported(nvml.nvmlDeviceGetP2PStatus, a, b, nvml.NVML_P2P_CAPS_INDEX_NVLINK)
        is_on_switch = status == nvml.NVML_P2P_STATUS_OK
        bus_id = {uuid: self.devices[uuid].pci_bus_id for uuid in (one, other)}
        level = if_supported(nvml.nvmlDeviceGetTopologyCommonAncestor, a, b)
        return pair_score(
            ancestor_level=nvml.NVML_TOPOLOGY_SYSTEM if level is None else level,
            links_there=links[one].count_to(bus_id[other], is_peer_on_switch=is_on_switch),
            links_back=links[other].count_to(bus_id[one], is_peer_on_switch=is_on_switch),
        )


def _describe(handle: Any, *, index: int, host_root: Path) -> NvmlDevice:
    bus_id = bus_id_of(nvml.nvmlDeviceGetPciInfo(handle).busId)
    mig_modes = if_supported(nvml.nvmlDeviceGetMigMode, handle)
    is_mig = mig_modes is not None and mig_modes[0] == nvml.NVML_DEVICE_MIG_ENABLE
    return NvmlDevice(
        device_uuid=DeviceUuid(nvml.nvmlDeviceGetUUID(handle)),
        device_index=index,
        minor=nvml.nvmlDeviceGetMinorNumber(handle),
        model=nvml.nvmlDeviceGetName(handle),
        memory_bytes=nvml.nvmlDeviceGetMemoryInfo(handle).total,
        pci_bus_id=bus_id,
        numa_node=_numa_node(handle, bus_id=bus_id, host_root=host_root),
        mig_enabled=is_mig,
        mig_instances=_instances_of(handle) if is_mig else (),
    )


def _numa_node(handle: Any, *, bus_id: str, host_root: Path) -> int | None:
    """The node near the card. `nvmlDeviceGetNumaNodeId` is another thing: the node its memory is."""
    words = if_supported(
        nvml.nvmlDeviceGetMemoryAffinity, handle, NUMA_WORDS, nvml.NVML_AFFINITY_SCOPE_NODE
    )
    nodes = [
        64 * i + bit for i, word in enumerate(words or ()) for bit in range(64) if word >> bit & 1
    ]
    if len(nodes) == 1:
        return nodes[0]
    folder = host_root / "sys/bus/pci/devices" / bus_id
    try:
        if (folder / "vendor").read_text().strip() != NVIDIA_VENDOR:
            return None
        node = int((folder / "numa_node").read_text())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


def _instances_of(card: Any) -> tuple[MigInstance, ...]:
    instances = []
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(card)):
        try:
            handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(card, index)
        except nvml.NVMLError_NotFound:
            continue
        name = nvml.nvmlDeviceGetName(handle)
        instances.append(
            MigInstance(
                device_uuid=DeviceUuid(nvml.nvmlDeviceGetUUID(handle)),
                profile=name.rpartition(" MIG ")[2],
                memory_bytes=nvml.nvmlDeviceGetMemoryInfo(handle).total,
                gpu_instance_id=nvml.nvmlDeviceGetGpuInstanceId(handle),
                compute_instance_id=nvml.nvmlDeviceGetComputeInstanceId(handle),
            )
        )
    return tuple(instances)


def _sample(device_uuid: DeviceUuid, handle: Any) -> DeviceSample:
    try:
        memory = if_supported(nvml.nvmlDeviceGetMemoryInfo, handle)
        load = if_supported(nvml.nvmlDeviceGetUtilizationRates, handle)
        return DeviceSample(
            device_uuid=device_uuid,
            memory_used_bytes=None if memory is None else memory.used,
            gpu_percent=None if load is None else load.gpu,
            memory_percent=None if load is None else load.memory,
            processes=_processes_of(handle),
        )
    except nvml.NVMLError as error:
        raise_if_driver_wide(error)
        return DeviceSample(device_uuid=device_uuid, fault=fault_of(error))


def _processes_of(handle: Any) -> tuple[ProcessMemory, ...]:
    """Compute and graphics processes, by pid; one that is both is listed once, as compute."""
    compute = if_supported(nvml.nvmlDeviceGetComputeRunningProcesses, handle) or ()
    graphics = if_supported(nvml.nvmlDeviceGetGraphicsRunningProcesses, handle) or ()
    found = {}
    for process in (*graphics, *compute):
        key = (process.pid, process.gpuInstanceId, process.computeInstanceId)
        found[key] = ProcessMemory(
            pid=process.pid,
            used_bytes=process.usedGpuMemory,
            gpu_instance_id=_unless_whole(process.gpuInstanceId),
            compute_instance_id=_unless_whole(process.computeInstanceId),
        )
    return tuple(found[key] for key in sorted(found))


def _unless_whole(instance_id: int) -> int | None:
    return None if instance_id == WHOLE_CARD else instance_id


def _links_of(handle: Any) -> Links:
    peers: Counter[str] = Counter()
    switch_count = 0
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        try:
            is_active = nvml.nvmlDeviceGetNvLinkState(handle, link)
        except (nvml.NVMLError_NotSupported, nvml.NVMLError_InvalidArgument):
            break  # the card has no more links
        if not is_active:
            continue
        kind = if_supported(nvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, link)
        if kind == nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
            switch_count += 1
        else:
            remote = nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link)
            peers[bus_id_of(remote.busId)] += 1
    return Links(by_peer_bus_id=peers, switch_count=switch_count)
