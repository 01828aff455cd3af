"""Alerts fire on recorded series; queries of alerts and dashboards name series that are served."""

import copy
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from quorate.install import monitoring
from quorate.install.manifests import monitoring_files
from quorate.observe import families, gang_families
from quorate.observe.queueing_metrics import metrics
from quorate.witness import metrics as witness_metrics
from tests.e2e.commands import ROOT
from tests.e2e.world import World, run_story
from tests.install import dashboard_queries

PROMTOOL: Final = shutil.which("promtool")
needs_promtool: Final = pytest.mark.skipif(
    PROMTOOL is None, reason="there is no promtool (Debian: prometheus)"
)
FAMILIES: Final = {
    family.name: {*family.labels}
    for family in (*families.FAMILIES, *gang_families.FAMILIES, *witness_metrics.FAMILIES)
}
RECORDED: Final = yaml.safe_load(Path(__file__).with_name("recorded_alerts.yaml").read_text())
OF_PROMETHEUS: Final = {"up": {"job"}}
_BY: Final = re.compile(r"\b(?:by|on) \(([^)]*)\)")


def groups() -> list[dict[str, Any]]:
    return copy.deepcopy(monitoring.alerts("kueue-system")["spec"]["groups"])


def rules() -> Iterator[dict[str, Any]]:
    return (rule for group in groups() for rule in group["rules"])


def queries() -> Iterator[str]:
    yield from (rule["expr"] for rule in rules())
    yield from dashboard_queries.queries()


def family_of(name: str) -> str:
    """Return the name of the family of a series: those of a histogram have suffixes."""
    return name if name in FAMILIES or name in OF_PROMETHEUS else name.removesuffix("_bucket")


def test_queries_name_series_and_labels_that_exist() -> None:
    known = FAMILIES | OF_PROMETHEUS
    for query in queries():
        named = dashboard_queries.SERIES.findall(query)
        assert named, query
        labels: set[str] = set()
        for name, matchers in named:
            assert family_of(name) in known, query
            labels |= known[family_of(name)]
            used = re.findall(r"(\w+)(?:=~|!~|!=|=)\"", matchers)
            assert {*used} <= known[family_of(name)], query
        if not query.startswith("label_values"):
            grouped = {label.strip() for part in _BY.findall(query) for label in part.split(",")} - {"le", ""}
            assert grouped <= labels, query


def test_legends_name_labels_that_the_query_keeps() -> None:
    for _, panel in dashboard_queries.panels():
        for target in panel["targets"]:
            legend = {*re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])}
            kept = {label.strip() for part in _BY.findall(target["expr"]) for label in part.split(",")}
            assert legend == kept - {"le"}, target


def test_each_alert_has_a_recording_in_which_it_fires_and_one_in_which_not() -> None:
    for rule in rules():
        cases = [
            bool(case.get("exp_alerts"))
            for test in RECORDED["tests"]
            for case in test["alert_rule_test"]
            if case["alertname"] == rule["alert"]
        ]
        assert {*cases} == {True, False}, rule["alert"]
        assert {*rule["annotations"]} == {"summary", "description"}


@needs_promtool
def test_the_alerts_fire_on_the_recorded_series(tmp_path: Path) -> None:
    plain = groups()
    for group in plain:
        for rule in group["rules"]:
            del rule["annotations"]  # the recordings have no texts
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": plain}))
    (tmp_path / "test.yaml").write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], **RECORDED}))
    promtool("test", "rules", str(tmp_path / "test.yaml"))


@needs_promtool
def test_prometheus_can_read_alerts_and_queries(tmp_path: Path) -> None:
    (tmp_path / "alerts.yaml").write_text(yaml.safe_dump({"groups": groups()}))
    plain = [query.replace("$__rate_interval", "5m") for query in queries() if "label_values" not in query]
    records = [{"record": f"q:{number}", "expr": query} for number, query in enumerate(plain)]
    (tmp_path / "queries.yaml").write_text(yaml.safe_dump({"groups": [{"name": "q", "rules": records}]}))
    promtool("check", "rules", str(tmp_path / "alerts.yaml"), str(tmp_path / "queries.yaml"))


def promtool(*arguments: str) -> None:
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", monitoring_files("kueue-system"), ids=str)
def test_the_files_are_what_the_generator_writes(name: Path) -> None:
    again = "run: python -m quorate manifests --output deploy --with-chart"
    assert (ROOT / "deploy" / name).read_text() == monitoring_files("kueue-system")[name], again  # type: ignore[index]


@pytest.mark.slow
def test_the_controllers_of_a_local_cluster_serve_the_series_of_their_alerts() -> None:
    """The other processes declare their series in the same way."""

    async def story(world: World) -> None:
        metrics(world.replica)
        served = {family.name for family in world.replica.recorder.registry.collect()}
        named = {
            family_of(name) for query in queries() for name, _ in dashboard_queries.SERIES.findall(query)
        }
        ours = {name for name in named if name in {family.name for family in families.FAMILIES}}
        assert {
            name for name in ours if name not in served and name.removesuffix("_total") not in served
        } == set()

    run_story(story)
