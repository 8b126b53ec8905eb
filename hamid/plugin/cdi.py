"""CDI specs: what enters one container, for runtimes that speak the Container Device Interface.

Source: the CDI specification, https://github.com/cncf-tags/container-device-interface. The lowest
version that has all we use is declared, so that old runtimes take it. One spec per grant; the
runtime reads it when it creates the container, after PreStartContainer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import orjson

if TYPE_CHECKING:
    from hamid.hooks.abi.injection import Injection

CDI_VERSION: Final = "0.5.0"
CDI_KIND: Final = "hamid.io/grant"


def cdi_name(grant_id: str) -> str:
    """The fully qualified name of the grant's only device."""
    return f"{CDI_KIND}={grant_id}"


def cdi_file_name(grant_id: str) -> str:
    """The name of the grant's spec in the CDI directory."""
    return f"hamid-{grant_id}.json"


def encode_cdi_spec(grant_id: str, injection: Injection) -> bytes:
    """The spec that puts the injection into a container."""
    edits = {
        "env": [f"{name}={value}" for name, value in injection.envs.items()],
        "mounts": [
            {
                "hostPath": mount.host_path,
                "containerPath": mount.container_path,
                "options": ["rbind", "ro" if mount.is_read_only else "rw", "nosuid", "nodev"],
            }
            for mount in injection.mounts
        ],
        "deviceNodes": [
            {"path": node, "hostPath": node, "permissions": "rw"} for node in injection.device_nodes
        ],
    }
    spec = {
        "cdiVersion": CDI_VERSION,
        "kind": CDI_KIND,
        "devices": [
            {
                "name": grant_id,
                "containerEdits": {key: value for key, value in edits.items() if value},
            }
        ],
    }
    return orjson.dumps(spec, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
