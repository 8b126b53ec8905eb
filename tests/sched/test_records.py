import pytest

from hamid.model import names as wire
from hamid.model.names import ResourceNames
from hamid.model.request import RequestDefaults
from hamid.sched.records import read_node, read_pod
from tests.builders import container_object, node_object, pod_object
from tests.sched.objects import bound, initialized, registered, waiting


def read(pod):
    return read_pod(pod, names=ResourceNames(), defaults=RequestDefaults())


def test_a_waiting_pod_has_its_request():
    record = read(waiting(mib=3_000))

    assert record.request.requests[0].memory.mib == 3_000
    assert record.allocation is None
    assert record.is_worth_keeping


def test_a_pod_that_asks_for_nothing_is_kept_while_it_waits():
    record = read(pod_object(container_object("main")))

    assert record.request is None
    assert record.is_worth_keeping


@pytest.mark.parametrize(
    "rules",
    [
        {"nodeSelector": {"zone": "a"}},
        {"affinity": {"nodeAffinity": {}}},
        {"tolerations": [{"operator": "Exists"}]},
        {"topologySpreadConstraints": [{"maxSkew": 1}]},
    ],
)
def test_a_waiting_pod_says_what_its_spec_says_of_nodes(rules):
    plain, ruled, alike = (
        read(waiting()),
        read(waiting("u2", **rules)),
        read(waiting("u3", **rules)),
    )

    assert plain.node_rules != ruled.node_rules
    assert alike.node_rules is ruled.node_rules
    assert read(bound(**rules)).node_rules == ""


def test_a_pod_says_who_is_to_place_it():
    assert read(waiting(schedulerName="volcano")).scheduler_name == "volcano"
    assert read(waiting()).scheduler_name == ""


def test_a_bound_pod_has_its_allocation_and_no_request():
    record = read(bound())

    assert record.request is None
    assert record.allocation.node_name == "node-a"


def test_a_bound_pod_without_devices_is_not_worth_keeping():
    assert not read(pod_object(container_object("main"), node_name="node-a")).is_worth_keeping


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_an_ended_pod_holds_nothing(phase):
    record = read(bound(phase=phase))

    assert record.is_ended
    assert record.allocation is None
    assert not record.is_worth_keeping


def test_an_allocation_that_is_another_pods_is_a_problem():
    pod = bound()
    pod["metadata"]["uid"] = "uid-2"

    record = read(pod)

    assert record.allocation is None
    assert "uid-1" in record.problem
    assert record.is_worth_keeping


def test_a_request_that_cannot_be_is_a_problem():
    record = read(pod_object(container_object("main", {"gpu": 1, "gpumem": "3Ki"})))

    assert record.request is None
    assert "gpumem" in record.problem


def test_a_problem_is_of_bounded_length_however_much_is_wrong():
    """It is said of each of a thousand nodes, and a pod may come past the webhook."""
    containers = [container_object(f"c{n}", {"gpu": 1, "gpumem": "3Ki"}) for n in range(1_000)]

    assert len(read(pod_object(*containers)).problem) < 1_100


def test_the_record_of_hami_counts_where_ours_is_missing():
    pod = waiting(
        node_name="node-a",
        annotations={wire.POD_NODE: "node-a", wire.POD_ALLOCATED: "card-0,NVIDIA,700,30:;"},
    )

    (container,) = read(pod).allocation.containers

    assert container.shares[0].memory_mib == 700


def init_pod(*states):
    pod = bound(
        init_containers=[
            container_object("i1"),
            container_object("s1", restartPolicy="Always"),
        ]
    )
    pod["status"]["initContainerStatuses"] = [
        {"name": name, "state": state} for name, state in zip(("i1", "s1"), states, strict=True)
    ]
    return pod


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(bound(), False, id="a pod that has just been bound"),
        pytest.param(initialized(bound()), True, id="the condition says so"),
        pytest.param(
            init_pod({"running": {}}, {"waiting": {}}), False, id="an init container still runs"
        ),
        pytest.param(
            init_pod({"terminated": {"exitCode": 1}}, {}), False, id="an init container failed"
        ),
        pytest.param(
            init_pod({"terminated": {"exitCode": 0}}, {"running": {}}),
            True,
            id="sidecars do not have to end",
        ),
    ],
)
def test_when_the_init_phase_is_over(pod, expected):
    assert read(pod).is_initialized is expected


def test_a_node_says_what_it_registers_and_what_is_cordoned():
    note = read_node(registered(cordoned=["card-0"]), names=ResourceNames())

    assert "card-0" in note.inventory_text
    assert note.cordoned == {"card-0"}


def test_the_registration_under_the_old_name_is_read():
    note = read_node(node_object(annotations={wire.NODE_REGISTER_4PD: "x:"}), names=ResourceNames())

    assert note.inventory_text == "x:"


def test_a_node_without_annotations_registers_nothing():
    assert read_node({"metadata": {"name": "node-a"}}, names=ResourceNames()).inventory_text is None


def test_a_record_tells_what_matters_to_evict_it():
    pod = bound()
    pod["metadata"] |= {"labels": {"app": "web"}, "deletionTimestamp": "2026-01-01T00:00:20Z"}
    pod["spec"] |= {"priority": 3, "terminationGracePeriodSeconds": 0}
    pod["status"]["startTime"] = "2026-01-01T00:00:00Z"

    record = read(pod)

    assert (record.priority, record.grace_s, record.labels) == (3, 0, {"app": "web"})
    assert (record.started_at, record.leaves_at) == ("2026-01-01T00:00:00Z", "2026-01-01T00:00:20Z")
    assert not record.is_protected


def test_a_pod_that_waits_says_whether_others_may_be_evicted_for_it():
    assert read(waiting()).may_preempt
    patient = waiting()
    patient["spec"]["preemptionPolicy"] = "Never"
    assert not read(patient).may_preempt


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"metadata": {"namespace": "kube-system"}}, id="by its namespace"),
        pytest.param({"spec": {"priority": 2_000_001_000}}, id="by its priority"),
        pytest.param(
            {"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}},
            id="since it is its kubelet's own",
        ),
    ],
)
def test_a_pod_of_the_system_is_protected(changes):
    pod = waiting()
    for part, values in changes.items():
        pod[part] |= values

    assert read(pod).is_protected
