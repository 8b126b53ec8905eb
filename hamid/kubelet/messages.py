"""The port's values ↔ the kubelet's messages. Nothing here talks.

`DeviceListEncoder` exists because the list is long and its encoding slow: a device that did not
change is not encoded again, and neither is a list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hamid.kubelet import v1beta1
from hamid.kubelet.constants import HEALTHY, MAX_MESSAGE_BYTES, UNHEALTHY
from hamid.kubelet.errors import CallFailed
from hamid.kubelet.port import (
    AdvertisedDevice,
    ContainerGrant,
    DeviceNode,
    Mount,
    PreferredRequest,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

_BYTES_PER_KIB: Final = 1024


def encode_device(device: AdvertisedDevice) -> v1beta1.Device:
    """Return the device as the kubelet is told of it."""
    topology = None
    if device.numa_nodes:
        nodes = [v1beta1.NumaNode(id=node) for node in device.numa_nodes]
        topology = v1beta1.TopologyInfo(nodes=nodes)
    health = HEALTHY if device.is_healthy else UNHEALTHY
    return v1beta1.Device(id=device.slot_id, health=health, topology=topology)


def decode_devices(message: v1beta1.ListAndWatchResponse) -> tuple[AdvertisedDevice, ...]:
    """Return the devices of a list."""
    return tuple(
        AdvertisedDevice(
            slot_id=device.id,
            is_healthy=device.health == HEALTHY,
            numa_nodes=tuple(node.id for node in device.topology.nodes) if device.topology else (),
        )
        for device in message.devices
    )


class EncodedDeviceList(bytes):
    """A ListAndWatchResponse that is bytes already; grpclib sends it as it is."""

    __slots__ = ()

    def SerializeToString(self) -> bytes:  # noqa: N802 - grpclib's codec calls it by this name
        """Return the bytes."""
        return bytes(self)


class DeviceListEncoder:
    """Encodes device lists, each device once for as long as it stays as it is."""

    def __init__(self) -> None:
        self._by_device: dict[AdvertisedDevice, bytes] = {}
        self._devices: tuple[AdvertisedDevice, ...] = ()
        self._encoded = EncodedDeviceList()
        self.encoded_device_count = 0

    def encode(self, devices: tuple[AdvertisedDevice, ...]) -> EncodedDeviceList:
        """Return the list's message; raises `CallFailed` when the kubelet could not take it."""
        if devices == self._devices:
            return self._encoded
        known = self._by_device
        # A repeated field's entries are simply one after another, so the parts can be joined.
        current = {device: known.get(device) or self._entry(device) for device in devices}
        encoded = EncodedDeviceList(b"".join(current[device] for device in devices))
        if len(encoded) > MAX_MESSAGE_BYTES:
            raise CallFailed(
                f"{len(devices)} slots make a device list of {len(encoded) // _BYTES_PER_KIB} KiB;"
                f" the kubelet takes {MAX_MESSAGE_BYTES // _BYTES_PER_KIB} KiB",
                hint="lower the number of slots per device (device-split-count)",
            )
        self._by_device, self._devices, self._encoded = current, devices, encoded
        return encoded

    def _entry(self, device: AdvertisedDevice) -> bytes:
        self.encoded_device_count += 1
        return bytes(v1beta1.ListAndWatchResponse(devices=[encode_device(device)]))


def decode_preferred_request(
    message: v1beta1.ContainerPreferredAllocationRequest,
) -> PreferredRequest:
    """Return what the kubelet asks."""
    return PreferredRequest(
        available=tuple(message.available_deviceIDs),
        must_include=tuple(message.must_include_deviceIDs),
        size=message.allocation_size,
    )


def encode_preferred_request(request: PreferredRequest) -> v1beta1.PreferredAllocationRequest:
    """Return the kubelet's question."""
    return v1beta1.PreferredAllocationRequest(
        container_requests=[
            v1beta1.ContainerPreferredAllocationRequest(
                available_deviceIDs=list(request.available),
                must_include_deviceIDs=list(request.must_include),
                allocation_size=request.size,
            )
        ]
    )


def encode_allocate_request(slot_ids: Iterable[str]) -> v1beta1.AllocateRequest:
    """Return the kubelet's request for one container: it never sends more in one call."""
    request = v1beta1.ContainerAllocateRequest(devices_ids=list(slot_ids))
    return v1beta1.AllocateRequest(container_requests=[request])


def encode_grant(grant: ContainerGrant) -> v1beta1.ContainerAllocateResponse:
    """Return the answer for one container."""
    return v1beta1.ContainerAllocateResponse(
        envs=dict(grant.envs),
        mounts=[
            v1beta1.Mount(
                container_path=mount.container_path,
                host_path=mount.host_path,
                read_only=mount.is_read_only,
            )
            for mount in grant.mounts
        ],
        devices=[
            v1beta1.DeviceSpec(
                container_path=node.container_path,
                host_path=node.host_path,
                permissions=node.permissions,
            )
            for node in grant.device_nodes
        ],
        annotations=dict(grant.annotations),
        cdi_devices=[v1beta1.CdiDevice(name=name) for name in grant.cdi_devices],
    )


def decode_grant(message: v1beta1.ContainerAllocateResponse) -> ContainerGrant:
    """Return the grant of one container."""
    return ContainerGrant(
        envs=dict(message.envs),
        mounts=tuple(
            Mount(
                container_path=mount.container_path,
                host_path=mount.host_path,
                is_read_only=mount.read_only,
            )
            for mount in message.mounts
        ),
        device_nodes=tuple(
            DeviceNode(
                container_path=node.container_path,
                host_path=node.host_path,
                permissions=node.permissions,
            )
            for node in message.devices
        ),
        annotations=dict(message.annotations),
        cdi_devices=tuple(device.name for device in message.cdi_devices),
    )
