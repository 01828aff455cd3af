"""The shape of a pod: everything about it that decides where it may be placed, and how well it fits there.

Pods of one shape are interchangeable to every rule about nodes, so they share one ``Shape`` object, each node
is judged for them once, and many of them are placed at a time.

Labels and the namespace matter only to whom a pod affinity or a topology spread selects.  Most labels differ
from job to job, some from pod to pod, so a shape has only those whose keys some selector has named so far,
and the namespace only once there was any.  ``Shapes.generation`` tells when that becomes more.
"""

from collections.abc import Iterator
from hashlib import blake2b
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from quorate.api.core import Toleration
from quorate.api.core.scheduling import (
    Affinity,
    Container,
    ContainerPort,
    Pod,
    PodSpec,
    TopologySpreadConstraint,
)
from quorate.api.meta import LabelSelector
from quorate.placement.filters.volumes.filters import NO_VOLUMES, VolumeRequirements
from quorate.placement.resources import MEMORY, amounts_held, is_empty
from quorate.quota.amount import CPU

# No node has more of anything (8 PiB).  So sums over the pods of a node, and small multiples of them, stay
# far from where 64 bits end, whatever somebody writes into a pod: who asks for more fits nowhere.
MAX_AMOUNT: Final = 2**53

# With what a pod that names none counts in scores, as in kube-scheduler: so such pods spread too.
_CPU_SCORED: Final = 100
_MEMORY_SCORED: Final = 200 * 2**20


class Shape(msgspec.Struct, frozen=True, kw_only=True, weakref=True, eq=False):
    """Compared by identity: ``Shapes`` makes one object of all equal ones."""

    amounts: dict[str, int]  # what one pod takes of a node; at most ``MAX_AMOUNT + 1`` of anything
    namespace: str = ""
    labels: dict[str, str] = {}
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    spread: tuple[TopologySpreadConstraint, ...] = ()
    host_ports: tuple[ContainerPort, ...] = ()
    volumes: VolumeRequirements = NO_VOLUMES
    images: tuple[str, ...] = ()  # of each container

    @property
    def best_effort(self) -> bool:
        return is_empty(self.amounts)

    @property
    def non_zero_request(self) -> tuple[int, int]:
        """The cpu and the memory that the pod counts with in scores."""
        return self.amounts.get(CPU, _CPU_SCORED), self.amounts.get(MEMORY, _MEMORY_SCORED)


class Shapes:
    """All shapes in use, one object for each."""

    def __init__(self) -> None:
        # Moves when shapes made before may lack labels, or the namespace, that by now matter: whoever keeps
        # shapes then asks for those of all its pods again.
        self.generation = 0
        self._label_keys: set[str] = set()  # that a selector has named
        self._selecting = False  # whether there was any selector
        self._shapes: WeakValueDictionary[bytes, Shape] = WeakValueDictionary()
        self._encoder = msgspec.msgpack.Encoder(order="deterministic")

    def of(self, pod: Pod, volumes: VolumeRequirements = NO_VOLUMES) -> Shape:
        """The shape of ``pod``, whose claims as they are now demand ``volumes`` (``volume_requirements``)."""
        spec = pod.spec
        self._learn(spec)
        labels = pod.metadata.labels
        containers = (*spec.init_containers, *spec.containers)
        shape = Shape(
            amounts={name: min(amount, MAX_AMOUNT + 1) for name, amount in amounts_held(pod).items()},
            namespace=pod.metadata.namespace if self._selecting else "",
            labels={key: labels[key] for key in self._label_keys if key in labels},
            node_selector=spec.node_selector,
            affinity=spec.affinity,
            tolerations=spec.tolerations,
            spread=spec.topology_spread_constraints,
            host_ports=tuple(port for each in _long_running(spec) for port in each.ports if port.host_port),
            volumes=volumes,
            images=tuple(sorted(each.image for each in containers if each.image)),
        )
        key = blake2b(self._encoder.encode(shape), digest_size=16).digest()
        return self._shapes.setdefault(key, shape)

    def _learn(self, spec: PodSpec) -> None:
        """Remember what the selectors of the pod look at."""
        keys = {key for selector, own in _selectors(spec) for key in (*_keys(selector), *own)}
        selecting = self._selecting or any(True for _ in _selectors(spec))
        if not keys <= self._label_keys or selecting != self._selecting:
            self._label_keys |= keys
            self._selecting = selecting
            self.generation += 1


def _long_running(spec: PodSpec) -> Iterator[Container]:
    """The containers, and the sidecars among the init containers."""
    yield from spec.containers
    yield from (each for each in spec.init_containers if each.restart_policy == "Always")


def _selectors(spec: PodSpec) -> Iterator[tuple[LabelSelector | None, tuple[str, ...]]]:
    """Each selector of other pods, with the keys whose values the pod itself adds to it."""
    affinity = spec.affinity
    for side in (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity is not None else ():
        if side is not None:
            for term in (*side.required, *(preferred.pod_affinity_term for preferred in side.preferred)):
                yield term.label_selector, (*term.match_label_keys, *term.mismatch_label_keys)
    for constraint in spec.topology_spread_constraints:
        yield constraint.label_selector, constraint.match_label_keys


def _keys(selector: LabelSelector | None) -> Iterator[str]:
    if selector is not None:
        yield from selector.match_labels
        yield from (requirement.key for requirement in selector.match_expressions)
