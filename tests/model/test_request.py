import pytest

from tests.builders import make_pod, make_request


@pytest.mark.parametrize(("cores", "is_exclusive"), [(0, False), (99, False), (100, True)])
def test_a_request_for_all_cores_wants_its_devices_alone(cores, is_exclusive):
    assert make_request(core_percent=cores).is_exclusive is is_exclusive


def test_a_pod_is_named_by_namespace_and_name():
    assert make_pod(namespace="team-a", pod_name="train-0").pod_key == "team-a/train-0"
