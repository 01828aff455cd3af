"""Options that the commands on a cluster have in common."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from quorate.cli.verbs import completion


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
    Path | None, typer.Option(metavar="FILE", help="The kubeconfig. Default: $KUBECONFIG, ~/.kube/config.")
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
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
Format = Annotated[Output, typer.Option("--output", "-o", help="The output format.")]


def _without_names(output: Output) -> Output:
    if output is Output.NAME:
        raise typer.BadParameter("what is shown is no object of the API (write table, wide, json or yaml)")
    return output


# Of commands that show something else than objects of the API.
ValueFormat = Annotated[
    Output,
    typer.Option(
        "--output",
        "-o",
        metavar="<table|wide|json|yaml>",
        callback=_without_names,
        help="The output format.",
    ),
]
_ARGUMENT: Any = typer.Argument(
    metavar="NAME|TYPE/NAME...",
    help="Names of workloads or jobs: train, job/train, rayjob.ray.io/train.",
    autocompletion=completion.workloads,
)
Workloads = Annotated[list[str], _ARGUMENT]
SomeWorkloads = Annotated[list[str] | None, _ARGUMENT]
LineFormat = Annotated[
    Literal["text", "json"],
    typer.Option("--output", "-o", help="Lines as they are, or each as a JSON object in a line of its own."),
]
DryRunOption = Annotated[
    DryRun,
    typer.Option(
        "--dry-run",
        help="Write nothing; [b]client[/b]: show the change, [b]server[/b]: have the server check it.",
    ),
]


def print_none_found(namespace: str) -> None:
    where = f" in {namespace} namespace." if namespace else ""
    typer.echo(f"No resources found{where}", err=True)
