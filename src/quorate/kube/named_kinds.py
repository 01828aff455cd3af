"""Find the kind that a user names as kubectl does: ``job``, ``jobs.batch``, ``cq``."""

from typing import Final

from quorate.api.meta import ObjectMeta, Struct
from quorate.kube.client import Client
from quorate.kube.resources import Json, Resource, untyped

_AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class _Kind(Struct):
    kind: str = ""


class Served(Struct):
    resource: str
    response_kind: _Kind = _Kind()
    scope: str = "Namespaced"
    singular_resource: str = ""
    short_names: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()


class Version(Struct):
    version: str
    resources: tuple[Served, ...] = ()
    freshness: str = "Current"  # or Stale: the aggregated API server is down


class Group(Struct):
    metadata: ObjectMeta = ObjectMeta()
    versions: tuple[Version, ...] = ()  # the preferred one first


class _Groups(Struct):
    items: tuple[Group, ...] = ()


async def served_groups(client: Client) -> list[Group]:
    """Return the groups that the server has, the core group first, with all their kinds."""
    groups: list[Group] = []
    for root in ("/api", "/apis"):
        groups += (await client.request_as(_Groups, "GET", root, headers={"Accept": _AGGREGATED})).items
    return groups


async def find_kind(client: Client, written: str, *, only_namespaced: bool = False) -> Resource[Json] | None:
    """Return the kind with that name, singular, plural or short, and optional group; None if there is none.

    The core group comes first.  Versions that the server does not prefer come after all others: only there
    are Kubernetes' own workloads and pod groups.
    """
    name, _, group = written.lower().partition(".")
    if not group and name in ("job", "jobs"):  # the usual case needs no discovery
        return untyped("batch", "v1", "jobs", "Job", True)
    groups = [served for served in await served_groups(client) if group in ("", served.metadata.name)]
    preferred = [(served, served.versions[:1]) for served in groups]
    others = [(served, served.versions[1:]) for served in groups]
    for served_group, versions in (*preferred, *others):
        for version in versions:
            for served in version.resources:
                namespaced = served.scope == "Namespaced"
                if name in _names(served) and (namespaced or not only_namespaced):
                    kind = served.response_kind.kind
                    group_name = served_group.metadata.name
                    return untyped(group_name, version.version, served.resource, kind, namespaced)
    return None


def _names(served: Served) -> tuple[str, ...]:
    kind = served.response_kind.kind.lower()
    return served.resource, served.singular_resource, kind, *served.short_names
