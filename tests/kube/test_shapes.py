from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hamid.kube.fake import FakeKube
from hamid.kube.port import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    JOBS,
    NODES,
    PODS,
    RESOURCE_QUOTAS,
    PatchKind,
)
from hamid.kube.shapes import BadRequest, first_misfit
from tests.contracts.kube_contract import pod

if TYPE_CHECKING:
    from hamid.kube.port import Resource


@pytest.mark.parametrize(
    ("resource", "item", "place"),
    [
        pytest.param(PODS, {"metadata": "x"}, "metadata", id="a text for an object"),
        pytest.param(
            PODS, {"metadata": {"labels": {"a": 1}}}, "metadata.labels[a]", id="a number in a map"
        ),
        pytest.param(
            CONFIG_MAPS, {"metadata": {"name": 1}}, "metadata.name", id="the name of any kind"
        ),
        pytest.param(
            PODS, {"spec": {"containers": [{}, 1]}}, "spec.containers[1]", id="within a list"
        ),
        pytest.param(
            PODS, {"spec": {"nodeSelector": "zone"}}, "spec.nodeSelector", id="a text for a map"
        ),
        pytest.param(
            PODS,
            {"spec": {"containers": [{"securityContext": {"privileged": "no"}}]}},
            "spec.containers[0].securityContext.privileged",
            id="a text for a truth",
        ),
        pytest.param(
            PODS, {"spec": {"containers": [None]}}, "spec.containers[0]", id="null in a list"
        ),
        pytest.param(
            PODS, {"metadata": {"labels": {"a": None}}}, "metadata.labels[a]", id="null in a map"
        ),
        pytest.param(PODS, {"spec": {"priority": True}}, "spec.priority", id="a truth as number"),
        pytest.param(
            DEPLOYMENTS,
            {"spec": {"template": {"metadata": []}}},
            "spec.template.metadata",
            id="within the template of a workload",
        ),
        pytest.param(JOBS, {"spec": []}, "spec", id="a list for a job's spec"),
        pytest.param(
            RESOURCE_QUOTAS, {"spec": {"hard": ["x"]}}, "spec.hard", id="a list for amounts"
        ),
        pytest.param(NODES, {"spec": {"taints": {}}}, "spec.taints", id="an object for a list"),
    ],
)
def test_a_field_of_the_wrong_kind_is_named(
    resource: Resource, item: dict[str, Any], place: str
) -> None:
    misfit = first_misfit(resource, item)

    assert misfit is not None
    assert misfit.place == place


@pytest.mark.parametrize(
    ("resource", "item"),
    [
        pytest.param(PODS, pod("a"), id="a plain pod"),
        pytest.param(PODS, {"metadata": None, "spec": {"containers": None}}, id="nulls"),
        pytest.param(PODS, {"spec": {"volumes": "x"}}, id="what nobody here reads"),
        pytest.param(
            PODS,
            {"spec": {"containers": [{"resources": {"limits": {"x/y": [], "cpu": None}}}]}},
            id="amounts, which others judge",
        ),
    ],
)
def test_what_can_be_read_passes(resource: Resource, item: dict[str, Any]) -> None:
    assert first_misfit(resource, item) is None


async def test_the_server_takes_no_object_that_its_readers_would_stumble_over() -> None:
    kube = FakeKube()
    await kube.create(PODS, pod("a"), namespace="default")

    with pytest.raises(BadRequest, match=r"spec.template is 'x', not an object"):
        await kube.create(
            DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": {"template": "x"}}, namespace="default"
        )
    with pytest.raises(BadRequest, match=r"metadata.annotations\[x\] is 1, not a text"):
        await kube.patch(
            PODS,
            "a",
            {"metadata": {"annotations": {"x": 1}}},
            kind=PatchKind.MERGE,
            namespace="default",
        )
    with pytest.raises(BadRequest, match="metadata is 'x', not an object"):
        await kube.patch(PODS, "a", {"metadata": "x"}, kind=PatchKind.MERGE, namespace="default")
