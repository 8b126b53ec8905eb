from __future__ import annotations

import pytest

from hamid.kube.errors import Invalid
from hamid.kube.fake.selectors import matches_labels, selector
from hamid.kube.port import EVENTS, PODS


@pytest.mark.parametrize(
    ("labels", "wanted"),
    [
        ("", True),
        ("a=1", True),
        ("a = 1", True),
        ("a==2", False),
        ("a!=2", True),
        ("b!=2", True),
        ("a", True),
        ("!a", False),
        ("!b", True),
        ("a in (1, 2)", True),
        ("a notin (1,2)", False),
        ("b notin (1)", True),
        ("a in (1),b", False),
    ],
)
def test_a_label_selector_selects(labels: str, wanted: bool) -> None:  # noqa: FBT001
    matches = selector(PODS, labels=labels, fields=None)

    assert matches({"metadata": {"name": "x", "labels": {"a": "1"}}}) is wanted


def test_a_field_that_is_absent_is_empty() -> None:
    matches = selector(PODS, labels=None, fields="spec.nodeName=,status.phase!=Failed")

    assert matches({"metadata": {"name": "x"}, "spec": {}})


def test_events_are_selected_by_what_they_are_about() -> None:
    matches = selector(EVENTS, labels=None, fields="involvedObject.name=a,reason=Because")

    about = {"metadata": {"name": "e"}, "involvedObject": {"name": "a"}}
    assert matches(about | {"reason": "Because"})
    assert not matches(about | {"reason": "Else"})


@pytest.mark.parametrize("fields", ["spec.priority=1", "involvedObject.name=a", "status.phase"])
def test_what_the_real_server_cannot_select_is_refused(fields: str) -> None:
    with pytest.raises(Invalid):
        selector(PODS, labels=None, fields=fields)


@pytest.mark.parametrize(
    ("wanted", "labels", "is_match"),
    [
        (None, {}, True),
        ({}, {}, True),
        ({"matchLabels": {"a": "1"}}, {"a": "1", "b": "2"}, True),
        ({"matchLabels": {"a": "1"}}, {}, False),
        (
            {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]},
            {"a": "1"},
            False,
        ),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, {}, True),
        (
            {"matchExpressions": [{"key": "a", "operator": "In", "values": ["1"]}]},
            {"a": "1"},
            True,
        ),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {}, False),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, {}, True),
    ],
)
def test_a_selector_object_selects(
    wanted: dict[str, object] | None,
    labels: dict[str, str],
    is_match: bool,  # noqa: FBT001
) -> None:
    assert matches_labels(wanted, labels) is is_match
