from __future__ import annotations

from typing import Any

import pytest

from hamid.kube.fake.table import age, table

NOW = "2024-01-01T00:00:00Z"
NOW_S = 1_704_067_200.0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (200, "3m20s"),
        (600, "10m"),
        (3 * 3600, "3h"),
        (4 * 3600 + 600, "4h10m"),
        (9 * 3600 + 600, "9h"),
        (2 * 86400 + 3 * 3600, "2d3h"),
        (20 * 86400, "20d"),
        (-5, "0s"),
    ],
)
def test_ages_are_written_as_kubectl_does(seconds: int, text: str) -> None:
    assert age(NOW, NOW_S + seconds) == text


def test_no_age_is_unknown() -> None:
    assert age(None, NOW_S) == "<unknown>"


def cells(kind: str, **item: Any) -> dict[str, Any]:
    item.setdefault("metadata", {"name": "x", "creationTimestamp": NOW})
    made = table([item], kind=kind, version=7, now_s=NOW_S)
    names = [column["name"] for column in made["columnDefinitions"]]
    return dict(zip(names, made["rows"][0]["cells"], strict=True))


@pytest.mark.parametrize(
    ("pod", "wanted"),
    [
        ({"status": {"phase": "Pending"}}, "Pending"),
        ({"status": {"phase": "Failed", "reason": "UnexpectedAdmissionError"}}, "Unexpected"),
        (
            {
                "metadata": {"name": "x", "deletionTimestamp": NOW},
                "status": {"phase": "Running"},
            },
            "Terminating",
        ),
        (
            {
                "status": {
                    "phase": "Running",
                    "containerStatuses": [
                        {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 2}
                    ],
                }
            },
            "CrashLoopBackOff",
        ),
        (
            {
                "status": {
                    "phase": "Pending",
                    "initContainerStatuses": [
                        {"state": {"terminated": {"exitCode": 0}}},
                        {"state": {"terminated": {"exitCode": 1, "reason": "Error"}}},
                    ],
                }
            },
            "Error",
        ),
    ],
)
def test_a_pod_is_in_the_state_that_matters_most(pod: dict[str, Any], wanted: str) -> None:
    found = cells("Pod", spec={"containers": [{}, {}]}, **pod)

    assert found["Status"].startswith(wanted)
    assert found["Ready"] == "0/2"


def test_a_waiting_gate_shows() -> None:
    spec = {"containers": [{}], "schedulingGates": [{"name": "g"}]}

    found = cells("Pod", spec=spec, status={"phase": "Pending"})
    assert found["Status"] == "SchedulingGated"


def test_a_node_shows_roles_and_readiness() -> None:
    found = cells(
        "Node",
        metadata={"name": "n", "labels": {"node-role.kubernetes.io/control-plane": ""}},
        spec={"unschedulable": True},
        status={
            "conditions": [{"type": "Ready", "status": "False"}],
            "nodeInfo": {"kubeletVersion": "v1.37.2"},
        },
    )

    assert found["Status"] == "NotReady,SchedulingDisabled"
    assert found["Roles"] == "control-plane"
    assert found["Version"] == "v1.37.2"


@pytest.mark.parametrize(
    ("kind", "item", "column", "wanted"),
    [
        ("Deployment", {"spec": {"replicas": 2}, "status": {"readyReplicas": 1}}, "Ready", "1/2"),
        ("Job", {"spec": {}, "status": {"succeeded": 1}}, "Completions", "1/1"),
        ("Lease", {"spec": {"holderIdentity": "me"}}, "Holder", "me"),
        ("Namespace", {"status": {"phase": "Active"}}, "Status", "Active"),
        ("MutatingWebhookConfiguration", {"webhooks": [{}]}, "Webhooks", 1),
        ("ConfigMap", {"data": {"a": "b"}}, "Data", 1),
        ("Event", {"reason": "Because", "lastTimestamp": NOW}, "Reason", "Because"),
        ("Secret", {}, "Name", "x"),
    ],
)
def test_other_kinds_have_their_columns(
    kind: str, item: dict[str, Any], column: str, wanted: Any
) -> None:
    assert cells(kind, **item)[column] == wanted


def test_rows_carry_metadata_or_the_whole_object() -> None:
    item = {"metadata": {"name": "x"}, "spec": {}}

    slim = table([item], kind="Secret", version=1, now_s=NOW_S)
    whole = table([item], kind="Secret", version=1, now_s=NOW_S, has_whole_objects=True)

    assert "spec" not in slim["rows"][0]["object"]
    assert whole["rows"][0]["object"] == item
