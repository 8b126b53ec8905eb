"""Fleets with all that nodes and pods can have: what is remembered changes no answer.

Beside `test_properties`, which is small enough for brute force.
"""

import random
from dataclasses import dataclass, field, replace

import pytest

from hamid.model.device import DeviceMode, DeviceShare, DeviceUsage
from hamid.model.node import HostAmount
from hamid.model.quantities import MemoryMib, MemoryPercent
from hamid.model.request import (
    ContainerKind,
    DeviceSelection,
    LoadWeights,
    PolicyName,
)
from hamid.sched.placement.explain import cluster_sentence, node_sentences
from hamid.sched.placement.fragmentation import Fragmentation
from hamid.sched.placement.place import Placement, place, with_allocation
from hamid.sched.placement.policy import Policies
from hamid.sched.placement.rows import Placer
from hamid.sched.placement.typical import Arrivals, shapes_of
from tests.sched.builders import make_container, make_device, make_node, make_request
from tests.sched.placement.test_properties import is_over

STEPS = 25


@dataclass
class Fleet:
    """Draws nodes and pods."""

    rng: random.Random
    nodes: dict = field(default_factory=dict)

    def usage(self, name, index):
        device = make_device(
            f"{name}-{index}",
            device_index=self.rng.choice([index, index, 0]),
            model=self.rng.choice(["A100", "T4"]),
            memory_mib=self.rng.choice([16_000, 40_000]),
            slot_count=self.rng.choice([2, 10]),
            numa_node=self.rng.choice([None, 0, 1]),
            is_healthy=self.rng.random() > 0.05,
            core_percent=self.rng.choice([100, 100, 200]),
            mode=self.rng.choice(list(DeviceMode)),
        )
        usage = DeviceUsage(device=device)
        for _ in range(self.rng.choice([0, 0, 1, 2])):
            share = DeviceShare(
                device_uuid=device.device_uuid,
                memory_mib=self.rng.randrange(device.memory_mib // 2),
                core_percent=self.rng.choice([0, 30, 50, 100]),
            )
            is_alone = not usage.slots_used or not (
                usage.exclusive_count or share.core_percent == 100
            )
            if is_alone and not is_over(usage.with_share(share)):
                usage = usage.with_share(share)
        return usage

    def renew(self, name):
        count = self.rng.choice([0, 1, 2, 4, 4, 8])
        usages = [self.usage(name, index) for index in range(count)]
        cordoned = [u.device.device_uuid for u in usages if self.rng.random() < 0.1]
        host = HostAmount(
            cpu_milli=self.rng.choice([0, 3_000, 9_000]), memory_mib=self.rng.choice([0, 9_000])
        )
        node = make_node(name, usages=usages, cordoned=cordoned)
        if self.rng.random() < 0.6:
            row = [1, 5, 9]
            links = tuple(tuple(self.rng.choices(row, k=count)) for _ in range(count))
            node = replace(node, links=links)
        if self.rng.random() < 0.7:
            capacity = HostAmount(cpu_milli=10_000, memory_mib=10_000)
            node = replace(node, host_free=host, host_capacity=capacity)
        self.nodes[name] = node

    def container(self, name):
        memory = (
            MemoryMib(mib=self.rng.choice([100, 5_000, self.rng.randint(1, 40_000)])),
            MemoryPercent(percent=self.rng.choice([10, 50, 100])),
        )
        return make_container(
            name,
            kind=self.rng.choice(list(ContainerKind)),
            device_count=self.rng.choice([1, 1, 2, 4]),
            memory=self.rng.choice(memory),
            core_percent=self.rng.choice([0, 0, 30, 100]),
        )

    def policies(self):
        return tuple(self.rng.sample(list(PolicyName), self.rng.choice([0, 0, 1, 2])))

    def pod(self, uid):
        containers = [self.container(f"c{n}") for n in range(self.rng.choice([1, 1, 1, 2, 3]))]
        containers.sort(key=lambda each: each.kind is ContainerKind.APP)
        uuids = [u.device.device_uuid for node in self.nodes.values() for u in node.usages]
        selection = DeviceSelection(
            use_models=self.rng.choice([(), (), ("A100",)]),
            avoid_models=self.rng.choice([(), (), ("T4",)]),
            avoid_uuids=tuple(uuids[:2]) if self.rng.random() < 0.1 else (),
            use_indices=(0,) if self.rng.random() < 0.05 else (),
        )
        return make_request(
            *containers,
            uid=uid,
            selection=selection,
            node_policies=self.policies(),
            device_policies=self.policies(),
            is_numa_bound=self.rng.random() < 0.2,
            allowed_modes=self.rng.choice([(), (), ("mig",)]),
            host=HostAmount(cpu_milli=self.rng.choice([0, 2_000]), memory_mib=400),
            load_weights=self.rng.choice([LoadWeights(), LoadWeights(memory=3)]),
            node_weights=self.rng.choice([LoadWeights(), LoadWeights(slots=0, cpu=1)]),
        )

    def take(self, request, found):
        """Put the pod there; returns the cards as they are then."""
        node = self.nodes[found.node_name]
        after = with_allocation(node, found.allocation(request.pod_uid))
        self.nodes[node.node_name] = after.with_host_asked(request.host)
        changed = zip(node.usages, after.usages, strict=True)
        return node, [now for before, now in changed if now is not before]


@pytest.mark.parametrize("seed", range(12))
def test_whatever_is_remembered_the_answer_is_that_of_one_who_just_looks(seed, monkeypatch):
    rng = random.Random(seed)
    kept = rng.choice([30, 300, 1_000_000])
    monkeypatch.setattr("hamid.sched.placement.fragmentation.ANSWERS_KEPT", kept)
    fleet, placer, arrivals = Fleet(rng), Placer(policies=Policies()), Arrivals()
    for number in range(rng.choice([1, 3, 6])):
        fleet.renew(f"n{number}")
    pods = []
    for step in range(STEPS):
        if rng.random() < 0.3:
            fleet.renew(rng.choice(list(fleet.nodes)))
        pods.append(rng.choice(pods) if pods and rng.random() < 0.5 else fleet.pod(f"u{step}"))
        for seen in (placer.arrivals, arrivals):
            seen.count(f"uid-{step}", shapes_of(pods[-1]))
        nodes = list(fleet.nodes.values())
        if rng.random() < 0.3:
            assert not any(placer.warming(pods[-1], nodes))

        found = placer.place(pods[-1], dict(fleet.nodes))

        measure = Fragmentation(arrivals.typical)
        shuffled = rng.sample(nodes, len(nodes))
        right = place(pods[-1], shuffled, policies=Policies(), measure=measure)
        assert found == right
        for tell in (cluster_sentence, node_sentences):
            assert tell(pods[-1], found.refusals) == tell(pods[-1], right.refusals)
        if isinstance(found, Placement) and rng.random() < 0.7:
            node, cards = fleet.take(pods[-1], found.best)
            assert not any(map(is_over, cards))
            assert all(card.device.is_healthy for card in cards)
            assert not {card.device.device_uuid for card in cards} & node.cordoned
