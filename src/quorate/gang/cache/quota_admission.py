"""The admission of a pod group by a cluster queue, as its annotations record it.

A pod group that names a local queue has a Workload.  Until that is admitted the group is suspended: it stays
Pending.  Then the record has what admission adds to its pods, which may exist already and cannot be changed:
the node labels and tolerations of the flavor.  The scheduler places the pods as if they had them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from quorate.api import codec
from quorate.api.core import Toleration
from quorate.api.core.pod import Pod
from quorate.api.meta import Struct, Uid
from quorate.api.names.volcano import ADMITTED_POD_SETS, SUSPENDED
from quorate.api.volcano import PodGroup


class _PodSet(Struct):
    count: int = 0
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()


class _Record(Struct):
    job_uid: Uid  # of the group: a copy of it under another name is not admitted
    pod_sets: tuple[_PodSet, ...] = ()


@dataclass(frozen=True, slots=True)
class QuotaAdmission:
    """What the admission of a pod group allows and adds to its pods."""

    count: int  # of pods that may have a node
    node_selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()

    def applied_to(self, pod: Pod) -> Pod:
        """Return ``pod`` as if it had been created with what admission adds."""
        if not self.node_selector and not self.tolerations:
            return pod
        spec = msgspec.structs.replace(
            pod.spec,
            node_selector={**pod.spec.node_selector, **dict(self.node_selector)},
            tolerations=(*pod.spec.tolerations, *self.tolerations),
        )
        return msgspec.structs.replace(pod, spec=spec)


def is_suspended(annotations: Mapping[str, str]) -> bool:
    """Return True if the group with ``annotations`` waits for quota, or was evicted."""
    return annotations.get(SUSPENDED) == "true"


def quota_admission(group: PodGroup) -> QuotaAdmission | None:
    """Return the recorded admission of a group; None if no cluster queue admitted it."""
    text = group.metadata.annotations.get(ADMITTED_POD_SETS)
    if text is None:
        return None
    try:
        record = codec.decode(_Record, text)
    except msgspec.DecodeError:
        return None
    if record.job_uid != group.metadata.uid or not record.pod_sets:
        return None
    (pod_set, *_) = record.pod_sets
    return QuotaAdmission(pod_set.count, tuple(sorted(pod_set.node_selector.items())), pod_set.tolerations)
