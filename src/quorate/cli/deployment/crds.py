"""``quorate crds``: write the CustomResourceDefinitions as files."""

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from quorate.api.configuration import DEFAULT_NAMESPACE
from quorate.api.configuration.webhooks import CertificateManagement
from quorate.api.crds import (
    DESCRIPTIONS,
    KUEUE_FIELDS,
    VOLCANO_FIELDS,
    custom_resource_definitions,
    to_yaml,
)
from quorate.api.kueue.conversion import CONVERTED_KINDS
from quorate.webhooks.routes import WebhookEndpoint
from quorate.webhooks.webhook_configurations import conversion

Json = dict[str, Any]

GANG: Final = "gang"  # directory of Volcano's groups, which a cluster may have from Volcano
_SERVICE: Final = WebhookEndpoint(namespace=DEFAULT_NAMESPACE, service=CertificateManagement().service)


def queueing_definitions(conversions: Mapping[str, Json] | None = None) -> tuple[Json, ...]:
    """Return those of ``kueue.x-k8s.io``; for ``conversions`` see ``custom_resource_definitions``."""
    return custom_resource_definitions(_shipped(KUEUE_FIELDS), conversions, _shipped(DESCRIPTIONS))


def gang_definitions() -> tuple[Json, ...]:
    """Return those of Volcano's groups."""
    return custom_resource_definitions(_shipped(VOLCANO_FIELDS), descriptions=_shipped(DESCRIPTIONS))


def _shipped(name: str) -> str:
    """Return the text of a file that ships with the package."""
    return (files("quorate.api.crds") / name).read_text(encoding="utf-8")


def crds(
    output: Annotated[Path, typer.Option(help="The directory to write into, one file per kind.")],
    conversion_webhook: Annotated[
        bool,
        typer.Option("--conversion-webhook", help="Set the conversion webhook of the controllers."),
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
