"""The jobs of the example end as its README states, with and without the check of nodes."""

from pathlib import Path

import pytest

from tests.e2e.commands import quorate

EXAMPLE = Path(__file__).parents[2] / "examples" / "fragmentation"


def test_the_readme_lists_all_files() -> None:
    readme = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in sorted(EXAMPLE.glob("*.yaml")) if f"`{path.name}`" not in readme] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("configuration", "ending"),
    [
        (
            "without-node-check.yaml",
            "train runs 3 of 4 pods and holds cpu 13500m; 1 more pod needs cpu 4500m",
        ),
        (
            "with-node-check.yaml",
            "cpu: need 4500m, have 3500m on the best of 3 nodes",
        ),
    ],
)
def test_how_the_large_job_ends(configuration: str, ending: str) -> None:
    done = quorate("local", "run", str(EXAMPLE), "--config", str(EXAMPLE / configuration))
    assert done.returncode == 3, done.stdout + done.stderr
    rows = {line.split()[0]: line.split()[-1] for line in done.stdout.splitlines() if line.strip()}
    assert ending in done.stdout[done.stdout.index("no progress") :]
    assert configuration != "with-node-check.yaml" or rows["tune"] == "completed"
