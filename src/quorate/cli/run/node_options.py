"""Options that describe the nodes of a local cluster, and how its pods run."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from inspect import Parameter
from typing import Annotated, Any, Concatenate, Final

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
from quorate.processes.local.pod_runtime import Runtime, RuntimeOptions


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


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """What the options of a command say about nodes, and about how pods run."""

    description: ClusterDescription
    speed: float
    runtime: RuntimeOptions


def node_options(
    nodes: Nodes = None,
    node_cpu: NodeCpu = None,
    node_memory: NodeMemory = None,
    node_pods: NodePods = None,
    topology: NodeLevels = None,
    pool: NodePools = None,
    speed: Speed = 1.0,
    runtime: RuntimeChoice = Runtime.SIMULATED,
    node_name: NodeName = "",
    node: NodeResources = "",
    image: Images = None,
) -> NodeOptions:
    """Return what the options describe.  Raises ``UsageError``."""
    if nodes is not None and topology is not None:
        raise UsageError("--nodes has no effect with --topology (drop one of the two)")
    try:
        check_pools(tuple(pool or ()))
    except InvalidValue as error:
        raise UsageError(f"--pool {error.rule}") from error
    description = ClusterDescription(
        nodes=nodes, cpu=node_cpu, memory=node_memory, pods=node_pods, topology=topology,
        pools=tuple(pool) if pool else None,
    )  # fmt: skip
    return NodeOptions(description, speed, RuntimeOptions(runtime, node_name, node, image or ()))


_OPTIONS: Final = inspect.signature(node_options).parameters


def with_nodes(command: Callable[Concatenate[NodeOptions, ...], None]) -> Callable[..., None]:
    """Return a command that also has the options of ``node_options``, and passes their value on first."""
    _, *own = inspect.signature(command, eval_str=True).parameters.values()

    @wraps(command)
    def run(**given: Any) -> None:
        command(node_options(**{name: given.pop(name) for name in _OPTIONS}), **given)

    keywords = [option.replace(kind=Parameter.KEYWORD_ONLY) for option in (*_OPTIONS.values(), *own)]
    run.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    return run
