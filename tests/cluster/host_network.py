"""Reads what helm would send, and writes it as this cluster needs it: helm's --post-renderer.

    host_network.py API_PORT ADDRESS

The cluster has neither kube-proxy nor DNS. So pods of the chart are put on the host's network,
where the API server is, and find the Services of the release at ADDRESS.
"""

import sys
from typing import Any

import yaml


def on_host_network(item: dict[str, Any], *, port: str, hosts: dict[str, Any]) -> None:
    spec = item["spec"]["template"]["spec"]
    spec["hostNetwork"] = True
    spec["hostAliases"] = [hosts]
    for container in spec["containers"]:
        container.setdefault("env", []).extend(
            (
                {"name": "KUBERNETES_SERVICE_HOST", "value": "127.0.0.1"},
                {"name": "KUBERNETES_SERVICE_PORT", "value": port},
            )
        )


def main(port: str, address: str) -> None:
    items = [item for item in yaml.safe_load_all(sys.stdin) if item]
    services = [item["metadata"] for item in items if item["kind"] == "Service"]
    names = [f"{each['name']}.{each['namespace']}.svc" for each in services]
    for item in items:
        if item["kind"] in {"DaemonSet", "Deployment"}:
            on_host_network(item, port=port, hosts={"ip": address, "hostnames": names})
    yaml.safe_dump_all(items, sys.stdout)


main(*sys.argv[1:])
