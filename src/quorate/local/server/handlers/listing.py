"""GET: one object, or a list with selectors, pages and a resource version."""

import base64
import binascii

import msgspec

from quorate.local.objects import errors
from quorate.local.server import parameters
from quorate.local.server.requests import responses, selectors
from quorate.local.server.requests.context import RequestContext, invalid_options
from quorate.local.server.requests.responses import ApiResponse, Page
from quorate.local.server.storage.store import Entry, Key, RevisionCompacted

OPTIONS = "ListOptions"
MATCH = "resourceVersionMatch"
EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new"
    " list without the continue parameter, or use the continue token in this response to retrieve the"
    " remainder of the results. Continuing with the provided token results in an inconsistent list - objects"
    " that were created, modified, or deleted between the time the first chunk was returned and now may"
    " show up in the list."
)


async def get(context: RequestContext) -> ApiResponse:
    """Return the object; the requested resourceVersion is a lower bound.  Raises StatusError: 500, 504."""
    version = context.query.get("resourceVersion", "")
    try:
        _refuse_future(context, parse_resource_version(version))
    except errors.StatusError as error:
        raise errors.internal(error.message) if error.code == 400 else error from error
    return responses.stored_object(context, await context.current())


async def list_objects(context: RequestContext) -> ApiResponse:
    check_list_options(context)
    return responses.object_list(context, await list_page(context))


def check_list_options(context: RequestContext) -> None:
    """Check the combination of list options.  Raises StatusError: 400, 422."""
    for name in ("limit", "timeoutSeconds"):
        parameters.integer(context.query, name)
    match, version = context.query.get(MATCH, ""), context.query.get("resourceVersion", "")
    rules = (
        (match and not version, "is forbidden unless resourceVersion is provided"),
        (match and context.query.get("continue"), "is forbidden when continue is provided"),
        (match == "Exact" and version == "0", '"exact" is forbidden for resourceVersion "0"'),
    )
    findings = [errors.forbidden_field(MATCH, f"{MATCH} {rule}") for is_broken, rule in rules if is_broken]
    if match not in ("", "Exact", "NotOlderThan"):
        findings.append(errors.not_supported(MATCH, match, ["Exact", "NotOlderThan", ""]))
    if "sendInitialEvents" in context.query:
        findings.append(
            errors.forbidden_field("sendInitialEvents", "sendInitialEvents is forbidden for list")
        )
    selectors.parse(context.kind, context.query.get("labelSelector", ""), "")
    if findings:
        raise invalid_options(OPTIONS, findings)


def parse_resource_version(text: str) -> int:
    """Return a resourceVersion as a revision; 0 if it is empty.  Raises StatusError(400)."""
    try:
        return parameters.unsigned(text or "0")
    except ValueError as error:
        raise errors.bad_request(f'resourceVersion: Invalid value: "{text}": {error}') from error


async def list_page(context: RequestContext) -> Page:
    """Return the selected objects, one page at a time, for a list or a deletion of a collection."""
    labels, fields = context.query.get("labelSelector", ""), context.query.get("fieldSelector", "")
    selector = selectors.parse(context.kind, labels, fields)
    limit, token = _limit(context), context.query.get("continue", "")
    if token:
        if context.query.get("resourceVersion", "0") not in ("", "0"):
            raise errors.bad_request("specifying resource version is not allowed when using continue")
        revision, start = _decode_token(token)
        stored = [
            entry for entry in _entries_at(context, revision, _token_expired(start)) if entry.key >= start
        ]
    else:
        revision = _exact_revision(context)
        stored = _entries_at(
            context,
            revision,
            errors.resource_expired("The resourceVersion for the provided list is too old."),
        )
    revision = revision or context.server.store.revision
    # Field selectors need the requested version; without them only the selected page is converted.
    entries = await context.kind.from_storage(stored) if selector.fields else stored
    matching = [entry for entry in entries if selector.matches(entry)]
    selected = matching[:limit] if limit else matching
    page = selected if selector.fields else await context.kind.from_storage(selected)
    if len(page) == len(matching):
        return Page(page, revision)
    following = _encode_token(revision, matching[limit].key)
    # As in kube-apiserver, no count of remaining items with a selector.
    remaining = None if labels or fields else len(matching) - limit
    return Page(page, revision, following, remaining)


def _entries_at(context: RequestContext, at: int, too_old: errors.StatusError) -> list[Entry]:
    """Return the objects at a revision, or the latest ones for 0.  Raises ``too_old``."""
    store, resource = context.server.store, context.kind.resource
    if not at:
        return store.entries(resource, context.namespace)
    try:
        return store.entries_at(at, resource, context.namespace)
    except RevisionCompacted as compacted:
        raise too_old from compacted


def _limit(context: RequestContext) -> int:
    """Return the objects of a page; 0 for all, as in a list at any revision, which a cache answers."""
    limit = max(parameters.integer(context.query, "limit") or 0, 0)
    return 0 if context.query.get("resourceVersion") == "0" else limit


def _exact_revision(context: RequestContext) -> int:
    """Return the exact revision to list, or 0 for the latest.  Raises StatusError(504) for a future one."""
    revision = parse_resource_version(context.query.get("resourceVersion", ""))
    _refuse_future(context, revision)
    return revision if context.query.get(MATCH) == "Exact" else 0


def _refuse_future(context: RequestContext, revision: int) -> None:
    """Refuse a revision that has not been written.  Raises StatusError(504)."""
    current = context.server.store.revision
    if revision > current:
        message = f"Too large resource version: {revision}, current: {current}"
        cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
        raise errors.StatusError(504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": 1})


def _encode_token(revision: int, start: Key) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode([revision, *start])).decode().rstrip("=")


def _decode_token(token: str) -> tuple[int, Key]:
    """Return the revision (0: the latest) and start key of a continue token.  Raises StatusError(400)."""
    try:
        content = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        revision, resource, namespace, name = msgspec.json.decode(content, type=tuple[int, str, str, str])
    except (binascii.Error, ValueError, msgspec.DecodeError) as error:
        raise errors.bad_request(f"continue key is not valid: {error}") from error
    return revision, Key(resource, namespace, name)


def _token_expired(start: Key) -> errors.StatusError:
    """Return the error for an expired token, with a token that continues at the latest revision."""
    error = errors.resource_expired(EXPIRED)
    error.metadata = {"continue": _encode_token(0, start)}
    return error
