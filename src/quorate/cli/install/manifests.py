"""``quorate manifests``: write the manifests of an installation."""

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated

import typer

from quorate.api.configuration import DEFAULT_NAMESPACE
from quorate.cli.install.crds import write_definitions
from quorate.install.controllers import WEBHOOK_SERVICE
from quorate.install.manifests import (
    IMAGE,
    chart,
    dashboard_installation,
    gang_installation,
    installation,
    monitoring_files,
    multikueue_worker_installation,
    witness_installation,
)
from quorate.install.scheduler import NAMESPACE
from quorate.webhooks.routes import WebhookEndpoint


def manifests(
    output: Annotated[Path, typer.Option(metavar="DIR", help="The directory to write into.")],
    namespace: Annotated[
        str, typer.Option(metavar="NAME", help="The namespace of the controllers and of the dashboard.")
    ] = DEFAULT_NAMESPACE,
    image: Annotated[str, typer.Option(metavar="IMAGE", help="The container image.")] = IMAGE,
    scheduler_namespace: Annotated[
        str, typer.Option(metavar="NAME", help="The namespace of the gang scheduler.")
    ] = NAMESPACE,
    multikueue_worker: Annotated[
        bool,
        typer.Option(
            "--multikueue-worker",
            help="Write only what a worker cluster needs besides an installation: the account of a "
            "MultiKueue manager, with the least role.",
        ),
    ] = False,
    with_chart: Annotated[
        bool, typer.Option("--with-chart", help="Also write the generated templates of the Helm chart.")
    ] = False,
) -> None:
    """Write the manifests of an installation, to apply with kubectl.

    The manifests of the gang scheduler, of the dashboard and of the witness are in directories of their own
    (gang, dashboard, witness), and so are alerts and Grafana dashboards (monitoring), and the account of a
    MultiKueue manager (multikueue-worker); each is applied separately.

    [b]Example:[/b] quorate manifests --output install --image registry.example/quorate:0.2.0
    """
    if multikueue_worker:
        _write(output, multikueue_worker_installation(namespace))
        return
    write_definitions(output / "crds", WebhookEndpoint(namespace=namespace, service=WEBHOOK_SERVICE))
    files = {
        **installation(namespace, image),
        **gang_installation(scheduler_namespace, image),
        **dashboard_installation(namespace, image),
        **witness_installation(namespace, image),
        **monitoring_files(namespace),
        **multikueue_worker_installation(namespace),
    }
    if with_chart:
        files.update(chart())
    _write(output, files)


def _write(output: Path, files: Mapping[PurePosixPath, str]) -> None:
    for name, text in files.items():
        target = output / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        typer.echo(target)
