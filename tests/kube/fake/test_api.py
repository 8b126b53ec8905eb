"""What the contract does not ask of every server: owners, namespaces, versions, the clock."""

from __future__ import annotations

import pytest

from hamid.kube.errors import Conflict, Gone, Invalid, NotFound
from hamid.kube.fake import FakeApi, FakeFeatures, FakeKube
from hamid.kube.fake.store import Store
from hamid.kube.fake.values import Selection, Target
from hamid.kube.port import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    PODS,
    VALIDATING_POLICIES,
    PatchKind,
)
from tests.contracts.kube_contract import config_map, events_since, pod

WEBHOOK = {
    "metadata": {"name": "w"},
    "webhooks": [{"name": "w.example.com", "matchConditions": [{"name": "x", "expression": "y"}]}],
}


async def test_what_an_object_owns_goes_with_it() -> None:
    kube = FakeKube()
    owner = await kube.create(
        DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": {}}, namespace="default"
    )
    reference = {"kind": "Deployment", "name": "d", "uid": owner["metadata"]["uid"]}
    await kube.create(PODS, pod("a", ownerReferences=[reference]), namespace="default")

    await kube.delete(DEPLOYMENTS, "d", namespace="default")

    with pytest.raises(NotFound):
        await kube.get(PODS, "a", namespace="default")


async def test_a_namespace_goes_with_everything_in_it() -> None:
    kube = FakeKube()
    await kube.create(NAMESPACES, {"metadata": {"name": "ns"}})
    await kube.create(CONFIG_MAPS, config_map("a"), namespace="ns")

    await kube.delete(NAMESPACES, "ns")

    assert [i["metadata"]["name"] for i in (await kube.list(CONFIG_MAPS)).items] == []


async def test_times_are_those_of_the_clock() -> None:
    kube = FakeKube(api=FakeApi(clock=lambda: 1_000_000_000.0))

    created = await kube.create(CONFIG_MAPS, config_map("a"), namespace="default")

    assert created["metadata"]["creationTimestamp"] == "2001-09-09T01:46:40Z"


async def test_the_same_seed_gives_the_same_uids() -> None:
    uids = []
    for _ in range(2):
        created = await FakeKube().create(CONFIG_MAPS, config_map("a"), namespace="default")
        uids.append(created["metadata"]["uid"])

    assert uids[0] == uids[1]


async def test_what_comes_out_is_the_callers() -> None:
    kube = FakeKube()
    created = await kube.create(CONFIG_MAPS, config_map("a", data={"x": "1"}), namespace="default")
    created["data"]["x"] = "changed"

    found = await kube.get(CONFIG_MAPS, "a", namespace="default")
    found["data"]["x"] = "changed"

    assert (await kube.get(CONFIG_MAPS, "a", namespace="default"))["data"] == {"x": "1"}


async def test_workloads_count_the_changes_of_their_spec() -> None:
    kube = FakeKube()
    body = {"metadata": {"name": "d"}, "spec": {"replicas": 1}}
    created = await kube.create(DEPLOYMENTS, body, namespace="default")
    for patch in ({"metadata": {"labels": {"a": "b"}}}, {"spec": {"replicas": 2}}):
        changed = await kube.patch(
            DEPLOYMENTS, "d", patch, kind=PatchKind.MERGE, namespace="default"
        )

    assert created["metadata"]["generation"] == 1
    assert changed["metadata"]["generation"] == 2


@pytest.mark.parametrize(
    ("version", "has_conditions", "has_slices", "has_policies"),
    [
        ("1.20", False, False, False),
        ("1.21", False, True, False),
        ("1.28", True, True, False),
        ("1.37", True, True, True),
    ],
)
async def test_an_old_version_lacks_what_came_later(
    version: str,
    has_conditions: bool,  # noqa: FBT001
    has_slices: bool,  # noqa: FBT001
    has_policies: bool,  # noqa: FBT001
) -> None:
    kube = FakeKube(api=FakeApi(features=FakeFeatures(version=version)))

    created = await kube.create(MUTATING_WEBHOOKS, WEBHOOK)

    assert ("matchConditions" in created["webhooks"][0]) is has_conditions
    assert await kube.serves(ENDPOINT_SLICES) is has_slices
    assert await kube.serves(VALIDATING_POLICIES) is has_policies
    assert str(await kube.version()) == version


async def test_an_administrator_may_have_switched_things_off() -> None:
    lacks = frozenset({"matchConditions", "bookmarks", VALIDATING_POLICIES.label})
    kube = FakeKube(api=FakeApi(features=FakeFeatures(lacks=lacks)))

    created = await kube.create(MUTATING_WEBHOOKS, WEBHOOK)

    assert "matchConditions" not in created["webhooks"][0]
    assert not await kube.serves(VALIDATING_POLICIES)
    with pytest.raises(NotFound):
        await kube.list(VALIDATING_POLICIES)


async def test_an_amount_that_is_null_is_none_of_it() -> None:
    body = pod("a")
    body["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": None}}

    created = await FakeKube().create(PODS, body, namespace="default")

    assert created["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "0"}


async def test_a_taint_has_key_and_effect() -> None:
    node = {"metadata": {"name": "n"}, "spec": {"taints": [{"effect": "NoSchedule"}]}}

    with pytest.raises(Invalid, match=r"spec.taints\[0\].key: Required value"):
        await FakeKube().create(NODES, node)


async def test_sidecars_and_gates_are_dropped_by_servers_that_do_not_know_them() -> None:
    body = pod("a")
    body["spec"]["initContainers"] = [{"name": "i", "image": "x", "restartPolicy": "Always"}]
    body["spec"]["schedulingGates"] = [{"name": "g"}]
    old = FakeKube(api=FakeApi(features=FakeFeatures(version="1.20")))
    new = FakeKube()

    specs = [(await k.create(PODS, body, namespace="default"))["spec"] for k in (old, new)]

    assert "restartPolicy" not in specs[0]["initContainers"][0]
    assert "schedulingGates" not in specs[0]
    assert specs[1]["initContainers"][0]["restartPolicy"] == "Always"
    assert specs[1]["schedulingGates"]


async def test_a_pod_with_scheduling_gates_is_not_bound() -> None:
    kube = FakeKube()
    body = pod("a")
    body["spec"]["schedulingGates"] = [{"name": "g"}]
    created = await kube.create(PODS, body, namespace="default")

    with pytest.raises(Conflict):
        await kube.bind(
            namespace="default",
            name="a",
            uid=created["metadata"]["uid"],
            node_name="n1",
            annotations={},
        )


async def test_history_has_an_end() -> None:
    kube = FakeKube(api=FakeApi(store=Store(history_length=2)))
    since = (await kube.list(CONFIG_MAPS)).resource_version
    for name in ("a", "b", "c"):
        await kube.create(CONFIG_MAPS, config_map(name), namespace="default")

    with pytest.raises(Gone):
        await events_since(kube, CONFIG_MAPS, resource_version=since, count=1)


async def test_a_watch_from_zero_begins_with_what_there_is() -> None:
    kube = FakeKube()
    await kube.create(CONFIG_MAPS, config_map("a"), namespace="default")

    events = await events_since(kube, CONFIG_MAPS, resource_version="0", count=1)

    assert [event.object["metadata"]["name"] for event in events] == ["a"]


async def test_a_page_token_is_good_once() -> None:
    api = FakeApi()
    target = Target(resource=NAMESPACES)
    page = await api.list(target, Selection(limit=1))

    await api.list(target, Selection(continue_token=page.continue_token))
    with pytest.raises(Gone):
        await api.list(target, Selection(continue_token=page.continue_token))


async def test_a_version_that_is_no_number_is_invalid() -> None:
    with pytest.raises(Invalid):
        await events_since(FakeKube(), PODS, resource_version="x", count=1)


async def test_a_dry_run_changes_nothing() -> None:
    api = FakeApi()
    target = Target(resource=CONFIG_MAPS, namespace="default", is_dry_run=True)

    made = await api.create(target, config_map("a"))

    assert made["metadata"]["uid"]
    assert (await FakeKube(api=api).list(CONFIG_MAPS)).items == ()


async def test_a_server_that_does_not_compare_uids_binds_any_pod_of_the_name() -> None:
    api = FakeApi(features=FakeFeatures(version="1.22"))
    await FakeKube(api=api).create(PODS, pod("a"), namespace="default")

    target = Target(resource=PODS, namespace="default", name="a", subresource="binding")
    await api.bind(target, {"metadata": {"uid": "another"}, "target": {"name": "n1"}})

    found = await FakeKube(api=api).get(PODS, "a", namespace="default")
    assert found["spec"]["nodeName"] == "n1"
