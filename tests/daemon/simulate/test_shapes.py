from __future__ import annotations

import pytest

from hamid.daemon.simulate.shapes import require_pod_shape
from hamid.errors import SettingsError
from hamid.model.names import ResourceNames
from tests.daemon.simulate.manifests import container, pod

OURS = ResourceNames().all()


def check(document):
    require_pod_shape("pods.yaml: Pod 'a'", document, our_resources=OURS)


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(pod(), id="a plain pod"),
        pytest.param(pod("a", container(gpu=1, mem="16Gi", cores=30)), id="with a slice"),
        pytest.param(
            pod("a", container(gpu="a lot", mem=-1)), id="odd amounts of ours are the webhook's"
        ),
        pytest.param(
            pod("a", container(resources={"requests": {"cpu": 0.5, "memory": "1Gi"}})),
            id="numbers and texts as quantities",
        ),
        pytest.param(pod(annotations=None, initContainers=None, nodeName=None), id="nulls"),
    ],
)
def test_a_pod_of_good_shape_passes(document):
    check(document)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        pytest.param({"spec": None}, "spec.containers is missing", id="no spec"),
        pytest.param({"spec": []}, "spec is [], expected an object", id="a list for a spec"),
        pytest.param(pod(containers={"name": "m"}), "spec.containers is {", id="no list"),
        pytest.param(
            pod("a", container(), initContainers="x"), "spec.initContainers is 'x'", id="a text"
        ),
        pytest.param(pod(containers=["m"]), "spec.containers[0] is 'm'", id="a text in a list"),
        pytest.param(pod(containers=[{}]), "spec.containers[0].name is missing", id="no name"),
        pytest.param(
            pod("a", container("m"), container("m")),
            "two containers are named 'm'",
            id="the same name twice",
        ),
        pytest.param(
            pod(annotations={"x": True}),
            "metadata.annotations[x] is True, expected a text; put it in quotes",
            id="an annotation that is no text",
        ),
        pytest.param(pod(labels={"x": 1}), "metadata.labels[x] is 1", id="a label that is no text"),
        pytest.param(pod(nodeName=1), "spec.nodeName is 1", id="a number for a node"),
        pytest.param(
            pod("a", container(resources={"limits": ["x"]})),
            "spec.containers[0].resources.limits is ['x']",
            id="a list of limits",
        ),
        pytest.param(
            pod("a", container(resources={"requests": {"cpu": "lots"}})),
            "resources.requests[cpu] is 'lots', expected a quantity",
            id="no quantity",
        ),
    ],
)
def test_a_malformed_pod_is_an_error_that_names_the_place(document, said):
    with pytest.raises(SettingsError) as caught:
        check(document)

    assert caught.value.message.startswith("pods.yaml: Pod 'a': ")
    assert said in caught.value.message
