"""ResourceQuotas: what a namespace may hold, charged when an object is created.

The used amounts are in the quota's status, where each creation adds its own by compare-and-swap; a controller
recounts them when objects go.  A quota counts once that controller has shown its limits in its status.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from quorate.api import codec
from quorate.api.core import Pod, ResourceQuotaSpec, Resources
from quorate.api.quantity import parse_quantity
from quorate.local.resource_quota import has_scopes, matches_scopes, quota_usage
from quorate.local.server.errors import StatusError, forbidden
from quorate.local.server.requests.context import Call
from quorate.local.server.storage.store import Entry, Stale

Json = dict[str, Any]

MUST_BE_SAID = ("cpu", "memory")
"""A limit on these means that every container says what it asks for."""


async def charge(call: Call, obj: Json, dry_run: bool) -> None:
    """Take what a new object uses from every quota of its namespace.

    Raises StatusError(403) if one has not enough left, and for a pod that does not say what it asks for.
    """
    for entry in call.context.store.entries("resourcequotas", call.namespace) if call.namespace else ():
        current: Entry | None = entry
        while current is not None:
            charged = _charged(call, obj, current)
            if charged is None or dry_run:
                break
            try:
                await call.context.store.update(entry.key, charged, current.revision)
                break
            except Stale as stale:
                current = stale.current


def _charged(call: Call, obj: Json, entry: Entry) -> Json | None:
    """The quota with the object's use added; None if it uses nothing of what is limited."""
    quota = entry.decode()
    status: Json = quota.get("status", {})
    limits, used = amounts(status.get("hard", {})), amounts(status.get("used", {}))
    if not _counts(codec.decode(ResourceQuotaSpec, msgspec.json.encode(quota.get("spec", {}))), call, obj):
        return None
    wanted = {name: amount for name, amount in _use(call, obj, limits).items() if amount}
    if not wanted:
        return None
    if call.kind.resource == "pods":
        silent = list(_silent(obj["spec"], limits))
        if silent:
            why = f"failed quota: {entry.key.name}: must specify {'; '.join(silent)}"
            raise _refusal(call, obj, why)
    total = {name: amount + used[name] if name in used else amount for name, amount in wanted.items()}
    exceeded = sorted(name for name in total if limits[name] < total[name])
    if exceeded:
        listed = [_listed(exceeded, source) for source in (wanted, used, limits)]
        why = "exceeded quota: {}, requested: {}, used: {}, limited: {}".format(entry.key.name, *listed)
        raise _refusal(call, obj, why)
    status["used"] = {name: str(amount) for name, amount in (used | total).items()}
    return quota


def _counts(spec: ResourceQuotaSpec, call: Call, obj: Json) -> bool:
    """Whether the quota is about the object at all; one with scopes is about pods only."""
    if not has_scopes(spec):
        return True
    if call.kind.resource != "pods":
        return False
    return matches_scopes(spec, codec.decode(Pod, msgspec.json.encode(obj)))


def amounts(written: dict[str, str]) -> Resources:
    return {name: parse_quantity(amount) for name, amount in written.items()}


def _use(call: Call, obj: Json, limited: Iterable[str]) -> Resources:
    pods = [codec.decode(Pod, msgspec.json.encode(obj))] if call.kind.resource == "pods" else []
    return quota_usage(limited, pods, {call.kind.resource: 1})


def _silent(spec: Json, limited: Iterable[str]) -> Iterator[str]:
    """What is limited and left unsaid, with the containers that leave it."""
    containers = [*spec["containers"], *spec.get("initContainers", ())]
    for name in sorted(limited):
        kind, _, resource = name.rpartition(".")
        if resource in MUST_BE_SAID and kind in ("", "requests", "limits"):
            said = kind or "requests"
            missing = [c["name"] for c in containers if resource not in c["resources"].get(said, {})]
            if missing:
                yield f"{name} for: {','.join(missing)}"


def _listed(names: Iterable[str], source: Resources) -> str:
    return ",".join(f"{name}={source.get(name, 0)}" for name in names)


def _refusal(call: Call, obj: Json, why: str) -> StatusError:
    return forbidden(call.kind.group, call.kind.plural, obj["metadata"]["name"], why)
