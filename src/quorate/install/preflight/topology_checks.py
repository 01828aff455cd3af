"""Checks of topologies: labels that nodes lack, levels in the wrong order, flavors without their topology."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from quorate.api.core import Node
from quorate.api.kueue import ResourceFlavor
from quorate.api.kueue.topology import Topology
from quorate.install.preflight.findings import PreflightFinding, error, info, some, warning


def topology_findings(
    flavors: Mapping[str, ResourceFlavor], topologies: Iterable[Topology] | None, nodes: Sequence[Node] | None
) -> Iterator[PreflightFinding]:
    """Check the topologies that flavors refer to; None: no permission to list them."""
    if topologies is None:
        return
    by_name = {topology.metadata.name: topology for topology in topologies}
    for name, flavor in sorted(flavors.items()):
        wanted = flavor.spec.topology_name
        if not wanted:
            continue
        if wanted not in by_name:
            yield error(
                f"flavor {name}",
                f"there is no Topology {wanted}, so the cluster queues that use the flavor admit nothing",
                f"create Topology {wanted}, or a flavor without topologyName",
            )
        elif nodes is not None:
            labels = flavor.spec.node_labels.items()
            members = [node for node in nodes if labels <= node.metadata.labels.items()]
            yield from _levels(name, by_name[wanted], members)


def _levels(flavor: str, topology: Topology, nodes: Sequence[Node]) -> Iterator[PreflightFinding]:
    levels = [level.node_label for level in topology.spec.levels]
    about = f"topology {topology.metadata.name}"
    for level in levels:
        without = [node.metadata.name for node in nodes if level not in node.metadata.labels]
        if not without:
            continue
        if len(without) == len(nodes):
            yield error(
                about,
                f"no node of flavor {flavor} has label {level}, so its workloads find no place",
                "label the nodes, or correct spec.levels in a new Topology",
            )
        else:
            yield warning(
                about,
                f"{len(without)} of {len(nodes)} nodes of flavor {flavor} lack label {level}, so they are "
                f"not used: {some(sorted(without))}",
                "label the nodes",
            )
    for upper, lower in pairwise(levels):
        yield from _order(about, upper, lower, nodes)


def _order(about: str, upper: str, lower: str, nodes: Sequence[Node]) -> Iterator[PreflightFinding]:
    """Yield pairs of levels in the wrong order, and lower values that occur below several upper ones."""
    parents: dict[str, set[str]] = defaultdict(set)
    children: dict[str, set[str]] = defaultdict(set)
    for node in nodes:
        above, below = node.metadata.labels.get(upper, ""), node.metadata.labels.get(lower, "")
        if above and below:
            parents[below].add(above)
            children[above].add(below)
    shared = sorted(value for value, above in parents.items() if len(above) > 1)
    if not shared:
        return
    if all(len(below) == 1 for below in children.values()):
        yield warning(
            about,
            f"levels {upper} and {lower} seem to be in the wrong order: each {upper} is in one "
            f"{lower}, which has several of them ({some(shared)})",
            "write the wider level first in spec.levels of a new Topology",
        )
        return
    example = shared[0]
    yield info(
        about,
        f"{len(shared)} values of {lower} occur in several {upper}, such as {example} in "
        f"{some(sorted(parents[example]))}; they count as different domains",
    )
