"""What ``import quorate`` offers: functions on the cluster of a kubeconfig, and simulations."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from quorate.sdk.cluster import Cluster, Manifests
from quorate.sdk.results import Ended, Explanations, Job, Result, Simulation, Table, Usage
from quorate.sdk.scenario import Scenario
from quorate.simulate.engine.player import play
from quorate.simulate.engine.recorder import Run
from quorate.simulate.inputs.changes import changed
from quorate.simulate.inputs.cluster_worlds import reject_clusters
from quorate.simulate.inputs.world import InvalidWorld, World
from quorate.simulate.results.summary import Comparison, compare, summarize
from quorate.simulate.results.tables import job_columns, usage_columns

__all__ = ["Cluster", "InvalidWorld", "Scenario", "explain", "simulate", "submit", "wait"]


def submit(
    manifests: Manifests,
    *,
    queue: str = "",
    namespace: str = "",
    kubeconfig: str | Path | None = None,
    context: str = "",
) -> tuple[str, ...]:
    """Apply manifests and return the jobs among them, as ``KIND.GROUP/NAME``; see ``Cluster.submit``."""
    return Cluster(kubeconfig, context, namespace).submit(manifests, queue=queue)


def wait(
    job: str,
    timeout: float = 3600.0,
    *,
    namespace: str = "",
    kubeconfig: str | Path | None = None,
    context: str = "",
    check: bool = False,
) -> Ended:
    """Return how the job ``KIND/NAME`` ended, once it has; see ``Cluster.wait``."""
    return Cluster(kubeconfig, context, namespace).wait(job, timeout, check=check)


def explain(
    *names: str, namespace: str = "", kubeconfig: str | Path | None = None, context: str = ""
) -> Explanations:
    """Return why objects are in their state, and what would let them start; see ``Cluster.explain``."""
    return Cluster(kubeconfig, context, namespace).explain(*names)


Change = Scenario | str | Path | Mapping[str, Any]


def simulate(
    scenario: Scenario | str | Path,
    changes: Mapping[str, Change] | Sequence[str | Path] = (),
    *,
    on_progress: Callable[[int], object] = lambda ended: None,
) -> Simulation:
    """Play the jobs of a scenario through its queues in virtual time, as they are and with each change.

    ``scenario`` may be a path.  ``changes`` are paths of manifests, or by name: a path, YAML text, an object,
    or a ``Scenario`` with what is different.  ``on_progress`` gets the number of ended jobs of a run.
    The same input gives the same result.  Raises ``InvalidWorld`` with all findings about the input.
    """
    if not isinstance(scenario, Scenario):
        scenario = Scenario.from_file(scenario)
    if not isinstance(changes, Mapping):
        changes = {str(path): Path(path) for path in changes}
    world = scenario.world()
    worlds = {name: _changed(world, change) for name, change in changes.items()}
    for simulated in (world, *worlds.values()):
        reject_clusters(simulated, "quorate.simulate of Python")
    name = "scenario" if scenario.path is None else str(scenario.path)
    first = play(world, on_progress)
    runs = {name: play(world, on_progress) for name, world in worlds.items()}
    results = {other: _result(other, run, compare(other, first, run)) for other, run in runs.items()}
    return Simulation(_result(name, first, None), results)


def _changed(world: World, change: Change) -> World:
    match change:
        case Scenario():
            return change.applied_to(world)
        case str() if ":" not in change:
            return changed(world, Path(change))
        case Path():
            return changed(world, change)
    return Scenario().add(change).applied_to(world)


def _result(name: str, run: Run, comparison: Comparison | None) -> Result:
    return Result(
        name, summarize(run), Table(Job, job_columns(run)), Table(Usage, usage_columns(run)), comparison
    )
