"""The places of an elastic job that has shrunk in place: those of the pods that are left.

Kueue (v0.19) keeps the places of all pods that there were.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

Values = tuple[str, ...]  # of the recorded levels of a domain


def shrunk_domains(
    domains: Sequence[tuple[Values, int]], count: int, pods: Iterable[Values]
) -> tuple[tuple[Values, int], ...] | None:
    """Return the places of ``count`` pods, in their order; None if there are no more than that.

    ``pods`` are the domains of the pods that run or were ungated.  None as well while these are more than
    ``count``: some of them will leave.  Pods that do not exist yet keep the first places that are left.
    """
    if sum(places for _, places in domains) <= count:
        return None
    present = Counter(pods)
    held = [min(places, present[values]) for values, places in domains]
    missing = count - sum(held)
    if missing < 0:
        return None
    kept: list[tuple[Values, int]] = []
    for (values, places), here in zip(domains, held, strict=True):
        more = min(places - here, missing)
        missing -= more
        if here + more:
            kept.append((values, here + more))
    return tuple(kept)
