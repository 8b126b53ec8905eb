"""What hamid relies on of a Kubernetes API: run on the fakes and on a real API server.

A subclass gives the fixtures `kube`, with pages of two objects where it has pages at all, and
`namespace`, a fresh one. Nothing may schedule or run the pods: they ask for a scheduler that is
not there. No test waits: a watch is asked for what has happened already.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pytest

from hamid.kube.errors import (
    AlreadyExists,
    Conflict,
    Gone,
    Invalid,
    NotFound,
    TooManyRequests,
    Withheld,
)
from hamid.kube.port import (
    CONFIG_MAPS,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    RESOURCE_QUOTAS,
    EventKind,
    PatchKind,
    Resource,
    ServerVersion,
)

if TYPE_CHECKING:
    from hamid.kube.port import (
        JsonObject,
        KubePort,
        WatchEvent,
    )

NOTHING = Resource(
    group="nothing.example", version="v1", plural="nothings", kind="Nothing", is_namespaced=True
)


def pod(name: str, **metadata: Any) -> JsonObject:
    """A pod that nobody schedules."""
    container = {"name": "main", "image": "localhost/nothing:1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": {"schedulerName": "nobody", "containers": [container]},
    }


def config_map(name: str, *, data: dict[str, str] | None = None, **metadata: Any) -> JsonObject:
    """The plainest object there is."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        "data": data or {},
    }


async def bind(kube: KubePort, created: JsonObject, **given: Any) -> None:
    """Bind the pod to n1."""
    meta = created["metadata"]
    what = {"namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}
    await kube.bind(**what, node_name="n1", **{"annotations": {}, **given})


async def version_now(kube: KubePort, resource: Resource, namespace: str) -> str:
    """The resourceVersion to watch what happens next from."""
    return (await kube.list(resource, namespace=namespace)).resource_version


async def events_since(
    kube: KubePort, resource: Resource, *, count: int, **selection: Any
) -> list[WatchEvent]:
    """The next events of a watch, bookmarks left out."""
    found: list[WatchEvent] = []
    async with aclosing(kube.watch(resource, **selection)) as events:
        async for event in events:
            if event.kind is not EventKind.BOOKMARK:
                found.append(event)
            if len(found) == count:
                return found
    return found


def told(events: list[WatchEvent]) -> list[tuple[EventKind, str]]:
    """Events as kind and name."""
    return [(event.kind, event.object["metadata"]["name"]) for event in events]


class KubeContract:
    """Reading and writing."""

    async def test_what_is_created_can_be_read(self, kube: KubePort, namespace: str) -> None:
        created = await kube.create(
            CONFIG_MAPS, config_map("a", data={"x": "1"}), namespace=namespace
        )

        assert await kube.get(CONFIG_MAPS, "a", namespace=namespace) == created
        assert created["kind"] == "ConfigMap"
        assert created["data"] == {"x": "1"}
        assert {"uid", "resourceVersion", "creationTimestamp"} <= created["metadata"].keys()

    async def test_the_namespace_may_stand_in_the_object(
        self, kube: KubePort, namespace: str
    ) -> None:
        await kube.create(CONFIG_MAPS, config_map("a", namespace=namespace))

        assert await kube.get(CONFIG_MAPS, "a", namespace=namespace)

    async def test_a_name_can_be_made_by_the_server(self, kube: KubePort, namespace: str) -> None:
        body = {"metadata": {"generateName": "made-"}}

        first = await kube.create(CONFIG_MAPS, body, namespace=namespace)
        second = await kube.create(CONFIG_MAPS, body, namespace=namespace)

        names = {first["metadata"]["name"], second["metadata"]["name"]}
        assert len(names) == 2
        assert all(name.startswith("made-") and len(name) == 10 for name in names)

    async def test_a_name_is_given_once(self, kube: KubePort, namespace: str) -> None:
        await kube.create(CONFIG_MAPS, config_map("a"), namespace=namespace)

        with pytest.raises(AlreadyExists):
            await kube.create(CONFIG_MAPS, config_map("a"), namespace=namespace)

    async def test_what_is_not_there_is_not_found(self, kube: KubePort, namespace: str) -> None:
        for call in (
            kube.get(CONFIG_MAPS, "none", namespace=namespace),
            kube.delete(CONFIG_MAPS, "none", namespace=namespace),
            kube.patch(CONFIG_MAPS, "none", {}, kind=PatchKind.MERGE, namespace=namespace),
            kube.create(CONFIG_MAPS, config_map("a"), namespace="no-such-namespace"),
            kube.list(NOTHING),
        ):
            with pytest.raises(NotFound):
                await call

    @pytest.mark.parametrize(
        ("resource", "body"),
        [
            pytest.param(CONFIG_MAPS, config_map("No_Name"), id="a name that is none"),
            pytest.param(
                PODS, {"metadata": {"name": "a"}, "spec": {"containers": []}}, id="no container"
            ),
            pytest.param(
                PODS,
                {
                    "metadata": {"name": "a"},
                    "spec": {
                        "containers": [
                            {
                                "name": "c",
                                "image": "x",
                                "resources": {
                                    "limits": {"nvidia.com/gpu": "1"},
                                    "requests": {"nvidia.com/gpu": "2"},
                                },
                            }
                        ]
                    },
                },
                id="an extended resource whose request is not its limit",
            ),
        ],
    )
    async def test_a_wrong_object_is_invalid(
        self, kube: KubePort, namespace: str, resource: Resource, body: JsonObject
    ) -> None:
        with pytest.raises(Invalid):
            await kube.create(resource, body, namespace=namespace)

    async def test_a_pod_gets_the_defaults_that_webhooks_and_schedulers_look_at(
        self, kube: KubePort, namespace: str
    ) -> None:
        body = pod("a")
        body["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
        body["status"] = {"phase": "Running"}

        created = await kube.create(PODS, body, namespace=namespace)

        assert created["spec"]["restartPolicy"] == "Always"
        assert created["spec"]["containers"][0]["resources"]["requests"] == {"nvidia.com/gpu": "1"}
        assert created["status"]["phase"] == "Pending"

    async def test_an_event_can_be_posted(self, kube: KubePort, namespace: str) -> None:
        event = {
            "metadata": {"name": "a.1", "namespace": namespace},
            "involvedObject": {"kind": "Pod", "name": "a", "namespace": namespace, "uid": "u1"},
            "reason": "Because",
            "type": "Warning",
        }
        await kube.create(EVENTS, event, namespace=namespace)

        selector = "involvedObject.uid=u1,reason=Because"
        found = await kube.list(EVENTS, namespace=namespace, field_selector=selector)
        assert len(found.items) == 1

    async def test_a_guarded_port_reads_but_writes_nothing_once_it_may_not(
        self, kube: KubePort, namespace: str
    ) -> None:
        kept = await kube.create(CONFIG_MAPS, config_map("a"), namespace=namespace)
        created = await kube.create(PODS, pod("a"), namespace=namespace)
        before = (kept, await kube.get(PODS, "a", namespace=namespace))
        guarded = kube.guarded(lambda: False)

        for write in (
            guarded.create(CONFIG_MAPS, config_map("b"), namespace=namespace),
            guarded.replace(CONFIG_MAPS, {**kept, "data": {"x": "other"}}),
            guarded.patch(
                CONFIG_MAPS,
                "a",
                {"data": {"x": "other"}},
                kind=PatchKind.MERGE,
                namespace=namespace,
            ),
            guarded.delete(CONFIG_MAPS, "a", namespace=namespace),
            guarded.bind(
                namespace=namespace,
                name="a",
                uid=created["metadata"]["uid"],
                node_name="n1",
                annotations={},
            ),
            guarded.evict(namespace=namespace, name="a"),
        ):
            with pytest.raises(Withheld):
                await write

        assert before == (
            await guarded.get(CONFIG_MAPS, "a", namespace=namespace),
            await guarded.get(PODS, "a", namespace=namespace),
        )
        with pytest.raises(NotFound):
            await kube.get(CONFIG_MAPS, "b", namespace=namespace)

    async def test_a_port_of_less_patience_does_the_same(
        self, kube: KubePort, namespace: str
    ) -> None:
        await kube.within(60.0).create(CONFIG_MAPS, config_map("a"), namespace=namespace)

        assert await kube.within(60.0).get(CONFIG_MAPS, "a", namespace=namespace)

    async def test_a_guarded_port_writes_while_it_may(self, kube: KubePort, namespace: str) -> None:
        await kube.guarded(lambda: True).create(CONFIG_MAPS, config_map("a"), namespace=namespace)

        assert await kube.get(CONFIG_MAPS, "a", namespace=namespace)

    async def test_the_server_says_what_it_is_and_has(self, kube: KubePort) -> None:
        assert await kube.version() >= ServerVersion(major=1, minor=20)
        assert await kube.serves(PODS)
        assert await kube.serves(LEASES)
        assert not await kube.serves(NOTHING)


class ListContract:
    """Lists and their selectors."""

    async def test_a_list_has_all_objects_of_all_pages(
        self, kube: KubePort, namespace: str
    ) -> None:
        for name in ("a", "b", "c", "d", "e"):
            await kube.create(CONFIG_MAPS, config_map(f"list-{name}"), namespace=namespace)

        found = await kube.list(CONFIG_MAPS, namespace=namespace)

        names = [item["metadata"]["name"] for item in found.items]
        assert [name for name in names if name.startswith("list-")] == [
            "list-a",
            "list-b",
            "list-c",
            "list-d",
            "list-e",
        ]
        assert {(item["kind"], item["apiVersion"]) for item in found.items} == {("ConfigMap", "v1")}

    async def test_without_a_namespace_a_list_has_those_of_all(
        self, kube: KubePort, namespace: str
    ) -> None:
        await kube.create(CONFIG_MAPS, config_map("a"), namespace=namespace)

        found = await kube.list(CONFIG_MAPS, not_older_than="0")

        keys = {(i["metadata"]["namespace"], i["metadata"]["name"]) for i in found.items}
        assert (namespace, "a") in keys

    @pytest.mark.parametrize(
        ("selector", "names"),
        [
            ("app=x", ["a", "c"]),
            ("app==x,tier=front", ["a"]),
            ("app!=x", ["b", "d"]),
            ("tier", ["a", "b"]),
            ("!tier,app", ["c"]),
            ("app in (x, y),tier notin (front)", ["b", "c"]),
        ],
    )
    async def test_labels_select(
        self, kube: KubePort, namespace: str, selector: str, names: list[str]
    ) -> None:
        for name, labels in (
            ("a", {"app": "x", "tier": "front"}),
            ("b", {"app": "y", "tier": "back"}),
            ("c", {"app": "x"}),
            ("d", {}),
        ):
            await kube.create(PODS, pod(name, labels=labels), namespace=namespace)

        found = await kube.list(PODS, namespace=namespace, label_selector=selector)

        assert [item["metadata"]["name"] for item in found.items] == names

    async def test_fields_select(self, kube: KubePort, namespace: str) -> None:
        for name in ("a", "b"):
            created = await kube.create(PODS, pod(name), namespace=namespace)
        await bind(kube, created)

        async def names(selector: str) -> list[str]:
            found = await kube.list(PODS, namespace=namespace, field_selector=selector)
            return [item["metadata"]["name"] for item in found.items]

        assert await names("spec.nodeName=n1") == ["b"]
        assert await names("spec.nodeName=") == ["a"]
        assert await names("metadata.name=a,status.phase!=Running") == ["a"]

    async def test_a_field_that_cannot_select_is_refused(
        self, kube: KubePort, namespace: str
    ) -> None:
        with pytest.raises(Invalid):
            await kube.list(PODS, namespace=namespace, field_selector="spec.priority=0")


class WatchContract:
    """Watches; each is asked for what has happened already, so nothing waits."""

    async def test_a_watch_tells_every_change_in_order(
        self, kube: KubePort, namespace: str
    ) -> None:
        since = await version_now(kube, PODS, namespace)
        await kube.create(PODS, pod("a"), namespace=namespace)
        await kube.create(PODS, pod("b"), namespace=namespace)
        label = {"metadata": {"labels": {"x": "y"}}}
        await kube.patch(PODS, "a", label, kind=PatchKind.MERGE, namespace=namespace)
        await kube.delete(PODS, "b", namespace=namespace)

        events = await events_since(
            kube, PODS, resource_version=since, namespace=namespace, count=5
        )

        # A pod is marked before it is gone, even where both happen at once.
        assert told(events) == [
            (EventKind.ADDED, "a"),
            (EventKind.ADDED, "b"),
            (EventKind.MODIFIED, "a"),
            (EventKind.MODIFIED, "b"),
            (EventKind.DELETED, "b"),
        ]
        assert events[3].object["metadata"]["deletionGracePeriodSeconds"] == 0
        versions = [int(event.object["metadata"]["resourceVersion"]) for event in events]
        assert versions == sorted(versions)
        assert versions[0] > int(since)

    async def test_a_watch_resumes_after_the_version_it_is_given(
        self, kube: KubePort, namespace: str
    ) -> None:
        first = await kube.create(PODS, pod("a"), namespace=namespace)
        await kube.create(PODS, pod("b"), namespace=namespace)

        since = first["metadata"]["resourceVersion"]
        events = await events_since(
            kube, PODS, resource_version=since, namespace=namespace, count=1
        )

        assert told(events) == [(EventKind.ADDED, "b")]

    async def test_what_enters_a_selection_is_added_and_what_leaves_it_deleted(
        self, kube: KubePort, namespace: str
    ) -> None:
        since = await version_now(kube, PODS, namespace)
        created = await kube.create(PODS, pod("a", labels={"x": "1"}), namespace=namespace)
        uid = created["metadata"]["uid"]
        await kube.bind(
            namespace=namespace, name="a", uid=uid, node_name="n7", annotations={"k": "v"}
        )
        label = {"metadata": {"labels": {"x": "2"}}}
        await kube.patch(PODS, "a", label, kind=PatchKind.MERGE, namespace=namespace)

        on_node = await events_since(
            kube,
            PODS,
            resource_version=since,
            namespace=namespace,
            field_selector="spec.nodeName=n7",
            count=2,
        )
        labelled = await events_since(
            kube,
            PODS,
            resource_version=since,
            namespace=namespace,
            label_selector="x=1",
            count=3,
        )

        assert [event.kind for event in on_node] == [EventKind.ADDED, EventKind.MODIFIED]
        assert on_node[0].object["metadata"]["annotations"]["k"] == "v"
        assert [event.kind for event in labelled] == [
            EventKind.ADDED,
            EventKind.MODIFIED,
            EventKind.DELETED,
        ]

    async def test_a_version_that_is_forgotten_is_gone(
        self, kube: KubePort, forgotten_version: str
    ) -> None:
        with pytest.raises(Gone):
            await events_since(
                kube, EVENTS, resource_version=forgotten_version, timeout_s=5, count=1
            )

    @pytest.mark.slow
    async def test_a_watch_ends_in_order_after_its_time(
        self, kube: KubePort, namespace: str
    ) -> None:
        since = await version_now(kube, LEASES, namespace)

        events = await events_since(
            kube, LEASES, resource_version=since, namespace=namespace, timeout_s=1, count=1
        )

        assert events == []


class ChangeContract:
    """Replacing, patching and deleting."""

    async def test_a_replacement_needs_the_current_version(
        self, kube: KubePort, namespace: str
    ) -> None:
        old = await kube.create(CONFIG_MAPS, config_map("a"), namespace=namespace)

        new = await kube.replace(CONFIG_MAPS, {**old, "data": {"x": "1"}})
        with pytest.raises(Conflict):
            await kube.replace(CONFIG_MAPS, {**old, "data": {"x": "2"}})

        assert await kube.get(CONFIG_MAPS, "a", namespace=namespace) == new
        assert new["data"] == {"x": "1"}

    async def test_a_change_that_changes_nothing_is_no_change(
        self, kube: KubePort, namespace: str
    ) -> None:
        old = await kube.create(CONFIG_MAPS, config_map("a"), namespace=namespace)

        new = await kube.replace(CONFIG_MAPS, old)

        assert new["metadata"]["resourceVersion"] == old["metadata"]["resourceVersion"]

    async def test_a_lease_is_only_replaced_by_who_has_read_it(
        self, kube: KubePort, namespace: str
    ) -> None:
        lease = {"metadata": {"name": "a", "namespace": namespace}, "spec": {"holderIdentity": "x"}}
        created = await kube.create(LEASES, lease, namespace=namespace)

        with pytest.raises(Invalid):
            await kube.replace(LEASES, {**lease, "spec": {"holderIdentity": "y"}})
        created["spec"]["holderIdentity"] = "z"
        await kube.replace(LEASES, created)

        found = await kube.get(LEASES, "a", namespace=namespace)
        assert found["spec"]["holderIdentity"] == "z"

    async def test_a_merge_patch_merges_and_null_removes(
        self, kube: KubePort, namespace: str
    ) -> None:
        body = config_map("a", data={"x": "1", "y": "1"})
        await kube.create(CONFIG_MAPS, body, namespace=namespace)

        changed = await kube.patch(
            CONFIG_MAPS,
            "a",
            {"data": {"x": None, "y": "2", "z": "3"}},
            kind=PatchKind.MERGE,
            namespace=namespace,
        )

        assert changed["data"] == {"y": "2", "z": "3"}

    async def test_a_version_in_a_patch_is_a_precondition(
        self, kube: KubePort, namespace: str
    ) -> None:
        old = await kube.create(CONFIG_MAPS, config_map("a"), namespace=namespace)
        version = {"resourceVersion": old["metadata"]["resourceVersion"]}
        first = {"metadata": version, "data": {"x": "1"}}
        await kube.patch(CONFIG_MAPS, "a", first, kind=PatchKind.MERGE, namespace=namespace)

        with pytest.raises(Conflict):
            await kube.patch(
                CONFIG_MAPS,
                "a",
                {"metadata": version, "data": {"x": "2"}},
                kind=PatchKind.MERGE,
                namespace=namespace,
            )

    async def test_a_json_patch_is_done_whole_or_not_at_all(
        self, kube: KubePort, namespace: str
    ) -> None:
        body = config_map("a", data={"x": "1"}, annotations={"a/b": "old"})
        await kube.create(CONFIG_MAPS, body, namespace=namespace)
        add = {"op": "add", "path": "/data/y", "value": "2"}
        escaped = {"op": "replace", "path": "/metadata/annotations/a~1b", "value": "new"}
        wrong = {"op": "test", "path": "/data/x", "value": "another"}

        with pytest.raises(Invalid):
            await kube.patch(
                CONFIG_MAPS, "a", [add, wrong], kind=PatchKind.JSON, namespace=namespace
            )
        untouched = await kube.get(CONFIG_MAPS, "a", namespace=namespace)
        changed = await kube.patch(
            CONFIG_MAPS, "a", [add, escaped], kind=PatchKind.JSON, namespace=namespace
        )

        assert untouched["data"] == {"x": "1"}
        assert changed["data"] == {"x": "1", "y": "2"}
        assert changed["metadata"]["annotations"]["a/b"] == "new"

    async def test_a_strategic_patch_merges_lists_by_name(
        self, kube: KubePort, namespace: str
    ) -> None:
        await kube.create(PODS, pod("a"), namespace=namespace)
        image = {"spec": {"containers": [{"name": "main", "image": "localhost/other:1"}]}}

        changed = await kube.patch(PODS, "a", image, kind=PatchKind.STRATEGIC, namespace=namespace)

        assert [c["image"] for c in changed["spec"]["containers"]] == ["localhost/other:1"]
        assert changed["spec"]["containers"][0]["imagePullPolicy"]

    async def test_an_apply_patch_creates_and_then_changes(
        self, kube: KubePort, namespace: str
    ) -> None:
        for value in ("1", "2"):
            await kube.patch(
                CONFIG_MAPS,
                "a",
                config_map("a", data={"x": value}),
                kind=PatchKind.APPLY,
                namespace=namespace,
                field_manager="contract",
            )

        found = await kube.get(CONFIG_MAPS, "a", namespace=namespace)
        assert found["data"] == {"x": "2"}

    async def test_status_and_spec_are_changed_apart(self, kube: KubePort, node_name: str) -> None:
        body = {"metadata": {"name": node_name}, "spec": {}}
        await kube.create(NODES, body)
        both = {"spec": {"unschedulable": True}, "status": {"capacity": {"example.com/x": "1"}}}

        main = await kube.patch(NODES, node_name, both, kind=PatchKind.MERGE)
        status = await kube.patch(
            NODES,
            node_name,
            {"spec": {"unschedulable": None}, "status": both["status"]},
            kind=PatchKind.MERGE,
            subresource="status",
        )

        assert main["spec"]["unschedulable"] is True
        assert "example.com/x" not in main.get("status", {}).get("capacity", {})
        assert status["spec"]["unschedulable"] is True
        assert status["status"]["capacity"]["example.com/x"] == "1"

    async def test_what_a_node_states_is_changed_together_with_an_annotation(
        self, kube: KubePort, node_name: str
    ) -> None:
        await kube.create(NODES, {"metadata": {"name": node_name}})

        async def write(amount: str | None) -> JsonObject:
            patch = {
                "metadata": {"annotations": {"example.com/ours": amount}},
                "status": {"capacity": {"example.com/x": amount}},
            }
            return await kube.patch(
                NODES, node_name, patch, kind=PatchKind.MERGE, subresource="status"
            )

        stated, gone = await write("7"), await write(None)

        assert stated["metadata"]["annotations"]["example.com/ours"] == "7"
        assert stated["status"]["capacity"] == {"example.com/x": "7"}
        assert "example.com/ours" not in gone["metadata"].get("annotations", {})
        assert not gone["status"].get("capacity")

    async def test_what_a_pod_is_cannot_be_changed(self, kube: KubePort, namespace: str) -> None:
        await kube.create(PODS, pod("a"), namespace=namespace)

        with pytest.raises(Invalid):
            await kube.patch(
                PODS,
                "a",
                {"spec": {"nodeName": "n1"}},
                kind=PatchKind.MERGE,
                namespace=namespace,
            )

    async def test_a_deletion_may_be_of_one_uid_only(self, kube: KubePort, namespace: str) -> None:
        created = await kube.create(CONFIG_MAPS, config_map("a"), namespace=namespace)

        with pytest.raises(Conflict):
            await kube.delete(CONFIG_MAPS, "a", namespace=namespace, uid="another")
        await kube.delete(CONFIG_MAPS, "a", namespace=namespace, uid=created["metadata"]["uid"])

        with pytest.raises(NotFound):
            await kube.get(CONFIG_MAPS, "a", namespace=namespace)

    async def test_a_pod_on_a_node_is_deleted_when_the_node_says_so(
        self, kube: KubePort, namespace: str
    ) -> None:
        created = await kube.create(PODS, pod("a"), namespace=namespace)
        await bind(kube, created)

        await kube.delete(PODS, "a", namespace=namespace)
        leaving = await kube.get(PODS, "a", namespace=namespace)
        await kube.delete(PODS, "a", namespace=namespace, grace_period_s=0)

        assert leaving["metadata"]["deletionGracePeriodSeconds"] == 30
        assert "deletionTimestamp" in leaving["metadata"]
        with pytest.raises(NotFound):
            await kube.get(PODS, "a", namespace=namespace)

    async def test_a_finalizer_keeps_an_object(self, kube: KubePort, namespace: str) -> None:
        body = config_map("a", finalizers=["example.com/wait"])
        await kube.create(CONFIG_MAPS, body, namespace=namespace)

        await kube.delete(CONFIG_MAPS, "a", namespace=namespace)
        kept = await kube.get(CONFIG_MAPS, "a", namespace=namespace)
        free = {"metadata": {"finalizers": None}}
        await kube.patch(CONFIG_MAPS, "a", free, kind=PatchKind.MERGE, namespace=namespace)

        assert "deletionTimestamp" in kept["metadata"]
        with pytest.raises(NotFound):
            await kube.get(CONFIG_MAPS, "a", namespace=namespace)

    async def test_an_eviction_deletes(self, kube: KubePort, namespace: str) -> None:
        created = await kube.create(PODS, pod("a"), namespace=namespace)

        with pytest.raises(Conflict):
            await kube.evict(namespace=namespace, name="a", uid="another")
        await kube.evict(namespace=namespace, name="a", uid=created["metadata"]["uid"])

        with pytest.raises(NotFound):
            await kube.evict(namespace=namespace, name="a")

    async def test_a_dry_eviction_says_what_would_be_and_changes_nothing(
        self, kube: KubePort, namespace: str
    ) -> None:
        created = await kube.create(PODS, pod("a"), namespace=namespace)
        what = {"namespace": namespace, "is_dry_run": True}

        with pytest.raises(Conflict):
            await kube.evict(name="a", uid="another", **what)
        with pytest.raises(NotFound):
            await kube.evict(name="b", **what)
        await kube.evict(name="a", uid=created["metadata"]["uid"], **what)

        assert await kube.get(PODS, "a", namespace=namespace) == created

    async def test_a_budget_refuses_an_eviction_and_its_dry_run(
        self, kube: KubePort, namespace: str
    ) -> None:
        """Of a pod that runs: before, none is asked."""
        await kube.create(PODS, pod("a", labels={"app": "kept"}), namespace=namespace)
        budget = {
            "metadata": {"name": "kept"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}},
        }
        await kube.create(POD_DISRUPTION_BUDGETS, budget, namespace=namespace)
        await kube.evict(namespace=namespace, name="a", is_dry_run=True)
        running = {"status": {"phase": "Running"}}
        await kube.patch(
            PODS, "a", running, kind=PatchKind.MERGE, namespace=namespace, subresource="status"
        )

        for is_dry_run in (True, False):
            with pytest.raises(TooManyRequests):
                await kube.evict(namespace=namespace, name="a", is_dry_run=is_dry_run)

        assert (
            "deletionTimestamp" not in (await kube.get(PODS, "a", namespace=namespace))["metadata"]
        )


class BindContract:
    """The one call that places a pod: node, decision and precondition in one transaction."""

    async def test_a_binding_gives_node_and_annotations_in_one_change(
        self, kube: KubePort, namespace: str
    ) -> None:
        body = pod("a", annotations={"kept": "1", "replaced": "old"})
        created = await kube.create(PODS, body, namespace=namespace)

        await bind(kube, created, annotations={"replaced": "new", "added": "2"})

        since = created["metadata"]["resourceVersion"]
        (event,) = await events_since(
            kube, PODS, resource_version=since, namespace=namespace, count=1
        )
        assert event.object == await kube.get(PODS, "a", namespace=namespace)
        assert event.object["spec"]["nodeName"] == "n1"
        assert event.object["metadata"]["annotations"] == {
            "kept": "1",
            "replaced": "new",
            "added": "2",
        }
        conditions = {c["type"]: c["status"] for c in event.object["status"]["conditions"]}
        assert conditions["PodScheduled"] == "True"

    async def test_a_binding_gives_labels_where_the_server_takes_them(
        self, kube: KubePort, namespace: str
    ) -> None:
        body = pod("a", labels={"kept": "1", "replaced": "old"})
        created = await kube.create(PODS, body, namespace=namespace)

        await bind(kube, created, labels={"replaced": "new", "added": "2"})

        labels = (await kube.get(PODS, "a", namespace=namespace))["metadata"]["labels"]
        if await kube.version() >= ServerVersion(major=1, minor=35):
            assert labels == {"kept": "1", "replaced": "new", "added": "2"}
        else:
            assert labels == {"kept": "1", "replaced": "old"}

    async def test_a_binding_for_another_pod_of_that_name_changes_nothing(
        self, kube: KubePort, namespace: str
    ) -> None:
        first = await kube.create(PODS, pod("a"), namespace=namespace)
        await kube.delete(PODS, "a", namespace=namespace)
        second = await kube.create(PODS, pod("a"), namespace=namespace)

        with pytest.raises(Conflict):
            await bind(kube, first, annotations={"added": "1"})

        assert await kube.get(PODS, "a", namespace=namespace) == second

    async def test_a_pod_is_bound_once(self, kube: KubePort, namespace: str) -> None:
        created = await kube.create(PODS, pod("a"), namespace=namespace)
        uid = created["metadata"]["uid"]
        await kube.bind(
            namespace=namespace, name="a", uid=uid, node_name="n1", annotations={"by": "1"}
        )

        for node_name in ("n1", "n2"):
            with pytest.raises(Conflict):
                await kube.bind(
                    namespace=namespace,
                    name="a",
                    uid=uid,
                    node_name=node_name,
                    annotations={"by": "2"},
                )

        found = await kube.get(PODS, "a", namespace=namespace)
        assert found["spec"]["nodeName"] == "n1"
        assert found["metadata"]["annotations"]["by"] == "1"

    async def test_a_pod_that_is_going_is_not_bound(self, kube: KubePort, namespace: str) -> None:
        body = pod("a", finalizers=["example.com/wait"])
        created = await kube.create(PODS, body, namespace=namespace)
        await kube.delete(PODS, "a", namespace=namespace)

        with pytest.raises(Conflict):
            await bind(kube, created)

        free = {"metadata": {"finalizers": None}}
        await kube.patch(PODS, "a", free, kind=PatchKind.MERGE, namespace=namespace)

    async def test_a_pod_that_is_gone_is_not_found(self, kube: KubePort, namespace: str) -> None:
        with pytest.raises(NotFound):
            await kube.bind(
                namespace=namespace, name="a", uid="any", node_name="n1", annotations={}
            )


class QuotaContract:
    """ResourceQuotas with keys that the server stores, and does not count by."""

    async def test_limits_on_cards_are_stored_and_refuse_no_pod(
        self, kube: KubePort, namespace: str
    ) -> None:
        hard = {"limits.nvidia.com/gpu": "0", "limits.nvidia.com/gpumem": "32Gi"}
        quota = {"metadata": {"name": "cards"}, "spec": {"hard": hard}}
        asking = pod("a")
        asking["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}

        stored = await kube.create(RESOURCE_QUOTAS, quota, namespace=namespace)
        await kube.create(PODS, asking, namespace=namespace)

        assert stored["spec"]["hard"] == hard
        found = await kube.get(RESOURCE_QUOTAS, "cards", namespace=namespace)
        used = (found.get("status") or {}).get("used") or {}
        assert used.keys().isdisjoint(hard)

    @pytest.mark.parametrize(
        "spec",
        [
            {"hard": {"limits.nvidia.com/gpumem": "1500m"}},
            {"hard": {"limits.nvidia.com/gpumem": "-1"}},
            {"hard": {"limits.nvidia.com/gpumem": "1"}, "scopes": ["Bogus"]},
        ],
        ids=["part of one", "negative", "unknown scope"],
    )
    async def test_a_quota_of_no_amount_or_no_scope_is_refused(
        self, kube: KubePort, namespace: str, spec: JsonObject
    ) -> None:
        quota = {"metadata": {"name": "cards"}, "spec": spec}

        with pytest.raises(Invalid):
            await kube.create(RESOURCE_QUOTAS, quota, namespace=namespace)


class WholeKubeContract(
    KubeContract, ListContract, WatchContract, ChangeContract, BindContract, QuotaContract
):
    """Everything; subclass this and give `kube`, `node_name` and `forgotten_version`, the last
    for events: the real server keeps no cache of those, so that it is etcd that forgets.
    """

    @pytest.fixture
    async def namespace(self, kube: KubePort) -> str:
        """A fresh namespace."""
        created = await kube.create(NAMESPACES, {"metadata": {"generateName": "contract-"}})
        return str(created["metadata"]["name"])
