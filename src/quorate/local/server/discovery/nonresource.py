"""Responses to non-resource paths: discovery, version, health, OpenAPI."""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final

import msgspec
from aiohttp import web
from multidict import MultiMapping

from quorate.api.limits import LARGE_BYTES
from quorate.local.objects.errors import method_not_allowed, no_such_resource
from quorate.local.server.discovery import groups, openapi, openapi_v2
from quorate.local.server.discovery.groups import RemoteGroups
from quorate.local.server.registry.kinds import Registry
from quorate.local.server.requests import media_types
from quorate.local.server.requests.responses import ApiResponse, Encoding
from quorate.local.server.storage.store import Store

PATHS: Final = ("healthz", "livez", "readyz")
TEXT: Final = "text/plain; charset=utf-8"

Check = Callable[[], bool]


class HealthChecks:
    """The health checks of a server by name: liveness checks, and further checks for readiness."""

    def __init__(self, living: Mapping[str, Check], ready: Mapping[str, Check]) -> None:
        self._checks = {"livez": living, "healthz": living, "readyz": {**living, **ready}}

    def names(self, path: str) -> tuple[str, ...]:
        return tuple(self._checks[path])

    def respond(self, path: str, query: MultiMapping[str]) -> ApiResponse:
        """Return the response of all checks; parameters are ``verbose`` and ``exclude``."""
        excluded = query.getall("exclude", [])
        lines, healthy = [], True
        for name, check in self._checks[path].items():
            if name in excluded:
                lines.append(f"[+]{name} excluded: ok")
            elif check():
                lines.append(f"[+]{name} ok")
            else:
                healthy = False
                lines.append(f"[-]{name} failed: reason withheld")
        if unknown := sorted({name for name in excluded if name not in self._checks[path]}):
            quoted = ", ".join(f'"{name}"' for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}")
        lines.append(f"{path} check {'passed' if healthy else 'failed'}")
        text = "ok" if healthy and "verbose" not in query else "".join(f"{line}\n" for line in lines)
        code = HTTPStatus.OK if healthy else HTTPStatus.INTERNAL_SERVER_ERROR
        return ApiResponse(code, text.encode(), TEXT)

    def respond_single(self, path: str, name: str) -> ApiResponse | None:
        """Return the response for a check by its name; None if no check has the name."""
        check = self._checks[path].get(name)
        if check is None:
            return None
        if check():
            return ApiResponse(HTTPStatus.OK, b"ok", TEXT)
        text = f"internal server error: {name} failed\n"
        return ApiResponse(HTTPStatus.INTERNAL_SERVER_ERROR, text.encode(), TEXT)


AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
NOT_FOUND = ApiResponse(404, b"404 page not found\n", "text/plain; charset=utf-8")


def respond(
    registry: Registry,
    store: Store,
    remote: RemoteGroups,
    health_checks: HealthChecks,
    request: web.BaseRequest,
) -> ApiResponse:
    """Return the response.

    Raises StatusError: 404 for a version that a built-in group does not have, 405 for a write, 406 for an
    unsupported media type.
    """
    parts = request.path.strip("/").split("/")
    match parts:
        case [path] if path in PATHS:
            response: ApiResponse | None = health_checks.respond(path, request.query)
        case [path, *name] if path in PATHS:
            response = health_checks.respond_single(path, "/".join(name))
        case _:
            response = _find_response(registry, store, remote, parts, request)
    if response is None:
        match parts:
            case ["api", _]:
                raise no_such_resource()
            case ["apis", group, _] if registry.has_group(group) and not registry.is_custom_group(group):
                raise no_such_resource()
        return NOT_FOUND
    if request.method not in ("GET", "HEAD"):
        raise method_not_allowed()
    return response


def _find_response(
    registry: Registry, store: Store, remote: RemoteGroups, parts: list[str], request: web.BaseRequest
) -> ApiResponse | None:
    content: dict[str, object] | None
    match parts:
        case ["version"]:
            content = groups.SERVER_VERSION
        case ["api"] | ["apis"]:
            return _root_discovery(registry, remote, parts[0], request)
        case ["api", version]:
            content = groups.resource_list(registry, "", version)
        case ["apis", group]:
            content = groups.api_group(registry, group, remote)
        case ["apis", group, version]:
            content = groups.resource_list(registry, group, version)
        case ["openapi", "v2"] if openapi_v2.PROTOBUF in request.headers.get("Accept", ""):
            # The media type in the request contains an @, which is not valid in a Content-Type.
            media_type = openapi_v2.PROTOBUF.replace("@", ".")
            kinds = tuple(registry)
            return _large_document(
                lambda: openapi_v2.to_protobuf(openapi_v2.document(kinds, store)), media_type
            )
        case ["openapi", "v2"]:
            kinds = tuple(registry)
            return _large_document(lambda: msgspec.json.encode(openapi_v2.document(kinds, store)))
        case ["openapi", "v3"]:
            content = openapi.openapi_v3_paths(registry)
            return ApiResponse(
                200, media_types.AcceptedMediaType().encode(content), "text/plain; charset=utf-8"
            )
        case ["openapi", "v3", *path]:
            if not (kinds := openapi.kinds_at(registry, "/".join(path))):
                return None
            return _large_document(lambda: msgspec.json.encode(openapi.openapi_v3(kinds, store)))
        case _:
            content = None
    return ApiResponse(200, media_types.AcceptedMediaType().encode(content)) if content is not None else None


def _large_document(encode: Callable[[], bytes], media_type: str = media_types.JSON) -> ApiResponse:
    """Return the response for a document of many schemas, which is made beside the event loop."""
    return ApiResponse(200, Encoding(LARGE_BYTES, encode), media_type)


def _root_discovery(
    registry: Registry, remote: RemoteGroups, path: str, request: web.BaseRequest
) -> ApiResponse:
    """Return /api or /apis; aggregated discovery if the Accept header prefers it."""
    plain = False
    for media_type, parameters in media_types.parse_accept(request.headers.get("Accept", "")):
        if parameters.get("as") == "APIGroupDiscoveryList":
            if parameters.get("v") == "v2":
                names = [""] if path == "api" else groups.group_names(registry)
                content = groups.aggregated_discovery(registry, names, remote if path == "apis" else {})
                return ApiResponse(200, media_types.AcceptedMediaType().encode(content), AGGREGATED)
        elif media_type in (media_types.JSON, "*/*", "application/*"):
            plain = True
            break
    if not plain:
        raise media_types.not_acceptable()
    content = groups.core_versions(request.host) if path == "api" else groups.group_list(registry, remote)
    return ApiResponse(200, media_types.AcceptedMediaType().encode(content))
