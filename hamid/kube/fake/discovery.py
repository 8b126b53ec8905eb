"""What a client asks to learn what a server has: versions, groups, resources, OpenAPI.

The OpenAPI documents are stubs. They hold what kubectl looks for before it applies: that the server
validates fields (it does not, see the package). They leave out that objects may be patched
strategically, which they may, since kubectl would then look for schemas; without, it uses its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hamid.kube.fake.catalog import Catalog, ServedResource
    from hamid.kube.fake.features import FakeFeatures
    from hamid.kube.port import JsonObject

_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


def version_info(features: FakeFeatures) -> JsonObject:
    """The answer of /version."""
    version = features.server_version
    return {
        "major": str(version.major),
        "minor": str(version.minor),
        "gitVersion": f"v{version}.{version.patch}",
        "gitCommit": "0" * 40,
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "go1.0",
        "compiler": "none",
        "platform": "linux/amd64",
    }


def api_versions() -> JsonObject:
    """The answer of /api."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def api_groups(catalog: Catalog) -> JsonObject:
    """The answer of /apis."""
    groups = []
    for group, version in catalog.group_versions():
        if group:
            entry = {"groupVersion": f"{group}/{version}", "version": version}
            groups.append({"name": group, "versions": [entry], "preferredVersion": entry})
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def api_resources(catalog: Catalog, group: str, version: str) -> JsonObject | None:
    """The answer of /api/v1 and /apis/GROUP/VERSION; None if there is no such one."""
    served = catalog.in_group(group, version)
    if not served:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": [entry for each in served for entry in _entries(each)],
    }


def _entries(served: ServedResource) -> list[JsonObject]:
    resource = served.resource
    main: JsonObject = {
        "name": resource.plural,
        "singularName": resource.kind.lower(),
        "namespaced": resource.is_namespaced,
        "kind": resource.kind,
        "verbs": list(_VERBS),
        "shortNames": list(served.short_names),
        "categories": list(served.categories),
    }
    below = [(name, kind, ["create"]) for name, kind in served.subresources]
    if served.has_status:
        below.append(("status", resource.kind, ["get", "patch", "update"]))
    return [
        main,
        *(
            {
                "name": f"{resource.plural}/{name}",
                "singularName": "",
                "namespaced": resource.is_namespaced,
                "kind": kind,
                "verbs": verbs,
            }
            for name, kind, verbs in below
        ),
    ]


def openapi_index(catalog: Catalog) -> JsonObject:
    """The answer of /openapi/v3."""
    return {
        "paths": {
            root.lstrip("/"): {"serverRelativeURL": f"/openapi/v3{root}"}
            for root in (_root(*pair) for pair in catalog.group_versions())
        }
    }


def openapi_document(catalog: Catalog, group: str, version: str) -> JsonObject:
    """The answer of /openapi/v3/…: how objects are patched, and nothing of what they hold."""
    paths: JsonObject = {}
    schemas: JsonObject = {}
    for served in catalog.in_group(group, version):
        resource = served.resource
        kind = {"group": group, "version": version, "kind": resource.kind}
        scope = "/namespaces/{namespace}" if resource.is_namespaced else ""
        operation = {
            "parameters": [
                {"name": name, "in": "query", "schema": {"type": "string"}}
                for name in ("dryRun", "fieldManager", "fieldValidation")
            ],
            "x-kubernetes-group-version-kind": kind,
        }
        content = {
            "content": {
                f"application/{name}-patch+json": {"schema": {"type": "object"}}
                for name in ("json", "merge")
            }
        }
        path = f"{_root(group, version)}{scope}/{resource.plural}"
        paths[path] = {"post": {**operation, "x-kubernetes-action": "post"}}
        paths[f"{path}/{{name}}"] = {
            "patch": {**operation, "requestBody": content, "x-kubernetes-action": "patch"}
        }
        schemas[f"{resource.kind}"] = {
            "type": "object",
            "x-kubernetes-group-version-kind": [kind],
            "x-kubernetes-preserve-unknown-fields": True,
        }
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1"},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _root(group: str, version: str) -> str:
    return f"/apis/{group}/{version}" if group else f"/api/{version}"
