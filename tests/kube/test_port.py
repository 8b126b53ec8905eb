from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hamid.kube.port import LEASES, NODES, PODS, ServerVersion

if TYPE_CHECKING:
    from hamid.kube.port import Resource


@pytest.mark.parametrize(
    ("resource", "parts", "path"),
    [
        (PODS, (), "/api/v1/pods"),
        (PODS, ("ns",), "/api/v1/namespaces/ns/pods"),
        (PODS, ("ns", "a"), "/api/v1/namespaces/ns/pods/a"),
        (NODES, (None, "n1"), "/api/v1/nodes/n1"),
        (NODES, ("ignored", "n1"), "/api/v1/nodes/n1"),
        (LEASES, ("ns", "l"), "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l"),
    ],
)
def test_a_resource_knows_its_paths(
    resource: Resource, parts: tuple[str | None, ...], path: str
) -> None:
    assert resource.path(*parts) == path


def test_a_subresource_comes_last() -> None:
    path = PODS.path("ns", "a", subresource="binding")

    assert path == "/api/v1/namespaces/ns/pods/a/binding"


def test_names_for_api_version_and_label() -> None:
    assert (PODS.api_version, PODS.label) == ("v1", "pods")
    assert (LEASES.api_version, LEASES.label) == (
        "coordination.k8s.io/v1",
        "leases.coordination.k8s.io",
    )


def test_versions_compare_as_numbers() -> None:
    assert ServerVersion(major=1, minor=9) < ServerVersion(major=1, minor=20)
    assert str(ServerVersion(major=1, minor=37)) == "1.37"


@pytest.mark.parametrize(
    ("version", "has_check"),
    [
        ((1, 20, 15), False),
        ((1, 22, 17), False),
        ((1, 23, 0), True),
        ((1, 24, 3), True),
        ((1, 25, 0), False),
        ((1, 25, 8), False),
        ((1, 25, 9), True),
        ((1, 26, 3), False),
        ((1, 26, 4), True),
        ((1, 27, 0), True),
        ((1, 37, 2), True),
    ],
)
def test_it_is_known_which_servers_compare_the_uid_of_a_binding(
    version: tuple[int, int, int],
    has_check: bool,  # noqa: FBT001
) -> None:
    major, minor, patch = version

    found = ServerVersion(major=major, minor=minor, patch=patch)

    assert found.has_binding_uid_check is has_check
