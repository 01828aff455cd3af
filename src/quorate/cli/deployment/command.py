"""``quorate manifests``: write what an installation in a cluster is made of."""

from pathlib import Path
from typing import Annotated

import typer

from quorate.api.configuration import DEFAULT_NAMESPACE
from quorate.cli.deployment.crds import crds
from quorate.cli.deployment.manifests import IMAGE, chart, gang_installation, installation
from quorate.cli.deployment.scheduler import NAMESPACE


def manifests(
    output: Annotated[Path, typer.Option(metavar="DIR", help="The directory to write into.")],
    namespace: Annotated[
        str, typer.Option(metavar="NAME", help="Where the controllers are to live.")
    ] = DEFAULT_NAMESPACE,
    image: Annotated[str, typer.Option(metavar="IMAGE", help="The image that was built of them.")] = IMAGE,
    scheduler_namespace: Annotated[
        str, typer.Option(metavar="NAME", help="Where the gang scheduler is to live.")
    ] = NAMESPACE,
    with_chart: Annotated[
        bool, typer.Option("--with-chart", help="Also the generated templates of the Helm chart.")
    ] = False,
) -> None:
    """Write all that an installation in a cluster is made of, to be applied with kubectl.

    The gang scheduler is in the directory gang, and is applied apart.

    [b]Example:[/b] quorate manifests --output install --image registry.example/quorate:0.1.0
    """
    crds(output / "crds")
    files = {**installation(namespace, image), **gang_installation(scheduler_namespace, image)}
    if with_chart:
        files.update(chart())
    for name, text in files.items():
        target = output / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        typer.echo(target)
