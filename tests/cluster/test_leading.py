"""Leader, endpoint, certificates and webhook on a real API server."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING

import pytest
from prometheus_client import CollectorRegistry

from hamid.aiokit.latest import Latest
from hamid.aiokit.services import running
from hamid.codec.endpoints import ServerAddress
from hamid.codec.secret import decode_secret
from hamid.codec.standbys import decode_standbys
from hamid.kube.client import KubeClient
from hamid.kube.errors import Invalid, KubeError, Unavailable
from hamid.kube.port import (
    ENDPOINT_SLICES,
    LEASES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    PatchKind,
)
from hamid.kube.settings import KubeSettings
from hamid.model import names
from hamid.sched.admission import Admission, AdmissionMetrics
from hamid.sched.certificate_settings import DAY_S, CertificateSettings
from hamid.sched.certificates import CertificateKeeper, CertificateReader
from hamid.sched.elector import ElectorMetrics, LeaseElector
from hamid.sched.endpoint import LeaderEndpoint
from hamid.sched.leader_settings import EndpointSettings, LeaseSettings
from hamid.sched.leadership import FixedLeadership
from hamid.web import pki
from hamid.web.certs import ServerTls
from hamid.web.middleware import RequestMetrics
from hamid.web.server import WebServer, WebSite

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.cluster.harness import Cluster


class Clock:
    def __init__(self):
        self.ahead_s = 0.0

    def __call__(self):
        return time.time() + self.ahead_s  # noqa: TID251 - the API server has the real time


@pytest.fixture
async def kube(real_cluster: Cluster) -> AsyncIterator[KubeClient]:
    async with KubeClient.open(KubeSettings(kubeconfig=real_cluster.kubeconfig)) as client:
        yield client


@pytest.fixture
async def namespace(kube) -> AsyncIterator[str]:
    created = await kube.create(NAMESPACES, {"metadata": {"generateName": "leading-"}})
    name = created["metadata"]["name"]
    async with asyncio.timeout(30):
        # Without its default account a namespace takes no pods.
        since = created["metadata"]["resourceVersion"]
        accounts = kube.watch(SERVICE_ACCOUNTS, resource_version=since, namespace=name)
        await anext(accounts)
        await accounts.aclose()
    yield name
    await kube.delete(NAMESPACES, name)


def make_elector(kube, namespace, identity, clock):
    return LeaseElector(
        kube=kube,
        settings=LeaseSettings(namespace=namespace),
        identity=identity,
        clock=clock,
        wall_clock=clock,
        metrics=ElectorMetrics(CollectorRegistry()),
        rng=random.Random(identity),
    )


async def test_the_lease_goes_from_one_to_the_next(kube, namespace):
    clock = Clock()
    a = make_elector(kube, namespace, "node-a_1", clock)
    b = make_elector(kube, namespace, "node-b_1", clock)
    for elector in (a, b, a, a):
        await elector.step()
    assert (a.may_act(), b.may_act()) == (True, False)
    lease = await kube.get(LEASES, "hamid-scheduler", namespace=namespace)
    assert decode_standbys(lease) == ("node-b_1",)

    await a.release()
    await b.step()
    assert (a.may_act(), b.may_act()) == (False, True)

    clock.ahead_s += 10.0
    assert not b.may_act()
    await a.step()
    clock.ahead_s += 15.0
    await a.step()
    await b.step()

    assert (a.may_act(), b.may_act()) == (True, False)
    spec = (await kube.get(LEASES, "hamid-scheduler", namespace=namespace))["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("node-a_1", 2)


async def test_the_leaders_address_is_published_for_as_long_as_there_is_the_service(
    real_cluster, kube, namespace
):
    service = {"metadata": {"name": "hamid-scheduler"}, "spec": {"ports": [{"port": 443}]}}
    await kube.create(SERVICES, service, namespace=namespace)

    async def publish(address):
        endpoint = LeaderEndpoint(
            kube=kube,
            leadership=FixedLeadership(),
            server=ServerAddress(address=address, port=9443, port_name="extender"),
            settings=EndpointSettings(namespace=namespace),
        )
        await endpoint.step()
        await endpoint.step()
        found = await kube.get(ENDPOINT_SLICES, "hamid-scheduler", namespace=namespace)
        return found["addressType"], found["endpoints"][0]["addresses"]

    assert await publish("10.0.0.7") == ("IPv4", ["10.0.0.7"])
    assert await publish("10.0.0.8") == ("IPv4", ["10.0.0.8"])
    assert await publish("fd00::8") == ("IPv6", ["fd00::8"])

    await kube.delete(SERVICES, "hamid-scheduler", namespace=namespace)

    await asyncio.to_thread(
        real_cluster.wait_for,
        "endpointslices.discovery.k8s.io",
        lambda slices: not slices,
        namespace=namespace,
    )


class Webhook:
    """A replica that leads and serves the webhook for one namespace."""

    def __init__(self, kube, namespace):
        self.kube = kube
        self.namespace = namespace
        self.clock = Clock()
        self.settings = CertificateSettings(
            namespace=namespace,
            webhook_configuration=namespace,
            server_names=("127.0.0.1",),
        )
        self.tls = ServerTls()
        served = Latest("")
        self.keeper = CertificateKeeper(
            kube=kube,
            leadership=FixedLeadership(),
            settings=self.settings,
            targets=[self.tls],
            announce=served.publish,
            wall_clock=self.clock,
        )
        self.reader = CertificateReader(
            kube=kube, settings=self.settings, targets=[self.tls], served=served
        )
        registry = CollectorRegistry()
        routes = Admission(metrics=AdmissionMetrics(registry)).routes()
        site = WebSite(name="webhook", host="127.0.0.1", port=0, routes=routes, tls=self.tls)
        self.server = WebServer(
            sites=[site], metrics=RequestMetrics(registry), clock=time.monotonic
        )

    async def configure(self):
        port = (await self.server.ports.wait_for(bool))["webhook"]
        await self.kube.create(
            MUTATING_WEBHOOKS,
            {
                "metadata": {"name": self.namespace},
                "webhooks": [
                    {
                        "name": "pods.hamid.io",
                        "admissionReviewVersions": ["v1"],
                        "sideEffects": "None",
                        "clientConfig": {"url": f"https://127.0.0.1:{port}/webhook"},
                        "rules": [
                            {
                                "apiGroups": [""],
                                "apiVersions": ["v1"],
                                "resources": ["pods"],
                                "operations": ["CREATE", "UPDATE"],
                            }
                        ],
                        "namespaceSelector": {
                            "matchLabels": {"kubernetes.io/metadata.name": self.namespace}
                        },
                        "failurePolicy": "Fail",
                    }
                ],
            },
        )

    async def renew(self):
        await self.keeper.step()
        await self.reader.step()

    async def create_admitted(self, pod):
        """Create the pod as soon as the API server knows of, and trusts, the webhook."""
        async with asyncio.timeout(30):
            while True:
                try:
                    made = await self.kube.create(PODS, pod, namespace=self.namespace)
                except Unavailable:  # it does not trust the certificate yet
                    made = None
                if made and made["spec"]["schedulerName"] == names.SCHEDULER_NAME:
                    return made
                if made:
                    await self.kube.delete(
                        PODS, made["metadata"]["name"], namespace=self.namespace, grace_period_s=0
                    )
                await asyncio.sleep(0.05)


@pytest.fixture
async def webhook(kube, namespace):
    made = Webhook(kube, namespace)
    async with running(made.server):
        await made.configure()
        await made.renew()
        yield made
        await kube.delete(MUTATING_WEBHOOKS, namespace)


def pod(**container):
    main = {
        "name": "main",
        "image": "localhost/none:1",
        "resources": {"limits": {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000}},
        **container,
    }
    return {
        "metadata": {"generateName": "p-", "annotations": {names.POD_NODE: "forged", "a": "b"}},
        "spec": {"containers": [main]},
    }


async def test_the_api_server_asks_us_about_pods(webhook, kube, namespace):
    made = await webhook.create_admitted(pod())

    assert made["metadata"]["annotations"] == {"a": "b"}
    amounts = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3k"}
    assert made["spec"]["containers"][0]["resources"] == {"limits": amounts, "requests": amounts}
    with pytest.raises(KubeError, match=r"'main'.*privileged"):
        await kube.create(PODS, pod(securityContext={"privileged": True}), namespace=namespace)
    made["metadata"]["annotations"][names.POD_NODE] = "forged"
    with pytest.raises(KubeError, match=names.POD_NODE):
        await kube.replace(PODS, made)


async def test_an_ephemeral_container_gets_no_resources_and_so_no_devices(kube, namespace):
    """Of field report d 1: the API server refuses them by itself, without asking us."""
    target = pod()
    target["metadata"] = {"name": "a"}
    target["spec"]["schedulerName"] = "nobody"
    await kube.create(PODS, target, namespace=namespace)
    asking = {
        "name": "debug",
        "image": "localhost/none:1",
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }

    with pytest.raises(Invalid, match=r"resources.*cannot be set for an Ephemeral Container"):
        await kube.patch(
            PODS,
            "a",
            {"spec": {"ephemeralContainers": [asking]}},
            kind=PatchKind.STRATEGIC,
            namespace=namespace,
            subresource="ephemeralcontainers",
        )


async def test_the_api_server_trusts_us_after_the_certificates_were_made_anew(
    webhook, kube, namespace
):
    await webhook.create_admitted(pod())
    secret = await kube.get(SECRETS, webhook.settings.tls_secret, namespace=namespace)
    await kube.replace(SECRETS, {**secret, "data": {}})

    await webhook.renew()

    await webhook.create_admitted(pod())


async def test_kube_schedulers_certificate_is_replaced(webhook, kube, namespace):
    async def given():
        found = await kube.get(SECRETS, webhook.settings.client_secret, namespace=namespace)
        return decode_secret(found)

    first = await given()
    webhook.clock.ahead_s += 21 * DAY_S

    await webhook.renew()

    second = await given()
    assert second["tls.crt"] != first["tls.crt"]
    assert (
        pki.validity_of(second["tls.crt"]).not_after_s
        > pki.validity_of(first["tls.crt"]).not_after_s
    )
