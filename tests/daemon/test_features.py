from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from hamid.aiokit.latest import Latest
from hamid.aiokit.services import running
from hamid.daemon.features import KubeletProbe, discover
from hamid.kube.fake import FakeApi, FakeFeatures, FakeKube
from hamid.kube.port import NODES, PatchKind
from hamid.kubelet.errors import NotServed
from hamid.kubelet.fake import FakeFeatures as KubeletFeatures
from hamid.kubelet.fake import FakeKubelet, GetSupport
from hamid.kubelet.pod_resources import PodResourcesClient
from hamid.kubelet.pods_api import PodsApiClient
from hamid.kubelet.registration import Registration
from hamid.plugin.admission_view import AdmissionView
from hamid.plugin.settings import GrantMode

NODE = "node-1"

# --- the API server

POLICIES = "ValidatingAdmissionPolicy"
CONDITIONS = "matchConditions"
SLICES = "EndpointSlice"
UID = "Binding's uid"
BUDGETS = "PodDisruptionBudget"
OLD = "older than 1.20"


@pytest.mark.parametrize(
    ("version", "lacking"),
    [
        ("1.19", {OLD, CONDITIONS, POLICIES, SLICES, UID, BUDGETS}),
        ("1.20", {CONDITIONS, POLICIES, SLICES, UID, BUDGETS}),
        ("1.22", {CONDITIONS, POLICIES, UID}),
        ("1.25.3", {CONDITIONS, POLICIES, UID}),
        ("1.25.9", {CONDITIONS, POLICIES}),
        ("1.28", {POLICIES}),
        ("1.30", set()),
        ("1.37", set()),
    ],
)
async def test_what_a_cluster_lacks_is_said_with_what_it_costs(version, lacking, logs):
    await discover(FakeKube(api=FakeApi(features=FakeFeatures(version=version))))

    told = [entry["cost"] for entry in logs if entry["event"] == "cluster lacks a feature"]
    assert len(told) == len(lacking)
    for what in lacking:
        assert any(what in cost for cost in told), what


@pytest.mark.parametrize(
    ("version", "cost"),
    [("1.27", "whoever may annotate a pod can change"), ("1.29", "can be forged")],
)
async def test_what_nobody_guards_on_an_older_cluster_is_said(version, cost, logs):
    await discover(FakeKube(api=FakeApi(features=FakeFeatures(version=version))))

    assert any(cost in entry["cost"] for entry in logs)


async def test_what_an_administrator_switched_off_is_lacking_too(logs):
    policies = "validatingadmissionpolicies.admissionregistration.k8s.io"
    features = FakeFeatures(version="1.37", lacks=frozenset({policies}))

    found = await discover(FakeKube(api=FakeApi(features=features)))

    assert not found.has_validating_policies
    assert len(logs) == 1


# --- the kubelet

NO_GET = "no Get"
NO_PODS_API = "no Pods API"
NO_PODS = "do not answer"
NO_CDI = "drops CDI names"


@asynccontextmanager
async def probing(root, *, features=None, version="v1.37.2", mode=GrantMode.ENV):
    """A probe of a kubelet that has these features, on a node of this version."""
    kube = FakeKube()
    status = {"nodeInfo": {"kubeletVersion": version}} if version else {}
    await kube.create(NODES, {"metadata": {"name": NODE}, "status": status})
    async with FakeKubelet(root, features=features) as kubelet:
        resources = PodResourcesClient(
            resource_name="nvidia.com/gpu", socket_path=kubelet.pod_resources_socket
        )
        pods_api = PodsApiClient(socket_path=kubelet.pods_api_socket)
        yield KubeletProbe(
            registration=Latest(Registration(is_registered=False, reason="")),
            view=AdmissionView(pod_resources=resources, pods_api=pods_api),
            kube=kube,
            node_name=NODE,
            files=SimpleNamespace(mode=mode, takes_cdi_names=False),
            settle_s=0.0,
        )
        resources.close()
        pods_api.close()


def told(logs):
    return [entry["cost"] for entry in logs if entry["event"] == "kubelet lacks a feature"]


@pytest.mark.parametrize(
    ("changed", "lacking"),
    [
        ({}, []),
        ({"features": {"get_support": GetSupport.DISABLED}}, [NO_GET]),
        ({"features": {"get_support": GetSupport.UNIMPLEMENTED}}, [NO_GET]),
        ({"features": {"has_pods_api": False}}, [NO_PODS_API]),
        ({"features": {"has_pod_resources": False}}, [NO_PODS]),
        ({"version": "v1.28.9-gke.1", "mode": GrantMode.CDI}, [NO_CDI]),
        ({"version": "v1.28.9-gke.1", "mode": GrantMode.ENV}, []),
        ({"version": "v1.29.0+k3s1", "mode": GrantMode.CDI}, []),
        ({"version": "", "mode": GrantMode.CDI}, []),
        ({"version": "strange", "mode": GrantMode.CDI}, []),
    ],
)
async def test_what_a_kubelet_lacks_is_said_with_what_it_costs(short_path, changed, lacking, logs):
    features = KubeletFeatures(**changed.get("features", {}))

    async with probing(short_path, **(changed | {"features": features})) as probe:
        await probe.step()

    assert len(told(logs)) == len(lacking)
    for what in lacking:
        assert any(what in cost for cost in told(logs))


@pytest.mark.parametrize(
    ("version", "takes_names"),
    [("v1.28.9-gke.1", False), ("v1.29.0+k3s1", True), ("v1.37.2", True), ("strange", True)],
)
async def test_who_writes_grants_is_told_whether_the_kubelet_takes_names_of_cdi(
    short_path, version, takes_names
):
    async with probing(short_path, version=version, mode=GrantMode.CDI) as probe:
        await probe.step()

        assert probe.files.takes_cdi_names is takes_names


async def test_an_upgraded_kubelet_is_given_names_of_cdi_from_then_on(short_path):
    async with probing(short_path, version="v1.28.9", mode=GrantMode.CDI) as probe:
        await probe.step()
        upgraded = {"status": {"nodeInfo": {"kubeletVersion": "v1.29.0"}}}
        await probe.kube.patch(NODES, NODE, upgraded, kind=PatchKind.MERGE, subresource="status")
        await probe.step()

        assert probe.files.takes_cdi_names


async def test_a_lack_is_said_once_however_often_the_kubelet_restarts(short_path, logs):
    features = KubeletFeatures(has_pods_api=False)

    async with probing(short_path, features=features) as probe:
        await probe.step()
        await probe.step()

    assert len(told(logs)) == 1


async def test_what_a_kubelet_opens_a_moment_after_it_registered_us_is_not_said_to_be_lacking(
    short_path, logs
):
    class Late:
        """Serves from the second call on."""

        def __init__(self, pods_api):
            self.pods_api, self.call_count = pods_api, 0

        async def list_pods(self):
            self.call_count += 1
            if self.call_count == 1:
                raise NotServed("no socket yet", hint="")
            return await self.pods_api.list_pods()

    async with probing(short_path) as probe:
        probe.view.pods_api = Late(probe.view.pods_api)
        await probe.step()

    assert told(logs) == []


async def test_the_kubelet_is_looked_at_each_time_it_has_registered_us():
    looked = Latest(0)

    class Counting(KubeletProbe):
        async def step(self):
            looked.publish(looked.get() + 1)

    probe = Counting(
        registration=Latest(Registration(is_registered=False, reason="")),
        view=SimpleNamespace(),
        kube=FakeKube(),
        node_name=NODE,
        files=SimpleNamespace(),
    )

    async with running(probe):
        for count in (1, 2):
            probe.registration.publish(
                Registration(is_registered=True, reason="", registered_count=count)
            )
            await looked.wait_for(lambda seen, count=count: seen == count)
            probe.registration.publish(
                Registration(is_registered=False, reason="", registered_count=count)
            )
