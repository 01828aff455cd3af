"""GET: one object, or a list with selectors, paging and a version to look at."""

import base64
import binascii
from typing import Any

import msgspec

from quorate.local.server.errors import Cause, StatusError, bad_request, forbidden_field, gone, not_supported
from quorate.local.server.requests import responses, selectors
from quorate.local.server.requests.context import Call, invalid_options
from quorate.local.server.requests.responses import Answer, Page
from quorate.local.server.storage.store import Compacted, Entry, Key

Json = dict[str, Any]

OPTIONS = "ListOptions"
EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new"
    " list without the continue parameter, or use the continue token in this response to retrieve the"
    " remainder of the results. Continuing with the provided token results in an inconsistent list - objects"
    " that were created, modified, or deleted between the time the first chunk was returned and now may"
    " show up in the list."
)


async def get(call: Call) -> Answer:
    return responses.stored(call, await call.current())


async def list_objects(call: Call) -> Answer:
    check_options(call)
    return responses.listed(call, await page(call))


def check_options(call: Call) -> None:
    """Raises StatusError(422) for combinations that mean nothing."""
    match, version = call.query.get("resourceVersionMatch", ""), call.query.get("resourceVersion", "")
    findings: list[Cause] = []
    if match and not version:
        findings.append(
            forbidden_field(
                "resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided"
            )
        )
    if match and call.query.get("continue"):
        findings.append(
            forbidden_field(
                "resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided"
            )
        )
    if match not in ("", "Exact", "NotOlderThan"):
        findings.append(not_supported("resourceVersionMatch", match, ["Exact", "NotOlderThan", ""]))
    if match == "Exact" and version == "0":
        findings.append(
            forbidden_field(
                "resourceVersionMatch", 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            )
        )
    if "sendInitialEvents" in call.query:
        findings.append(forbidden_field("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if findings:
        raise invalid_options(OPTIONS, findings)


def revision_of(text: str) -> int:
    """A resourceVersion as a revision; 0 for none.  Raises StatusError(400)."""
    if not text:
        return 0
    if not text.isdecimal():
        raise bad_request(
            f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        )
    return int(text)


async def page(call: Call) -> Page:
    """The objects a list or a collection's deletion is about, as many as asked for."""
    labels, fields = call.query.get("labelSelector", ""), call.query.get("fieldSelector", "")
    selector = selectors.parse(call.kind, labels, fields)
    limit, token = _limit(call), call.query.get("continue", "")
    if token:
        at, start = _decode_token(token)
        found = [entry for entry in _entries(call, at, _expired(start)) if entry.key >= start]
    else:
        at = _revision_to_list_at(call)
        found = _entries(call, at, gone("The resourceVersion for the provided list is too old."))
    revision = at or call.context.store.revision
    # Fields are selected in the version asked for; what is not selected by its labels need not be converted.
    entries = await call.kind.served(found) if selector.fields else found
    chosen = [entry for entry in entries if selector.matches(entry)]
    page = chosen[:limit] if limit else chosen
    shown = page if selector.fields else await call.kind.served(page)
    if len(shown) == len(chosen):
        return Page(shown, revision)
    following = _encode_token(revision, chosen[limit].key)
    # How many are left is not counted when most of them may not match.
    remaining = None if labels or fields else len(chosen) - limit
    return Page(shown, revision, following, remaining)


def _entries(call: Call, at: int, too_old: StatusError) -> list[Entry]:
    """The objects as they were at a revision; as they are now for 0.  Raises ``too_old``."""
    store, resource = call.context.store, call.kind.resource
    if not at:
        return store.entries(resource, call.namespace)
    try:
        return store.entries_at(at, resource, call.namespace)
    except Compacted as compacted:
        raise too_old from compacted


def _limit(call: Call) -> int:
    text = call.query.get("limit") or "0"
    if not text.removeprefix("-").isdecimal():
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return max(int(text), 0)


def _revision_to_list_at(call: Call) -> int:
    """The one revision asked for; 0 when the newest will do.  Raises StatusError(504) for the future."""
    revision = revision_of(call.query.get("resourceVersion", ""))
    current = call.context.store.revision
    if revision > current:
        message = f"Too large resource version: {revision}, current: {current}"
        cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
        raise StatusError(504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": 1})
    return revision if call.query.get("resourceVersionMatch") == "Exact" else 0


def _encode_token(revision: int, start: Key) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode([revision, *start])).decode().rstrip("=")


def _decode_token(token: str) -> tuple[int, Key]:
    """The revision a list goes on in (0: whatever is there by now), and where.  Raises StatusError(400)."""
    try:
        content = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        revision, resource, namespace, name = msgspec.json.decode(content, type=tuple[int, str, str, str])
    except (binascii.Error, ValueError, msgspec.DecodeError) as error:
        raise bad_request(f"continue key is not valid: {error}") from error
    return revision, Key(resource, namespace, name)


def _expired(start: Key) -> StatusError:
    """The refusal of an old continue token, with one that goes on in the present."""
    error = gone(EXPIRED)
    error.metadata = {"continue": _encode_token(0, start)}
    return error
