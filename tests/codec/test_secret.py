import base64

import pytest

from hamid.codec.secret import bundle_patch, decode_secret, encode_secret
from hamid.errors import WireError


def b64(value):
    return base64.b64encode(value).decode()


def test_values_are_read_as_written():
    values = {"tls.key": b"\x00\xff", "empty": b""}

    secret = encode_secret(values, namespace="hamid", name="hamid-tls")

    assert secret["metadata"] == {"name": "hamid-tls", "namespace": "hamid"}
    assert secret["type"] == "Opaque"
    assert decode_secret(secret) == values


def test_the_metadata_and_type_of_what_is_there_are_kept():
    base = {
        "metadata": {"name": "s", "resourceVersion": "7", "labels": {"a": "b"}},
        "type": "kubernetes.io/tls",
        "data": {"old": "eA=="},
    }

    secret = encode_secret({"new": b"x"}, namespace="n", name="s", base=base)

    assert secret["metadata"] == base["metadata"]
    assert secret["type"] == "kubernetes.io/tls"
    assert secret["data"] == {"new": "eA=="}


def test_a_secret_without_data_has_no_values():
    assert decode_secret({}) == {}
    assert decode_secret({"data": {"k": None}}) == {"k": b""}


@pytest.mark.parametrize("data", [{"k": "!!"}, {"k": "a!!\u00fc"}, {"k": 1}, []])
def test_a_secret_that_cannot_be_read_is_refused_without_its_values(data):
    with pytest.raises(WireError) as caught:
        decode_secret({"data": data})

    assert "!!" not in str(caught.value)


def webhook(name, **client):
    return {"name": name, "clientConfig": {"service": {"name": "hamid-webhook"}, **client}}


def test_each_webhook_without_the_bundle_gets_it_guarded_by_its_name():
    configuration = {
        "webhooks": [webhook("a", caBundle=b64(b"CA")), webhook("b"), webhook("c", caBundle="b2xk")]
    }

    assert bundle_patch(configuration, b"CA") == [
        {"op": "test", "path": "/webhooks/1/name", "value": "b"},
        {"op": "add", "path": "/webhooks/1/clientConfig/caBundle", "value": b64(b"CA")},
        {"op": "test", "path": "/webhooks/2/name", "value": "c"},
        {"op": "add", "path": "/webhooks/2/clientConfig/caBundle", "value": b64(b"CA")},
    ]


def test_a_configuration_that_is_right_is_not_patched():
    assert bundle_patch({"webhooks": [webhook("a", caBundle=b64(b"CA"))]}, b"CA") == []
    assert bundle_patch({}, b"CA") == []


@pytest.mark.parametrize("webhooks", [[1], [{"name": "a"}], "x", [webhook("")]])
def test_a_configuration_that_cannot_be_read_is_refused(webhooks):
    with pytest.raises(WireError, match="webhook configuration"):
        bundle_patch({"webhooks": webhooks}, b"CA")
