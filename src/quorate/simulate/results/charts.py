"""The charts of a report, as figures of Plotly.

A figure is the JSON of https://plotly.com/javascript/reference: ``data`` are its traces, ``layout`` its axes.
Colors are those of M. Okabe and K. Ito, which people with any color vision can tell apart.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from quorate.api.quantity import Quantity
from quorate.quota.amount import base_units, counts_bytes
from quorate.simulate.engine.recorder import Run
from quorate.simulate.results import chart_series
from quorate.simulate.results.summary import Change

Figure = dict[str, Any]
COLORS: Final = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442",
    "#5D6D9E", "#B08900", "#1B7F79", "#8C564B",
)  # fmt: skip
GREY: Final = "#999999"
_WAITS: Final[Mapping[chart_series.Phase, Figure]] = {
    chart_series.Phase.WAITS: {"color": GREY},
    chart_series.Phase.PREEMPTED: {"color": GREY, "pattern": {"shape": "x"}},
    chart_series.Phase.EVICTED: {"color": GREY, "pattern": {"shape": "/"}},
}
_UNITS: Final = ((1_000, "s"), (60_000, "min"), (3_600_000, "h"), (86_400_000, "days"))  # ms of each
_LONGEST: Final = (600_000, 5 * 3_600_000, 10 * 86_400_000)  # axes up to here have the unit at this index


def in_use(run: Run, resource: str) -> Figure:
    """Return the amounts of ``resource`` that the cluster queues use over time, above each other."""
    unit_ms, unit = _time_unit(run.ended_ms)
    amount_unit, amount_name = _amount_unit(resource)
    traces: list[Figure] = [
        {
            "type": "scatter", "mode": "lines", "stackgroup": "use", "name": line.name,
            "line": {"width": 0.5, "color": color, "shape": "vh"},
            "x": _scaled(line.x, unit_ms), "y": _scaled(line.y, amount_unit),
        }
        for line, color in zip(chart_series.amounts_in_use(run, resource), (*COLORS, GREY), strict=False)
    ]  # fmt: skip
    nominal = chart_series.nominal_quota(run, resource) / amount_unit
    traces.append(
        {
            "type": "scatter", "mode": "lines", "name": "nominal quota", "hoverinfo": "skip",
            "line": {"dash": "dash", "width": 1.5, "color": GREY},
            "x": [0, run.ended_ms / unit_ms], "y": [nominal, nominal],
        }
    )  # fmt: skip
    return _figure(traces, f"time ({unit})", f"{resource} in use{amount_name}")


def waiting(runs: Mapping[str, Run]) -> Figure:
    """Return how many jobs wait over time, a line for each run."""
    unit_ms, unit = _time_unit(max(run.ended_ms for run in runs.values()))
    traces = [
        _line(name, chart_series.waiting_jobs(run), unit_ms, color)
        for (name, run), color in zip(runs.items(), _cycle(len(runs)), strict=True)
    ]
    return _figure(traces, f"time ({unit})", "waiting jobs")


def waits(runs: Mapping[str, Run]) -> Figure:
    """Return the share of jobs that were admitted within a time, a line for each run."""
    return _distributions(
        [chart_series.distribution_of_waits(run)._replace(name=name) for name, run in runs.items()],
        "share of all jobs",
    )


def waits_by_class(run: Run) -> Figure:
    """Return the share of the jobs of each class that were admitted within a time."""
    return _distributions(chart_series.distributions_by_class(run), "share of the class")


def moved_jobs(changes: Mapping[str, Change]) -> Figure:
    """Return how many jobs start sooner, and to the left how many start later, for each class or queue."""
    names = [*changes]
    sooner = [change.sooner or 0 for change in changes.values()]
    later = [change.later or 0 for change in changes.values()]
    traces: list[Figure] = [
        {
            "type": "bar", "orientation": "h", "name": name, "marker": {"color": color}, "y": names,
            "x": [sign * count for count in counts], "customdata": counts,
            "text": [str(count) for count in counts], "textposition": "auto",
            "hovertemplate": f"%{{y}}: %{{customdata}} {name}<extra></extra>",
        }
        for name, sign, counts, color in (("later", -1, later, COLORS[5]), ("sooner", 1, sooner, COLORS[2]))
    ]  # fmt: skip
    figure = _figure(traces, "jobs", "")
    most = max([1, *sooner, *later])
    figure["layout"] |= {"barmode": "relative", "height": 130 + 30 * len(names), "bargap": 0.3}
    figure["layout"]["xaxis"] |= {"range": [-1.05 * most, 1.05 * most], "showticklabels": False}
    figure["layout"]["yaxis"] = {"type": "category", "autorange": "reversed", "automargin": True}
    return figure


def _distributions(lines: Sequence[chart_series.Line], y_title: str) -> Figure:
    unit_ms, unit = _time_unit(max((line.x[-1] for line in lines if line.x), default=0))
    traces = [
        {**_line(line.name, line, unit_ms, color), "line": {"shape": "hv", "color": color}}
        for line, color in zip(lines, _cycle(len(lines)), strict=True)
    ]
    figure = _figure(traces, f"waited at most ({unit})", y_title)
    figure["layout"]["yaxis"] |= {"tickformat": ".0%", "range": [0, 1.02]}
    return figure


def gantt(run: Run) -> Figure:
    """Return the jobs around the time at which the most jobs waited: colored while they run.

    Grey is for waiting, with a pattern after an interruption.
    """
    bars = chart_series.window(run, chart_series.busiest_ms(run))
    drawn = [(bar, interval) for bar in bars for interval in bar.intervals]
    first_ms = min((interval.starts_ms for _, interval in drawn), default=0)
    last_ms = max((interval.ends_ms for _, interval in drawn), default=0)
    unit_ms, unit = _time_unit(last_ms - first_ms)
    queues = sorted({bar.queue for bar in bars})
    traces = []
    for phase, marker in _WAITS.items():
        waits = [(bar.job, interval) for bar, interval in drawn if interval.phase is phase]
        if waits:
            traces.append(_bars(phase.value, marker, waits, unit_ms))
    for queue, color in zip(queues, _cycle(len(queues)), strict=True):
        runs = [
            (bar.job, interval)
            for bar, interval in drawn
            if bar.queue == queue and interval.phase is chart_series.Phase.RUNS
        ]
        traces.append(_bars(queue, {"color": color}, runs, unit_ms))
    figure = _figure(traces, f"time ({unit})", "")
    names = [bar.job for bar in bars]
    figure["layout"] |= {"barmode": "overlay", "height": 120 + 14 * len(bars), "bargap": 0.25}
    figure["layout"]["xaxis"]["range"] = _scaled([first_ms, last_ms], unit_ms)
    figure["layout"]["yaxis"] = {
        "type": "category", "categoryorder": "array", "categoryarray": names, "autorange": "reversed",
        "tickfont": {"size": 10}, "automargin": True,
    }  # fmt: skip
    return figure


def nodes(heat_map: chart_series.HeatMap, resource: str) -> Figure:
    """Return the share of ``resource`` that is used on each node over time."""
    unit_ms, unit = _time_unit(heat_map.sampled_ms[-1])
    trace: Figure = {
        "type": "heatmap", "colorscale": "Cividis", "zmin": 0, "zmax": 1,
        "colorbar": {"tickformat": ".0%", "title": {"text": f"{resource} in use"}},
        "x": _scaled([0, *heat_map.sampled_ms], unit_ms),  # the edges of the cells
        "y": heat_map.nodes, "z": heat_map.shares,
        "hovertemplate": "%{y}: %{z:.0%}<extra></extra>",
    }  # fmt: skip
    figure = _figure([trace], f"time ({unit})", "")
    figure["layout"]["height"] = 160 + 12 * len(heat_map.nodes)
    figure["layout"]["yaxis"] = {
        "type": "category", "autorange": "reversed", "tickfont": {"size": 10}, "automargin": True,
    }  # fmt: skip
    return figure


def _bars(
    name: str, marker: Figure, bars: Sequence[tuple[str, chart_series.Interval]], unit_ms: int
) -> Figure:
    return {
        "type": "bar", "orientation": "h", "name": name, "marker": marker,
        "y": [job for job, _ in bars],
        "base": _scaled([bar.starts_ms for _, bar in bars], unit_ms),
        "x": _scaled([bar.ends_ms - bar.starts_ms for _, bar in bars], unit_ms),
        "hovertext": [bar.phase.value for _, bar in bars], "hoverinfo": "y+text",
    }  # fmt: skip


def _line(name: str, line: chart_series.Line, unit_ms: int, color: str) -> Figure:
    return {
        "type": "scatter", "mode": "lines", "name": name, "line": {"color": color},
        "x": _scaled(line.x, unit_ms), "y": line.y,
    }  # fmt: skip


def _figure(traces: list[Figure], x_title: str, y_title: str) -> Figure:
    layout = {
        "xaxis": {"title": {"text": x_title}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": y_title}, "rangemode": "tozero"},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom"},
        "margin": {"l": 60, "r": 20, "t": 30, "b": 50},
        "hovermode": "closest",
        "height": 360,
    }
    return {"data": traces, "layout": layout}


def _cycle(count: int) -> list[str]:
    return [COLORS[at % len(COLORS)] for at in range(count)]


def _time_unit(longest_ms: float) -> tuple[int, str]:
    """Return the ms of the unit of an axis, and its name."""
    return _UNITS[sum(longest_ms > limit for limit in _LONGEST)]


def _amount_unit(resource: str) -> tuple[int, str]:
    """Return the base units of the unit of an axis, and what its title says of it."""
    if counts_bytes(resource):
        return 2**30, " (Gi)"
    return base_units(resource, Quantity.of_units(1)), ""


def _scaled(values: Sequence[float], unit: int) -> list[float]:
    return [float(f"{value / unit:.6g}") for value in values]
