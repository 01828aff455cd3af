"""``quorate crds``: write the CustomResourceDefinitions as files."""

from importlib.resources import files
from pathlib import Path
from typing import Annotated, Final

import typer

from quorate.api.configuration import DEFAULT_NAMESPACE
from quorate.api.configuration_webhooks import CertificateManagement
from quorate.api.conversion import CONVERTED_KINDS
from quorate.api.crds import FIELD_LIST, custom_resource_definitions, to_yaml
from quorate.webhooks.manifests import Reached, conversion

_SERVICE: Final = Reached(namespace=DEFAULT_NAMESPACE, service=CertificateManagement().service)


def field_list() -> str:
    """The text of the field list that ships with the package."""
    return (files("quorate.api") / FIELD_LIST).read_text(encoding="utf-8")


def crds(
    output: Annotated[Path, typer.Option(help="The directory to write into, one file for each kind.")],
    conversion_webhook: Annotated[
        bool,
        typer.Option("--conversion-webhook", help="Have the controllers convert versions."),
    ] = False,
) -> None:
    """Write the CustomResourceDefinitions of the queueing kinds, to install them in a cluster.

    Without a conversion webhook clients of v1beta1 lose the fields that v1beta2 has under other names.

    [b]Example:[/b] quorate crds --output crds && kubectl apply --server-side -f crds
    """
    output.mkdir(parents=True, exist_ok=True)
    conversions = dict.fromkeys(CONVERTED_KINDS, conversion(_SERVICE)) if conversion_webhook else {}
    for definition in custom_resource_definitions(field_list(), conversions):
        target = output / f"{definition['metadata']['name']}.yaml"
        target.write_text(to_yaml(definition), encoding="utf-8")
        typer.echo(target)
