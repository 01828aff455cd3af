"""Alerts for Prometheus, and dashboards for Grafana, on the series that the processes serve."""

import json
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from quorate.api.codec import Json
from quorate.install.roles import manifest, metadata

NAME: Final = "quorate"
_HERE: Final = Path(__file__).parent
_WIDTH, _HEIGHT = 12, 8  # of a panel, in units of Grafana: 24 are the width of the page


@cache
def _read(name: str) -> Any:
    return yaml.safe_load((_HERE / name).read_text(encoding="utf-8"))


def alerts(namespace: str) -> Json:
    """Return the PrometheusRule with all alerts."""
    rules = {"groups": _read("alerts.yaml")}
    return manifest("monitoring.coreos.com/v1", "PrometheusRule", metadata(NAME, namespace), spec=rules)


def dashboards() -> dict[str, str]:
    """Return the JSON of each dashboard, by the name of its file."""
    return {
        f"quorate-{name}.json": json.dumps(_dashboard(f"quorate-{name}", board), indent=2) + "\n"
        for name, board in _read("dashboards.yaml").items()
    }


def config_map_generator() -> Json:
    """Return the fields of a kustomization that make a ConfigMap for the sidecar of Grafana's chart."""
    return {
        "configMapGenerator": [{"name": "quorate-dashboards", "files": sorted(dashboards())}],
        "generatorOptions": {"disableNameSuffixHash": True, "labels": {"grafana_dashboard": "1"}},
    }


def _dashboard(uid: str, board: Json) -> Json:
    source = {"type": "prometheus", "uid": "${source}"}
    variables: list[Json] = [
        {"name": "source", "type": "datasource", "query": "prometheus", "label": "Data source"}
    ]
    if variable := board.get("variable"):
        query = {"query": variable["query"], "refId": variable["name"]}
        variables.append(
            {
                "name": variable["name"],
                "type": "query",
                "datasource": source,
                "query": query,
                "multi": True,
                "includeAll": True,
                "allValue": ".*",
                "current": {"text": "All", "value": "$__all"},
                "refresh": 2,
            }
        )
    return {
        "uid": uid,
        "title": board["title"],
        "tags": ["quorate"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": variables},
        "panels": [_panel(number, panel, source) for number, panel in enumerate(board["panels"])],
    }


def _panel(number: int, panel: Json, source: Json) -> Json:
    row, column = divmod(number, 2)
    return {
        "id": number + 1,
        "title": panel["title"],
        "type": "timeseries",
        "datasource": source,
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.get("unit", "short"), "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + index), "expr": query, "legendFormat": legend, "datasource": source}
            for index, (legend, query) in enumerate(panel["queries"].items())
        ],
    }
