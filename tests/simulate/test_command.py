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
    rows = re.findall(r"^\w+ .*->.*$", after, re.MULTILINE)
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
