"""Gangs on the stock scheduler: a native pod group for each pod set of a job that starts.

kube-scheduler places ``minCount`` pods of a group or none.  The pod template of a batch Job cannot be given a
group once the Job exists, but it may get labels when the Job starts: an admission policy of the API server
makes each new pod a member of the group in its label ``quorate.dev/pod-group``.

A pod group cannot be changed, so its name contains the count: a job that starts again with fewer pods gets
another group.  All groups are deleted with the job.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from quorate.api.batch import decode_template
from quorate.api.kueue import ClusterQueue, PodSet, Workload
from quorate.api.meta import Key, ObjectMeta, OwnerReference
from quorate.api.native_groups import (
    MEMBER_OF,
    MODE,
    NATIVE,
    GangPolicy,
    PodGroup,
    PodGroupSpec,
    SchedulingConstraints,
    SchedulingPolicy,
    TopologyConstraint,
)
from quorate.controllers.jobframework.podset_info import PodSetInfo
from quorate.controllers.limits import MAX_LABEL
from quorate.kube.resources import Resource
from quorate.kube.writes import Apply

FIELD_MANAGER: Final = "quorate-native-gangs"
_HASH_DIGITS: Final = 10


def wants_native_gangs(
    job: ObjectMeta, workload: Workload, queues: Mapping[str, ClusterQueue], default: bool
) -> bool:
    """Return True if an admitted job starts as native gangs.

    The annotation ``quorate.dev/gangs`` of the job decides, then that of its ClusterQueue, then the
    Configuration (``default``).
    """
    admission = workload.status.admission
    queue = None if admission is None else queues.get(admission.cluster_queue)
    for metadata in (job, None if queue is None else queue.metadata):
        if metadata is not None and (mode := metadata.annotations.get(MODE)) is not None:
            return mode == NATIVE
    return default


def with_native_groups(
    kind: Resource[PodGroup],
    infos: Sequence[PodSetInfo],
    workload: Workload,
    owner: OwnerReference,
    own_schedulers: Collection[str],
) -> tuple[tuple[PodSetInfo, ...], tuple[Apply, ...]]:
    """Return the pod sets with the labels of their groups, and the groups to write before the job starts.

    ``kind``: pod groups in the version of the API server.

    A pod set has no group if it has one pod, if its template names a group, or if one of ``own_schedulers``
    places it, which has pod groups of its own.
    """
    labelled: list[PodSetInfo] = []
    groups: list[Apply] = []
    for info, pod_set in zip(infos, workload.spec.pod_sets, strict=True):
        if info.count == 1 or not _needs_group(pod_set, own_schedulers):
            labelled.append(info)
            continue
        least = info.count if pod_set.min_count is msgspec.UNSET else pod_set.min_count
        name = _group_name(workload.metadata.name, info.name, least)
        groups.append(_group(kind, Key(workload.metadata.namespace, name), pod_set, least, owner))
        labelled.append(msgspec.structs.replace(info, labels={**info.labels, MEMBER_OF: name}))
    return tuple(labelled), tuple(groups)


def _needs_group(pod_set: PodSet, own_schedulers: Collection[str]) -> bool:
    spec = decode_template(pod_set.template).spec
    return spec.scheduling_group is None and spec.scheduler_name not in own_schedulers


def _group_name(workload: str, pod_set: str, least: int) -> str:
    """Return a name that is a label value, as the pods have it in a label."""
    name = f"{workload}-{pod_set}-{least}"
    if len(name) <= MAX_LABEL:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_HASH_DIGITS]
    return f"{name[: MAX_LABEL - _HASH_DIGITS - 1].rstrip('-.')}-{digest}"


def _group(kind: Resource[PodGroup], key: Key, pod_set: PodSet, least: int, owner: OwnerReference) -> Apply:
    request = pod_set.topology_request
    level = "" if request is msgspec.UNSET else request.required
    same_domain = SchedulingConstraints(topology=(TopologyConstraint(key=level),)) if level else None
    spec = PodGroupSpec(
        scheduling_policy=SchedulingPolicy(gang=GangPolicy(min_count=least)),
        scheduling_constraints=same_domain,
        priority_class_name=decode_template(pod_set.template).spec.priority_class_name,
    )
    labels = {MEMBER_OF: key.name}  # tells it from a group that the controller of the job has made
    metadata = {"name": key.name, "labels": labels, "ownerReferences": (owner,)}
    return Apply(kind, key, {"metadata": metadata, "spec": spec}, FIELD_MANAGER)
