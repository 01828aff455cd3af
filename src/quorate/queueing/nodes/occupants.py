"""What takes room on nodes beside places: each bound or nominated pod once, by node and by owner.

A pod that requests a place is counted by the places of its workload, as long as that has some: then it takes
no room itself.
"""

from collections.abc import Iterator, Mapping
from typing import Final, Literal, NamedTuple

import msgspec

from quorate.api.core.pod import Pod
from quorate.api.core.pod_resources import EncodedRequests
from quorate.api.core.scheduling import Node
from quorate.api.meta import Key
from quorate.api.names.kueue import POD_SET, SLICE_NAME, WORKLOAD_ANNOTATION
from quorate.api.names.volcano import GROUP_NAME
from quorate.api.quantity import Quantity
from quorate.placement.cluster.occupants import AllocationState
from quorate.placement.resources import in_base_units
from quorate.queueing.nodes.places import Amounts

Requests = Amounts | EncodedRequests  # in base units by resource, or as a pod names them


OwnerKind = Literal["workload", "group"]

PODS: Final = "pods"  # the resource of which each pod uses 1


class Owner(NamedTuple):
    """The workload of a pod that requests a place, or the Volcano pod group of one that requests none."""

    kind: OwnerKind
    key: Key


class Nominated(NamedTuple):
    """The name of a pod on the node for which it is nominated: for a moment the pod may be bound, too."""

    pod: Key


Name = Key | Nominated


class Occupant(msgspec.Struct, frozen=True, gc=False):
    """What a pod takes of a node."""

    node: str
    requests: Requests
    owner: Owner | None = None
    pod: Pod | None = None  # None: nominated or unreadable, so that no selector matches it
    is_unreadable: bool = False  # the places of its workload may not cover what it takes

    @property
    def state(self) -> AllocationState:
        """Return how the pod counts on its node; only topology spread does not count a terminating pod."""
        is_leaving = self.pod is not None and self.pod.is_leaving
        return AllocationState.RELEASING if is_leaving else AllocationState.USED

    def takes_the_same(self, other: "Occupant") -> bool:
        """Return True if both take the same room for the same owner, whatever their labels are."""
        return (self.node, self.requests, self.owner, self.is_unreadable) == (
            other.node, other.requests, other.owner, other.is_unreadable,
        )  # fmt: skip

    @property
    def pod_set(self) -> str:
        return "" if self.pod is None else self.pod.metadata.labels.get(POD_SET, "")


_NO_PODS: Final[Mapping[Name, Occupant]] = {}


class Occupants:
    """All pods with a node, by their name."""

    def __init__(self) -> None:
        self.with_places: set[Key] = set()  # workloads of which the places count
        self._taken_back: set[Key] = set()  # those among them of which the places do not count for a while
        self.by_name: dict[Name, Occupant] = {}
        self._on_nodes: dict[str, dict[Name, Occupant]] = {}  # no empty values
        # By workload and by pod group; no empty values.
        self.of_owners: dict[OwnerKind, dict[Key, dict[Key, Occupant]]] = {"workload": {}, "group": {}}

    def put(self, name: Name, occupant: Occupant) -> None:
        self.remove(name)
        self.by_name[name] = occupant
        self._on_nodes.setdefault(occupant.node, {})[name] = occupant
        if occupant.owner is not None and isinstance(name, Key):
            kind, key = occupant.owner
            self.of_owners[kind].setdefault(key, {})[name] = occupant

    def remove(self, name: Name) -> None:
        occupant = self.by_name.pop(name, None)
        if occupant is None:
            return
        on_node = self._on_nodes[occupant.node]
        del on_node[name]
        if not on_node:
            del self._on_nodes[occupant.node]
        if occupant.owner is not None and isinstance(name, Key):
            kind, key = occupant.owner
            del self.of_owners[kind][key][name]
            if not self.of_owners[kind][key]:
                del self.of_owners[kind][key]

    def counts(self, occupant: Occupant) -> bool:
        """Return True if the pod takes room itself, False if the places of its workload do."""
        owner = occupant.owner
        is_placed = owner is not None and owner.kind == "workload" and owner.key in self.with_places
        return occupant.is_unreadable or not is_placed

    def named_on(self, node: str) -> Mapping[Name, Occupant]:
        """Return all pods on a node by name, also those that take no room themselves."""
        return self._on_nodes.get(node, _NO_PODS)

    def on_node(self, node: str, *, counted: bool) -> Iterator[Requests]:
        """Yield the requests of the pods on a node that take room themselves, or of the others."""
        for occupant in self.named_on(node).values():
            if self.counts(occupant) is counted:
                yield occupant.requests

    def set_taken_back(self, workload: Key, is_taken_back: bool) -> None:
        """Record whether the places of a workload do not count for a while, as if its pods had ended."""
        if is_taken_back and workload in self.with_places:
            self._taken_back.add(workload)
        else:
            self._taken_back.discard(workload)

    def placed_on(self, node: str) -> Iterator[Requests]:
        """Yield the requests of the pods on a node that are counted by their places."""
        for occupant in self.named_on(node).values():
            owner = occupant.owner
            if not self.counts(occupant) and (owner is None or owner.key not in self._taken_back):
                yield occupant.requests

    def of(self, owner: Owner) -> Mapping[Key, Occupant]:
        """Return the bound pods of an owner."""
        return self.of_owners[owner.kind].get(owner.key, {})


def owner_of(pod: Pod) -> Owner | None:
    """Return what the pod belongs to; None: nothing that has places, or an unknown workload that has.

    Kueue (v0.19) counts the pods that request no place.  Here a pod that requests one counts too as soon as
    its workload has no places any more: until a terminating pod has ended, its room is not free.
    """
    key = workload_of(pod) if pod.requests_place else group_of(pod)
    return None if key is None else Owner("workload" if pod.requests_place else "group", key)


def workload_of(pod: Pod) -> Key | None:
    """Return the workload with the places of the pod; None: unknown, or one of several slices of a job."""
    annotations = pod.metadata.annotations
    name = "" if SLICE_NAME in annotations else annotations.get(WORKLOAD_ANNOTATION, "")
    return Key(pod.metadata.namespace, name) if name else None


def group_of(pod: Pod) -> Key | None:
    """Return the Volcano pod group of a pod that names no workload; None if it has none."""
    annotations = pod.metadata.annotations
    name = "" if WORKLOAD_ANNOTATION in annotations else annotations.get(GROUP_NAME, "")
    return Key(pod.metadata.namespace, name) if name else None


def usage_on_node(pod: Pod) -> Amounts:
    """Return what a pod uses of its node, in base units by resource."""
    return {**in_base_units(pod.requests), PODS: 1}


def offered_amounts(requests: Requests, node: Node | None) -> Amounts:
    """Return the requests of resources that the node offers, in base units; of an unknown node only ``pods``.

    Of any other resource nothing is free, whatever pods use, and a pod may name thousands of them.
    """
    names: Mapping[str, Quantity] = {} if node is None else node.status.allocatable
    if isinstance(requests, EncodedRequests):
        return {**in_base_units(requests.of_resources(names)), PODS: 1}
    return {name: amount for name, amount in requests.items() if name in names or name == PODS}


def offer_the_same(old: Node, new: Node) -> bool:
    """Return True if the same requests count on both nodes."""
    return old.status.allocatable.keys() == new.status.allocatable.keys()
