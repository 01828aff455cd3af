"""Each panel of the dashboards of Grafana shows series that were recorded from a real run."""

import json
import math
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import yaml

from tests.e2e.commands import poll
from tests.install.dashboard_queries import panels
from tests.install.record_dashboards import INTERVAL_S, RECORDED, SCRAPES
from tests.observe.listening import free_port

PROMETHEUS: Final = shutil.which("prometheus")
SHOWN: Final = yaml.safe_load(Path(__file__).with_name("shown_by_dashboards.yaml").read_text())
BEGAN: Final = 1_700_000_000
END: Final = BEGAN + SCRAPES * INTERVAL_S
# What Grafana replaces: the interval of four scrapes, and all values of the variable.
VARIABLES: Final = {"$__rate_interval": f"{4 * INTERVAL_S}s", "$queue": ".*"}

pytestmark = pytest.mark.skipif(
    PROMETHEUS is None or shutil.which("promtool") is None, reason="there is no Prometheus"
)


def open_metrics() -> Iterator[str]:
    """Yield the lines of the recorded samples in the form of OpenMetrics."""
    for line in RECORDED.read_text().splitlines():
        series, values = line.split("} ")
        first, *runs = values.split()
        at_s = BEGAN + int(first)
        for run in runs:
            value, times = run.rsplit("x", 1)
            for _ in range(int(times)):
                yield f"{series}}} {value} {at_s}"
                at_s += INTERVAL_S
    yield "# EOF\n"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the URL of a Prometheus with the recorded series."""
    directory = tmp_path_factory.mktemp("prometheus")
    (directory / "recorded.om").write_text("\n".join(open_metrics()))
    (directory / "prometheus.yml").write_text("")
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "recorded.om", "data"]
    subprocess.run(command, cwd=directory, check=True, capture_output=True, timeout=60)
    with prometheus(directory) as address:
        yield address


@contextmanager
def prometheus(directory: Path) -> Iterator[str]:
    assert PROMETHEUS is not None
    address = f"127.0.0.1:{free_port()}"
    options = ["--storage.tsdb.path=data", "--storage.tsdb.retention.time=100y"]
    command = [PROMETHEUS, "--config.file=prometheus.yml", f"--web.listen-address={address}", *options]
    with subprocess.Popen(command, cwd=directory, stderr=subprocess.DEVNULL) as process:
        try:
            poll(lambda: answers(f"http://{address}/-/ready"), bool, within_s=60.0)
            yield f"http://{address}"
        finally:
            process.terminate()


def answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=5):
            return True
    except OSError:
        return False


def legend(template: str, labels: Mapping[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda name: labels[name[1]], template)


def shown(url: str, target: dict[str, Any]) -> set[str]:
    """Return the legends of the series that a query of a panel shows, without those that have no number."""
    query = target["expr"]
    for name, value in VARIABLES.items():
        query = query.replace(name, value)
    asked = {"query": query, "start": BEGAN, "end": END, "step": INTERVAL_S}
    with urlopen(f"{url}/api/v1/query_range?{urlencode(asked)}", timeout=20) as answer:
        series = json.load(answer)["data"]["result"]
    return {
        legend(target["legendFormat"], one["metric"])
        for one in series
        if any(math.isfinite(float(value)) for _, value in one["values"])
    }


@pytest.mark.parametrize(
    ("board", "panel"), [pytest.param(*named, id=f"{named[0]}: {named[1]['title']}") for named in panels()]
)
def test_a_panel_shows_the_recorded_series(url: str, board: str, panel: dict[str, Any]) -> None:
    legends = [shown(url, target) for target in panel["targets"]]
    assert all(legends)
    assert sorted(set.union(*legends)) == SHOWN[board][panel["title"]]


def test_a_panel_of_a_metric_that_does_not_exist_shows_nothing(url: str) -> None:
    assert shown(url, {"expr": "max(quorate_no_such_metric)", "legendFormat": ""}) == set()
