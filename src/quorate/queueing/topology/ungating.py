"""Which domain each gated pod of a pod set gets, from the topology assignment of its workload.

Pods get domains by rank if each pod has a valid rank, and greedily otherwise. Neither way adds a pod to a
domain that has as many pods as the assignment gives it.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

_MAX_DIGITS: Final = 10

Values = tuple[str, ...]


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


def pod_rank(labels: Mapping[str, str], ranks: Ranks) -> int | None:
    """Return the rank of a pod with ``labels``, from 0 to size - 1; None if it has no valid rank."""
    rank = _number(labels.get(ranks.index_label, ""))
    if rank is None:
        return None
    if ranks.sub_group_label and ranks.sub_groups > 0:
        size = ranks.size // ranks.sub_groups
        group = _number(labels.get(ranks.sub_group_label, ""))
        if group is None or rank >= size:
            return None
        rank += group * size
    rank -= ranks.offset
    return rank if 0 <= rank < ranks.size else None


def _number(text: str) -> int | None:
    is_number = text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
    return int(text) if is_number else None


def choose_domains(
    domains: Iterable[tuple[Values, int]], pods: Iterable[PodPlace], unhealthy: frozenset[str] = frozenset()
) -> dict[str, Values]:
    """Return the values of the domain of each pod that can be ungated, by the name of the pod.

    ``domains`` are those of the assignment in recorded order, with their numbers of pods. Pods whose domain
    is one of the ``unhealthy`` hosts stay gated. The order of ``pods`` makes no difference.
    """
    counts: dict[Values, int] = {}
    for values, count in domains:
        counts[values] = counts.get(values, 0) + max(count, 0)
    ordered = sorted(pods, key=lambda pod: pod.name)
    chosen = _by_rank(counts, ordered)
    if chosen is None:
        chosen = _greedy(counts, ordered)
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


def _greedy(counts: Mapping[Values, int], pods: Sequence[PodPlace]) -> dict[str, Values]:
    taken = Counter(pod.values for pod in pods if pod.values is not None)
    gated = [pod.name for pod in pods if pod.values is None]
    chosen: dict[str, Values] = {}
    start = 0
    for values, count in counts.items():
        end = start + max(count - taken[values], 0)
        chosen.update(dict.fromkeys(gated[start:end], values))
        start = min(end, len(gated))
    return chosen
