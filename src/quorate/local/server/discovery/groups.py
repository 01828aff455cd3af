"""API discovery: groups, versions and resources; and the version of the server."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from quorate.api import open_api
from quorate.api.codec import Json
from quorate.local.objects.crd.definition import version_priority
from quorate.local.server.registry.kinds import Kind, Registry


class RemoteVersion(Protocol):
    """One version of an API group that another server serves."""

    @property
    def group(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def available(self) -> bool: ...
    @property
    def resources(self) -> Sequence[Json]: ...


RemoteGroups = Mapping[str, Sequence[RemoteVersion]]
"""By group, the preferred version first."""

_LAST: Final = "scheduling.k8s.io"

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


def core_versions(address: str) -> Json:
    """Return the response of GET /api."""
    addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}


def group_list(registry: Registry, remote: RemoteGroups) -> Json:
    """Return the response of GET /apis.  ``remote``: the aggregated groups."""
    groups = [_api_group(registry, name) for name in group_names(registry)]
    groups += [
        open_api.api_group(name, [version.version for version in versions])
        for name, versions in remote.items()
    ]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def api_group(registry: Registry, name: str, remote: RemoteGroups) -> Json | None:
    """Return the response of GET /apis/GROUP; None if there is no such group."""
    if name in remote and not registry.has_group(name):
        group = open_api.api_group(name, [version.version for version in remote[name]])
        return {"kind": "APIGroup", "apiVersion": "v1"} | group
    if not name or not registry.has_group(name):
        return None
    return {"kind": "APIGroup", "apiVersion": "v1"} | _api_group(registry, name)


def resource_list(registry: Registry, group_name: str, version: str) -> Json | None:
    """Return the response of GET /api/v1 or /apis/GROUP/VERSION; None if there is no such version."""
    kinds = _kinds(registry, group_name, version)
    if not kinds:
        return None
    resources = [entry for kind in kinds for entry in _resource_entries(kind)]
    type_meta = {"kind": "APIResourceList"} | ({"apiVersion": "v1"} if group_name else {})
    return type_meta | {"groupVersion": kinds[0].api_version, "resources": resources}


def aggregated_discovery(registry: Registry, names: Iterable[str], remote: RemoteGroups) -> Json:
    """Return aggregated discovery (KEP-3352) for /api (the group without a name) or /apis."""
    items: list[Json] = []
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
    for name, served in remote.items():
        items.append(
            {"metadata": {"name": name}, "versions": [_remote_version(version) for version in served]}
        )
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }


def group_names(registry: Registry) -> list[str]:
    """Return the names of the groups, in the order in which kubectl looks for a resource without a group.

    Kubernetes' own pod groups and workloads come last: most API servers do not serve them, so that
    ``podgroups`` and ``workloads`` are Volcano's and Kueue's.
    """
    return sorted({kind.group for kind in registry if kind.group}, key=lambda name: (name == _LAST, name))


def _versions(registry: Registry, name: str) -> list[str]:
    return sorted({kind.version for kind in registry if kind.group == name}, key=version_priority)


def _kinds(registry: Registry, name: str, version: str) -> list[Kind]:
    kinds = [kind for kind in registry if (kind.group, kind.version) == (name, version)]
    return sorted(kinds, key=lambda kind: kind.plural)


def _api_group(registry: Registry, name: str) -> Json:
    return open_api.api_group(name, _versions(registry, name))


def _remote_version(remote: RemoteVersion) -> Json:
    """Convert the APIResourceList of an aggregated version to aggregated discovery."""
    entries: dict[str, Json] = {}
    for listed in remote.resources:
        plural, _, subresource = listed["name"].partition("/")
        response_kind = {
            "group": listed.get("group") or remote.group,
            "version": listed.get("version") or remote.version,
            "kind": listed["kind"],
        }
        scope = "Namespaced" if listed["namespaced"] else "Cluster"
        entry = entries.setdefault(
            plural, {"resource": plural, "scope": scope, "singularResource": "", "verbs": []}
        )
        if subresource:
            subresource_entry = {
                "subresource": subresource,
                "responseKind": response_kind,
                "verbs": listed["verbs"],
            }
            entry.setdefault("subresources", []).append(subresource_entry)
            continue
        entry |= {
            "responseKind": response_kind,
            "singularResource": listed.get("singularName", ""),
            "verbs": listed["verbs"],
        }
        entry |= {name: listed[name] for name in ("shortNames", "categories") if listed.get(name)}
    return {
        "version": remote.version,
        "resources": list(entries.values()),
        "freshness": "Current" if remote.available else "Stale",
    }


def _verbs_and_names(kind: Kind) -> Json:
    verbs = list(kind.verbs) if kind.custom else sorted(kind.verbs)
    names = {"shortNames": list(kind.short_names), "categories": list(kind.categories)}
    return {"verbs": verbs} | {name: listed for name, listed in names.items() if listed}


def _resource_entries(kind: Kind) -> Iterator[Json]:
    yield {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        **_verbs_and_names(kind),
    }
    for sub in kind.subresources:
        subresource_entry: Json = {
            "name": f"{kind.plural}/{sub.name}",
            "singularName": "",
            "namespaced": kind.namespaced,
            "kind": sub.kind or kind.kind,
            "verbs": sorted(sub.verbs),
        }
        if sub.version:
            subresource_entry |= {"group": sub.group, "version": sub.version}
        yield subresource_entry


def _aggregated_resource(kind: Kind) -> Json:
    entry: Json = {
        "resource": kind.plural,
        "responseKind": {"group": "", "version": "", "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        **_verbs_and_names(kind),
    }
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
