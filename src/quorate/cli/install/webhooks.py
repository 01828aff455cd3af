"""``quorate webhooks``: write the webhook configurations as files."""

from pathlib import Path
from typing import Annotated

import typer

from quorate.api.crds import to_yaml
from quorate.inspect.configuration_files import read_configuration
from quorate.install.roles import ACCOUNT
from quorate.webhooks.process import served_routes
from quorate.webhooks.routes import WebhookEndpoint
from quorate.webhooks.webhook_configurations import webhook_configurations


def webhooks(
    output: Annotated[Path, typer.Option(help="The directory to write into, one file per configuration.")],
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The Configuration of the controllers. Default: all defaults."),
    ] = None,
    service_account: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="The service account of the controllers; its requests skip the webhooks."
        ),
    ] = ACCOUNT,
) -> None:
    """Write the webhook configurations for the kinds of a Configuration.

    The controllers inject the CA bundle.

    [b]Example:[/b] quorate webhooks --config configuration.yaml --output hooks && kubectl apply -f hooks
    """
    configuration = read_configuration(config).configuration
    endpoint = WebhookEndpoint(namespace=configuration.namespace, service=configuration.certificates.service)
    user = f"system:serviceaccount:{configuration.namespace}:{service_account}"
    output.mkdir(parents=True, exist_ok=True)
    for manifest in webhook_configurations(configuration, served_routes(configuration), endpoint, user):
        target = output / f"{manifest['metadata']['name']}.yaml"
        target.write_text(to_yaml(manifest), encoding="utf-8")
        typer.echo(target)
