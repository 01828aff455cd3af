"""Which domain each gated pod of a pod set gets, from the topology assignment of its workload.

Pods get domains by rank if each pod has a valid rank, and greedily otherwise. Neither way adds a pod to a
domain that has as many pods as the assignment gives it.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from msgspec import UNSET

from quorate.api.kueue import Workload
from quorate.api.syntax import signed_int32

_MAX_DIGITS: Final = 10

Values = tuple[str, ...]
_NONE: Final[Mapping[Values, int]] = {}


class PodPlace(NamedTuple):
    """A pod of the pod set that is not terminated."""

    name: str
    rank: int | None  # see pod_rank
    values: Values | None  # node selectors for the recorded levels; None: the pod is gated


class Ranks(NamedTuple):
    """How the ranks of a pod set are computed."""

    index_label: str
    size: int  # pods of the pod set
    sub_group_label: str = ""
    sub_groups: int = 0  # 0: no sub groups
    offset: int = 0  # what is subtracted from each index


def pod_set_ranks(workload: Workload, pod_set: str, index_offset: str | None) -> Ranks | None:
    """Return how the pods of an admitted pod set are ranked; None if they are not.

    ``index_offset`` is the value of the annotation pod-index-offset of the set's first pod, if it has one.
    Of the two pod sets of a group the larger one continues the indices of the smaller one.
    """
    requests = {of_workload.name: of_workload.topology_request for of_workload in workload.spec.pod_sets}
    request = requests.get(pod_set, UNSET)
    offset = 0 if index_offset is None else signed_int32(index_offset)
    if request is UNSET or not request.pod_index_label or offset is None:
        return None
    counts = _pod_counts(workload)
    group = [
        name
        for name in counts
        if (other := requests.get(name, UNSET)) is not UNSET
        and request.pod_set_group_name
        and other.pod_set_group_name == request.pod_set_group_name
    ]
    smallest = min(group, key=lambda name: counts[name], default=pod_set)
    return Ranks(
        index_label=request.pod_index_label,
        size=counts.get(pod_set, 0),
        sub_group_label=request.sub_group_index_label,
        sub_groups=request.sub_group_count or 0,
        offset=offset if smallest == pod_set else offset + counts[smallest],
    )


def _pod_counts(workload: Workload) -> dict[str, int]:
    """Return the number of pods of each admitted pod set."""
    assignments = () if workload.status.admission is None else workload.status.admission.pod_set_assignments
    requested = {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets}
    return {
        assignment.name: requested.get(assignment.name, 0) if assignment.count is None else assignment.count
        for assignment in assignments
    }


def pod_rank(labels: Mapping[str, str], ranks: Ranks) -> int | None:
    """Return the rank of a pod with ``labels``, from 0 to size - 1; None if it has no valid rank."""
    rank = _number(labels.get(ranks.index_label, ""))
    if rank is None:
        return None
    if ranks.sub_group_label:
        if ranks.sub_groups <= 0:
            return None
        size = ranks.size // ranks.sub_groups
        group = _number(labels.get(ranks.sub_group_label, ""))
        if group is None or group >= ranks.sub_groups or rank >= size:
            return None
        rank += group * size
    rank -= ranks.offset
    return rank if 0 <= rank < ranks.size else None


def _number(text: str) -> int | None:
    is_number = text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
    return int(text) if is_number else None


def choose_domains(
    domains: Iterable[tuple[Values, int]],
    pods: Iterable[PodPlace],
    unhealthy: frozenset[str] = frozenset(),
    ended: Mapping[Values, int] = _NONE,
) -> dict[str, Values]:
    """Return the values of the domain of each pod that can be ungated, by the name of the pod.

    ``domains`` are the domains of the assignment in recorded order, with their numbers of pods. A pod that
    belongs to one of the ``unhealthy`` hosts stays gated. The order of ``pods`` makes no difference.

    ``ended`` are the pods of each domain that have succeeded. Other workloads may use the places of these
    pods by now, so a pod without a rank gets such a place only if no other place is left.
    """
    counts: dict[Values, int] = {}
    for values, count in domains:
        counts[values] = counts.get(values, 0) + max(count, 0)
    # Those with a rank come first: after a replacement, the slices of gated pods stay together.
    ordered = sorted(pods, key=lambda pod: (pod.rank is None, pod.rank or 0, pod.name))
    chosen = _by_rank(counts, ordered)
    if chosen is None:
        chosen = _greedy(counts, ordered, ended)
    return {name: values for name, values in chosen.items() if values[-1] not in unhealthy}


def _by_rank(counts: Mapping[Values, int], pods: Sequence[PodPlace]) -> dict[str, Values] | None:
    """Return None if a pod has no valid rank, shares it, or runs elsewhere than its rank says."""
    listed = list(counts)
    ends = list(accumulate(counts.values()))  # the list of places can be too long to be built
    seen: set[int] = set()
    chosen: dict[str, Values] = {}
    for pod in pods:
        if pod.rank is None or pod.rank in seen or not ends or not 0 <= pod.rank < ends[-1]:
            return None
        seen.add(pod.rank)
        values = listed[bisect_right(ends, pod.rank)]
        if pod.values is None:
            chosen[pod.name] = values
        elif pod.values != values:
            return None
    return chosen


def _greedy(
    counts: Mapping[Values, int], pods: Sequence[PodPlace], ended: Mapping[Values, int]
) -> dict[str, Values]:
    taken = Counter(pod.values for pod in pods if pod.values is not None)
    gated = [pod.name for pod in pods if pod.values is None]
    chosen: dict[str, Values] = {}
    for left in (ended, {}):
        for values, count in counts.items():
            free = max(count - taken[values] - left.get(values, 0), 0)
            here = gated[len(chosen) : len(chosen) + free]
            taken[values] += len(here)
            chosen.update(dict.fromkeys(here, values))
            if len(chosen) == len(gated):
                return chosen
    return chosen
