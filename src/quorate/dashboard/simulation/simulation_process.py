"""The process of one simulation: reads a task from its input, reads the cluster, and writes an answer.

The process is apart from the server, which answers other requests meanwhile, and has its own bounds of
processor time and memory. It reads with the credentials of the dashboard, and its answer contains only what
the user may see.
"""

import asyncio
import gc
import os
import resource
import sys
import time
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from quorate.api.decoding.documents import InvalidYaml, read_documents
from quorate.api.explanation import FEWEST_RUNS
from quorate.api.meta import at_epoch
from quorate.dashboard.limits import MEMORY_BYTES, MOST_FINDINGS, MOST_LOGGED, NICENESS, PROCESSOR_S
from quorate.dashboard.schema import Forecast, StartEstimate, WhatIfAnswer
from quorate.inspect.connection import ClusterOptions, Connection, with_cluster
from quorate.inspect.errors import user_message
from quorate.inspect.live_cluster import LiveCluster, assumed_run_s, read_cluster
from quorate.inspect.would_start import Outlook, outlook_of
from quorate.kube.log import logger
from quorate.kube.resources import Json
from quorate.processes.process_setup import tune_garbage_collection
from quorate.simulate.engine.player import play
from quorate.simulate.estimates.forecast import bounded_forecast
from quorate.simulate.estimates.snapshot import snapshot_world, with_expected
from quorate.simulate.inputs.changes import changed_by_text
from quorate.simulate.inputs.scenario import API_VERSION
from quorate.simulate.inputs.world import InvalidWorld, World
from quorate.simulate.limits import PLAYS
from quorate.simulate.results.summary import compare

MANIFESTS: Final = "manifests"  # the name of the text in findings


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """Where a simulation reads, and how much memory it may use."""

    kubeconfig: str = ""
    context: str = ""
    config: str = ""  # the file of the Configuration; empty: the one that the controllers stored
    run_duration: str = "1h"
    memory_bytes: int = MEMORY_BYTES


class ForecastTask(msgspec.Struct, frozen=True, kw_only=True, tag="forecast"):
    cluster: Cluster
    budget_s: float  # of processor time for the runs


class WhatIfTask(msgspec.Struct, frozen=True, kw_only=True, tag="what-if"):
    cluster: Cluster
    text: str


class OutlookTask(msgspec.Struct, frozen=True, kw_only=True, tag="outlook"):
    """Whether and when a job would start that does not exist yet."""

    cluster: Cluster
    namespace: str
    job: Json


Task = ForecastTask | WhatIfTask | OutlookTask


class Failure(msgspec.Struct, frozen=True, tag="failure"):
    """Why there is no answer: the cluster cannot be read."""

    problem: str


class Forecasted(msgspec.Struct, frozen=True, tag="forecast"):
    forecast: Forecast


class Compared(msgspec.Struct, frozen=True, tag="what-if"):
    answer: WhatIfAnswer


class Foreseen(msgspec.Struct, frozen=True, tag="outlook"):
    outlook: Outlook


Outcome = Failure | Forecasted | Compared | Foreseen


def main() -> None:
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=Task)
    os.nice(NICENESS)
    limit = task.cluster.memory_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    seconds = int(PROCESSOR_S) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))  # for a process without a parent
    tune_garbage_collection()
    sys.stdout.buffer.write(msgspec.json.encode(_outcome(task)))


def _outcome(task: Task) -> Outcome:
    try:
        match task:
            case ForecastTask():
                return Forecasted(_forecast(_read(task.cluster), task.budget_s))
            case WhatIfTask(text=text):
                assumed_s = assumed_run_s(task.cluster.run_duration)
                return Compared(_what_if(_read(task.cluster), text, assumed_s))
            case OutlookTask():
                return Foreseen(_outlook(task))
    except MemoryError:
        return Failure("the simulation needs more memory than it may use")
    except Exception as error:
        problem = user_message(error)
        if problem is None:
            raise
        return Failure(problem)


def _paths(cluster: Cluster) -> tuple[Path | None, Path | None]:
    """Return the kubeconfig and the file of the Configuration."""
    kubeconfig, config = (Path(file) if file else None for file in (cluster.kubeconfig, cluster.config))
    return kubeconfig, config


def _read(cluster: Cluster) -> LiveCluster:
    kubeconfig, config = _paths(cluster)
    return read_cluster(ClusterOptions(kubeconfig, cluster.context), config, cluster.run_duration)


def _outlook(task: OutlookTask) -> Outlook:
    kubeconfig, config = _paths(task.cluster)

    async def outlook(connection: Connection) -> Outlook:
        return await outlook_of(connection, config, task.job)

    return with_cluster(ClusterOptions(kubeconfig, task.cluster.context, task.namespace), outlook)


def _world(live: LiveCluster) -> World:
    return snapshot_world(live.objects, live.times, live.now, live.effective.configuration)


def _forecast(live: LiveCluster, budget_s: float) -> Forecast:
    begin_s = time.process_time()

    def is_over() -> bool:
        return time.process_time() >= begin_s + budget_s

    world = with_expected(_world(live), live.expected)
    # The model of a run is in cycles.
    forecast = bounded_forecast(world, PLAYS, is_over, lambda _: gc.collect())
    return Forecast(
        at=at_epoch(live.now),
        plays=forecast.plays,
        horizon_s=forecast.horizon_s,
        took_s=time.process_time() - begin_s,
        problem="",
        starts=tuple(
            StartEstimate(
                namespace=start.namespace,
                name=start.name,
                local_queue=start.queue,
                p50=None if start.p50_s is None else at_epoch(live.now + start.p50_s),
                p90=None
                if start.p90_s is None or start.plays < FEWEST_RUNS
                else at_epoch(live.now + start.p90_s),
            )
            for start in forecast.starts
        ),
    )


def _what_if(live: LiveCluster, text: str, assumed_s: float) -> WhatIfAnswer:
    begin_s = time.perf_counter()
    answer = partial(WhatIfAnswer, run_times=tuple(times.origin for times in live.times))
    world = _world(live)
    try:
        findings = _refused_documents(text)
        if not findings:
            runs = play(world), play(changed_by_text(world, text, MANIFESTS, assumed_s))
            return answer(
                comparison=compare(MANIFESTS, *runs), findings=(), took_s=time.perf_counter() - begin_s
            )
    except InvalidWorld as error:
        findings = list(error.findings)
    return answer(
        comparison=None, findings=tuple(findings[:MOST_FINDINGS]), took_s=time.perf_counter() - begin_s
    )


def _refused_documents(text: str) -> list[str]:
    """Return a finding for each Scenario: it could name files of this machine."""
    try:
        documents = read_documents(text)
    except InvalidYaml as error:
        return [f"{MANIFESTS}:{error.line}: {error.problem}"]
    return [
        f"{MANIFESTS}:{document.line_of('kind')}: "
        "a Scenario is not accepted: the jobs are those of the cluster"
        for document in documents
        if isinstance(document.value, dict) and document.value.get("apiVersion") == API_VERSION
    ]


async def simulate(task: Task, deadline_s: float) -> Outcome:
    """Return what the process answers; a ``Failure`` if it does not in time."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "quorate.dashboard.simulation.simulation_process",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        # Libraries that reserve memory for each core would use up the limit.
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )
    try:
        async with asyncio.timeout(deadline_s):
            out, err = await process.communicate(msgspec.json.encode(task))
    except TimeoutError:
        return Failure(f"the simulation did not end within {deadline_s:g} s")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        written = err.decode(errors="replace").strip()[-MOST_LOGGED:]
        logger(__name__).error("simulation failed", code=process.returncode, written=written)
        return Failure("the simulation ended with an error; the log of the dashboard has it")
    outcome: Outcome = msgspec.json.decode(out, type=Outcome)
    return outcome


if __name__ == "__main__":
    main()
