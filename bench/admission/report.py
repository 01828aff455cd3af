"""One outcome as tables and as the measures with limits."""

from math import ceil
from statistics import fmean

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table

from bench.admission.processes import API_SERVER
from bench.admission.recorder import SAMPLE_EVERY_S
from bench.admission.requests import WRITES
from bench.admission.run import Outcome
from bench.worlds import World

_BARS = " ▁▂▃▄▅▆▇█"
_COLUMNS = 60


def cost_measures(world: World, outcome: Outcome) -> dict[str, float]:
    """Return the measures with limits of a whole scenario on the local server, without the waits."""
    found = {
        "wall, s": outcome.record.wall_s,
        "writes per admission": outcome.writes_per_admission,
        **_process_measures(outcome),
    }
    return {f"{world.name} over HTTP: {name}": value for name, value in found.items()}


def _process_measures(outcome: Outcome) -> dict[str, float]:
    if outcome.controllers is None:
        return {}
    return {
        "controllers: CPU, s": outcome.controllers.own_cpu_s,
        "controllers: peak memory, MB": outcome.controllers.own_peak_bytes / 1e6,
        "controllers and estimates: CPU, s": outcome.controllers.cpu_s,
        "controllers and estimates: peak memory, MB": outcome.controllers.peak_bytes / 1e6,
    }


def wait_measures(world: World, outcome: Outcome) -> dict[str, float]:
    """Return the mean waits of the classes of a whole scenario on the local server, in seconds."""
    waits = outcome.record.waits_s.items()
    return {f"{world.name} over HTTP: mean wait, {name}, s": fmean(each) for name, each in waits}


def real_server_measures(world: World, outcome: Outcome, floor: Outcome | None) -> dict[str, float]:
    """Return the measures with limits of a whole scenario on a kube-apiserver of the same machine.

    Waits and the wall time follow from what the server needs, so only their ratio to a run with ``floor`` has
    a limit.
    """
    found = {"writes per admission": outcome.writes_per_admission, **_process_measures(outcome)}
    if floor is not None:
        found["wall ÷ floor"] = outcome.record.wall_s / floor.record.wall_s
    return {f"{world.name} on kube-apiserver: {name}": value for name, value in found.items()}


def outcome_tables(world: World, outcome: Outcome) -> Group:
    record = outcome.record
    return Group(
        f"[bold]{world.name}[/]: {record.workloads:,} workloads in {world.cohorts} × {world.queues} queues, "
        f"created in {record.created_s:.1f} s",
        _waits(outcome),
        f"  {record.wall_s:.1f} s of wall time, lower bound {world.lower_bound_s:.1f} s; "
        f"{record.admissions:,} admissions, {record.evictions:,} evictions",
        f"  quota in use: {_bars(record.in_use)} {fmean(record.in_use):.0%} "
        f"(samples every {SAMPLE_EVERY_S:g} s)",
        _processes(outcome),
        _requests(outcome),
        f"  {outcome.writes_per_admission:.2f} writes per admission, without events; "
        f"{outcome.lost_races} conflicts of simulated jobs with a preemption\n",
    )


def _waits(outcome: Outcome) -> Table:
    table = _table("mean", "50 %", "90 %", "99 %", "longest", first="time to admission")
    for name, unsorted in outcome.record.waits_s.items():
        waits = sorted(unsorted)
        parts = [waits[len(waits) * percent // 100] for percent in (50, 90, 99)]
        table.add_row(name, *(f"{wait:.1f} s" for wait in (fmean(waits), *parts, waits[-1])))
    return table


def _processes(outcome: Outcome) -> Table:
    table = _table("CPU", "peak memory", "read", "written", first="process")
    for name, usage in sorted(outcome.processes.items()):
        sizes = (usage.peak_bytes, usage.read_bytes, usage.written_bytes)
        table.add_row(name, f"{usage.cpu_s:.1f} s", *(f"{size / 1e6:,.0f} MB" for size in sizes))
    if API_SERVER not in outcome.processes:
        table.add_row(API_SERVER, f"{outcome.server_cpu_s:.1f} s", "", "", "")
    table.add_row("generator and jobs", f"{outcome.own_cpu_s:.1f} s", "", "", "")
    return table


def _requests(outcome: Outcome) -> Table:
    """Return writes by verb and resource, without those of the generator and the job simulator."""
    table = _table("successful", "per admission", "failed", first="requests")
    names = sorted(outcome.requests.keys() | outcome.refused.keys())
    for name in (name for name in names if name.partition(" ")[0] in WRITES):
        count = outcome.requests.get(name, 0)
        refused = str(outcome.refused.get(name, ""))
        table.add_row(name, f"{count:,}", f"{count / outcome.record.admissions:.3f}", refused)
    reads = sum(count for name, count in outcome.requests.items() if name.partition(" ")[0] not in WRITES)
    table.add_row("reads and watches", f"{reads:,}", f"{reads / outcome.record.admissions:.3f}", "")
    return table


def _bars(samples: list[float]) -> str:
    """Return one bar per interval with the height of the quota in use."""
    step = max(1, ceil(len(samples) / _COLUMNS))
    means = [fmean(samples[at : at + step]) for at in range(0, len(samples), step)]
    return "".join(_BARS[min(8, round(mean * 8))] for mean in means)


def _table(*headings: str, first: str) -> Table:
    table = Table(first, box=SIMPLE_HEAD)
    for heading in headings:
        table.add_column(heading, justify="right")
    return table
