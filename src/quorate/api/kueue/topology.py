"""Topologies in Kueue's API: what pod sets request, and where their pods are placed."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, groupby, islice, pairwise, repeat
from typing import Final

from msgspec import field

from quorate.api import codec
from quorate.api.meta import Int32, ObjectMeta, Struct

MAX_SLICES: Final = 1_000  # of an assignment, as the schema requires
MAX_DOMAINS: Final = 100_000  # of a slice, likewise
HOSTNAME: Final = "kubernetes.io/hostname"
_MAX_PREFIXES: Final = 25_000  # of all host names together; many more take over 50 ms

Domain = tuple[tuple[str, ...], int]
"""The values that identify a domain, one for each level, and a number of pods."""


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

    def values(self) -> list[str]:
        return [f"{self.prefix}{root}{self.suffix}" for root in self.roots]


class LevelValues(Struct):
    """The values of one level of all domains of a slice: one value, or one for each domain."""

    universal: str | None = None
    individual: IndividualValues | None = None


class PodCounts(Struct):
    universal: Int32 | None = None
    individual: tuple[Int32, ...] = ()

    def first(self, domains: int) -> Iterable[int]:
        """Return the number of pods in each of the first ``domains`` domains; 0 where it is missing."""
        if self.universal is not None:
            return repeat(self.universal, domains)
        return islice(chain(self.individual, repeat(0)), domains)

    def total(self, domains: int) -> int:
        """Return the number of pods in the first ``domains`` domains."""
        if self.universal is not None:
            return self.universal * domains
        return sum(self.individual[:domains])


class AssignmentSlice(Struct):
    """A part of the domains of an assignment; values that the domains share are stored once."""

    domain_count: Int32
    values_per_level: tuple[LevelValues, ...] = ()
    pod_counts: PodCounts = PodCounts()

    def domains(self) -> Iterator[Domain]:
        """Return values and number of pods of each domain; equal domains are returned as one.

        The number of steps is limited by the size of the slice as it is stored, whatever it claims.
        """
        levels = self.values_per_level
        individual = {at: level.individual for at, level in enumerate(levels) if level.individual is not None}
        count = max(0, min((self.domain_count, *(len(column.roots) for column in individual.values()))))
        if not individual:
            if count:
                yield tuple(level.universal or "" for level in levels), self.pod_counts.total(count)
            return
        columns = [
            individual[at].values() if at in individual else repeat(level.universal or "")
            for at, level in enumerate(levels)
        ]
        yield from zip(zip(*columns, strict=False), self.pod_counts.first(count), strict=False)


def _no_slices() -> tuple[AssignmentSlice, ...]:
    """Return the default of a list that is encoded also if it is empty, because the schema requires it."""
    return ()


class TopologyAssignment(Struct):
    levels: tuple[str, ...] = ()
    slices: tuple[AssignmentSlice, ...] = field(default_factory=_no_slices)

    def domains(self) -> Iterator[Domain]:
        """Return the values and the number of pods of each domain, in order."""
        for part in self.slices:
            yield from part.domains()


def topology_assignment(
    levels: tuple[str, ...], domains: Iterable[Domain], *, by_host_prefix: bool = True
) -> TopologyAssignment:
    """Return the assignment of pods to ``domains``, in the encoding that Kueue (v0.19) chooses.

    Host names with a common beginning that ends in a hyphen form a slice each, if that is shorter than one
    slice of all domains.  ``by_host_prefix`` (gate TASAssignmentsEncodingByHostnamePrefix) False: always one.
    Domains are never reordered: their order defines the ranks of pods.
    """
    listed = list(domains)
    if len(listed) == 1:  # of most small workloads
        ((values, count),) = listed
        one = AssignmentSlice(
            domain_count=1,
            values_per_level=tuple([LevelValues(universal=value) for value in values]),
            pod_counts=PodCounts(universal=count),
        )
        return TopologyAssignment(levels=levels, slices=(one,))
    if not by_host_prefix or len(listed) < 2:
        return _cut(levels, [listed])
    runs = _runs_of_hosts(listed) if levels and levels[-1] == HOSTNAME else [listed]
    cut = _cut(levels, runs)
    if len(cut.slices) == 1 or len(listed) > MAX_DOMAINS:
        return cut
    whole = _cut(levels, [listed])
    return whole if len(codec.encode(whole)) < len(codec.encode(cut)) else cut


def _cut(levels: Sequence[str], runs: Iterable[Sequence[Domain]]) -> TopologyAssignment:
    """Return an assignment with a slice for each run of domains, or more if the run is too long."""
    return TopologyAssignment(
        levels=tuple(levels),
        slices=tuple(
            _slice(len(levels), run[first : first + MAX_DOMAINS])
            for run in runs
            for first in range(0, len(run), MAX_DOMAINS)
        ),
    )


def _slice(levels: int, domains: Sequence[Domain]) -> AssignmentSlice:
    counts = tuple(count for _, count in domains)
    return AssignmentSlice(
        domain_count=len(domains),
        values_per_level=tuple(
            _level_values([values[level] for values, _ in domains]) for level in range(levels)
        ),
        pod_counts=PodCounts(universal=counts[0]) if len(set(counts)) == 1 else PodCounts(individual=counts),
    )


def _level_values(values: Sequence[str]) -> LevelValues:
    """Return the values of one level, with their common beginning and end stored once."""
    prefix = _common_prefix(min(values), max(values))
    if all(value == prefix for value in values):
        return LevelValues(universal=prefix)
    reverse = [value[::-1] for value in values]
    suffix = _common_prefix(min(reverse), max(reverse))[::-1]
    # Both must fit into the shortest value; the end is preferred.
    prefix = prefix[: min(map(len, values)) - len(suffix)]
    return LevelValues(
        individual=IndividualValues(
            prefix=prefix,
            suffix=suffix,
            roots=tuple(value[len(prefix) : len(value) - len(suffix)] for value in values),
        )
    )


def _common_prefix(one: str, other: str) -> str:
    length = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
    return one[: min(len(one), len(other)) if length is None else length]


def _runs_of_hosts(domains: Sequence[Domain]) -> Iterable[Sequence[Domain]]:
    """Return the domains in runs of hosts with a common prefix; in one run if there is nothing to gain.

    Prefixes of very many or odd host names are not looked for, so that a large object takes little time.
    """
    hosts = [values[-1] for values, _ in domains]
    if not 0 < sum(host.count("-", 0, -1) for host in hosts) <= _MAX_PREFIXES:
        return [domains]
    ends = list(accumulate(len(list(run)) for _, run in groupby(_prefix_keys(hosts))))
    return [domains[first:end] for first, end in pairwise((0, *ends))]


def _prefix_keys(hosts: Sequence[str]) -> Sequence[str]:
    """Return a prefix of each host name, such that equal neighbours form at most ``MAX_SLICES`` slices.

    The longest prefixes that end in a hyphen and occur twice are tried first, then shorter ones for all
    hosts.  If none are short enough, all prefixes are empty.
    """
    prefixes = [[host[:end] for end in _prefix_ends(host)] for host in hosts]
    occurrences = Counter(chain.from_iterable(prefixes))
    # If two hosts share a prefix they share all shorter ones.
    reusable = [[prefix for prefix in own if occurrences[prefix] > 1] for own in prefixes]
    for depth in range(max(map(len, reusable)), 0, -1):
        keys = [own[min(depth, len(own)) - 1] if own else "" for own in reusable]
        lengths = (sum(1 for _ in group) for _, group in groupby(keys))
        if sum(-(-length // MAX_DOMAINS) for length in lengths) <= MAX_SLICES:
            return keys
    return [""] * len(hosts)


def _prefix_ends(host: str) -> Iterator[int]:
    """Yield the ends of all prefixes of a host name that end in a hyphen, without the whole name."""
    end = host.find("-") + 1
    while 0 < end < len(host):
        yield end
        end = host.find("-", end) + 1
