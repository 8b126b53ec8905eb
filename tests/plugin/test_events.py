from hamid.kube.fake import FakeKube, Fault, FaultKind
from hamid.kube.port import EVENTS
from hamid.plugin.events import NodeEvents


def node_events(kube):
    return NodeEvents(kube=kube, node_name="node-1", clock=lambda: 1_800_000_000.7)


async def test_an_event_is_about_the_node_and_shows_where_kubectl_looks():
    kube = FakeKube()

    await node_events(kube).warn("AllocationDrift", "books differ")

    (event,) = (await kube.list(EVENTS)).items
    # kubectl describe node looks for events whose UID is the node's name, as the kubelet's.
    assert event["involvedObject"] == {"kind": "Node", "name": "node-1", "uid": "node-1"}
    assert event["metadata"]["namespace"] == "default"
    assert event["metadata"]["name"].startswith("node-1.")
    assert (event["type"], event["reason"], event["message"]) == (
        "Warning",
        "AllocationDrift",
        "books differ",
    )
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2027-01-15T08:00:00Z"


async def test_each_event_has_a_name_of_its_own():
    kube = FakeKube()

    for _ in range(2):
        await node_events(kube).warn("AllocationDrift", "books differ")

    assert len((await kube.list(EVENTS)).items) == 2


async def test_an_event_that_cannot_be_written_is_dropped(assert_logged):
    kube = FakeKube()
    kube.faults.add(Fault(kind=FaultKind.DROP, verb="create"))

    await node_events(kube).warn("AllocationDrift", "books differ")

    assert (await kube.list(EVENTS)).items == ()
    assert_logged("event not written", reason="AllocationDrift")
