"""The options that say which nodes a local cluster plays, the same for every command that starts one."""

from typing import Annotated, Final

import typer

from quorate.api.quantity import InvalidQuantity, Quantity, parse_quantity
from quorate.cli.run.cluster_description import ClusterDescription
from quorate.local.nodes import Fleet

DEFAULT: Final = ClusterDescription(nodes=1, cpu=parse_quantity("8"), memory=parse_quantity("16Gi"), pods=110)


def _amount(text: str) -> Quantity:
    try:
        amount = parse_quantity(text)
    except InvalidQuantity as error:
        raise typer.BadParameter(str(error)) from error
    if amount < Quantity(0):
        raise typer.BadParameter(f"{text!r} is negative (a node has something or nothing)")
    return amount


_PANEL: Final = "Nodes"

Nodes = Annotated[
    int | None,
    typer.Option(min=0, rich_help_panel=_PANEL, help=f"How many nodes to play. Default: {DEFAULT.nodes}."),
]
NodeCpu = Annotated[
    Quantity | None,
    typer.Option(
        parser=_amount, metavar="QUANTITY", rich_help_panel=_PANEL,
        help=f"What each node offers, such as 8 or 500m. Default: {DEFAULT.cpu}.",
    ),
]  # fmt: skip
NodeMemory = Annotated[
    Quantity | None,
    typer.Option(
        parser=_amount, metavar="QUANTITY", rich_help_panel=_PANEL,
        help=f"What each node offers, such as 16Gi or 8429Mi. Default: {DEFAULT.memory}.",
    ),
]  # fmt: skip
NodePods = Annotated[
    int | None,
    typer.Option(
        min=0, rich_help_panel=_PANEL, help=f"How many pods each node takes. Default: {DEFAULT.pods}."
    ),
]
Speed = Annotated[
    float,
    typer.Option(
        min=0.001, rich_help_panel=_PANEL,
        help="How many times faster than real time simulated pods start and run.",
    ),
]  # fmt: skip


def fleet(options: ClusterDescription, described: ClusterDescription = ClusterDescription()) -> Fleet:  # noqa: B008  it is frozen
    """The nodes to play: the command line first, then the directory's description, then the defaults."""
    chosen = options.override(described).override(DEFAULT)
    assert chosen.nodes is not None, "the defaults leave nothing open"
    assert chosen.pods is not None, "the defaults leave nothing open"
    return Fleet(chosen.nodes, str(chosen.cpu), str(chosen.memory), chosen.pods)
