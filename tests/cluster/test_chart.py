"""The chart on a real API server: what it takes, and what its policies keep replicas from.

The nodes are Node objects without a machine, so that no daemon is started: `leader` and `second`
may lead, `worker` may not. A replica is a ServiceAccount token bound to one of them.
"""

import base64
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hamid.model.names import LEASE_CANDIDATE, POD_ROOM_FREED
from tests.cluster.harness import Cluster, helm, skipped_without_cluster
from tests.cluster.stand import merged
from tests.deploy.rendering import CHART, NAMESPACE, render, run_helm

NODES = """
apiVersion: v1
kind: Node
metadata: {name: leader, labels: {node-role.kubernetes.io/control-plane: ""}}
---
apiVersion: v1
kind: Node
metadata: {name: second, labels: {node-role.kubernetes.io/control-plane: ""}}
---
apiVersion: v1
kind: Node
metadata: {name: worker}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}, annotations: {annotations}}}
spec:
  schedulerName: nobody
  terminationGracePeriodSeconds: 0
  initContainers: [{{name: first, image: none, resources: {{requests: {first}, limits: {first}}}}}]
  containers: [{{name: main, image: none, resources: {{limits: {limits}}}}}]
"""
CANDIDATE: dict[str, object] = {"metadata": {"labels": {LEASE_CANDIDATE: ""}}}
DRY_RUN = "--dry-run=server"
FILL_HOOK = (
    "patch",
    "mutatingwebhookconfiguration",
    "hamid",
    "-p",
    '{"metadata": {"labels": {"a": "b"}}}',
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A daemon's rights, with the token that it would have on this node.

    Attributes:
        options: of every kubectl.
    """

    cluster: Cluster
    node: str | None
    kubeconfig: Path
    options: tuple[str, ...] = ()

    def can(self, *arguments: str, stdin: str | None = None) -> str:
        """Do it and return nothing, or return what the API server says against it."""
        done = self.cluster.try_kubectl(
            *arguments, *self.options, stdin=stdin, kubeconfig=self.kubeconfig
        )
        return "" if done.returncode == 0 else done.stderr

    def bind(self, pod: str, node: str) -> str:
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = f"/api/v1/namespaces/default/pods/{pod}/binding"
        return self.can("create", "--raw", path, "-f", "-", stdin=json.dumps(binding))

    def fill_secret(self, name: str = "hamid-tls", *, is_dry_run: bool = False) -> str:
        """As the leader does: a replica may not patch it, nor read that of kube-scheduler."""
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "data": {"a": "YQ=="},
        }
        path = f"/api/v1/namespaces/{NAMESPACE}/secrets/{name}"
        return self._replace(path, secret, is_dry_run=is_dry_run)

    def create_lease(self, name: str) -> str:
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"holderIdentity": f"{self.node}_1"},
        }
        return self.can("create", "-f", "-", stdin=json.dumps(lease))

    def take_lease(self, *, is_dry_run: bool = False, **spec: object) -> str:
        """As one does who does not hold it."""
        return self._change_lease(CANDIDATE | {"spec": spec}, is_dry_run=is_dry_run)

    def change_lease(self, **spec: object) -> str:
        """As one does who holds it."""
        return self._change_lease({"spec": spec})

    def sign_up(self) -> str:
        signed = {"metadata": {"annotations": {"standbys": str(self.node)}}}
        return self._change_lease(merged(CANDIDATE, signed))

    def _change_lease(self, change: dict[str, object], *, is_dry_run: bool = False) -> str:
        """As replicas do, which may not patch it."""
        lease = self.cluster.get("lease", "hamid", namespace=NAMESPACE)
        lease["metadata"].get("labels", {}).pop(LEASE_CANDIDATE, None)
        lease = merged(lease, change)
        path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/hamid"
        return self._replace(path, lease, is_dry_run=is_dry_run)

    def _replace(self, path: str, item: dict[str, object], *, is_dry_run: bool) -> str:
        query = "?dryRun=All" if is_dry_run else ""
        return self.can("replace", "--raw", path + query, "-f", "-", stdin=json.dumps(item))


@pytest.fixture(scope="module")
def cluster(real_cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with the chart installed and its policies in force."""
    with skipped_without_cluster():
        helm()
    real_cluster.apply(NODES)
    try:
        run_release(real_cluster, "install", "--create-namespace")
        wait_until_in_force(real_cluster)
        yield real_cluster
    finally:
        run_release(real_cluster, "uninstall", "--wait")
        real_cluster.try_kubectl("delete", "-f", "-", stdin=NODES)
        real_cluster.try_kubectl("delete", "namespace", NAMESPACE)


def run_release(cluster: Cluster, verb: str, *options: str) -> str:
    """helm's install, upgrade or uninstall; no pods, for there are no images to run."""
    what = [] if verb == "uninstall" else [str(CHART), "--set", "scheduler.replicas=0"]
    where = ("--namespace", NAMESPACE, "--kubeconfig", str(cluster.kubeconfig))
    return run_helm(verb, "hamid", *what, *where, *options)


def until(refusal: str, attempt: Callable[[], str]) -> None:
    """Until the API server refuses the attempt with these words; with none, until it lets it pass.

    It takes a second or more to go by a new policy, or by another holder of the lease, and a moment
    for a role. Where several policies refuse, it says what one of them says.
    """
    limit = time.monotonic() + 30
    while True:
        said = attempt()
        if refusal in said if refusal else not said:
            return
        assert time.monotonic() < limit, f"not {refusal!r}, but: {said}"


def wait_until_in_force(cluster: Cluster) -> None:
    """Until each policy refuses, and the webhook is asked."""
    worker, nobody = replica(cluster, "worker"), replica(cluster, None)
    admin = administrator(cluster)
    apply = ("apply", DRY_RUN, "-f", "-")
    asking = pod("asks", limits="{nvidia.com/gpu: 1}")
    until("may not write node", lambda: worker.can("annotate", "node", "leader", "a=b", DRY_RUN))
    until("may not lead", lambda: worker.take_lease(holderIdentity="worker_1", is_dry_run=True))
    until("names no node", lambda: nobody.take_lease(holderIdentity="x_1", is_dry_run=True))
    until("does not lead", lambda: worker.fill_secret(is_dry_run=True))
    until("failed calling webhook", lambda: admin.can(*apply, stdin=asking))


def administrator(cluster: Cluster, *options: str) -> Replica:
    """Who is no replica, and may do everything."""
    return Replica(cluster=cluster, node=None, kubeconfig=cluster.kubeconfig, options=options)


def replica(cluster: Cluster, node: str | None) -> Replica:
    return Replica(
        cluster=cluster,
        node=node,
        kubeconfig=cluster.token_kubeconfig("hamid", namespace=NAMESPACE, node=node),
    )


@pytest.fixture(scope="module")
def leader(cluster: Cluster) -> Replica:
    return replica(cluster, "leader")


@pytest.fixture(scope="module")
def worker(cluster: Cluster) -> Replica:
    return replica(cluster, "worker")


def pod(name, *, annotations="{}", limits="{}", first="{}"):
    return POD.format(name=name, annotations=annotations, limits=limits, first=first)


@pytest.mark.parametrize(
    "values",
    [
        ("scheduler.replicas=2",),
        ("scheduler.service.type=NodePort", "devicePlugin.service.type=NodePort"),
        ("devicePlugin.securityContext.privileged=true", "devicePlugin.hostPID=true"),
        ("devicePlugin.securityContext.privileged=true", "devicePlugin.enabled=false"),
        ("scheduler.wakeWaitingPods=false", "devicePlugin.updateStrategy.type=OnDelete"),
        ("devicePlugin.runtimeClassName=nvidia", "devicePlugin.hostNetwork=true"),
    ],
    ids=" ".join,
)
def test_the_api_server_takes_every_object(cluster: Cluster, values: tuple[str, ...]):
    # Under a name of their own: those that are there would lend them what they lack.
    chart = render(*(f"--set={value}" for value in ("fullnameOverride=new", *values)))

    said = cluster.kubectl("apply", DRY_RUN, "--validate=strict", "-f", "-", stdin=chart)

    assert "mutatingwebhookconfiguration.admissionregistration.k8s.io/new created" in said


def test_the_policies_are_sound_by_their_types(cluster: Cluster):
    def checked(policies):
        ours = [item for name, item in policies.items() if name.startswith("hamid")]
        known = [item["status"] for item in ours if "typeChecking" in item.get("status", {})]
        return known if len(known) == 5 else None

    found = cluster.wait_for(
        "validatingadmissionpolicies.admissionregistration.k8s.io", checked, namespace=None
    )

    assert [status["typeChecking"] for status in found] == [{}] * 5


def test_a_replica_annotates_its_own_node(worker: Replica):
    assert not worker.can("annotate", "node", "worker", "hami.io/node-nvidia-register=[]")


def test_a_replica_writes_no_other_node(leader: Replica, worker: Replica):
    refusal = 'the replica on node "worker" may not write node "leader"'
    assert refusal in worker.can("annotate", "node", "leader", "hami.io/node-nvidia-register=[]")
    assert "may not write node" in leader.can("annotate", "node", "worker", "a=b")


def test_a_replica_changes_nothing_of_its_node_but_annotations(worker: Replica):
    refusal = "a replica may change nothing but annotations"

    assert refusal in worker.can(
        "label", "node", "worker", "node-role.kubernetes.io/control-plane="
    )
    assert refusal in worker.can("taint", "node", "worker", "a:NoSchedule")
    assert refusal in worker.can(
        "patch", "node", "worker", "-p", '{"spec": {"unschedulable": true}}'
    )
    assert "cannot delete" in worker.can("delete", "node", "worker")


def test_a_replica_that_gives_slices_annotates_pods_of_its_own_node(
    cluster: Cluster, leader: Replica, worker: Replica, unbound: str
):
    note = ("annotate", "pod", unbound, "-n", "default", "hamid.io/allocation=x")
    without = ("--set", "scheduler.wakeWaitingPods=false")
    run_release(cluster, "upgrade", *without)
    until("cannot patch", lambda: worker.can(*note))
    run_release(cluster, "upgrade", *without, "--set", "devicePlugin.undecidedPods=slice")

    until('node "worker" may not write a pod on node ""', lambda: worker.can(*note))
    assert not administrator(cluster).bind(unbound, "worker")
    assert 'node "leader" may not write a pod on node "worker"' in leader.can(*note)
    assert not worker.can(*note)
    assert "nothing but annotations" in worker.can("label", "pod", unbound, "-n", "default", "a=b")
    run_release(cluster, "upgrade")


@pytest.fixture
def lease(cluster: Cluster, leader: Replica, worker: Replica) -> Iterator[None]:
    """The lease, held by `leader`, as the API server's policies know by now."""
    assert not leader.take_lease(holderIdentity="leader_1")
    # Not that the leader is let through: it is as well where no lease is known.
    until('held by "leader_1"', lambda: worker.fill_secret(is_dry_run=True))
    yield
    nobody = '{"spec": {"holderIdentity": null}}'
    cluster.kubectl("patch", "lease", "hamid", "-n", NAMESPACE, "--type=merge", "-p", nobody)


@pytest.fixture
def unbound(cluster: Cluster) -> Iterator[str]:
    cluster.apply(pod("unbound"))
    yield "unbound"
    cluster.kubectl("delete", "pod", "unbound", "--force")


@pytest.mark.usefixtures("lease")
def test_only_the_leader_binds(cluster: Cluster, leader: Replica, worker: Replica, unbound: str):
    refusal = worker.bind(unbound, "worker")
    accepted = leader.bind(unbound, "worker")

    assert 'node "worker" does not lead: the lease is held by "leader_1"' in refusal
    assert not accepted
    assert cluster.get("pod", unbound)["spec"]["nodeName"] == "worker"


@pytest.mark.usefixtures("lease")
def test_only_the_leader_wakes_a_waiting_pod_and_changes_nothing_else_of_it(
    cluster: Cluster, leader: Replica, worker: Replica, unbound: str
):
    def note(*annotations: str) -> tuple[str, ...]:
        return ("annotate", "pod", unbound, "-n", "default", "--overwrite", *annotations)

    cluster.kubectl(*note("kept=1"))
    wake = note(f"{POD_ROOM_FREED}=now")
    # A chart without it may have been there before.
    until('node "worker" does not lead', lambda: worker.can(*wake, DRY_RUN))
    until("", lambda: leader.can(*wake, DRY_RUN))

    assert 'node "worker" does not lead' in worker.can(*wake)
    assert not leader.can(*wake)
    assert not leader.can(*note(f"{POD_ROOM_FREED}=later"))
    refusal = 'may not write a pod on node ""'
    assert refusal in leader.can(*note("kept=2"))
    assert refusal in leader.can(*note("kept-"))
    assert refusal in leader.can(*note("another=1"))
    assert "nothing but annotations" in leader.can("label", "pod", unbound, "-n", "default", "a=b")
    assert not leader.bind(unbound, "worker")
    assert 'may not write a pod on node "worker"' in leader.can(*wake)
    assert not worker.can(*note("kept=3"))


@pytest.mark.usefixtures("lease")
def test_only_the_leader_evicts(cluster: Cluster, leader: Replica, worker: Replica, unbound: str):
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": unbound, "namespace": "default"},
        "deleteOptions": {"dryRun": ["All"]},
    }
    path = f"/api/v1/namespaces/default/pods/{unbound}/eviction"
    evict = ("create", "--raw", path, "-f", "-")

    assert 'node "worker" does not lead' in worker.can(*evict, stdin=json.dumps(eviction))
    assert not leader.can(*evict, stdin=json.dumps(eviction))


@pytest.mark.usefixtures("lease")
def test_a_leader_that_was_replaced_binds_no_more(cluster: Cluster, leader: Replica, unbound: str):
    second = replica(cluster, "second")

    assert not second.take_lease(holderIdentity="second_1")

    until('held by "second_1"', lambda: leader.fill_secret(is_dry_run=True))
    assert 'the replica on node "leader" does not lead' in leader.bind(unbound, "worker")
    assert not second.bind(unbound, "worker")


def test_while_nobody_leads_no_replica_binds(leader: Replica, unbound: str):
    until('does not lead: the lease is held by ""', lambda: leader.fill_secret(is_dry_run=True))

    assert 'does not lead: the lease is held by ""' in leader.bind(unbound, "worker")


def test_others_bind_as_before_even_when_the_lease_is_lost(cluster: Cluster, unbound: str):
    cluster.kubectl("delete", "lease", "hamid", "-n", NAMESPACE)

    assert not administrator(cluster).bind(unbound, "worker")

    run_release(cluster, "upgrade")
    assert cluster.get("lease", "hamid", namespace=NAMESPACE)


@pytest.mark.usefixtures("lease")
@pytest.mark.parametrize(
    "options",
    [
        pytest.param((), id="a token"),
        pytest.param((f"--as=system:serviceaccount:{NAMESPACE}:hamid",), id="nothing but a name"),
    ],
)
def test_who_names_no_node_does_nothing_of_the_leaders(
    cluster: Cluster, unbound: str, options: tuple[str, ...]
):
    nobody = administrator(cluster, *options) if options else replica(cluster, None)

    assert "does not lead" in nobody.bind(unbound, "leader")
    assert "names no node" in nobody.take_lease(holderIdentity="_1")
    assert "may not write node" in nobody.can("annotate", "node", "leader", "a=b")


@pytest.mark.usefixtures("lease")
def test_a_node_that_may_not_lead_leaves_the_lease_alone(leader: Replica, worker: Replica):
    refusal = 'the replica on node "worker" may not lead: the node lacks the label node-role'

    assert refusal in worker.take_lease(holderIdentity="worker_1")
    assert "Forbidden" in worker.change_lease(leaseDurationSeconds=3600)
    assert refusal in worker.sign_up()
    # A lease that has the label neither before nor after is not looked at: only the holder may do that.
    assert not leader.change_lease(renewTime="2026-01-01T00:00:00.000000Z")
    assert "labels it hamid.io/candidate" in worker.change_lease(holderIdentity="worker_1")


@pytest.mark.usefixtures("lease")
def test_a_replica_names_nobody_but_itself_the_leader(cluster: Cluster, leader: Replica):
    second = replica(cluster, "second")

    assert "may not write a lease held by" in leader.take_lease(holderIdentity="second_1")
    assert "may not write a lease held by" in second.take_lease(holderIdentity="leader_2")
    assert "may not write a lease held by" in second.change_lease(holderIdentity=None)
    assert "may not write a lease held by" in second.change_lease(leaseDurationSeconds=3600)
    assert "may not write a lease held by" in second.take_lease(holderIdentity="second1_1")


@pytest.mark.usefixtures("lease")
def test_a_lease_is_renewed_watched_released_and_taken(cluster: Cluster, leader: Replica):
    second = replica(cluster, "second")

    assert not leader.change_lease(renewTime="2026-01-01T00:00:00.000000Z")
    assert not second.sign_up()
    assert not leader.change_lease(holderIdentity="")
    assert not second.take_lease(holderIdentity="second_1", leaseTransitions=1)


@pytest.mark.usefixtures("lease")
def test_a_leader_whose_node_may_lead_no_more_still_lets_go_of_the_lease(
    cluster: Cluster, leader: Replica
):
    label = "node-role.kubernetes.io/control-plane"
    cluster.kubectl("label", "node", "leader", f"{label}-")
    try:
        until(
            "may not lead",
            lambda: leader.take_lease(holderIdentity="leader_another", is_dry_run=True),
        )
        assert not leader.change_lease(renewTime="2026-01-01T00:00:00.000000Z")
        assert not leader.change_lease(holderIdentity="")
    finally:
        cluster.kubectl("label", "node", "leader", f"{label}=")
        until("", lambda: leader.take_lease(holderIdentity="leader_another", is_dry_run=True))


def test_only_the_objects_of_the_chart_are_for_a_replica_to_make(leader: Replica):
    assert "may write no lease but hamid" in leader.create_lease("another")


@pytest.mark.usefixtures("lease")
def test_only_the_leader_fills_the_secrets_and_the_webhook(leader: Replica, worker: Replica):
    assert "does not lead" in worker.fill_secret()
    assert "does not lead" in worker.can(*FILL_HOOK)
    assert not leader.fill_secret()
    assert not leader.fill_secret("hamid-scheduler-client")
    assert not leader.can(*FILL_HOOK)


@pytest.mark.usefixtures("lease")
def test_only_the_leader_says_where_the_extender_is(
    cluster: Cluster, leader: Replica, worker: Replica
):
    def slice_named(name):
        return json.dumps(
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {"name": name, "namespace": NAMESPACE},
                "addressType": "IPv4",
                "endpoints": [],
            }
        )

    assert "does not lead" in worker.can("create", "-f", "-", stdin=slice_named("hamid-scheduler"))
    assert "no EndpointSlice but hamid-scheduler" in leader.can(
        "create", "-f", "-", stdin=slice_named("another")
    )
    assert not leader.can("create", "-f", "-", stdin=slice_named("hamid-scheduler"))
    assert not leader.can("delete", "endpointslice", "hamid-scheduler", "-n", NAMESPACE)


@pytest.mark.parametrize(
    "what",
    [
        ("get", "secrets/any", "-n", NAMESPACE),
        ("list", "secrets", "-n", NAMESPACE),
        ("patch", "secrets/hamid-tls", "-n", NAMESPACE),
        ("get", "secrets/hamid-scheduler-client", "-n", NAMESPACE),
        ("patch", "secrets/hamid-scheduler-client", "-n", NAMESPACE),
        ("patch", "leases/hamid", "-n", NAMESPACE),
        ("delete", "leases/hamid", "-n", NAMESPACE),
        ("patch", "endpointslices/hamid-scheduler", "-n", NAMESPACE),
        ("create", "pods"),
        ("update", "pods"),
        ("delete", "pods"),
        ("patch", "pods", "--subresource=status"),
        ("delete", "nodes"),
        ("patch", "nodes", "--subresource=status"),
        ("get", "configmaps", "-n", "kube-system"),
        ("list", "namespaces"),
        ("patch", "mutatingwebhookconfigurations/another"),
        ("update", "leases", "-n", "kube-system"),
    ],
    ids=" ".join,
)
def test_a_replica_has_no_right_to(leader: Replica, what):
    assert leader.cluster.try_kubectl(
        "auth", "can-i", *what, kubeconfig=leader.kubeconfig
    ).stdout == ("no\n")


def test_the_webhook_is_asked_about_no_pod_that_is_not_ours(cluster: Cluster):
    cluster.apply(pod("plain", annotations="{nvidia.com/use-gputype: A100}", limits="{cpu: 1}"))
    cluster.kubectl("annotate", "pod", "plain", "a=b")

    cluster.kubectl("delete", "pod", "plain", "--force")


@pytest.mark.parametrize(
    "manifest",
    [
        pod("asks", limits="{nvidia.com/gpu: 1}"),
        pod("asks", limits="{nvidia.com/gpumem: 3000}"),
        pod("forges", annotations="{hami.io/vgpu-node: worker}"),
        pod("forges", annotations="{hamid.io/allocation: x}"),
        pod("asks-first", first="{nvidia.com/gpu: 1}"),
    ],
    ids=["by count", "by memory", "forged record", "forged allocation", "init container"],
)
def test_without_the_webhook_no_pod_of_ours_gets_in(cluster: Cluster, manifest):
    done = cluster.try_kubectl("apply", "-f", "-", stdin=manifest)

    assert 'failed calling webhook "pods.hamid.io"' in done.stderr


def test_a_change_of_our_records_goes_to_the_webhook(cluster: Cluster):
    cluster.apply(pod("changed"))

    done = cluster.try_kubectl("annotate", "pod", "changed", "hamid.io/allocation=mine")

    assert 'failed calling webhook "pods.hamid.io"' in done.stderr
    cluster.kubectl("delete", "pod", "changed", "--force")


def ignored(manifest):
    return manifest.replace("metadata: {", "metadata: {labels: {hami.io/webhook: ignore}, ")


def test_who_is_labelled_to_be_ignored_is_but_for_records(cluster: Cluster):
    cluster.apply(ignored(pod("ignored", limits="{nvidia.com/gpu: 1}")))

    forged = ignored(pod("forged", annotations="{hami.io/vgpu-node: worker}"))
    created = cluster.try_kubectl("apply", "-f", "-", stdin=forged)
    changed = cluster.try_kubectl("annotate", "pod", "ignored", "hamid.io/allocation=mine")

    assert 'failed calling webhook "pods.hamid.io"' in created.stderr
    assert 'failed calling webhook "pods.hamid.io"' in changed.stderr
    cluster.kubectl("delete", "pod", "ignored", "--force")


def test_a_namespace_that_the_webhook_leaves_alone_is_no_place_to_forge_records(cluster: Cluster):
    cluster.kubectl("create", "namespace", "alone")
    cluster.kubectl("label", "namespace", "alone", "hami.io/webhook=ignore")
    there = ("-n", "alone")
    said = "only the scheduler writes the annotation"
    cluster.kubectl("apply", *there, "-f", "-", stdin=pod("plain"))

    forged = pod("forged", annotations="{hami.io/vgpu-devices-allocated: x}")
    created = cluster.try_kubectl("apply", *there, "-f", "-", stdin=forged)
    changed = cluster.try_kubectl("annotate", *there, "pod", "plain", "hamid.io/allocation=mine")
    cluster.kubectl("annotate", *there, "pod", "plain", "hami.io/gpu-scheduler-policy=spread")
    status = ("patch", *there, "pod", "plain", "--subresource=status", "-p")
    record = '"metadata": {"annotations": {"hamid.io/allocation": "mine"}}'
    by_status = cluster.try_kubectl(*status, f'{{"status": {{"reason": "a"}}, {record}}}')
    cluster.kubectl(*status, '{"status": {"reason": "a"}}')

    assert said in created.stderr
    assert said in changed.stderr
    assert said in by_status.stderr
    cluster.kubectl("delete", "namespace", "alone", "--wait=false")


@pytest.mark.usefixtures("lease")
def test_an_upgrade_leaves_alone_what_the_leader_has_written(cluster: Cluster, leader: Replica):
    assert not leader.fill_secret()
    bundle = '[{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": "%s"}]'
    authority = base64.b64encode(cluster.ca_file.read_bytes()).decode()
    hook = ("mutatingwebhookconfiguration", "hamid")
    assert not leader.can("patch", *hook, "--type=json", "-p", bundle % authority)

    run_release(cluster, "upgrade", "--set", "scheduler.admissionWebhook.timeoutSeconds=7")

    upgraded = cluster.get(*hook)["webhooks"][0]
    assert upgraded["timeoutSeconds"] == 7
    assert upgraded["clientConfig"]["caBundle"] == authority
    assert cluster.get("secret", "hamid-tls", namespace=NAMESPACE)["data"] == {"a": "YQ=="}


def test_the_notes_say_when_nobody_may_lead(cluster: Cluster):
    label = "scheduler.leaders.nodeLabel=node-restriction.kubernetes.io/nobody"
    value = "scheduler.leaders.nodeLabelValue=nobody"

    assert "WARNING" not in run_release(cluster, "upgrade", DRY_RUN)
    for chosen in (label, value):
        assert "no replica may lead" in run_release(cluster, "upgrade", DRY_RUN, "--set", chosen)
