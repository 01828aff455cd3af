"""The paths that are not about resources: discovery, version, health, OpenAPI."""

from aiohttp import web

from quorate.local.server.discovery import groups, openapi
from quorate.local.server.discovery.groups import Remotes
from quorate.local.server.errors import method_not_allowed
from quorate.local.server.registry.kinds import Registry
from quorate.local.server.requests import media_types
from quorate.local.server.requests.responses import Answer
from quorate.local.server.storage.store import Store

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
NOT_FOUND = Answer(404, b"404 page not found\n", "text/plain; charset=utf-8")
HEALTH = ("healthz", "livez", "readyz")


def answer(registry: Registry, store: Store, remote: Remotes, request: web.BaseRequest) -> Answer:
    """Raises StatusError: 405 for anything but reading, 406 for a form that is not offered."""
    parts = request.path.strip("/").split("/")
    found = _document(registry, store, remote, parts, request)
    if found is None:
        return NOT_FOUND
    if request.method not in ("GET", "HEAD"):
        raise method_not_allowed()
    return found


def _document(
    registry: Registry, store: Store, remote: Remotes, parts: list[str], request: web.BaseRequest
) -> Answer | None:
    content: dict[str, object] | None
    match parts:
        case [check] if check in HEALTH:
            return Answer(200, b"ok", "text/plain; charset=utf-8")
        case [check, name] if check in HEALTH and name in groups.CHECKS:
            return Answer(200, b"ok", "text/plain; charset=utf-8")
        case ["version"]:
            content = groups.SERVER_VERSION
        case ["api"] | ["apis"]:
            return _top(registry, remote, parts[0], request)
        case ["api", version]:
            content = groups.resources(registry, "", version)
        case ["apis", group]:
            content = groups.group(registry, group, remote)
        case ["apis", group, version]:
            content = groups.resources(registry, group, version)
        case ["openapi", "v2"] if openapi.V2_PROTOBUF in request.headers.get("Accept", ""):
            # Its name as it is asked for is no valid Content-Type.
            media_type = openapi.V2_PROTOBUF.replace("@", ".")
            return Answer(200, openapi.V2_MESSAGE, media_type)
        case ["openapi", "v2"]:
            content = openapi.v2()
        case ["openapi", "v3"]:
            content = openapi.paths(registry)
            return Answer(200, media_types.Accepted().encode(content), "text/plain; charset=utf-8")
        case ["openapi", "v3", *path]:
            content = openapi.v3(registry, store, "/".join(path))
        case _:
            content = None
    return Answer(200, media_types.Accepted().encode(content)) if content is not None else None


def _top(registry: Registry, remote: Remotes, path: str, request: web.BaseRequest) -> Answer:
    """/api and /apis: one document with everything for those who ask for that form."""
    plain = False
    for media_type, parameters in media_types.choices(request.headers.get("Accept", "")):
        if parameters.get("as") == "APIGroupDiscoveryList":
            if parameters.get("v") == "v2":
                names = [""] if path == "api" else groups.group_names(registry)
                content = groups.aggregated(registry, names, remote if path == "apis" else {})
                return Answer(200, media_types.Accepted().encode(content), AGGREGATED)
        elif media_type in (media_types.JSON, "*/*", "application/*"):
            plain = True
            break
    if not plain:
        raise media_types.not_acceptable()
    content = groups.core_versions(request.host) if path == "api" else groups.groups(registry, remote)
    return Answer(200, media_types.Accepted().encode(content))
