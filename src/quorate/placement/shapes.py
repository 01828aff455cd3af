"""Pod shapes: the part of a pod that filters and scores read.

Pods of one shape are interchangeable to every rule about nodes.  They share one ``Shape`` object: each node
is filtered and scored once for all of them, and many of them are placed at a time.

Pod labels and the namespace matter only to the selectors of pod affinity and topology spread.  Most labels
differ from job to job and some from pod to pod, so a shape contains only labels with keys that some selector
names, and the namespace only if any selector exists.  ``Shapes.generation`` changes when a new selector
extends this set.
"""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Final, NamedTuple
from weakref import ReferenceType, WeakValueDictionary, ref

import msgspec

from quorate.api.core import Toleration
from quorate.api.core.pod import Pod
from quorate.api.core.pod_resources import pod_requests
from quorate.api.core.scheduling import Affinity, Container, ContainerPort, PodSpec, TopologySpreadConstraint
from quorate.api.meta import LabelSelector
from quorate.api.quantity import parse_quantity
from quorate.placement.claim_requirements import NO_DEVICES, NO_VOLUMES, DeviceDemand, VolumeRequirements
from quorate.placement.resources import (
    EMPTY_AMOUNTS,
    MEMORY,
    Amounts,
    in_base_units,
    is_empty,
    maximum,
    placed_pod_amounts,
)
from quorate.quota.amount import CPU

# No node has more of any resource (8 PiB); a pod that requests more fits no node.
MAX_AMOUNT: Final = 2**53
# Sums over a million pods that request no more each, and small multiples of them, fit into 64 bits (4 TiB).
_MAX_SUMMED_AMOUNT: Final = 2**42

# kube-scheduler's defaults for containers without requests in scores, so that their pods spread as well.
_DEFAULT_REQUESTS: Final = {CPU: parse_quantity("100m"), MEMORY: parse_quantity("200Mi")}
_DEFAULT_AMOUNTS: Final = in_base_units(_DEFAULT_REQUESTS)

_MAX_CACHED_TEMPLATES: Final = 4096
# Keys of labels that only selectors of removed pods named, before they are forgotten.
_SPARE_KEYS: Final = 1024


class NodeGroupRule(msgspec.Struct, frozen=True):
    """On which node groups the pods of a queue may be placed, and which groups the queue prefers.

    Source: the plugin nodegroup of Volcano.  ``filters`` to ``full`` decide its filter, ``scores`` its score.
    """

    filters: bool = True  # whether nodes are filtered at all
    has_affinity: bool = False  # whether the queue names any group
    allowed: tuple[str, ...] = ()  # sorted
    allows_no_group: bool = False  # whether nodes without a group are allowed
    has_valid_limits: bool = True  # of what the queue may allocate in groups; otherwise it may use no node
    full: tuple[str, ...] = ()  # where the limits of the queue allow no further pod of the shape; sorted
    scores: tuple[tuple[str, int], ...] = ()  # of the nodes of a group, in millionths of a point


class Shape(msgspec.Struct, frozen=True, kw_only=True, weakref=True, eq=False):
    """Compared by identity: ``Shapes`` returns one object for all equal ones."""

    amounts: dict[str, int]  # what one pod takes of a node; each at most ``MAX_AMOUNT + 1``
    namespace: str = ""
    labels: dict[str, str] = {}
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    spread: tuple[TopologySpreadConstraint, ...] = ()
    host_ports: tuple[ContainerPort, ...] = ()
    volumes: VolumeRequirements = NO_VOLUMES
    devices: DeviceDemand = NO_DEVICES
    node_groups: NodeGroupRule | None = None  # of the queue; None: the plugin nodegroup is not enabled
    images: tuple[str, ...] = ()  # one per container
    # The cpu and memory request for scores; an absent one has kube-scheduler's default, for each container.
    non_zero_request: tuple[int, int] = (0, 0)
    # These follow from the amounts; they are read several times for each pod that is placed.
    best_effort: bool = False  # whether nothing but ``pods`` is requested
    oversized: bool = False  # whether sums of such requests may exceed 64 bits
    size_bytes: int = 0  # about: what a shape takes in memory is several times as much

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "best_effort", is_empty(self.amounts))
        if not any(self.non_zero_request):
            scored = tuple(self.amounts.get(name, amount) for name, amount in _DEFAULT_AMOUNTS.items())
            msgspec.structs.force_setattr(self, "non_zero_request", scored)
        most = max(self.amounts.values(), default=0)
        msgspec.structs.force_setattr(self, "oversized", most > _MAX_SUMMED_AMOUNT)


class _Template(NamedTuple):
    """The parts of equal pods, which share them, and their shape."""

    spec: ReferenceType[PodSpec]  # the last pod with it ends the template
    in_use: tuple[object, ...]  # of the status
    shape: Shape


class Shapes:
    """All shapes in use, one object each."""

    def __init__(self) -> None:
        # Changes when existing shapes may lack labels or the namespace that selectors now read: users of
        # shapes must then compute the shapes of all their pods again.
        self.generation = 0
        self._selected_keys: set[str] = set()  # label keys that any selector names
        self._needed_keys = 0  # how many of them the selectors of existing pods named, when last counted
        self._added_keys: set[str] | None = set()  # not taken yet; None: ``_any_selector`` changed
        self._any_selector = False
        self._shapes: WeakValueDictionary[bytes, Shape] = WeakValueDictionary()
        self._encoder = msgspec.msgpack.Encoder(order="deterministic")
        # By the identities of the parts of a pod, which equal pods share.  While a template is here, they
        # exist, so no other object gets their identities.
        self._of_templates: dict[tuple[object, ...], _Template] = {}

    def of(
        self,
        pod: Pod,
        volumes: VolumeRequirements = NO_VOLUMES,
        node_groups: NodeGroupRule | None = None,
        least: Amounts = EMPTY_AMOUNTS,
        devices: DeviceDemand = NO_DEVICES,
    ) -> Shape:
        """Return the shape of ``pod``; ``volumes`` and ``devices`` are what its claims require now.

        ``least``: amounts that it takes of a node at least.
        """
        self._add_selectors(pod.spec)
        if volumes is not NO_VOLUMES or node_groups is not None or least or devices is not NO_DEVICES:
            return self._composed(pod, volumes, node_groups, least, devices)
        in_use = pod.status.in_use
        identity = (
            id(pod.spec),
            *map(id, in_use),
            pod.metadata.namespace if self._any_selector else "",
            *self._selected_labels(pod.metadata.labels),
        )
        template = self._of_templates.get(identity)
        if template is None:
            if len(self._of_templates) >= _MAX_CACHED_TEMPLATES:
                self._of_templates.clear()
            shape = self._composed(pod, volumes, node_groups, least, devices)
            spec = ref(pod.spec, lambda _: self._of_templates.pop(identity, None))
            template = self._of_templates[identity] = _Template(spec, in_use, shape)
        return template.shape

    def _selected_labels(self, labels: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        selected = self._selected_keys
        return (label for label in labels.items() if label[0] in selected)

    def _composed(
        self,
        pod: Pod,
        volumes: VolumeRequirements,
        node_groups: NodeGroupRule | None,
        least: Amounts,
        devices: DeviceDemand,
    ) -> Shape:
        spec = pod.spec
        containers = (*spec.init_containers, *spec.containers)
        shape = Shape(
            amounts=_limited(maximum(placed_pod_amounts(pod), least) if least else placed_pod_amounts(pod)),
            namespace=pod.metadata.namespace if self._any_selector else "",
            labels=dict(self._selected_labels(pod.metadata.labels)),
            node_selector=spec.node_selector,
            affinity=spec.affinity,
            tolerations=spec.tolerations,
            spread=spec.topology_spread_constraints,
            host_ports=_host_ports(spec),
            volumes=volumes,
            devices=devices,
            node_groups=node_groups,
            images=tuple(sorted(container.image for container in containers if container.image)),
            non_zero_request=_non_zero_request(pod, least),
        )
        return self._shared(shape)

    def of_constraints(
        self,
        namespace: str,
        labels: Mapping[str, str],
        spec: PodSpec,
        volumes: VolumeRequirements,
        amounts: Amounts,
    ) -> Shape:
        """Return a shape with all labels and without images, whatever selectors exist."""
        return self._shared(
            Shape(
                amounts=_limited(amounts),
                namespace=namespace,
                labels=dict(labels),
                node_selector=spec.node_selector,
                affinity=spec.affinity,
                tolerations=spec.tolerations,
                spread=spec.topology_spread_constraints,
                host_ports=_host_ports(spec),
                volumes=volumes,
            )
        )

    def without_node_groups(self, shape: Shape, full: tuple[str, ...]) -> Shape:
        """Return ``shape`` with these node groups as ``NodeGroupRule.full``."""
        assert shape.node_groups is not None, f"{shape} has no node groups"
        rule = msgspec.structs.replace(shape.node_groups, full=full)
        return self._shared(msgspec.structs.replace(shape, node_groups=rule, size_bytes=0))

    def _shared(self, shape: Shape) -> Shape:
        encoded = self._encoder.encode(shape)
        msgspec.structs.force_setattr(shape, "size_bytes", len(encoded))
        return self._shapes.setdefault(blake2b(encoded, digest_size=16).digest(), shape)

    def _add_selectors(self, spec: PodSpec) -> None:
        """Record the label keys that the selectors of the pod read."""
        keys = set(_selected_keys(spec))
        any_selector = self._any_selector or any(True for _ in _selectors(spec))
        if not keys <= self._selected_keys or any_selector != self._any_selector:
            if any_selector != self._any_selector:
                self._added_keys = None
            elif self._added_keys is not None:
                self._added_keys |= keys - self._selected_keys
            self._selected_keys |= keys
            self._any_selector = any_selector
            self.generation += 1

    def take_added_keys(self) -> set[str] | None:
        """Return the label keys that selectors read since the last call; None: compute all shapes again.

        Only the shapes of pods with these labels have changed.
        """
        added, self._added_keys = self._added_keys, set()
        return added

    @property
    def has_unused_keys(self) -> bool:
        """Return True if probably most of the label keys belong to deleted pods only."""
        return len(self._selected_keys) > 2 * self._needed_keys + _SPARE_KEYS

    def retain_keys(self, specs: Iterable[PodSpec]) -> None:
        """Forget the label keys that no selector in ``specs`` reads; existing shapes stay valid."""
        self._selected_keys = {key for spec in specs for key in _selected_keys(spec)}
        self._needed_keys = len(self._selected_keys)


def _non_zero_request(pod: Pod, least: Amounts) -> tuple[int, int]:
    requests = _limited(in_base_units(pod_requests(pod.spec, pod.status, absent=_DEFAULT_REQUESTS)))
    cpu, memory = (max(requests.get(name, 0), least.get(name, 0)) for name in (CPU, MEMORY))
    return cpu, memory


def _limited(amounts: Amounts) -> dict[str, int]:
    return {resource: max(0, min(amount, MAX_AMOUNT + 1)) for resource, amount in amounts.items()}


def _host_ports(spec: PodSpec) -> tuple[ContainerPort, ...]:
    return tuple(port for container in _long_running(spec) for port in container.ports if port.host_port)


def _long_running(spec: PodSpec) -> Iterator[Container]:
    """Yield the containers, and the init containers that are sidecars."""
    yield from spec.containers
    yield from (container for container in spec.init_containers if container.restart_policy == "Always")


def _selectors(spec: PodSpec) -> Iterator[tuple[LabelSelector | None, tuple[str, ...]]]:
    """Yield each pod selector with its ``matchLabelKeys``.

    Their values come from the labels of the pod itself.
    """
    affinity = spec.affinity
    for side in (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity is not None else ():
        if side is not None:
            for term in (*side.required, *(preferred.pod_affinity_term for preferred in side.preferred)):
                yield term.label_selector, (*term.match_label_keys, *term.mismatch_label_keys)
    for constraint in spec.topology_spread_constraints:
        yield constraint.label_selector, constraint.match_label_keys


def _selected_keys(spec: PodSpec) -> Iterator[str]:
    for selector, own in _selectors(spec):
        yield from _keys(selector)
        yield from own


def is_distinguished(labels: Mapping[str, str], added: set[str] | None) -> bool:
    """Return True if a pod with ``labels`` may have another shape by ``Shapes.take_added_keys``."""
    return added is None or not added.isdisjoint(labels)


def _keys(selector: LabelSelector | None) -> Iterator[str]:
    if selector is not None:
        yield from selector.match_labels
        yield from (requirement.key for requirement in selector.match_expressions)
