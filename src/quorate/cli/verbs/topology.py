"""``quorate topology``: list and describe Topologies, with what their domains have free."""

from collections.abc import Sequence

from quorate.api.kueue import ResourceFlavor
from quorate.api.kueue.topology import Topology
from quorate.cli.lazy_commands import LazyCommand, command_group
from quorate.cli.verbs import options as o
from quorate.cli.verbs.cluster_commands import on_cluster
from quorate.cli.verbs.listing import list_objects
from quorate.cli.verbs.printing import Column, age, print_objects
from quorate.inspect.connection import Connection
from quorate.kube.clock import WallClock
from quorate.kube.resources import RESOURCE_FLAVORS, TOPOLOGIES

topology = command_group(
    "Topologies, the hierarchies of nodes: list, describe with what is free in each domain.",
    LazyCommand(
        "describe", "quorate.cli.verbs.topology_domains:describe",
        "Show the domains of a topology: capacity, usage, what is free, and a map of its hosts.",
    ),
)  # fmt: skip


@topology.command("list")
@on_cluster
async def list_(
    connection: Connection,
    selector: o.LabelSelector = "",
    field_selector: o.FieldSelector = "",
    output: o.Format = o.Output.TABLE,
) -> None:
    """List topologies, their levels and the flavors that use them.

    [b]Example:[/b] quorate topology list
    """
    now = WallClock().now()
    topologies = await list_objects(connection, TOPOLOGIES, output, selector, field_selector)
    if topologies:
        flavors = (await connection.client.list(RESOURCE_FLAVORS)).items
        print_objects(_columns(flavors, now), topologies, output)


def _columns(flavors: Sequence[ResourceFlavor], now: float) -> Sequence[Column[Topology]]:
    def users(topology: Topology) -> str:
        name = topology.metadata.name
        return ", ".join(
            sorted(flavor.metadata.name for flavor in flavors if flavor.spec.topology_name == name)
        )

    return (
        Column("NAME", lambda topology: topology.metadata.name),
        Column("LEVELS", lambda topology: ", ".join(level.node_label for level in topology.spec.levels)),
        Column("FLAVORS", users),
        Column("AGE", lambda topology: age(topology.metadata.creation_timestamp, now)),
    )
