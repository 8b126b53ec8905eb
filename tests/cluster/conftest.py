"""The one cluster that all tests of this folder share, or the reason why there is none."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.harness import Cluster, running_cluster, skipped_without_cluster

LOGS = Path("build/cluster-logs")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.cluster)


@pytest.fixture(scope="session")
def real_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """API server, scheduler, controller manager, and one node with kubelet and containerd."""

    def keep_logs_in() -> Path | None:
        return LOGS if request.session.testsfailed else None

    with skipped_without_cluster(), running_cluster(nodes=1, keep_logs_in=keep_logs_in) as cluster:
        yield cluster


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if LOGS.is_dir() and terminalreporter.stats.get("failed"):
        terminalreporter.write_line(f"logs of the cluster: {LOGS}")
