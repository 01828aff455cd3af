"""Conversion of custom resources between versions, and of events between their two API groups.

A definition with the strategy Webhook is converted by its webhook.  Any other uses the converter that the
server was configured with for the group; without one, only the apiVersion changes.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from quorate.api.codec import Json
from quorate.api.meta import Struct
from quorate.local.objects.crd.definition import Definition
from quorate.local.objects.errors import internal
from quorate.local.server.admission_rules.webhooks import REVIEW_VERSIONS
from quorate.local.server.backend_client import BackendClient, BackendUnreachable

Converter = Callable[[Json, str], Json]
"""Returns an object in the given apiVersion."""
ConvertAll = Callable[[Sequence[Json], str], Awaitable[list[Json]]]
"""The same for a list of objects; may call a webhook."""

TIMEOUT_S = 30.0
BATCH_BYTES = 2**20
MUTABLE_METADATA = ("labels", "annotations")
"""The metadata that a webhook may convert."""
IMMUTABLE_METADATA = ("name", "namespace", "uid")


class _Result(Struct):
    status: str = ""
    message: str = ""


class _Response(Struct):
    uid: str = ""
    converted_objects: tuple[dict[str, Any], ...] = ()
    result: _Result = _Result()


class _Review(Struct):
    response: _Response | None = None


def converter_for(
    definition: Definition,
    converters: Mapping[str, Converter],
    backends: BackendClient,
    new_uid: Callable[[], str],
) -> ConvertAll:
    """Return the conversion of a definition.  ``converters``: by API group."""
    if definition.conversion["strategy"] == "Webhook":
        webhook, kind = definition.conversion["webhook"], f"{definition.group}, Kind={definition.kind}"
        return lambda objects, version: _convert_in_batches(
            objects, lambda batch: _call_webhook(backends, webhook, kind, new_uid(), batch, version)
        )
    return _convert_each(converters.get(definition.group, set_api_version))


def set_api_version(obj: Json, api_version: str) -> Json:
    """Convert with the strategy None: only the apiVersion changes."""
    return obj | {"apiVersion": api_version}


def _convert_each(converter: Converter) -> ConvertAll:
    async def convert(objects: Sequence[Json], api_version: str) -> list[Json]:
        return [converter(obj, api_version) for obj in objects]

    return convert


async def _convert_in_batches(
    objects: Sequence[Json], convert: Callable[[Sequence[Json]], Awaitable[list[Json]]]
) -> list[Json]:
    """Convert ``objects`` in requests of at most ``BATCH_BYTES``; a larger object is sent alone."""
    converted: list[Json] = []
    batch: list[Json] = []
    size = 0
    for obj in objects:
        size += len(msgspec.json.encode(obj))
        if batch and size > BATCH_BYTES:
            converted += await convert(batch)
            batch, size = [], len(msgspec.json.encode(obj))
        batch.append(obj)
    return converted + (await convert(batch) if batch else [])


async def _call_webhook(
    backends: BackendClient, webhook: Json, kind: str, uid: str, objects: Sequence[Json], api_version: str
) -> list[Json]:
    """Convert objects by one request to a conversion webhook.  Raises StatusError(500)."""
    version = next(
        candidate for candidate in webhook["conversionReviewVersions"] if candidate in REVIEW_VERSIONS
    )
    review = {
        "kind": "ConversionReview",
        "apiVersion": f"apiextensions.k8s.io/{version}",
        "request": {"uid": uid, "desiredAPIVersion": api_version, "objects": objects},
    }
    failed = f"conversion webhook for {kind} failed"
    try:
        backend = backends.resolve(webhook["clientConfig"])
        content = await backends.post(backend, msgspec.json.encode(review), TIMEOUT_S)
        response = msgspec.json.decode(content, type=_Review).response
    except (BackendUnreachable, msgspec.DecodeError) as error:
        raise internal(f"{failed}: {error}") from error
    if response is None or response.uid != uid:
        raise internal(f'{failed}: expected response.uid="{uid}"')
    if response.result.status != "Success":
        raise internal(f"{failed}: {response.result.message or 'response.result.status was not Success'}")
    if len(response.converted_objects) != len(objects):
        count = len(response.converted_objects)
        raise internal(f"{failed}: expected {len(objects)} converted objects, got {count}")
    return [
        _check_converted(new, old, api_version, failed)
        for new, old in zip(response.converted_objects, objects, strict=True)
    ]


def _check_converted(new: Json, old: Json, api_version: str, failed: str) -> Json:
    """Check a converted object and restore the metadata that must not change.  Raises StatusError(500)."""
    metadata = new.get("metadata") or {}
    if (new.get("apiVersion"), new.get("kind")) != (api_version, old["kind"]):
        got = f"{new.get('apiVersion')}, Kind={new.get('kind')}"
        raise internal(f"{failed}: expected {api_version}, Kind={old['kind']}, got {got}")
    for field in IMMUTABLE_METADATA:
        if metadata.get(field) != old["metadata"].get(field):
            raise internal(f"{failed}: must have the same {field}: {metadata.get(field)}")
    kept = {name: value for name, value in old["metadata"].items() if name not in MUTABLE_METADATA}
    return new | {
        "metadata": kept | {name: metadata[name] for name in MUTABLE_METADATA if metadata.get(name)}
    }


CORE_FIELDS = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
EVENTS_V1_FIELDS = {core: new for new, core in CORE_FIELDS.items()}
CORE_EVENT_DEFAULTS: Json = {
    "involvedObject": {},
    "source": {},
    "reportingComponent": "",
    "reportingInstance": "",
}
OMITTED_WHEN_EMPTY = ("reportingController", "reportingInstance", "regarding")


async def convert_events(events: Sequence[Json], to_stored: bool) -> list[Json]:
    """Convert events between core/v1, in which they are stored, and events.k8s.io/v1."""
    return [_convert_event(event, to_stored) for event in events]


def _convert_event(event: Json, to_stored: bool) -> Json:
    names = CORE_FIELDS if to_stored else EVENTS_V1_FIELDS
    renamed = {names.get(name, name): value for name, value in event.items()}
    if to_stored:
        return CORE_EVENT_DEFAULTS | renamed
    return {name: value for name, value in renamed.items() if value or name not in OMITTED_WHEN_EMPTY}
