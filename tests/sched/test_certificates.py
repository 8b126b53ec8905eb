import asyncio
import ssl
import time

import aiohttp
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from hamid.aiokit.latest import Latest
from hamid.aiokit.services import running
from hamid.codec.secret import decode_secret, encode_secret
from hamid.kube.errors import NotFound
from hamid.kube.fake import FakeKube, Fault, FaultKind
from hamid.kube.port import MUTATING_WEBHOOKS, SECRETS
from hamid.sched import tls_state as tls
from hamid.sched.certificate_settings import DAY_S, CertificateSettings
from hamid.sched.certificates import CALM_S, CertificateKeeper, CertificateReader
from hamid.sched.leadership import FixedLeadership
from hamid.web import pki
from hamid.web.certs import ServerTls, TlsMaterial, load_into
from hamid.web.middleware import RequestMetrics
from hamid.web.server import WebServer, WebSite

NOW_S = time.time()  # noqa: TID251 - OpenSSL compares certificates with the real clock
SETTINGS = CertificateSettings(namespace="default")


class Clock:
    now_s = NOW_S

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def kube():
    return FakeKube()


@pytest.fixture
def served():
    """What the lease says that the leader serves with."""
    return Latest("")


def make_keeper(kube, clock, leadership=None, targets=(), served=None):
    return CertificateKeeper(
        kube=kube,
        leadership=leadership or FixedLeadership(),
        settings=SETTINGS,
        targets=targets,
        announce=(served or Latest("")).publish,
        wall_clock=clock,
    )


@pytest.fixture
def keeper(kube, clock, served):
    return make_keeper(kube, clock, served=served)


def make_reader(kube, *targets, served=None):
    return CertificateReader(
        kube=kube, settings=SETTINGS, targets=targets, served=served or Latest("")
    )


async def values_of(kube, name):
    return decode_secret(await kube.get(SECRETS, name, namespace="default"))


async def state_of(kube):
    return tls.decode_state(await values_of(kube, SETTINGS.tls_secret))


def webhooks(*bundles):
    return {
        "metadata": {"name": SETTINGS.webhook_configuration},
        "webhooks": [
            {"name": f"w{n}.hamid.io", "clientConfig": {"caBundle": bundle} if bundle else {}}
            for n, bundle in enumerate(bundles)
        ],
    }


async def test_from_nothing_the_leader_makes_all_that_is_needed(kube, keeper):
    assert await keeper.step() == SETTINGS.interval_s

    state = await state_of(kube)
    client = await values_of(kube, SETTINGS.client_secret)
    assert sorted(client) == ["ca.crt", "tls.crt", "tls.key"]
    assert client["ca.crt"] == state.server_bundle_pem
    assert client["tls.crt"] == state.client_pem
    assert pki.is_issued_by(client["tls.crt"], state.client_bundle_pem)


async def test_empty_secrets_of_the_chart_are_filled_and_keep_their_labels(kube, keeper):
    for name in (SETTINGS.tls_secret, SETTINGS.client_secret):
        empty = {"metadata": {"name": name, "labels": {"chart": "hamid"}}}
        await kube.create(SECRETS, empty, namespace="default")

    await keeper.step()

    assert (await state_of(kube)).material is not None
    assert await values_of(kube, SETTINGS.client_secret)
    found = await kube.get(SECRETS, SETTINGS.tls_secret, namespace="default")
    assert found["metadata"]["labels"] == {"chart": "hamid"}
    assert kube.requests.count(verb="create", resource="secrets") == 2


async def test_what_is_right_is_not_written_again(kube, keeper):
    await kube.create(MUTATING_WEBHOOKS, webhooks(None))
    await keeper.step()
    kube.requests.clear()

    await keeper.step()

    assert kube.requests.by() == {
        ("get", "secrets"): 1,
        ("get", "mutatingwebhookconfigurations.admissionregistration.k8s.io"): 1,
    }


async def test_a_new_leader_goes_on_with_what_the_old_one_made(kube, clock, keeper):
    await keeper.step()
    before = await values_of(kube, SETTINGS.tls_secret)

    await make_keeper(kube, clock).step()

    assert await values_of(kube, SETTINGS.tls_secret) == before


async def test_a_replica_that_may_not_act_writes_nothing(kube, clock):
    await make_keeper(kube, clock, FixedLeadership(is_leader=False)).step()

    with pytest.raises(NotFound):
        await state_of(kube)


async def test_a_leader_that_loses_the_lease_midway_stops_writing(kube, clock):
    leadership = FixedLeadership()

    class Losing(FakeKube):
        async def create(self, *args, **kwargs):
            leadership.is_leader = False
            return await super().create(*args, **kwargs)

    losing = Losing(api=kube.api)
    await kube.create(MUTATING_WEBHOOKS, webhooks(None))

    await make_keeper(losing, clock, leadership).step()

    with pytest.raises(NotFound):
        await values_of(kube, SETTINGS.client_secret)
    found = await kube.get(MUTATING_WEBHOOKS, SETTINGS.webhook_configuration)
    assert "caBundle" not in found["webhooks"][0]["clientConfig"]


async def test_every_webhook_of_the_configuration_is_given_the_bundle(kube, keeper):
    await kube.create(MUTATING_WEBHOOKS, webhooks(None, "b2xk"))

    await keeper.step()

    found = await kube.get(MUTATING_WEBHOOKS, SETTINGS.webhook_configuration)
    bundle = (await state_of(kube)).server_bundle_pem
    secret = encode_secret({"ca": bundle}, namespace="n", name="s")
    assert [w["clientConfig"]["caBundle"] for w in found["webhooks"]] == [secret["data"]["ca"]] * 2


async def test_a_webhook_configuration_that_is_missing_is_said_once(kube, keeper, logs):
    await keeper.step()
    await keeper.step()

    assert [e["event"] for e in logs].count("webhook configuration missing") == 1


async def test_a_new_client_certificate_is_delivered_once_the_leader_accepts_it(kube, clock):
    target = ServerTls(wants_client_certificate=True)
    accepted_at_delivery = []

    class Watching(FakeKube):
        async def replace(self, resource, body, **kwargs):
            if body["metadata"]["name"] == SETTINGS.client_secret:
                accepted_at_delivery.append(target._material.client_ca_pem)
            return await super().replace(resource, body, **kwargs)

    keeper = make_keeper(Watching(api=kube.api), clock, targets=[target])
    await keeper.step()
    old = await values_of(kube, SETTINGS.client_secret)
    clock.now_s += 21 * DAY_S

    await keeper.step()

    new, state = await values_of(kube, SETTINGS.client_secret), await state_of(kube)
    assert new["tls.crt"] != old["tls.crt"]
    assert new["tls.crt"] == state.client_pem
    assert len(pki.split(state.client_bundle_pem)) == 2
    assert accepted_at_delivery[-1] == state.client_bundle_pem


async def test_a_delivery_that_fails_is_tried_again_with_the_same_certificate(kube, clock, keeper):
    await keeper.step()
    clock.now_s += 21 * DAY_S
    kube.faults.add(Fault(kind=FaultKind.STATUS, code=500, name=SETTINGS.client_secret))

    await keeper.step()
    announced = await state_of(kube)
    await keeper.step()

    state = await state_of(kube)
    assert (await values_of(kube, SETTINGS.client_secret))["tls.crt"] == state.client_pem
    assert state.client_bundle_pem == announced.client_bundle_pem
    assert announced.client_pem != state.client_pem


async def test_a_leader_that_died_before_the_delivery_is_followed_by_one_that_begins_anew(
    kube, clock, keeper
):
    await keeper.step()
    clock.now_s += 21 * DAY_S
    kube.faults.add(Fault(kind=FaultKind.STATUS, code=500, name=SETTINGS.client_secret))
    await keeper.step()

    await make_keeper(kube, clock).step()

    client = await values_of(kube, SETTINGS.client_secret)
    accepted = pki.split((await state_of(kube)).client_bundle_pem)
    assert len(accepted) == 3
    assert any(pki.is_issued_by(client["tls.crt"], authority) for authority in accepted)


async def test_the_client_secret_is_never_read(kube, keeper, clock):
    read = []

    class Watching(FakeKube):
        async def get(self, resource, name, **kwargs):
            read.append(name)
            return await super().get(resource, name, **kwargs)

    keeper.kube = Watching(api=kube.api)
    for _ in range(3):
        await keeper.step()
        clock.now_s += 21 * DAY_S

    assert SETTINGS.client_secret not in read


async def test_a_damaged_secret_is_made_anew(kube, keeper):
    await keeper.step()
    secret = await kube.get(SECRETS, SETTINGS.tls_secret, namespace="default")
    await kube.replace(SECRETS, {**secret, "data": {"tls.crt": "aGVsbG8="}})

    await keeper.step()

    assert (await state_of(kube)).material is not None


async def test_a_failure_is_said_once_and_tried_again_soon(kube, keeper, logs):
    kube.faults.add(Fault(kind=FaultKind.STATUS, code=500, times=2, verb="get"))

    delays = [await keeper.step() for _ in range(3)]

    assert max(delays[:2]) <= 1.0
    assert delays[2] == SETTINGS.interval_s
    events = [entry["event"] for entry in logs]
    assert events.count("certificates not kept") == 1
    assert events.count("certificates kept again") == 1


async def test_of_two_that_take_themselves_for_the_leader_one_prevails(kube, clock, keeper):
    other = make_keeper(kube, clock)
    kube.faults.add(Fault(kind=FaultKind.DELAY, verb="create", times=1, delay_s=0.01))

    async with asyncio.TaskGroup() as group:
        group.create_task(keeper.step())
        group.create_task(other.step())
    await keeper.step()
    await other.step()

    client = await values_of(kube, SETTINGS.client_secret)
    assert pki.is_issued_by(client["tls.crt"], (await state_of(kube)).client_bundle_pem)


async def test_no_private_key_is_ever_logged(kube, keeper, clock, logs):
    reader = make_reader(kube, ServerTls())
    for _ in range(4):
        await keeper.step()
        await reader.step()
        clock.now_s += 30 * DAY_S

    assert logs
    assert "PRIVATE" not in repr(logs)
    assert "PRIVATE" not in repr(keeper)
    assert "PRIVATE" not in repr(await state_of(kube))


# Reading.


async def test_a_replica_serves_with_what_the_secret_holds(kube, keeper, served):
    target = ServerTls(wants_client_certificate=True)
    await keeper.step()

    assert await make_reader(kube, target).step() is None

    assert target.is_loaded
    assert target.fingerprint == served.get()


def reads(kube):
    return kube.requests.count(verb="get", resource="secrets")


@pytest.mark.looptime
async def test_the_secret_is_read_once_and_again_only_for_what_is_new(kube, keeper, clock, served):
    target = ServerTls(wants_client_certificate=True)
    await keeper.step()
    async with running(make_reader(kube, target, served=served)):
        await asyncio.sleep(1)
        first = target.fingerprint
        kube.requests.clear()
        await asyncio.sleep(30 * DAY_S)
        assert reads(kube) == 0

        clock.now_s += 61 * DAY_S
        await keeper.step()
        kube.requests.clear()
        await asyncio.sleep(1)

    assert target.fingerprint == served.get() != first
    assert reads(kube) == 1


@pytest.mark.looptime
async def test_what_the_lease_says_before_the_secret_was_read_is_no_news_after(
    kube, keeper, served
):
    await keeper.step()
    kube.requests.clear()

    async with running(make_reader(kube, ServerTls(), served=served)):
        served.publish("of a certificate that is replaced already")
        await asyncio.sleep(DAY_S)

    assert reads(kube) == 1


@pytest.mark.looptime
async def test_whoever_leads_serves_with_it_already_and_reads_nothing(kube, clock, served):
    target = ServerTls()
    keeper = make_keeper(kube, clock, targets=[target], served=served)
    await keeper.step()
    async with running(make_reader(kube, target, served=served)):
        await asyncio.sleep(1)
        clock.now_s += 61 * DAY_S
        await keeper.step()
        kube.requests.clear()
        await asyncio.sleep(DAY_S)

    assert reads(kube) == 0


async def test_until_there_is_something_to_serve_with_a_replica_looks_often(kube, keeper, logs):
    target = ServerTls()
    reader = make_reader(kube, target)
    assert await reader.step() <= 0.5
    await kube.create(SECRETS, {"metadata": {"name": SETTINGS.tls_secret, "namespace": "default"}})
    assert await reader.step() <= 1.0
    await keeper.step()

    await reader.step()

    assert target.is_loaded
    events = [entry["event"] for entry in logs]
    assert events.count("certificate not read") == 1
    assert events.count("certificate read again") == 1


async def test_a_certificate_that_is_not_made_yet_is_a_warning_only_when_it_lasts(kube, logs):
    reader = make_reader(kube, ServerTls())

    for _ in range(20):
        await reader.step()

    told = [entry["log_level"] for entry in logs if entry["event"] == "certificate not read"]
    assert told == ["info", "warning"]


async def test_a_replica_that_serves_already_takes_a_failure_calmly(kube, keeper):
    reader = make_reader(kube, ServerTls())
    await keeper.step()
    await reader.step()
    kube.faults.add(Fault(kind=FaultKind.STATUS, code=500))

    assert await reader.step() == CALM_S


@pytest.mark.looptime
async def test_as_services_they_come_to_terms_by_themselves(kube, keeper):
    target = ServerTls(wants_client_certificate=True)

    async with running(make_reader(kube, target), keeper):
        await asyncio.sleep(5)

    assert target.is_loaded


async def test_kube_scheduler_is_let_in_by_what_it_was_given_before_and_after_a_change(
    kube, keeper, clock
):
    async def bind(_request):
        return web.Response(text="bound")

    async def ask(port, given, *, shows_certificate=True):
        context = ssl.create_default_context(cadata=given["ca.crt"].decode())
        if shows_certificate:
            material = TlsMaterial(certificate_pem=given["tls.crt"], key_pem=given["tls.key"])
            load_into(context, material)
        connector = aiohttp.TCPConnector(ssl=context)
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.post(f"https://localhost:{port}/bind") as response,
        ):
            return await response.text()

    target = ServerTls(wants_client_certificate=True)
    keeper.targets = [target]
    site = WebSite(
        name="extender",
        host="127.0.0.1",
        port=0,
        routes=[web.post("/bind", bind)],
        tls=target,
        is_private=True,
    )
    server = WebServer(
        sites=[site], metrics=RequestMetrics(CollectorRegistry()), clock=time.monotonic
    )
    clock.now_s = NOW_S - 21 * DAY_S
    await keeper.step()
    async with running(server):
        port = (await server.ports.wait_for(bool))["extender"]
        old = await values_of(kube, SETTINGS.client_secret)
        assert await ask(port, old) == "bound"
        with pytest.raises(aiohttp.ClientError):
            await ask(port, old, shows_certificate=False)

        clock.now_s = NOW_S
        await keeper.step()

        new = await values_of(kube, SETTINGS.client_secret)
        assert new["tls.crt"] != old["tls.crt"]
        assert await ask(port, new) == "bound"
        assert await ask(port, old) == "bound"
