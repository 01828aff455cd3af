"""``quorate version``: which version of what there is, here and in a cluster."""

from typing import Annotated

import typer

from quorate import __version__
from quorate.api import codec
from quorate.api.configuration import DEFAULT_NAMESPACE
from quorate.api.meta import Key, Struct
from quorate.cli.deployment.roles import ACCOUNT
from quorate.cli.preflight.installation_objects import DEPLOYMENTS
from quorate.cli.verbs import options as o
from quorate.kube.errors import Forbidden, NotFound

CONTROLLERS = (ACCOUNT, "kueue-controller-manager")


class _Version(Struct):
    git_version: str = ""


def version(
    client: Annotated[bool, typer.Option("--client", help="Ask no cluster.")] = False,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NAME", help="Where the controllers live.")
    ] = DEFAULT_NAMESPACE,
    kubeconfig: o.Kubeconfig = None,
    context: o.Context = "",
) -> None:
    """Print the version of this program, of the cluster, and the image of the controllers in it.

    [b]Example:[/b] quorate version --client
    """
    typer.echo(f"quorate      {__version__}")
    if client:
        return

    async def ask(connection: o.Connection) -> None:
        config = connection.client.config
        served = codec.decode(_Version, await connection.client.request("GET", "/version"))
        typer.echo(f"cluster      {served.git_version} at {config.server}")
        typer.echo(f"controllers  {await _controllers(connection, namespace)}")

    o.at(o.ClusterOptions(kubeconfig, context), ask)


async def _controllers(connection: o.Connection, namespace: str) -> str:
    for name in CONTROLLERS:
        try:
            found = await connection.client.get(DEPLOYMENTS, Key(namespace, name))
        except NotFound:
            continue
        except Forbidden:
            return f"not yours to see in namespace {namespace}"
        images = ", ".join(container.image for container in found.spec.template.spec.containers)
        return f"{images} ({namespace}/{name}, {found.status.ready_replicas} of {found.spec.replicas} ready)"
    return f"none in namespace {namespace} (they may run elsewhere: -n NAME, or as a process)"
