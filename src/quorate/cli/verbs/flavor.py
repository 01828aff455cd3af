"""``quorate flavor``: list and create ResourceFlavors."""

from typing import Annotated

import typer

from quorate.api.kueue import ResourceFlavor
from quorate.cli.lazy_commands import command_group
from quorate.cli.verbs import options as o
from quorate.cli.verbs.cluster_commands import on_cluster
from quorate.cli.verbs.listing import list_objects
from quorate.cli.verbs.printing import Column, age, print_objects
from quorate.cli.verbs.quota_options import pairs, taints, tolerations
from quorate.cli.verbs.writing import Results, create_object
from quorate.inspect.connection import Connection
from quorate.kube.clock import WallClock
from quorate.kube.resources import RESOURCE_FLAVORS

flavor = command_group("Resource flavors, the kinds of nodes that quota is defined for: list, create.")


@flavor.command("list")
@on_cluster
async def list_(
    connection: Connection,
    selector: o.LabelSelector = "",
    field_selector: o.FieldSelector = "",
    output: o.Format = o.Output.TABLE,
) -> None:
    """List resource flavors and their node labels.

    [b]Example:[/b] quorate flavor list
    """
    now = WallClock().now()
    columns: tuple[Column[ResourceFlavor], ...] = (
        Column("NAME", lambda flavor: flavor.metadata.name),
        Column(
            "NODE LABELS", lambda flavor: ", ".join(f"{k}={v}" for k, v in flavor.spec.node_labels.items())
        ),
        Column("AGE", lambda flavor: age(flavor.metadata.creation_timestamp, now)),
    )
    flavors = await list_objects(connection, RESOURCE_FLAVORS, output, selector, field_selector)
    print_objects(columns, flavors, output)


@flavor.command()
@on_cluster
async def create(
    connection: Connection,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the flavor.")],
    node_labels: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="nodeLabels: labels of the nodes of this flavor."),
    ] = None,
    node_taints: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE:EFFECT",
            help="nodeTaints: taints of its nodes; pods that do not tolerate them cannot use the flavor.",
        ),
    ] = None,
    tolerations_: Annotated[
        list[str] | None,
        typer.Option(
            "--tolerations",
            metavar="KEY=VALUE:EFFECT",
            help="tolerations: added to the pods admitted with this flavor.",
        ),
    ] = None,
    dry_run: o.DryRunOption = o.DryRun.NONE,
    output: o.Format = o.Output.TABLE,
) -> None:
    """Create a resource flavor.

    [b]Example:[/b] quorate flavor create spot --node-labels class=spot --tolerations class=spot:NoSchedule
    """
    fields = {
        "nodeLabels": pairs("--node-labels", node_labels or []),
        "nodeTaints": taints(node_taints or []),
        "tolerations": tolerations(tolerations_ or []),
    }
    spec = {field: value for field, value in fields.items() if value}
    with Results(output, dry_run) as results:
        await create_object(connection, RESOURCE_FLAVORS, name, spec, results)
