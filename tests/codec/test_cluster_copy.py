import json

import pytest

from hamid.codec.cluster_copy import decode_cluster_copy
from hamid.errors import TraceError


def copy_of(*items):
    return decode_cluster_copy(json.dumps({"items": items}), source="cluster.json")


def item(kind, **meta):
    return {"kind": kind, "metadata": {"name": "x", **meta}}


def test_objects_are_told_apart_by_kind_and_others_passed_over():
    found = copy_of(item("Node"), item("Pod"), item("ResourceQuota"), item("Secret"))

    assert [len(found.nodes), len(found.pods), len(found.quotas)] == [1, 1, 1]


def test_what_people_leave_out_is_put_in():
    found = copy_of(item("Node"), item("Pod"), item("Pod", namespace="team", uid="u"))

    assert found.nodes[0]["metadata"]["uid"] == "x"
    assert [pod["metadata"]["uid"] for pod in found.pods] == ["default/x", "u"]
    assert [pod["metadata"]["namespace"] for pod in found.pods] == ["default", "team"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nonsense", "it is no JSON"),
        ("[]", "the file is a list, not an object"),
        ("{}", "items is"),
        ('{"items": [1]}', r"items\[0\] is a number"),
        ('{"items": [{"kind": "Node"}]}', r"items\[0\].metadata is"),
        ('{"items": [{"kind": "Node", "metadata": {}}]}', r"items\[0\].metadata.name is"),
        ('{"items": []}', "has no node"),
    ],
)
def test_what_is_no_copy_is_refused_with_the_command_that_makes_one(text, said):
    with pytest.raises(TraceError, match=f"cluster.json.*{said}") as caught:
        decode_cluster_copy(text, source="cluster.json")

    assert "kubectl get nodes,pods" in caught.value.hint
