"""What it costs to read and write the texts that hamid exchanges: microseconds a text.

All of them are read or written once a pod or once a change of a node; the leader of a large
cluster reads those of every node and pod when it begins to lead.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import orjson

from benchmarks.report import asked, emit
from benchmarks.scenarios import CONTAINER, CORE_PERCENT, MEMORY_MIB, pod_object, registered
from benchmarks.stand import BenchmarkFailed
from hamid.codec.allocation_record import decode_allocation, encode_allocation
from hamid.codec.extender import (
    FilterResult,
    decode_filter_args,
    encode_filter_result,
    encode_priorities,
)
from hamid.codec.node_annotation import decode_node_inventory, encode_node_inventory
from hamid.codec.pod_annotation import encode_hami_annotations
from hamid.codec.pod_request import decode_pod_request
from hamid.model.allocation import ContainerAllocation, PodAllocation
from hamid.model.device import DeviceShare
from hamid.model.names import ResourceNames
from hamid.model.request import ContainerKind, RequestDefaults

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BENCH: Final = "codec"
NODES: Final = 1_000
US_PER_S: Final = 1_000_000.0
UID: Final = "5b1ff3a8-6b54-4a8e-9f44-3c1f6f4c0a55"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured: `samples` batches of `batch` texts each."""

    samples: int = 200
    batch: int = 10


def main(size: Size) -> None:
    """Time each codec."""
    for case, act in _cases():
        samples = []
        for _ in range(size.samples):
            begun = time.perf_counter()
            for _ in range(size.batch):
                act()
            samples.append((time.perf_counter() - begun) * US_PER_S / size.batch)
        emit(BENCH, case, unit="us", samples=samples)


def _cases() -> Iterator[tuple[str, Callable[[], object]]]:
    inventory = registered("node-1")
    node_text = encode_node_inventory(inventory)
    _check(decode_node_inventory(node_text, node_name="node-1"), inventory)
    yield "node/encode/8-cards", lambda: encode_node_inventory(inventory)
    yield "node/decode/8-cards", lambda: decode_node_inventory(node_text, node_name="node-1")

    uuid = inventory.devices[0].device_uuid
    share = DeviceShare(device_uuid=uuid, memory_mib=MEMORY_MIB, core_percent=CORE_PERCENT)
    container = ContainerAllocation(
        container_name=CONTAINER, kind=ContainerKind.APP, shares=(share,)
    )
    allocation = PodAllocation(pod_uid=UID, node_name="node-1", containers=(container,))
    record = encode_allocation(allocation)
    _check(decode_allocation(record), allocation)
    yield "record/encode", lambda: encode_allocation(allocation)
    yield "record/decode", lambda: decode_allocation(record)
    yield (
        "hami-annotations/encode",
        lambda: encode_hami_annotations(
            allocation, container_names=(CONTAINER,), decided_at_s=1_700_000_000
        ),
    )

    pod = pod_object("train")
    pod["metadata"]["uid"] = UID
    names, defaults = ResourceNames(), RequestDefaults()
    yield "pod-request/decode", lambda: decode_pod_request(pod, names=names, defaults=defaults)

    hosts = [f"gpu-{number}.example.internal" for number in range(NODES)]
    args = orjson.dumps({"Pod": pod, "Nodes": None, "NodeNames": hosts})
    _check(decode_filter_args(args).node_names, tuple(hosts))
    result = FilterResult(node_names=tuple(hosts))
    scores = dict.fromkeys(hosts, 10)
    yield f"filter-args/decode/{NODES}-nodes", lambda: decode_filter_args(args)
    yield f"filter-result/encode/{NODES}-nodes", lambda: encode_filter_result(result)
    yield f"priorities/encode/{NODES}-nodes", lambda: encode_priorities(scores)


def _check(found: object, wanted: object) -> None:
    """See that what is timed has the right result."""
    if found != wanted:
        raise BenchmarkFailed(f"read {found}, not {wanted}")


if __name__ == "__main__":
    main(Size(samples=3, batch=1) if asked(__doc__) else Size())
