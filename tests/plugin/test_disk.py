import pytest

from hamid.errors import StateError
from hamid.plugin.disk import needing_the_disk


def test_an_error_of_the_disk_says_what_cannot_be_done_and_what_to_do(tmp_path):
    with (
        pytest.raises(StateError, match="the thing cannot be read: No such file") as caught,
        needing_the_disk("the thing cannot be read", then="delete the pod"),
    ):
        (tmp_path / "none").read_bytes()

    assert caught.value.hint == "free or mend that disk of the node, then delete the pod"


def test_where_nothing_is_to_be_done_afterwards_nothing_is_said():
    with (
        pytest.raises(StateError) as caught,
        needing_the_disk("it fails"),
    ):
        raise OSError("in its own words")

    assert caught.value.message == "it fails: in its own words"
    assert caught.value.hint == "free or mend that disk of the node"


def test_what_is_in_the_way_is_named(tmp_path):
    (tmp_path / "journal").touch()

    for make in (tmp_path / "journal", tmp_path / "journal" / "inner"):
        with pytest.raises(StateError) as caught, needing_the_disk("it fails"):
            make.mkdir()
        assert caught.value.hint == f"move away what is in the way at {make}"


def test_other_errors_are_not_the_disks():
    with pytest.raises(ZeroDivisionError), needing_the_disk("it fails"):
        raise ZeroDivisionError
