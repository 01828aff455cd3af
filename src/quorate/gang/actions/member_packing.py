"""Whether unequal members fit the nodes, each on one.

This is bin packing.  A fast search places the largest members first, each where least is left.  If it fails,
the members are said not to fit only where that is certain: more of them than nodes have room for are at least
as large as some member, or an exhaustive search of a small problem finds no places.  Otherwise they may fit.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from quorate.placement.cluster import Cluster
from quorate.placement.vectors import Matrix, Vector, np

_MANY: Final = 2**31 - 1
_MAX_MEMBERS: Final = 12  # of the exhaustive search
_MAX_STEPS: Final = 500  # of it, each over all nodes
_MAX_NODES: Final = 256


class Members(NamedTuple):
    """Equal members."""

    amounts: Mapping[str, int]  # by resource, all positive
    pods: int


class PackingFailure(NamedTuple):
    """Some members fit no node beside the others."""

    fitting: int
    resource: str  # of which the first that does not fit finds too little
    needed: int
    best: int  # the most that a node has left


def find_packing_failure(idle: Mapping[str, Vector], members: Sequence[Members]) -> PackingFailure | None:
    """Return what does not fit, if it is certain; None if all members fit, or may.

    ``idle`` has by resource what each node has left; a resource that it lacks no node has.
    """
    resources = sorted({name for member in members for name in member.amounts})
    nodes = len(next(iter(idle.values()), ()))
    nothing = np.zeros(nodes, np.int64)
    left = np.array([np.maximum(idle.get(name, nothing), 0) for name in resources], np.int64)
    left = left.reshape(len(resources), nodes)
    requests = [np.array([member.amounts.get(name, 0) for name in resources], np.int64) for member in members]
    most = np.maximum(left.max(axis=1, initial=0), 1)
    order = sorted(range(len(members)), key=lambda i: (-float((requests[i] / most).max(initial=0)), i))
    groups = [(requests[index], members[index].pods) for index in order]
    failure = _place_largest_first(left.copy(), groups, resources)
    if failure is None or not (_exceeds_room(left, groups) or _has_no_packing(left, groups)):
        return None
    return failure


def places_of(cluster: Cluster, free: Matrix, members: Sequence[Members]) -> Matrix | None:
    """Return what ``members`` take of each ready node, largest first; None if that search finds no places.

    ``free`` and the result have the rows and columns of the matrices of ``cluster``.
    """
    left = np.where(cluster.ready, np.maximum(free, 0), 0)
    placed = left.copy()
    if any(member.amounts.keys() - cluster.rows.keys() for member in members):
        return None
    groups = [(cluster.by_row(member.amounts), member.pods) for member in members]
    most = np.maximum(left.max(axis=1, initial=0), 1)
    groups.sort(key=lambda group: -float((group[0] / most).max(initial=0)))
    failure = _place_largest_first(placed, groups, cluster.resources)
    return None if failure is not None else left - placed


def _fitting(left: Matrix, request: Vector) -> Vector:
    """Return how many pods each node takes."""
    fitting = np.full(left.shape[1], _MANY, np.int64)
    for row in np.flatnonzero(request):
        fitting = np.minimum(fitting, left[row] // request[row])
    return fitting


def _leftover(left: Matrix, request: Vector) -> Vector:
    """Return what each node has left of the resource that is requested most, relative to all."""
    most = np.maximum(left.max(axis=1, initial=0), 1)
    leftover: Vector = left[int((request / most).argmax())]
    return leftover


def _place_largest_first(
    left: Matrix, groups: Sequence[tuple[Vector, int]], resources: Sequence[str]
) -> PackingFailure | None:
    placed = 0
    for request, count in groups:
        missing = count
        fitting = _fitting(left, request)
        candidates = np.flatnonzero(fitting)
        for node in candidates[np.argsort(_leftover(left, request)[candidates], kind="stable")]:
            pods = min(missing, int(fitting[node]))
            left[:, node] -= request * pods
            missing -= pods
            if not missing:
                break
        placed += count - missing
        if missing:
            best = left.max(axis=1, initial=0)
            row = int(np.argmax(np.where(request > 0, 1 - best / np.maximum(request, 1), -np.inf)))
            return PackingFailure(placed, resources[row], int(request[row]), int(best[row]))
    return None


def _exceeds_room(left: Matrix, groups: Sequence[tuple[Vector, int]]) -> bool:
    """Return True if some member, together with all members at least as large, exceeds the room left."""
    for request, _ in groups:
        as_large = sum(count for other, count in groups if (other >= request).all())
        if int(_fitting(left, request).sum()) < as_large:
            return True
    return False


def _has_no_packing(left: Matrix, groups: Sequence[tuple[Vector, int]]) -> bool:
    """Return True if no places exist for a small number of members."""
    members = [request for request, count in groups for _ in range(min(count, _MAX_MEMBERS + 1))]
    if len(members) > _MAX_MEMBERS or left.shape[1] > _MAX_NODES:
        return False
    steps = 0

    def fails(first: int, left: Matrix) -> bool:
        """Return True if members from the ``first`` one on have no places; False also if it takes long."""
        nonlocal steps
        steps += 1
        if first == len(members) or steps > _MAX_STEPS:
            return False
        request = members[first]
        seen: set[bytes] = set()
        for node in np.flatnonzero(_fitting(left, request)):
            state = left[:, node].tobytes()  # equal nodes have equal outcomes
            if state in seen:
                continue
            seen.add(state)
            rest = left.copy()
            rest[:, node] -= request
            if not fails(first + 1, rest):
                return False
        return True

    return fails(0, left)
