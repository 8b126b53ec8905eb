"""A fleet whose nodes have one card of 16,000 MiB each, so that a handful of pods fills them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from hamid.codec.node_annotation import encode_node_inventory
from hamid.model.device import Device, DeviceUuid
from hamid.model.names import NODE_REGISTER
from hamid.model.node import NodeInventory
from tests.cluster.fleet import running_fleet
from tests.cluster.harness import skipped_without_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.fleet import Fleet

CARD_MIB: Final = 16_000


def inventory(node: str) -> NodeInventory:
    """What a node registers."""
    card = Device(
        device_uuid=DeviceUuid(f"card-of-{node}"),
        device_index=0,
        model="NVIDIA-T4",
        memory_mib=CARD_MIB,
        slot_count=10,
    )
    return NodeInventory(node_name=node, devices=(card,))


@contextmanager
def one_card_fleet(*, nodes: int, port: int) -> Iterator[Fleet]:
    """So many of them, for as long as the block lasts."""
    with skipped_without_cluster(), running_fleet(nodes=nodes, port=port) as fleet:
        for number in range(nodes):
            node = f"gpu-{number:04}"
            fleet.annotate_node(node, {NODE_REGISTER: encode_node_inventory(inventory(node))})
        yield fleet
