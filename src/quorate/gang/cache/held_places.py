"""The room on nodes that admitted workloads hold for pods which are not there yet.

The queueing controllers record the host of each pod in the admission of its workload.  From then on the room
is not free for gangs, although the pods do not exist, are gated, or wait for another scheduler.  A place is
held until its pod is on the node.  No more places are held than pods that may still run have not arrived: the
others have ended for good.  A pod that this scheduler is to place on its host holds its place no
longer: it would keep itself out.
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from quorate.api.core.scheduling import Pod
from quorate.api.kueue import POD_SET, WORKLOAD_ANNOTATION
from quorate.api.kueue.placed_workload import HeldPod, PlacedWorkload
from quorate.api.kueue.topology import HOSTNAME
from quorate.api.meta import Key
from quorate.placement.cluster import Cluster
from quorate.placement.filters.volumes.requirements import NO_VOLUMES
from quorate.placement.resources import in_base_units
from quorate.placement.shapes import Shape, Shapes, is_distinguished

_NONE: Final[frozenset[Key]] = frozenset()


class _Place(NamedTuple):
    workload: Key
    pod_set: str
    host: str


class _PodSet(NamedTuple):
    workload: Key
    name: str


class _Held(NamedTuple):
    shape: Shape
    node: str
    pods: int


class HeldPlaces:
    """See the module docstring."""

    def __init__(self, cluster: Cluster, shapes: Shapes) -> None:
        self._cluster, self._shapes = cluster, shapes
        self._workloads: dict[Key, PlacedWorkload] = {}  # those with places on hosts
        self._pods: dict[_Place, int] = {}  # as the workloads have them
        self._arrived: dict[_Place, set[Key]] = {}  # pods that hold their place themselves
        self._place_of: dict[Key, _Place] = {}  # of each of these pods
        self._running: dict[_PodSet, set[Key]] = {}  # pods with a place that have not ended
        self._held: dict[_Place, _Held] = {}  # as counted in the cluster
        self._names: dict[str, str] = {}  # of nodes, by host name where they differ

    def set_host(self, host: str, node: str) -> None:
        """Note the host name of a node."""
        if host not in ("", node):
            self._names[host] = node

    def set_workload(self, workload: PlacedWorkload) -> None:
        key = workload.metadata.key
        before = self._workloads.get(key)
        places = {_Place(key, each.pod_set, each.host): each.pods for each in workload.hosts}
        changed = [*places, *self._places_of(before)]
        if before is not None and before.pods != workload.pods:
            self._release(changed)
        for place in self._places_of(before):
            del self._pods[place]
        self._workloads.pop(key, None)
        if places:
            self._workloads[key] = workload
            self._pods |= places
        for place in dict.fromkeys(changed):
            self._update(place)

    def remove_workload(self, key: Key) -> None:
        before = self._workloads.pop(key, None)
        for place in self._places_of(before):
            del self._pods[place]
            self._update(place)

    def _places_of(self, workload: PlacedWorkload | None) -> list[_Place]:
        if workload is None:
            return []
        return [_Place(workload.metadata.key, each.pod_set, each.host) for each in workload.hosts]

    def set_pod(self, key: Key, pod: Pod, *, is_task: bool) -> None:
        """Read a pod; ``is_task``: this scheduler is to place it."""
        place = _place_of(pod)
        arrives = bool(pod.node_name) or (is_task and not pod.spec.scheduling_gates)
        if place is None or pod.status.phase == "Failed" or not arrives:
            self.remove_pod(key)
            return
        runs = pod.status.phase != "Succeeded"
        if self._place_of.get(key) != place or runs != (key in self._running_in(place)):
            self.remove_pod(key)
            self._place_of[key] = place
            self._arrived.setdefault(place, set()).add(key)
            if runs:
                self._running.setdefault(_PodSet(place.workload, place.pod_set), set()).add(key)
            self._update_pod_set(place)

    def remove_pod(self, key: Key) -> None:
        place = self._place_of.pop(key, None)
        if place is None:
            return
        self._arrived[place].remove(key)
        if not self._arrived[place]:
            del self._arrived[place]
        running = self._running.get(_PodSet(place.workload, place.pod_set), set())
        running.discard(key)
        if not running:
            self._running.pop(_PodSet(place.workload, place.pod_set), None)
        self._update_pod_set(place)

    def _running_in(self, place: _Place) -> AbstractSet[Key]:
        return self._running.get(_PodSet(place.workload, place.pod_set), _NONE)

    def _update_pod_set(self, changed: _Place) -> None:
        """Update the place of a pod, and all of its pod set if pods of that have ended for good."""
        workload = self._workloads.get(changed.workload)
        self._update(changed)
        if workload is not None and changed.pod_set in workload.needed:
            for place in self._places_of(workload):
                if place.pod_set == changed.pod_set:
                    self._update(place)

    @property
    def pods(self) -> Iterator[Pod]:
        """The pods for which places are held, one of each pod set."""
        return (held.pod for workload in self._workloads.values() for held in workload.pods.values())

    def refresh_shapes(self, added: set[str] | None) -> None:
        """Compute the shapes again that selectors distinguish by ``Shapes.take_added_keys``."""
        held = [
            place for place in self._held if is_distinguished(self._pod_of(place).pod.metadata.labels, added)
        ]
        self._release(held)
        for place in held:
            self._update(place)

    def _release(self, places: list[_Place]) -> None:
        for place in places:
            held = self._held.pop(place, None)
            if held is not None:
                self._cluster.count_pods(held.shape, held.node, -held.pods)

    def _update(self, place: _Place) -> None:
        """Count as many pods as have not arrived."""
        left = max(0, self._pods.get(place, 0) - len(self._arrived.get(place, _NONE)))
        workload = self._workloads.get(place.workload)
        if workload is not None and (needed := workload.needed.get(place.pod_set)) is not None:
            left = min(left, max(0, needed - len(self._running_in(place))))
        held = self._held.get(place)
        if held is not None and held.pods == left:
            return
        self._release([place])
        if left:
            shape = self._shape(self._pod_of(place))
            node = self._names.get(place.host, place.host)
            self._held[place] = _Held(shape, node, left)
            self._cluster.count_pods(shape, node, left)

    def _pod_of(self, place: _Place) -> HeldPod:
        return self._workloads[place.workload].pods[place.pod_set]

    def _shape(self, held: HeldPod) -> Shape:
        """Return a shape with the larger amounts of template and admission.

        The template lacks the overhead and the defaults that a pod gets, and the admission the resources
        without quota.
        """
        return self._shapes.of(held.pod, NO_VOLUMES, least=in_base_units(held.counted))


def _place_of(pod: Pod) -> _Place | None:
    metadata = pod.metadata
    host = pod.spec.node_selector.get(HOSTNAME)
    name, pod_set = metadata.annotations.get(WORKLOAD_ANNOTATION), metadata.labels.get(POD_SET)
    if not host or not name or pod_set is None:
        return None
    return _Place(Key(metadata.namespace, name), pod_set, host)
