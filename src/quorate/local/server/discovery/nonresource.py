"""Responses to non-resource paths: discovery, version, health, OpenAPI."""

from collections.abc import Callable

import msgspec
from aiohttp import web

from quorate.api.limits import LARGE_BYTES
from quorate.local.server.discovery import groups, health, openapi, openapi_v2
from quorate.local.server.discovery.groups import RemoteGroups
from quorate.local.server.errors import method_not_allowed
from quorate.local.server.registry.kinds import Registry
from quorate.local.server.requests import media_types
from quorate.local.server.requests.responses import ApiResponse, Encoding
from quorate.local.server.storage.store import Store

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
NOT_FOUND = ApiResponse(404, b"404 page not found\n", "text/plain; charset=utf-8")


def respond(
    registry: Registry,
    store: Store,
    remote: RemoteGroups,
    health_checks: health.HealthChecks,
    request: web.BaseRequest,
) -> ApiResponse:
    """Return the response.

    Raises StatusError: 405 for a write, 406 for an unsupported media type.
    """
    parts = request.path.strip("/").split("/")
    match parts:
        case [path] if path in health.PATHS:
            found: ApiResponse | None = health_checks.respond(path, request.query)
        case [path, *name] if path in health.PATHS:
            found = health_checks.respond_single(path, "/".join(name))
        case _:
            found = _find_response(registry, store, remote, parts, request)
    if found is None:
        return NOT_FOUND
    if request.method not in ("GET", "HEAD"):
        raise method_not_allowed()
    return found


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
