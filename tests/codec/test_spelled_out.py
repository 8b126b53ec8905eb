import pytest

from hamid.codec.admission import limits_patch, patch_object
from hamid.codec.pod_amounts import decode_pod_amounts
from hamid.codec.pod_request import decode_pod_request, required_limits
from hamid.codec.spelled_out import spelled_out
from hamid.kube.fake.patches import json_patched
from hamid.model.names import ResourceNames
from hamid.model.request import RequestDefaults
from tests.builders import container_object, pod_object

NAMES = ResourceNames()
PREFIX = "nvidia.com/"


def fixes(pod, defaults):
    request = decode_pod_request(pod, names=NAMES, defaults=defaults)
    return (*required_limits(pod, NAMES, defaults), *spelled_out(pod, request, NAMES))


def written(pod, defaults=None):
    """The pod after the webhook, which by it asks for the same, and needs nothing more."""
    defaults = defaults or RequestDefaults()
    ops = [patch_object(op) for op in limits_patch(pod, fixes(pod, defaults))]
    after = json_patched(pod, ops)
    assert fixes(after, defaults) == ()
    decoded = [decode_pod_request(each, names=NAMES, defaults=defaults) for each in (pod, after)]
    assert decoded[0] == decoded[1]
    return after


def stated(pod):
    resources = pod["spec"]["containers"][0]["resources"]
    assert resources["limits"] == resources["requests"]
    return {name.removeprefix(PREFIX): str(value) for name, value in resources["limits"].items()}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param(
            {"gpu": 1},
            {"gpu": "1", "gpumem-percentage": "100", "gpucores": "100"},
            id="a whole card",
        ),
        pytest.param(
            {"gpu": 2, "gpumem": "16Gi"}, {"gpu": "2", "gpumem": "16384"}, id="bytes become MiB"
        ),
        pytest.param({"gpumem": "3k"}, {"gpu": "1", "gpumem": "3k"}, id="a number stays"),
        pytest.param(
            {"gpu": 1, "gpumem": 3000, "gpumem-percentage": 50},
            {"gpu": "1", "gpumem": "3000"},
            id="a percentage without effect is taken out",
        ),
        pytest.param(
            {"gpumem-percentage": 50, "gpucores": 0},
            {"gpu": "1", "gpumem-percentage": "50", "gpucores": "0"},
            id="no cores are no cores",
        ),
        pytest.param({"gpu": 0}, {"gpu": "0"}, id="no card"),
    ],
)
@pytest.mark.parametrize("sections", [("limits",), ("requests",), ("limits", "requests")])
def test_amounts_are_written_in_full(asked, expected, sections):
    limits, requests = (asked if name in sections else None for name in ("limits", "requests"))
    pod = pod_object(
        container_object("train", limits, requests=requests), container_object("other", {"gpu": 1})
    )

    assert stated(written(pod)) == expected


def test_what_follows_from_the_operators_defaults_is_written():
    pod = pod_object(container_object("train", {"gpu": 1}))
    defaults = RequestDefaults(memory_mib=5_000, core_percent=30)

    assert stated(written(pod, defaults)) == {"gpu": "1", "gpumem": "5000", "gpucores": "30"}


def test_init_containers_are_written_in_full_and_others_left_alone():
    first = container_object("first", {"gpumem": "1Gi"})
    pod = pod_object(
        container_object("train", {"gpu": 1}), container_object("web"), init_containers=[first]
    )

    after = written(pod)

    assert decode_pod_amounts(after, names=NAMES).memory_mib == 1024
    assert after["spec"]["containers"][1] == container_object("web")
