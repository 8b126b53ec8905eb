import pytest

from hamid.errors import SettingsError
from hamid.model import names
from hamid.model.names import WRITTEN_BY_US, ResourceNames


def test_all_resources_are_listed_and_differ():
    listed = ResourceNames().all()

    assert len(set(listed)) == 5
    assert listed[0] == "nvidia.com/gpu"


def test_a_renamed_resource_is_listed_by_its_new_name():
    assert "example.com/vgpu" in ResourceNames(count="example.com/vgpu").all()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        pytest.param({"count": ""}, "'' is no name for a resource", id="no name"),
        pytest.param({"count": "gpu"}, "'gpu' is no name for a resource", id="no domain"),
        pytest.param({"count": "x.io/a card"}, "'x.io/a card' is no name", id="a space"),
        pytest.param({"count": "kubernetes.io/gpu"}, "is no name", id="Kubernetes' own domain"),
        pytest.param(
            {"count": "nvidia.com/gpumem"}, "'nvidia.com/gpumem' names two resources", id="twice"
        ),
    ],
)
def test_names_that_cannot_be_are_refused(given, said):
    with pytest.raises(SettingsError, match=said):
        ResourceNames(**given)


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
