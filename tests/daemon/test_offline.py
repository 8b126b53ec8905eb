import json

import pytest
from click.testing import CliRunner

from hamid.cli import main
from hamid.codec.cluster_copy import ClusterCopy
from hamid.daemon.offline import answered, explainer_of, list_cluster
from hamid.errors import TraceError
from hamid.kube.fake import FakeKube
from hamid.kube.port import NODES, PODS, ObjectList
from hamid.sched.answers import WhatIf
from hamid.sched.settings import SchedSettings
from tests.builders import container_object, pod_object
from tests.sched.builders import make_devices, make_share
from tests.sched.objects import bound, registered, waiting

ITEMS = (
    registered("a", make_devices(2)),
    {**bound(make_share("card-0", memory_mib=30_000), uid="old", node_name="a"), "kind": "Pod"},
    {**waiting(name="big", mib=45_000), "kind": "Pod"},
    {**waiting(name="late", mib=30_000, uid="late"), "kind": "Pod"},
)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"items": ITEMS}))
    return str(path)


def hamid(*arguments, **options):
    return CliRunner().invoke(main, arguments, **options)


def test_a_waiting_pod_is_explained_from_a_file(path):
    done = hamid("explain", "default/big", "--snapshot", path)

    assert done.exit_code == 0, done.output
    assert "2 cards on 1 node are too small (need 45000 MiB, largest has 40000 MiB)" in done.stdout
    assert "ask for 5000 MiB less" in done.stdout


def test_a_placed_pod_is_decided_anew(path):
    done = hamid("explain", "default/pod-old", "--snapshot", path)

    assert done.exit_code == 0, done.output
    assert "Decided anew, by what is there now, its node is number 1 of 1 node" in done.stdout
    assert "main: card 0 * fragmentation" in done.stdout


def test_pods_are_counted_in_a_copy_from_standard_input(path):
    text = json.dumps({"items": ITEMS})

    done = hamid("fit", "--snapshot", "-", "--gpu", "1", "--gpumem", "10000", input=text)
    more = hamid(
        *("fit", "--snapshot", path, "--gpu", "1", "--gpumem", "10000"),
        *("--with-node", "a", "--without-card", "card-1", "--json"),
    )

    assert done.stdout.startswith("5 more pods on 1 node")
    answer = json.loads(more.stdout)
    assert answer["pods"] == 1 + 8
    assert answer["what_if"]["with_nodes"] == ["+1 (like a)"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["explain", "default/none"], 1, "no pod default/none"),
        (["fit", "--gpu", "1", "--with-node", "b"], 2, "there is no node 'b'"),
        (["fit", "--gpu", "1", "--live"], 2, "--snapshot and a live cluster are both given"),
    ],
)
def test_what_cannot_be_answered_is_said(path, arguments, code, said):
    done = hamid(*arguments, "--snapshot", path)

    assert (done.exit_code, said in done.stderr) == (code, True)


def test_a_file_that_is_not_there_is_bad_input(tmp_path):
    done = hamid("fit", "--gpu", "1", "--snapshot", str(tmp_path / "none.json"))

    assert done.exit_code == 2
    assert "cannot be read" in done.stderr


async def test_a_live_cluster_is_listed_and_nothing_else():
    kube = FakeKube()
    await kube.create(NODES, ITEMS[0])
    await kube.create(PODS, ITEMS[2])

    copy = await list_cluster(kube)

    assert [len(copy.nodes), len(copy.pods), len(copy.quotas)] == [1, 1, 0]
    assert kube.requests.count(verb="list") == 3
    assert kube.requests.count() == 3 + 2


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ({"kind": "Node"}, r"the API server: items\[0\].metadata is null"),
        ({"kind": "Pod", "metadata": {"name": 7}}, r"items\[0\].metadata.name is a number"),
        (ITEMS[2] | {"spec": "x"}, "the API server: Pod big: spec is 'x', not an object"),
    ],
)
async def test_a_server_that_is_no_api_server_is_told(item, said):
    class Foreign:
        async def list(self, resource):
            items = (item,) if resource.kind == item["kind"] else ()
            return ObjectList(items=items, resource_version="1")

    with pytest.raises(TraceError, match=said) as caught:
        await list_cluster(Foreign())

    assert "compare the server" in caught.value.hint


def test_answers_are_those_of_a_leader_that_has_just_begun():
    explainer = explainer_of(ClusterCopy(nodes=ITEMS[:1], pods=ITEMS[1:]), SchedSettings())
    shape = pod_object(container_object("main", {"gpu": 1, "gpumem": 10_000}))

    assert answered(explainer.fit(shape, WhatIf()))["pods"] == 5


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"status": []}, "Pod big: status is [], not an object"),
        ({"spec": {"containers": [None]}}, "Pod big: spec.containers[0] is None, not an object"),
        ({"kind": []}, ""),
    ],
)
def test_a_copy_that_no_api_server_wrote_is_bad_input(tmp_path, change, said):
    path = tmp_path / "cluster.json"
    big = {**waiting(name="big", mib=45_000), "kind": "Pod", **change}
    path.write_text(json.dumps({"items": [ITEMS[0], big]}))

    done = hamid("fit", "--snapshot", str(path), "--gpu", "1")

    assert done.exit_code == (2 if said else 0), done.output
    assert said in done.output
