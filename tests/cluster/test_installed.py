"""hamid as its users have it: images and chart, nothing beside them but the cluster.

The daemon runs in the pods of the chart's DaemonSet, from the image of deploy/Dockerfile, and pods
are placed by the kube-scheduler of the chart's Deployment. The tests go on from each other, as an
operator does: install, use, upgrade, uninstall.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.harness import CommandFailed, helm, skipped_without_cluster
from tests.cluster.stand import LEADER_LABEL, SIM, prepare_sim
from tests.cluster.tenants import MIB, REFUSED, TAKEN, container, pod, results, taken, totals_bytes
from tests.deploy.images import chart_images
from tests.deploy.rendering import CHART, NAMESPACE, ChartRefused, run_helm

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.cluster.harness import Cluster

CARDS = 2
PATCHED = Path(__file__).with_name("host_network.py")
SELECTOR = "app.kubernetes.io/instance=hamid"
LIMITS = {"gpu": "1", "gpumem": "3000", "gpucores": "30"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """The cluster, and where on it the daemon keeps its state and finds its cards."""

    cluster: Cluster
    root: Path

    @property
    def sim(self) -> Path:
        return self.root / "sim"

    @property
    def values(self) -> Path:
        return self.root / "values.yaml"

    def put(self, verb: str, *options: str) -> None:
        """helm's install or upgrade, until all answers that there is to answer."""
        render = [str(PATCHED), str(self.cluster.port), self.cluster.host_address]
        self._helm(
            *(verb, "hamid", str(CHART), "--values", str(self.values)),
            *("--post-renderer", sys.executable),
            *(f"--post-renderer-args={argument}" for argument in render),
            *options,
        )
        # helm does not wait for as many as may be unavailable while they are replaced: here, all.
        for workload in ("daemonset/hamid", "deployment/hamid-kube-scheduler"):
            self.cluster.kubectl("rollout", "status", workload, "-n", NAMESPACE, "--timeout=180s")
        self._wait_until_admitting()

    def remove(self, *options: str) -> None:
        """helm's uninstall, until all of it is gone."""
        self._helm("uninstall", "hamid", *options)

    def _helm(self, *arguments: str) -> None:
        where = ("--namespace", NAMESPACE, "--kubeconfig", str(self.cluster.kubeconfig))
        try:
            run_helm(*arguments, *where, "--wait", "--timeout=180s")
        except ChartRefused as refusal:
            raise CommandFailed(f"{refusal}\n{self.story()}") from refusal

    def _wait_until_admitting(self) -> None:
        """Until the API server, too, has learned where the webhook is."""
        asking = json.dumps(pod("asking", self.sim, container("main", LIMITS)))
        until = time.monotonic() + 60
        while True:
            done = self.cluster.try_kubectl("apply", "--dry-run=server", "-f", "-", stdin=asking)
            if done.returncode == 0:
                return
            assert time.monotonic() < until, f"{done.stderr}\n{self.story()}"

    def story(self) -> str:
        """What the release's pods have gone through."""
        return "\n".join(
            self.cluster.try_kubectl(*words, "--namespace", NAMESPACE).stdout
            for words in (
                ("get", "pods", "-o", "wide"),
                ("get", "events", "--sort-by=.lastTimestamp"),
                ("logs", "--selector", SELECTOR, "--prefix", "--tail=40"),
            )
        )

    def wait_for_slots(self, count: int) -> None:
        self.cluster.wait_for(
            "nodes",
            lambda nodes: (
                nodes["node-1"]["status"]["allocatable"].get("nvidia.com/gpu") == str(count)
            ),
            namespace=None,
            timeout_s=120,
        )

    def kill_daemon(self) -> None:
        """Kill the daemon in its container, and return once the kubelet has it running again."""
        selector = f"{SELECTOR},app.kubernetes.io/component=daemon"
        listed = self.cluster.kubectl("get", "pods", "-n", NAMESPACE, "-l", selector, "-o", "json")
        (found,) = json.loads(listed)["items"]
        status = found["status"]["containerStatuses"][0]
        container_id = status["containerID"].removeprefix("containerd://")
        ctr(self.cluster, "tasks", "kill", "--signal", "SIGKILL", container_id)

        def is_back(pods: Mapping[str, Any]) -> bool:
            (now,) = pods[found["metadata"]["name"]]["status"]["containerStatuses"]
            return bool(now["restartCount"] > status["restartCount"] and now["ready"])

        self.cluster.wait_for("pods", is_back, namespace=NAMESPACE, timeout_s=120)

    def run(self, name: str, *arguments: str) -> dict[str, Any]:
        """A pod with a slice; it sleeps, or takes so many MiB one after another and ends."""
        self.cluster.apply(json.dumps(pod(name, self.sim, container("main", LIMITS, *arguments))))
        return self.cluster.wait_for_phase(
            name, "Succeeded" if arguments else "Running", timeout_s=120
        )


def values(cluster: Cluster, root: Path) -> dict[str, Any]:
    """What an operator sets who has simulated cards, no registry, and no kube-proxy."""
    return {
        "image": {"registry": "localhost", "pullPolicy": "Never"},
        "scheduler": {
            "leaders": {"nodeLabel": LEADER_LABEL, "nodeLabelValue": "true"},
            # Without kube-proxy a Service has the ports of its pods.
            "service": {"httpPort": 9443},
        },
        "devicePlugin": {
            "libPath": str(root / "state"),
            "cdiPath": str(cluster.node().cdi),
            "extraVolumes": [{"name": "driver", "hostPath": {"path": str(root / "sim")}}],
            "extraVolumeMounts": [{"name": "driver", "mountPath": SIM}],
            "extraEnvs": {
                "LD_LIBRARY_PATH": SIM,
                "HAMID_SIM_DEVICES": f"{SIM}/devices",
                "HAMID_SIM_STATE": f"{SIM}/state",
            },
        },
    }


@pytest.fixture(scope="module")
def hamid(real_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    with skipped_without_cluster():
        helm()
        images = chart_images()
    made = Installed(cluster=real_cluster, root=tmp_path_factory.mktemp("installed"))
    prepare_sim(made.root, cards="A100-40GB", count=CARDS)
    made.values.write_text(json.dumps(values(real_cluster, made.root)))
    for archive in (images / "hamid.tar", images / "kube-scheduler.tar"):
        import_image(real_cluster, archive)
    # Another module's may still be on its way out.
    real_cluster.try_kubectl("wait", "--for=delete", f"namespace/{NAMESPACE}", "--timeout=60s")
    real_cluster.kubectl("label", "node", "node-1", "gpu=on", f"{LEADER_LABEL}=true", "--overwrite")
    try:
        made.put("install", "--create-namespace")
        made.wait_for_slots(CARDS * 10)
        yield made
    finally:
        with suppress(CommandFailed):
            made.remove("--ignore-not-found")
        real_cluster.try_kubectl("delete", "pods", "--all", "--wait=true")
        real_cluster.try_kubectl("label", "node", "node-1", "gpu-")
        real_cluster.try_kubectl("delete", "namespace", NAMESPACE, "--wait=true")


def import_image(cluster: Cluster, archive: Path) -> None:
    """Give node-1 the images of an archive, as a registry would."""
    ctr(cluster, "images", "import", "--local", str(archive))


def ctr(cluster: Cluster, *arguments: str) -> None:
    """Have node-1's containerd do this."""
    address = str(cluster.node().containerd_socket)
    command = [str(cluster.binaries / "ctr"), "--address", address, "-n", "k8s.io", *arguments]
    subprocess.run(command, check=True, capture_output=True, text=True)


def test_a_slice_holds_in_its_container(hamid: Installed) -> None:
    hamid.run("exact", "3000", "1")

    assert results(hamid, "exact", "main") == [(3000, TAKEN), (1, REFUSED)]
    assert set(totals_bytes(hamid, "exact", "main").values()) == {3000 * MIB}


def test_the_webhook_gives_pods_to_the_scheduler_of_the_chart(hamid: Installed) -> None:
    found = hamid.run("placed")

    # The cluster's own kube-scheduler knows no profile of this name.
    assert found["spec"]["schedulerName"] == "hamid-scheduler"
    allocation = json.loads(found["metadata"]["annotations"]["hamid.io/allocation"])
    assert allocation["node"] == "node-1"


def test_the_daemon_has_of_root_only_the_name(hamid: Installed) -> None:
    status = hamid.cluster.kubectl(
        *("exec", "-n", NAMESPACE, "daemonset/hamid", "--", "cat", "/proc/1/status")
    )

    told = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert told["CapEff"].strip("0") == ""
    assert told["CapBnd"].strip("0") == ""
    assert told["NoNewPrivs"] == "1"


def test_an_upgrade_leaves_tenants_alone(hamid: Installed) -> None:
    before = hamid.run("stays")

    hamid.put("upgrade", "--set", "devicePlugin.deviceSplitCount=5")
    hamid.wait_for_slots(CARDS * 5)

    after = hamid.cluster.get("pod", "stays")
    assert after["status"]["containerStatuses"] == before["status"]["containerStatuses"]
    assert taken(hamid, "stays", 3000 * MIB, 1) == [(3000 * MIB, TAKEN), (1, REFUSED)]
    hamid.run("later", "3000", "1")
    assert results(hamid, "later", "main") == [(3000, TAKEN), (1, REFUSED)]


def test_a_daemon_that_is_killed_comes_back_to_its_tenants(hamid: Installed) -> None:
    before = hamid.cluster.get("pod", "stays")

    hamid.kill_daemon()
    hamid.wait_for_slots(CARDS * 5)

    after = hamid.cluster.get("pod", "stays")
    assert after["status"]["containerStatuses"] == before["status"]["containerStatuses"]
    assert taken(hamid, "stays", 3000 * MIB, 1) == [(3000 * MIB, TAKEN), (1, REFUSED)]
    hamid.run("after-kill", "3000", "1")
    assert results(hamid, "after-kill", "main") == [(3000, TAKEN), (1, REFUSED)]


def test_a_daemon_that_only_schedules_is_not_root(hamid: Installed) -> None:
    hamid.put("upgrade", "--set", "devicePlugin.enabled=false")

    user = hamid.cluster.kubectl("exec", "-n", NAMESPACE, "daemonset/hamid", "--", "id", "-u")
    assert user.strip() == "65532"


def test_uninstalled_it_is_gone_but_for_what_tenants_hold(hamid: Installed) -> None:
    cluster = hamid.cluster
    before = cluster.get("pod", "stays")

    hamid.remove()

    after = cluster.get("pod", "stays")
    assert after["status"]["containerStatuses"] == before["status"]["containerStatuses"]
    assert taken(hamid, "stays", 3000 * MIB, 1) == [(3000 * MIB, TAKEN), (1, REFUSED)]
    # The last to go are pods that take their time, and what the cluster collects by itself.
    for last in ("pods", "endpointslices.discovery.k8s.io"):
        cluster.wait_for(last, lambda found: not found, namespace=NAMESPACE)
    assert left_in_namespace(cluster) == {
        "configmap/kube-root-ca.crt",
        "serviceaccount/default",
    }
    assert left_in_cluster(cluster) == ""


def left_in_namespace(cluster: Cluster) -> set[str]:
    """All that there is in the release's namespace, but for what it has gone through."""
    kinds = cluster.kubectl("api-resources", "--namespaced", "--verbs=list", "-o", "name").split()
    asked = ",".join(kind for kind in kinds if not kind.startswith("events"))
    return set(cluster.kubectl("get", asked, "-n", NAMESPACE, "-o", "name").split())


def left_in_cluster(cluster: Cluster) -> str:
    """All of the release's that is in no namespace."""
    kinds = cluster.kubectl("api-resources", "--namespaced=false", "--verbs=list", "-o", "name")
    asked = ",".join(kinds.split())
    return cluster.kubectl("get", asked, "--selector", SELECTOR, "-o", "name")
