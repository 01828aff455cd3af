"""The request info, read from method and path, and the kind that serves a request."""

from collections.abc import Mapping
from dataclasses import dataclass

from quorate.local.objects.errors import method_not_allowed, no_such_resource, not_found
from quorate.local.server.parameters import boolean
from quorate.local.server.registry.kinds import Kind, Registry

READ_METHODS = {"GET", "HEAD"}
WRITE_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}

NAMESPACE_SUBRESOURCES = ("status", "finalize")
"""Below /namespaces/NAME/, these are subresources of the namespace; any other segment is a resource in it."""


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """The verb of a request, and the resource or the non-resource path (empty ``resource``)."""

    verb: str
    path: str
    group: str = ""
    version: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def parse(method: str, path: str, query: Mapping[str, str]) -> RequestInfo:
    """Read the request info from a request, whether the resource exists or not."""
    match path.strip("/").split("/"):
        case ["api", version, *rest] if rest:
            group = ""
        case ["apis", group, version, *rest] if rest:
            pass
        case _:
            return RequestInfo(method.lower(), path)
    watch_path = rest[0] == "watch" and len(rest) > 1  # deprecated, and the only watch with a name
    if watch_path:
        rest = rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in NAMESPACE_SUBRESOURCES:
        namespace, rest = rest[1], rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    return RequestInfo(
        _verb(method, name, watch_path or (not name and boolean(query, "watch"))),
        path,
        group,
        version,
        rest[0],
        namespace,
        name,
        # What follows proxy is a path of the service, not of this API.
        subresource=rest[2] if rest[2:3] == ["proxy"] else "/".join(rest[2:]),
    )


def _verb(method: str, name: str, watch: bool) -> str:
    if method in READ_METHODS:
        return "watch" if watch else "get" if name else "list"
    return "deletecollection" if method == "DELETE" and not name else WRITE_VERBS.get(method, method.lower())


def names_resource(registry: Registry, info: RequestInfo) -> bool:
    """Return True if the path is that of a resource or a subresource that the registry has."""
    kind = registry.find(info.group, info.version, info.resource)
    return kind is not None and (not info.subresource or kind.subresource(info.subresource) is not None)


def resolve_kind(registry: Registry, info: RequestInfo, method: str) -> Kind:
    """Return the kind that serves a request.  Raises StatusError: 404 for the path, 405 for the verb."""
    kind = registry.find(info.group, info.version, info.resource)
    if kind is None or (info.namespace and not kind.namespaced):
        raise no_such_resource()
    if info.name and kind.namespaced and not info.namespace:
        raise no_such_resource()
    verbs = kind.verbs
    if info.subresource:
        subresource = kind.subresource(info.subresource)
        if subresource is None:
            raise not_found(kind.group, kind.plural, info.name) if kind.custom else no_such_resource()
        verbs = subresource.verbs
    everywhere = kind.namespaced and not info.namespace
    if info.verb not in verbs or method == "HEAD" or (everywhere and info.verb not in ("list", "watch")):
        raise method_not_allowed()
    if info.verb == "create" and info.name and not info.subresource:
        raise method_not_allowed()
    if info.verb in ("update", "patch") and not info.name:
        raise method_not_allowed()
    return kind
