"""The ``quorate`` command: one module per command group, without scheduling decisions.

Entry points: ``main`` and ``app`` here; the module of a command is imported when the command is used.
Imports every other package.
"""

import asyncio
import os
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from itertools import islice, pairwise
from typing import Any, Final

import typer

from quorate.cli.exit_codes import Exit
from quorate.cli.lazy_commands import LazyCommand, LazyGroup
from quorate.inspect.errors import UsageError, user_message
from quorate.version import VERSION

# Verbs that may come before the kind, as in kueuectl and kubectl: ``list cq``, ``get wl NAME``.
_VERBS: Final = ("create", "delete", "describe", "get", "list", "resume", "stop")
# By singular, plural and short name: the group of commands, and what selects the kind in it.
_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("workload", "workloads", "wl", "kwl", "kueueworkload", "kueueworkloads"), ("workload",)),
    **dict.fromkeys(("clusterqueue", "clusterqueues", "cq"), ("queue",)),
    **dict.fromkeys(("localqueue", "localqueues", "lq", "queue", "queues"), ("queue", "--local")),
    **dict.fromkeys(("resourceflavor", "resourceflavors", "rf", "flavor", "flavors"), ("flavor",)),
    **dict.fromkeys(("topology", "topologies"), ("topology",)),
    **dict.fromkeys(("reservation", "reservations", "resv"), ("reservation",)),
    **dict.fromkeys(("multikueuecluster", "multikueueclusters", "mkc", "clusters"), ("cluster",)),
    **dict.fromkeys(("podgroup", "podgroups", "pg"), ("podgroup",)),
    **dict.fromkeys(("vcjob", "vcjobs", "vj"), ("vcjob",)),
    **dict.fromkeys(("vcqueue", "vcqueues", "q"), ("vcqueue",)),
}
_GET: Final = {"podgroup": "explain", "vcjob": "view", "vcqueue": "get"}
# Verbs that kubectl executes, as for kueuectl, because no command of the group does.
_OF_KUBECTL: Final[Mapping[str, tuple[str, ...]]] = {
    "delete": ("queue", "flavor", "topology", "cluster", "podgroup"),
    "describe": ("flavor", "podgroup"),
    "edit": (),  # of all kinds
    "get": ("flavor",),
    "patch": (),
}
_RESOURCES: Final[Mapping[tuple[str, ...], str]] = {
    ("workload",): "workloads.kueue.x-k8s.io",
    ("queue",): "clusterqueues.kueue.x-k8s.io",
    ("queue", "--local"): "localqueues.kueue.x-k8s.io",
    ("flavor",): "resourceflavors.kueue.x-k8s.io",
    ("topology",): "topologies.kueue.x-k8s.io",
    ("reservation",): "reservations.quorate.dev",
    ("cluster",): "multikueueclusters.kueue.x-k8s.io",
    ("podgroup",): "podgroups.scheduling.volcano.sh",
    ("vcjob",): "jobs.batch.volcano.sh",
    ("vcqueue",): "queues.scheduling.volcano.sh",
}


class Commands(LazyGroup):
    deferred = (
        LazyCommand(
            "local", "quorate.cli.local:local",
            "A Kubernetes cluster on this machine: real API server and controllers, simulated nodes.",
        ),
        LazyCommand(
            "submit", "quorate.cli.verbs.submit:submit",
            "Run a command as a job in a queue, on one pod or on several that start together.",
        ),
        LazyCommand(
            "status", "quorate.cli.verbs.status:status",
            "Show your jobs with what they wait for, the queues and the nodes.",
        ),
        LazyCommand(
            "logs", "quorate.cli.verbs.logs:logs",
            "Show the output of the pods of a job.",
        ),
        LazyCommand(
            "cancel", "quorate.cli.verbs.cancel:cancel",
            "Delete jobs, running or not, with their pods and workloads.",
        ),
        LazyCommand(
            "explain", "quorate.cli.verbs.explain.command:explain",
            "Explain the state of a workload, job, pod, pod group or queue, and what would let it start.",
        ),
        LazyCommand(
            "queue", "quorate.cli.verbs.queue:queue",
            "Cluster queues and local queues: list, describe, forecast, create, stop, resume.",
        ),
        LazyCommand(
            "workload", "quorate.cli.verbs.workload:workload",
            "Workloads, one for each job: list, describe, explain, stop, resume, delete, pods.",
        ),
        LazyCommand(
            "podgroup", "quorate.cli.verbs.podgroup:podgroup",
            "Pod groups, sets of pods that start together: list, explain.",
        ),
        LazyCommand(
            "vcjob", "quorate.cli.verbs.vcjob:vcjob",
            "Volcano Jobs, as with vcctl job: run, list, view, suspend, resume, delete.",
        ),
        LazyCommand(
            "vcqueue", "quorate.cli.verbs.vcqueue:vcqueue",
            "Queues of pod groups, as with vcctl queue: list, get, create, operate, delete.",
        ),
        LazyCommand(
            "flavor", "quorate.cli.verbs.flavor:flavor",
            "Resource flavors, the kinds of nodes that quota is defined for: list, create.",
        ),
        LazyCommand(
            "topology", "quorate.cli.verbs.topology:topology",
            "Topologies, the hierarchies of nodes: list, describe with what is free in each domain.",
        ),
        LazyCommand(
            "reservation", "quorate.cli.verbs.reservation:reservation",
            "Reservations, quota or nodes kept for a time: list, create, describe, delete.",
        ),
        LazyCommand(
            "cluster", "quorate.cli.verbs.cluster:cluster",
            "Worker clusters of MultiKueue: list, describe, make their kubeconfigs.",
        ),
        LazyCommand(
            "simulate", "quorate.cli.simulate.command:simulate",
            "Play jobs through the queues in virtual time, as they are and with changes.",
        ),
        LazyCommand(
            "simulate backtest", "quorate.cli.simulate.backtest:backtest",
            "Tell how well forecasts would have been for the jobs of a scenario or trace.",
        ),
        LazyCommand(
            "snapshot", "quorate.cli.simulate.snapshot:snapshot",
            "Write the queues and workloads of a cluster to a file that simulate plays.",
        ),
        LazyCommand(
            "dashboard", "quorate.cli.dashboard:dashboard",
            "Serve a web page of queues, workloads, gangs and nodes until Ctrl-C.",
        ),
        LazyCommand(
            "demo", "quorate.cli.run.demo:demo",
            "Run two jobs into a deadlock, then the same jobs to completion in two ways.",
        ),
        LazyCommand(
            "examples", "quorate.cli.examples:examples",
            "The examples of the documentation: list them, copy them to a directory.",
        ),
        LazyCommand(
            "controllers", "quorate.cli.controllers:controllers",
            "Run the queueing controllers for a cluster until Ctrl-C or SIGTERM.",
        ),
        LazyCommand(
            "scheduler", "quorate.cli.scheduler:scheduler",
            "Run the gang scheduler for a cluster until Ctrl-C or SIGTERM.",
        ),
        LazyCommand(
            "witness", "quorate.cli.witness:witness",
            "Compare what pods use with quota and with the nodes, until Ctrl-C or SIGTERM.",
        ),
        LazyCommand(
            "crds", "quorate.cli.install:crds",
            "Write the CustomResourceDefinitions, to install them in a cluster.",
        ),
        LazyCommand(
            "manifests", "quorate.cli.install:manifests",
            "Write the manifests of an installation, to apply with kubectl.",
        ),
        LazyCommand(
            "preflight", "quorate.cli.install:preflight",
            "Check a cluster before or after an installation; report problems and remedies.",
        ),
        LazyCommand(
            "webhooks", "quorate.cli.install:webhooks",
            "Write the webhook configurations for the kinds of a Configuration.",
        ),
        LazyCommand(
            "version", "quorate.cli.verbs.version:version",
            "Print the versions of this program, of the cluster and of the controllers in it.",
        ),
    )  # fmt: skip

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, connection_options_first(args))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        return super().resolve_command(ctx, args if args[0] in self.commands else group_first(args))


def group_first(args: Sequence[str]) -> list[str]:
    """Return ``list cq`` as ``queue list``; without a verb and a kind return the arguments unchanged.

    ``get`` lists the objects of a kind, or shows the object that is named directly after the kind.
    """
    match args:
        case verb, "pods" | "pod", *rest if verb in ("get", "list"):
            return ["workload", "pods", *(word.removeprefix("--for=") for word in rest if word != "--for")]
        case verb, written, *rest if verb in _VERBS:
            kind, slash, name = written.partition("/")
            words = _KINDS.get(kind.lower().partition(".")[0])
            if words is None:
                return [*args]
            group, *selection = words
            names = [name] if slash else []
            if verb == "get":
                is_named = slash or (rest and not rest[0].startswith("-"))
                verb = _GET.get(group, "describe") if is_named else "list"
            return [group, verb, *selection, *names, *rest]
    return [*args]


def kubectl_arguments(args: Sequence[str]) -> list[str]:
    """Return ``edit cq NAME`` and the like as kubectl executes it; empty if a command of Quorate does.

    Options of the connection and of the namespace may stand before the verb.
    """
    match args:
        case option, *rest if option.partition("=")[0] in (*_OF_COMMANDS, *_OF_CONNECTIONS):
            values = 0 if "=" in option else 1
            arguments = kubectl_arguments(rest[values:])
            return [*arguments, option, *rest[:values]] if arguments else []
        case verb, written, *rest if verb in _OF_KUBECTL:
            kind, slash, name = written.partition("/")
            words = _KINDS.get(kind.lower().partition(".")[0])
            is_named = slash or (rest and not rest[0].startswith("-"))
            groups = _OF_KUBECTL[verb]
            if words is None or (groups and words[0] not in groups) or (verb == "get" and not is_named):
                return []
            return [verb, _RESOURCES[words], *([name] if slash else []), *rest]
    return []


# Options of all commands on a cluster, in any place of the command line as with kubectl.
_OF_CONNECTIONS: Final = ("--as", "--as-group", "--server", "--token")
# Options of single commands that may stand before the command, too, as with kubectl, by their full name.
_OF_COMMANDS: Final = {
    "-n": "--namespace", **{name: name for name in ("--namespace", "--context", "--kubeconfig")}
}  # fmt: skip
_WITH_OWN_SERVER: Final = ("cluster", "kubeconfig")  # its --server is the address that it writes


def connection_options_first(args: Sequence[str]) -> list[str]:
    """Return the arguments with the options of ``quorate`` itself before the command; ``--`` ends them.

    Options that select a cluster and a namespace before the command follow it.
    """
    keeps_server = _WITH_OWN_SERVER in pairwise(args)
    moved = [name for name in _OF_CONNECTIONS if not (keeps_server and name == "--server")]
    first: list[str] = []
    late: list[str] = []
    others: list[str] = []
    remaining = iter(args)
    for word in remaining:
        if word == "--":
            return [*first, *others, *late, word, *remaining]
        name, equals, value = word.partition("=")
        if not others and name in _OF_COMMANDS:
            late += (_OF_COMMANDS[name], *((value,) if equals else islice(remaining, 1)))
        elif word in moved:
            first += (word, *islice(remaining, 1))
        elif name in moved:
            first.append(word)
        else:
            others.append(word)
    return [*first, *others, *late]


def _run_kubectl(args: Sequence[str]) -> None:
    """Replace this process by kubectl; raises ``UsageError`` if it is not installed."""
    program = shutil.which("kubectl")
    if program is None:
        raise UsageError(f"{args[0]} of {args[1]} is done by kubectl, which is not on the PATH (install it)")
    os.execv(program, [program, *args])


app = typer.Typer(
    name="quorate",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,  # a bug is shown as a Python traceback
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"quorate {VERSION}")
        raise typer.Exit


CONNECTIONS: Final = "Options of all commands on a cluster"


@app.callback()
def quorate(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
    user: str = typer.Option(
        "", "--as", metavar="USER", help="Make the requests for this user.", rich_help_panel=CONNECTIONS
    ),
    groups: list[str] = typer.Option(  # noqa: B008  typer reads it
        [], "--as-group", metavar="GROUP", help="Its group; may be repeated.", rich_help_panel=CONNECTIONS
    ),
    server: str = typer.Option(
        "", metavar="URL", help="The API server, instead of the kubeconfig's.", rich_help_panel=CONNECTIONS
    ),
    token: str = typer.Option(
        "",
        metavar="TEXT",
        help="A bearer token, instead of the kubeconfig's user.",
        rich_help_panel=CONNECTIONS,
    ),
) -> None:
    """Batch queueing and gang scheduling for Kubernetes.

    [b]Start here:[/b] quorate demo
    """
    if not any((user, groups, server, token)):
        return
    if not all(text.isprintable() for text in (server, token, user, *groups)):
        raise UsageError("--as, --as-group, --server and --token take one line of text")
    if groups and not user:
        raise UsageError("--as-group needs --as (write --as USER, too)")
    from quorate.kube.rest.config import OVERRIDES, Overrides

    OVERRIDES.set(Overrides(server, token, user, tuple(groups)))


def _with_arguments_in_one_line(message: str) -> str:
    """Return the message with the arguments of the command escaped that have several lines."""
    for word in sys.argv[1:]:
        for written in (word, word.partition("=")[2]):
            if len(written.splitlines()) > 1 or written.endswith("\n"):
                message = message.replace(written, repr(written)[1:-1])
    return message


def _wrap_to_terminal(line: str) -> str:
    """Wrap the line to the width of a terminal; return it unchanged if standard error is no terminal."""
    if not sys.stderr.isatty():
        return line
    width = shutil.get_terminal_size().columns
    lines = textwrap.wrap(line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)


def main() -> None:
    """Run the command line; report an error of the environment as one message and exit code 2."""
    try:
        if arguments := kubectl_arguments(sys.argv[1:]):
            _run_kubectl(arguments)
        app()
    except asyncio.CancelledError:
        typer.echo("stopped", err=True)
        sys.exit(Exit.INTERRUPTED)
    except Exception as error:
        message = user_message(error)
        if message is None:
            raise
        for line in _with_arguments_in_one_line(message).splitlines():
            typer.echo(_wrap_to_terminal(f"error: {line}"), err=True)
        sys.exit(Exit.BAD_INPUT)
