"""The pod group of a Volcano Job, and its ``minResources``.

Source: Volcano's job controller.  The replicas that make up ``minAvailable`` are chosen by the priority of
their tasks; their quota usage is summed exactly.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import msgspec

from quorate.api import codec
from quorate.api.batch import decode_template
from quorate.api.core import PodSpec, Resources
from quorate.api.core.pod_resources import pod_requests, quota_usage, sum_resources
from quorate.api.meta import LabelSelector, ObjectMeta, OwnerReference
from quorate.api.names import volcano as names
from quorate.api.names.kueue import STOPPING
from quorate.api.volcano import PENDING, PodGroup, PodGroupSpec, SubGroupPolicy
from quorate.api.volcano.job import GROUP, VERSION, Job, TaskSpec, task_min_available
from quorate.controllers.volcano.job.lifecycle_policies import ANY, POD_EVICTED, POD_FAILED, TASK_FAILED
from quorate.controllers.volcano.pod_defaults import NO_POD_DEFAULTS, PodDefaults
from quorate.kube.patches import merge_patch

_NOT_COPIED: Final = (
    "kubectl.kubernetes.io/last-applied-configuration",
    names.ADMITTED_POD_SETS,
    names.MEMBER_REQUESTS,
    names.SUSPENDED,
    STOPPING,
)

_REPLACING_ACTIONS: Final = frozenset({"RestartTask", "RestartPod", "RestartPartition"})
_FAILURES: Final = frozenset({ANY, POD_EVICTED, POD_FAILED, TASK_FAILED})  # events of a pod that fails


def group_name(job: Job) -> str:
    return f"{job.metadata.name}-{job.metadata.uid}"


def build_pod_group(
    job: Job, priorities: Mapping[str, int], defaults: PodDefaults = NO_POD_DEFAULTS
) -> PodGroup:
    """Return the desired pod group of a defaulted job; the scheduler writes its status."""
    metadata = job.metadata
    pods = [defaults.stored(decode_template(task.template).spec) for task in job.spec.tasks]
    annotations = {name: text for name, text in metadata.annotations.items() if name not in _NOT_COPIED}
    annotations |= _member_requests(job, pods)
    if not replaces_failed_pods(job):
        annotations[names.REPLACES_FAILED] = "false"
    return PodGroup(
        metadata=ObjectMeta(
            name=group_name(job),
            namespace=metadata.namespace,
            labels=metadata.labels,
            annotations=annotations,
            owner_references=(owner_reference_to(job),),
        ),
        spec=PodGroupSpec(
            min_member=job.spec.min_available,
            min_task_member=min_task_member(job),
            queue=job.spec.queue,
            priority_class_name=job.spec.priority_class_name,
            min_resources=_min_resources(job, pods, priorities),
            network_topology=job.spec.network_topology,
            sub_group_policy=tuple(
                _sub_group_policy(task) for task in job.spec.tasks if task.partition_policy
            ),
        ),
    )


def replaces_failed_pods(job: Job) -> bool:
    """Return True if a policy of the job replaces pods that fail and keeps the others."""
    policies = chain(job.spec.policies, *(task.policies for task in job.spec.tasks))
    return any(
        policy.action in _REPLACING_ACTIONS
        and (policy.exit_code is not None or not _FAILURES.isdisjoint({*policy.events, policy.event}))
        for policy in policies
    )


def _member_requests(job: Job, pods: Sequence[PodSpec]) -> dict[str, str]:
    """Return the annotation with the requests of each task; none if all tasks have equal ones.

    The templates of a job do not change.
    """
    by_role = {task.name: pod_requests(pod) for task, pod in zip(job.spec.tasks, pods, strict=True)}
    distinct = {codec.encode(requests) for requests in by_role.values()}
    return {names.MEMBER_REQUESTS: codec.encode(by_role).decode()} if len(distinct) > 1 else {}


def _sub_group_policy(task: TaskSpec) -> SubGroupPolicy:
    """Return the policy that makes each partition of the task a gang within the group."""
    policy = task.partition_policy
    assert policy is not None, task.name
    return SubGroupPolicy(
        name=task.name,
        network_topology=policy.network_topology,
        sub_group_size=policy.partition_size,
        min_sub_groups=policy.min_partitions,
        label_selector=LabelSelector(match_labels={names.TASK_SPEC: task.name}),
        match_label_keys=(names.PARTITION,),
    )


def owner_reference_to(job: Job) -> OwnerReference:
    metadata = job.metadata
    return OwnerReference(
        api_version=f"{GROUP}/{VERSION}",
        kind="Job",
        name=metadata.name,
        uid=metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


def pod_group_patch(group: PodGroup, wanted: PodGroup, *, moves: bool = False) -> dict[str, Any]:
    """Return the merge patch of ``spec`` from ``group`` to ``wanted``; empty if they are equal.

    The queue changes only if the group ``moves``. The queue of a job does not change, and an administrator
    may have moved the group of the job to another queue.
    """
    spec = wanted.spec if moves else msgspec.structs.replace(wanted.spec, queue=group.spec.queue)
    return merge_patch(group.spec, spec)


def awaits_admission(group: PodGroup | None) -> bool:
    """Return True if the group is missing, terminating or not admitted: it gets no pods."""
    if group is None or group.metadata.deletion_timestamp is not None:
        return True
    return group.status.phase in ("", PENDING)


@dataclass(frozen=True, slots=True)
class TaskReplicas:
    """A task as the choice of the most important replicas sees it."""

    replicas: int
    minimum: int
    priority: int


def _min_resources(job: Job, pods: Sequence[PodSpec], priorities: Mapping[str, int]) -> Resources:
    """Return the quota usage of the ``minAvailable`` most important replicas of a defaulted job.

    ``pods``: of each task.  ``priorities``: PriorityClass values by name; a missing class counts as 0.
    """
    tasks = [
        TaskReplicas(task.replicas, task_min_available(task), priorities.get(pod.priority_class_name, 0))
        for task, pod in zip(job.spec.tasks, pods, strict=True)
    ]
    chosen = replicas_by_priority(tasks, job.spec.min_available)
    return sum_resources(
        multiply(quota_usage(pod), count) for pod, count in zip(pods, chosen, strict=True) if count
    )


def replicas_by_priority(tasks: Sequence[TaskReplicas], wanted: int) -> list[int]:
    """Return how many replicas of each task are among the ``wanted`` most important ones.

    Tasks are visited by descending priority, equal ones in their order.  If ``wanted`` is less than the sum
    of the minimums, each task contributes all its replicas in turn.  Otherwise each contributes its minimum
    first, and a second pass adds the remaining replicas.
    """
    order = sorted(range(len(tasks)), key=lambda index: -tasks[index].priority)
    if wanted < sum(task.minimum for task in tasks):
        return _take(order, [task.replicas for task in tasks], wanted)
    first = _take(order, [task.minimum for task in tasks], wanted)
    remaining = [max(task.replicas - task.minimum, 0) for task in tasks]
    second = _take(order, remaining, wanted - sum(first))
    return [one + other for one, other in zip(first, second, strict=True)]


def _take(order: Iterable[int], available: Sequence[int], wanted: int) -> list[int]:
    taken = [0] * len(available)
    for index in order:
        taken[index] = min(available[index], wanted)
        wanted -= taken[index]
    return taken


def min_task_member(job: Job) -> dict[str, int]:
    """Return the minimum number of pods of each task, by task name."""
    return {task.name: task_min_available(task) for task in job.spec.tasks}


def multiply(resources: Resources, count: int) -> Resources:
    return {name: amount * count for name, amount in resources.items()}
