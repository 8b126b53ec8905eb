from __future__ import annotations

import json

import pytest

from hamid.daemon.simulate.outcomes import Outcome, Outcomes, PodState, Slice, finished
from hamid.daemon.simulate.scheduler import SimulatedScheduler
from hamid.hooks.abi import contract
from hamid.hooks.abi.pages import ContainerLimits, DeviceLimit, encode_control_page
from hamid.kube.errors import Forbidden
from hamid.kube.port import PODS
from hamid.kubelet.port import ContainerGrant, Mount
from tests.builders import UUID
from tests.daemon.simulate.manifests import container, pod
from tests.daemon.simulate.world import OUR_NAME, World, status


class Granting:
    """A kubelet that has given one container what the page in this directory says."""

    def __init__(self, directory):
        self.directory = directory

    def grant(self, _pod_uid, container_name):
        if container_name != "main":
            return None
        mount = Mount(
            container_path=contract.LIMITS_DIR, host_path=str(self.directory), is_read_only=True
        )
        return ContainerGrant(mounts=(mount,))


@pytest.fixture
def world():
    return World()


@pytest.fixture
def outcomes(world, tmp_path):
    limits = ContainerLimits(
        devices=(DeviceLimit(device_uuid=UUID, memory_bytes=3000 << 20, core_percent=30),),
        priority=0,
        generation=1,
    )
    (tmp_path / contract.CONTROL_PAGE_NAME).write_bytes(encode_control_page(limits))
    scheduler = SimulatedScheduler(
        kube=world.kube,
        extender=world.extender,
        view=world.view,
        our_name=OUR_NAME,
        ignored=(),
        clock=lambda: 0.0,
    )
    return Outcomes(
        view=world.view,
        roster=world.roster,
        scheduler=scheduler,
        kubelets={"n": Granting(tmp_path)},
        models={UUID: "T4"},
    )


async def bound(world, document, **fields):
    uid = await world.add_pod(document)
    name = document["metadata"]["name"]
    await world.kube.bind(namespace="default", name=name, uid=uid, node_name="n", annotations={})
    world.show(PODS, status(world.pod(name), **fields))
    return uid


async def test_a_running_pod_has_what_its_control_pages_say(world, outcomes):
    await bound(world, pod("a", container(), container("other")), phase="Running")

    (found,) = outcomes.look()

    share = Slice(uuid=UUID, model="T4", memory_mib=3000, core_percent=30)
    assert found == Outcome(
        pod="default/a", state=PodState.RUNNING, node="n", containers={"main": (share,)}
    )


async def test_a_page_that_was_taken_away_gives_nothing(world, outcomes, tmp_path):
    await bound(world, pod("a"), phase="Running")
    (tmp_path / contract.CONTROL_PAGE_NAME).unlink()

    assert outcomes.look()[0].containers == {}


async def test_a_pod_that_waits_has_the_schedulers_reason(world, outcomes):
    uid = await world.add_pod(pod("a"))
    outcomes.scheduler.reasons[uid] = "no room"

    (found,) = outcomes.look()

    assert (found.state, found.node, found.reason) == (PodState.PENDING, None, "no room")


@pytest.mark.parametrize(
    ("fields", "state", "said"),
    [
        pytest.param({"phase": "Pending"}, "pending", "n is about to start it", id="new"),
        pytest.param(
            {"phase": "Failed", "message": "Allocate failed"},
            "refused",
            "the kubelet of n refused it: Allocate failed",
            id="refused by the kubelet",
        ),
        pytest.param(
            {
                "phase": "Pending",
                "containerStatuses": [
                    {"name": "main", "state": {"waiting": {"message": "another's cards"}}}
                ],
            },
            "pending",
            "container 'main' does not start: another's cards",
            id="a container that does not start",
        ),
    ],
)
async def test_a_bound_pod_that_does_not_run_says_why(world, outcomes, fields, state, said):
    await bound(world, pod("a"), **fields)

    (found,) = outcomes.look()

    assert (found.state, found.reason) == (state, said)


async def test_a_refused_pod_stands_where_it_was_asked_for(world, outcomes):
    world.roster.refuse(pod("z", namespace="default"), Forbidden("no"))
    await world.add_pod(pod("a"))

    assert [(o.pod, o.state) for o in outcomes.look()] == [
        ("default/z", "refused"),
        ("default/a", "pending"),
    ]


def test_an_outcome_is_a_line_of_json_with_just_these_keys():
    outcome = Outcome(pod="default/a", state=PodState.PENDING, reason="no room")

    line = outcome.encode()

    assert line.endswith(b"\n")
    assert json.loads(line) == {
        "pod": "default/a",
        "state": "pending",
        "node": None,
        "containers": {},
        "reason": "no room",
    }


def test_init_containers_that_ended_are_finished():
    statuses = [
        {"name": "done", "state": {"terminated": {"exitCode": 0}}},
        {"name": "on", "state": {"running": {}}},
    ]

    assert finished({"status": {"initContainerStatuses": statuses}}) == {"done"}
