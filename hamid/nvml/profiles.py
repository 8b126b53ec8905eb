"""Common cards, and machines made of them: for the fake, and as the simulated library's file.

Figures are what NVML says of a card (total memory in MiB, not the rounded marketing size). UUIDs
come from node name and place, so a simulated machine is the same one at each start.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from hamid.errors import SettingsError
from hamid.model.device import DeviceUuid
from hamid.nvml.port import MigInstance, NvmlDevice

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MIB: Final = 1 << 20
DRIVER_VERSION: Final = "580.65.06"
CUDA_VERSION: Final = 13000
MAX_CARDS: Final = 32
UUID_NAMESPACE: Final = uuid.UUID("7a3c1b52-6f0e-4d5b-9f66-2f6d6b0c7f11")
QUAD: Final = 4
"""Cards on one board without a switch are linked directly, in fours."""

A100_40_MIG: Final = {
    "1g.5gb": 4864, "2g.10gb": 9984, "3g.20gb": 20096, "4g.20gb": 20096, "7g.40gb": 40448,
}  # fmt: skip
A100_80_MIG: Final = {
    "1g.10gb": 9728, "1g.20gb": 19968, "2g.20gb": 19968, "3g.40gb": 40192, "4g.40gb": 40192,
    "7g.80gb": 81152,
}  # fmt: skip
H100_MIG: Final = {
    "1g.10gb": 9984, "1g.20gb": 20096, "2g.20gb": 20096, "3g.40gb": 40448, "4g.40gb": 40448,
    "7g.80gb": 81152,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class CardModel:
    """What all cards of one model have in common.

    Attributes:
        product: the name that NVML gives.
        nvlinks: links of one card; 0 for cards without.
        has_switch: more than four on a board are linked through a switch.
        mig_memory_mib: MIG profile → MiB; empty for cards without MIG.
    """

    product: str
    memory_mib: int
    compute_capability: tuple[int, int]
    multiprocessors: int
    power_limit_w: int
    nvlinks: int = 0
    has_switch: bool = False
    mig_memory_mib: Mapping[str, int] = field(default_factory=dict)


def _model(product: str, memory_mib: int, arch: tuple[int, int, int, int]) -> CardModel:
    major, minor, multiprocessors, watts = arch
    return CardModel(
        product=product,
        memory_mib=memory_mib,
        compute_capability=(major, minor),
        multiprocessors=multiprocessors,
        power_limit_w=watts,
    )


MODELS: Final[Mapping[str, CardModel]] = {
    "P4": _model("Tesla P4", 7680, (6, 1, 20, 75)),
    "P100": _model("Tesla P100-PCIE-16GB", 16384, (6, 0, 56, 250)),
    "V100-PCIE-16GB": _model("Tesla V100-PCIE-16GB", 16384, (7, 0, 80, 250)),
    "V100-PCIE-32GB": _model("Tesla V100-PCIE-32GB", 32768, (7, 0, 80, 250)),
    "V100-SXM2-16GB": CardModel(
        product="Tesla V100-SXM2-16GB", memory_mib=16384, compute_capability=(7, 0),
        multiprocessors=80, power_limit_w=300, nvlinks=6,
    ),
    "V100-SXM2-32GB": CardModel(
        product="Tesla V100-SXM2-32GB", memory_mib=32768, compute_capability=(7, 0),
        multiprocessors=80, power_limit_w=300, nvlinks=6,
    ),
    "T4": _model("Tesla T4", 15360, (7, 5, 40, 70)),
    "A2": _model("NVIDIA A2", 15356, (8, 6, 10, 60)),
    "A10": _model("NVIDIA A10", 23028, (8, 6, 72, 150)),
    "A10G": _model("NVIDIA A10G", 23028, (8, 6, 80, 300)),
    "A30": CardModel(
        product="NVIDIA A30", memory_mib=24576, compute_capability=(8, 0), multiprocessors=56,
        power_limit_w=165, mig_memory_mib={"1g.6gb": 5952, "2g.12gb": 12032, "4g.24gb": 24192},
    ),
    "A40": _model("NVIDIA A40", 46068, (8, 6, 84, 300)),
    "A100-PCIE-40GB": CardModel(
        product="NVIDIA A100-PCIE-40GB", memory_mib=40960, compute_capability=(8, 0),
        multiprocessors=108, power_limit_w=250, mig_memory_mib=A100_40_MIG,
    ),
    "A100-SXM4-40GB": CardModel(
        product="NVIDIA A100-SXM4-40GB", memory_mib=40960, compute_capability=(8, 0),
        multiprocessors=108, power_limit_w=400, nvlinks=12, has_switch=True,
        mig_memory_mib=A100_40_MIG,
    ),
    "A100-PCIE-80GB": CardModel(
        product="NVIDIA A100 80GB PCIe", memory_mib=81920, compute_capability=(8, 0),
        multiprocessors=108, power_limit_w=300, mig_memory_mib=A100_80_MIG,
    ),
    "A100-SXM4-80GB": CardModel(
        product="NVIDIA A100-SXM4-80GB", memory_mib=81920, compute_capability=(8, 0),
        multiprocessors=108, power_limit_w=400, nvlinks=12, has_switch=True,
        mig_memory_mib=A100_80_MIG,
    ),
    "L4": _model("NVIDIA L4", 23034, (8, 9, 58, 72)),
    "L40": _model("NVIDIA L40", 46068, (8, 9, 142, 300)),
    "L40S": _model("NVIDIA L40S", 46068, (8, 9, 142, 350)),
    "RTX-3090": _model("NVIDIA GeForce RTX 3090", 24576, (8, 6, 82, 350)),
    "RTX-4090": _model("NVIDIA GeForce RTX 4090", 24564, (8, 9, 128, 450)),
    "H100-PCIE": CardModel(
        product="NVIDIA H100 PCIe", memory_mib=81559, compute_capability=(9, 0),
        multiprocessors=114, power_limit_w=350, mig_memory_mib=H100_MIG,
    ),
    "H100-SXM5": CardModel(
        product="NVIDIA H100 80GB HBM3", memory_mib=81559, compute_capability=(9, 0),
        multiprocessors=132, power_limit_w=700, nvlinks=18, has_switch=True,
        mig_memory_mib=H100_MIG,
    ),
    "H200": CardModel(
        product="NVIDIA H200", memory_mib=143771, compute_capability=(9, 0),
        multiprocessors=132, power_limit_w=700, nvlinks=18, has_switch=True,
    ),
}  # fmt: skip
"""Short name → model."""

ALIASES: Final[Mapping[str, str]] = {
    "V100": "V100-PCIE-16GB",
    "V100-16GB": "V100-PCIE-16GB",
    "V100-32GB": "V100-PCIE-32GB",
    "A100": "A100-SXM4-40GB",
    "A100-40GB": "A100-SXM4-40GB",
    "A100-80GB": "A100-SXM4-80GB",
    "H100": "H100-SXM5",
    "H100-80GB": "H100-SXM5",
}


class CardGroup(NamedTuple):
    """So many cards of one model; with MIG profiles, each is cut into these instances."""

    model: str
    card_count: int
    mig: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedCard:
    """One card of a simulated machine; `links` counts NVLinks by peer's UUID, or to `switch`."""

    device: NvmlDevice
    model: CardModel
    links: Mapping[str, int]


def _plain(name: str) -> str:
    return re.sub(r"nvidia|tesla|geforce|[^a-z0-9]", "", name.casefold())


def card_model(name: str) -> CardModel:
    """The model by short name, alias or product name; case, vendor and punctuation do not count.

    Raises:
        SettingsError: there is no such model here; the hint names those there are.
    """
    by_name = {_plain(key): model for key, model in MODELS.items()}
    by_name |= {_plain(model.product): model for model in MODELS.values()}
    by_name |= {_plain(alias): MODELS[key] for alias, key in ALIASES.items()}
    found = by_name.get(_plain(name))
    if found is None:
        raise SettingsError(
            f"there is no card model {name!r} to simulate",
            hint=f"use one of {', '.join(sorted({*MODELS, *ALIASES}))}",
        )
    return found


def simulated_cards(
    groups: Sequence[CardGroup | tuple[str, int]], *, node_name: str, numa_nodes: int = 2
) -> tuple[SimulatedCard, ...]:
    """The cards of one machine, in order.

    The cards are spread evenly over the NUMA nodes, in blocks; a single card is on node 0. With
    `numa_nodes` 0 they are on none.
    """
    wanted = [CardGroup(*group) for group in groups]
    total = sum(group.card_count for group in wanted)
    if total > MAX_CARDS or any(group.card_count < 0 for group in wanted):
        raise SettingsError(
            f"node {node_name!r} has {total} cards; a simulated one has 0 to {MAX_CARDS}",
            hint="lower the count, or use more nodes",
        )
    cards: list[SimulatedCard] = []
    for group in wanted:
        first = len(cards)
        uuids = [_card_uuid(node_name, first + i) for i in range(group.card_count)]
        model = card_model(group.model)
        for place in range(group.card_count):
            index = first + place
            device = NvmlDevice(
                device_uuid=DeviceUuid(uuids[place]),
                device_index=index,
                minor=index,
                model=model.product,
                memory_bytes=model.memory_mib * MIB,
                pci_bus_id=f"0000:{4 + 7 * index:02x}:00.0",
                numa_node=index * numa_nodes // total if numa_nodes else None,
                mig_enabled=bool(group.mig),
                mig_instances=_instances(model, group.mig, seed=f"{node_name}/{index}"),
            )
            cards.append(
                SimulatedCard(device=device, model=model, links=_links(model, uuids, place))
            )
    return tuple(cards)


def _card_uuid(node_name: str, index: int) -> str:
    return f"GPU-{uuid.uuid5(UUID_NAMESPACE, f'{node_name}/{index}')}"


def _instances(model: CardModel, profiles: Sequence[str], *, seed: str) -> tuple[MigInstance, ...]:
    unknown = [profile for profile in profiles if profile not in model.mig_memory_mib]
    if unknown:
        known = ", ".join(model.mig_memory_mib) or "none: it has no MIG"
        raise SettingsError(
            f"{model.product} has no MIG profile {unknown[0]!r}", hint=f"its profiles: {known}"
        )
    return tuple(
        MigInstance(
            device_uuid=DeviceUuid(f"MIG-{uuid.uuid5(UUID_NAMESPACE, f'{seed}/{place}')}"),
            profile=profile,
            memory_bytes=model.mig_memory_mib[profile] * MIB,
            gpu_instance_id=place + 1,
            compute_instance_id=0,
        )
        for place, profile in enumerate(profiles)
    )


def _links(model: CardModel, uuids: Sequence[str], place: int) -> dict[str, int]:
    if model.nvlinks == 0 or len(uuids) == 1:
        return {}
    if model.has_switch and len(uuids) > QUAD:
        return {"switch": model.nvlinks}
    start = place - place % QUAD
    quad = uuids[start : start + QUAD]
    return {peer: model.nvlinks // (QUAD - 1) for peer in quad if peer != uuids[place]}


def make_profile(
    groups: Sequence[CardGroup | tuple[str, int]],
    *,
    node_name: str,
    numa_nodes: int = 2,
    driver_version: str = DRIVER_VERSION,
) -> str:
    """The file of a machine with these cards, for the simulated libraries.

    Example:
        make_profile([("T4", 2), CardGroup("A100-80GB", 1, mig=("3g.40gb", "3g.40gb"))],
        node_name="node-1")
    """
    cards = simulated_cards(groups, node_name=node_name, numa_nodes=numa_nodes)
    return format_profile(cards, driver_version=driver_version)


def format_profile(cards: Sequence[SimulatedCard], *, driver_version: str = DRIVER_VERSION) -> str:
    """The cards in the format of `native/tests/stub/README.md`."""
    head = [f"driver_version={driver_version}", f"cuda_version={CUDA_VERSION}"]
    return "\n\n".join("\n".join(block) for block in (head, *map(_block, cards))) + "\n"


def _block(card: SimulatedCard) -> list[str]:
    device, model = card.device, card.model
    major, minor = model.compute_capability
    lines = {
        "uuid": device.device_uuid,
        "name": device.model,
        "index": device.device_index,
        "minor": device.minor,
        "memory_mib": device.memory_bytes // MIB,
        "pci": device.pci_bus_id,
        "numa": -1 if device.numa_node is None else device.numa_node,
        "cc": f"{major}.{minor}",
        "sm": model.multiprocessors,
        "power_limit": model.power_limit_w,
        "mig_capable": int(bool(model.mig_memory_mib)),
        "mig": int(device.mig_enabled),
    }
    return [
        *(f"{key}={value}" for key, value in lines.items()),
        *(
            f"mig_instance={i.device_uuid},{i.profile},{i.memory_bytes // MIB},"
            f"{i.gpu_instance_id},{i.compute_instance_id}"
            for i in device.mig_instances
        ),
        *(f"nvlink={peer}:{count}" for peer, count in card.links.items()),
    ]
