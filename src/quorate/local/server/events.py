"""One event, two forms: core/v1 names its fields otherwise than events.k8s.io/v1 does."""

from collections.abc import Sequence
from typing import Any

Json = dict[str, Any]

CORE_NAMES = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
NEW_NAMES = {core: new for new, core in CORE_NAMES.items()}
STORED_ALWAYS: Json = {
    "involvedObject": {},
    "source": {},
    "reportingComponent": "",
    "reportingInstance": "",
}
LEFT_OUT_WHEN_EMPTY = ("reportingController", "reportingInstance", "regarding")


async def convert(events: Sequence[Json], to_stored: bool) -> list[Json]:
    """Events are stored in the core form."""
    return [_converted(event, to_stored) for event in events]


def _converted(event: Json, to_stored: bool) -> Json:
    names = CORE_NAMES if to_stored else NEW_NAMES
    renamed = {names.get(name, name): value for name, value in event.items()}
    if to_stored:
        return STORED_ALWAYS | renamed
    return {name: value for name, value in renamed.items() if value or name not in LEFT_OUT_WHEN_EMPTY}
