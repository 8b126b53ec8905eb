"""Pods that run the tenant program on simulated cards, and what it said."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hamid.plugin.journal import decode_grant
from tests.cluster.harness import GLIBC
from tests.cluster.stand import SIM

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.cluster.stand import Stand

MIB = 1024 * 1024
REFUSED = "CUDA_ERROR_OUT_OF_MEMORY"


def container(
    name: str, limits: Mapping[str, str], *arguments: str, env: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """A container that runs the tenant program, or sleeps."""
    variables = {"LD_LIBRARY_PATH": SIM, **(env or {})}
    return {
        "name": name,
        "image": GLIBC,
        "imagePullPolicy": "Never",
        "command": [f"{SIM}/alloc_mib", *arguments] if arguments else ["sleep", "1000"],
        "env": [{"name": key, "value": value} for key, value in variables.items()],
        "resources": {"limits": {f"nvidia.com/{key}": value for key, value in limits.items()}},
        "volumeMounts": [{"name": "sim", "mountPath": SIM}],
    }


def pod(name: str, sim: Path, *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A pod that does not restart, with the simulated driver mounted."""
    volumes = [{"name": "sim", "hostPath": {"path": str(sim)}}, *spec.pop("volumes", [])]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "volumes": volumes,
            "containers": list(containers),
            **spec,
        },
    }


def said(hamid: Stand, name: str, container_name: str) -> list[dict[str, Any]]:
    """What the tenant program printed."""
    lines = hamid.cluster.kubectl("logs", name, "-c", container_name).splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def results(hamid: Stand, name: str, container_name: str) -> list[tuple[int, str]]:
    """MiB asked for and what came of it."""
    lines = said(hamid, name, container_name)
    return [(line["mib"], line["result"]) for line in lines if line["call"] == "cuMemAlloc"]


def totals_mib(hamid: Stand, name: str, container_name: str) -> dict[str, int]:
    """What each way of asking says the card's memory is."""
    lines = said(hamid, name, container_name)
    found = {line["call"]: line["total_bytes"] // MIB for line in lines if "total_bytes" in line}
    return found | {line["call"]: line["total_mib"] for line in lines if "total_mib" in line}


def running(pods: Mapping[str, Any]) -> int:
    return sum(p["status"].get("phase") == "Running" for p in pods.values())


def grants(hamid: Stand) -> list[Any]:
    contents = [path.read_bytes() for path in (hamid.state / "journal").glob("*.json")]
    return [decode_grant(content) for content in contents if content]  # others are for what comes
