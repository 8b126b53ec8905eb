import pytest

from hamid.codec.pod import counted, has_ended, pod_containers, pod_meta
from hamid.errors import RequestError
from hamid.model.request import ContainerKind
from tests.builders import container_object, pod_object


def test_containers_come_in_the_order_init_app_ephemeral_with_their_kinds():
    pod = pod_object(
        container_object("app"),
        init_containers=[
            container_object("init"),
            container_object("sidecar", restartPolicy="Always"),
        ],
        ephemeralContainers=[container_object("debug")],
    )

    found = [(c.name, c.kind, c.list_name, c.index) for c in pod_containers(pod)]

    assert found == [
        ("init", ContainerKind.INIT, "initContainers", 0),
        ("sidecar", ContainerKind.SIDECAR, "initContainers", 1),
        ("app", ContainerKind.APP, "containers", 0),
        ("debug", None, "ephemeralContainers", 0),
    ]


def test_only_an_init_container_is_made_a_sidecar_by_its_restart_policy():
    pod = pod_object(container_object("app", restartPolicy="Always"))

    assert pod_containers(pod)[0].kind is ContainerKind.APP


@pytest.mark.parametrize(
    ("status", "is_ended"),
    [
        (None, False),
        ({}, False),
        ({"phase": "Pending"}, False),
        ({"phase": "Running"}, False),
        ({"phase": "Unknown"}, False),
        ({"phase": "Succeeded"}, True),
        ({"phase": "Failed"}, True),
    ],
)
def test_a_pod_has_ended_once_its_phase_says_so(status, is_ended):
    assert has_ended({"status": status}) is is_ended
    assert not has_ended({})


def test_who_a_pod_is():
    pod = pod_object(uid="u", name="n", namespace="s", node_name="node-1", annotations={"a": "b"})

    meta = pod_meta(pod)

    assert (meta.uid, meta.name, meta.namespace, meta.node_name) == ("u", "n", "s", "node-1")
    assert meta.annotations == {"a": "b"}


def test_a_pod_that_is_yet_to_be_named_goes_by_its_prefix():
    meta = pod_meta({"metadata": {"generateName": "train-"}})

    assert (meta.name, meta.uid, meta.namespace, meta.node_name) == ("train-", "", "", "")


@pytest.mark.parametrize(
    ("pod", "message"),
    [
        ({"spec": []}, "spec is a list, not an object"),
        ({"spec": {"containers": {}}}, r"spec.containers is an object, not a list"),
        ({"spec": {"containers": ["c"]}}, r"spec.containers\[0\] is a string, not an object"),
        ({"spec": {"containers": [{}]}}, r"spec.containers\[0\].name is null"),
        ({"spec": {"initContainers": [{"name": "i", "resources": 1}]}}, r"resources is a number"),
        (
            {"spec": {"containers": [{"name": "c", "resources": {"limits": []}}]}},
            r"spec.containers\[0\].resources.limits is a list",
        ),
    ],
)
def test_containers_of_another_shape_are_refused(pod, message):
    with pytest.raises(RequestError, match=message):
        pod_containers(pod)


@pytest.mark.parametrize(
    ("pod", "message"),
    [
        ({"metadata": "m"}, "metadata is a string"),
        ({"metadata": {"uid": 1}}, "metadata.uid is a number"),
        ({"metadata": {"annotations": {"a": 1}}}, "annotation a is not a string"),
        ({"spec": {"nodeName": []}}, "spec.nodeName is a list"),
    ],
)
def test_an_identity_of_another_shape_is_refused(pod, message):
    with pytest.raises(RequestError, match=message):
        pod_meta(pod)


@pytest.mark.parametrize(
    ("limits", "count"),
    [
        ({"gpu": 2}, 2),
        ({"gpu": "2"}, 2),
        ({"gpu": "2.0"}, 2),
        ({"gpu": "1e0"}, 1),
        ({"gpu": "1000m"}, 1),
        ({"gpu": "0"}, 0),
        ({"gpu": "-1"}, 0),
        ({"gpu": "many"}, 0),
        ({"gpumem": 3}, 0),
    ],
)
def test_a_container_has_as_many_as_the_kubelet_counts_however_they_are_written(limits, count):
    (container,) = pod_containers(pod_object(container_object("app", limits)))

    assert counted(container, "nvidia.com/gpu") == count


def test_the_kubelet_reads_limits_only():
    (container,) = pod_containers(pod_object(container_object("app", requests={"gpu": 1})))

    assert counted(container, "nvidia.com/gpu") == 0
