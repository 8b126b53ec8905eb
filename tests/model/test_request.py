import pytest

from hamid.errors import SettingsError
from hamid.model.request import DeviceSelection, RequestDefaults
from tests.builders import make_pod, make_request


@pytest.mark.parametrize(("cores", "is_exclusive"), [(0, False), (99, False), (100, True)])
def test_a_request_for_all_cores_wants_its_devices_alone(cores, is_exclusive):
    assert make_request(core_percent=cores).is_exclusive is is_exclusive


def test_a_pod_is_named_by_namespace_and_name():
    assert make_pod(namespace="team-a", pod_name="train-0").pod_key == "team-a/train-0"


def test_pods_that_ask_for_the_same_are_equal_but_for_who_asks():
    one = make_pod(make_request(), pod_uid="a", namespace="a", pod_name="a")
    other = make_pod(make_request(), pod_uid="b", namespace="b", pod_name="b")
    third = make_pod(make_request(core_percent=7), pod_uid="a", namespace="a", pod_name="a")

    assert one.anonymous == other.anonymous
    assert one.anonymous != third.anonymous


@pytest.mark.parametrize(
    ("name", "value"), [("device_count", 65), ("memory_mib", 2**24 + 1), ("core_percent", 101)]
)
def test_a_default_that_no_container_could_ask_for_is_refused(name, value):
    assert getattr(RequestDefaults(**{name: value - 1}), name) == value - 1
    with pytest.raises(SettingsError, match=f"{name} is {value}, not 0 to {value - 1}"):
        RequestDefaults(**{name: value})


@pytest.mark.parametrize(
    ("selection", "names_single"),
    [
        (DeviceSelection(use_models=("A100",), avoid_models=("T4",)), False),
        (DeviceSelection(use_uuids=("GPU-a",)), True),
        (DeviceSelection(avoid_uuids=("GPU-a",)), True),
        (DeviceSelection(use_indices=(0,)), True),
    ],
)
def test_only_uuids_and_indices_tell_devices_of_one_kind_apart(selection, names_single):
    assert selection.names_single_devices is names_single
