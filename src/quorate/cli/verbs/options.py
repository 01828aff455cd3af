"""Options that the commands on a cluster have in common, and the connection to that cluster."""

import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
import uvloop

from quorate.cli.verbs import completion
from quorate.inspect.errors import UsageError
from quorate.kube.client import Client
from quorate.kube.errors import NotFound
from quorate.kube.rest.config import load_rest_config

T = TypeVar("T")


class Output(StrEnum):
    TABLE = "table"
    WIDE = "wide"
    NAME = "name"
    JSON = "json"
    YAML = "yaml"


class DryRun(StrEnum):
    """As in kubectl: ``client`` sends no write, ``server`` has the server check the write."""

    NONE = "none"
    CLIENT = "client"
    SERVER = "server"


Kubeconfig = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The kubeconfig. Default: $KUBECONFIG, ~/.kube/config."),
]
Context = Annotated[
    str, typer.Option(metavar="NAME", help="The context of the kubeconfig. Default: the current one.")
]
Namespace = Annotated[
    str,
    typer.Option(
        "--namespace", "-n", metavar="NAME", help="The namespace. Default: that of the context.",
        autocompletion=completion.namespaces,
    ),
]  # fmt: skip
AllNamespaces = Annotated[bool, typer.Option("--all-namespaces", "-A", help="Objects of all namespaces.")]
LabelSelector = Annotated[
    str, typer.Option("--selector", "-l", metavar="QUERY", help="Only objects with these labels: a=b,c!=d.")
]
FieldSelector = Annotated[
    str, typer.Option(metavar="QUERY", help="Only objects with these fields: metadata.name=a.")
]
Format = Annotated[Output, typer.Option("--output", "-o", help="The output format.")]
DryRunOption = Annotated[
    DryRun,
    typer.Option(
        "--dry-run",
        help="Write nothing; [b]client[/b]: show the change, [b]server[/b]: have the server check it.",
    ),
]


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The cluster and the namespaces that the command line selects."""

    kubeconfig: Path | None
    context: str
    namespace: str = ""
    all_namespaces: bool = False

    def __post_init__(self) -> None:
        if self.namespace and self.all_namespaces:
            raise UsageError("-n and -A exclude each other (drop one of the two)")

    @asynccontextmanager
    async def connect(self) -> AsyncIterator["Connection"]:
        cluster = await load_rest_config(self.kubeconfig, self.context)
        namespace = "" if self.all_namespaces else self.namespace or cluster.namespace
        async with Client(cluster, random.Random(), field_manager="quorate-cli") as client:
            yield Connection(client, namespace)


@dataclass(frozen=True, slots=True)
class Connection:
    client: Client
    namespace: str  # empty: all namespaces

    @property
    def scope(self) -> str:
        """Return ``namespace NAME`` or ``any namespace``, for messages."""
        return f"namespace {self.namespace}" if self.namespace else "any namespace"


def with_cluster(cluster_options: ClusterOptions, work: Callable[[Connection], Coroutine[Any, Any, T]]) -> T:
    """Run ``work`` connected to the cluster and return its result."""

    async def connected() -> T:
        async with cluster_options.connect() as connection:
            try:
                return await work(connection)
            except NotFound as error:
                if error.details.name:
                    raise
                raise UsageError(
                    f"{error} (quorate preflight shows what is missing in the cluster)"
                ) from error

    return uvloop.run(connected())


def print_none_found(connection: Connection) -> None:
    where = f" in {connection.namespace} namespace." if connection.namespace else ""
    typer.echo(f"No resources found{where}", err=True)
