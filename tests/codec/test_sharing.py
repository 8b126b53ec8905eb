import pytest

from hamid.codec.sharing import read_sharing
from hamid.errors import AnnotationError
from hamid.model.sharing import Sharing, SharingMode


def read(*env: dict, **annotations: str) -> Sharing:
    names = {"mode": "hamid.io/core-mode", "weight": "hamid.io/core-weight"}
    pod = {"metadata": {"annotations": {names[key]: value for key, value in annotations.items()}}}
    return read_sharing(pod, {"name": "train", "env": list(env)})


def policy(value: str | None) -> dict:
    return {"name": "GPU_CORE_UTILIZATION_POLICY", "value": value}


def test_a_pod_that_says_nothing_leaves_it_to_the_node():
    assert read() == Sharing()
    assert read_sharing({}, {}) == Sharing()


def test_annotations_say_mode_and_weight():
    assert read(mode="lend", weight="3") == Sharing(mode=SharingMode.LEND, weight=3)


@pytest.mark.parametrize(
    ("value", "mode"),
    [
        ("force", SharingMode.HARD),
        ("FORCE", SharingMode.HARD),
        ("disable", SharingMode.LEND),
        ("default", None),
        ("", None),
        (None, None),
    ],
)
def test_the_variable_of_hami_is_understood(value, mode):
    assert read({"name": "OTHER", "value": "force"}, policy(value)).mode is mode


def test_an_annotation_comes_before_the_variable():
    assert read(policy("force"), mode="priority").mode is SharingMode.PRIORITY


@pytest.mark.parametrize(
    "annotations",
    [
        {"mode": "LEND"},
        *({"weight": text} for text in ("0", "1001", "-1", "1.0", " 1", "", "\u0661", "9" * 5_000)),
    ],
)
def test_a_value_that_there_is_not_is_refused_and_named(annotations):
    with pytest.raises(AnnotationError, match="core-") as caught:
        read(**annotations)

    assert "leave it out" in caught.value.hint
