"""What the chart makes of its values and of the cluster's version."""

import re

import pytest
import yaml

from hamid.daemon.settings import Settings
from hamid.daemon.structure import structure
from hamid.model.names import (
    SCHEDULER_NAME,
    WEBHOOK_LABEL,
    WEBHOOK_LABEL_4PD,
    WRITTEN_BY_US,
    ResourceNames,
)
from hamid.sched.admission_settings import Policy
from hamid.sched.extender import PREFIX
from tests.cluster.harness import ClusterUnavailable, do_without, helm
from tests.deploy.rendering import CHART, ChartRefused, rendered, run_helm

# What every request and every object of the kinds that we look at has; anything else may be absent.
ALWAYS_THERE = {
    "request.operation",
    "request.resource.resource",
    "request.userInfo",
    "request.userInfo.username",
    "object.metadata",
    "oldObject.metadata",
    "object.spec.containers",
    "params.metadata.name",
}
FIELD_READ = re.compile(r"\b(?:request|object|oldObject|params|c)(?:\.[A-Za-z]\w*)+")


@pytest.fixture(autouse=True, scope="module")
def _helm_is_there():
    try:
        helm()
    except ClusterUnavailable as why:
        do_without(why)


def webhook(objects):
    return objects["MutatingWebhookConfiguration", "hamid"]["webhooks"][0]


def daemon(objects):
    return objects["DaemonSet", "hamid"]["spec"]["template"]["spec"]


def settings(objects):
    return yaml.safe_load(objects["ConfigMap", "hamid"]["data"]["config.yaml"])


def scheduler_configuration(objects):
    return yaml.safe_load(objects["ConfigMap", "hamid-kube-scheduler"]["data"]["config.yaml"])


def test_helm_finds_nothing_to_complain_about():
    assert "0 chart(s) failed" in run_helm("lint", "--strict", str(CHART))


@pytest.mark.parametrize(
    ("version", "api", "image"),
    [
        ("1.20.15", "v1beta1", "v1.20.15"),
        ("1.22.17", "v1beta2", "v1.22.17"),
        ("1.24.3-eks-a5565ad", "v1beta2", "v1.24.3"),
        ("1.25.0", "v1", "v1.25.0"),
        ("1.28.9-gke.1000", "v1", "v1.28.9"),
        ("1.37.2+k3s1", "v1", "v1.37.2"),
    ],
)
def test_kube_scheduler_and_its_configuration_are_those_of_the_cluster(version, api, image):
    objects = rendered(version=version)

    configuration = scheduler_configuration(objects)
    pod = objects["Deployment", "hamid-kube-scheduler"]["spec"]["template"]["spec"]
    assert configuration["apiVersion"] == f"kubescheduler.config.k8s.io/{api}"
    assert pod["containers"][0]["image"] == f"registry.k8s.io/kube-scheduler:{image}"


@pytest.mark.parametrize(
    ("version", "policy", "operations"),
    [
        ("1.20.15", "Ignore", ["CREATE"]),
        ("1.27.16", "Ignore", ["CREATE"]),
        ("1.28.0", "Fail", ["CREATE", "UPDATE"]),
        ("1.37.2", "Fail", ["CREATE", "UPDATE"]),
    ],
)
def test_the_webhook_fails_closed_where_it_is_asked_about_our_pods_only(
    version, policy, operations
):
    found = webhook(rendered(version=version))

    assert found["failurePolicy"] == policy
    assert found["rules"][0]["operations"] == operations
    assert ("matchConditions" in found) == (policy == "Fail")


@pytest.mark.parametrize(("version", "count"), [("1.20.15", 0), ("1.29.14", 0), ("1.30.0", 5)])
def test_policies_are_there_where_the_api_server_knows_them(version, count):
    objects = rendered(version=version)

    kinds = [kind for kind, _ in objects]
    assert kinds.count("ValidatingAdmissionPolicy") == count
    assert kinds.count("ValidatingAdmissionPolicyBinding") == count


def test_a_cluster_with_the_policies_switched_off_gets_none():
    objects = rendered("--api-versions", "v1/Pod")

    assert not [kind for kind, _ in objects if kind.startswith("ValidatingAdmission")]


def test_namespaces_that_are_left_alone_by_name_need_names_on_them():
    value = ("--set", "scheduler.admissionWebhook.whitelistNamespaces={kube-system}")
    by_name = {"operator": "NotIn", "values": ["kube-system"]}

    found = webhook(rendered(*value, version="1.21.0"))["namespaceSelector"]["matchExpressions"]

    assert {"key": "kubernetes.io/metadata.name", **by_name} in found
    with pytest.raises(ChartRefused, match=r"whitelistNamespaces needs Kubernetes 1\.21"):
        rendered(*value, version="1.20.15")


def test_a_cluster_older_than_daemon_set_surge_is_not_told_of_it():
    def update(version):
        return rendered(version=version)["DaemonSet", "hamid"]["spec"]["updateStrategy"]

    assert "maxSurge" not in update("1.20.15")["rollingUpdate"]
    assert update("1.37.2")["rollingUpdate"]["maxSurge"] == 0


def expressions(objects):
    """All CEL in the chart's objects."""
    for (kind, name), item in objects.items():
        if kind == "ValidatingAdmissionPolicy":
            spec = item["spec"]
            for part in ("matchConditions", "variables", "validations"):
                for each in spec.get(part, ()):
                    found = (each.get("expression"), each.get("messageExpression"))
                    yield from ((name, text) for text in found if text)
        if kind == "MutatingWebhookConfiguration":
            yield from ((name, each["expression"]) for each in webhook(objects)["matchConditions"])


@pytest.mark.parametrize("value", ["scheduler.wakeWaitingPods=true", "devicePlugin.enabled=false"])
def test_no_expression_stumbles_over_a_field_that_is_absent(value):
    """To read such a field is an error, by which the API server refuses the write."""
    found = list(expressions(rendered("--set", value)))

    unguarded = {
        (name, read)
        for name, text in found
        for read in FIELD_READ.findall(re.sub(r"'[^']*'", "''", text))
        if read not in ALWAYS_THERE and f"has({read})" not in text
    }
    assert len(found) > 20
    assert unguarded == set()


@pytest.mark.parametrize(
    "value",
    [
        "mluResourceName=x",
        "scheduler.nodeLockExpire=5m",
        "devicePlugin.hostIPC=true",
        "ports.https=1",
    ],
)
def test_an_unknown_value_is_an_error(value):
    with pytest.raises(ChartRefused, match="additional properties"):
        rendered("--set", value)


@pytest.mark.parametrize(
    "value",
    [
        "devicePlugin.deviceSplitCount=0",
        "devicePlugin.deviceMemoryScaling=0",
        "devicePlugin.contextMemoryMib=-1",
        "scheduler.defaultSchedulerPolicy.nodeSchedulerPolicy=pack",
        "resourceName=gpu",
        "devicePlugin.updateStrategy.rollingUpdate.maxUnavailable=0",
        "devicePlugin.updateStrategy.rollingUpdate.maxUnavailable=0%",
    ],
)
def test_a_value_out_of_range_is_an_error(value):
    with pytest.raises(ChartRefused, match="values don't meet the specifications"):
        rendered("--set", value)


def test_a_first_wait_that_is_longer_than_the_longest_is_an_error():
    with pytest.raises(ChartRefused, match="more than podMaxBackoffSeconds, 3"):
        rendered("--set", "scheduler.podInitialBackoffSeconds=5")


@pytest.mark.parametrize(
    "values",
    [
        (),
        ("devicePlugin.enabled=false", "legacyMetrics=true"),
        ("devicePlugin.deviceListStrategy=cdi-cri", "devicePlugin.deviceMemoryScaling=1.5"),
        ("scheduler.forceOverwriteDefaultScheduler=false", "devicePlugin.filterDevices.uuid={a,b}"),
    ],
)
def test_the_daemon_takes_the_settings_that_the_chart_makes(values):
    document = settings(rendered(*(f"--set={value}" for value in values)))

    made = structure({**document, "identity": {"node_name": "node-1"}}, Settings, where="chart")

    assert made.plugin.device_split_count == 10
    assert made.lease.name == "hamid"
    assert made.admission.own_usernames == ("system:serviceaccount:hamid-system:hamid",)


def test_values_of_old_charts_mean_what_they_meant():
    objects = rendered(
        *(f"--set={value}" for value in (
            "resourceName=example.com/gpu",
            "resourceMem=example.com/mem",
            "resourceMemPercentage=example.com/mem-percentage",
            "resourceCores=example.com/cores",
            "resourcePriority=example.com/priority",
            "schedulerName=hami-scheduler",
            "scheduler.kubeScheduler.imageTag=v1.16.8",
            "scheduler.defaultSchedulerPolicy.nodeSchedulerPolicy=spread",
            "scheduler.defaultSchedulerPolicy.gpuSchedulerPolicy=binpack\\,numa",
            "scheduler.service.type=NodePort",
            "devicePlugin.service.schedulerPort=31997",
            "devicePlugin.service.type=NodePort",
            "devicePlugin.deviceSplitCount=5",
            "devicePlugin.deviceMemoryScaling=1.5",
            "devicePlugin.contextMemoryMib=450",
            "devicePlugin.deviceCoreScaling=2",
            "devicePlugin.enableNumaTopology=true",
            "devicePlugin.filterDevices.uuid={GPU-a}",
            "devicePlugin.filterDevices.index={1}",
            "legacyMetrics=true",
            "scheduler.defaultMem=5000",
            "scheduler.defaultCores=10",
            "scheduler.defaultGPUNum=2",
        )),
        "--set-string=devicePlugin.nvidiaNodeSelector.gpu=yes",
    )  # fmt: skip

    found, configuration = settings(objects), scheduler_configuration(objects)
    names = ["gpu", "mem", "mem-percentage", "cores", "priority"]
    assert found["sched"]["resources"] == {
        key: f"example.com/{name}"
        for key, name in zip(
            ("count", "memory", "memory_percentage", "cores", "priority"), names, strict=True
        )
    }
    assert [item["name"] for item in configuration["extenders"][0]["managedResources"]] == [
        f"example.com/{name}" for name in names
    ]
    assert found["sched"]["node_policy"] == "spread"
    assert found["sched"]["device_policy"] == "binpack,numa"
    assert found["admission"]["scheduler_name"] == "hami-scheduler"
    assert found["plugin"]["device_split_count"] == 5
    assert found["plugin"]["device_memory_scaling"] == 1.5
    assert found["plugin"]["context_memory_mib"] == 450
    assert found["plugin"]["device_core_scaling"] == 2
    assert found["plugin"]["report_numa"] is True
    assert found["plugin"]["excluded_uuids"] == ["GPU-a"]
    assert found["plugin"]["excluded_indexes"] == [1]
    assert (found["hami_metrics"], found["hami_legacy_metrics"]) == (True, True)
    assert found["sched"]["defaults"] == {
        "device_count": 2,
        "memory_mib": 5000,
        "core_percent": 10,
    }
    assert configuration["profiles"] == [{"schedulerName": "hami-scheduler"}]
    pod = objects["Deployment", "hamid-kube-scheduler"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"].endswith(":v1.16.8")
    assert objects["Service", "hamid-scheduler"]["spec"]["ports"][0]["nodePort"] == 31997
    assert objects["Service", "hamid-metrics"]["spec"]["ports"][0]["nodePort"] == 31992


def test_the_older_name_of_the_node_selector_goes_before_the_newer_one():
    objects = rendered("--set-string", "devicePlugin.nvidianodeSelector.gpu=yes")

    affinity = daemon(objects)["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms[0]["matchExpressions"] == [{"key": "gpu", "operator": "In", "values": ["yes"]}]


def test_any_setting_of_the_daemon_can_be_given_and_goes_before_what_the_chart_makes():
    found = settings(rendered(
        "--set=settings.admission.privileged_user=warn",
        "--set=settings.web.body_limit_bytes=16777216",
        "--set=settings.plugin.device_split_count=3",
    ))  # fmt: skip

    made = structure({**found, "identity": {"node_name": "node-1"}}, Settings, where="chart")
    assert made.admission.privileged_user is Policy.WARN
    assert made.web.body_limit_bytes == 16_777_216
    assert made.plugin.device_split_count == 3
    assert made.plugin.device_memory_scaling == 1


def test_the_schedulers_service_selects_no_pods_for_the_leader_says_where_it_is():
    objects = rendered()

    assert "selector" not in objects["Service", "hamid-scheduler"]["spec"]
    assert "selector" in objects["Service", "hamid-webhook"]["spec"]


def test_the_old_node_port_of_the_scheduler_is_the_default():
    objects = rendered("--set", "scheduler.service.type=NodePort")

    assert objects["Service", "hamid-scheduler"]["spec"]["ports"][0]["nodePort"] == 31998


def test_kube_scheduler_shows_the_extender_every_node_and_only_our_pods():
    configuration = scheduler_configuration(rendered())

    (extender,) = configuration["extenders"]
    assert configuration["percentageOfNodesToScore"] == 100
    assert configuration["profiles"] == [{"schedulerName": SCHEDULER_NAME}]
    assert extender["nodeCacheCapable"]
    assert extender["weight"] == 1
    assert not extender["ignorable"]
    assert extender["urlPrefix"] == "https://hamid-scheduler.hamid-system.svc:443" + PREFIX
    assert extender["enableHTTPS"]
    assert "insecure" not in extender["tlsConfig"]
    assert extender["managedResources"] == [
        {"name": name, "ignoredByScheduler": True} for name in ResourceNames().all()
    ]


def test_the_webhook_asks_about_the_names_that_the_daemon_knows():
    found = webhook(rendered())

    condition = found["matchConditions"][1]["expression"]
    for name in (*ResourceNames().all(), *WRITTEN_BY_US):
        assert f"'{name}'" in condition
    for label in (WEBHOOK_LABEL, WEBHOOK_LABEL_4PD):
        opt_out = {"key": label, "operator": "NotIn", "values": ["ignore"]}
        assert opt_out in found["namespaceSelector"]["matchExpressions"]
        assert f"'{label}'" in condition
    assert not any(found["objectSelector"].values())  # a label hides no forged record


def test_records_are_guarded_wherever_pods_are_looked_at():
    policy = ("ValidatingAdmissionPolicy", "hamid-records")
    (is_no_replica, changes) = rendered()[policy]["spec"]["matchConditions"]
    assert all(f"'{record}'" in changes["expression"] for record in WRITTEN_BY_US)
    assert "system:serviceaccount:hamid-system:hamid" in is_no_replica["expression"]

    assert policy not in rendered("--set", "scheduler.admissionWebhook.enabled=false")


def rules(role):
    return {
        (group, resource, *rule.get("resourceNames", [])): tuple(rule["verbs"])
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def test_the_daemon_may_do_exactly_this():
    objects = rendered()

    assert rules(objects["ClusterRole", "hamid"]) == {
        ("", "nodes"): ("get", "list", "watch", "patch"),
        ("", "pods"): ("get", "list", "watch", "patch"),
        ("", "resourcequotas"): ("list", "watch"),
        ("", "pods/binding"): ("create",),
        ("policy", "poddisruptionbudgets"): ("list",),
        ("", "pods/eviction"): ("create",),
        ("", "events"): ("create", "patch"),
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "hamid"): (
            "get",
            "patch",
        ),
    }
    assert rules(objects["Role", "hamid"]) == {
        ("coordination.k8s.io", "leases"): ("create",),
        ("coordination.k8s.io", "leases", "hamid"): ("get", "update"),
        ("discovery.k8s.io", "endpointslices"): ("create",),
        ("discovery.k8s.io", "endpointslices", "hamid-scheduler"): ("get", "update", "delete"),
        ("", "services", "hamid-scheduler"): ("get",),
        ("", "endpoints", "hamid-scheduler"): ("get", "delete"),
        ("", "secrets", "hamid-tls"): ("get", "update"),
        ("", "secrets", "hamid-scheduler-client"): ("update",),
    }


def test_a_cluster_without_endpoint_slices_lets_it_write_endpoints():
    role = rules(rendered(version="1.20.15")["Role", "hamid"])

    assert role["", "endpoints"] == ("create",)
    assert role["", "endpoints", "hamid-scheduler"] == ("get", "update", "delete")


@pytest.mark.parametrize(
    ("values", "verbs"),
    [
        pytest.param((), ("get", "list", "watch"), id="neither"),
        pytest.param(
            ("--set", "scheduler.wakeWaitingPods=true"),
            ("get", "list", "watch", "patch"),
            id="to have waiting pods tried again",
        ),
        pytest.param(
            ("--set", "devicePlugin.undecidedPods=slice"),
            ("get", "list", "watch", "patch"),
            id="to record slices",
        ),
    ],
)
def test_a_daemon_may_annotate_pods_only_where_it_has_to(values, verbs):
    objects = rendered("--set", "scheduler.wakeWaitingPods=false", *values)

    assert rules(objects["ClusterRole", "hamid"])["", "pods"] == verbs


def test_a_daemon_may_write_statuses_of_nodes_only_where_it_states_amounts_in_them():
    on, off = rendered("--set", "devicePlugin.advertiseAmounts=true"), rendered()

    assert rules(on["ClusterRole", "hamid"])["", "nodes/status"] == ("patch",)
    assert ("", "nodes/status") not in rules(off["ClusterRole", "hamid"])
    assert settings(on)["plugin"]["advertise_amounts"] is True
    assert settings(off)["plugin"]["advertise_amounts"] is False


def test_a_replica_may_state_the_amounts_that_kube_scheduler_leaves_to_us_but_for_slots():
    objects = rendered("--set", "resourceMem=example.com/mem,devicePlugin.advertiseAmounts=true")

    (extender,) = scheduler_configuration(objects)["extenders"]
    managed = extender["managedResources"]
    assert all(resource["ignoredByScheduler"] for resource in managed)
    names = [resource["name"] for resource in managed]
    policy = objects["ValidatingAdmissionPolicy", "hamid-own-node"]["spec"]
    (statuses,) = (
        each["expression"] for each in policy["validations"] if "subResource" in each["expression"]
    )
    assert re.findall(r"'([a-z.]+/[a-z-]+)'", statuses) == names[1:]
    assert names[:2] == ["nvidia.com/gpu", "example.com/mem"]


def test_amounts_are_not_stated_where_no_webhook_writes_them_in_full():
    with pytest.raises(ChartRefused, match=r"needs scheduler\.admissionWebhook\.enabled"):
        rendered(
            "--set", "devicePlugin.advertiseAmounts=true,scheduler.admissionWebhook.enabled=false"
        )


def test_a_cluster_that_wants_nobody_evicted_gives_no_right_to_it():
    objects = rendered("--set", "scheduler.preemption=false")

    config = yaml.safe_load(objects["ConfigMap", "hamid"]["data"]["config.yaml"])
    assert config["sched"]["preempts"] is False
    assert ("", "pods/eviction") not in rules(objects["ClusterRole", "hamid"])


def test_a_cluster_that_wants_no_pods_woken_tells_the_daemon():
    config = rendered("--set", "scheduler.wakeWaitingPods=false")["ConfigMap", "hamid"]["data"]

    assert yaml.safe_load(config["config.yaml"])["sched"]["wakes_waiting_pods"] is False


def test_kube_scheduler_gets_the_roles_of_a_scheduler_and_its_own_lease_only_with_replicas():
    alone, several = rendered(), rendered("--set", "scheduler.replicas=2")

    assert ("Role", "hamid-kube-scheduler") not in alone
    assert not scheduler_configuration(alone)["leaderElection"]["leaderElect"]
    assert scheduler_configuration(several)["leaderElection"]["leaderElect"]
    assert rules(several["Role", "hamid-kube-scheduler"]) == {
        ("coordination.k8s.io", "leases"): ("create",),
        ("coordination.k8s.io", "leases", "hamid-kube-scheduler"): ("get", "update", "patch"),
    }


def test_the_daemon_is_root_without_any_of_its_powers():
    pod = daemon(rendered())

    context = pod["containers"][0]["securityContext"]
    assert context["runAsUser"] == 0
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["readOnlyRootFilesystem"]
    assert not context["allowPrivilegeEscalation"]
    assert not context.get("privileged")
    assert not pod.get("hostPID")
    assert not pod["hostNetwork"]


def test_a_daemon_that_is_to_see_the_containers_processes_gets_what_it_needs_for_that_alone():
    pod = daemon(rendered("--set", "devicePlugin.hostPID=true"))

    assert pod["hostPID"]
    assert pod["containers"][0]["securityContext"]["capabilities"] == {
        "drop": ["ALL"],
        "add": ["SYS_PTRACE"],
    }


def test_a_daemon_that_only_schedules_is_not_root_and_sees_nothing_of_the_node():
    pod = daemon(rendered("--set", "devicePlugin.enabled=false"))

    terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert pod["containers"][0]["securityContext"]["runAsNonRoot"]
    assert not [volume for volume in pod["volumes"] if "hostPath" in volume]
    assert len(terms["nodeSelectorTerms"]) == 1


def test_the_daemon_runs_where_gpus_are_and_where_it_may_lead():
    pod = daemon(
        rendered(
            "--set", "scheduler.leaders.nodeLabel=node-restriction.kubernetes.io/hamid",
            "--set", "scheduler.leaders.nodeLabelValue=lead",
        )
    )  # fmt: skip

    terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert [term["matchExpressions"] for term in terms["nodeSelectorTerms"]] == [
        [{"key": "gpu", "operator": "In", "values": ["on"]}],
        [
            {
                "key": "node-restriction.kubernetes.io/hamid",
                "operator": "In",
                "values": ["lead"],
            }
        ],
    ]


def test_a_driver_elsewhere_on_the_node_is_mounted():
    folder = "/home/kubernetes/bin/nvidia"
    pod = daemon(
        rendered(
            "--set", f"devicePlugin.extraVolumes[0].hostPath.path={folder}",
            "--set", "devicePlugin.extraVolumes[0].name=driver",
            "--set", f"devicePlugin.extraVolumeMounts[0].mountPath={folder}",
            "--set", "devicePlugin.extraVolumeMounts[0].name=driver",
            "--set", f"devicePlugin.extraEnvs.LD_LIBRARY_PATH={folder}/lib64",
        )
    )  # fmt: skip

    container = pod["containers"][0]
    assert {"name": "driver", "hostPath": {"path": folder}} in pod["volumes"]
    assert {"name": "driver", "mountPath": folder} in container["volumeMounts"]
    assert {"name": "LD_LIBRARY_PATH", "value": f"{folder}/lib64"} in container["env"]


@pytest.mark.parametrize("has_plugin", ["true", "false"])
def test_what_the_operator_wants_of_the_security_context_wins(has_plugin):
    values = ("devicePlugin.securityContext.privileged=true", f"devicePlugin.enabled={has_plugin}")
    pod = daemon(rendered(*(f"--set={value}" for value in values)))

    context = pod["containers"][0]["securityContext"]
    assert context["privileged"]
    # The API server refuses the two together.
    assert "allowPrivilegeEscalation" not in context


def test_another_release_name_leads_to_other_names_throughout():
    text = run_helm("template", "gpus", str(CHART), "--kube-version", "1.37.2")

    names = {item["metadata"]["name"] for item in yaml.safe_load_all(text) if item}
    assert all(name.startswith("gpus-hamid") for name in names)
    assert "system:serviceaccount:default:gpus-hamid" in text
