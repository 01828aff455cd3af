"""The queries of the dashboards of Grafana."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from quorate.install import monitoring

SERIES: Final = re.compile(r"\b((?:kueue|multikueue|quorate|volcano)_\w+|up)\b(?:\{([^}]*)\})?")


def panels() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name of a dashboard and a panel of it."""
    for text in monitoring.dashboards().values():
        board = json.loads(text)
        for panel in board["panels"]:
            yield board["title"], panel


def queries() -> Iterator[str]:
    """Yield the queries of all panels and variables."""
    yield from (target["expr"] for _, panel in panels() for target in panel["targets"])
    for text in monitoring.dashboards().values():
        for variable in json.loads(text)["templating"]["list"]:
            if variable["type"] == "query":
                yield variable["query"]["query"]


def named_series() -> set[str]:
    """Return the names of all series that the dashboards read."""
    return {name for query in queries() for name, _ in SERIES.findall(query)}
