"""Conditions of objects that cannot be decoded, on the kinds that have a condition for it.

The informers do not show such an object to any controller, so no other component of the process writes the
condition meanwhile. Once the object can be decoded, the controller of its kind writes the condition as usual.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec

from quorate.api import codec
from quorate.api.kueue import UNREADABLE as UNREADABLE_WORKLOAD
from quorate.api.meta import ConditionStatus, Key
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.controller.latest import LatestValueWriter
from quorate.kube.errors import ApiError, Conflict
from quorate.kube.events import UNREADABLE
from quorate.kube.limits import MAX_FAULT_MESSAGE
from quorate.kube.log import logger
from quorate.kube.object_faults import ObjectFault
from quorate.kube.resources import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS, Json, Resource, untyped

_JSON: Final[Any] = dict[str, Any]  # a type to decode as


class FaultCondition(NamedTuple):
    """The condition that tells of a fault of an object of a kind."""

    type: str
    status: ConditionStatus
    subresource: str = "status"
    instead: str = ""
    """the condition with status True that is written if there is one of ``type`` with another status"""


OF_QUEUEING: Final[Mapping[Resource[Any], FaultCondition]] = {
    CLUSTER_QUEUES: FaultCondition("Active", "False"),
    LOCAL_QUEUES: FaultCondition("Active", "False"),
    # A workload with quota keeps it, which the condition goes on to say.
    WORKLOADS: FaultCondition("QuotaReserved", "False", instead=UNREADABLE_WORKLOAD),
}


class FaultConditionWriter:
    """Writes the conditions in ``conditions`` on objects that ``report_fault`` gets a fault of."""

    def __init__(
        self, client: Client, clock: Clock, conditions: Mapping[Resource[Any], FaultCondition]
    ) -> None:
        self._client = client
        self._clock = clock
        self._conditions = {
            (resource.group, resource.plural): condition for resource, condition in conditions.items()
        }
        self._writers = {
            kind: LatestValueWriter(f"conditions of unreadable {kind[1]}", self._write, clock, workers=1)
            for kind in self._conditions
        }
        self._log = logger(__name__)

    @property
    def writers(self) -> tuple[LatestValueWriter[ObjectFault], ...]:
        """The writers to run."""
        return tuple(self._writers.values())

    def report_fault(self, fault: ObjectFault) -> None:
        """Write the condition of an object that cannot be decoded."""
        writer = self._writers.get((fault.resource.group, fault.resource.plural))
        if writer is not None and fault.stage == "decode" and not fault.deleted:
            writer.put(fault.key, fault)

    async def _write(self, key: Key, fault: ObjectFault) -> None:
        resource = fault.resource
        wanted = self._conditions[resource.group, resource.plural]
        moment = datetime.fromtimestamp(self._clock.now(), UTC).replace(microsecond=0)
        conditions = conditions_with_fault(fault, wanted, codec.encode(moment).decode().strip('"'))
        if conditions is None:
            return
        raw = untyped(resource.group, resource.version, resource.plural, resource.kind, resource.namespaced)
        body = {"metadata": {"resourceVersion": fault.resource_version}, "status": {"conditions": conditions}}
        try:
            await self._client.patch(raw, key, body, subresource=wanted.subresource)
        except Conflict:
            return  # the newer version is read, or has a fault of its own
        except ApiError as error:  # the definition may refuse any change of the object
            self._log.warning("condition not written", kind=resource.kind, key=key, problem=str(error))


def conditions_with_fault(fault: ObjectFault, wanted: FaultCondition, now: str) -> list[Json] | None:
    """Return the conditions of an object with the condition of ``fault``; None if nothing changes."""
    try:
        status = codec.decode_as_given(_JSON, fault.raw).get("status") or {}
        conditions = list(status.get("conditions") or ())
        types = [condition["type"] for condition in conditions]
        at = types.index(wanted.type) if wanted.type in types else len(types)
        old = conditions[at] if at < len(conditions) else {}
        same = old.get("status") == wanted.status
    except (msgspec.DecodeError, AttributeError, KeyError, TypeError):
        return None  # other parts cannot be read either, and would be lost
    if old and not same and wanted.instead:
        return conditions_with_fault(fault, FaultCondition(wanted.instead, "True"), now)
    new = {
        "type": wanted.type,
        "status": wanted.status,
        "reason": UNREADABLE,
        "message": f"left out of all decisions: {fault.problem}"[:MAX_FAULT_MESSAGE],
        "lastTransitionTime": old.get("lastTransitionTime", now) if same else now,
    }
    if all(old.get(name) == value for name, value in new.items()):
        return None
    return [*conditions[:at], new, *conditions[at + 1 :]]
