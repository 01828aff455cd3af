"""What a pod set requests of a topology, resolved to the levels of one tree."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec

from quorate.api.core import NodeSelector, PreferredSchedulingTerm, Toleration
from quorate.placement.topology.leaf_hosts import HostRequest
from quorate.placement.topology.tree import DomainTree
from quorate.placement.vectors import Vector


class SliceLayer(NamedTuple):
    """Every ``size`` pods run in one domain of ``level``, a node label."""

    level: str
    size: int


class TopologyRequest(msgspec.Struct, frozen=True):
    """The fields of ``topologyRequest`` that affect the placement of a pod set.

    ``unconstrained`` is None where the field is absent.
    """

    required: str = ""
    preferred: str = ""
    unconstrained: bool | None = None
    layers: tuple[SliceLayer, ...] = ()  # outermost first
    group: str = ""

    @property
    def is_explicit(self) -> bool:
        """Return True if any topology is requested; index labels alone request none."""
        return bool(self.required or self.preferred or self.layers) or self.unconstrained is not None

    @property
    def levels(self) -> tuple[str, ...]:
        """The node labels that the request names."""
        named = self.required or self.preferred
        own = (named,) if named else ()
        return (*own, *[layer.level for layer in self.layers if layer.level]) if self.layers else own


NO_TOPOLOGY: Final = TopologyRequest()


class PodSetRequest(msgspec.Struct, frozen=True):
    """The pods of one pod set that are to be placed."""

    name: str
    count: int
    per_pod: Mapping[str, int]  # in base units, with 1 of ``pods``
    topology: TopologyRequest = NO_TOPOLOGY
    node_selector: Mapping[str, str] = {}
    affinity: NodeSelector | None = None
    preferred_affinity: tuple[PreferredSchedulingTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()  # with those of the flavor
    limits: Vector | None = None  # by leaf: how many pods it takes at most, whatever its capacity

    @property
    def of_host(self) -> HostRequest:
        """What each pod asks of its host."""
        return HostRequest(
            tuple(self.per_pod.items()), tuple(self.node_selector.items()), self.affinity, self.tolerations
        )

    def without_preferred_affinity(self) -> "PodSetRequest":
        return msgspec.structs.replace(self, preferred_affinity=()) if self.preferred_affinity else self


class Profile(msgspec.Struct, frozen=True):
    """The feature gates that select an algorithm."""

    mixed: bool = (
        True  # TASProfileMixed: unconstrained pods fill the domains with the least free capacity first
    )
    balanced: bool = False  # TASBalancedPlacement
    preferred_affinity: bool = False  # TASRespectNodeAffinityPreferred


class SearchParameters(msgspec.Struct, frozen=True):
    """A request in terms of the levels of one tree, by index."""

    count: int  # pods, with those that the last slice lacks
    has_leader: bool
    level: int  # where the search begins
    required: bool
    unconstrained: bool
    least_free_first: bool  # else best fit
    slice_size: int
    slice_level: int
    inner_sizes: Mapping[
        int, int
    ]  # by level below the slice level: pods are placed there in multiples of the size
    layers: tuple[SliceLayer, ...]  # as requested
    leader_differs: bool = False  # labels and taints accept it on other hosts than the workers

    @property
    def slices(self) -> int:
        return self.count // self.slice_size


def resolve(
    tree: DomainTree, request: TopologyRequest, count: int, has_leader: bool, profile: Profile
) -> SearchParameters | str:
    """Return the parameters of the search, or why ``tree`` cannot serve the request, as Kueue words it."""
    named = request.required or request.preferred
    unconstrained = not named
    label = named or tree.levels[-1]
    if not named and request.layers:
        label = tree.levels[0]
    elif not named and request.unconstrained is False:
        return "topology level not specified"
    level = tree.level_of(label)
    if level is None:
        return f"no requested topology level: {label}"
    outer = request.layers[0] if request.layers else SliceLayer(tree.levels[-1], 1)
    if outer.size < 1:
        return "slice topology requested, but slice size not provided"
    slice_level = tree.level_of(outer.level)
    if slice_level is None:
        return f"no requested topology level for slices: {outer.level}"
    if level > slice_level:
        return f"podset slice topology {outer.level} is above the podset topology {label}"
    inner_sizes = _inner_sizes(tree, request.layers, slice_level)
    if isinstance(inner_sizes, str):
        return inner_sizes
    return SearchParameters(
        count=-(-count // outer.size) * outer.size,
        has_leader=has_leader,
        level=level,
        required=bool(request.required),
        unconstrained=unconstrained,
        least_free_first=unconstrained and profile.mixed,
        slice_size=outer.size,
        slice_level=slice_level,
        inner_sizes=inner_sizes,
        layers=request.layers,
    )


def _inner_sizes(tree: DomainTree, layers: tuple[SliceLayer, ...], slice_level: int) -> dict[int, int] | str:
    sizes: dict[int, int] = {}
    above = slice_level
    for outer, layer in pairwise(layers):
        level = tree.level_of(layer.level)
        if level is None:
            return f"no requested topology level for additional slice layer: {layer.level}"
        if level <= above:
            return (
                f"additional slice layer topology {layer.level} must be at a lower level than "
                f"{tree.levels[above]}"
            )
        if layer.size < 1 or outer.size % layer.size:
            return (
                f"additional slice layer size {layer.size} must evenly divide parent layer size {outer.size}"
            )
        sizes |= dict.fromkeys(range(above + 1, level + 1), layer.size)
        above = level
    return sizes
