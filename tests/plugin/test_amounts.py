import itertools
import random
from dataclasses import replace

import pytest

from hamid.codec.admission import limits_patch, patch_object
from hamid.codec.pod_amounts import decode_pod_amounts
from hamid.codec.pod_request import decode_pod_request, required_limits
from hamid.codec.spelled_out import spelled_out
from hamid.kube.fake.patches import json_patched
from hamid.model.amounts import CardAmounts
from hamid.model.device import DeviceUsage
from hamid.model.names import ResourceNames
from hamid.model.node import NodeSnapshot
from hamid.model.request import ContainerKind, PolicyName, RequestDefaults
from hamid.plugin.amounts import CountedPod, stated_amounts
from hamid.sched.placement.place import Placement, place
from hamid.sched.placement.policy import Policies
from tests.builders import (
    container_object,
    make_allocation,
    make_container_allocation,
    make_device,
    make_devices,
    make_inventory,
    make_share,
    pod_object,
    uuid,
)

NAMES = ResourceNames()
DEFAULTS = RequestDefaults()
MEMORY, PERCENT = NAMES.memory, NAMES.memory_percentage
BINPACK = Policies(node=(PolicyName.BINPACK,), device=(PolicyName.BINPACK,))


def stated(inventory, *pods):
    return stated_amounts(inventory, pods).by_name(NAMES)


def counted(*containers, **asked):
    allocation = make_allocation(*containers) if containers else None
    return CountedPod(asked=CardAmounts(**asked), allocation=allocation)


def test_an_empty_node_states_what_its_healthy_cards_have():
    healthy = make_devices(2, core_percent=150)
    broken = make_device(device_uuid=uuid(9), is_healthy=False)

    assert stated(make_inventory("n", *healthy, broken)) == {
        MEMORY: 80_000,
        PERCENT: 200,
        NAMES.cores: 300,
        NAMES.priority: 20,
    }


@pytest.mark.parametrize(
    ("pod", "more_mib"),
    [
        pytest.param(
            counted(make_container_allocation(), memory_mib=1_000), 0, id="what is held is asked"
        ),
        pytest.param(
            counted(make_container_allocation(make_share(), make_share(device_uuid=uuid(2))),
                    memory_mib=1_000),
            0,
            id="of two cards more is held than is asked",
        ),
        pytest.param(
            counted(
                make_container_allocation(make_share(memory_mib=9_000), kind=ContainerKind.INIT),
                make_container_allocation(),
                memory_mib=9_000,
            ),
            8_000,
            id="an init container took more",
        ),
        pytest.param(
            counted(make_container_allocation(make_share(device_uuid=uuid(7))), memory_mib=1_000),
            1_000,
            id="its card is gone",
        ),
        pytest.param(counted(memory_mib=500), 500, id="nobody placed it"),
        pytest.param(
            counted(make_container_allocation(), memory_mib=1_000 * 1024**2),
            1_000 * 1024**2 - 1_000,
            id="its memory is written in bytes",
        ),
    ],
)  # fmt: skip
def test_what_pods_ask_beyond_what_they_hold_is_stated_as_well(pod, more_mib):
    assert stated(make_inventory("n", *make_devices(2)), pod)[MEMORY] == 80_000 + more_mib


class Node:
    """One node: the scheduler's books of it, what it states, and its kubelet's admission."""

    def __init__(self, rng):
        self.rng = rng
        self.cards = [
            make_device(
                device_uuid=uuid(n),
                device_index=n,
                memory_mib=rng.choice((97, 4_096, 40_000)),
                core_percent=rng.choice((100, 200)),
            )
            for n in range(rng.randint(1, 3))
        ]
        self.pods = {}
        self.initialized = set()
        self.uids = itertools.count()

    def usages(self):
        """As the scheduler books: of a pod that is past its init phase only what it goes on with."""
        usages = {card.device_uuid: DeviceUsage(device=card) for card in self.cards}
        for uid, pod in self.pods.items():
            holds = (
                pod.allocation.holds(is_initialized=uid in self.initialized)
                if pod.allocation
                else {}
            )
            for card, hold in holds.items():
                if card in usages:
                    usages[card] = usages[card].with_hold(hold)
        return tuple(usages.values())

    def placed(self, pod):
        request = decode_pod_request(pod, names=NAMES, defaults=DEFAULTS)
        snapshot = NodeSnapshot(node_name="n", usages=self.usages())
        found = place(request, [snapshot], policies=BINPACK)
        return found.best.allocation("x") if isinstance(found, Placement) else None

    def admits(self, asked):
        has = stated(make_inventory("n", *self.cards), *self.pods.values())
        sums = [pod.asked.by_name(NAMES) for pod in self.pods.values()]
        return all(
            not amount or amount + sum(each[name] for each in sums) <= has[name]
            for name, amount in asked.by_name(NAMES).items()
        )

    def add(self, asked, allocation):
        self.pods[next(self.uids)] = CountedPod(asked=asked, allocation=allocation)


def container(rng, name, **fields):
    limits = {"gpu": rng.choice((1, 1, 2))}
    limits |= rng.choice((
        {} if name[0] == "i" or rng.random() < 0.2 else {"gpumem": 50},
        {"gpumem": rng.randint(1, 9_000)},
        {"gpumem": f"{rng.randint(1, 60)}Mi"},
        {"gpumem-percentage": rng.choice((1, 3, 33, 100))},
        {"gpumem": rng.randint(1, 900), "gpumem-percentage": 100},
    ))  # fmt: skip
    limits |= rng.choice(({}, {"gpucores": rng.choice((0, 1, 30, 100))}, {"priority": 1}))
    return container_object(name, limits, **fields)


def after_webhook(pod):
    request = decode_pod_request(pod, names=NAMES, defaults=DEFAULTS)
    fixes = (*required_limits(pod, NAMES, DEFAULTS), *spelled_out(pod, request, NAMES))
    return json_patched(pod, [patch_object(op) for op in limits_patch(pod, fixes)])


def random_pod(rng):
    init = [
        container(rng, f"i{n}", **rng.choice(({}, {}, {"restartPolicy": "Always"})))
        for n in range(rng.choice((0, 0, 1, 2)))
    ]
    apps = [container(rng, f"a{n}") for n in range(rng.choice((1, 1, 2)))]
    return pod_object(*apps, init_containers=init)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_no_pod_that_was_placed_is_refused_whatever_else_the_node_goes_through(seed):
    rng, placed_count = random.Random(seed), 0
    node = Node(rng)
    for _ in range(150):
        match rng.randint(0, 9):
            case 0 if node.pods:
                del node.pods[rng.choice(list(node.pods))]
            case 1 if node.pods:
                node.initialized |= set(rng.sample(list(node.pods), len(node.pods) // 2))
            case 2:
                index = rng.randrange(len(node.cards))
                card = node.cards[index]
                node.cards[index] = replace(card, is_healthy=rng.random() < 0.8)
            case 3:
                stranger = CardAmounts(memory_mib=rng.randint(1, 50_000), core_percent=50)
                if node.admits(stranger):
                    node.add(stranger, None)
            case 4:  # from before the webhook wrote amounts in full
                pod = random_pod(rng)
                allocation, asked = node.placed(pod), decode_pod_amounts(pod, names=NAMES)
                if allocation:
                    node.add(asked, allocation)
            case _:
                pod = after_webhook(random_pod(rng))
                allocation, asked = node.placed(pod), decode_pod_amounts(pod, names=NAMES)
                if allocation:
                    assert node.admits(asked)
                    node.add(asked, allocation)
                    placed_count += 1
    assert placed_count > 5
