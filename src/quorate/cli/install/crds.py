"""``quorate crds``: write the CustomResourceDefinitions as files."""

from pathlib import Path
from typing import Annotated, Final

import typer

from quorate.api.codec import Json
from quorate.api.configuration import DEFAULT_NAMESPACE
from quorate.api.configuration.webhooks import CertificateManagement
from quorate.api.crds import to_yaml
from quorate.api.kueue.conversion import CONVERTED_KINDS
from quorate.install.crds import GANG, gang_definitions, queueing_definitions
from quorate.webhooks.routes import WebhookEndpoint
from quorate.webhooks.webhook_configurations import conversion

_SERVICE: Final = WebhookEndpoint(namespace=DEFAULT_NAMESPACE, service=CertificateManagement().service)


def crds(
    output: Annotated[Path, typer.Option(help="The directory to write into, one file per kind.")],
    conversion_webhook: Annotated[
        bool, typer.Option("--conversion-webhook", help="Set the conversion webhook of the controllers.")
    ] = False,
) -> None:
    """Write the CustomResourceDefinitions, to install them in a cluster.

    Without a conversion webhook the definitions refuse the fields of v1beta1 that have other names in
    v1beta2: they would be lost. The definitions for gang scheduling are in the subdirectory gang, for
    clusters without those of Volcano.

    [b]Example:[/b] quorate crds --output crds && kubectl apply --server-side -f crds
    """
    write_definitions(output, _SERVICE if conversion_webhook else None)


def write_definitions(output: Path, webhook: WebhookEndpoint | None) -> None:
    """Write one file per kind; ``webhook`` None: no webhook converts kinds with two versions."""
    conversions = {} if webhook is None else dict.fromkeys(CONVERTED_KINDS, conversion(webhook))
    _write(output, queueing_definitions(conversions))
    _write(output / GANG, gang_definitions())


def _write(directory: Path, definitions: tuple[Json, ...]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for definition in definitions:
        target = directory / f"{definition['metadata']['name']}.yaml"
        target.write_text(to_yaml(definition), encoding="utf-8")
        typer.echo(target)
