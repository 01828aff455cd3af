"""Encoding of objects, patches and queries; large objects are encoded in a thread beside the event loop.

Pods and patches are made from what clients stored, and so may be as large as that.
"""

import asyncio
import functools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlencode

from quorate.api import codec
from quorate.api.integer_ranges import within_ranges
from quorate.api.limits import LARGE_BYTES, MANY_VALUES
from quorate.kube.resources import Body, Resource, metadata_of


async def encode_object(resource: Resource[Any], body: Body) -> bytes:
    """Return the JSON of an object with integers that the API stores."""
    return await _encoded(resource, body, partial(resource.encode, body))


async def encode_patch(resource: Resource[Any], patch: Mapping[str, Any] | Sequence[Any]) -> bytes:
    """Return the JSON of a patch of an object with integers that the API stores."""
    return await _encoded(resource, patch, partial(codec.encode, patch))


async def _encoded(resource: Resource[Any], value: object, encode: Callable[[], bytes]) -> bytes:
    encoded = await asyncio.to_thread(encode) if has_many_values(value) else encode()
    if len(encoded) > LARGE_BYTES:
        return await asyncio.to_thread(within_ranges, resource.type, encoded)
    return within_ranges(resource.type, encoded)


def has_many_values(value: object) -> bool:
    """Return True if maps and lists have more than ``MANY_VALUES`` entries; typed objects count as one."""
    remaining, pending = MANY_VALUES, [value]
    while pending:
        entries = pending.pop()
        if isinstance(entries, dict):
            entries = entries.values()
        elif not isinstance(entries, list | tuple):
            continue
        remaining -= len(entries)
        if remaining < 0:
            return True
        pending += [item for item in entries if isinstance(item, dict | list | tuple)]
    return False


def namespace_of(body: Body) -> str:
    """Return the namespace of an object; empty: it has none."""
    if isinstance(body, Mapping):
        namespace: str = body.get("metadata", {}).get("namespace", "")
        return namespace
    return metadata_of(body).namespace  # type: ignore[arg-type]


@functools.lru_cache(maxsize=64)
def encoded_query(query: tuple[tuple[str, str], ...]) -> str:
    """Return the query string; nearly all writes have the same one."""
    return urlencode(query)


def selectors_query(label_selector: str, field_selector: str) -> dict[str, str]:
    """Return the parameters of the selectors that are not empty."""
    both = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {name: value for name, value in both.items() if value}
