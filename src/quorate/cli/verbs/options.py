"""What the verbs have in common on the command line: which cluster, which objects, and how they are shown."""

import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
import uvloop

from quorate.cli.errors import UsageError
from quorate.cli.verbs import completion
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
    """As kubectl's: ``client`` asks for nothing to be written, ``server`` has the server check the write."""

    NONE = "none"
    CLIENT = "client"
    SERVER = "server"


Kubeconfig = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="How to reach the cluster. Default: $KUBECONFIG, ~/.kube/config."),
]
Context = Annotated[
    str, typer.Option(metavar="NAME", help="The kubeconfig's context, if not the current one.")
]
Namespace = Annotated[
    str,
    typer.Option(
        "--namespace", "-n", metavar="NAME", help="By default the one of the context.",
        autocompletion=completion.namespaces,
    ),
]  # fmt: skip
AllNamespaces = Annotated[bool, typer.Option("--all-namespaces", "-A", help="Those of every namespace.")]
LabelSelector = Annotated[
    str, typer.Option("--selector", "-l", metavar="QUERY", help="Only those with these labels: a=b,c!=d.")
]
FieldSelector = Annotated[
    str, typer.Option(metavar="QUERY", help="Only those with these fields: metadata.name=a.")
]
Format = Annotated[Output, typer.Option("--output", "-o", help="How to show them.")]
DryRunOption = Annotated[
    DryRun,
    typer.Option("--dry-run", help="Only show what would be written; [b]server[/b]: as the server sees it."),
]


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The cluster the command line names, and the part of it."""

    kubeconfig: Path | None
    context: str
    namespace: str = ""
    all_namespaces: bool = False

    def __post_init__(self) -> None:
        if self.namespace and self.all_namespaces:
            raise UsageError("-n names one namespace and -A means all of them (drop one of the two)")

    @asynccontextmanager
    async def connect(self) -> AsyncIterator["Connection"]:
        cluster = await load_rest_config(self.kubeconfig, self.context)
        namespace = "" if self.all_namespaces else self.namespace or cluster.namespace
        async with Client(cluster, random.Random(), field_manager="quorate-cli") as client:
            yield Connection(client, namespace)


@dataclass(frozen=True, slots=True)
class Connection:
    client: Client
    namespace: str  # empty: all of them

    @property
    def place(self) -> str:
        """Where namespaced objects are looked for, in words."""
        return f"namespace {self.namespace}" if self.namespace else "any namespace"


def at(cluster_options: ClusterOptions, work: Callable[[Connection], Coroutine[Any, Any, T]]) -> T:
    """What ``work`` returns, done with the cluster."""

    async def connected() -> T:
        async with cluster_options.connect() as connection:
            try:
                return await work(connection)
            except NotFound as error:
                if error.details.name:
                    raise
                raise UsageError(f"{error} (quorate preflight tells what the cluster lacks)") from error

    return uvloop.run(connected())


def print_none_found(connection: Connection) -> None:
    where = f" in {connection.namespace} namespace." if connection.namespace else ""
    typer.echo(f"No resources found{where}", err=True)
