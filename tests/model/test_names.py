import pytest

from hamid.model import names
from hamid.model.names import WRITTEN_BY_US, ResourceNames


def test_all_resources_are_listed_and_differ():
    listed = ResourceNames().all()

    assert len(set(listed)) == 5
    assert listed[0] == "nvidia.com/gpu"


def test_a_renamed_resource_is_listed_by_its_new_name():
    assert "example.com/vgpu" in ResourceNames(count="example.com/vgpu").all()


def test_no_two_annotations_share_a_key():
    keys = [
        value
        for name, value in vars(names).items()
        if name.isupper() and "/" in str(value)
        if isinstance(value, str)
    ]

    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("key", WRITTEN_BY_US)
def test_what_we_write_is_under_a_domain_that_is_ours_or_hamis(key):
    assert key.startswith(("hami.io/", "hamid.io/"))
