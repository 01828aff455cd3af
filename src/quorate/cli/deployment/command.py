"""``quorate manifests``: write what an installation in a cluster is made of."""

from pathlib import Path
from typing import Annotated

import typer

from quorate.api.configuration import DEFAULT_NAMESPACE
from quorate.cli.crds import crds
from quorate.cli.deployment.manifests import IMAGE, chart, installation


def manifests(
    output: Annotated[Path, typer.Option(metavar="DIR", help="The directory to write into.")],
    namespace: Annotated[
        str, typer.Option(metavar="NAME", help="Where the controllers are to live.")
    ] = DEFAULT_NAMESPACE,
    image: Annotated[str, typer.Option(metavar="IMAGE", help="The image that was built of them.")] = IMAGE,
    with_chart: Annotated[
        bool, typer.Option("--with-chart", help="Also the generated templates of the Helm chart.")
    ] = False,
) -> None:
    """Write all that an installation in a cluster is made of, to be applied with kubectl.

    [b]Example:[/b] quorate manifests --output install --image registry.example/quorate:0.1.0
    """
    crds(output / "crds")
    for name, text in (*installation(namespace, image).items(), *(chart().items() if with_chart else ())):
        target = output / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        typer.echo(target)
