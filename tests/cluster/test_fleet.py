"""Pods on simulated nodes: the real kube-scheduler with our extender on the real API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.fleet import gpu_pod, running_fleet
from tests.cluster.harness import ClusterUnavailable, do_without

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.fleet import Fleet


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    """A hundred nodes of eight cards."""
    try:
        with running_fleet(nodes=60) as made:
            yield made
    except ClusterUnavailable as why:
        do_without(why)


def test_a_burst_is_placed_as_the_books_say(fleet):
    names = fleet.create_pods(gpu_pod(f"burst-{n}", memory_mib=3000) for n in range(100))

    fleet.watch.wait_bound(names)
    books = fleet.books()

    books.check()
    assert books.pods == len(names)
    fleet.delete_pods(names)
    fleet.watch.wait_gone(names)
    fleet.books().check()
