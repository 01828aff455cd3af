"""Validation of Volcano queues beyond the schema of their CRD.

A queue is validated by itself and within its hierarchy. An update is validated only as far as it changes the
queue, so that objects stored before a rule existed, or before another queue changed, stay editable.

Source: Volcano (1.15). A parent grants its children only resources that it lists. The queue ``root``, the
ancestor of all queues, grants unlimited amounts.
"""

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Final

from msgspec.structs import replace

from quorate.api.core import Resources
from quorate.api.core.pod_resources import sum_resources
from quorate.api.findings import Finding, child_path
from quorate.api.names.volcano import HIERARCHY, HIERARCHY_WEIGHTS
from quorate.api.quantity import Quantity
from quorate.api.validation.fields import Findings, join_names
from quorate.api.validation.pod_groups import amount_findings
from quorate.api.volcano import CLOSED, DEFAULT_QUEUE, OPEN, ROOT_QUEUE, Queue, QueueSpec

INVALID_QUEUE: Final = "InvalidQueueResources"  # Volcano's reason for any invalid queue
PROTECTED: Final = "ProtectedQueue"  # a queue that every cluster must have
MAX_WEIGHT: Final = 65535
STRATEGIES: Final = ("traverse", "fifo")
DEFAULT_MAX_DEPTH: Final = 5  # levels below the root, unless configured

Queues = Mapping[str, Queue]  # by name

_DESERVED: Final = "spec.deserved"
_CAPABILITY: Final = "spec.capability"
_GUARANTEE: Final = "spec.guarantee.resource"
_PODS: Final = "pods"


def queue_spec_findings(queue: Queue) -> Findings:
    """Validate a queue by itself."""
    return _invalid(_spec(queue))


def queue_findings(queue: Queue, queues: Queues, *, depth: int = DEFAULT_MAX_DEPTH) -> Findings:
    """Validate a new queue within the hierarchy of ``queues``."""
    return _invalid(_new_queue(queue, queues, depth))


def queue_update_findings(
    old: Queue, new: Queue, queues: Queues, *, depth: int = DEFAULT_MAX_DEPTH
) -> Findings:
    """Validate an update of a queue."""
    return _invalid(_updated_queue(old, new, queues, depth))


def queue_delete_findings(queue: Queue, queues: Queues, *, refuse_in_use: bool) -> Findings:
    """Validate a deletion; ``refuse_in_use`` rejects it while pods hold resources or groups wait."""
    if queue.metadata.name in (ROOT_QUEUE, DEFAULT_QUEUE):
        rule = "is a queue that every cluster must have, it cannot be deleted (close it instead)"
        yield Finding("metadata.name", queue.metadata.name, rule, reason=PROTECTED)
    yield from _invalid(_deleted_queue(queue, queues, refuse_in_use=refuse_in_use))


def _invalid(findings: Findings) -> Findings:
    return (replace(finding, reason=INVALID_QUEUE) for finding in findings)


def _new_queue(queue: Queue, queues: Queues, depth: int) -> Findings:
    yield from _spec(queue)
    if queue.status.state not in ("", OPEN, CLOSED):
        yield Finding("status.state", queue.status.state, f"cannot be requested (write {OPEN} or {CLOSED})")
    yield from _hierarchy_annotations(queue, queues)
    yield from _parent(queue, queues, depth)
    yield from _hierarchy_quotas(queue, queues)


def _updated_queue(old: Queue, new: Queue, queues: Queues, depth: int) -> Findings:
    if old.spec != new.spec:
        yield from _spec(new)
    if new.status.state not in (old.status.state, "", OPEN, CLOSED):
        yield Finding("status.state", new.status.state, f"cannot be requested (write {OPEN} or {CLOSED})")
    if _annotated(old) != _annotated(new):
        yield from _hierarchy_annotations(new, queues)
    moved = old.parent != new.parent
    if moved:
        yield from _parent(new, queues, depth)
    changed = {path for path, amounts in _amounts(old.spec).items() if amounts != _amounts(new.spec)[path]}
    if moved or changed:
        yield from _hierarchy_quotas(new, queues)
    if new.metadata.name == ROOT_QUEUE:
        for path in sorted(changed):
            rule = "is the root of all queues: its amounts cannot change (set those of queues below it)"
            yield Finding(path, ROOT_QUEUE, rule)


def _deleted_queue(queue: Queue, queues: Queues, *, refuse_in_use: bool) -> Findings:
    name = queue.metadata.name
    children = sorted(other.metadata.name for other in _children(name, queues))
    if children:
        rule = f"is the parent of {join_names(children)} (delete these first, or move them)"
        yield Finding("metadata.name", name, rule)
    if refuse_in_use and _has_allocated_pods(queue):
        rule = "cannot be deleted while pods of it hold resources (close it, and wait for them to end)"
        yield Finding("metadata.name", name, rule)
    status = queue.status
    groups = status.pending + status.inqueue + status.running + status.unknown
    if refuse_in_use and groups:
        rule = f"has {groups} pod groups that are not completed (close it, and delete them or wait)"
        yield Finding("metadata.name", name, rule)


def _spec(queue: Queue) -> Findings:
    spec = queue.spec
    if not 1 <= spec.weight <= MAX_WEIGHT:
        yield Finding("spec.weight", spec.weight, f"is out of bounds (write 1 to {MAX_WEIGHT})")
    if spec.priority < 0:
        yield Finding("spec.priority", spec.priority, "is negative, must be at least 0")
    if spec.dequeue_strategy not in STRATEGIES:
        rule = f"is not allowed here (write {' or '.join(STRATEGIES)})"
        yield Finding("spec.dequeueStrategy", spec.dequeue_strategy, rule)
    if spec.max_pod_groups is not None and spec.max_pod_groups < 0:
        rule = "is negative, must be at least 0 (leave it out for no limit)"
        yield Finding("spec.maxPodGroups", spec.max_pod_groups, rule)
    for path, amounts in _amounts(spec).items():
        yield from amount_findings(path, amounts)
    yield from _guarantee_deserved_capability(spec)


def _guarantee_deserved_capability(spec: QueueSpec) -> Findings:
    """Validate guarantee ≤ deserved ≤ capability for each resource."""
    guarantee, deserved, capability = spec.guarantee.resource, spec.deserved, spec.capability
    for resource, amount in guarantee.items():
        where = child_path(_GUARANTEE, resource)
        if deserved and resource not in deserved:
            rule = f"is guaranteed but missing in {_DESERVED} (add it there, at least {amount})"
            yield Finding(where, str(amount), rule)
        elif resource in deserved:
            yield from _at_most(where, amount, deserved[resource], _DESERVED)
        elif resource in capability:
            yield from _at_most(where, amount, capability[resource], _CAPABILITY)
    for resource, amount in deserved.items():
        if resource in capability:
            where = child_path(_DESERVED, resource)
            yield from _at_most(where, amount, capability[resource], _CAPABILITY)


def _at_most(path: str, amount: Quantity, limit: Quantity, limit_name: str) -> Findings:
    if amount > limit:
        yield Finding(path, str(amount), f"is more than {limit_name}, at most {limit}")


def _annotated(queue: Queue) -> tuple[str, str]:
    annotations = queue.metadata.annotations
    return annotations.get(HIERARCHY, ""), annotations.get(HIERARCHY_WEIGHTS, "")


def _hierarchy_annotations(queue: Queue, queues: Queues) -> Findings:
    """Validate the weight hierarchy of ``drf``: one weight per queue, pods only in leaves."""
    path, weights = _annotated(queue)
    if not path and not weights:
        return
    if path.count("/") != weights.count("/"):
        rule = f"must have as many parts as annotation {HIERARCHY} ({path!r})"
        yield Finding(child_path("metadata.annotations", HIERARCHY_WEIGHTS), weights, rule)
    for weight in weights.split("/"):
        if not _is_positive(weight):
            rule = f"has a weight {weight!r}, must be a number above 0"
            yield Finding(child_path("metadata.annotations", HIERARCHY_WEIGHTS), weights, rule)
    for name, other in sorted(queues.items()):
        theirs, _ = _annotated(other)
        if name != queue.metadata.name and path and theirs.startswith(f"{path}/"):
            rule = f"is above {theirs!r} of queue {name}, and only leaves can be queues (write a longer path)"
            yield Finding(child_path("metadata.annotations", HIERARCHY), path, rule)


def _is_positive(text: str) -> bool:
    try:
        return Fraction(text) > 0
    except (ValueError, ZeroDivisionError):
        return False


def _parent(queue: Queue, queues: Queues, depth: int) -> Findings:
    name, parent = queue.metadata.name, queue.parent
    if parent in ("", ROOT_QUEUE):
        return
    if parent == name:
        yield Finding("spec.parent", parent, "is the queue itself (name another queue, or leave it out)")
        return
    if parent not in queues:
        rule = "is a queue that does not exist (create it first, or leave this out)"
        yield Finding("spec.parent", parent, rule)
        return
    above = list(ancestors(queue, queues))
    if any(ancestor.parent == name for ancestor in above):
        yield Finding("spec.parent", parent, "is below this queue (name one that is not, or leave it out)")
        return
    if len(above) >= depth:
        rule = f"would put this queue at level {len(above) + 1} below the root, at most {depth}"
        yield Finding("spec.parent", parent, rule)
    if _has_allocated_pods(queues[parent]) and not any(_children(parent, queues)):
        rule = "has pods that hold resources, so it cannot become a parent (name another queue)"
        yield Finding("spec.parent", parent, rule)


def ancestors(queue: Queue, queues: Queues) -> Iterator[Queue]:
    """Yield the ancestors of ``queue``, nearest first, without the root, each once."""
    seen: set[str] = set()
    name = queue.parent
    while name not in ("", ROOT_QUEUE) and name in queues and name not in seen:
        seen.add(name)
        yield queues[name]
        name = queues[name].parent


def _children(name: str, queues: Queues) -> Iterator[Queue]:
    return (other for other in queues.values() if other.parent == name)


def descendants(name: str, queues: Queues) -> Iterator[Queue]:
    """Return the descendants of the queue ``name``, each once."""
    waiting, seen = [name], {name}
    while waiting:
        for other in _children(waiting.pop(), queues):
            if other.metadata.name not in seen:
                seen.add(other.metadata.name)
                waiting.append(other.metadata.name)
                yield other


def _has_allocated_pods(queue: Queue) -> bool:
    return queue.status.allocated.get(_PODS, Quantity(0)) > Quantity(0)


def _amounts(spec: QueueSpec) -> Mapping[str, Resources]:
    return {_CAPABILITY: spec.capability, _DESERVED: spec.deserved, _GUARANTEE: spec.guarantee.resource}


def _hierarchy_quotas(queue: Queue, queues: Queues) -> Findings:
    """Validate quotas against the ancestors and descendants of ``queue``."""
    name, spec, parent = queue.metadata.name, queue.spec, queue.parent
    if name == ROOT_QUEUE:
        return
    yield from _capability_above(queue, queues)
    if parent in queues and parent not in (ROOT_QUEUE, name):
        siblings = [child for child in _children(parent, queues) if child.metadata.name != name]
        for path, own in _granted_amounts(spec).items():
            granted = _granted_amounts(queues[parent].spec)[path]
            together = sum_resources([own, *(_granted_amounts(sibling.spec)[path] for sibling in siblings)])
            for resource in own:
                if together[resource] > granted.get(resource, Quantity(0)):
                    limit = granted.get(resource, Quantity(0))
                    rule = f"makes {together[resource]} for the children of queue {parent}, at most {limit}"
                    where = child_path(path, resource)
                    yield Finding(where, str(own[resource]), rule)
    yield from _children_within(queue, queues)


def _granted_amounts(spec: QueueSpec) -> Mapping[str, Resources]:
    return {_DESERVED: spec.deserved, _GUARANTEE: spec.guarantee.resource}


def _capability_above(queue: Queue, queues: Queues) -> Findings:
    for resource, amount in queue.spec.capability.items():
        limiting = (ancestor for ancestor in ancestors(queue, queues) if resource in ancestor.spec.capability)
        nearest = next(limiting, None)
        if nearest is not None:
            limit_name = f"that of queue {nearest.metadata.name} above"
            yield from _at_most(
                child_path(_CAPABILITY, resource), amount, nearest.spec.capability[resource], limit_name
            )


def _children_within(queue: Queue, queues: Queues) -> Findings:
    name, spec = queue.metadata.name, queue.spec
    for resource, limit in spec.capability.items():
        for below in descendants(name, queues):
            theirs = below.spec.capability.get(resource)
            if theirs is not None and theirs > limit:
                rule = f"is less than that of queue {below.metadata.name} below, at least {theirs}"
                yield Finding(child_path(_CAPABILITY, resource), str(limit), rule)
    for path, granted in _granted_amounts(spec).items():
        yield from _sum_within(
            path, granted, [_granted_amounts(child.spec)[path] for child in _children(name, queues)]
        )


def _sum_within(path: str, granted: Resources, children: Iterable[Resources]) -> Findings:
    for resource, total in sorted(sum_resources(children).items()):
        limit = granted.get(resource, Quantity(0))
        if total > limit:
            rule = f"is less than what its children have together, at least {total}"
            yield Finding(child_path(path, resource), str(limit), rule)
