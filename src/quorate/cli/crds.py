"""``quorate crds``: write the CustomResourceDefinitions as files."""

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from quorate.api.crds import FIELD_LIST, custom_resource_definitions, to_yaml


def field_list() -> str:
    """The text of the field list that ships with the package."""
    return (files("quorate.api") / FIELD_LIST).read_text(encoding="utf-8")


def crds(
    output: Annotated[Path, typer.Option(help="The directory to write into, one file for each kind.")],
) -> None:
    """Write the CustomResourceDefinitions of the queueing kinds, to install them in a cluster.

    [b]Example:[/b] quorate crds --output crds && kubectl apply --server-side -f crds
    """
    output.mkdir(parents=True, exist_ok=True)
    for definition in custom_resource_definitions(field_list()):
        target = output / f"{definition['metadata']['name']}.yaml"
        target.write_text(to_yaml(definition), encoding="utf-8")
        typer.echo(target)
