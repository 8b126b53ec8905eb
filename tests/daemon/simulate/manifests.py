"""Manifests for the tests of the simulation, as text and as objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from pathlib import Path

IMAGE = "registry.test/image"


def container(name: str = "main", **limits: Any) -> dict[str, Any]:
    """A container; `gpu`, `mem`, `percent` and `cores` are its limits, others are fields."""
    keys = {
        "gpu": "nvidia.com/gpu",
        "mem": "nvidia.com/gpumem",
        "percent": "nvidia.com/gpumem-percentage",
        "cores": "nvidia.com/gpucores",
    }
    given = {keys[key]: value for key, value in limits.items() if key in keys}
    others = {key: value for key, value in limits.items() if key not in keys}
    resources = {"resources": {"limits": given}} if given else {}
    return {"name": name, "image": IMAGE, **resources, **others}


def pod(name: str = "a", *containers: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A pod manifest; `namespace`, `annotations`, `labels` go to its metadata, others to its spec."""
    in_metadata = {
        key: more.pop(key) for key in ("namespace", "annotations", "labels") if key in more
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **in_metadata},
        "spec": {"containers": list(containers) or [container()], **more},
    }


def workload(kind: str = "Deployment", name: str = "web", **spec: Any) -> dict[str, Any]:
    """A workload of one container a pod."""
    template = spec.pop("template", {"spec": {"containers": [container()]}})
    return {
        "apiVersion": "batch/v1" if kind == "Job" else "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"template": template, **spec},
    }


def write(path: Path, *documents: Any) -> Path:
    """The documents as a YAML file."""
    path.write_text(yaml.safe_dump_all(documents))
    return path
