"""The whole daemon on fakes: HTTP, TLS and unix sockets are real, and so is the driver's library."""

import base64
import re
import ssl
from contextlib import suppress

import aiohttp
import pytest

from hamid.codec.allocation_record import read_allocation
from hamid.daemon.settings import LeaderNodes
from hamid.daemon.simulate.extender_client import ExtenderClient
from hamid.kube.errors import NotFound
from hamid.kube.fake import FakeFeatures, Fault, FaultKind
from hamid.kube.port import (
    ENDPOINTS,
    LEASES,
    MUTATING_WEBHOOKS,
    NODES,
    PODS,
    SECRETS,
    PatchKind,
)
from hamid.kubelet.fake import ContainerState, FakeContainer, FakePod, GetSupport, Phase
from hamid.kubelet.fake import FakeFeatures as KubeletFeatures
from hamid.model.names import ResourceNames
from hamid.sched.settings import SchedSettings
from hamid.web.certs import load_into
from tests.daemon.stand import LEASE, NAMESPACE, NODE, RESOURCE, eventually, stand
from tests.web.sites import Pki

pytestmark = pytest.mark.slow

SLOTS = 20
OTHER = "node-2"


@pytest.fixture
async def around(monkeypatch):
    async with stand(monkeypatch) as made:
        yield made


async def place(around, pod, served):
    """Filter, prioritize and bind, as kube-scheduler does, at the replica that leads."""
    session = await around.scheduler_session()
    extender = ExtenderClient(session=session, url=f"{served.url('extender')}/scheduler")
    answer = await extender.filter(pod, [NODE])
    assert answer.node_names == (NODE,), answer.failed
    assert (await extender.prioritize(pod, [NODE])).keys() == {NODE}
    await extender.bind(pod, NODE)
    return await around.kube.get(PODS, pod["metadata"]["name"], namespace="default")


# The oldest that is promised to work, one in between, and the newest.
OLD_KUBELET = {"has_pods_api": False, "get_support": GetSupport.UNIMPLEMENTED}
CLUSTERS = [
    pytest.param("1.20", {**OLD_KUBELET, "keys_plugins_by_socket": False}, id="1.20"),
    pytest.param("1.28", OLD_KUBELET, id="1.28"),
    pytest.param("1.37", {}, id="1.37"),
]


@pytest.mark.parametrize(("version", "kubelet"), CLUSTERS)
async def test_a_pod_from_its_creation_to_its_limits(monkeypatch, version, kubelet):
    features = FakeFeatures(version=version)
    async with stand(
        monkeypatch, features=features, kubelet_features=KubeletFeatures(**kubelet)
    ) as around:
        served = await around.serve()
        await served.wait_until_ready("started", "kubelet", "own-pods", "certificates")
        await around.kubelet.wait_for_allocatable(RESOURCE, SLOTS)
        await around.trust(served)

        created = await around.create_pod("p", gpu=1, gpumem=3000, gpucores=30)
        bound = await place(around, created, served)
        status = await around.run_pod("p")

        assert created["spec"]["schedulerName"] == "hamid-scheduler"
        assert bound["spec"]["nodeName"] == NODE
        (share,) = read_allocation(bound).container("main").shares
        assert (share.memory_mib, share.core_percent) == (3000, 30)
        assert status.phase is Phase.RUNNING
        grant = around.kubelet.grant(bound["metadata"]["uid"], "main")
        assert grant.envs["NVIDIA_VISIBLE_DEVICES"] == share.device_uuid
        assert await leads_to(around, served, version)
        _, allocations = await served.get("/debug/allocations")
        assert [g["pod_name"] for g in allocations["grants"]] == ["p"]
        _, metrics = await served.get("/metrics")
        assert share.device_uuid in metrics
        await served.stop()


async def leads_to(around, served, version):
    """Whether kube-scheduler is led to the replica: by Endpoints, where there are no slices yet."""
    port = served.daemon.web.ports.get()["extender"]
    if version != "1.20":
        return await around.leader_port() == port

    async def look():
        with suppress(NotFound):
            found = await around.kube.get(ENDPOINTS, "hamid-scheduler", namespace=NAMESPACE)
            return found["subsets"][0]["ports"][0]["port"] == port

    return await eventually(look)


async def test_resources_have_the_names_that_the_settings_give_them_everywhere(around):
    names = ResourceNames(count="example.com/card", memory="example.com/mib")
    served = await around.serve(around.settings(sched=SchedSettings(resources=names)))
    await served.wait_until_ready("kubelet", "own-pods", "certificates")
    await around.kubelet.wait_for_allocatable(names.count, SLOTS)
    await around.trust(served)

    limits = {names.count: "1", names.memory: "3000"}
    container = {"name": "main", "image": "x:1", "resources": {"limits": limits}}
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [container]}}
    created = await around.kube.create(PODS, pod, namespace="default")
    bound = await place(around, created, served)
    metadata = bound["metadata"]
    status = await around.kubelet.run_pod(
        FakePod(
            name="p",
            uid=metadata["uid"],
            containers=(FakeContainer(count=1, resource_name=names.count),),
            annotations=metadata["annotations"],
        )
    )

    assert status.phase is Phase.RUNNING
    (share,) = read_allocation(bound, names=names).container("main").shares
    assert share.memory_mib == 3000
    grant = around.kubelet.grant(metadata["uid"], "main")
    assert grant.envs["CUDA_DEVICE_MEMORY_LIMIT_0"] == "3000m"
    assert RESOURCE not in around.kubelet.capacities.get()
    await served.stop()


async def test_a_refused_pod_is_told_why_by_the_api_server(around):
    served = await around.serve()
    await around.trust(served)

    with pytest.raises(Exception, match=r"nvidia\.com/gpumem"):
        await around.create_pod("p", gpu=1, gpumem="3.5")

    await served.stop()


async def test_only_who_has_the_leaders_certificate_may_call_the_extender(around):
    served = await around.serve()
    await served.wait_until_ready("certificates")
    session = await around.scheduler_session()
    url = f"{served.url('extender')}/scheduler/filter"

    async with session.post(url, data=b"{}") as answer:
        assert answer.status == 400  # read, and found to be no call of kube-scheduler

    forged = ssl.create_default_context()
    forged.check_hostname, forged.verify_mode = False, ssl.CERT_NONE
    load_into(forged, Pki("hamid clients").client_material())
    for nothing_of_ours in (False, forged):
        connector = aiohttp.TCPConnector(ssl=nothing_of_ours)
        async with aiohttp.ClientSession(connector=connector) as stranger:
            with pytest.raises(aiohttp.ClientError):
                await stranger.post(url, data=b"{}")
    plain = url.replace("https:", "http:")
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientError):
            await session.post(plain, data=b"{}")
    await served.stop()


async def wait_for_scheduler(served, pattern):
    """Until this is the replica's part in scheduling: it may be ready before it knows of a leader."""

    async def look():
        _, body = await served.get("/readyz")
        return re.fullmatch(pattern, body["conditions"]["scheduler"]["reason"])

    await eventually(look)


async def test_a_follower_says_who_leads_and_hangs_up(around):
    leader = await around.serve()
    await leader.wait_until_ready("certificates")
    follower = await around.serve(around.settings(OTHER))
    await follower.wait_until_ready("certificates")
    await wait_for_scheduler(follower, f"follows {NODE}_.*")
    session = await around.scheduler_session()

    async with session.post(f"{follower.url('extender')}/scheduler/filter", data=b"{}") as answer:
        body = await answer.json()

    lease = await around.kube.get(LEASES, LEASE.name, namespace=NAMESPACE)
    holder = lease["spec"]["holderIdentity"]
    assert holder.startswith(f"{NODE}_")
    assert answer.status == 503
    assert answer.headers["Connection"] == "close"
    assert holder in body["message"] + body["hint"]
    await follower.stop()
    await leader.stop()


async def test_a_follower_answers_the_webhook_as_the_leader_does(around):
    leader = await around.serve()
    await leader.wait_until_ready("certificates")
    follower = await around.serve(around.settings(OTHER))
    await wait_for_scheduler(follower, f"follows {NODE}_.*")
    await around.trust(follower)

    created = await around.create_pod("p", gpu=1, gpumem=3000)

    assert created["spec"]["schedulerName"] == "hamid-scheduler"
    with pytest.raises(Exception, match=r"nvidia\.com/gpumem"):
        await around.create_pod("q", gpu=1, gpumem="3.5")
    await follower.stop()
    await leader.stop()


async def test_a_follower_goes_on_where_the_leader_ended(around):
    first = await around.serve()
    await first.wait_until_ready("kubelet", "own-pods", "certificates")
    await around.trust(first)
    await around.kubelet.wait_for_allocatable(RESOURCE, SLOTS)
    second = await around.serve(around.settings(OTHER))
    await second.wait_until_ready("certificates")
    created = await around.create_pod("p", gpu=1, gpumem=3000)
    assert await around.leader_port() == first.daemon.web.ports.get()["extender"]

    await first.stop()

    await wait_for_scheduler(second, "leads")
    expected = second.daemon.web.ports.get()["extender"]

    async def is_led_here():
        return await around.leader_port() == expected

    await eventually(is_led_here)
    bound = await place(around, created, second)
    assert bound["spec"]["nodeName"] == NODE
    await second.stop()


async def test_the_leader_needs_no_more_rights_on_secrets_than_the_chart_gives(around):
    allowed = {
        ("get", "hamid-tls"),
        ("update", "hamid-tls"),
        ("update", "hamid-scheduler-client"),
    }
    around.api.gate.authorize = lambda attempt: (
        attempt.resource != "secrets"
        or attempt.caller == "cluster"
        or (attempt.verb, attempt.name) in allowed
    )
    served = await around.serve()

    await served.wait_until_ready("certificates")
    await around.scheduler_session()
    await around.trust(served)

    assert around.api.gate.requests.count(resource="secrets", code=403) == 0
    tls = await around.kube.get(SECRETS, "hamid-tls", namespace=NAMESPACE)
    hook = await around.kube.get(MUTATING_WEBHOOKS, "hamid")
    bundle = hook["webhooks"][0]["clientConfig"]["caBundle"]
    assert base64.b64decode(bundle) in base64.b64decode(tls["data"]["ca.crt"])
    await served.stop()


def cut_off(around):
    """No request of a daemon gets an answer from now on."""
    around.api.faults.add(Fault(kind=FaultKind.DROP, caller="hamid", times=None))


async def test_cards_are_registered_while_the_api_server_is_away_and_the_rest_follows(around, logs):
    lead = {"metadata": {"labels": {"lead": "yes"}}}
    await around.kube.patch(NODES, NODE, lead, kind=PatchKind.MERGE)
    cut_off(around)
    served = await around.serve(
        around.settings(leader_nodes=LeaderNodes(label="lead", value="yes"))
    )

    await around.kubelet.wait_for_allocatable(RESOURCE, SLOTS)
    code, body = await served.get("/readyz")
    assert code == 503
    told = {name: c["true"] for name, c in body["conditions"].items()}
    assert not told["own-pods"]
    assert not told["certificates"]

    async def is_delayed():
        return [e for e in logs if e["event"] == "start delayed" and "election" in e["what"]]

    await eventually(is_delayed)
    around.api.faults.clear()
    await served.wait_until_ready("kubelet", "own-pods", "certificates")
    assert await around.leader_port()
    assert len(await is_delayed()) == 1
    await served.stop()


async def test_what_runs_starts_again_without_the_api_server_and_what_is_new_is_told_why_not(
    around,
):
    served = await around.serve()
    await served.wait_until_ready("kubelet", "own-pods", "certificates")
    await around.kubelet.wait_for_allocatable(RESOURCE, SLOTS)
    await around.trust(served)
    for name in ("old", "new"):
        await place(around, await around.create_pod(name, gpu=1, gpumem=3000), served)
    await around.run_pod("old")
    uid = (await around.kube.get(PODS, "old", namespace="default"))["metadata"]["uid"]
    await served.stop()
    cut_off(around)

    served = await around.serve()
    await around.kubelet.wait_for_allocatable(RESOURCE, SLOTS)
    again = await around.kubelet.start_container(uid, "main")
    refused = await around.run_pod("new")

    assert again.containers["main"].state is ContainerState.RUNNING
    assert again.containers["main"].start_count == 2
    assert refused.phase is Phase.FAILED
    assert "the API server did not tell" in refused.message
    await served.stop()
