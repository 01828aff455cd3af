"""The priority of a new workload, and where it comes from.

First the WorkloadPriorityClass its job names, which concerns queueing only; then the priority class of the
job kind, or of the first pod set that has one; then the global default; then 0.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from quorate.api.core import PriorityClass
from quorate.api.kueue import GROUP, PriorityClassRef, WorkloadPriorityClass


class Priority(msgspec.Struct, frozen=True):
    value: int
    source: PriorityClassRef | None


class PriorityClassMissing(Exception):
    """The class that decides the priority does not exist (yet): no workload can be made."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(kind, name)
        self.kind, self.name = kind, name

    def __str__(self) -> str:
        return f"{self.kind} {self.name} doesn't exist"


def resolve_priority(
    workload_class: str,
    pod_classes: Sequence[str],
    workload_priority_classes: Mapping[str, WorkloadPriorityClass],
    priority_classes: Mapping[str, PriorityClass],
) -> Priority:
    """The priority a workload is created with.

    ``workload_class`` is the name its job's label gives (empty: none); ``pod_classes`` those of the job
    kind, if it has one, else of its pod sets, in order.  Raises ``PriorityClassMissing``.
    """
    if workload_class:
        named = workload_priority_classes.get(workload_class)
        if named is None:
            raise PriorityClassMissing("WorkloadPriorityClass", workload_class)
        return Priority(
            named.value, PriorityClassRef(group=GROUP, kind="WorkloadPriorityClass", name=workload_class)
        )
    name = next((name for name in pod_classes if name), "")
    if not name:
        return _default(priority_classes.values())
    if name not in priority_classes:
        raise PriorityClassMissing("PriorityClass", name)
    return _of_class(priority_classes[name])


def _default(classes: Iterable[PriorityClass]) -> Priority:
    """Of several global defaults the lowest counts, as in the API server's own admission."""
    defaults = [one for one in classes if one.global_default]
    if not defaults:
        return Priority(0, None)
    return _of_class(min(defaults, key=lambda one: (one.value, one.metadata.name)))


def _of_class(one: PriorityClass) -> Priority:
    source = PriorityClassRef(group="scheduling.k8s.io", kind="PriorityClass", name=one.metadata.name)
    return Priority(one.value, source)
