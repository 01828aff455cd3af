"""The workload of a pod group; its pods must agree on queue, size and copied labels."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from quorate.api.core.pod import Pod
from quorate.api.kueue import PodSet, Workload
from quorate.api.meta import ObjectMeta, OwnerReference
from quorate.api.names.kueue import RESOURCE_IN_USE
from quorate.controllers.jobframework.construct_workload import (
    MissingPriorityClass,
    NotComposed,
    copied_annotations,
    queue_name_of,
    resolve_priority,
    workload_spec,
)
from quorate.controllers.jobframework.job_plan import JobOptions, ReconcileContext
from quorate.controllers.jobframework.podset_info import read_template
from quorate.controllers.limits import MAX_POD_SETS
from quorate.controllers.pods import constants
from quorate.controllers.pods.pod_group import PodGroup, by_age, by_precedence
from quorate.controllers.pods.pod_writes import template_of
from quorate.controllers.pods.queued_pod import can_count, request_topology, role_hash
from quorate.kube.events import truncate
from quorate.kube.resources import PLACEABLE_PODS


def unknown_total(group: PodGroup) -> NotComposed:
    """Return why the size of a group is not known."""
    if group.unit.incomplete:
        return NotComposed(group.unit.incomplete)
    if group.is_native:
        return NotComposed(
            f"pod group {group.name} of scheduling.k8s.io does not exist (create it with a minCount)"
        )
    text = group.metadata.annotations.get(constants.TOTAL_COUNT, "")
    return NotComposed(
        f"pod group {group.name}: annotation {constants.TOTAL_COUNT} of pod {group.metadata.name}: "
        f"{truncate(text, 80)!r} is no number of pods (write how many the group has)"
    )


def construct_group_workload(
    group: PodGroup, context: ReconcileContext, options: JobOptions
) -> Workload | NotComposed:
    """Construct the workload of as many pods as the group has, owned by all of them."""
    runnable = by_precedence(pod for pod in group.pods if can_count(pod))
    if not runnable or (len(runnable) < group.total and not group.is_fast):
        return NotComposed(f"'{group.name}' group has fewer runnable pods than expected")
    if (conflict := _conflict(group.pods)) is not None:
        return conflict
    pods = by_age(runnable[: group.total])
    firsts, pod_sets = _pod_sets(pods, group)
    if len(pod_sets) > MAX_POD_SETS:
        return NotComposed(
            f"pod group can't include more than {MAX_POD_SETS} roles, {group.name} has {len(pod_sets)}"
        )
    if options.topology is not None:
        requested = request_topology(firsts, pod_sets, options.topology)
        if isinstance(requested, NotComposed):
            return requested
        pod_sets = requested
    labels = _copied("label", (pod.metadata.labels for pod in pods), options.label_keys_to_copy)
    if isinstance(labels, NotComposed):
        return labels
    annotations = _copied(
        "annotation", (pod.metadata.annotations for pod in pods), options.annotation_keys_to_copy
    )
    if isinstance(annotations, NotComposed):
        return annotations
    first = group.labelled(pods[0].metadata)
    priority = resolve_priority(first.labels, None, pod_sets, context.workload_classes, context.pod_classes)
    if isinstance(priority, MissingPriorityClass):
        return NotComposed(priority)
    return Workload(
        metadata=ObjectMeta(
            name=group.name,
            namespace=first.namespace,
            labels=labels,
            annotations={
                **copied_annotations(first, gated=options.gates.admission_gated_by),
                **annotations,
                constants.IS_GROUP: "true",
            },
            finalizers=(RESOURCE_IN_USE,),
            owner_references=tuple(map(owner_reference, pods)),
        ),
        spec=workload_spec(first, pod_sets, priority),
    )


def owner_reference(pod: Pod) -> OwnerReference:
    metadata = pod.metadata
    return OwnerReference(
        api_version=PLACEABLE_PODS.api_version, kind=PLACEABLE_PODS.kind, name=metadata.name, uid=metadata.uid
    )


def _pod_sets(pods: Sequence[Pod], group: PodGroup) -> tuple[tuple[Pod, ...], tuple[PodSet, ...]]:
    """Return one pod set for each role and its first pod; with fast admission one in all.

    They are in the order of what their pods need: the names of roles, which users may choose, do not decide
    which pods get a flavor first.
    """
    counts = Counter({group.role_of(pods[0]): group.total} if group.is_fast else map(group.role_of, pods))
    firsts = {group.role_of(pod): pod for pod in reversed(pods)}
    roles = sorted(counts, key=lambda role: (role_hash(read_template(firsts[role].written)), role))
    pod_sets = tuple(
        PodSet(name=role, count=counts[role], template=template_of(firsts[role])) for role in roles
    )
    return tuple(firsts[role] for role in roles), pod_sets


def _conflict(pods: Sequence[Pod]) -> NotComposed | None:
    """Return why pods that have not failed disagree with the first on queue or size."""
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


def _copied(
    noun: str, of_pods: Iterable[Mapping[str, str]], keys: Iterable[str]
) -> dict[str, str] | NotComposed:
    """Return the labels or annotations with ``keys`` of all pods, which must not contradict each other."""
    copied: dict[str, str] = {}
    for given in of_pods:
        for key in keys:
            value = given.get(key)
            if value is None:
                continue
            if copied.setdefault(key, value) != value:
                return NotComposed(f"pods have different values of {noun} {key}: {copied[key]}, {value}")
    return copied
