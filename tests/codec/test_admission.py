import base64
import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hamid.codec.admission import (
    Allow,
    Deny,
    PatchOp,
    decode_review,
    encode_review,
    json_pointer,
    limits_patch,
)
from hamid.codec.pod_request import required_limits
from hamid.errors import AdmissionError
from hamid.model.names import ResourceNames
from hamid.model.request import RequestDefaults
from tests.builders import container_object, pod_object
from tests.codec.golden_files import golden_body, golden_json
from tests.codec.strategies import json_values, objects_with

UID = "adcce925-13e7-4b54-8d4b-cf05bc9d7052"


def review(**changes):
    """The recorded review with some keys of its request replaced, as a body."""
    recorded = golden_json("admission/create-pod.json")
    recorded["request"] |= changes
    return json.dumps(recorded).encode()


def test_a_recorded_review_is_read():
    request = decode_review(golden_body("admission/create-pod.json"))

    assert (request.uid, request.api_version) == (UID, "admission.k8s.io/v1")
    assert (request.operation, request.resource, request.subresource) == ("CREATE", "pods", "")
    assert (request.namespace, request.name) == ("default", "hooked")
    assert request.username == "admin"
    assert request.groups == ("system:masters", "system:authenticated")
    assert request.object["spec"]["containers"][0]["name"] == "c"
    assert request.old_object is None


def test_the_object_is_handed_on_whole():
    recorded = golden_json("admission/create-pod.json")["request"]["object"]

    assert decode_review(golden_body("admission/create-pod.json")).object == recorded


def test_a_resource_outside_the_core_group_bears_its_group():
    resource = {"group": "apps", "version": "v1", "resource": "deployments"}

    assert decode_review(review(resource=resource)).resource == "deployments.apps"


def test_a_pod_that_is_yet_to_be_named_has_no_name():
    assert decode_review(review(name="")).name == ""
    assert decode_review(review(name=None)).name == ""


def test_an_update_has_the_old_object_and_a_deletion_no_new_one():
    request = decode_review(review(oldObject={"a": 1}, object=None, subResource="status"))

    assert (request.object, request.old_object, request.subresource) == (None, {"a": 1}, "status")


def test_an_anonymous_request_has_no_groups():
    request = decode_review(review(userInfo={}))

    assert (request.username, request.groups) == ("", ())


@pytest.mark.parametrize("version", ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"])
def test_a_review_is_answered_in_its_own_version(version):
    recorded = golden_json("admission/create-pod.json") | {"apiVersion": version}
    request = decode_review(json.dumps(recorded).encode())

    answer = json.loads(encode_review(request, Allow()))

    assert answer == {
        "apiVersion": version,
        "kind": "AdmissionReview",
        "response": {"uid": UID, "allowed": True},
    }


def test_a_patch_is_sent_as_base64_of_json_patch():
    request = decode_review(golden_body("admission/create-pod.json"))
    patch = (
        PatchOp(op="add", path="/a", value={"b": 1}),
        PatchOp(op="remove", path="/c"),
        PatchOp(op="test", path="/d"),
    )

    response = json.loads(encode_review(request, Allow(patch=patch)))["response"]

    assert response["patchType"] == "JSONPatch"
    assert json.loads(base64.b64decode(response["patch"])) == [
        {"op": "add", "path": "/a", "value": {"b": 1}},
        {"op": "remove", "path": "/c"},
        {"op": "test", "path": "/d", "value": None},
    ]


def test_warnings_are_sent():
    request = decode_review(golden_body("admission/create-pod.json"))

    response = json.loads(encode_review(request, Allow(warnings=("mind this",))))["response"]

    assert response["warnings"] == ["mind this"]


def test_a_denial_bears_its_message_and_code():
    request = decode_review(golden_body("admission/create-pod.json"))

    response = json.loads(encode_review(request, Deny(message="no", code=422)))["response"]

    assert response == {"uid": UID, "allowed": False, "status": {"code": 422, "message": "no"}}


def test_a_verdict_of_another_kind_is_a_bug():
    request = decode_review(golden_body("admission/create-pod.json"))

    with pytest.raises(AssertionError):
        encode_review(request, "maybe")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(b"{", "it is no JSON", id="JSON cut short"),
        pytest.param(b"[]", "the JSON is a list", id="a list"),
        pytest.param(b"{}", "apiVersion is null", id="an empty object"),
        pytest.param(
            b'{"apiVersion":"admission.k8s.io/v2","kind":"AdmissionReview"}',
            "'AdmissionReview' of 'admission.k8s.io/v2'; known is",
            id="an unknown version",
        ),
        pytest.param(b'{"apiVersion":"v1"}', "kind is null", id="no kind"),
        pytest.param(
            b'{"apiVersion":"v1","kind":"Pod"}', "'Pod' of 'v1'; known is", id="another kind"
        ),
        pytest.param(
            b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}',
            "request is null",
            id="no request",
        ),
        pytest.param(review(uid=""), "request.uid is empty", id="no UID"),
        pytest.param(review(operation=1), "request.operation is a number", id="no operation"),
        pytest.param(review(resource=None), "request.resource is null", id="no resource"),
        pytest.param(review(resource={}), "request.resource.resource is null", id="no plural"),
        pytest.param(review(userInfo=[]), "request.userInfo is a list", id="a list as user"),
        pytest.param(review(userInfo={"groups": "a"}), "groups is a string", id="one group"),
        pytest.param(review(userInfo={"groups": [1]}), "a group of the user", id="group as number"),
        pytest.param(review(object=[]), "object is a list", id="a list as object"),
        pytest.param(review(namespace=1), "namespace is a number", id="a number as namespace"),
    ],
)
def test_a_malformed_review_is_refused_with_the_reason(body, message):
    with pytest.raises(AdmissionError) as caught:
        decode_review(body)

    assert message in caught.value.message


KEYS = ("apiVersion", "kind", "request", "uid", "operation", "resource", "userInfo", "groups")


@pytest.mark.slow
@given(
    st.binary()
    | json_values.map(lambda v: json.dumps(v).encode())
    | objects_with(*KEYS).map(
        lambda v: json.dumps(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": v}
        ).encode()
    )
)
def test_any_body_is_read_or_refused(body):
    with suppress(AdmissionError):
        decode_review(body)


@pytest.mark.parametrize(
    ("parts", "pointer"),
    [
        ((), ""),
        (
            ("metadata", "annotations", "hami.io/vgpu-node"),
            "/metadata/annotations/hami.io~1vgpu-node",
        ),
        (("containers", 0, "a~b"), "/containers/0/a~0b"),
        (("~1",), "/~01"),
        (("",), "/"),
    ],
)
def test_a_pointer_escapes_what_would_split_it(parts, pointer):
    assert json_pointer(*parts) == pointer


def patched(pod):
    fixes = required_limits(pod, ResourceNames(), RequestDefaults())
    return [(op.op, op.path, op.value) for op in limits_patch(pod, fixes)]


def test_a_fix_is_written_where_it_belongs_and_nothing_else_is_touched():
    pod = pod_object(container_object("c", {"gpu": 1, "cpu": 2}, requests={"cpu": 2}))

    assert patched(pod) == [
        ("add", "/spec/containers/0/resources/requests/nvidia.com~1gpu", "1"),
    ]


def test_objects_that_are_missing_are_made_once():
    pod = pod_object(
        {"name": "a", "resources": {"requests": {"nvidia.com/gpumem": "1"}}},
        {"name": "b", "resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": None}},
    )

    limits, requests = (
        "/spec/containers/0/resources/limits",
        "/spec/containers/0/resources/requests",
    )
    assert patched(pod) == [
        ("add", limits, {}),
        ("add", f"{limits}/nvidia.com~1gpu", "1"),
        ("add", f"{requests}/nvidia.com~1gpu", "1"),
        ("add", f"{limits}/nvidia.com~1gpumem", "1"),
        ("add", "/spec/containers/1/resources/requests", {}),
        ("add", "/spec/containers/1/resources/requests/nvidia.com~1gpu", "1"),
    ]
