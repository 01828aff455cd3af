"""The pod group of a Volcano Job."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from quorate.api.meta import LabelSelector, ObjectMeta, OwnerReference
from quorate.api.volcano import PENDING, PodGroup, PodGroupSpec, SubGroupPolicy
from quorate.api.volcano.annotations import TASK_SPEC
from quorate.api.volcano.job import GROUP, PARTITION, VERSION, Job, TaskSpec
from quorate.controllers.volcano.job.min_resources import min_resources, min_task_member
from quorate.kube.patches import merge_patch

_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


def group_name(job: Job) -> str:
    return f"{job.metadata.name}-{job.metadata.uid}"


def build_pod_group(job: Job, priorities: Mapping[str, int]) -> PodGroup:
    """What the pod group of a completed job is to be; its status is the scheduler's."""
    metadata = job.metadata
    annotations = {name: text for name, text in metadata.annotations.items() if name != _LAST_APPLIED}
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
            min_resources=min_resources(job, priorities),
            network_topology=job.spec.network_topology,
            sub_group_policy=tuple(_sub_groups(task) for task in job.spec.tasks if task.partition_policy),
        ),
    )


def pod_group_patch(group: PodGroup, wanted: PodGroup) -> dict[str, Any]:
    """The merge patch of ``spec`` that makes ``group`` what it is to be; empty when it is that.

    The queue stays: a job cannot change it, and who moved its group to another one had a reason.
    """
    spec = msgspec.structs.replace(wanted.spec, queue=group.spec.queue)
    return merge_patch(group.spec, spec)


def is_waiting(group: PodGroup | None) -> bool:
    """Whether no pod of the group may be created: it is not admitted, or not there, or on its way out."""
    if group is None or group.metadata.deletion_timestamp is not None:
        return True
    return group.status.phase in ("", PENDING)


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


def _sub_groups(task: TaskSpec) -> SubGroupPolicy:
    """Each partition of a task is a gang of its own within the group."""
    policy = task.partition_policy
    assert policy is not None, task.name
    return SubGroupPolicy(
        name=task.name,
        network_topology=policy.network_topology,
        sub_group_size=policy.partition_size,
        min_sub_groups=policy.min_partitions,
        label_selector=LabelSelector(match_labels={TASK_SPEC: task.name}),
        match_label_keys=(PARTITION,),
    )
