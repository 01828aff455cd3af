"""``quorate version``: the versions of this program, of the cluster and of the controllers."""

from typing import Annotated

import typer

from quorate.api.configuration import DEFAULT_NAMESPACE
from quorate.api.meta import Key
from quorate.cli.verbs import options as o
from quorate.cli.verbs.printing import is_structured, print_value
from quorate.inspect.connection import ClusterOptions, Connection, with_cluster
from quorate.install.preflight.installation_objects import DEPLOYMENTS
from quorate.install.roles import ACCOUNT
from quorate.install.server_version import server_version
from quorate.kube.errors import Forbidden, NotFound
from quorate.version import VERSION

CONTROLLERS = (ACCOUNT, "kueue-controller-manager")


def version(
    client: Annotated[bool, typer.Option("--client", help="Print only the version of this program.")] = False,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NAME", help="The namespace of the controllers.")
    ] = DEFAULT_NAMESPACE,
    output: o.ValueFormat = o.Output.TABLE,
    kubeconfig: o.Kubeconfig = None,
    context: o.Context = "",
) -> None:
    """Print the versions of this program, of the cluster and of the controllers in it.

    [b]Example:[/b] quorate version --client
    """
    versions = {"quorate": VERSION}

    async def read(connection: Connection) -> None:
        config = connection.client.config
        versions["cluster"] = f"{await server_version(connection.client)} at {config.server}"
        versions["controllers"] = await _controllers(connection, namespace)

    if not client:
        with_cluster(ClusterOptions(kubeconfig, context), read)
    if is_structured(output):
        print_value(versions, output)
        return
    for name, text in versions.items():
        typer.echo(f"{name:<11}  {text}")


async def _controllers(connection: Connection, namespace: str) -> str:
    for name in CONTROLLERS:
        try:
            deployment = await connection.client.get(DEPLOYMENTS, Key(namespace, name))
        except NotFound:
            continue
        except Forbidden:
            return f"no permission to get deployments in namespace {namespace}"
        images = ", ".join(deployment.images)
        ready = f"{deployment.status.ready_replicas} of {deployment.spec.replicas} ready"
        return f"{images} ({namespace}/{name}, {ready})"
    return f"none in namespace {namespace} (they may run in another namespace, -n NAME, or as a process)"
