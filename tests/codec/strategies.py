"""Generated values of the domain, as varied as the cluster's rules allow, and generated junk."""

from __future__ import annotations

from hypothesis import strategies as st

from hamid.model.allocation import ContainerAllocation, PodAllocation
from hamid.model.device import Device, DeviceMode, DeviceShare
from hamid.model.node import NodeInventory, sorted_devices
from hamid.model.request import ContainerKind

names = st.text("abcdefghijklmnopqrstuvwxyz0123456789-.", min_size=1, max_size=12)
uuids = names.map(lambda name: f"GPU-{name}")
int32 = st.integers(0, 2**31 - 1)

devices = st.builds(
    Device,
    device_uuid=uuids,
    device_index=st.integers(0, 64),
    model=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
    memory_mib=int32,
    core_percent=st.integers(0, 300),
    slot_count=st.integers(0, 100),
    numa_node=st.none() | st.integers(0, 8),
    mode=st.sampled_from(DeviceMode),
    is_healthy=st.booleans(),
)
inventories = st.lists(devices, max_size=5, unique_by=lambda device: device.device_uuid).map(
    lambda some: NodeInventory(node_name="node-1", devices=sorted_devices(some))
)

shares = st.builds(
    DeviceShare, device_uuid=uuids, memory_mib=int32, core_percent=st.integers(0, 100)
)


def containers(*, may_have_priority: bool = True) -> st.SearchStrategy[ContainerAllocation]:
    return st.builds(
        ContainerAllocation,
        container_name=names,
        kind=st.sampled_from(ContainerKind),
        shares=st.lists(shares, min_size=1, max_size=3).map(tuple),
        priority=st.none() | st.integers(0, 1) if may_have_priority else st.none(),
    )


def allocations(*, may_have_priority: bool = True) -> st.SearchStrategy[PodAllocation]:
    return st.builds(
        PodAllocation,
        pod_uid=names,
        node_name=names,
        containers=st.lists(
            containers(may_have_priority=may_have_priority),
            max_size=4,
            unique_by=lambda container: container.container_name,
        ).map(tuple),
    )


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(allow_nan=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=6,
)


def objects_with(*keys: str) -> st.SearchStrategy[dict[str, object]]:
    """Objects whose keys are right and whose values are anything, nested likewise."""
    values = st.recursive(
        json_values,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(keys), inner, max_size=len(keys))
        ),
        max_leaves=6,
    )
    return st.dictionaries(st.sampled_from(keys), values, max_size=len(keys))
