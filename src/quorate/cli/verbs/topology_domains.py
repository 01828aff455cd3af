"""``quorate topology describe``: what the domains of a Topology have free."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.text import Text

from quorate.api.meta import Key
from quorate.api.quantity import Quantity
from quorate.cli.configuration_options import Config
from quorate.cli.verbs import options as o
from quorate.cli.verbs import printing as p
from quorate.cli.verbs.cluster_commands import on_cluster
from quorate.inspect.cluster_model import effective_configuration
from quorate.inspect.connection import Connection
from quorate.inspect.errors import UsageError
from quorate.inspect.formatting import amount_cells
from quorate.inspect.topology_report import (
    DomainReport,
    FlavorReport,
    TopologyReport,
    load_report,
    occupancy,
    walk,
)
from quorate.kube.clock import WallClock
from quorate.kube.resources import TOPOLOGIES

_MAX_NAMES: Final = 10
_MAP_WIDTH: Final = 64  # domains in one line of the map
_COLOURS: Final = ("green", "yellow", "red")


@on_cluster
async def describe(
    connection: Connection,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the topology.")],
    resource: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="The resource of which the tables tell the amounts: cpu, nvidia.com/gpu."
        ),
    ] = "cpu",
    config: Config = None,
    output: o.Format = o.Output.TABLE,
) -> None:
    """Show the domains of a topology: capacity, usage, what is free, and a map of its hosts.

    USED is what pods with places in the topology use, OTHERS what all other pods use. LARGEST FREE is the
    most that a single domain of the next level has free. [b]-o wide[/b] adds the domains of the lowest level;
    [b]-o json[/b] has all resources.

    In the map each domain of the lowest level is one character: the tenths in use, a dot if nothing is in
    use, and X if nothing is free.

    [b]Example:[/b] quorate topology describe default --resource nvidia.com/gpu
    """
    client = connection.client
    described = await client.get(TOPOLOGIES, Key("", name))
    if output is o.Output.NAME:
        typer.echo(p.qualified_name(TOPOLOGIES, name))
        return
    used = await effective_configuration(client, config)
    report = await load_report(client, described, used.configuration, WallClock().now())
    if p.is_structured(output):
        p.print_value(report, output)
        return
    names = sorted({name for domain in _all_domains(report) for name in domain.capacity})
    if names and resource not in names:
        raise UsageError(f"--resource: no node of {name} has {resource} (known: {', '.join(names)})")
    is_on = used.configuration.topology_gates is not None
    _print(report, resource, is_on=is_on, origin=used.origin, wide=output is o.Output.WIDE)


def _all_domains(report: TopologyReport) -> Iterator[DomainReport]:
    for flavor in report.flavors:
        yield from walk(flavor.domains)


def _print(report: TopologyReport, resource: str, *, is_on: bool, origin: str, wide: bool) -> None:
    scheduling = "on" if is_on else f"off in {origin}, so pods are admitted without places"
    rows = (
        ("Name", report.name),
        ("Levels", ", ".join(report.levels)),
        ("Topology-aware scheduling", scheduling),
        ("Flavors", ", ".join(flavor.name for flavor in report.flavors) or "none uses it"),
    )
    p.print_sections((p.Fields(rows),))
    for flavor in report.flavors:
        labels = ", ".join(f"{key}={value}" for key, value in sorted(flavor.node_labels.items()))
        if not flavor.domains:
            typer.echo(f"Flavor {flavor.name} ({labels}): no ready node has its labels and all levels\n")
            continue
        typer.echo(f"Flavor {flavor.name} ({labels}), {resource}:")
        titles = ("DOMAIN", "LEAVES", "CAPACITY", "USED", "OTHERS", "FREE", "LARGEST FREE")
        p.print_rows(titles, _rows(flavor, resource, depth=len(report.levels), wide=wide), indent=2)
        typer.echo(f"\nIn use of each {report.levels[-1]}, in tenths of its {resource} (.: nothing, X: all):")
        _print_map(flavor, resource, depth=len(report.levels))
        if flavor.excluded_nodes:
            typer.echo(f"\nCordoned, not ready or without a level: {_some(flavor.excluded_nodes)}")
        typer.echo()


def _rows(flavor: FlavorReport, resource: str, *, depth: int, wide: bool) -> list[tuple[str, ...]]:
    domains = [domain for domain in walk(flavor.domains) if wide or not len(domain.path) == depth > 1]
    cells = amount_cells([
        (resource, [amounts.get(resource, Quantity(0)) for amounts in (
            domain.capacity, domain.used, domain.others, domain.free, domain.largest_free
        )])
        for domain in domains
    ])  # fmt: skip
    return [
        (f"{'  ' * (len(domain.path) - 1)}{domain.name}", str(domain.leaves), *row)
        for domain, row in zip(domains, cells, strict=True)
    ]


def _print_map(flavor: FlavorReport, resource: str, *, depth: int) -> None:
    """Print one character for each leaf, in one row for each domain of the level above."""
    console = Console()
    parents = [domain for domain in walk(flavor.domains) if len(domain.path) == depth - 1]
    groups = [("/".join(domain.path), domain.domains) for domain in parents] or [("", flavor.domains)]
    width = max(len(name) for name, _ in groups) + 3
    for name, leaves in groups:
        for first in range(0, len(leaves), _MAP_WIDTH):
            line = Text(f"  {(name if not first else ''):<{width}}")
            for leaf in leaves[first : first + _MAP_WIDTH]:
                tenths = occupancy(leaf, resource)
                line.append(*_cell(tenths))
            console.print(line, soft_wrap=True)


def _some(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {more} more" if more > 0 else "")


def _cell(tenths: int | None) -> tuple[str, str]:
    """Return the character of a leaf and its colour, which only a terminal shows."""
    if tenths is None:
        return "-", ""
    character = {10: "X", -1: "."}.get(tenths, str(tenths))
    return character, _COLOURS[max(0, min(2, tenths // 4))]
