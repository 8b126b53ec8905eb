"""Three replicas on a real API server, one of them killed and one frozen, while pods keep coming.

What each replica wrote is read from the API server's audit log, by the node that its token is for.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.fleet import gpu_pod, running_fleet
from tests.cluster.harness import skipped_without_cluster
from tests.cluster.rawapi import pods_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cluster.fleet import Fleet, Replica

pytestmark = pytest.mark.slow

NODE_OF_TOKEN = "authentication.kubernetes.io/node-name"
POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    users: [system:serviceaccount:hamid-system:hamid]
    verbs: [create, update, patch, delete]
  - level: None
"""
# So that a lost leader is missed after seconds; the proportions are the default's.
LEASE = {"lease": {"lease_duration_s": 5.0, "renew_deadline_s": 3.0, "retry_period_s": 1.0}}


class Audit:
    """The writes of hamid's replicas, in order."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def entries(self) -> list[dict[str, Any]]:
        *lines, _ = self.path.read_text().split("\n")  # the last may not be all there yet
        return [json.loads(line) for line in lines]

    def written_by(self, replica: Replica, *, since: int) -> set[str]:
        """Of which kinds objects were that it changed, after so many entries."""
        node = f"control-{replica.name}"
        return {
            kind_of(entry)
            for entry in self.entries()[since:]
            if entry["user"]["extra"].get(NODE_OF_TOKEN) == [node]
            and entry["responseStatus"]["code"] < 300
        }

    def bindings(self) -> Counter[str]:
        """How often each pod was bound."""
        return Counter(
            entry["objectRef"]["name"]
            for entry in self.entries()
            if kind_of(entry) == "pods/binding" and entry["responseStatus"]["code"] == 201
        )


def kind_of(entry: dict[str, Any]) -> str:
    ref = entry["objectRef"]
    return "/".join(filter(None, (ref["resource"], ref.get("subresource"))))


@pytest.fixture
def audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Audit:
    """Set before the cluster starts."""
    policy, log = tmp_path / "policy.yaml", tmp_path / "audit.log"
    policy.write_text(POLICY)
    flags = f"--audit-policy-file={policy} --audit-log-path={log}"
    monkeypatch.setenv("HAMID_APISERVER_ARGS", flags)
    return Audit(log)


@pytest.fixture
def fleet(audit: Audit) -> Iterator[Fleet]:
    """Two nodes of eight cards, three replicas."""
    with (
        skipped_without_cluster(),
        running_fleet(nodes=2, replicas=3, port=18943, is_forwarded=True, settings=LEASE) as made,
    ):
        yield made


def create_pods(fleet: Fleet, phase: str) -> list[str]:
    return fleet.create_pods(gpu_pod(f"{phase}-{number}") for number in range(20))


def names_nodes(replica: Replica) -> set[str]:
    nodes = replica.page("cache")["nodes"]
    return {node["node_name"] for node in nodes if node["usages"]}


@pytest.mark.timeout(300)
def test_pods_are_bound_once_while_leaders_are_killed_and_frozen(fleet, audit):
    """Field report d 14: a leader is killed, the next is frozen and resumed; pods keep coming."""
    first = fleet.leader()
    names = create_pods(fleet, "before")
    fleet.watch.wait_bound(names)

    first.kill()
    names += create_pods(fleet, "killed")
    second = fleet.follow_leader()
    fleet.watch.wait_bound(names, timeout_s=90)
    second.wait_until_leading()
    assert names_nodes(second) == {"gpu-0000", "gpu-0001"}

    # In the middle of it: calls are on their way to it, and its own to the API server.
    names += create_pods(fleet, "frozen")
    second.freeze()
    (third,) = {*fleet.replicas.values()} - {first, second}
    third.wait_until_leading()
    fleet.lead_to(third)
    fleet.watch.wait_bound(names, timeout_s=90)
    assert names_nodes(third) == {"gpu-0000", "gpu-0001"}

    since = len(audit.entries())
    second.resume()
    names += create_pods(fleet, "resumed")
    fleet.watch.wait_bound(names, timeout_s=90)
    second.wait_until_following()

    # It signs up as one who would lead, and that is all.
    # (A bind frozen between the last look at the lease and the send: the API server refuses it.)
    assert audit.written_by(second, since=since) <= {"leases"}
    assert third.page("leases")["may_act"]
    assert audit.bindings() == Counter(names)
    assert all(len(nodes) == 1 for nodes in fleet.watch.nodes_of.values())
    assert {pod["spec"]["nodeName"] for pod in fleet.api.list(pods_path())} <= names_nodes(third)
    fleet.books().check()
