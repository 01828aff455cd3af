"""What Kubernetes' own pod groups demand of the pod sets of a queued job.

A pod template names its group, or the controller of the job has made one for all its pods.  The workload of
the job counts the pods, so that the group needs none.  A pod set is not admitted with fewer pods than the
``minCount`` of its group, because the scheduler would place none of them.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from quorate.api.batch import decode_template
from quorate.api.kueue import PodSet
from quorate.api.meta import Key, ObjectMeta
from quorate.api.names.topology import GROUP_NAME, REQUIRED
from quorate.api.native_groups import PodGroup, PodGroupSpec
from quorate.controllers.native_groups import NativeGroupView

_MARK: Final = b'"schedulingGroup"'


@dataclass(frozen=True, slots=True)
class NativeTerms:
    """The demands on each pod set, in their order; empty without any group."""

    least: tuple[int, ...] = ()  # pods that must start together; 0: as many as the job says
    topology: tuple[Mapping[str, str], ...] = ()  # the topology annotations that a group amounts to
    missing: str = ""  # a group that does not exist


NO_TERMS: Final = NativeTerms()


def with_declared_group(
    groups: NativeGroupView | None, declared: PodGroupSpec | None
) -> NativeGroupView | None:
    """Return ``groups`` with the group that the controller of the job will make, unless it has made one."""
    if groups is None or declared is None or groups.made is not None:
        return groups
    return replace(groups, made=PodGroup(metadata=ObjectMeta(name=""), spec=declared))


def native_terms(
    namespace: str, pod_sets: Sequence[PodSet], groups: NativeGroupView | None
) -> NativeTerms | None:
    """Return the terms of the groups of ``pod_sets``; None if they are not known yet.

    ``groups``: None if the API server has no such groups.
    """
    if groups is None:
        return NO_TERMS
    names = [named_group(pod_set) for pod_set in pod_sets]
    if not any(names) and groups.made is None:
        return NO_TERMS
    if not groups.are_known:
        return None
    referenced = [groups.get(Key(namespace, name)) if name else groups.made for name in names]
    missing = next(
        (name for name, group in zip(names, referenced, strict=True) if name and group is None), ""
    )
    counts: defaultdict[str, list[int]] = defaultdict(list)  # of the pod sets in each group
    for group, pod_set in zip(referenced, pod_sets, strict=True):
        if group is not None:
            counts[group.metadata.name].append(pod_set.count)
    least = (
        _least(group, pod_set.count, is_shared=group is not None and len(counts[group.metadata.name]) > 1)
        for group, pod_set in zip(referenced, pod_sets, strict=True)
    )
    topology = (
        {} if group is None else _topology(group, counts[group.metadata.name], groups.topology_levels)
        for group in referenced
    )
    return NativeTerms(tuple(least), tuple(topology), missing)


def named_group(pod_set: PodSet) -> str:
    """Return the group that the template of ``pod_set`` names; empty if it names none."""
    if _MARK not in bytes(pod_set.template):  # decode only templates that may name one
        return ""
    group = decode_template(pod_set.template).spec.scheduling_group
    return "" if group is None else group.pod_group_name


def _topology(group: PodGroup, counts: list[int], levels: frozenset[str]) -> Mapping[str, str]:
    """Return the topology annotations for each of the pod sets in ``group``, which have ``counts`` of pods.

    Quota places two pod sets in one domain if one of them has a single pod.
    """
    level = group.spec.topology_key
    if level not in levels:
        return {}
    is_pair = len(counts) == 2 and 1 in counts
    return {REQUIRED: level, **({GROUP_NAME: group.metadata.name} if is_pair else {})}


def _least(group: PodGroup | None, count: int, *, is_shared: bool) -> int:
    """Return how many of ``count`` pods must start together; all if other pod sets share the group."""
    gang = None if group is None else group.spec.scheduling_policy.gang
    if gang is None:
        return 0
    return count if is_shared or not gang.min_count else min(gang.min_count, count)


def with_least_counts(
    pod_sets: tuple[PodSet, ...], terms: NativeTerms, *, may_shrink: bool
) -> tuple[PodSet, ...]:
    """Return ``pod_sets`` that are admitted with no fewer pods than ``terms`` demand.

    ``may_shrink``: the job of a gang may start with fewer pods than it declares.
    """
    if not any(terms.least):
        return pod_sets
    return tuple(
        _with_least(pod_set, needed, may_shrink) if needed else pod_set
        for pod_set, needed in zip(pod_sets, terms.least, strict=True)
    )


def _with_least(pod_set: PodSet, needed: int, may_shrink: bool) -> PodSet:
    if pod_set.min_count is msgspec.UNSET:
        return pod_set
    least = max(pod_set.min_count, needed)
    return msgspec.structs.replace(
        pod_set, min_count=least if may_shrink and least < pod_set.count else msgspec.UNSET
    )
