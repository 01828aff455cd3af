"""The cluster that a directory of manifests asks for, in its ``cluster.yaml``.

    apiVersion: local.quorate.dev/v1alpha1
    kind: Cluster
    nodes: 1            # how many equal nodes
    cpu: "8"            # allocatable on each node
    memory: 8429Mi
    pods: 110
    topology: block=2,rack=4,host=8  # instead of nodes: hosts in racks in blocks

Every field is optional, and options of the command line override it.  The file is read, not applied to the
API.
"""

from typing import Annotated, Final

import msgspec
import typer

from quorate.api.decoding.documents import Document
from quorate.api.decoding.strict import DecodeContext, Section, choice, integer, quantity, section
from quorate.api.findings import Finding
from quorate.api.quantity import InvalidQuantity, Quantity, parse_quantity
from quorate.cli.errors import UsageError
from quorate.cli.run.node_topology import (
    EXAMPLE,
    FLAVOR,
    NODE_LABELS,
    TOPOLOGY,
    NodeTopology,
    decode_node_topology,
    topology_option,
)
from quorate.local.nodes import Fleet

API_VERSION: Final = "local.quorate.dev/v1alpha1"


class ClusterDescription(msgspec.Struct, frozen=True, kw_only=True):
    """The number of equal nodes, or their topology, and the resources of each; None: not specified."""

    nodes: int | None = None
    cpu: Quantity | None = None
    memory: Quantity | None = None
    pods: int | None = None
    topology: NodeTopology | None = None

    def override(self, other: "ClusterDescription") -> "ClusterDescription":
        """Return ``self`` with the fields of ``other`` where ``self`` has none."""
        ours = {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}
        if self.nodes is not None or self.topology is not None:  # either says how many nodes there are
            ours = {"nodes": None, "topology": None, **ours}
        return msgspec.structs.replace(other, **ours)


def read_description(document: Document) -> tuple[ClusterDescription, list[Finding]]:
    """Return the description in the document, and the findings about it."""
    context = DecodeContext(document)
    return context.root().decode(section(_fields), ClusterDescription()), context.findings


def _fields(fields: Section) -> ClusterDescription:
    fields.take("apiVersion", choice((API_VERSION,)), API_VERSION)
    fields.take("kind", choice(("Cluster",)), "Cluster")
    nodes = fields.take("nodes", integer(0), None)
    topology = fields.take("topology", decode_node_topology, None)
    if nodes is not None and topology is not None:
        fields.at("nodes").reject("has no effect beside topology (drop one of the two)")
    return ClusterDescription(
        nodes=nodes,
        topology=topology,
        cpu=fields.take("cpu", quantity, None),
        memory=fields.take("memory", quantity, None),
        pods=fields.take("pods", integer(0), None),
    )


DEFAULT: Final = ClusterDescription(nodes=1, cpu=parse_quantity("8"), memory=parse_quantity("16Gi"), pods=110)


def _amount(text: str) -> Quantity:
    try:
        amount = parse_quantity(text)
    except InvalidQuantity as error:
        raise typer.BadParameter(str(error)) from error
    if amount < Quantity(0):
        raise typer.BadParameter(f"{text!r} is negative (write 0 or more)")
    return amount


_PANEL: Final = "Nodes"

Nodes = Annotated[
    int | None,
    typer.Option(
        min=0, rich_help_panel=_PANEL, help=f"How many nodes to simulate. Default: {DEFAULT.nodes}."
    ),
]
NodeCpu = Annotated[
    Quantity | None,
    typer.Option(
        parser=_amount, metavar="QUANTITY", rich_help_panel=_PANEL,
        help=f"Allocatable cpu of each node, such as 8 or 500m. Default: {DEFAULT.cpu}.",
    ),
]  # fmt: skip
NodeMemory = Annotated[
    Quantity | None,
    typer.Option(
        parser=_amount, metavar="QUANTITY", rich_help_panel=_PANEL,
        help=f"Allocatable memory of each node, such as 16Gi or 8429Mi. Default: {DEFAULT.memory}.",
    ),
]  # fmt: skip
NodePods = Annotated[
    int | None,
    typer.Option(
        min=0, rich_help_panel=_PANEL, help=f"Allocatable pods of each node. Default: {DEFAULT.pods}."
    ),
]
NodeLevels = Annotated[
    NodeTopology | None,
    typer.Option(
        "--topology", parser=topology_option, metavar="LEVELS", rich_help_panel=_PANEL,
        help=f"Blocks, racks or other domains of nodes, instead of --nodes: [b]{EXAMPLE}[/b] makes 2 blocks "
        f"of 4 racks of 8 hosts, the Topology {TOPOLOGY} and the ResourceFlavor {FLAVOR}.",
    ),
]  # fmt: skip
Speed = Annotated[
    float,
    typer.Option(
        min=0.001, rich_help_panel=_PANEL,
        help="How many times faster than real time simulated pods start and run.",
    ),
]  # fmt: skip


def described_nodes(
    nodes: int | None,
    cpu: Quantity | None,
    memory: Quantity | None,
    pods: int | None,
    topology: NodeTopology | None,
) -> ClusterDescription:
    """Return what the options of a command describe.  Raises ``UsageError``."""
    if nodes is not None and topology is not None:
        raise UsageError("--nodes has no effect with --topology (drop one of the two)")
    return ClusterDescription(nodes=nodes, cpu=cpu, memory=memory, pods=pods, topology=topology)


def fleet(options: ClusterDescription, described: ClusterDescription = ClusterDescription()) -> Fleet:  # noqa: B008  it is frozen
    """Return the nodes to simulate; options override the description, which overrides the defaults."""
    chosen = options.override(described).override(DEFAULT)
    assert chosen.pods is not None, "the defaults leave nothing open"
    topology = chosen.topology
    if topology is not None:
        return Fleet(
            topology.nodes, str(chosen.cpu), str(chosen.memory), chosen.pods, NODE_LABELS,
            levels=topology.levels,
        )  # fmt: skip
    assert chosen.nodes is not None, "the defaults leave nothing open"
    return Fleet(chosen.nodes, str(chosen.cpu), str(chosen.memory), chosen.pods)
