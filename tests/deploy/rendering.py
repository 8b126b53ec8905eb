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


def scheduler_configuration(*options: str, url: str, client_folder: Path | None = None) -> str:
    """The chart's KubeSchedulerConfiguration for a kube-scheduler outside the cluster.

    `url` is the extender's; `client_folder` has ca.crt, tls.crt and tls.key for it, or there is
    no TLS. The word KUBECONFIG is left for `Cluster.start_scheduler` to replace.
    """
    text = rendered(*options)["ConfigMap", "hamid-kube-scheduler"]["data"]["config.yaml"]
    configuration = yaml.safe_load(text)
    configuration["clientConnection"] = {"kubeconfig": "KUBECONFIG", "qps": 1000, "burst": 2000}
    (extender,) = configuration["extenders"]
    extender["urlPrefix"] = url
    if client_folder is None:
        extender["enableHTTPS"] = False
        del extender["tlsConfig"]
    else:
        extender["tlsConfig"] |= {
            "caFile": str(client_folder / "ca.crt"),
            "certFile": str(client_folder / "tls.crt"),
            "keyFile": str(client_folder / "tls.key"),
        }
    return yaml.safe_dump(configuration)
