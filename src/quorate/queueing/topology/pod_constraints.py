"""What keeps pods from hosts beside labels, taints and resources: ports, volumes, pod affinity and spread.

The filters are those of the gang scheduler.  Their view of nodes and pods is built when the first pods are
checked that have such a constraint, or that an anti-affinity term of a placed pod may select; until then
only references are kept.  All pods that use nodes count: those without a place by their node, and those with
one by the places of their workload, whether they exist or not.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import Final, Protocol

import numpy as np
from msgspec.structs import replace

from quorate.api.core.bound_pod import BoundPod
from quorate.api.core.scheduling import Node, Pod, PodMeta, PodSpec
from quorate.api.core.volumes import CSINode, PersistentVolumeClaim
from quorate.api.kueue import POD_SET
from quorate.api.meta import Key
from quorate.api.scheduler_configuration.plugins import PredicateArguments
from quorate.placement.cluster import Cluster
from quorate.placement.filters.engine import ConstraintEngine
from quorate.placement.filters.volumes.requirements import NO_VOLUMES, volume_requirements
from quorate.placement.filters.volumes.storage import StorageIndex
from quorate.placement.shapes import Shape, Shapes
from quorate.placement.topology.counting import Capacity, Exclusions, accepted_leaves, fitting_pods
from quorate.placement.topology.pod_limits import PodLimits, limit_pods, limits_with_preemption
from quorate.placement.topology.request import PodSetRequest
from quorate.placement.topology.tree import HOSTNAME, DomainTree
from quorate.placement.vectors import Vector
from quorate.queueing.topology.pod_templates import Template

_MAX_SHAPES: Final = 1024
_NO_CONSTRAINTS: Final = PodSpec()
VOLUMES_UNKNOWN: Final = "the volumes of the cluster are not known yet"


class HeldPods(Protocol):
    """Pods in one place of a workload."""

    @property
    def values(self) -> tuple[str, ...]: ...
    @property
    def on_host(self) -> bool: ...
    @property
    def pods(self) -> int: ...
    @property
    def template(self) -> Template | None: ...


class _View:
    """Nodes and pods as the filters read them."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.engine = ConstraintEngine(self.cluster, PredicateArguments())
        self.shapes = Shapes()
        self.node_of_host: dict[str, str] = {}
        self.foreign: dict[Key, tuple[Shape, str]] = {}  # the node of each
        self.held: dict[tuple[str, Template], tuple[Shape, str]] = {}
        self.checked: dict[tuple[object, ...], Shape] = {}

    def put_node(self, node: Node) -> None:
        self.cluster.set_node(node)
        self.node_of_host[node.metadata.labels.get(HOSTNAME, "")] = node.metadata.name

    def remove_node(self, node: Node) -> None:
        self.cluster.remove_node(node.metadata.name)
        host = node.metadata.labels.get(HOSTNAME, "")
        if self.node_of_host.get(host) == node.metadata.name:
            del self.node_of_host[host]

    def count(self, key: Key, shape: Shape, node: str) -> None:
        self.foreign[key] = shape, node
        self.cluster.count_pods(shape, node, 1)

    def uncount(self, key: Key) -> None:
        counted = self.foreign.pop(key, None)
        if counted is not None:
            self.cluster.count_pods(*counted, -1)


class PodConstraints:
    """See the module docstring."""

    def __init__(self, nodes: Mapping[str, Node], foreign: Mapping[Key, str]) -> None:
        """``nodes`` and ``foreign``, the nodes of pods without a place, are those of the topology model."""
        self.storage = StorageIndex()
        self.has_storage = True  # False until claims and volumes are listed
        # Sums of hashes over pods with constraints, and over all: equal sums mean equal pods.
        self._sum_constrained = self._sum = 0
        self._nodes, self._foreign = nodes, foreign
        self._pods: dict[Key, BoundPod] = {}  # that use nodes
        self._held: dict[tuple[str, Template], int] = {}  # pods by host
        # By namespace: how many terms of anti-affinity may select its pods; "" has those for all namespaces.
        self._repelled: Counter[str] = Counter()
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._drivers: dict[str, CSINode] = {}
        self._view: _View | None = None

    @property
    def is_used(self) -> bool:
        """Return True if pods with constraints have been checked."""
        return self._view is not None

    # Objects.

    def put_node(self, node: Node, old: Node | None) -> None:
        if self._view is not None:
            if old is not None and old.metadata.labels.get(HOSTNAME) != node.metadata.labels.get(HOSTNAME):
                self._view = None
            else:
                self._view.put_node(node)

    def remove_node(self, node: Node) -> None:
        if self._view is not None:
            self._view.remove_node(node)

    def put_namespace(self, name: str, labels: Mapping[str, str]) -> None:
        self._namespaces[name] = labels
        if self._view is not None:
            self._view.engine.set_namespace(name, labels)

    def put_drivers(self, drivers: CSINode) -> None:
        self._drivers[drivers.metadata.name] = drivers
        if self._view is not None:
            self._view.engine.set_drivers(drivers)

    def remove_drivers(self, node: str) -> None:
        self._drivers.pop(node, None)
        if self._view is not None:
            self._view.engine.remove_drivers(node)

    def put_claim(self, claim: PersistentVolumeClaim) -> None:
        self.storage.set_claim(claim)
        self._claim_changed(claim.metadata.key)

    def remove_claim(self, key: Key) -> None:
        self.storage.remove_claim(key)
        self._claim_changed(key)

    def _claim_changed(self, claim: Key) -> None:
        """Count the pods that use a claim again, with what its volume is now."""
        view = self._view
        if view is None:
            return
        for key in [key for key, (shape, _) in view.foreign.items() if _uses(self._pods.get(key), claim)]:
            view.uncount(key)
            view.count(key, self._shape_of_bound(view, self._pods[key]), self._foreign[key])

    # Pods without a place.

    def put_pod(self, pod: BoundPod) -> None:
        """Keep a pod that uses a node; it counts from ``count`` to ``uncount``."""
        key = pod.metadata.key
        self.remove_pod(key)
        if pod.constraints is None and not pod.metadata.labels:
            return
        self._pods[key] = pod
        self._repelled.update(_repelled_namespaces(key.namespace, pod.constraints))

    def remove_pod(self, key: Key) -> None:
        old = self._pods.pop(key, None)
        if old is not None:
            self._repelled.subtract(_repelled_namespaces(key.namespace, old.constraints))

    def pod_set_of(self, key: Key) -> str:
        pod = self._pods.get(key)
        return "" if pod is None else pod.metadata.labels.get(POD_SET, "")

    def count(self, key: Key, node: str) -> None:
        view, pod = self._view, self._pods.get(key)
        if pod is not None:
            self._add_to_sums(hash((key, node)), is_constrained=pod.constraints is not None)
        if view is not None and pod is not None:
            view.count(key, self._shape_of_bound(view, pod), node)

    def uncount(self, key: Key) -> None:
        pod = self._pods.get(key)
        if pod is not None:
            node = self._foreign[key]
            self._add_to_sums(-hash((key, node)), is_constrained=pod.constraints is not None)
        if self._view is not None:
            self._view.uncount(key)

    # Pods with places.

    def hold(self, host: str, template: Template, pods: int) -> None:
        """Count ``pods`` of a workload that has places on the host; a negative number takes them back."""
        self._add_to_sums(hash((host, template)) * pods, is_constrained=template.has_constraints)
        self._hold(host, template, pods)

    def _add_to_sums(self, amount: int, *, is_constrained: bool) -> None:
        self._sum += amount
        if is_constrained:
            self._sum_constrained += amount

    def _hold(self, host: str, template: Template, pods: int) -> None:
        key = host, template
        left = self._held.get(key, 0) + pods
        if template.repels:
            terms = list(_repelled_namespaces(template.namespace, template.decode().spec))
            self._repelled.update(dict.fromkeys(terms, (left > 0) - (key in self._held)))
        if left:
            self._held[key] = left
        else:
            self._held.pop(key, None)
        if self._view is not None:
            self._count_held(self._view, key, pods, left)

    def _count_held(self, view: _View, key: tuple[str, Template], pods: int, left: int) -> None:
        host, template = key
        known = view.held.get(key)
        if known is None:
            shape = self._shape(view, template.decode())
            known = view.held[key] = shape, view.node_of_host.get(host, host)
        view.cluster.count_pods(*known, pods)
        if not left:
            del view.held[key]

    def take_pods(self, old: "PodConstraints", nodes: Mapping[str, Node], foreign: Mapping[Key, str]) -> None:
        """Take over what is known of pods without a place and of storage; ``old`` is not used any more."""
        self.storage, self.has_storage = old.storage, old.has_storage
        self._nodes, self._foreign = nodes, foreign
        self._pods, self._drivers = old._pods, old._drivers
        for key, pod in self._pods.items():
            self._repelled.update(_repelled_namespaces(key.namespace, pod.constraints))
            if key in foreign:
                is_constrained = pod.constraints is not None
                self._add_to_sums(hash((key, foreign[key])), is_constrained=is_constrained)
        self._view = None

    def assume(self, places: Iterable[HeldPods], stack: ExitStack) -> None:
        """Count the pods of a workload that is being placed until ``stack`` is closed."""
        for each in places:
            if each.on_host and each.template is not None:
                self._hold(each.values[-1], each.template, each.pods)
                stack.callback(self._hold, each.values[-1], each.template, -each.pods)

    # Limits.

    def version(self, template: Template) -> int:
        """Return a number that is the same as long as limits for pods of the template are."""
        return self._sum if template.has_constraints else self._sum_constrained

    def may_limit(self, template: Template) -> bool:
        """Return False if nothing but resources, labels and taints decides which hosts take the pods."""
        repelled = self._repelled
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
            lambda label: tree.hosts.label(label).codes[tree.columns].astype(np.int64),
        )

    def _used_view(self) -> _View:
        """Return the view, built from all nodes and pods if it is not in use yet."""
        view = self._view
        if view is None:
            view = self._view = _View()
            for node in self._nodes.values():
                view.put_node(node)
            for name, labels in self._namespaces.items():
                view.engine.set_namespace(name, labels)
            for drivers in self._drivers.values():
                view.engine.set_drivers(drivers)
            for key, name in self._foreign.items():
                if key in self._pods:
                    view.count(key, self._shape_of_bound(view, self._pods[key]), name)
            for held, pods in self._held.items():
                self._count_held(view, held, pods, pods)
        return view

    # Shapes.

    def _shape_of_bound(self, view: _View, pod: BoundPod) -> Shape:
        metadata, spec = pod.metadata, pod.constraints or _NO_CONSTRAINTS
        if not spec.volumes:
            return view.shapes.of_constraints(metadata.namespace, metadata.labels, spec, NO_VOLUMES)
        meta = PodMeta(
            name=metadata.name, namespace=metadata.namespace, uid=metadata.uid, labels=metadata.labels
        )
        return self._shape(view, Pod(metadata=meta, spec=spec))

    def _shape(self, view: _View, pod: Pod) -> Shape:
        volumes = volume_requirements(pod, self.storage) if self.has_storage else NO_VOLUMES
        return view.shapes.of_constraints(pod.metadata.namespace, pod.metadata.labels, pod.spec, volumes)

    def _checked_shape(
        self,
        view: _View,
        request: PodSetRequest,
        template: Template,
        labels: Collection[tuple[str, str]],
    ) -> Shape:
        pod = template.decode()
        version = self.storage.version if pod.spec.volumes else 0
        key = template, frozenset(labels), request.tolerations, version
        shape = view.checked.get(key)
        if shape is None:
            if len(view.checked) >= _MAX_SHAPES:
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


def _repelled_namespaces(namespace: str, spec: PodSpec | None) -> Iterator[str]:
    """Yield the namespaces of pods that the anti-affinity of a pod may select; "" is all of them."""
    affinity = None if spec is None or spec.affinity is None else spec.affinity.pod_anti_affinity
    for term in () if affinity is None else affinity.required:
        if term.namespace_selector is not None:
            yield ""
        else:
            yield from term.namespaces or (namespace,)


def _uses(pod: BoundPod | None, claim: Key) -> bool:
    if pod is None or pod.constraints is None or pod.metadata.namespace != claim.namespace:
        return False
    sources = (volume.persistent_volume_claim for volume in pod.constraints.volumes)
    return any(source is not None and source.claim_name == claim.name for source in sources)
