"""The address of one server as EndpointSlice or Endpoints, for a Service without a selector."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hamid.errors import SettingsError

if TYPE_CHECKING:
    from hamid.codec.jsontext import JsonObject

SERVICE_LABEL: Final = "kubernetes.io/service-name"
MANAGED_BY_LABEL: Final = "endpointslice.kubernetes.io/managed-by"
MANAGER: Final = "hamid"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """Where a server listens.

    Attributes:
        port_name: as the Service names the port.
        node_name: where it runs; empty where that is not known.
    """

    address: str
    port: int
    port_name: str
    node_name: str = ""

    def __post_init__(self) -> None:
        try:
            ipaddress.ip_address(self.address)
        except ValueError as error:
            raise SettingsError(
                f"{self.address!r} is no IP address, so that no Service can lead to it",
                hint="set the address of this pod (status.podIP)",
            ) from error

    @property
    def address_type(self) -> str:
        """The family, as an EndpointSlice names it; a slice keeps it for ever."""
        return f"IPv{ipaddress.ip_address(self.address).version}"


def encode_slice(
    server: ServerAddress, *, namespace: str, name: str, service_name: str
) -> JsonObject:
    """The EndpointSlice (`discovery.k8s.io/v1`) that leads the Service to this server alone."""
    endpoint: JsonObject = {"addresses": [server.address], "conditions": {"ready": True}}
    if server.node_name:
        endpoint["nodeName"] = server.node_name
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {SERVICE_LABEL: service_name, MANAGED_BY_LABEL: MANAGER},
        },
        "addressType": server.address_type,
        "endpoints": [endpoint],
        "ports": [{"name": server.port_name, "port": server.port, "protocol": "TCP"}],
    }


def owner_reference(service: JsonObject) -> JsonObject:
    """What makes an object of the Service's namespace go when the Service does."""
    meta = service["metadata"]
    return {"apiVersion": "v1", "kind": "Service", "name": meta["name"], "uid": meta["uid"]}


def is_owned(item: JsonObject, *, service_name: str) -> bool:
    """Whether the object goes when the Service of this name does."""
    owners = (item.get("metadata") or {}).get("ownerReferences") or []
    return any((owner["kind"], owner["name"]) == ("Service", service_name) for owner in owners)


def encode_endpoints(server: ServerAddress, *, namespace: str, service_name: str) -> JsonObject:
    """The Endpoints of the Service, for servers that lack EndpointSlices of version 1."""
    address: JsonObject = {"ip": server.address}
    if server.node_name:
        address["nodeName"] = server.node_name
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {
            "name": service_name,
            "namespace": namespace,
            "labels": {MANAGED_BY_LABEL: MANAGER},
        },
        "subsets": [
            {
                "addresses": [address],
                "ports": [{"name": server.port_name, "port": server.port, "protocol": "TCP"}],
            }
        ],
    }


def says_the_same(found: JsonObject, wanted: JsonObject) -> bool:
    """Whether the object found holds all that is wanted; what others added does not matter."""
    return all(_covers(found.get(key), value) for key, value in wanted.items())


def is_ours(item: JsonObject) -> bool:
    """Whether we wrote the object, and may delete it."""
    labels = (item.get("metadata") or {}).get("labels") or {}
    return bool(labels.get(MANAGED_BY_LABEL) == MANAGER)


def _covers(found: object, wanted: object) -> bool:
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(_covers(found.get(k), v) for k, v in wanted.items())
    if isinstance(wanted, list):
        return (
            isinstance(found, list)
            and len(found) == len(wanted)
            and all(_covers(f, w) for f, w in zip(found, wanted, strict=True))
        )
    return found == wanted
