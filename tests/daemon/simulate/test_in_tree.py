from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from hamid.daemon.simulate.in_tree import refusal, requested, unschedulable_sentence
from tests.daemon.simulate.manifests import container

OURS = ("nvidia.com/gpu",)


def asks(name: str = "main", **requests: Any) -> dict[str, Any]:
    sidecar = {"restartPolicy": "Always"} if name == "sidecar" else {}
    return container(name, resources={"requests": requests}, **sidecar)


def node(**more: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "n", "labels": more.pop("labels", {"zone": "a"})},
        "spec": more.pop("spec", {}),
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "2", **more}},
    }


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        pytest.param({"containers": [asks(cpu=1), asks(cpu="500m")]}, 1500, id="a sum"),
        pytest.param(
            {"containers": [asks(cpu=1)], "initContainers": [asks(cpu=3), asks(cpu=2)]},
            3000,
            id="the peak of init containers, where that is more",
        ),
        pytest.param(
            {"containers": [asks(cpu=1)], "initContainers": [asks("sidecar", cpu=2), asks(cpu=3)]},
            5000,
            id="a sidecar runs on beside the init containers after it",
        ),
        pytest.param(
            {"containers": [asks(cpu=4)], "initContainers": [asks(cpu=3), asks("sidecar", cpu=2)]},
            6000,
            id="and beside the app",
        ),
        pytest.param(
            {"containers": [container(resources={"limits": {"cpu": 2}})]},
            2000,
            id="a limit stands in for a request",
        ),
        pytest.param(
            {"containers": [asks(cpu="lots")]}, 0, id="what is no quantity counts nothing"
        ),
    ],
)
def test_what_a_pod_requests(spec, cpu):
    assert requested(spec, ignored=OURS)["cpu"] == cpu


def test_our_resources_are_not_counted_and_the_pod_itself_is():
    needed = requested({"containers": [container(gpu=1)]}, ignored=OURS)

    assert needed == Counter({"pods": 1000})


AFFINITY = {
    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
}


def affinity(*expressions: Any, **term: Any) -> dict[str, Any]:
    terms = [{"matchExpressions": list(expressions), **term}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


def expression(operator: str, *values: str, key: str = "zone") -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


SELECTED = "node(s) didn't match Pod's node affinity/selector"
TAINT = {"key": "dedicated", "value": "ml", "effect": "NoSchedule"}
TAINTED = "node(s) had untolerated taint {dedicated: ml}"


@pytest.mark.parametrize(
    ("spec", "on", "said"),
    [
        pytest.param({}, node(), "", id="nothing asked"),
        pytest.param({"containers": [asks(cpu=4)]}, node(), "", id="the last core may be taken"),
        pytest.param({"containers": [asks(cpu="4001m")]}, node(), "Insufficient cpu", id="cpu"),
        pytest.param(
            {"containers": [asks(cpu=5, memory="9Gi")]},
            node(),
            "Insufficient cpu, Insufficient memory",
            id="every resource is named",
        ),
        pytest.param(
            {"containers": [asks(**{"rdma/hca": 1})]},
            node(),
            "Insufficient rdma/hca",
            id="a resource that the node lacks",
        ),
        pytest.param(
            {}, node(spec={"unschedulable": True}), "node(s) were unschedulable", id="cordon"
        ),
        pytest.param({"nodeSelector": {"zone": "b"}}, node(), SELECTED, id="selector"),
        pytest.param({"nodeSelector": {"zone": "a"}}, node(), "", id="a selector that holds"),
        pytest.param(affinity(expression("In", "b")), node(), SELECTED, id="In"),
        pytest.param(affinity(expression("NotIn", "b")), node(), "", id="NotIn"),
        pytest.param(affinity(expression("Exists")), node(), "", id="Exists"),
        pytest.param(affinity(expression("DoesNotExist")), node(), SELECTED, id="DoesNotExist"),
        pytest.param(
            affinity(expression("Gt", "3", key="n")), node(labels={"n": "4"}), "", id="Gt"
        ),
        pytest.param(
            affinity(expression("Lt", "3", key="n")), node(labels={"n": "4"}), SELECTED, id="Lt"
        ),
        pytest.param(
            affinity(expression("Lt", "3", key="n")),
            node(labels={"n": "x"}),
            SELECTED,
            id="no number",
        ),
        pytest.param(affinity(expression("Near", "b")), node(), SELECTED, id="an unknown operator"),
        pytest.param(
            affinity(matchFields=[expression("In", "n", key="metadata.name")]),
            node(),
            "",
            id="the node's name",
        ),
        pytest.param({"affinity": AFFINITY}, node(), SELECTED, id="no term matches nothing"),
        pytest.param({}, node(spec={"taints": [TAINT]}), TAINTED, id="taint"),
        pytest.param(
            {},
            node(spec={"taints": [TAINT | {"effect": "PreferNoSchedule"}]}),
            "",
            id="a soft taint",
        ),
        pytest.param(
            {"tolerations": [{"key": "dedicated", "operator": "Exists"}]},
            node(spec={"taints": [TAINT]}),
            "",
            id="tolerated whatever its value",
        ),
        pytest.param(
            {"tolerations": [{"key": "dedicated", "value": "x"}, {"key": "other"}]},
            node(spec={"taints": [TAINT]}),
            TAINTED,
            id="other tolerations",
        ),
        pytest.param(
            {"tolerations": [{"key": "dedicated", "value": "ml", "effect": "NoExecute"}]},
            node(spec={"taints": [TAINT]}),
            TAINTED,
            id="a toleration of another effect",
        ),
        pytest.param(
            {"tolerations": [{"operator": "Exists"}]}, node(spec={"taints": [TAINT]}), "", id="all"
        ),
    ],
)
def test_why_a_node_is_refused(spec, on, said):
    needed = requested({"containers": [], **spec}, ignored=OURS)

    assert refusal(spec, on, needed=needed, taken=Counter()) == said


def test_what_others_took_counts():
    needed = requested({"containers": [asks(cpu=2)]}, ignored=OURS)

    said = refusal({}, node(), needed=needed, taken=Counter({"cpu": 3000, "pods": 2000}))

    assert said == "Insufficient cpu, Too many pods"


@pytest.mark.parametrize(
    ("reasons", "sentence"),
    [
        pytest.param({}, "0/0 nodes are available.", id="no node"),
        pytest.param(
            {"a": "Insufficient cpu", "b": "x", "c": "Insufficient cpu"},
            "0/3 nodes are available: 2 Insufficient cpu, 1 x.",
            id="reasons are counted",
        ),
    ],
)
def test_the_sentence_is_kube_schedulers(reasons, sentence):
    assert unschedulable_sentence(reasons) == sentence
