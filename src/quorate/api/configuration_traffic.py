"""The fields of Configuration about how much the process does at once, and how fast it asks.

Without them nothing is held back but by what the API server itself admits (its priority and fairness).
"""

import re
from typing import Final

import msgspec

from quorate.api.strict import Place, Section, duration, integer, map_of, number

_KIND: Final = re.compile(r"[A-Z][A-Za-z0-9]*(?:\.[a-z0-9][-a-z0-9.]*)?")


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """At most ``per_second`` requests in the long run, ``burst`` of them at once."""

    per_second: float
    burst: int


class Controllers(msgspec.Struct, frozen=True, kw_only=True):
    workers: dict[str, int] = {}  # by ``Kind.group``, or ``Kind`` of the core group
    sync_within_s: float | None = None  # to list everything at the start; None: as long as it takes

    def workers_for(self, kind: str, group: str, default: int) -> int:
        """How many objects of a kind are worked on at once."""
        return self.workers.get(f"{kind}.{group}" if group else kind, default)


def pace(fields: Section) -> Pace | None:
    """None without a limit: a rate that is left out, 0 or negative, as Kueue has it."""
    per_second = fields.take("qps", number, 0.0)
    burst = fields.take("burst", integer(), 0)
    if per_second <= 0:
        return None
    fields.at("qps").warn("holds back the controllers (leave it out: the API server sets the pace by itself)")
    return Pace(per_second=per_second, burst=max(burst, 1))


def controllers(fields: Section) -> Controllers:
    return Controllers(
        workers=fields.take("groupKindConcurrency", _workers, {}),
        sync_within_s=fields.take("cacheSyncTimeout", duration(above=True), None),
    )


def _workers(place: Place) -> dict[str, int]:
    found = map_of(integer(least=1))(place)
    for key in found:
        if _KIND.fullmatch(key) is None:
            place.entry(key).refuse("is under no kind (write Kind.group, such as Job.batch, or Pod)")
    return found
