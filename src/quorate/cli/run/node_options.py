"""Options that describe the nodes of a local cluster, and how its pods run."""

from functools import partial
from typing import Annotated, Final

import typer

from quorate.api.decoding.strict import InvalidConfiguration, InvalidValue
from quorate.api.quantity import InvalidQuantity, Quantity, parse_quantity
from quorate.inspect.errors import UsageError
from quorate.processes.local.cluster_description import DEFAULT, ClusterDescription
from quorate.processes.local.node_pools import EXAMPLE as POOL_EXAMPLE
from quorate.processes.local.node_pools import (
    FLAVOR,
    TOPOLOGY,
    TOPOLOGY_EXAMPLE,
    NodePoolDescription,
    NodeTopology,
    check_pools,
    parse_node_topology,
    parse_pool,
)
from quorate.processes.local.pod_runtime import Runtime


def _amount(text: str) -> Quantity:
    try:
        amount = parse_quantity(text)
    except InvalidQuantity as error:
        raise typer.BadParameter(str(error)) from error
    if amount < Quantity(0):
        raise typer.BadParameter(f"{text!r} is negative (write 0 or more)")
    return amount


def topology_option(text: str) -> NodeTopology:
    try:
        return parse_node_topology(text)
    except InvalidValue as error:
        raise typer.BadParameter(f"{text!r} {error.rule}") from error


def pool_option(written: str) -> NodePoolDescription:
    try:
        return parse_pool(written)
    except InvalidValue as error:
        raise typer.BadParameter(f"{written!r} {error.rule}") from error
    except InvalidConfiguration as error:
        raise typer.BadParameter("; ".join(map(str, error.findings))) from error


_of_nodes: Final = partial(typer.Option, rich_help_panel="Nodes")

Nodes = Annotated[int | None, _of_nodes(min=0, help=f"How many nodes to simulate. Default: {DEFAULT.nodes}.")]
NodeCpu = Annotated[
    Quantity | None,
    _of_nodes(
        parser=_amount, metavar="QUANTITY",
        help=f"Allocatable cpu of each node, such as 8 or 500m. Default: {DEFAULT.cpu}.",
    ),
]  # fmt: skip
NodeMemory = Annotated[
    Quantity | None,
    _of_nodes(
        parser=_amount, metavar="QUANTITY",
        help=f"Allocatable memory of each node, such as 16Gi or 8429Mi. Default: {DEFAULT.memory}.",
    ),
]  # fmt: skip
NodePods = Annotated[
    int | None, _of_nodes(min=0, help=f"Allocatable pods of each node. Default: {DEFAULT.pods}.")
]
NodeLevels = Annotated[
    NodeTopology | None,
    _of_nodes(
        "--topology", parser=topology_option, metavar="LEVELS",
        help=f"Blocks, racks or other domains of nodes, instead of --nodes: [b]{TOPOLOGY_EXAMPLE}[/b] makes "
        f"2 blocks of 4 racks of 8 hosts, the Topology {TOPOLOGY} and the ResourceFlavor {FLAVOR}.",
    ),
]  # fmt: skip
NodePools = Annotated[
    list[NodePoolDescription] | None,
    _of_nodes(
        "--pool", parser=pool_option, metavar="FIELDS", show_default=False,
        help=f"Nodes of another size: [b]{POOL_EXAMPLE}[/b]. May be repeated, as may label=KEY=VALUE and "
        "taint=KEY=VALUE:EFFECT in it.",
    ),
]  # fmt: skip
Speed = Annotated[
    float,
    _of_nodes(
        min=0.001,
        help="How many times faster than real time simulated pods start and run.",
    ),
]  # fmt: skip

RuntimeChoice = Annotated[
    Runtime,
    typer.Option(
        help="How pods run: [b]simulated[/b]: without programs, for as long as annotations say; "
        "[b]process[/b]: as processes of this machine, a node; --nodes and --pool add simulated nodes."
    ),
]
NodeName = Annotated[
    str, typer.Option(metavar="NAME", help="The node of this machine; by default the name of the host.")
]
NodeResources = Annotated[
    str,
    typer.Option(
        "--node",
        metavar="RESOURCE=AMOUNT,...",
        help="What the node of this machine has, such as [b]cpu=4,memory=8Gi[/b]; by default all of it.",
    ),
]
Images = Annotated[
    list[str] | None,
    typer.Option(
        "--image",
        metavar="NAME=DIRECTORY",
        help="The root directory of an image; others are the files of this machine. May be repeated.",
    ),
]


def described_nodes(
    nodes: int | None,
    cpu: Quantity | None,
    memory: Quantity | None,
    pods: int | None,
    topology: NodeTopology | None,
    pools: list[NodePoolDescription] | None,
) -> ClusterDescription:
    """Return what the options of a command describe.  Raises ``UsageError``."""
    if nodes is not None and topology is not None:
        raise UsageError("--nodes has no effect with --topology (drop one of the two)")
    try:
        check_pools(tuple(pools or ()))
    except InvalidValue as error:
        raise UsageError(f"--pool {error.rule}") from error
    return ClusterDescription(
        nodes=nodes,
        cpu=cpu,
        memory=memory,
        pods=pods,
        topology=topology,
        pools=tuple(pools) if pools else None,
    )
