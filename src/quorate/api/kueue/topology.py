"""Topologies in Kueue's API: what pod sets request, and where their pods are placed."""

from collections.abc import Iterable, Iterator
from typing import Final

from quorate.api.meta import Int32, ObjectMeta, Struct

MAX_DOMAINS: Final = 100_000  # of a slice, as the schema requires


class TopologyLevel(Struct):
    node_label: str


class TopologySpec(Struct):
    levels: tuple[TopologyLevel, ...] = ()  # outermost first


class Topology(Struct):
    metadata: ObjectMeta
    spec: TopologySpec = TopologySpec()


class SliceConstraint(Struct):
    topology: str
    size: Int32


class PodSetTopologyRequest(Struct):
    """What a pod set requests of a topology, and the labels by which its pods are ranked."""

    required: str = ""
    preferred: str = ""
    unconstrained: bool | None = None
    pod_index_label: str = ""
    sub_group_index_label: str = ""
    sub_group_count: Int32 | None = None
    pod_set_group_name: str = ""
    pod_set_slice_required_topology: str = ""
    pod_set_slice_size: Int32 | None = None
    podset_slice_required_topology_constraints: tuple[SliceConstraint, ...] = ()


class IndividualValues(Struct):
    prefix: str = ""
    suffix: str = ""
    roots: tuple[str, ...] = ()


class LevelValues(Struct):
    """The values of one level of all domains of a slice: one value, or one for each domain."""

    universal: str | None = None
    individual: IndividualValues | None = None

    def value(self, domain: int) -> str:
        if self.individual is None:
            return self.universal or ""
        roots = self.individual.roots
        root = roots[domain] if domain < len(roots) else ""
        return f"{self.individual.prefix}{root}{self.individual.suffix}"


class PodCounts(Struct):
    universal: Int32 | None = None
    individual: tuple[Int32, ...] = ()

    def count(self, domain: int) -> int:
        if self.universal is not None:
            return self.universal
        return self.individual[domain] if domain < len(self.individual) else 0


class AssignmentSlice(Struct):
    """A part of the domains of an assignment, with what they have in common stored once."""

    domain_count: Int32
    values_per_level: tuple[LevelValues, ...] = ()
    pod_counts: PodCounts = PodCounts()


class TopologyAssignment(Struct):
    levels: tuple[str, ...] = ()
    slices: tuple[AssignmentSlice, ...] = ()

    def domains(self) -> Iterator[tuple[tuple[str, ...], int]]:
        """Return the values and the number of pods of each domain, in order."""
        for part in self.slices:
            for domain in range(min(part.domain_count, MAX_DOMAINS)):
                values = tuple(level.value(domain) for level in part.values_per_level)
                yield values, part.pod_counts.count(domain)


def topology_assignment(
    levels: tuple[str, ...], domains: Iterable[tuple[tuple[str, ...], int]]
) -> TopologyAssignment:
    """Return the assignment of pods to ``domains``, given by values and number of pods."""
    listed = list(domains)
    if not listed:
        return TopologyAssignment(levels=levels)
    counts = tuple(count for _, count in listed)
    columns = [tuple(values[level] for values, _ in listed) for level in range(len(levels))]
    part = AssignmentSlice(
        domain_count=len(listed),
        values_per_level=tuple(
            LevelValues(universal=values[0])
            if len(set(values)) == 1
            else LevelValues(individual=IndividualValues(roots=values))
            for values in columns
        ),
        pod_counts=PodCounts(universal=counts[0]) if len(set(counts)) == 1 else PodCounts(individual=counts),
    )
    return TopologyAssignment(levels=levels, slices=(part,))
