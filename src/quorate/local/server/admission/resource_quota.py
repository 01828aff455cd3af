"""Admission plugin ResourceQuota: charge the quotas of a namespace when objects are created or use more.

The used amounts are in the status of the quota, which each charge updates by compare-and-swap.  A
controller recomputes them when objects are deleted or use less.  A quota is enforced once that controller
has set its status.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from quorate.api import codec
from quorate.api.codec import Json
from quorate.api.core import Pod, ResourceQuotaSpec, Resources
from quorate.api.quantity import Quantity, parse_quantity
from quorate.local.resource_quota import (
    CLAIMS,
    counted_by,
    limited_usage,
    object_amounts,
    object_usage,
    pod_usage,
)
from quorate.local.server.registry.defaults.pod_resources import is_pod_level
from quorate.local.server.requests.context import RequestContext
from quorate.local.server.storage.store import Entry, StaleRevision

REQUIRED_IN_CONTAINERS = ("cpu", "memory")
"""If a quota limits these, every container must specify them."""
CHANGING_USAGE = {"services": ("",), CLAIMS: ("", "status")}
"""By kind besides pods, the subresources of which an update may change what an object uses."""
NONE = Quantity(0)


async def charge_quota(context: RequestContext, obj: Json, dry_run: bool, old: Json | None = None) -> None:
    """Charge an object to every quota of its namespace: a new object, or what an update of ``old`` adds.

    Raises StatusError(403) if a quota would be exceeded, or if a pod does not specify a limited resource.
    """
    if not context.namespace or (old is not None and not _may_use_more(context, obj, old)):
        return
    store, resource = context.server.store, context.kind.resource
    all_quotas = store.usable("resourcequotas", _read_quota, "ResourceQuota", context.namespace)
    quotas = [quota for quota in all_quotas if counted_by(quota.scopes, resource, obj)]
    if resource == "pods":
        for quota in quotas:
            _require_specified(context, obj, quota)
    charges = [
        (quota, _charged(context, obj, old, quota)) for quota in quotas
    ]  # all fit before one is written
    for quota, charged in () if dry_run else charges:
        current, updated = quota, charged
        while updated is not None:
            try:
                await store.update(current.entry.key, updated, current.entry.revision)
                break
            except StaleRevision as stale:
                if stale.current is None:
                    break
                current = _read_quota(stale.current)
                updated = _charged(context, obj, old, current)


@dataclass(frozen=True, slots=True)
class _Quota:
    entry: Entry
    document: Json
    limits: Resources
    used: Resources
    scopes: ResourceQuotaSpec


def _read_quota(entry: Entry) -> _Quota:
    document = entry.decode()
    status = document.get("status", {})
    limits, used = parse_amounts(status.get("hard", {})), parse_amounts(status.get("used", {}))
    scopes = {key: value for key, value in document["spec"].items() if key != "hard"}
    return _Quota(entry, document, limits, used, codec.convert(ResourceQuotaSpec, scopes))


def _may_use_more(context: RequestContext, new: Json, old: Json) -> bool:
    """Return True for an update that may change the usage of an object, or the quotas that count it."""
    if context.kind.resource != "pods":
        return context.info.subresource in CHANGING_USAGE.get(context.kind.resource, ())
    if context.info.subresource:
        return context.info.subresource == "resize"
    return ("activeDeadlineSeconds" in new["spec"]) != ("activeDeadlineSeconds" in old["spec"])


def _charged(context: RequestContext, obj: Json, old: Json | None, quota: _Quota) -> Json | None:
    """Return the quota with the added usage of the object; None if it uses no more limited resources."""
    name, limits, used = quota.entry.key.name, quota.limits, quota.used
    is_counted = old is not None and counted_by(quota.scopes, context.kind.resource, old)
    before = _requested(context, old, limits) if old is not None and is_counted else {}
    added = {
        name: amount - before.get(name, NONE) for name, amount in _requested(context, obj, limits).items()
    }
    requested = {name: amount for name, amount in added.items() if amount > NONE}
    if not requested:
        return None
    new_used = {name: amount + used[name] if name in used else amount for name, amount in requested.items()}
    exceeded = sorted(resource for resource in new_used if limits[resource] < new_used[resource])
    if exceeded:
        texts = [_format_amounts(exceeded, source) for source in (requested, used, limits)]
        message = "exceeded quota: {}, requested: {}, used: {}, limited: {}".format(name, *texts)
        raise context.forbidden(obj, message)
    new_status = quota.document["status"] | {
        "used": {resource: str(amount) for resource, amount in (used | new_used).items()}
    }
    return quota.document | {"status": new_status}


def parse_amounts(amounts: dict[str, str]) -> Resources:
    return {name: parse_quantity(amount) for name, amount in amounts.items()}


def _requested(context: RequestContext, obj: Json, limited: Iterable[str]) -> Resources:
    resource = context.kind.resource
    if resource == "pods":
        return limited_usage(limited, [pod_usage(codec.convert(Pod, obj))])
    return limited_usage(limited, [object_usage(resource), object_amounts(resource, obj)])


def _require_specified(context: RequestContext, pod: Json, quota: _Quota) -> None:
    unspecified = list(_unspecified(pod["spec"], quota.limits))
    if unspecified:
        message = f"failed quota: {quota.entry.key.name}: must specify {'; '.join(unspecified)}"
        raise context.forbidden(pod, message)


def _unspecified(spec: Json, limited: Iterable[str]) -> Iterator[str]:
    """Yield each limited resource that containers do not specify, with the containers.

    Containers of a pod with pod-level amounts need not specify any.
    """
    if any(is_pod_level(name) for side in (spec.get("resources") or {}).values() for name in side):
        return
    containers = [*spec["containers"], *spec.get("initContainers", ())]
    for name in sorted(limited):
        kind, _, resource = name.rpartition(".")
        if resource in REQUIRED_IN_CONTAINERS and kind in ("", "requests", "limits"):
            side = kind or "requests"
            missing = [c["name"] for c in containers if resource not in c["resources"].get(side, {})]
            if missing:
                yield f"{name} for: {','.join(missing)}"


def _format_amounts(names: Iterable[str], source: Resources) -> str:
    return ",".join(f"{name}={source.get(name, 0)}" for name in names)
