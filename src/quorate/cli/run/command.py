"""``quorate local run``: run a directory of manifests to the end on a temporary cluster."""

import logging
import random
from math import prod
from pathlib import Path
from typing import Annotated

import typer
import uvloop
from rich.console import Console

from quorate.api.scheduler_configuration import DEFAULT_FILE, default_scheduler_configuration
from quorate.cli.configuration_options import Config
from quorate.cli.run import node_options as n
from quorate.cli.run.follow import OnObserved, Plan, ignore
from quorate.cli.run.follow import run as run_plan
from quorate.cli.run.report import Outcome, outcome_value, print_outcome
from quorate.cli.run.screen import open_console, open_screen
from quorate.cli.verbs import options as o
from quorate.cli.verbs.printing import is_structured, print_value
from quorate.inspect.configuration_files import InvalidFiles, read_configuration_text
from quorate.inspect.formatting import plural
from quorate.kube.clock import WallClock
from quorate.kube.log import configure
from quorate.local.cluster import Settings
from quorate.local.nodes import NodePool
from quorate.processes.configuration_reload import ConfigurationInForce
from quorate.processes.local.cluster_description import ClusterDescription
from quorate.processes.local.manifests import read_directory, with_scheduler
from quorate.processes.local.node_pools import EQUAL_NODES
from quorate.processes.local.pod_runtime import RuntimeOptions
from quorate.processes.local.queueing_cluster import GangSchedulerSettings
from quorate.processes.process_setup import run_until_signal
from quorate.scheduler.scheduler import Options

Timeout = Annotated[float, typer.Option(min=0, metavar="SECONDS", help="Give up after this long.")]


@n.with_nodes
def run(
    nodes: n.NodeOptions,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Its *.yaml files are applied.")],
    config: Config = None,
    timeout: Timeout = 900.0,
    scheduler_name: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Set schedulerName of the pods of all Jobs; "
            "the gang scheduler serves the names quorate and volcano.",
        ),
    ] = "",
    output: o.ValueFormat = o.Output.TABLE,
) -> None:
    """Run the manifests of a directory on a temporary cluster until every job has ended.

    Options override the nodes that cluster.yaml in the directory describes. With [b]-o json[/b] progress goes
    to standard error.

    [b]Exit code:[/b]
    0 every job completed
    1 a job failed
    2 an argument or a file is invalid
    3 nothing can make progress, for instance in a deadlock
    4 the timeout expired

    [b]Example:[/b] quorate local run examples/all-or-nothing --config examples/all-or-nothing/with-pods-ready.yaml
    """  # noqa: E501  the example is one line, to be copied
    console = open_console(to_stderr=is_structured(output))
    outcome = run_directory(
        directory, config, nodes.description, nodes.speed, timeout, console, scheduler_name,
        runtime_options=nodes.runtime,
    )  # fmt: skip
    if is_structured(output):
        print_value(outcome_value(outcome), output)
    else:
        print_outcome(console, outcome)
    raise typer.Exit(outcome.ending.exit)


def run_directory(
    directory: Path,
    config: Path | None,
    options: ClusterDescription,
    speed: float,
    timeout_s: float,
    console: Console,
    scheduler_name: str = "",
    on_observed: OnObserved = ignore,
    runtime_options: RuntimeOptions = RuntimeOptions(),  # noqa: B008  it is frozen
) -> Outcome:
    """Read the manifests, run them and show the run on ``console``.

    ``on_observed`` is called with each observation.  A ``scheduler_name`` replaces ``schedulerName`` of the
    pods of all Jobs.  Raises ``InvalidFiles``.
    """
    text, loaded = read_configuration_text(config)
    in_force = ConfigurationInForce(config, text, loaded.configuration)
    manifests = read_directory(directory, options)
    pools, process_runtime = runtime_options.nodes(options, manifests.cluster_description)
    settings = Settings(pools, speed=speed, runtime=process_runtime)
    objects = manifests.objects
    if scheduler_name:
        objects = tuple(with_scheduler(manifest, scheduler_name) for manifest in objects)
    gang_scheduler = GangSchedulerSettings(default_scheduler_configuration(), DEFAULT_FILE, Options())
    plan = Plan(objects, in_force, settings, timeout_s, gang_scheduler)
    if plan.jobs == 0:
        raise InvalidFiles([f"{directory}: holds no Job, so there is nothing to wait for"])
    configure("console", logging.ERROR)  # a problem that is retried would only break the live table
    with open_screen(console) as screen:
        for warning in loaded.warnings:
            screen.print_line(f"warning: {config}: {warning}")
        screen.print_line(f"{plural(plan.jobs, 'job')} on {describe_nodes(settings)}")
        return uvloop.run(run_until_signal(run_plan(plan, screen, WallClock(), random.Random(), on_observed)))


def describe_nodes(settings: Settings) -> str:
    """Return the nodes of a run as text: this machine, if pods are its processes, and the simulated ones."""
    own = [] if settings.runtime is None else [f"this machine as node {settings.runtime.node_name}"]
    return "; ".join([*own, *(_describe_pool(pool) for pool in settings.pools if pool.count)]) or "no nodes"


def _describe_pool(pool: NodePool) -> str:
    with_ = "with" if pool.count == 1 else "each with"
    nodes = plural(pool.count, "node" if pool.name == EQUAL_NODES else f"{pool.name} node")
    others = "".join(f", {resource} {amount}" for resource, amount in pool.extended.items())
    amounts = f"cpu {pool.cpu}, memory {pool.memory}{others} and {pool.pods} pods"
    return f"{nodes} {with_} {amounts}{_describe_levels(pool)}"


def _describe_levels(pool: NodePool) -> str:
    if not pool.levels:
        return ""
    hosts = pool.count // prod(level.count for level in pool.levels)
    counts = [*((level.prefix, level.count) for level in pool.levels), ("host", hosts)]
    return f", in the topology {','.join(f'{name}={count}' for name, count in counts)}"
