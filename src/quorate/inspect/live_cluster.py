"""The objects of a live cluster that a simulation reads."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from quorate.api.syntax import InvalidDuration, parse_duration
from quorate.inspect.cluster_model import EffectiveConfiguration, effective_configuration
from quorate.inspect.connection import ClusterOptions, Connection, with_cluster
from quorate.inspect.errors import UsageError
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.errors import Forbidden, NotFound
from quorate.kube.resources import PLACEABLE_NODES, RESERVATIONS, RESOURCE_FLAVORS, WORKLOADS, Resource
from quorate.queueing import conditions as c
from quorate.simulate.estimates.expected_arrivals import Expected, arrivals_of
from quorate.simulate.estimates.run_time_store import learned_from
from quorate.simulate.estimates.snapshot import RunTimes, run_times
from quorate.simulate.kinds import KINDS

Objects = dict[Resource[Any], list[Any]]


class MissingPermission(UsageError):
    """The user may not list what a simulation reads."""


class LiveCluster(NamedTuple):
    objects: Objects
    times: list[RunTimes]
    expected: Expected  # further submissions
    now: float  # when it was read, epoch seconds
    effective: EffectiveConfiguration
    namespace: str  # that the command line selects


def read_cluster(cluster_options: ClusterOptions, config: Path | None, runs: str) -> LiveCluster:
    """Return what a simulation needs of a cluster, with a progress bar on a terminal.

    Raises ``MissingPermission`` without the permission to list a kind of all namespaces.
    """
    assumed_s = assumed_run_s(runs)
    now = WallClock().now()

    async def read(connection: Connection) -> LiveCluster:
        client = connection.client
        effective = await effective_configuration(client, config)
        by_resource: Objects = {}
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        console = Console(stderr=True)
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
            task = progress.add_task("reading", total=len(KINDS))
            async for resource, objects in read_objects(client):
                progress.update(task, description=f"read {resource.plural}", advance=1)
                by_resource[resource] = objects
        workloads = by_resource[WORKLOADS]
        waiting = sum(not (c.is_admitted(workload) or c.is_finished(workload)) for workload in workloads)
        expected = arrivals_of(workloads).expected(learned_from(workloads), now, assumed_s, waiting)
        times = list(run_times(workloads, assumed_s))
        return LiveCluster(by_resource, times, expected, now, effective, connection.namespace)

    return with_cluster(cluster_options, read)


def assumed_run_s(runs: str) -> float:
    """Return the value of the option ``--runs`` in seconds.  Raises ``UsageError``."""
    try:
        return parse_duration(runs)
    except InvalidDuration as error:
        raise UsageError(f"--runs {runs}: is not a duration (write 10m, 1h30m or 500ms)") from error


async def read_objects(client: Client) -> AsyncIterator[tuple[Resource[Any], list[Any]]]:
    """Yield each kind that a simulation reads, with its objects of all namespaces.

    Raises ``MissingPermission`` without the permission to list one.
    """
    has_topologies = False
    for resource in (*KINDS, PLACEABLE_NODES):
        if resource is PLACEABLE_NODES and not has_topologies:
            continue
        try:
            objects = list((await client.list(resource)).items)
        except Forbidden as error:
            needed = f"list {resource.plural} of all namespaces"
            raise MissingPermission(f"this needs the permission to {needed}: {error}") from error
        except NotFound:
            if resource is not RESERVATIONS:
                raise
            objects = []  # the cluster does not have the kind
        if resource is RESOURCE_FLAVORS:
            has_topologies = any(obj.spec.topology_name for obj in objects)
        yield resource, objects
