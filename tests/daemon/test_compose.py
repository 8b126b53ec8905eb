"""The daemon as it is put together: on fakes, over real sockets. Whole stories are in tests/e2e."""

import asyncio
import socket
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from hamid.daemon.compose import daemon, may_lead
from hamid.daemon.settings import LeaderNodes, RoleSettings, Settings, Switch
from hamid.errors import SettingsError
from hamid.kube.errors import NotFound
from hamid.kube.port import LEASES, NODES, PatchKind
from hamid.nvml.errors import DriverUnavailable
from tests.daemon.stand import LEASE, NAMESPACE, NODE, RESOURCE, eventually, stand

pytestmark = pytest.mark.slow

LABEL = LeaderNodes(label="lead", value="yes")


@pytest.fixture
async def around(monkeypatch):
    async with stand(monkeypatch) as made:
        yield made


async def test_all_parts_come_up_and_say_so(around):
    served = await around.serve()

    await served.wait_until_ready("started", "scheduler", "certificates", "kubelet", "own-pods")

    assert await served.get("/healthz") == (200, {"status": "ok"})
    _, body = await served.get("/readyz")
    assert body["conditions"]["scheduler"]["reason"] == "leads"
    await served.stop()


async def test_who_only_schedules_needs_no_disk(around, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", "/proc/none")
    settings = around.settings("other")
    nowhere = replace(settings.plugin, state_dir=Path("/proc/none"), cdi_dir=Path("/proc/none"))

    served = await around.serve(replace(settings, plugin=nowhere))

    await served.wait_until_ready("started", "scheduler", "certificates")
    await served.stop()


async def test_every_page_of_debug_can_be_shown_with_something_in_it(around):
    served = await around.serve()
    await served.wait_until_ready("kubelet", "own-pods", "certificates")
    await around.trust(served)
    await around.create_pod("p", gpu=1, gpumem=3000)

    _, index = await served.get("/debug/")
    pages = {}
    for path in index["pages"]:
        code, pages[path] = await served.get(path)
        assert code == 200, path

    assert {"/debug/settings", "/debug/cache", "/debug/leases", "/debug/allocations"} <= {*pages}
    assert {"/debug/devices", "/debug/drift", "/debug/tasks", "/debug/verdicts"} <= {*pages}
    assert pages["/debug/settings"]["identity"]["node_name"] == NODE
    assert len(pages["/debug/devices"]["inventory"]["devices"]) == 2
    assert pages["/debug/leases"]["holder"].startswith(f"{NODE}_")
    names = {task["name"] for task in pages["/debug/tasks"]}
    assert {"web-server", "lease-elector", "kubelet-registrar", "own-pod-watch"} <= names
    assert b"PRIVATE KEY" not in orjson.dumps(pages)
    await served.stop()


async def test_the_leader_explains_a_pod_and_counts_how_many_fit(around):
    served = await around.serve()
    await served.wait_until_ready("scheduler", "kubelet", "own-pods", "certificates")
    await around.trust(served)
    await around.create_pod("p", gpu=1, gpumem=3000)

    code, fit = await served.get("/fit?gpu=1&gpumem=1000")
    missing, said = await served.get("/explain/default/nobody")

    assert (code, len(fit["nodes"])) == (200, 1)
    assert fit["pods"] > 0
    assert (missing, said["message"].split()[0]) == (404, "no")
    await served.stop()


async def test_metrics_are_those_of_all_rooms_and_of_the_process(around):
    served = await around.serve(around.settings(hami_legacy_metrics=True))
    await served.wait_until_ready("kubelet", "own-pods", "certificates")

    _, text = await served.get("/metrics")

    for name in (
        "hamid_kube_requests_total",
        "hamid_web_request_seconds_bucket",
        "process_resident_memory_bytes",
        "python_info",
        "hamid_device_memory_bytes",
        "nodeGPUOverview",
        "QuotaUsed",
    ):
        assert name in text
    await served.stop()


async def test_a_replica_without_the_scheduler_serves_its_node_only(around):
    roles = RoleSettings(plugin=Switch.ALWAYS, scheduler=Switch.NEVER)
    served = await around.serve(around.settings(roles=roles))

    await served.wait_until_ready("started", "kubelet", "own-pods")

    assert (await served.conditions()).keys() == {"started", "kubelet", "own-pods"}
    assert served.daemon.web.ports.get().keys() == {"status"}
    assert around.api.gate.requests.count(resource="leases.coordination.k8s.io") == 0
    await served.stop()


async def test_a_replica_without_the_plugin_only_schedules(around):
    served = await around.serve(around.settings(roles=RoleSettings(plugin=Switch.NEVER)))

    await served.wait_until_ready("started", "certificates")

    assert (await served.conditions()).keys() == {"started", "scheduler", "certificates"}
    assert RESOURCE not in around.kubelet.capacities.get()
    await served.stop()


@pytest.mark.parametrize(
    ("labels", "can_lead", "nodes", "expected"),
    [
        ({"lead": "yes"}, True, LABEL, True),
        ({"lead": "no"}, True, LABEL, False),
        ({}, True, LABEL, False),
        ({"lead": "yes"}, False, LABEL, False),
        ({}, True, LeaderNodes(), True),
    ],
)
async def test_who_may_lead(around, labels, can_lead, nodes, expected):
    lease = replace(LEASE, can_lead=can_lead)
    settings = around.settings(leader_nodes=nodes, lease=lease)
    await around.kube.patch(NODES, NODE, {"metadata": {"labels": labels}}, kind=PatchKind.MERGE)

    assert await may_lead(settings, around.kube) is expected


async def test_a_replica_on_a_node_without_the_label_leaves_the_lease_alone(around):
    served = await around.serve(around.settings(leader_nodes=LABEL))

    async def has_looked():
        return around.api.gate.requests.count(verb="get", resource="leases.coordination.k8s.io")

    await eventually(has_looked)
    with pytest.raises(NotFound):
        await around.kube.get(LEASES, LEASE.name, namespace=NAMESPACE)
    assert not (await served.conditions())["certificates"]
    await served.stop()


async def test_a_replica_whose_node_gets_the_label_later_takes_part_from_then_on(around):
    served = await around.serve(around.settings(leader_nodes=LABEL))

    async def says_why():
        reason = (await served.get("/readyz"))[1]["conditions"]["scheduler"]["reason"]
        return "lacks the label" in reason

    await eventually(says_why)
    await around.kube.patch(
        NODES, NODE, {"metadata": {"labels": {"lead": "yes"}}}, kind=PatchKind.MERGE
    )

    async def leads():
        return (await served.get("/debug/leases"))[1]["may_act"]

    await eventually(leads)
    await served.stop()


async def test_a_port_that_is_taken_is_an_error_of_the_settings(around):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        settings = around.settings()
        addresses = replace(settings.addresses, status_port=taken.getsockname()[1])

        caught = await failure(around, replace(settings, addresses=addresses))

    assert caught.group_contains(SettingsError, match="cannot listen")


async def test_what_was_opened_is_closed_when_the_driver_is_missing(around):
    settings = around.settings()
    nvml = replace(settings.nvml, library=around.root / "nothing.so")

    caught = await failure(around, replace(settings, nvml=nvml))

    assert caught.group_contains(DriverUnavailable, match=r"nothing\.so")


async def failure(around, settings: Settings):
    """How the daemon fails with these settings; nothing of it is left."""
    before = asyncio.all_tasks()
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the caller looks into it
        async with asyncio.timeout(20):
            await run_daemon(settings)
    assert asyncio.all_tasks() == before
    assert around.kubelet.capacities.get() == {}
    return caught


async def run_daemon(settings: Settings):
    async with daemon(settings):
        await asyncio.Event().wait()
