"""Pods placed in leaves of topologies that end above hosts: what is known of their hosts.

Of a pod that is bound, the node is known; of the others, what their templates accept.
"""

from collections.abc import Container, Iterable
from functools import partial

from quorate.api.core.pod_templates import template_pod
from quorate.api.interning import InternCache
from quorate.api.kueue import ResourceFlavor
from quorate.api.meta import Key
from quorate.placement.topology.leaf_hosts import HostRequest, Pods
from quorate.placement.topology.tree import DomainTree, Path
from quorate.queueing.topology.foreign_pods import NodeUse, PodsByWorkload
from quorate.queueing.topology.places import Amounts, Place

_MAX_TEMPLATES = 1024  # decoded ones that are kept


class PodsInLeaves:
    """The placed pods by the values of their leaf, and the bound ones by node."""

    def __init__(self, pods: PodsByWorkload) -> None:
        self._pods = pods
        self._reads_bound = False  # no leaf above hosts exists
        self._placed: dict[Path, dict[tuple[tuple[str, ...], HostRequest], int]] = {}  # without zeros
        self._bound: dict[str, dict[Key, Amounts]] = {}  # by node and pod, of workloads with places
        self._node_of: dict[Key, str] = {}  # by bound pod

    def take_pods(self, pods: PodsByWorkload) -> None:
        """Read the bound pods of another model."""
        self._pods = pods

    def set_reads_bound(self, reads_bound: bool, with_places: Container[Key]) -> None:
        """Begin or cease to index bound pods of the workloads ``with_places``."""
        self._reads_bound = reads_bound
        self._bound.clear()
        self._node_of.clear()
        if reads_bound:
            for workload in self._pods.workloads():
                for pod, use in self._pods.uses_of(workload) if workload in with_places else ():
                    self.bind(pod, use)

    def bind(self, pod: Key, use: NodeUse | None) -> tuple[str, ...]:
        """Set what a pod with a place uses of its node; None: it is not bound.

        Returns the nodes on which something changed.
        """
        if not self._reads_bound:
            return ()
        changed: list[str] = []
        old = self._node_of.pop(pod, None)
        if old is not None:
            if use is not None and use.node == old and self._bound[old][pod] == use.requests:
                self._node_of[pod] = old
                return ()
            del self._bound[old][pod]
            if not self._bound[old]:
                del self._bound[old]
            changed.append(old)
        if use is not None:
            self._node_of[pod] = use.node
            self._bound.setdefault(use.node, {})[pod] = use.requests
            changed.append(use.node)
        return tuple(changed)

    def count(self, place: Place, times: int) -> None:
        """Count the pods of a place, ``times`` 1, or -1 to take them back."""
        if not place.pods:
            return
        key = place.flavors, host_request(place)
        of_leaf = self._placed.setdefault(place.values, {})
        of_leaf[key] = of_leaf.get(key, 0) + place.pods * times
        if not of_leaf[key]:
            del of_leaf[key]
            if not of_leaf:
                del self._placed[place.values]

    def connect(self, tree: DomainTree, flavor: ResourceFlavor) -> None:
        """Let the tree of a flavor read the pods, if its leaves are above hosts."""
        if tree.below is not None:
            tree.below.placed = partial(self._placed_in, flavor.metadata.name)
            tree.below.bound = lambda node: self._bound.get(node, {}).values()
            tree.below.tolerations = flavor.spec.tolerations

    def _placed_in(self, flavor: str, leaf: Path) -> Iterable[Pods]:
        placed = self._placed.get(leaf, {}).items()
        return [(request, pods) for (flavors, request), pods in placed if flavor in flavors and pods > 0]


def host_request(place: Place) -> HostRequest:
    """Return what each pod of a place asks of its host."""
    per_pod = tuple(sorted((name, amount // place.pods) for name, amount in place.amounts.items() if amount))
    if place.template is None:
        return HostRequest(per_pod)
    template = place.template
    terms = _intern_terms(template.namespace.encode() + b"\n" + bytes(template.content))
    return HostRequest(per_pod, *terms[1:])


def _terms(content: bytes) -> HostRequest:
    namespace, _, stored = content.partition(b"\n")
    spec = template_pod(namespace.decode(), stored).spec
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required if affinity is not None else None
    return HostRequest((), tuple(spec.node_selector.items()), required, spec.tolerations)


_intern_terms = InternCache(_terms, entries=_MAX_TEMPLATES)
