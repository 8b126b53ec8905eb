from __future__ import annotations

from typing import Any

import pytest

from hamid.kube.errors import Invalid
from hamid.kube.fake.patches import json_patched, merged, patched
from hamid.kube.port import PatchKind


@pytest.mark.parametrize(
    ("value", "patch", "wanted"),
    [
        # The examples of RFC 7386, appendix A.
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_a_merge_patch_is_that_of_the_rfc(value: Any, patch: Any, wanted: Any) -> None:
    assert merged(value, patch) == wanted


@pytest.mark.parametrize(
    ("operation", "wanted"),
    [
        ({"op": "add", "path": "/c", "value": 3}, {"a": [1, 2], "b/~": {"x": 1}, "c": 3}),
        ({"op": "add", "path": "/a/-", "value": 3}, {"a": [1, 2, 3], "b/~": {"x": 1}}),
        ({"op": "add", "path": "/a/0", "value": 0}, {"a": [0, 1, 2], "b/~": {"x": 1}}),
        ({"op": "remove", "path": "/b~1~0/x"}, {"a": [1, 2], "b/~": {}}),
        ({"op": "remove", "path": "/a/0"}, {"a": [2], "b/~": {"x": 1}}),
        ({"op": "replace", "path": "/a/1", "value": 9}, {"a": [1, 9], "b/~": {"x": 1}}),
        ({"op": "replace", "path": "", "value": {}}, {}),
        ({"op": "move", "from": "/b~1~0/x", "path": "/y"}, {"a": [1, 2], "b/~": {}, "y": 1}),
        ({"op": "copy", "from": "/a", "path": "/y"}, {"a": [1, 2], "b/~": {"x": 1}, "y": [1, 2]}),
        ({"op": "test", "path": "/a/0", "value": 1}, {"a": [1, 2], "b/~": {"x": 1}}),
    ],
)
def test_a_json_patch_operation_does_what_the_rfc_says(
    operation: dict[str, Any], wanted: Any
) -> None:
    value = {"a": [1, 2], "b/~": {"x": 1}}

    assert json_patched(value, [operation]) == wanted
    assert value == {"a": [1, 2], "b/~": {"x": 1}}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/none"},
        {"op": "replace", "path": "/none", "value": 1},
        {"op": "add", "path": "/none/x", "value": 1},
        {"op": "add", "path": "/a/9", "value": 1},
        {"op": "add", "path": "/a/x", "value": 1},
        {"op": "test", "path": "/a", "value": 1},
        {"op": "wish", "path": "/a"},
        {"op": "add", "path": "a", "value": 1},
        {"path": "/a"},
    ],
)
def test_a_json_patch_that_cannot_be_done_is_invalid(operation: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        json_patched({"a": [1, 2]}, [operation])


@pytest.mark.parametrize(
    ("value", "patch", "wanted"),
    [
        pytest.param(
            {"containers": [{"name": "a", "x": 1}, {"name": "b"}]},
            {"containers": [{"name": "a", "y": 2}]},
            {"containers": [{"name": "a", "x": 1, "y": 2}, {"name": "b"}]},
            id="lists of named things merge",
        ),
        pytest.param(
            {"containers": [{"name": "a"}, {"name": "b"}]},
            {
                "containers": [{"name": "a", "$patch": "delete"}],
                "$setElementOrder/containers": [{"name": "b"}],
            },
            {"containers": [{"name": "b"}]},
            id="a list's element is deleted",
        ),
        pytest.param(
            {"containers": [{"name": "a"}]},
            {"containers": [{"$patch": "replace"}, {"name": "b"}]},
            {"containers": [{"name": "b"}]},
            id="a list is replaced",
        ),
        pytest.param(
            {"args": ["a", "b"]}, {"args": ["c"]}, {"args": ["c"]}, id="other lists are replaced"
        ),
        pytest.param(
            {"finalizers": ["a", "b"]},
            {"finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"]},
            {"finalizers": ["b", "c"]},
            id="finalizers are a set",
        ),
        pytest.param(
            {"m": {"a": 1, "b": 2}},
            {"m": {"a": None, "c": 3}},
            {"m": {"b": 2, "c": 3}},
            id="maps merge",
        ),
        pytest.param({"m": {"a": 1}}, {"m": {"$patch": "delete"}}, {}, id="a map is deleted"),
        pytest.param(
            {"m": {"a": 1}},
            {"m": {"$patch": "replace", "b": 2}},
            {"m": {"b": 2}},
            id="a map is replaced",
        ),
        pytest.param(
            {"strategy": {"type": "x", "rollingUpdate": {}}},
            {"strategy": {"$retainKeys": ["type"], "type": "y"}},
            {"strategy": {"type": "y"}},
            id="only named keys are kept",
        ),
        pytest.param(
            {"ports": [{"port": 80, "name": "a"}]},
            {"ports": [{"port": 80, "name": "b"}, {"port": 81}]},
            {"ports": [{"port": 80, "name": "b"}, {"port": 81}]},
            id="a service's ports go by their number",
        ),
    ],
)
def test_a_strategic_patch_merges_by_what_the_field_is(
    value: dict[str, Any], patch: dict[str, Any], wanted: dict[str, Any]
) -> None:
    assert patched(value, patch, PatchKind.STRATEGIC) == wanted
    assert patched(value, patch, PatchKind.APPLY) == wanted


@pytest.mark.parametrize(
    ("patch", "kind"),
    [({}, PatchKind.JSON), ([], PatchKind.MERGE), ([], PatchKind.STRATEGIC)],
)
def test_a_patch_of_the_wrong_shape_is_invalid(patch: Any, kind: PatchKind) -> None:
    with pytest.raises(Invalid):
        patched({}, patch, kind)


def test_a_patch_must_leave_an_object() -> None:
    nothing = [{"op": "replace", "path": "", "value": 1}]

    with pytest.raises(Invalid, match="leaves no object"):
        patched({}, nothing, PatchKind.JSON)
