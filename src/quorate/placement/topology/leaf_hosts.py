"""The hosts below the leaves of a topology that ends above hosts: whether pods fit host by host.

The sum of what the nodes of a rack have left does not tell whether a pod fits one of them.  An assignment
names racks only, so the hosts of placed pods that are not bound yet are unknown.  They are assumed to be
packed: the largest pods first, each on the fitting host with the least room.  Further pods get what that
leaves, on hosts with labels and taints that accept them (Kueue 0.20: TASNodeFeasibilityForAllLevels).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping, Sequence
from typing import Final, NamedTuple

from quorate.api.core import NodeSelector, Toleration
from quorate.api.core.scheduling import Node
from quorate.placement.cluster import Cluster
from quorate.placement.filters.node_affinity import match_any_term, matching_nodes
from quorate.placement.filters.node_columns import NodeColumns
from quorate.placement.filters.taints import nodes_with_tolerated_taints
from quorate.placement.vectors import Mask, Vector, np

_MANY: Final = 2**31 - 1
_SPARE: Final = 32  # rows to allocate at least

Amounts = Mapping[str, int]
Path = tuple[str, ...]


class HostRequest(NamedTuple):
    """What each of several equal pods asks of its host."""

    per_pod: tuple[tuple[str, int], ...]  # in base units by resource
    node_selector: tuple[tuple[str, str], ...] = ()
    affinity: NodeSelector | None = None
    tolerations: tuple[Toleration, ...] = ()

    def fitting(self, left: Amounts) -> int:
        """Return how many of the pods fit what a host has left."""
        return min(
            (max(0, left.get(name, 0) // amount) for name, amount in self.per_pod if amount > 0),
            default=_MANY,
        )


Pods = tuple[HostRequest, int]  # equal pods and their number


class LeafHosts:
    """The hosts of one tree by the column of their leaf."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.columns = NodeColumns()  # by row
        self._row_of: dict[str, int] = {}  # by node
        self._column_of_row: Vector = np.zeros(0, np.int64)  # of the leaf
        self._spare: list[int] = []
        self._nodes_in: dict[int, dict[str, None]] = {}  # by column
        self._path_of: dict[int, Path] = {}  # by column
        self._accepting: dict[tuple[object, ...], Mask] = {}
        self.tolerations: tuple[Toleration, ...] = ()  # of the flavor: all placed pods have them
        # The pods with places in a leaf, and the requests of those among them that are bound to a node.
        self.placed: Callable[[Path], Iterable[Pods]] = lambda _: ()
        self.bound: Callable[[str], Iterable[Amounts]] = lambda _: ()

    # Nodes.

    def put(self, column: int, path: Path, node: Node) -> None:
        """Add a node to a leaf, or read it again."""
        name = node.metadata.name
        if name not in self._row_of:
            self._row_of[name] = self._spare_row()
        self.columns.set(self._row_of[name], node, ready=True)
        self._column_of_row[self._row_of[name]] = column
        self._accepting.clear()
        self._nodes_in.setdefault(column, {})[name] = None
        self._path_of[column] = path

    def remove(self, column: int, node: str) -> None:
        row = self._row_of.pop(node)
        self.columns.set(row, None, ready=False)
        self._spare.append(row)
        self._accepting.clear()
        del self._nodes_in[column][node]
        if not self._nodes_in[column]:
            del self._nodes_in[column], self._path_of[column]

    def names_in(self, column: int) -> KeysView[str]:
        """Return the names of the nodes of a leaf."""
        return self._nodes_in[column].keys()

    def _spare_row(self) -> int:
        if not self._spare:
            size = self.columns.size
            self.columns.grow(size + max(_SPARE, size // 8))
            self._spare = list(range(size, self.columns.size))
            self._column_of_row = np.pad(self._column_of_row, (0, len(self._spare)))
        return self._spare.pop()

    def in_columns(self, rows: Mask, size: int) -> Mask:
        """Return which of ``size`` columns have one of the hosts ``rows``."""
        mask = np.zeros(size, np.bool_)
        mask[self._column_of_row[rows]] = True
        return mask

    # Pods.

    def fitting(
        self, column: int, pods: HostRequest, assumed: Sequence[Pods] = (), *, is_empty: bool = False
    ) -> int:
        """Return how many of ``pods`` fit the hosts of a leaf.

        ``assumed``: further pods in the leaf; ``is_empty``: as if no pods had been placed.
        """
        left, _ = self._left(column, assumed, is_empty=is_empty)
        return sum(pods.fitting(left[host]) for host in self._hosts_for(column, pods))

    def beside_leader(
        self,
        column: int,
        workers: HostRequest,
        leader: HostRequest,
        assumed: Sequence[Pods] = (),
        *,
        is_empty: bool = False,
    ) -> tuple[int, int]:
        """Return 1 if a host takes ``leader``, else 0, and how many workers fit beside it."""
        left, _ = self._left(column, assumed, is_empty=is_empty)
        accepting = set(self._hosts_for(column, workers))
        fitting = {host: workers.fitting(left[host]) if host in accepting else 0 for host in left}
        losses: list[int] = []
        for host in self._hosts_for(column, leader):
            if leader.fitting(left[host]):
                _take(left[host], leader, 1)
                losses.append(fitting[host] - (workers.fitting(left[host]) if host in accepting else 0))
        total = sum(fitting.values())
        return (1, total - min(losses)) if losses else (0, total)

    def takes(self, column: int, pods: Sequence[Pods]) -> bool:
        """Return True if the hosts of a leaf take all of ``pods`` beside the placed ones."""
        _, missing = self._left(column, pods, is_empty=False)
        return not missing

    def limiting(self, column: int, pods: HostRequest) -> str:
        """Return the resource that most accepting hosts lack for one pod; "" if no host accepts it."""
        left, _ = self._left(column, (), is_empty=False)
        shortages = Counter(
            name
            for host in self._hosts_for(column, pods)
            for name, amount in sorted(pods.per_pod)
            if left[host].get(name, 0) < amount
        )
        return max(shortages, key=lambda name: shortages[name], default="")

    def _hosts_for(self, column: int, pods: HostRequest) -> Iterator[str]:
        key = pods[1:]
        mask = self._accepting.get(key)
        if mask is None:
            nodes = self.columns
            mask = nodes_with_tolerated_taints(nodes, (*pods.tolerations, *self.tolerations))
            if pods.node_selector:
                mask &= matching_nodes(nodes, pods.node_selector, None)
            if pods.affinity is not None:
                mask &= match_any_term(nodes, pods.affinity.node_selector_terms)
            self._accepting[key] = mask
        return (host for host in self._nodes_in.get(column, ()) if mask[self._row_of[host]])

    def _left(
        self, column: int, assumed: Sequence[Pods], *, is_empty: bool
    ) -> tuple[dict[str, dict[str, int]], int]:
        """Return what each host has left, and how many of the ``assumed`` pods fit none."""
        left = self._cluster.idle_on(list(self._nodes_in.get(column, ())))
        unbound: list[Pods] = []
        if not is_empty:
            unbound = list(self.placed(self._path_of[column]))
            for host in left:
                for amounts in self.bound(host):
                    _subtract(left[host], amounts.items(), 1)
                    _remove_one(unbound, amounts)
        missing = 0
        for request, count in sorted(unbound, key=_size, reverse=True):
            self._pack(column, left, request, count)
        for request, count in sorted(assumed, key=_size, reverse=True):
            missing += self._pack(column, left, request, count)
        return left, missing

    def _pack(self, column: int, left: dict[str, dict[str, int]], request: HostRequest, count: int) -> int:
        """Take the room of ``count`` pods from hosts; return how many fit none."""
        rooms = sorted((request.fitting(left[host]), host) for host in self._hosts_for(column, request))
        for room, host in rooms:
            pods = min(room, count)
            _take(left[host], request, pods)
            count -= pods
        return count


def _size(pods: Pods) -> tuple[tuple[str, int], ...]:
    return pods[0].per_pod


def _take(left: dict[str, int], request: HostRequest, pods: int) -> None:
    if pods:
        _subtract(left, request.per_pod, pods)


def _subtract(left: dict[str, int], amounts: Iterable[tuple[str, int]], times: int) -> None:
    for resource, amount in amounts:
        left[resource] = left.get(resource, 0) - amount * times


def _remove_one(unbound: list[Pods], amounts: Amounts) -> None:
    """Take one pod from ``unbound``: a pod with ``amounts``, or the largest if there is none with them.

    The requests of a bound pod may differ from the requests with which the pod got its place.
    """
    if not unbound:
        return
    best = max(
        range(len(unbound)), key=lambda at: (dict(unbound[at][0].per_pod) == amounts, _size(unbound[at]))
    )
    request, count = unbound[best]
    if count > 1:
        unbound[best] = request, count - 1
    else:
        del unbound[best]
