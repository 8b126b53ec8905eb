import pytest

from hamid.codec.endpoints import (
    ServerAddress,
    encode_endpoints,
    encode_slice,
    is_ours,
    is_owned,
    owner_reference,
    says_the_same,
)
from hamid.errors import SettingsError

SERVER = ServerAddress(address="10.0.0.7", port=9443, port_name="extender", node_name="node-7")
SLICE = encode_slice(SERVER, namespace="hamid", name="leader", service_name="hamid-scheduler")


def test_a_slice_leads_the_service_to_one_server():
    assert SLICE == {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "leader",
            "namespace": "hamid",
            "labels": {
                "kubernetes.io/service-name": "hamid-scheduler",
                "endpointslice.kubernetes.io/managed-by": "hamid",
            },
        },
        "addressType": "IPv4",
        "endpoints": [
            {
                "addresses": ["10.0.0.7"],
                "conditions": {"ready": True},
                "nodeName": "node-7",
            }
        ],
        "ports": [{"name": "extender", "port": 9443, "protocol": "TCP"}],
    }


def test_a_slice_is_owned_by_the_service_that_it_refers_to():
    owner = owner_reference({"metadata": {"name": "hamid-scheduler", "uid": "1-2"}})
    owned = SLICE | {"metadata": SLICE["metadata"] | {"ownerReferences": [owner]}}

    assert owner == {"apiVersion": "v1", "kind": "Service", "name": "hamid-scheduler", "uid": "1-2"}
    assert is_owned(owned, service_name="hamid-scheduler")
    assert not is_owned(owned, service_name="another")
    assert not is_owned(SLICE, service_name="hamid-scheduler")


def test_endpoints_say_the_same_to_older_servers():
    made = encode_endpoints(SERVER, namespace="hamid", service_name="hamid-scheduler")

    assert made["metadata"]["name"] == "hamid-scheduler"
    assert made["subsets"] == [
        {
            "addresses": [{"ip": "10.0.0.7", "nodeName": "node-7"}],
            "ports": [{"name": "extender", "port": 9443, "protocol": "TCP"}],
        }
    ]
    assert is_ours(made)


@pytest.mark.parametrize(("address", "family"), [("10.0.0.1", "IPv4"), ("fd00::1", "IPv6")])
def test_the_family_is_told_from_the_address(address, family):
    server = ServerAddress(address=address, port=1, port_name="p")

    assert server.address_type == family
    made = encode_slice(server, namespace="n", name="s", service_name="v")
    assert "nodeName" not in made["endpoints"][0]
    made = encode_endpoints(server, namespace="n", service_name="v")
    assert "nodeName" not in made["subsets"][0]["addresses"][0]


def test_a_name_is_no_address():
    with pytest.raises(SettingsError, match=r"status\.podIP"):
        ServerAddress(address="localhost", port=1, port_name="p")


def test_what_others_add_does_not_make_a_difference():
    stored = {
        **SLICE,
        "metadata": {**SLICE["metadata"], "uid": "u", "resourceVersion": "7"},
    }

    assert says_the_same(stored, SLICE)
    assert not says_the_same({**stored, "endpoints": []}, SLICE)
    assert not says_the_same({**stored, "addressType": "IPv6"}, SLICE)
    assert not says_the_same({}, SLICE)
    assert not is_ours({})
