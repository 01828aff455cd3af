"""What the server has: groups, versions and resources, its own version, and health."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from quorate.local.server.kinds import Kind, Registry

Json = dict[str, Any]

SERVER_VERSION: Json = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.0+quorate",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "none",
    "platform": "linux/amd64",
}
CHECKS = ("ping",)
OPENAPI_PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
OPENAPI_V2_MESSAGE = b"\x0a\x032.0\x42\x00"
"""The document in the one format that kubectl takes it in: `swagger` (1) is "2.0", `paths` (8) are empty."""


def core_versions(address: str) -> Json:
    """GET /api."""
    addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}


def groups(registry: Registry) -> Json:
    """GET /apis."""
    described = [_group(registry, name) for name in group_names(registry)]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": described}


def group(registry: Registry, name: str) -> Json | None:
    """GET /apis/GROUP; None if there is no such group."""
    if not name or not registry.serves_group(name):
        return None
    return {"kind": "APIGroup", "apiVersion": "v1"} | _group(registry, name)


def resources(registry: Registry, group_name: str, version: str) -> Json | None:
    """GET /api/v1 or /apis/GROUP/VERSION; None if there is no such version."""
    kinds = _kinds(registry, group_name, version)
    if not kinds:
        return None
    listed = [entry for kind in kinds for entry in _resource_entries(kind)]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": kinds[0].api_version,
        "resources": listed,
    }


def aggregated(registry: Registry, names: Iterable[str]) -> Json:
    """The same in one document (KEP-3352), for /api (the group without a name) or /apis."""
    items = []
    for name in names:
        versions = [
            {
                "version": version,
                "resources": [_aggregated_resource(kind) for kind in _kinds(registry, name, version)],
                "freshness": "Current",
            }
            for version in _versions(registry, name)
        ]
        items.append({"metadata": {"name": name} if name else {}, "versions": versions})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }


def group_names(registry: Registry) -> list[str]:
    return sorted({kind.group for kind in registry if kind.group})


def openapi_paths(registry: Registry) -> Json:
    """GET /openapi/v3: where the document of each version is."""
    paths = {}
    for kind in registry:
        path = f"apis/{kind.api_version}" if kind.group else f"api/{kind.version}"
        paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}"}
    return {"paths": paths}


def openapi_v3(registry: Registry, path: str) -> Json | None:
    """GET /openapi/v3/PATH: which kinds a version has, nothing of their schemas; None if there is no such.

    kubectl looks here whether the server checks fields; if so it does not need schemas to check them itself.
    """
    if path not in openapi_paths(registry)["paths"]:
        return None
    kinds = [kind for kind in registry if path.endswith(f"/{kind.api_version}")]
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": SERVER_VERSION["gitVersion"]},
        "paths": {f"/{path}/{kind.plural}/{{name}}": _openapi_path(kind) for kind in kinds},
        "components": {"schemas": {}},
    }


def _openapi_path(kind: Kind) -> Json:
    options = ("dryRun", "fieldManager", "fieldValidation", "force")
    patch = {
        "parameters": [{"name": name, "in": "query", "schema": {"type": "string"}} for name in options],
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": {
            "group": kind.group,
            "version": kind.version,
            "kind": kind.kind,
        },
        "responses": {"200": {"description": "OK"}},
    }
    return {"patch": patch}


def openapi_v2() -> Json:
    info = {"title": "Kubernetes", "version": SERVER_VERSION["gitVersion"]}
    return {"swagger": "2.0", "info": info, "paths": {}, "definitions": {}}


def version_order(version: str) -> tuple[int, int, int, str]:
    """Newest and most stable first: v2, v1, v1beta2, v1beta1, v1alpha1, then the others by name."""
    match = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", version)
    if match is None:
        return (3, 0, 0, version)
    major, stage, minor = match.groups()
    return ({None: 0, "beta": 1, "alpha": 2}[stage], -int(major), -int(minor or 0), version)


def _versions(registry: Registry, name: str) -> list[str]:
    return sorted({kind.version for kind in registry if kind.group == name}, key=version_order)


def _kinds(registry: Registry, name: str, version: str) -> list[Kind]:
    found = [kind for kind in registry if (kind.group, kind.version) == (name, version)]
    return sorted(found, key=lambda kind: kind.plural)


def _group(registry: Registry, name: str) -> Json:
    versions = [
        {"groupVersion": f"{name}/{version}", "version": version} for version in _versions(registry, name)
    ]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _resource_entries(kind: Kind) -> Iterator[Json]:
    entry: Json = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs) if kind.custom else sorted(kind.verbs),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    yield entry
    for sub in kind.subresources:
        below: Json = {
            "name": f"{kind.plural}/{sub.name}",
            "singularName": "",
            "namespaced": kind.namespaced,
            "kind": sub.kind or kind.kind,
            "verbs": sorted(sub.verbs),
        }
        if sub.version:
            below |= {"group": sub.group, "version": sub.version}
        yield below


def _aggregated_resource(kind: Kind) -> Json:
    entry: Json = {
        "resource": kind.plural,
        "responseKind": {"group": "", "version": "", "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs) if kind.custom else sorted(kind.verbs),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    if kind.subresources:
        entry["subresources"] = [
            {
                "subresource": sub.name,
                "responseKind": {"group": sub.group, "version": sub.version, "kind": sub.kind or kind.kind},
                "verbs": sorted(sub.verbs),
            }
            for sub in kind.subresources
        ]
    return entry
