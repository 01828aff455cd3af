"""What keeps pods from hosts beside labels, taints and resources: ports, volumes, pod affinity and spread.

The filters are those of the gang scheduler.  Their view of nodes and pods is built when the first workload
queues of which the pods have such a constraint, or may be selected by an anti-affinity term of a placed pod;
until then only references are kept.  It is built in slices between the cycles.  All pods that use
nodes count: those without a place by their node, and those with one by the places of their workload, whether
they exist or not.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from itertools import islice
from typing import Final

import numpy as np
from msgspec.structs import replace

from quorate.api.core.pod import Pod, PodMeta
from quorate.api.core.scheduling import Node, PodSpec
from quorate.api.core.volumes import CSINode, PersistentVolumeClaim
from quorate.api.meta import Key
from quorate.placement.cluster import Cluster
from quorate.placement.filters.volumes.requirements import NO_VOLUMES, volume_requirements
from quorate.placement.filters.volumes.storage import StorageIndex
from quorate.placement.shapes import Shape
from quorate.placement.topology.counting import Capacity, Exclusions, accepted_leaves, fitting_pods
from quorate.placement.topology.pod_limits import PodLimits, limit_pods, limits_with_preemption
from quorate.placement.topology.request import PodSetRequest
from quorate.placement.topology.tree import HOSTNAME, DomainTree
from quorate.placement.vectors import Vector
from quorate.queueing.limits import MAX_TEMPLATES
from quorate.queueing.nodes.constraint_view import SLICE_SIZE, ConstraintView, HeldKey, Objects
from quorate.queueing.nodes.occupants import Name, Occupant, Occupants
from quorate.queueing.nodes.places import Place
from quorate.queueing.nodes.pod_templates import Template

_NO_CONSTRAINTS: Final = PodSpec()
VOLUMES_UNKNOWN: Final = "the volumes of the cluster are not known yet"


class PodConstraints:
    """Evaluates ports, volumes, pod affinity and spread of pods for the hosts of a topology."""

    def __init__(self, nodes: Mapping[str, Node], occupants: Occupants) -> None:
        """``nodes`` and ``occupants`` are those of the topology model."""
        self.storage = StorageIndex()
        self.has_storage = True  # False until claims and volumes are listed
        # Sums of hashes over pods with constraints, and over all: equal sums mean equal pods.
        self.sum_constrained = self.sum = 0
        self._nodes, self.occupants = nodes, occupants
        self.held: dict[HeldKey, int] = {}  # how many pods have places
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
        if self.view is not None:
            if old is not None and old.metadata.labels.get(HOSTNAME) != node.metadata.labels.get(HOSTNAME):
                self.view = self._empty_view()
            else:
                self.view.put_node(node)

    def remove_node(self, node: Node) -> None:
        if self.view is not None:
            self.view.remove_node(node)

    def put_namespace(self, name: str, labels: Mapping[str, str]) -> None:
        self._namespaces[name] = labels
        if self.view is not None:
            self.view.engine.set_namespace(name, labels)

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
        view = self.view
        if view is None:
            return
        for name, occupant in self.occupants.by_name.items():
            if _uses(occupant.pod, claim) and name in view.cluster.occupants:
                view.uncount(name)
                self._count_in(view, name, occupant)

    # Pods on nodes.

    def add(self, name: Name, occupant: Occupant) -> None:
        """Count a pod that is among the occupants now."""
        self.count(occupant, 1)
        if self.view is not None and self.is_in_view(occupant):
            self._count_in(self.view, name, occupant)

    def remove(self, name: Name, occupant: Occupant) -> None:
        """Count a pod no longer."""
        self.count(occupant, -1)
        if self.view is not None:
            self.view.uncount(name)

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

    def _count_in(self, view: ConstraintView, name: Name, occupant: Occupant) -> None:
        assert occupant.pod is not None, f"{name} has nothing that the filters read"
        view.count(name, self._shape_of_bound(view, occupant.pod), occupant.node)

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
        view.hold(key, pods, lambda template: self._shape(view, template.decode()))

    def take_pods(self, old: "PodConstraints", nodes: Mapping[str, Node], occupants: Occupants) -> None:
        """Take over what is known of storage, and count ``occupants``; ``old`` is not used any more."""
        self.storage, self.has_storage, self._drivers = old.storage, old.has_storage, old._drivers
        self._nodes, self.occupants = nodes, occupants
        for occupant in occupants.by_name.values():
            self.count(occupant, 1)
        self.view = None
        self._expects_constraints |= old._expects_constraints or old.view is not None
        self._expected |= old._expected

    def assume(self, places: Iterable[Place], stack: ExitStack) -> None:
        """Count the pods of a workload that is being placed until ``stack`` is closed."""
        for each in places:
            if each.on_host and each.template is not None:
                self._hold(each.values[-1], each.template, each.pods)
                stack.callback(self._hold, each.values[-1], each.template, -each.pods)

    # Limits.

    def version(self, template: Template) -> int:
        """Return a number that is the same as long as limits for pods of the template are."""
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

        ``labels`` are those of the nodes of the flavors.
        """
        if not self.has_storage and template.has_constraints and template.decode().spec.volumes:
            no_pods = np.zeros(capacity.tree.leaf_count, np.int64)
            return PodLimits(no_pods, no_pods > 0, ((VOLUMES_UNKNOWN, 0),))
        view, tree = self._used_view(), capacity.tree
        hosts = _indexes(tree, view.cluster)
        shape = self._checked_shape(view, request, template, labels)
        if capacity.is_empty:
            return limits_with_preemption(view.engine, shape, hosts)
        remaining = {resource: capacity.remaining(resource) for resource in request.per_pod}
        accepted = accepted_leaves(tree, request, Exclusions())
        room, _ = fitting_pods(remaining, request.per_pod, accepted)
        return limit_pods(
            view.cluster,
            view.engine,
            shape,
            hosts,
            accepted,
            room,
            request.count,
        )

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
        return not len(self.view.unread)

    def _expects_repelled(self) -> bool:
        """Return True if terms of anti-affinity may select pods of a namespace with expected checks."""
        expected, repelled = self._expected, self.repelled
        return bool(expected and repelled[""]) or any(repelled[namespace] for namespace in expected)

    def _used_view(self) -> ConstraintView:
        """Return the view with all nodes and pods."""
        if self.view is None:
            self.view = self._empty_view()
        while len(self.view.unread):
            self._fill(self.view, SLICE_SIZE)
        return self.view

    def _empty_view(self) -> ConstraintView:
        pods = (name for name, occupant in self.occupants.by_name.items() if self.is_in_view(occupant))
        view = ConstraintView(Objects(self._nodes, self._drivers, pods, self.held))
        for name, labels in self._namespaces.items():
            view.engine.set_namespace(name, labels)
        return view

    def _fill(self, view: ConstraintView, size: int) -> None:
        """Put ``size`` of the unread objects into the view, and read them."""
        unread = view.unread
        for name in list(islice(unread.nodes, size)):
            view.put_node(self._nodes[name])
            size -= 1
        for name in list(islice(unread.drivers, size)):
            view.set_drivers(self._drivers[name])
            size -= 1
        for pod in list(islice(unread.pods, size)):
            self._count_in(view, pod, self.occupants.by_name[pod])
            size -= 1
        for held in list(islice(unread.held, size)):
            self._set_held(view, held, self.held.get(held, 0))
        view.engine.refresh()

    # Shapes.

    def _shape_of_bound(self, view: ConstraintView, pod: Pod) -> Shape:
        metadata, spec = pod.metadata, pod.constraints or _NO_CONSTRAINTS
        if not spec.volumes:
            return view.shapes.of_constraints(metadata.namespace, metadata.labels, spec, NO_VOLUMES)
        meta = PodMeta(
            name=metadata.name, namespace=metadata.namespace, uid=metadata.uid, labels=metadata.labels
        )
        return self._shape(view, Pod(metadata=meta, spec=spec))

    def _shape(self, view: ConstraintView, pod: Pod) -> Shape:
        volumes = volume_requirements(pod, self.storage) if self.has_storage else NO_VOLUMES
        return view.shapes.of_constraints(pod.metadata.namespace, pod.metadata.labels, pod.spec, volumes)

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
            shape = view.checked[key] = self._shape(view, replace(pod, spec=spec))
        return shape


def _indexes(tree: DomainTree, cluster: Cluster) -> Vector:
    """Return the index in the cluster of each leaf of the tree, a host."""
    names = tree.hosts.names
    index_of = [cluster.index(name) for name in names.values]
    return np.array([index_of[code] for code in names.codes[tree.columns].tolist()], np.int64)


def _uses(pod: Pod | None, claim: Key) -> bool:
    if pod is None or pod.constraints is None or pod.metadata.namespace != claim.namespace:
        return False
    sources = (volume.persistent_volume_claim for volume in pod.constraints.volumes)
    return any(source is not None and source.claim_name == claim.name for source in sources)


def hash_of(pod: Pod, node: str) -> int:
    """Return a number for a pod without a place, by all of it that can change."""
    return hash((pod.metadata.key, node, frozenset(pod.metadata.labels.items())))


def repelled_namespaces(namespace: str, spec: PodSpec | None) -> Iterator[str]:
    """Yield the namespaces of pods that the anti-affinity of a pod may select; "" is all of them."""
    affinity = None if spec is None or spec.affinity is None else spec.affinity.pod_anti_affinity
    for term in () if affinity is None else affinity.required:
        if term.namespace_selector is not None:
            yield ""
        else:
            yield from term.namespaces or (namespace,)
