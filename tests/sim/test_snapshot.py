import pytest

from hamid.codec.cluster_copy import ClusterCopy
from hamid.errors import TraceError
from hamid.model.names import NODE_REGISTER, NODE_REGISTER_4PD, NODE_SCORE, ResourceNames
from hamid.model.request import RequestDefaults
from hamid.sim.snapshot import read_snapshot
from tests.builders import container_object, pod_object
from tests.sched.builders import make_devices
from tests.sched.objects import bound, registered


def snapshot_of(*items):
    nodes = tuple(item for item in items if item["kind"] == "Node")
    pods = tuple(item for item in items if item["kind"] == "Pod")
    copy = ClusterCopy(nodes=nodes, pods=pods)
    return read_snapshot(copy, names=ResourceNames(), defaults=RequestDefaults())


def created(pod, at):
    pod["metadata"]["creationTimestamp"] = at
    return {**pod, "kind": "Pod"}


def test_nodes_come_with_the_cards_that_they_register():
    found = snapshot_of(registered("node-a", make_devices(3)))

    assert [(n.name, len(n.devices)) for n in found.nodes] == [("node-a", 3)]


def test_pods_come_in_the_order_of_their_creation_whether_bound_or_not():
    found = snapshot_of(
        created(bound(uid="late"), "2026-01-02T00:00:00Z"),
        created(bound(uid="early"), "2026-01-01T00:00:00Z"),
    )

    late, early = found.tasks
    assert late.arrives_at_s - early.arrives_at_s == 86_400
    assert early.request("new").pod_uid == "new"
    assert early.request("new").requests


def test_pods_that_have_ended_do_not_come_and_unreadable_ones_are_counted():
    wrong = pod_object(container_object("main", {"gpu": 1, "gpumem": "lots"}), uid="wrong")

    found = snapshot_of(bound(phase="Succeeded"), wrong)

    assert found.tasks == ()
    assert found.unreadable_count == 1


def test_pods_without_cards_take_from_hosts():
    container = container_object("main", {})
    container["resources"]["requests"] = {"cpu": "2"}

    (task,) = snapshot_of(pod_object(container, uid="plain")).tasks

    assert (task.core_milli, task.host.cpu_milli, task.request("x").requests) == (0, 2_000, ())


def test_a_registration_that_cannot_be_read_is_refused():
    node = registered("node-a")
    node["metadata"]["annotations"] = {NODE_REGISTER: "nonsense"}

    with pytest.raises(TraceError, match="node-a"):
        snapshot_of(node)


def test_cordons_and_links_of_nodes_come_along():
    node = registered("node-a", make_devices(2), cordoned=("card-1",))
    node["metadata"]["annotations"][NODE_SCORE] = '[{"uuid": "card-0", "score": {"card-1": 7}}]'

    (found,) = snapshot_of(node).nodes

    assert found.cordoned == {"card-1"}
    assert found.links == {"card-0": {"card-1": 7}}


def test_nodes_that_register_under_the_old_name_have_cards_too():
    node = registered("node-a")
    annotations = node["metadata"]["annotations"]
    annotations[NODE_REGISTER_4PD] = annotations.pop(NODE_REGISTER)

    (found,) = snapshot_of(node).nodes

    assert len(found.devices) == 1
