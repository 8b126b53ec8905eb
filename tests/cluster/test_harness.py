"""The cluster under the other tests does what they take for granted."""

import json

import pytest

from tests.cluster.harness import BUSYBOX, GLIBC, Cluster

POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  terminationGracePeriodSeconds: 0
  restartPolicy: Never
  schedulerName: {scheduler}
  containers:
  - {{name: main, image: "{image}", imagePullPolicy: Never, command: [sh, -c, "{command}"]}}
"""

PROFILE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: KUBECONFIG}
profiles: [{schedulerName: default-scheduler}, {schedulerName: second-scheduler}]
"""


def pod(name, *, image=BUSYBOX, command="echo hello", scheduler="default-scheduler"):
    return POD.format(name=name, image=image, command=command, scheduler=scheduler)


def test_a_pod_of_either_image_runs_to_its_end(real_cluster: Cluster):
    real_cluster.apply(pod("small"))
    real_cluster.apply(pod("with-glibc", image=GLIBC, command="bash --version"))

    real_cluster.wait_for_phase("small", "Succeeded")
    real_cluster.wait_for_phase("with-glibc", "Succeeded")

    assert real_cluster.kubectl("logs", "small") == "hello\n"
    assert "GNU bash" in real_cluster.kubectl("logs", "with-glibc")


def test_a_kubelet_comes_back_on_a_new_socket(real_cluster: Cluster):
    socket = real_cluster.node().device_plugins / "kubelet.sock"
    before = socket.stat().st_ctime_ns

    real_cluster.restart_kubelet()

    assert socket.stat().st_ctime_ns != before
    real_cluster.apply(pod("after-restart"))
    real_cluster.wait_for_phase("after-restart", "Succeeded")


def test_the_node_offers_its_sockets_to_a_daemon_on_the_host(real_cluster: Cluster):
    node = real_cluster.node()

    assert node.pod_resources_socket.is_socket()
    assert node.pods_api_socket.is_socket()
    assert node.containerd_socket.is_socket()
    assert node.cdi.is_dir()


def test_the_scheduler_takes_another_configuration(real_cluster: Cluster):
    real_cluster.apply(pod("patient", scheduler="second-scheduler"))

    real_cluster.restart_scheduler(PROFILE)

    real_cluster.wait_for_phase("patient", "Succeeded")
    real_cluster.restart_scheduler()


def test_a_token_made_for_a_node_names_it(real_cluster: Cluster):
    real_cluster.kubectl("create", "serviceaccount", "replica")

    kubeconfig = real_cluster.token_kubeconfig("replica", namespace="default", node="node-1")

    said = json.loads(real_cluster.kubectl("auth", "whoami", "-o", "json", kubeconfig=kubeconfig))
    user = said["status"]["userInfo"]
    assert user["username"] == "system:serviceaccount:default:replica"
    assert user["extra"]["authentication.kubernetes.io/node-name"] == ["node-1"]


def test_a_wait_in_vain_says_what_it_saw(real_cluster: Cluster):
    with pytest.raises(AssertionError, match=r"gave up on nodes .*node-1"):
        real_cluster.wait_for(
            "nodes", lambda nodes: "node-9" in nodes, namespace=None, timeout_s=0.5
        )


def test_what_is_there_already_is_not_waited_for(real_cluster: Cluster):
    nobody = real_cluster.wait_for(
        "pods", lambda pods: not pods, namespace="kube-public", timeout_s=5
    )

    assert nobody
