"""Kubernetes' own workloads with a queue label: the pods of all their pod groups are queued as one job.

A native workload has templates of pod groups, but no pod templates.  A group names the workload and one of
its templates, and a pod names its group.  So the workload can be counted once each template has a group, and
each group with the gang policy has ``minCount`` pods.  Pods wait with their gate.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from quorate.api.core.pod import Pod
from quorate.api.names.kueue import PRIORITY_CLASS, QUEUE_NAME
from quorate.api.native_groups import PodGroup, Workload
from quorate.controllers.pods.queued_pod import can_count

_MAX_TEMPLATE: Final = 54  # with a role it is the name of a pod set, which has at most 63 characters
_INHERITED: Final = (QUEUE_NAME, PRIORITY_CLASS)


@dataclass(frozen=True, slots=True)
class NativeUnit:
    """A native workload as a group of pods."""

    incomplete: str = ""  # what is missing before its pods can be counted
    labels: Mapping[str, str] = field(default_factory=dict)  # of the workload: its queue and priority
    templates: Mapping[str, str] = field(default_factory=dict)  # of each pod group, by its name

    def pod_set_name(self, pod: Pod, role: str) -> str:
        """Return the name of the pod set of a pod with ``role``."""
        template = self.templates.get(native_group_name(pod), "")
        return f"{template[:_MAX_TEMPLATE]}-{role}" if template else role


NO_UNIT: Final = NativeUnit()


def native_group_name(pod: Pod) -> str:
    """Return the pod group of Kubernetes that a pod names; empty if it names none."""
    group = pod.spec.scheduling_group
    return "" if group is None else group.pod_group_name


def native_unit(workload: Workload | None, groups: Sequence[PodGroup], pods: Iterable[Pod]) -> NativeUnit:
    """Return the unit of ``groups`` and their ``pods``; ``workload`` None: it was deleted."""
    counts = Counter(map(native_group_name, filter(can_count, pods)))
    templates = {group.metadata.name: group.spec.template_name for group in groups}
    if workload is None:
        return NativeUnit(templates=templates)
    own = workload.metadata.labels
    labels = {key: own[key] for key in _INHERITED if key in own}
    return NativeUnit(_incomplete(workload, groups, counts), labels, templates)


def _incomplete(workload: Workload, groups: Sequence[PodGroup], counts: Counter[str]) -> str:
    name, present = workload.metadata.name, {group.spec.template_name for group in groups}
    for template in workload.spec.pod_group_templates:
        if template.name not in present:
            return f"workload {name} of scheduling.k8s.io has no pod group of its template {template.name}"
    for group in groups:
        gang, count = group.spec.scheduling_policy.gang, counts[group.metadata.name]
        least = 1 if gang is None else gang.min_count
        if count < least:
            return (
                f"pod group {group.metadata.name} of workload {name} of scheduling.k8s.io has {count} pods "
                f"that can run, fewer than {least}"
            )
    return ""
