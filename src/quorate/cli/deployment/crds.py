"""``quorate crds``: write the CustomResourceDefinitions as files."""

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from quorate.api.configuration import DEFAULT_NAMESPACE
from quorate.api.configuration.webhooks import CertificateManagement
from quorate.api.crds import KUEUE_FIELDS, VOLCANO_FIELDS, custom_resource_definitions, to_yaml
from quorate.api.kueue.conversion import CONVERTED_KINDS
from quorate.webhooks.routes import WebhookEndpoint
from quorate.webhooks.webhook_configurations import conversion

Json = dict[str, Any]

GANG: Final = "gang"  # the directory of those of Volcano's groups, which one may have from Volcano already
_SERVICE: Final = WebhookEndpoint(namespace=DEFAULT_NAMESPACE, service=CertificateManagement().service)


def queueing_definitions(conversions: Mapping[str, Json] | None = None) -> tuple[Json, ...]:
    """Those of ``kueue.x-k8s.io``; for ``conversions`` see ``custom_resource_definitions``."""
    return custom_resource_definitions(_shipped(KUEUE_FIELDS), conversions)


def gang_definitions() -> tuple[Json, ...]:
    """Those of Volcano's groups."""
    return custom_resource_definitions(_shipped(VOLCANO_FIELDS))


def _shipped(name: str) -> str:
    """The text of a field list that ships with the package."""
    return (files("quorate.api.crds") / name).read_text(encoding="utf-8")


def crds(
    output: Annotated[Path, typer.Option(help="The directory to write into, one file for each kind.")],
    conversion_webhook: Annotated[
        bool,
        typer.Option("--conversion-webhook", help="Have the controllers convert versions."),
    ] = False,
) -> None:
    """Write the CustomResourceDefinitions of the queueing kinds, to install them in a cluster.

    Without a conversion webhook clients of v1beta1 lose the fields that v1beta2 has under other names.  Those
    for gang scheduling are in the subdirectory gang, for clusters that do not have them from Volcano.

    [b]Example:[/b] quorate crds --output crds && kubectl apply --server-side -f crds
    """
    conversions = dict.fromkeys(CONVERTED_KINDS, conversion(_SERVICE)) if conversion_webhook else {}
    _write(output, queueing_definitions(conversions))
    _write(output / GANG, gang_definitions())


def _write(directory: Path, definitions: tuple[Json, ...]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for definition in definitions:
        target = directory / f"{definition['metadata']['name']}.yaml"
        target.write_text(to_yaml(definition), encoding="utf-8")
        typer.echo(target)
