"""The Workload of a single pod, and that of a group: whose pods must agree on what they want."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from quorate.api.kueue import RESOURCE_IN_USE, PodSet, Workload, WorkloadSpec
from quorate.api.meta import ObjectMeta, OwnerReference
from quorate.api.syntax import positive_int32
from quorate.controllers.jobframework.construct_workload import (
    MissingPriorityClass,
    construct,
    copied_annotations,
    maximum_execution_s,
    queue_name_of,
    resolve_priority,
)
from quorate.controllers.pods import constants
from quorate.controllers.pods.plan import Catalogue, PodRules
from quorate.controllers.pods.queued_pod import PODS, QueuedPod
from quorate.controllers.pods.roles import role_of
from quorate.controllers.pods.start_stop import template_of
from quorate.kube.events import truncate

MOST_ROLES: Final = 18  # pod sets a Workload may have


@dataclass(frozen=True, slots=True)
class NotComposed:
    """Why there can be no workload as the pods are; some of them must change first."""

    why: str

    def __str__(self) -> str:
        return self.why


def single_workload(pod: QueuedPod, catalogue: Catalogue, rules: PodRules) -> Workload | MissingPriorityClass:
    pod_sets = single_pod_sets(pod)
    priority = resolve_priority(
        pod.metadata.labels, None, pod_sets, catalogue.workload_classes, catalogue.pod_classes
    )
    if isinstance(priority, MissingPriorityClass):
        return priority
    return construct(
        PODS,
        pod.metadata,
        pod_sets,
        priority,
        rules.label_keys_to_copy,
        short_name=rules.gates.short_workload_names,
        gated=rules.gates.admission_gated_by,
    )


def single_pod_sets(pod: QueuedPod) -> tuple[PodSet, ...]:
    return (PodSet(template=template_of(pod)),)


def total_of(name: str, pods: Sequence[QueuedPod]) -> int | NotComposed:
    """How many pods group ``name`` has when it is whole, by its first pod."""
    text = pods[0].metadata.annotations.get(constants.TOTAL_COUNT, "")
    total = positive_int32(text)
    if total is not None:
        return total
    return NotComposed(
        f"pod group {name}: annotation {constants.TOTAL_COUNT} of pod {pods[0].metadata.name}: "
        f"{truncate(text, 80)!r} is no number of pods (write how many the group has)"
    )


def is_fast(pods: Sequence[QueuedPod]) -> bool:
    return constants.FAST_ADMISSION in pods[0].metadata.annotations


def disagreement(pods: Sequence[QueuedPod]) -> NotComposed | None:
    """Where a pod that has not failed wants another queue, or another size of the group, than the first."""
    first = pods[0].metadata
    for pod in pods[1:]:
        other = pod.metadata
        if pod.status.phase == "Failed":
            continue
        queues = (queue_name_of(first), queue_name_of(other))
        if queues[0] != queues[1]:
            return NotComposed(
                f"pods '{first.name}' and '{other.name}' has different queue names: {queues[0]}!={queues[1]}"
            )
        totals = (first.annotations.get(constants.TOTAL_COUNT), other.annotations.get(constants.TOTAL_COUNT))
        if totals[0] != totals[1]:
            return NotComposed(
                f"pods '{first.name}' and '{other.name}' has different '{constants.TOTAL_COUNT}' values: "
                f"{totals[0]}!={totals[1]}"
            )
    return None


def group_pod_sets(pods: Sequence[QueuedPod], total: int) -> tuple[PodSet, ...]:
    """One pod set for each role among ``pods``, which count; by name.

    With fast admission the first pod stands for all that are yet to come.
    """
    if is_fast(pods):
        return (PodSet(name=role_of(pods[0]), count=total, template=template_of(pods[0])),)
    counts = Counter(map(role_of, pods))
    firsts = {role_of(pod): pod for pod in reversed(pods)}
    return tuple(
        PodSet(name=role, count=counts[role], template=template_of(firsts[role])) for role in sorted(counts)
    )


def group_workload(
    name: str, pods: Sequence[QueuedPod], total: int, catalogue: Catalogue, rules: PodRules
) -> Workload | MissingPriorityClass | NotComposed:
    """The workload of group ``name``, owned by all of ``pods``: it goes when the last of them goes."""
    pod_sets = group_pod_sets(pods, total)
    if len(pod_sets) > MOST_ROLES:
        return NotComposed(
            f"pod group can't include more than {MOST_ROLES} roles, {name} has {len(pod_sets)}"
        )
    labels = _copied_labels(pods, rules.label_keys_to_copy)
    if isinstance(labels, NotComposed):
        return labels
    first = pods[0].metadata
    priority = resolve_priority(
        first.labels, None, pod_sets, catalogue.workload_classes, catalogue.pod_classes
    )
    if isinstance(priority, MissingPriorityClass):
        return priority
    return Workload(
        metadata=ObjectMeta(
            name=name,
            namespace=first.namespace,
            labels=labels,
            annotations={
                **copied_annotations(first, gated=rules.gates.admission_gated_by),
                constants.IS_GROUP: "true",
            },
            finalizers=(RESOURCE_IN_USE,),
            owner_references=tuple(map(owner, pods)),
        ),
        spec=WorkloadSpec(
            pod_sets=pod_sets,
            queue_name=queue_name_of(first),
            priority=priority.value,
            priority_class_ref=priority.source,
            maximum_execution_time_seconds=maximum_execution_s(first),
        ),
    )


def owner(pod: QueuedPod) -> OwnerReference:
    metadata = pod.metadata
    return OwnerReference(api_version=PODS.api_version, kind=PODS.kind, name=metadata.name, uid=metadata.uid)


def _copied_labels(pods: Iterable[QueuedPod], keys: Iterable[str]) -> dict[str, str] | NotComposed:
    copied: dict[str, str] = {}
    for pod in pods:
        for key in keys:
            value = pod.metadata.labels.get(key)
            if value is None:
                continue
            if copied.setdefault(key, value) != value:
                return NotComposed(f"pods have different values of label {key}: {copied[key]}, {value}")
    return copied
