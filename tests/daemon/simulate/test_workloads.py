from __future__ import annotations

import re

import pytest

from hamid.daemon.simulate.workloads import pod_count, workload_pods
from hamid.errors import SettingsError
from tests.daemon.simulate.manifests import container, workload


def test_pods_are_owned():
    deployment = workload(replicas=2)
    deployment["metadata"] |= {"namespace": "team", "uid": "u-1"}

    pods = workload_pods(deployment)

    assert {pod["metadata"]["namespace"] for pod in pods} == {"team"}
    assert pods[0]["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": "web",
            "uid": "u-1",
            "controller": True,
        }
    ]


def names(document):
    return [pod["metadata"]["name"] for pod in workload_pods(document)]


def test_pods_of_a_stateful_set_are_numbered():
    assert names(workload("StatefulSet", replicas=2)) == ["web-0", "web-1"]


def test_names_of_other_pods_are_different_from_each_other_and_the_same_each_time():
    many = names(workload(replicas=10_000))

    assert len(set(many)) == 10_000
    assert many == names(workload(replicas=10_000))
    assert all(re.fullmatch("web-[a-z0-9]{5}", name) for name in many)


def test_workloads_of_one_name_and_several_kinds_get_along():
    deployment, job = names(workload(replicas=50)), names(workload("Job", parallelism=50))

    assert not {*deployment} & {*job}


def test_a_pod_has_what_the_template_says_and_is_a_copy_of_it():
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [container(gpu=1)]},
    }
    deployment = workload(template=template)

    (pod,) = workload_pods(deployment)
    pod["spec"]["containers"].clear()

    assert pod["metadata"]["labels"] == {"app": "web"}
    assert template["spec"]["containers"]


@pytest.mark.parametrize(
    ("document", "count"),
    [
        pytest.param(workload(), 1, id="a deployment that does not say has one"),
        pytest.param(workload(replicas=0), 0, id="none"),
        pytest.param(workload("StatefulSet", replicas=3), 3, id="a stateful set"),
        pytest.param(workload("ReplicaSet", replicas=3), 3, id="a replica set"),
        pytest.param(workload("Job"), 1, id="a job that does not say has one"),
        pytest.param(workload("Job", parallelism=3), 3, id="a work queue"),
        pytest.param(workload("Job", parallelism=3, completions=2), 2, id="no more than needed"),
        pytest.param(workload("Job", completions=5), 1, id="one after another"),
        pytest.param(workload("Job", parallelism=3, suspend=True), 0, id="a suspended job"),
    ],
)
def test_how_many_pods_a_workload_stands_for(document, count):
    assert pod_count(document) == count


@pytest.mark.parametrize(
    ("document", "said"),
    [
        pytest.param(workload(replicas="two"), "spec.replicas 'two'", id="a text"),
        pytest.param(workload(replicas=-1), "spec.replicas -1", id="less than none"),
        pytest.param(workload(replicas=True), "spec.replicas True", id="a truth"),
        pytest.param(workload(replicas=10_001), "from 0 to 10000", id="too many"),
        pytest.param(workload(template=None), "no spec.template.spec", id="no template"),
        pytest.param(workload(template={}), "no spec.template.spec", id="an empty template"),
    ],
)
def test_a_workload_that_says_nothing_sensible_is_an_error(document, said):
    with pytest.raises(SettingsError, match="Deployment 'web'") as caught:
        workload_pods(document)

    assert said in caught.value.message


def test_names_are_cut_as_controllers_cut_them():
    (made,) = workload_pods(workload(name="a" * 80))

    assert len(made["metadata"]["name"]) == 63
    assert made["metadata"]["ownerReferences"][0]["name"] == "a" * 80


def test_pods_of_a_workload_that_is_yet_to_be_named_can_be_looked_at():
    document = workload("Job")
    document["metadata"] = {"generateName": "train-"}

    (made,) = workload_pods(document)

    assert made["metadata"]["name"].startswith("train-")
