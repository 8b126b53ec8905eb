import base64
import json
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client import CollectorRegistry

from hamid.model.quota import Limit, Quota, QuotaResource
from hamid.sched.admission import Admission, AdmissionMetrics
from hamid.web.middleware import errors_as_json

SAMPLE = json.loads((Path(__file__).parent / "golden" / "admission-review.json").read_text())


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
async def api(registry):
    app = web.Application(middlewares=[errors_as_json(site="webhook", deadline_s=5)])
    app.add_routes(Admission(metrics=AdmissionMetrics(registry)).routes())
    async with TestClient(TestServer(app)) as client:
        yield client


def reviews(registry, verdict):
    return registry.get_sample_value("hamid_sched_admission_reviews_total", {"verdict": verdict})


@pytest.mark.parametrize("path", ["/webhook", "/mutate?timeout=5s"])
async def test_a_pod_that_asks_comes_back_with_a_patch(api, registry, path, assert_logged):
    async with api.post(path, json=SAMPLE["request"]) as response:
        answer = (await response.json())["response"]

    assert answer["uid"] == SAMPLE["request"]["request"]["uid"]
    assert answer["allowed"] is True
    assert json.loads(base64.b64decode(answer["patch"])) == [
        {"op": "replace", "path": "/spec/schedulerName", "value": "hamid-scheduler"}
    ]
    assert reviews(registry, "patched") == 1
    assert_logged("pod admitted", pod="default/hooked", changed=["/spec/schedulerName"])


async def test_a_refusal_is_an_orderly_answer(api, registry, assert_logged):
    review = json.loads(json.dumps(SAMPLE["request"]))
    review["request"]["object"]["spec"]["nodeName"] = "node-7"

    async with api.post("/webhook", json=review) as response:
        answer = (await response.json())["response"]

    assert response.status == 200
    assert answer["allowed"] is False
    assert "node-7" in answer["status"]["message"]
    assert reviews(registry, "refused") == 1
    assert_logged("pod refused", pod="default/hooked")


async def test_a_pod_that_does_not_ask_is_left_alone(api, registry):
    review = json.loads(json.dumps(SAMPLE["request"]))
    review["request"]["object"]["spec"]["containers"][0]["resources"] = {}

    async with api.post("/webhook", json=review) as response:
        answer = (await response.json())["response"]

    assert answer == {"uid": review["request"]["uid"], "allowed": True}
    assert reviews(registry, "untouched") == 1


class Quotas:
    """The quotas of a namespace, as they were and as they are."""

    def __init__(self, before, now):
        self.before, self.now = before, now
        self.calls = []

    async def known(self, namespace):
        self.calls.append(("known", namespace))
        return self.before

    async def newest(self, namespace):
        self.calls.append(("newest", namespace))
        return self.now


CARDS = Limit(key="limits.nvidia.com/gpu", resource=QuotaResource.CARDS, hard=0)
NO_CARDS = Quota(namespace="default", name="cards", limits=(CARDS,))


async def allowed(quotas, review=SAMPLE["request"]):
    admission = Admission(metrics=AdmissionMetrics(CollectorRegistry()), quotas=quotas)
    app = web.Application()
    app.add_routes(admission.routes())
    async with (
        TestClient(TestServer(app)) as client,
        client.post("/webhook", json=review) as response,
    ):
        return (await response.json())["response"]["allowed"]


async def test_a_pod_is_refused_by_the_newest_quotas_only():
    raised = Quotas([NO_CARDS], [])
    assert await allowed(raised)
    assert raised.calls == [("known", "default"), ("newest", "default")]

    assert not await allowed(Quotas([NO_CARDS], [NO_CARDS]))


async def test_quotas_that_leave_room_are_asked_for_once():
    quotas = Quotas([], [])

    assert await allowed(quotas)
    assert quotas.calls == [("known", "default")]


async def test_quotas_do_not_matter_for_a_pod_that_is_refused_anyway_or_does_not_ask():
    preset = json.loads(json.dumps(SAMPLE["request"]))
    preset["request"]["object"]["spec"]["nodeName"] = "node-7"
    plain = json.loads(json.dumps(SAMPLE["request"]))
    plain["request"]["object"]["spec"]["containers"][0]["resources"] = {}
    quotas = Quotas([NO_CARDS], [NO_CARDS])

    assert not await allowed(quotas, preset)
    assert await allowed(quotas, plain)
    assert quotas.calls == []


async def test_what_is_no_review_is_the_callers_fault(api):
    async with api.post("/webhook", data=b"hello") as response:
        assert response.status == 400
        assert (await response.json())["hint"]
