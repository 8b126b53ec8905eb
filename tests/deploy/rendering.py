"""The chart, rendered by the helm that tests/cluster/up builds."""

import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.harness import helm

CHART = Path(__file__).parents[2] / "deploy" / "chart" / "hamid"
NAMESPACE = "hamid-system"

Object = dict[str, Any]


class ChartRefused(Exception):
    """helm would not render; the text is what it says."""


def render(*options: str, version: str = "1.37.2") -> str:
    """All objects of release `hamid` for a cluster of this version, as YAML."""
    return run_helm(
        "template",
        "hamid",
        str(CHART),
        "--namespace",
        NAMESPACE,
        "--kube-version",
        version,
        *options,
    )


def run_helm(*arguments: str) -> str:
    done = subprocess.run([helm(), *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ChartRefused(done.stderr)
    return done.stdout


def rendered(*options: str, version: str = "1.37.2") -> dict[tuple[str, str], Object]:
    """The objects by kind and name."""
    objects = [item for item in yaml.safe_load_all(render(*options, version=version)) if item]
    found = {(item["kind"], item["metadata"]["name"]): item for item in objects}
    assert len(found) == len(objects)
    return found
