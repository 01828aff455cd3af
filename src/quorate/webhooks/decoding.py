"""Decoding of the objects in admission reviews, each in a turn of its own on the event loop.

One object of the largest size is decoded within the time that the event loop may be blocked; two, or one that
is decoded for several purposes, are not.  So the loop does its other work before and after each.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from quorate.api import codec
from quorate.api.field_path import InvalidPath, look_up, parse_path
from quorate.api.findings import Finding
from quorate.api.limits import LARGE_BYTES
from quorate.kube.patches import json_patch
from quorate.kube.resources import Json
from quorate.webhooks.admission_review import ALLOWED, AdmissionRequest, AdmissionResponse

T = TypeVar("T")

_ANYTHING: Final[Any] = Any  # a type to decode as


async def decode_object(type_: type[T], body: msgspec.Raw) -> T:
    """Decode an object.  Raises ``msgspec.ValidationError``."""
    await yield_to_loop(body)
    try:
        decoded = codec.decode_as_given(type_, body)
    except msgspec.ValidationError:
        if not codec.has_nulls(body):
            raise
        await yield_to_loop(body)
        document = codec.decode_as_given(_ANYTHING, body)
        await yield_to_loop(body)
        present = codec.encode_without_nulls(document)
        await yield_to_loop(body)
        decoded = codec.decode_as_given(type_, present)
    await yield_to_loop(body)
    return decoded


async def decode_old(type_: type[T], request: AdmissionRequest) -> T | None:
    """Return the object before an update; None if it cannot be decoded: then it forbids no change."""
    try:
        return await decode_object(type_, request.old_object) if request.operation == "UPDATE" else None
    except msgspec.ValidationError:
        return None


async def defaulted(request: AdmissionRequest, default: Callable[[Json], Json]) -> AdmissionResponse:
    """Apply defaults; a malformed object is allowed, as its schema is checked afterwards."""
    try:
        document = await decode_object(dict[str, Any], request.object)
        return AdmissionResponse(patch=json_patch(document, default(document)))
    except (msgspec.ValidationError, AttributeError, KeyError, TypeError):
        return ALLOWED


async def refuse_undecodable(body: msgspec.Raw, error: msgspec.ValidationError) -> AdmissionResponse:
    """Return the response to an object that fits the schema but cannot be decoded."""
    problem, _, place = str(error).partition(" - at `$")
    path = place.strip("`.")
    try:
        value = look_up(await decode_object(_ANYTHING, body), parse_path(path))
    except InvalidPath:  # an unusual key, or the object as a whole
        value = None
    return AdmissionResponse((Finding(path, value, f"cannot be read: {problem}"),))


async def yield_to_loop(body: msgspec.Raw) -> None:
    """Let the event loop do its other work, if ``body`` is large."""
    if len(body) > LARGE_BYTES:
        await asyncio.sleep(0)
