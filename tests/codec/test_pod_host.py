import pytest

from hamid.codec.pod_host import decode_node_host, decode_pod_host
from hamid.errors import RequestError
from hamid.model.node import NO_HOST, HostAmount


def container(cpu=None, memory=None, *, section="requests", **fields):
    amounts = {"cpu": cpu, "memory": memory}
    given = {k: v for k, v in amounts.items() if v}
    return {"name": "c", "resources": {section: given}, **fields}


def pod(*containers, init=(), **spec):
    return {"spec": {"containers": list(containers), "initContainers": list(init), **spec}}


@pytest.mark.parametrize(
    ("spec", "cpu_milli"),
    [
        pytest.param(pod(container("500m"), container("2")), 2_500, id="containers add up"),
        pytest.param(pod(container("1"), init=[container("3")]), 3_000, id="the init peak"),
        pytest.param(pod(container("2"), init=[container("1")]), 2_000, id="or the app sum"),
        pytest.param(
            pod(container("1"), init=[container("1", restartPolicy="Always"), container("3")]),
            4_000,
            id="a sidecar runs beside later init containers",
        ),
        pytest.param(
            pod(container("2"), init=[container("3"), container("1", restartPolicy="Always")]),
            3_000,
            id="but not beside earlier ones",
        ),
        pytest.param(
            pod(container("1"), resources={"requests": {"cpu": "4"}}), 4_000, id="pod level"
        ),
        pytest.param(pod(container("1"), overhead={"cpu": "250m"}), 1_250, id="and overhead"),
        pytest.param(pod(container("1", section="limits")), 1_000, id="limits stand in"),
        pytest.param(pod(container("1u")), 1, id="parts of a thousandth round up"),
        pytest.param(pod(container("lots")), 0, id="what cannot be read is nothing"),
        pytest.param({}, 0, id="a pod without a spec"),
    ],
)
def test_what_a_pod_asks_of_processors(spec, cpu_milli):
    assert decode_pod_host(spec).cpu_milli == cpu_milli


@pytest.mark.parametrize(
    ("memory", "mib"), [("1Gi", 1_024), ("1", 1), ("1M", 1), ("1048577", 2), ("128974848", 123)]
)
def test_memory_is_bytes_and_rounds_up_to_mib(memory, mib):
    assert decode_pod_host(pod(container(memory=memory))).memory_mib == mib


def test_what_the_pod_as_a_whole_says_of_one_resource_leaves_the_other_to_its_containers():
    whole = {"requests": {"cpu": "4"}, "limits": {"cpu": "8"}}

    asked = decode_pod_host(pod(container("1", "2Gi"), container("1", "1Gi"), resources=whole))

    assert asked == HostAmount(cpu_milli=4_000, memory_mib=3_072)


def test_what_an_ephemeral_container_says_does_not_count():
    assert decode_pod_host(pod(container("1"), ephemeralContainers=[container("7")])) == HostAmount(
        cpu_milli=1_000
    )


def test_a_node_offers_what_is_allocatable():
    node = {"status": {"allocatable": {"cpu": "95500m", "memory": "1Gi", "pods": "110"}}}

    assert decode_node_host(node) == HostAmount(cpu_milli=95_500, memory_mib=1_024)


def test_a_node_that_does_not_say_is_not_known():
    assert decode_node_host({"status": {"allocatable": {"pods": "110"}}}) is None
    assert decode_node_host({}) is None
    assert decode_pod_host({"spec": {}}) == NO_HOST


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"resources": []}, "spec.resources is a list"),
        ({"resources": {"limits": "x"}}, "spec.resources.limits is a string"),
        ({"overhead": 1}, "spec.overhead is a number"),
    ],
)
def test_what_is_no_object_is_the_authors_error(spec, said):
    with pytest.raises(RequestError, match=said):
        decode_pod_host({"spec": spec})
