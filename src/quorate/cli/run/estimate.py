"""The estimate of the demo: when a job that waits starts, and when it did."""

from typing import Any

from rich.table import Table

from quorate.api.configuration import default_configuration
from quorate.api.meta import epoch
from quorate.cli.run.outcome import Outcome
from quorate.inspect.formatting import format_duration
from quorate.inspect.live_cluster import Objects, read_objects
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.resources import WORKLOADS
from quorate.processes.local.observation import ObservedCluster, ObservedJob
from quorate.queueing import conditions as c
from quorate.simulate.estimates.forecast import StartTime, forecast
from quorate.simulate.estimates.snapshot import run_times, snapshot_world

_FEWEST_FINISHED = 2  # jobs with a known run time
_ASSUMED_S = 3600.0  # without any


class EstimateOfLast:
    """Forecasts the start of the last job that waits, once, with what is known of the others."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.made_at = 0.0  # epoch seconds
        self.job = ""
        self.start: StartTime | None = None  # None: not yet

    async def on_observed(self, client: Client, cluster: ObservedCluster) -> None:
        waiting = [job for job in cluster.jobs if not job.finished and not _is_admitted(job)]
        finished = sum(job.completed for job in cluster.jobs)
        if self.start is not None or len(waiting) != 1 or finished < _FEWEST_FINISHED:
            return
        objects: Objects = {resource: read_object async for resource, read_object in read_objects(client)}
        now = self._clock.now()
        times = run_times(objects[WORKLOADS], _ASSUMED_S)
        starts = forecast(snapshot_world(objects, times, now, default_configuration()))
        if len(starts) == 1:  # it may have been admitted meanwhile
            (self.start,), self.made_at, self.job = starts, now, waiting[0].name


def _is_admitted(job: ObservedJob) -> bool:
    return job.workload is not None and c.is_admitted(job.workload)


def estimate_value(estimate: EstimateOfLast, outcome: Outcome) -> dict[str, Any]:
    """Return the forecast and the start in seconds after the forecast, for JSON; None: not."""
    began = next((record.admitted for record in outcome.records if record.name == estimate.job), None)
    return {
        "job": estimate.job,
        "startsP50Seconds": None if estimate.start is None else estimate.start.p50_s,
        "startsP90Seconds": None if estimate.start is None else estimate.start.p90_s,
        "startedSeconds": None if began is None else epoch(began) - estimate.made_at,
    }


def estimate_table(estimate: EstimateOfLast, outcome: Outcome) -> Table:
    """Return a table of the forecast and of the start, in seconds after the forecast."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for heading in ("JOB", "STARTS (P50)", "STARTS (P90)", "DID START"):
        table.add_column(heading)
    start = estimate.start
    for record in outcome.records:
        if start is not None and record.name == estimate.job:
            began = None if record.admitted is None else epoch(record.admitted) - estimate.made_at
            table.add_row(record.name, *map(_after, (start.p50_s, start.p90_s, began)))
    return table


def _after(seconds: float | None) -> str:
    return "not" if seconds is None else f"after {format_duration(seconds)}"
