"""The fake kubelet as a whole, where the contract says nothing: retries, restarts, ends, lacks."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from hamid.aiokit.services import running
from hamid.kubelet.fake import (
    ContainerState,
    FakeContainer,
    FakeFeatures,
    FakeKubelet,
    FakePod,
    Phase,
)
from hamid.kubelet.port import ContainerGrant
from hamid.kubelet.server import CallDeadlines
from tests.contracts.kubelet_contract import refusal
from tests.kubelet.plugin import RESOURCE, make_plugin, make_registrar


@asynccontextmanager
async def plugged(path, plugin, *, deadlines=None, **features):
    async with FakeKubelet(path, features=FakeFeatures(**features)) as kubelet:
        registrar = make_registrar(kubelet, plugin, deadlines=deadlines or CallDeadlines())
        async with running(registrar):
            count = len(plugin.devices.get())
            await kubelet.wait_for_allocatable(RESOURCE, count)
            yield kubelet


def make_pod(name="p", *containers, **overrides):
    containers = containers or (FakeContainer(count=1),)
    return FakePod(**{"name": name, "uid": name, "containers": containers, **overrides})


async def test_a_container_that_restarts_is_pre_started_and_not_allocated(short_path):
    plugin = make_plugin()
    async with plugged(short_path, plugin) as kubelet:
        await kubelet.run_pod(make_pod())
        status = await kubelet.start_container("p", "main")

    assert status.containers["main"].start_count == 2
    assert [name for name, _ in plugin.calls] == ["preferred", "allocate"] + ["pre_start"] * 2


async def test_a_failed_start_leaves_the_pod_pending_with_the_reason(short_path):
    plugin = make_plugin(refusals={"pre_start": [refusal("not yet mine")]})
    async with plugged(short_path, plugin) as kubelet:
        status = await kubelet.run_pod(make_pod())

        assert status.phase is Phase.PENDING
        assert status.containers["main"].state is ContainerState.CONFIG_ERROR
        assert "not yet mine" in status.containers["main"].message
        assert (await kubelet.start_pod("p")).phase is Phase.RUNNING


async def test_a_failed_init_container_holds_back_the_rest(short_path):
    plugin = make_plugin(refusals={"pre_start": [refusal()]})
    init = FakeContainer(name="init", count=1, is_init=True)
    async with plugged(short_path, plugin) as kubelet:
        status = await kubelet.run_pod(make_pod("p", FakeContainer(count=1), init))

        assert status.containers["main"].state is ContainerState.WAITING
        assert len(plugin.slots_of("pre_start")) == 1


async def test_the_kubelets_own_deadline_ends_a_slow_start(short_path):
    plugin = make_plugin()

    async def never(slot_ids):
        await asyncio.Event().wait()

    plugin_with_slow_start = SlowStart(plugin, never)
    async with plugged(short_path, plugin_with_slow_start, pre_start_timeout_s=0.02) as kubelet:
        status = await kubelet.run_pod(make_pod())

    assert "DeadlineExceeded" in status.containers["main"].message


class SlowStart:
    """A plugin with another pre_start."""

    def __init__(self, plugin, pre_start):
        self.devices = plugin.devices
        self.preferred_allocation = plugin.preferred_allocation
        self.allocate = plugin.allocate
        self.pre_start = pre_start


async def test_a_pod_without_devices_needs_no_plugin(short_path):
    async with FakeKubelet(short_path) as kubelet:
        status = await kubelet.run_pod(make_pod("p", FakeContainer(count=0)))

    assert status.phase is Phase.RUNNING


async def test_a_resource_the_kubelet_never_heard_of_is_somebody_elses(short_path):
    async with FakeKubelet(short_path) as kubelet:
        status = await kubelet.run_pod(make_pod())

    assert status.phase is Phase.RUNNING
    assert kubelet.grant("p", "main") is None


async def test_more_pods_than_slots_are_rejected_until_one_ends(short_path):
    async with plugged(short_path, make_plugin(1)) as kubelet:
        await kubelet.run_pod(make_pod("a"))
        rejected = await kubelet.run_pod(make_pod("b"))
        kubelet.finish("a")
        accepted = await kubelet.run_pod(make_pod("c"))

    assert rejected.reason == "UnexpectedAdmissionError"
    assert "Requested: 1, Available: 0, which is unexpected" in rejected.message
    assert accepted.phase is Phase.RUNNING


async def test_a_deleted_pod_frees_its_slots(short_path):
    async with plugged(short_path, make_plugin(1)) as kubelet:
        await kubelet.run_pod(make_pod("a"))
        kubelet.remove("a")

        assert (await kubelet.run_pod(make_pod("b"))).phase is Phase.RUNNING


async def test_admissions_do_not_overlap_and_no_slot_is_given_twice(short_path):
    plugin = make_plugin(50)
    at_once = {"now": 0, "most": 0}

    async def count() -> None:
        at_once["now"] += 1
        at_once["most"] = max(at_once.values())
        await asyncio.sleep(0)
        at_once["now"] -= 1

    plugin.during_allocate = count
    async with plugged(short_path, plugin) as kubelet:
        async with asyncio.TaskGroup() as group:
            for n in range(50):
                group.create_task(kubelet.run_pod(make_pod(f"p{n}")))
        held = [slot_id for n in range(50) for slot_id in kubelet.slot_ids(f"p{n}", "main")]

    assert at_once["most"] == 1
    assert len(set(held)) == 50


async def test_a_pod_not_yet_started_does_not_survive_a_restart(short_path):
    async with plugged(short_path, make_plugin()) as kubelet:
        await kubelet.admit(make_pod("waiting"))
        await kubelet.run_pod(make_pod("running"))
        await kubelet.restart()

    assert kubelet.statuses["waiting"].reason == "UnexpectedAdmissionError"
    assert kubelet.statuses["running"].phase is Phase.RUNNING


@pytest.mark.parametrize(("readmits", "phase"), [(False, Phase.RUNNING), (True, Phase.FAILED)])
async def test_a_finished_init_container_may_cost_the_pod_at_a_restart(short_path, readmits, phase):
    init = FakeContainer(name="init", count=1, is_init=True)
    plugin = make_plugin()
    async with plugged(short_path, plugin, readmits_finished_init=readmits) as kubelet:
        await kubelet.run_pod(make_pod("p", init, FakeContainer(count=1)))
        await kubelet.restart()

    assert kubelet.statuses["p"].phase is phase


async def test_a_kubelet_before_cdi_drops_the_names(short_path):
    grants = {}
    for takes in (True, False):
        plugin = CdiPlugin()
        root = short_path / str(takes)
        async with plugged(root, plugin, takes_cdi_devices=takes) as kubelet:
            await kubelet.run_pod(make_pod())
            grants[takes] = kubelet.grant("p", "main")

    assert grants[True].cdi_devices == ("hamid.io/gpu=x",)
    assert grants[False] == ContainerGrant(envs={"A": "b"})


class CdiPlugin:
    """A plugin that grants a CDI device."""

    def __init__(self):
        self.devices = make_plugin().devices

    async def preferred_allocation(self, _request):
        return ()

    async def allocate(self, _slot_ids):
        return ContainerGrant(envs={"A": "b"}, cdi_devices=("hamid.io/gpu=x",))

    async def pre_start(self, _slot_ids):
        pass


async def test_every_call_is_on_record_with_its_true_owner(short_path):
    async with plugged(short_path, make_plugin()) as kubelet:
        await kubelet.run_pod(make_pod("a"))
        await kubelet.run_pod(make_pod("b"))

    assert [(call.call, call.pod_uid) for call in kubelet.calls] == [
        (call, uid)
        for uid in ("a", "b")
        for call in ("GetPreferredAllocation", "Allocate", "PreStartContainer")
    ]


async def test_a_plugin_that_is_away_fails_admissions(short_path):
    plugin = make_plugin()
    async with FakeKubelet(short_path) as kubelet:
        async with running(make_registrar(kubelet, plugin)):
            await kubelet.wait_for_allocatable(RESOURCE, 6)
        await kubelet.wait_for_allocatable(RESOURCE, 0)

        status = await kubelet.run_pod(make_pod())

    assert "no healthy devices present" in status.message


async def test_files_that_are_no_sockets_survive_a_start(short_path):
    async with FakeKubelet(short_path) as kubelet:
        note = kubelet.device_plugin_directory / "DEPRECATION"
        note.write_text("")
        await kubelet.restart()

        assert note.exists()
        assert kubelet.kubelet_socket.is_socket()
