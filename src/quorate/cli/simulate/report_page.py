"""The HTML file of a report: tables and charts, readable without a network.

Everything is in the file, the script of Plotly included, and its policy allows no request.  Text of scenarios
is escaped.  The same runs give the same bytes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import Final

import msgspec

from quorate.cli.simulate.tables import (
    Table,
    comparison_tables,
    fairness,
    headline,
    summary_tables,
    waiting_headline,
    waiting_table,
)
from quorate.simulate.engine.recorder import Run
from quorate.simulate.results import chart_series, charts
from quorate.simulate.results.charts import Figure
from quorate.simulate.results.summary import Comparison, summarize

_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:"
)
_NAMES: Final = ("FLAVOR", "RESOURCE", "QUEUE")  # titles of columns with names, not numbers
_STYLE: Final = """
:root { color-scheme: light dark; --text: #1b1b1b; --paper: #ffffff; --line: #d0d0d0; --faint: #f4f4f4; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e8e8e8; --paper: #16181c; --line: #3a3f47; --faint: #20242a; }
}
body { font: 15px/1.45 system-ui, sans-serif; color: var(--text); background: var(--paper);
  max-width: 1100px; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; } h3 { font-size: 1rem; }
nav a { margin-right: 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: .8rem 0; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .2rem .6rem; white-space: nowrap; border-bottom: 1px solid var(--line); }
th { background: var(--faint); font-size: .8rem; }
th:first-child, td:first-child, .text, .name { text-align: left; }
td.text { white-space: normal; }
figure { margin: .5rem 0 1.5rem; } figcaption { opacity: .8; font-size: .9rem; }
"""
_SCRIPT: Final = """
const style = getComputedStyle(document.documentElement);
for (const chart of document.querySelectorAll(".chart")) {
  const figure = JSON.parse(chart.nextElementSibling.textContent);
  const grid = style.getPropertyValue("--line");
  const layout = Object.assign(figure.layout, {
    paper_bgcolor: "transparent", plot_bgcolor: "transparent", modebar: {bgcolor: "transparent"},
    font: {color: style.getPropertyValue("--text")},
  });
  for (const axis of [layout.xaxis, layout.yaxis]) {
    Object.assign(axis, {gridcolor: grid, zerolinecolor: grid});
  }
  Plotly.newPlot(chart, figure.data, layout, {
    responsive: true, displaylogo: false,
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
  });
}
"""


class NoCharts(Exception):
    """The package that draws the charts is not installed."""

    def __str__(self) -> str:
        return (
            "reports need Plotly, which is not installed"
            " (run: pip install plotly, or in a clone: pip install '.[report]')"
        )


def report(runs: Mapping[str, Run], comparisons: Sequence[Comparison]) -> str:
    """Return the report of ``runs`` by name; every other run is compared with the first.

    Raises ``NoCharts`` without Plotly.
    """
    script = _plotly()
    (first_name, first), *_ = runs.items()
    parts = [*_first_run(first_name, first), *_changes(comparisons), *_charts(runs)]
    title = f"Simulation of {first_name}"
    return "".join(
        (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n',
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
            f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n",
            f"<h1>{escape(title)}</h1>\n",
            *parts,
            f"</main>\n<script>{script}</script>\n<script>{_SCRIPT}</script>\n</body>\n</html>\n",
        )
    )


@cache
def _plotly() -> str:
    try:
        return (files("plotly") / "package_data" / "plotly.min.js").read_text(encoding="utf-8")
    except (ModuleNotFoundError, FileNotFoundError) as error:
        raise NoCharts from error


def _first_run(name: str, run: Run) -> Iterator[str]:
    summary = summarize(run)
    yield f"<p>{escape(headline(name, summary))}.</p>\n"
    for table in summary_tables(summary):
        yield _table(table)
    if summary.fairness is not None:
        yield f"<p>{escape(fairness(summary.fairness))}</p>\n"
    if summary.waiting:
        yield f"<p>{escape(waiting_headline(summary))}</p>\n{_table(waiting_table(summary), text=True)}"


def _changes(comparisons: Iterable[Comparison]) -> Iterator[str]:
    for comparison in comparisons:
        yield f"<h2>With {escape(comparison.name)}</h2>\n"
        for table in comparison_tables(comparison):
            yield _table(table)
        if comparison.jobs.sooner is not None:
            groups = {**comparison.by_class, **comparison.by_queue}
            caption = (
                "The jobs of each class and queue that start over a second later (left) or sooner (right)."
            )
            yield _chart(charts.moved_jobs(groups), caption)
        if comparison.after.waiting:
            yield f"<p>{escape(waiting_headline(comparison.after))}</p>\n"
            yield _table(waiting_table(comparison.after), text=True)


def _charts(runs: Mapping[str, Run]) -> Iterator[str]:
    yield "<h2>Waits</h2>\n"
    yield _chart(charts.waits(runs), "The share of all jobs that were admitted within a time.")
    yield _chart(charts.waiting(runs), "The jobs that waited, over time.")
    for name, run in runs.items():
        yield f"<h2>{escape(name)}</h2>\n"
        caption = "The share of the jobs of each class that were admitted within a time."
        yield _chart(charts.waits_by_class(run), caption)
        for resource in chart_series.resources(run):
            caption = (
                f"Use of {resource} by cluster queue, as means between samples. Above the dashed line the "
                "queues use more than all nominal quota; a queue that uses more than its own borrows."
            )
            yield _chart(charts.in_use(run, resource), caption)
        for resource in chart_series.resources(run):
            heat_map = chart_series.use_of_nodes(run, resource)
            if heat_map is not None:
                caption = f"Use of {resource} on the nodes by pods, as means between samples."
                yield _chart(charts.nodes(heat_map, resource), caption)
        caption = (
            "Jobs around the time at which the most jobs waited: grey while they wait, with a pattern after "
            "a preemption or another eviction, and in the color of the queue while they run."
        )
        yield _chart(charts.gantt(run), caption)


def _table(table: Table, *, text: bool = False) -> str:
    """Return a table; ``text``: its last column is a sentence."""
    last = len(table.titles) - 1
    kinds = [
        "text" if text and at == last else "name" if title in _NAMES else ""
        for at, title in enumerate(table.titles)
    ]

    def cells(tag: str, row: tuple[str, ...]) -> str:
        return "".join(
            f"<{tag}{f' class={kind}' if kind else ''}>{escape(cell.replace(' -> ', ' → '))}</{tag}>"
            for kind, cell in zip(kinds, row, strict=True)
        )

    rows = "".join(f"<tr>{cells('td', row)}</tr>\n" for row in table.rows)
    return (
        f'<div class="wide"><table><thead><tr>{cells("th", table.titles)}</tr></thead>\n'
        f"<tbody>\n{rows}</tbody></table></div>\n"
    )


def _chart(figure: Figure, caption: str) -> str:
    data = msgspec.json.encode(figure).decode().replace("<", "\\u003c")
    height = figure["layout"]["height"]
    return (
        f'<figure><div class="chart" style="height: {height}px"></div>'
        f'<script type="application/json">{data}</script>'
        f"<figcaption>{escape(caption)}</figcaption></figure>\n"
    )
