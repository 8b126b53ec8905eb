from __future__ import annotations

import pytest

from hamid.daemon.simulate.plan import make_plan
from hamid.errors import SettingsError
from hamid.model.names import ResourceNames
from tests.daemon.simulate.manifests import container, pod, workload, write


def plan_of(tmp_path, *documents):
    return make_plan([write(tmp_path / "given.yaml", *documents)], names=ResourceNames())


def named(items):
    return [(item.resource.kind, item.namespace, item.object["metadata"]["name"]) for item in items]


def test_namespaces_come_first_then_what_makes_no_pods_then_pods_in_order(tmp_path):
    documents = (
        workload(name="late"),
        pod("early", namespace="team"),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}},
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}},
    )

    plan = plan_of(tmp_path, *documents)

    assert named(plan.first) == [("Namespace", None, "team"), ("ConfigMap", "default", "c")]
    assert named(plan.pods) == [("Deployment", "default", "late"), ("Pod", "team", "early")]
    assert plan.notes == ()


def test_a_namespace_that_no_manifest_makes_is_made_and_said(tmp_path):
    plan = plan_of(tmp_path, pod("a", namespace="team"), pod("b", namespace="kube-system"))

    assert named(plan.first) == [("Namespace", None, "team")]
    assert plan.notes == ("namespace 'team' is in no manifest; it was created",)


@pytest.mark.parametrize(
    ("document", "note"),
    [
        pytest.param(
            {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "x"}},
            "PyTorchJob 'x' was skipped: its kind is not simulated",
            id="an unknown kind is skipped",
        ),
        pytest.param(
            {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {"name": "x"},
                "spec": {"hard": {"nvidia.com/gpumem": 4096}},
            },
            "ResourceQuota 'x': nvidia.com/gpumem limits nothing; known are limits.nvidia.com/gpu, "
            "limits.nvidia.com/gpumem, limits.nvidia.com/gpucores",
            id="a quota with a key that limits nothing",
        ),
        pytest.param(
            {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "x"}, "spec": {}},
            "DaemonSet 'x' is stored, but its pods are not simulated",
            id="a kind whose controller is not imitated",
        ),
    ],
)
def test_what_is_not_done_is_said_in_a_line(tmp_path, document, note):
    plan = plan_of(tmp_path, pod(), document)

    assert plan.notes == (f"{tmp_path}/given.yaml: {note}",)


@pytest.mark.parametrize("key", ["pods", "limits.nvidia.com/gpumem"])
def test_a_quota_that_does_what_it_says_needs_no_word(tmp_path, key):
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "x"},
        "spec": {"hard": {key: 3}},
    }

    assert plan_of(tmp_path, pod(), quota).notes == ()


def test_files_without_pods_are_said_to_have_none(tmp_path):
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}

    assert plan_of(tmp_path, config).notes == ("no manifest makes a pod",)


def test_the_same_object_twice_is_applied_once(tmp_path):
    plan = plan_of(tmp_path, pod("a"), pod("a"), workload(replicas=2), workload(replicas=2))

    assert named(plan.pods) == [("Pod", "default", "a"), ("Deployment", "default", "web")]


def test_pods_of_the_same_generated_name_are_different_pods(tmp_path):
    document = pod()
    document["metadata"] = {"generateName": "a-"}

    assert len(plan_of(tmp_path, document, document).pods) == 2


@pytest.mark.parametrize(
    ("documents", "said"),
    [
        pytest.param(
            (pod("a"), pod("a", container("other"))), "Pod default/a is there twice", id="a pod"
        ),
        pytest.param(
            (workload("StatefulSet", replicas=2), pod("web-1")),
            "Pod default/web-1 is there twice: as StatefulSet 'web'",
            id="a pod of a workload",
        ),
        pytest.param((pod("Upper"),), 'Pod "Upper" is invalid', id="a name that is none"),
        pytest.param(
            (pod("a", namespace="N"),), "lowercase RFC 1123", id="a namespace that is none"
        ),
        pytest.param(
            ({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}},),
            "nodes do not come from manifests",
            id="a node",
        ),
        pytest.param(
            (workload() | {"apiVersion": "extensions/v1beta1"},),
            "apiVersion extensions/v1beta1, which is not served",
            id="a version of long ago",
        ),
        pytest.param(
            (workload(replicas="x"),),
            "spec.replicas is 'x', expected a whole number",
            id="a malformed workload",
        ),
        pytest.param(
            (workload(template={"spec": {"containers": []}}),),
            "spec.template: spec.containers is []",
            id="a malformed template",
        ),
    ],
)
def test_what_cannot_be_applied_is_an_error(tmp_path, documents, said):
    with pytest.raises(SettingsError) as caught:
        plan_of(tmp_path, *documents)

    assert said in caught.value.message
    assert "given.yaml" in caught.value.message


def test_workloads_that_the_api_server_names_may_be_there_more_than_once(tmp_path):
    documents = [{**workload("Job"), "metadata": {"generateName": "train-"}} for _ in range(2)]

    plan = plan_of(tmp_path, *documents)

    assert [item.object["metadata"]["generateName"] for item in plan.pods] == ["train-", "train-"]
