"""``quorate simulate``: its tables, its JSON, and what it refuses."""

import json
import re
from pathlib import Path

import pytest

from tests.e2e.commands import quorate

ROOT = Path(__file__).parents[2]
EXAMPLE = "examples/simulate/two-teams.yaml"
CHANGE = "examples/simulate/larger-quota.yaml"


@pytest.mark.parametrize(
    ("example", "headline"),
    [
        ("two-teams", "470 jobs in 32h, 470 ended, 0 running, 0 waiting, 0 deactivated"),
        ("three-clusters", "60 jobs in 10h, 60 ended, 0 running, 0 waiting, 0 deactivated"),
        ("gpu-nodes", "1460 jobs in 7d18h, 1460 ended, 0 running, 0 waiting, 0 deactivated"),
    ],
)
def test_a_command_of_the_page_compares_a_change(example: str, headline: str) -> None:
    page = (ROOT / "docs/tasks/try-a-change.md").read_text()
    (line,) = re.findall(rf"```sh\nquorate (.*{example}.*)\n", page)
    done = quorate(*line.split())
    assert done.returncode == 0, done.stderr
    assert headline in " ".join(done.stdout.split())
    after = page.partition(line)[2].partition("```sh")[0]
    rows = re.findall(r"^\w+ .*->.*$|^\w+ +60 .*$", after, re.MULTILINE)
    assert rows
    assert [row for row in rows if row not in done.stdout] == []


def test_the_example_of_the_page_is_that_of_the_file() -> None:
    page = (ROOT / "docs/tasks/try-a-change.md").read_text()
    (shown,) = re.findall(r"```yaml\n(apiVersion: simulate.*?)```", page, re.DOTALL)
    assert shown in (ROOT / EXAMPLE).read_text()


def test_json_has_the_figures() -> None:
    done = quorate("simulate", EXAMPLE, "--change", CHANGE, "-o", "json")
    answer = json.loads(done.stdout)
    assert answer["scenario"]["jobs"]["jobs"] == 470
    (change,) = answer["changes"]
    assert change["after"]["jobs"]["p50S"] < change["before"]["jobs"]["p50S"]
    assert quorate("simulate", EXAMPLE, "--change", CHANGE, "-o", "json").stdout == done.stdout


def test_json_has_the_figures_of_each_dispatcher(tmp_path: Path) -> None:
    text = (ROOT / "examples/simulate/three-clusters.yaml").read_text()
    file = tmp_path / "world.yaml"
    file.write_text(text.replace("count: 48", "count: 6").replace("count: 12", "count: 4"))
    change = tmp_path / "change.yaml"
    change.write_text(
        text[text.index("apiVersion: kueue") :].replace("nominalQuota: 64", "nominalQuota: 640")
    )
    answer = json.loads(quorate("simulate", str(file), "--change", str(change), "-o", "json").stdout)
    names = ["AllAtOnce", "Incremental", "EarliestStart"]
    names += [f"{change}, {name}" for name in names]
    assert [run["name"] for run in answer["clusters"]] == names
    assert [run["name"] for run in answer["changes"]] == names[1:]
    assert {run["copies"] for run in answer["clusters"][:2]} == {30}
    for run in answer["clusters"]:
        assert sum(cluster["jobs"] for cluster in run["clusters"].values()) == 10
    assert answer["clusters"][5]["jobs"]["meanS"] == 0


def test_clusters_that_cannot_be_played_are_an_error() -> None:
    done = quorate("simulate", "backtest", "examples/simulate/three-clusters.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        "quorate simulate backtest plays one cluster (remove clusters, or use quorate simulate)"
        in " ".join(done.stderr.split())
    )


def test_tables_are_printed_and_written(tmp_path: Path) -> None:
    files = ("--jobs", str(tmp_path / "jobs.csv"), "--usage", str(tmp_path / "usage.csv"))
    done = quorate("simulate", EXAMPLE, "-o", "csv", *files)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 471
    assert (tmp_path / "jobs.csv").read_text() == done.stdout
    assert (tmp_path / "usage.csv").read_text().startswith("run,from_s,until_s,cluster_queue,")


def test_a_mistake_is_reported_with_file_and_line(tmp_path: Path) -> None:
    file = tmp_path / "world.yaml"
    file.write_text((ROOT / EXAMPLE).read_text().replace("queue: training", "queue: absent"))
    done = quorate("simulate", str(file))
    assert done.returncode == 2
    assert f"{file}: training names the LocalQueue default/absent, which is in no manifest" in " ".join(
        done.stderr.split()
    )
