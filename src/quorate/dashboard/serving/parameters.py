"""Query parameters of requests, as the queries of the model."""

from collections.abc import Iterable
from typing import Final

import msgspec
from aiohttp import web

from quorate.api.quantity import InvalidQuantity, parse_quantity
from quorate.dashboard.history.series import RANGES, Range
from quorate.dashboard.limits import OFFSET_MAX, PAGE_MAX, PODS_MAX, RESOURCES_MAX, TEXT_MAX
from quorate.dashboard.queries import Gang, Q
from quorate.dashboard.responses import bad_request
from quorate.quota.amount import base_units

_NO_RESOURCES: Final = {"pods", "topology"}


def text(request: web.Request, name: str) -> str:
    value = request.query.get(name, "")
    if len(value) > TEXT_MAX:
        raise bad_request(f"{name}: {len(value)} characters, and at most {TEXT_MAX} are read")
    return value


def number(request: web.Request, name: str, default: int, most: int) -> int:
    value = text(request, name)
    if not value:
        return default
    if not value.isascii() or not value.isdecimal() or int(value[:9]) > most or len(value) > len(str(most)):
        raise bad_request(f"{name}: {value!r} is not a whole number from 0 to {most}")
    return int(value)


def range_(request: web.Request) -> Range:
    value = text(request, "range") or "hour"
    for name in RANGES:
        if value == name:
            return name
    raise bad_request(f"range: {value!r} is none of {', '.join(RANGES)}")


def list_query(request: web.Request, type_: type[Q], orders: Iterable[str]) -> Q:
    """Return the query of a list; ``orders`` are the values of its parameter ``sort``."""
    texts = {
        field.name: text(request, field.encode_name)
        for field in msgspec.structs.fields(type_)
        if field.type is str
    }
    sort = texts["sort"]
    if sort and sort.removeprefix("-") not in orders:
        raise bad_request(f"sort: {sort!r} is none of {', '.join(orders)}, each also with - before it")
    limit = min(PAGE_MAX, number(request, "limit", 100, 1_000_000))
    return type_(**texts, offset=number(request, "offset", 0, OFFSET_MAX), limit=limit)


def gang(request: web.Request) -> Gang | None:
    """Return the gang; parameters named by resources are what each pod requests.  None: no pods."""
    pods = number(request, "pods", 0, PODS_MAX)
    if not pods:
        return None
    requests: dict[str, int] = {}
    for name in sorted({*request.query} - _NO_RESOURCES):
        try:
            requests[name] = base_units(name, parse_quantity(text(request, name)))
        except InvalidQuantity as error:
            raise bad_request(f"{name}: {error.value!r} is not a quantity (write 4, 500m or 16Gi)") from error
        if requests[name] < 0:
            raise bad_request(f"{name}: a request is not below zero")
    if not requests or len(requests) > RESOURCES_MAX:
        raise bad_request(f"write what each pod requests, of 1 to {RESOURCES_MAX} resources, such as cpu=2")
    return Gang(pods, requests)
