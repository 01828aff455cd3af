"""Places of pods: equal pods in one leaf of a topology, and what they use of it."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Protocol

import msgspec

from quorate.api.core.pod_templates import template_pod
from quorate.api.interning import InternCache
from quorate.api.kueue import Admission
from quorate.api.kueue.topology import HOSTNAME
from quorate.api.meta import Key
from quorate.placement.topology.leaf_hosts import HostRequest, Pods
from quorate.placement.topology.tree import Path
from quorate.queueing.limits import MAX_TEMPLATES
from quorate.queueing.nodes.pod_templates import Template

Amounts = Mapping[str, int]
Domains = tuple[tuple[Path, int], ...]  # the recorded values of each leaf, and its pods
LEVELS: Final = (HOSTNAME,)  # of flavors without a topology
_ALL_NEEDED: Final[Mapping[str, Domains]] = {}


class Place(NamedTuple):
    """Equal pods in one leaf: its recorded values, and what all of them use."""

    flavors: tuple[str, ...]  # one of them has the topology; empty: a host, of flavors without a topology
    values: Path
    on_host: bool  # the leaf is a host
    amounts: Amounts
    pods: int = 0
    template: Template | None = None  # of the pods, on a host


class UsedBy(msgspec.Struct, frozen=True, order=True):
    """Equal places of one leaf, as usage is recorded."""

    flavors: tuple[str, ...]
    on_host: bool


class PlacesUsage(Protocol):
    """What counts the usage of places."""

    def count(self, places: Iterable[Place], times: int, workload: Key | None = None) -> None: ...


class Places:
    """The places of one workload with quota, counted or not in the usage of the domains."""

    __slots__ = ("_usage", "_workload", "all")

    def __init__(
        self, usage: PlacesUsage | None, places: Iterable[Place], workload: Key | None = None
    ) -> None:
        """``workload``: the workload with quota that has the places; None: the places are only tried."""
        self._usage = usage
        self._workload = workload
        self.all = tuple(places)

    def count(self, times: int) -> None:
        """Add the usage of the places; ``times`` is 1, or -1 to take it back."""
        if self._usage is not None:
            self._usage.count(self.all, times, self._workload)


NO_PLACES = Places(None, ())


def without_places(places: Iterable[Place], others: Iterable[Place]) -> list[Place]:
    """Return what ``places`` use beyond what ``others`` use of the same leaves.

    A host is one leaf, whatever flavors its pods have.
    """
    left: dict[tuple[tuple[str, ...], Path], dict[str, int]] = {}
    pods: dict[tuple[tuple[str, ...], Path], int] = {}
    for other in others:
        key = () if other.on_host else other.flavors, other.values
        amounts = left.setdefault(key, {})
        for resource, amount in other.amounts.items():
            amounts[resource] = amounts.get(resource, 0) + amount
        pods[key] = pods.get(key, 0) + other.pods
    if not left:
        return list(places)
    beyond: list[Place] = []
    for place in places:
        key = () if place.on_host else place.flavors, place.values
        held = left.get(key, {})
        amounts = {}
        for resource, amount in place.amounts.items():
            covered = min(amount, held.get(resource, 0))
            if covered:
                held[resource] -= covered
            amounts[resource] = amount - covered
        covered = min(place.pods, pods.get(key, 0))
        if covered:
            pods[key] -= covered
        if any(amounts.values()):
            beyond.append(place._replace(amounts=amounts, pods=place.pods - covered))
    return beyond


def has_places(admission: Admission) -> bool:
    for assigned in admission.pod_set_assignments:  # noqa: SIM110  called for each admission, where any() costs more
        if assigned.topology_assignment is not None:
            return True
    return False


def recorded_places(
    usage: PlacesUsage,
    admission: Admission,
    per_pod: Mapping[str, Amounts],
    templates: Mapping[str, Template],
    needed: Mapping[str, Domains] = _ALL_NEEDED,
    workload: Key | None = None,
) -> Places:
    """Return the places that an admission records.

    ``per_pod`` has the usage of one pod by pod set, ``templates`` the templates of the pods.  ``needed`` has
    the domains of the pod sets of which some pods have ended for good.
    """
    return Places(
        usage,
        (
            Place(
                tuple(sorted(set(assigned.flavors.values()))),
                values,
                tuple(assignment.levels) == LEVELS,
                {name: amount * count for name, amount in per_pod[assigned.name].items()},
                count,
                templates.get(assigned.name),
            )
            for assigned in admission.pod_set_assignments
            if (assignment := assigned.topology_assignment) is not None and assigned.name in per_pod
            for values, count in (needed[assigned.name] if assigned.name in needed else assignment.domains())
        ),
        workload,
    )


class UsedPlaces:
    """The places that count.

    Both are recorded by the values of the leaf, whether or not the leaf and its flavors exist.
    """

    def __init__(self) -> None:
        self.by_leaf: dict[Path, dict[UsedBy, dict[str, int]]] = {}  # without zeros and empty values
        # Of leaves above hosts, by flavors and request; without zeros and empty values.
        self.pods: dict[Path, dict[tuple[tuple[str, ...], HostRequest], int]] = {}

    def count(self, place: Place, times: int) -> UsedBy:
        """Count the pods of a place, ``times`` 1, or -1 to take them back; return what uses its leaf."""
        of_leaf = self.by_leaf.setdefault(place.values, {})
        key = UsedBy(place.flavors, place.on_host)
        used = of_leaf.setdefault(key, {})
        for resource, amount in place.amounts.items():
            used[resource] = used.get(resource, 0) + amount * times
            if not used[resource]:
                del used[resource]
        if not used:
            del of_leaf[key]
            if not of_leaf:
                del self.by_leaf[place.values]
        if not place.on_host and place.pods:
            pods = self.pods.setdefault(place.values, {})
            group = place.flavors, host_request(place)
            pods[group] = pods.get(group, 0) + place.pods * times
            if not pods[group]:
                del pods[group]
                if not pods:
                    del self.pods[place.values]
        return key

    def pods_in(self, flavor: str, leaf: Path) -> Iterable[Pods]:
        """Return the pods of a flavor that are placed in a leaf above hosts."""
        pods = self.pods.get(leaf, {}).items()
        return [(request, count) for (flavors, request), count in pods if flavor in flavors and count > 0]


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


_intern_terms = InternCache(_terms, entries=MAX_TEMPLATES)
