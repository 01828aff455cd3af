"""Limits of pods on hosts beside labels, taints and resources: ports, volumes, pod affinity and spread.

The filters are those of the gang scheduler, over the same cluster from which pods get their places.  They
read it from the first workload on that queues and of which the pods have such a constraint, or may be
selected by an anti-affinity term of a placed pod; until then the shapes of pods have amounts only.  They
read it in slices between the cycles.  All pods that use nodes count: a pod without a place by its node, and
pods with places by the places of their workload, whether the pods exist or not.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from itertools import islice
from typing import Final

from msgspec.structs import replace

from quorate.api.core.pod import Pod, PodMeta
from quorate.api.core.scheduling import Node, PodSpec
from quorate.api.core.volumes import CSINode, PersistentVolumeClaim
from quorate.api.kueue.topology import HOSTNAME
from quorate.api.meta import Key
from quorate.api.scheduler_configuration.plugins import PredicateArguments
from quorate.placement.claim_requirements import NO_VOLUMES
from quorate.placement.cluster import Cluster
from quorate.placement.filters.engine import ConstraintEngine
from quorate.placement.filters.volumes.requirements import volume_requirements
from quorate.placement.filters.volumes.storage import StorageIndex
from quorate.placement.resources import EMPTY_AMOUNTS
from quorate.placement.shapes import Shape, Shapes
from quorate.placement.topology.counting import Capacity, Exclusions, accepted_leaves, fitting_pods
from quorate.placement.topology.pod_limits import PodLimits, limit_pods, limits_with_preemption
from quorate.placement.topology.request import PodSetRequest
from quorate.placement.vectors import np
from quorate.queueing.limits import MAX_TEMPLATES
from quorate.queueing.nodes.occupants import Name, Occupant, Occupants, offer_the_same, offered_amounts
from quorate.queueing.nodes.places import Amounts, Place
from quorate.queueing.nodes.pod_templates import Template

SLICE_SIZE: Final = 200  # objects


HeldKey = tuple[str, Template]  # the host and the template of pods with places


class ConstraintView:
    """The filters over the cluster of the topology model, and what they have not read yet, in order.

    A new view reads nothing.  The filters read the nodes, and the pods and places get what filters read of
    them, in slices, between which other tasks run.  What changes meanwhile is read at once.
    """

    def __init__(
        self, cluster: Cluster, drivers: Iterable[str], pods: Iterable[Name], held: Iterable[HeldKey]
    ) -> None:
        self.cluster = cluster
        self.engine = ConstraintEngine(cluster, PredicateArguments())
        self.checked: dict[tuple[object, ...], Shape] = {}
        self.has_rows = False  # the filters have read all nodes
        self.drivers = dict.fromkeys(drivers)  # not read, by node
        self.pods = dict.fromkeys(pods)  # not read
        self.held = dict.fromkeys(held)  # not read

    @property
    def is_complete(self) -> bool:
        return self.has_rows and not (self.drivers or self.pods or self.held)

    def set_drivers(self, drivers: CSINode) -> None:
        self.drivers.pop(drivers.metadata.name, None)
        self.engine.set_drivers(drivers)

    def remove_drivers(self, node: str) -> None:
        self.drivers.pop(node, None)
        self.engine.remove_drivers(node)


_NO_CONSTRAINTS: Final = PodSpec()
VOLUMES_UNKNOWN: Final = "the volumes of the cluster are not known yet"


class PodConstraints:
    """Evaluates ports, volumes, pod affinity and spread of pods for the hosts of a topology."""

    def __init__(self, cluster: Cluster, occupants: Occupants) -> None:
        """``cluster`` and ``occupants`` belong to the topology model."""
        self.storage = StorageIndex()
        self.has_storage = True  # False until claims and volumes are listed
        # Sums of hashes over pods with constraints, and over all: equal sums mean equal pods.
        self.sum_constrained = self.sum = 0
        self.cluster, self.occupants, self.shapes = cluster, occupants, Shapes()
        self.held: dict[HeldKey, int] = {}  # how many pods have places
        self._node_of_host: dict[str, str] = {}  # those that do not have its name
        # By namespace: how many terms of anti-affinity may select its pods; "" has those for all namespaces.
        self.repelled: Counter[str] = Counter()
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._drivers: dict[str, CSINode] = {}
        self.view: ConstraintView | None = None
        # Of workloads that have queued: whether one has constraints, and the namespaces of the others.
        self._expects_constraints = False
        self._expected: set[str] = set()

    @property
    def is_used(self) -> bool:
        """Return True if pods with constraints are checked."""
        return self.view is not None

    # Objects.

    def put_node(self, node: Node, old: Node | None) -> None:
        """Read a node that the cluster has now, instead of ``old``."""
        name, host = node.metadata.name, node.metadata.labels.get(HOSTNAME, "")
        if old is None or not offer_the_same(old, node):
            self._count_pods_again(name)
        before = host if old is None else old.metadata.labels.get(HOSTNAME, "")
        if old is not None and before != host:
            self._forget_host(old)
            self._hold_again(before)
        if self._node_of_host.get(host, host) != name:
            self._node_of_host[host] = name
            self._hold_again(host)

    def remove_node(self, node: Node) -> None:
        """Read that the cluster does not have a node any more."""
        self._count_pods_again(node.metadata.name)
        self._forget_host(node)

    def _count_pods_again(self, node: str) -> None:
        """Count the pods on a node that offers other resources."""
        for pod, occupant in self.occupants.named_on(node).items():
            self._count_again(pod, occupant)

    def _forget_host(self, node: Node) -> None:
        host = node.metadata.labels.get(HOSTNAME, "")
        if self._node_of_host.get(host) == node.metadata.name:
            del self._node_of_host[host]

    def put_namespace(self, name: str, labels: Mapping[str, str]) -> None:
        self._namespaces[name] = labels
        if self.view is not None:
            self.view.engine.set_namespace(name, labels)

    def forget_namespace(self, name: str) -> None:
        """Drop what is known of a deleted namespace without pods; its labels are empty by now."""
        self._namespaces.pop(name, None)
        self._expected.discard(name)

    def put_drivers(self, drivers: CSINode) -> None:
        self._drivers[drivers.metadata.name] = drivers
        if self.view is not None:
            self.view.set_drivers(drivers)

    def remove_drivers(self, node: str) -> None:
        self._drivers.pop(node, None)
        if self.view is not None:
            self.view.remove_drivers(node)

    def put_claim(self, claim: PersistentVolumeClaim) -> None:
        self.storage.set_claim(claim)
        self._claim_changed(claim.metadata.key)

    def remove_claim(self, key: Key) -> None:
        self.storage.remove_claim(key)
        self._claim_changed(key)

    def _claim_changed(self, claim: Key) -> None:
        """Count the pods that use a claim again, with what its volume is now."""
        if self.view is None:
            return
        for name, occupant in self.occupants.by_name.items():
            if _uses(occupant.pod, claim):
                self._count_again(name, occupant)

    # Pods on nodes.

    def add(self, name: Name, occupant: Occupant) -> None:
        """Count a pod that is among the occupants now."""
        self.count(occupant, 1)
        self._put(name, occupant)

    def remove(self, name: Name, occupant: Occupant) -> None:
        """Count a pod no longer."""
        self.count(occupant, -1)
        self.uncount(name)

    def uncount(self, name: Name) -> None:
        """Remove a pod from the cluster, if it is there."""
        if self.view is not None:
            self.view.pods.pop(name, None)
        if name in self.cluster.occupants:
            self.cluster.remove_pod(name)

    def _put(self, name: Name, occupant: Occupant) -> None:
        """Put a pod that takes room itself into the cluster."""
        if self.occupants.counts(occupant):
            shape = self._shape_of_bound(occupant)
            self.cluster.add_pod(name, shape, occupant.node, occupant.state)

    def _count_again(self, name: Name, occupant: Occupant) -> None:
        self.uncount(name)
        self._put(name, occupant)

    def plain_shape(self, occupant: Occupant) -> Shape:
        """Return the shape with what a pod uses of what its node offers, and nothing else."""
        return self.shapes.of_constraints("", {}, _NO_CONSTRAINTS, NO_VOLUMES, self._amounts_of(occupant))

    def _amounts_of(self, occupant: Occupant) -> Amounts:
        index = self.cluster.index(occupant.node)
        return offered_amounts(occupant.requests, None if index is None else self.cluster.nodes[index])

    def is_in_view(self, occupant: Occupant) -> bool:
        """Return True if the filters count a pod by itself."""
        return occupant.pod is not None and self.occupants.counts(occupant)

    def count(self, occupant: Occupant, times: int) -> None:
        """Add a pod to the sums, ``times`` 1, or -1 to take it back."""
        pod = occupant.pod
        if pod is None:
            return
        for namespace in repelled_namespaces(pod.metadata.namespace, pod.constraints):
            self.repelled[namespace] += times
        if self.occupants.counts(occupant):
            number = hash_of(pod, occupant.node) * times
            self.sum += number
            if pod.constraints is not None:
                self.sum_constrained += number

    # Pods with places.

    def hold(self, host: str, template: Template, pods: int) -> None:
        """Count ``pods`` of a workload that has places on the host; a negative number takes them back."""
        number = hash((host, template)) * pods
        self.sum += number
        if template.has_constraints:
            self.sum_constrained += number
        self._hold(host, template, pods)

    def _hold(self, host: str, template: Template, pods: int) -> None:
        key = host, template
        left = self.held.get(key, 0) + pods
        if template.repels:
            terms = list(repelled_namespaces(template.namespace, template.decode().spec))
            self.repelled.update(dict.fromkeys(terms, (left > 0) - (key in self.held)))
        if left:
            self.held[key] = left
        else:
            self.held.pop(key, None)
        if self.view is not None:
            self._set_held(self.view, key, left)

    def _set_held(self, view: ConstraintView, key: HeldKey, pods: int) -> None:
        """Set how many pods of a template have places on a host."""
        view.held.pop(key, None)
        held, (host, template) = self.cluster.occupants.get(key), key
        if held is None and not pods:
            return
        shape = self._shape(template.decode()) if held is None else held.shape
        self.cluster.hold(key, shape, self._node_of_host.get(host, host), pods)

    def _hold_again(self, host: str) -> None:
        """Hold the places on a host again after its node was replaced."""
        if self.view is not None:
            for key in [key for key in self.held if key[0] == host]:
                self._set_held(self.view, key, self.held[key])

    def replace_places(self, fresh: "PodConstraints") -> None:
        """Count the places and expected checks of ``fresh``, which is not used any more, beside all pods."""
        for key in self.held:
            self.cluster.release(key)
        self.held, self.repelled, self._namespaces = fresh.held, fresh.repelled, fresh._namespaces
        self.sum, self.sum_constrained = fresh.sum, fresh.sum_constrained
        for name, occupant in self.occupants.by_name.items():
            self.count(occupant, 1)
            if self.occupants.counts(occupant) != (name in self.cluster.occupants):
                self._count_again(name, occupant)
        self._expects_constraints |= fresh._expects_constraints or self.view is not None
        self._expected |= fresh._expected
        self.view = None

    def assume(self, places: Iterable[Place], stack: ExitStack) -> None:
        """Count the pods of a workload that is being placed until ``stack`` is closed."""
        for place in places:
            if place.on_host and place.template is not None:
                self._hold(place.values[-1], place.template, place.pods)
                stack.callback(self._hold, place.values[-1], place.template, -place.pods)

    # Limits.

    def version(self, template: Template) -> int:
        """Return a number that changes with the limits for pods of the template."""
        return self.sum if template.has_constraints else self.sum_constrained

    def may_limit(self, template: Template) -> bool:
        """Return False if nothing but resources, labels and taints decides which hosts take the pods."""
        repelled = self.repelled
        return template.has_constraints or bool(repelled[template.namespace] or repelled[""])

    def limits(
        self,
        capacity: Capacity,
        request: PodSetRequest,
        template: Template,
        labels: Collection[tuple[str, str]],
    ) -> PodLimits:
        """Return how many of the pods each leaf of the tree, a host, takes.

        ``labels`` are the labels of the nodes of the flavors.
        """
        if not self.has_storage and template.has_constraints and template.decode().spec.volumes:
            no_pods = np.zeros(capacity.tree.leaf_count, np.int64)
            return PodLimits(no_pods, no_pods > 0, ((VOLUMES_UNKNOWN, 0),))
        view, tree = self._used_view(), capacity.tree
        hosts = tree.indexes
        shape = self._checked_shape(view, request, template, labels)
        if capacity.is_empty:
            return limits_with_preemption(view.engine, shape, hosts)
        remaining = {resource: capacity.remaining(resource) for resource in request.per_pod}
        accepted = accepted_leaves(tree, request, Exclusions())
        room, _ = fitting_pods(remaining, request.per_pod, accepted)
        return limit_pods(view.cluster, view.engine, shape, hosts, accepted, room, request.count)

    # View.

    def expect(self, template: Template) -> None:
        """Note that pods of the template will be checked."""
        if template.has_constraints:
            self._expects_constraints = True
        else:
            self._expected.add(template.namespace)

    def prepare(self) -> bool:
        """Put a slice of what the expected checks read into the view; return True if nothing is left."""
        if self.view is None:
            if not (self._expects_constraints or self._expects_repelled()):
                return True
            self.view = self._empty_view()
        self._fill(self.view, SLICE_SIZE)
        return self.view.is_complete

    def _expects_repelled(self) -> bool:
        """Return True if terms of anti-affinity may select pods of a namespace with expected checks."""
        expected, repelled = self._expected, self.repelled
        return bool(expected and repelled[""]) or any(repelled[namespace] for namespace in expected)

    def _used_view(self) -> ConstraintView:
        """Return the view with all nodes and pods."""
        if self.view is None:
            self.view = self._empty_view()
        while not self.view.is_complete:
            self._fill(self.view, SLICE_SIZE)
        return self.view

    def _empty_view(self) -> ConstraintView:
        pods = (name for name, occupant in self.occupants.by_name.items() if self.is_in_view(occupant))
        view = ConstraintView(self.cluster, self._drivers, pods, self.held)
        for name, labels in self._namespaces.items():
            view.engine.set_namespace(name, labels)
        return view

    def _fill(self, view: ConstraintView, size: int) -> None:
        """Let the filters read ``size`` nodes or, once they have, other objects."""
        if not view.has_rows:
            view.has_rows = view.engine.refresh(size)
            return
        for name in list(islice(view.drivers, size)):
            view.set_drivers(self._drivers[name])
            size -= 1
        for pod in list(islice(view.pods, size)):
            self._count_again(pod, self.occupants.by_name[pod])
            size -= 1
        for held in list(islice(view.held, size)):
            self._set_held(view, held, self.held.get(held, 0))
        view.engine.refresh()

    # Shapes.

    def _shape_of_bound(self, occupant: Occupant) -> Shape:
        pod = occupant.pod
        if pod is None or self.view is None:
            return self.plain_shape(occupant)
        amounts = self._amounts_of(occupant)
        metadata, spec = pod.metadata, pod.constraints or _NO_CONSTRAINTS
        if not spec.volumes:
            return self.shapes.of_constraints(metadata.namespace, metadata.labels, spec, NO_VOLUMES, amounts)
        meta = PodMeta(
            name=metadata.name, namespace=metadata.namespace, uid=metadata.uid, labels=metadata.labels
        )
        return self._shape(Pod(metadata=meta, spec=spec), amounts)

    def _shape(self, pod: Pod, amounts: Amounts = EMPTY_AMOUNTS) -> Shape:
        volumes = volume_requirements(pod, self.storage) if self.has_storage else NO_VOLUMES
        metadata = pod.metadata
        return self.shapes.of_constraints(metadata.namespace, metadata.labels, pod.spec, volumes, amounts)

    def _checked_shape(
        self,
        view: ConstraintView,
        request: PodSetRequest,
        template: Template,
        labels: Collection[tuple[str, str]],
    ) -> Shape:
        pod = template.decode()
        version = self.storage.version if pod.spec.volumes else 0
        key = template, frozenset(labels), request.tolerations, version
        shape = view.checked.get(key)
        if shape is None:
            if len(view.checked) >= MAX_TEMPLATES:
                view.checked.clear()
            selector = {**dict(labels), **pod.spec.node_selector}
            spec = replace(pod.spec, node_selector=selector, tolerations=request.tolerations)
            shape = view.checked[key] = self._shape(replace(pod, spec=spec))
        return shape


def _uses(pod: Pod | None, claim: Key) -> bool:
    if pod is None or pod.constraints is None or pod.metadata.namespace != claim.namespace:
        return False
    sources = (volume.persistent_volume_claim for volume in pod.constraints.volumes)
    return any(source is not None and source.claim_name == claim.name for source in sources)


def hash_of(pod: Pod, node: str) -> int:
    """Return a number for a pod without a place, by all of it that can change."""
    return hash((pod.metadata.key, node, pod.is_leaving, frozenset(pod.metadata.labels.items())))


def repelled_namespaces(namespace: str, spec: PodSpec | None) -> Iterator[str]:
    """Yield the namespaces of pods that the anti-affinity of a pod may select; "" is all of them."""
    affinity = None if spec is None or spec.affinity is None else spec.affinity.pod_anti_affinity
    for term in () if affinity is None else affinity.required:
        if term.namespace_selector is not None:
            yield ""
        else:
            yield from term.namespaces or (namespace,)
