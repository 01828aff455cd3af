"""The room on nodes that admitted workloads hold for pods which are not there yet.

The queueing controllers record the host of each pod in the admission of its workload.  From then on the room
is not free for gangs, although the pods do not exist, are gated, or wait for a scheduler.  A place is held
until its pod is on the node.  No more places are held than pods that may still run have not arrived: the
others have ended for good.

The owner of a place is the owner of its workload: a job, or a pod group.  Its own gang has the room that is
held for it (``HeldRoom``): it need not be found free when the gang is admitted, and it is lent to the gang
while nodes are chosen for the members.  The pods of a job name their place.  Those of a pod group may exist
before its workload and name none; they take places of their node first, then any.
"""

from collections import Counter
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from typing import Final, NamedTuple

from quorate.api.core.pod import Pod
from quorate.api.kueue.placed_workload import HeldPod, PlacedWorkload
from quorate.api.kueue.topology import HOSTNAME
from quorate.api.meta import Key, Uid
from quorate.api.names.kueue import POD_SET, WORKLOAD_ANNOTATION
from quorate.placement.claim_requirements import NO_VOLUMES
from quorate.placement.cluster import Cluster
from quorate.placement.cluster.occupants import NO_ROOM, HeldRoom
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


class _Member(NamedTuple):
    owner: Uid
    node: str


class HeldPlaces:
    """Holds the places of admitted workloads on nodes until their pods are there."""

    def __init__(self, cluster: Cluster, shapes: Shapes) -> None:
        self._cluster, self._shapes = cluster, shapes
        self._workloads: dict[Key, PlacedWorkload] = {}  # those with places on hosts
        self._of_owner: dict[Uid, dict[Key, None]] = {}  # the workloads by owner; no empty values
        self._lent_to: Uid | None = None  # the owner of the gang for which nodes are being chosen
        self._pods: dict[_Place, int] = {}  # as the workloads have them
        self._arrived: dict[_Place, set[Key]] = {}  # pods that hold their place themselves
        self._place_of: dict[Key, _Place] = {}  # of each of these pods
        self._running: dict[_PodSet, set[Key]] = {}  # pods with a place that have not ended
        self._names: dict[str, str] = {}  # of nodes, by host name where they differ
        # Pods on nodes that name no place, of owners with places, and how many are on each node; no zeros.
        self._members: dict[Key, _Member] = {}
        self._members_on: dict[Uid, Counter[str]] = {}
        self._taken: dict[_Place, int] = {}  # how many of these take a place

    def set_host(self, host: str, node: str) -> None:
        """Note the host name of a node."""
        if host not in ("", node):
            self._names[host] = node

    def set_workload(self, workload: PlacedWorkload) -> None:
        key = workload.metadata.key
        before = self._workloads.get(key)
        places = {_Place(key, host.pod_set, host.host): host.pods for host in workload.hosts}
        changed = [*places, *self._places_of(before)]
        if before is not None and (before.pods, before.owner) != (workload.pods, workload.owner):
            self._release(changed)
        self._forget(before)
        if places:
            self._workloads[key] = workload
            self._pods |= places
            self._of_owner.setdefault(workload.owner, {})[key] = None
        if before is not None:
            self._drop_owner(before.owner)
        for place in dict.fromkeys(changed):
            self._update(place)
        self._divide(workload.owner)

    def remove_workload(self, key: Key) -> None:
        before = self._workloads.get(key)
        self._forget(before)
        for place in self._places_of(before):
            self._update(place)
        if before is not None:
            self._drop_owner(before.owner)

    def _forget(self, workload: PlacedWorkload | None) -> None:
        if workload is None:
            return
        del self._workloads[workload.metadata.key]
        for place in self._places_of(workload):
            del self._pods[place]
            self._taken.pop(place, None)
        of_owner = self._of_owner[workload.owner]
        del of_owner[workload.metadata.key]
        if not of_owner:
            del self._of_owner[workload.owner]

    def _drop_owner(self, owner: Uid) -> None:
        """Forget an owner of which no workload has places."""
        if owner not in self._of_owner:
            self._cluster.release_all(owner)
            for key in [key for key, member in self._members.items() if member.owner == owner]:
                self._set_member(key, None)

    def _places_of(self, workload: PlacedWorkload | None) -> list[_Place]:
        if workload is None:
            return []
        return [_Place(workload.metadata.key, host.pod_set, host.host) for host in workload.hosts]

    # Owners.

    def room_of(self, owner: Uid) -> HeldRoom:
        """Return what is held for the pods of ``owner``, kept up to date."""
        return self._cluster.room_of(owner) if owner and owner in self._of_owner else NO_ROOM

    @contextmanager
    def lent_to(self, owner: Uid) -> Iterator[None]:
        """Leave the room free that is held for ``owner``, while nodes are chosen for its pods."""
        places = self._places_of_owner(owner)
        self._lent_to = owner
        self._release(places)
        try:
            yield
        finally:
            self._lent_to = None
            self._divide(owner)
            for place in places:
                self._update(place)

    def _places_of_owner(self, owner: Uid) -> list[_Place]:
        return [
            place for key in self._of_owner.get(owner, ()) for place in self._places_of(self._workloads[key])
        ]

    # Pods.

    @property
    def is_empty(self) -> bool:
        """Whether no workload and no pod has places: then the nodes of pods need not be set."""
        return not (self._workloads or self._arrived or self._members)

    def set_pod(self, key: Key, pod: Pod, node: str, owner: Uid | None = None) -> None:
        """Read a pod that has ``node``, or is to be bound to it; "": it has none.

        ``owner``: of the gang that it is a member of; None if this scheduler does not place it.
        """
        place = _place_of(pod)
        if place is None or pod.status.phase == "Failed" or not (node or self._keeps_out(place, pod, owner)):
            self._remove_arrived(key)
        else:
            self._set_arrived(key, place, runs=pod.status.phase != "Succeeded")
        takes_any = place is None and node and pod.status.phase != "Failed"
        self._set_member(
            key, _Member(owner, node) if owner in self._of_owner and owner and takes_any else None
        )

    def _keeps_out(self, place: _Place, pod: Pod, owner: Uid | None) -> bool:
        """Return True for a member with a place that is not lent to its gang: held, it would keep it out."""
        if owner is None or pod.spec.scheduling_gates:
            return False
        workload = self._workloads.get(place.workload)
        return not owner or workload is None or workload.owner != owner

    def _set_arrived(self, key: Key, place: _Place, *, runs: bool) -> None:
        if self._place_of.get(key) == place and runs == (key in self._running_in(place)):
            return
        self._remove_arrived(key)
        self._place_of[key] = place
        self._arrived.setdefault(place, set()).add(key)
        if runs:
            self._running.setdefault(_PodSet(place.workload, place.pod_set), set()).add(key)
        self._update_pod_set(place)

    def _set_member(self, key: Key, member: _Member | None) -> None:
        """Note a pod on a node that takes any place of its owner."""
        before = self._members.pop(key, None)
        if member is not None:
            self._members[key] = member
        if before == member:
            return
        if before is not None:
            on_nodes = self._members_on[before.owner]
            on_nodes[before.node] -= 1
            if not on_nodes[before.node]:
                del on_nodes[before.node]
            if not on_nodes:
                del self._members_on[before.owner]
            self._divide(before.owner)
        if member is not None:
            self._members_on.setdefault(member.owner, Counter())[member.node] += 1
            self._divide(member.owner)

    def _divide(self, owner: Uid) -> None:
        """Divide the places of ``owner`` among its pods without a named place, on the pod's node first."""
        places = sorted(self._places_of_owner(owner))
        members = self._members_on.get(owner, Counter()).copy()
        if owner == self._lent_to or not (members or any(place in self._taken for place in places)):
            return
        free = {place: max(0, self._pods[place] - len(self._arrived.get(place, _NONE))) for place in places}
        taken = dict.fromkeys(places, 0)
        for place in places:
            taken[place] = min(free[place], members[self._node_of(place)])
            members[self._node_of(place)] -= taken[place]
        elsewhere = members.total()
        for place in places:
            more = min(free[place] - taken[place], elsewhere)
            taken[place] += more
            elsewhere -= more
        for place, number in taken.items():
            self._taken[place] = number
            self._update(place)

    def remove_pod(self, key: Key) -> None:
        self._remove_arrived(key)
        self._set_member(key, None)

    def _remove_arrived(self, key: Key) -> None:
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
        """Update the place of a pod. If pods of its pod set have ended for good, update the whole pod set."""
        workload = self._workloads.get(changed.workload)
        self._update(changed)
        if workload is not None:
            self._divide(workload.owner)
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
        changed = [
            place
            for owner in self._of_owner
            for place in self._places_of_owner(owner)
            if place in self._cluster.occupants
            and is_distinguished(self._pod_of(place).pod.metadata.labels, added)
        ]
        self._release(changed)
        for place in changed:
            self._update(place)

    def _release(self, places: list[_Place]) -> None:
        for place in places:
            self._cluster.release(place)

    def _update(self, place: _Place) -> None:
        """Count as many pods as have not arrived."""
        arrived = len(self._arrived.get(place, _NONE)) + self._taken.get(place, 0)
        left = max(0, self._pods.get(place, 0) - arrived)
        workload = self._workloads.get(place.workload)
        if workload is not None and (needed := workload.needed.get(place.pod_set)) is not None:
            left = min(left, max(0, needed - len(self._running_in(place))))
        if workload is None or workload.owner == self._lent_to or not left:
            self._cluster.release(place)
            return
        if self._cluster.held_pods(place) != left:
            shape = self._shape(self._pod_of(place))
            self._cluster.hold(place, shape, self._node_of(place), left, workload.owner)

    def _node_of(self, place: _Place) -> str:
        return self._names.get(place.host, place.host)

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
