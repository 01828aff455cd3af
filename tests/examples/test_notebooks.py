"""The notebooks of examples/ run from the first cell to the last, and every code cell prints something."""

import io
import json
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples/notebooks").glob("*.ipynb"))


@cache
def _run(notebook: Path) -> tuple[str, ...]:
    """Execute the code cells in one namespace, as a kernel does, and return what each cell prints."""
    namespace: dict[str, Any] = {}
    printed: list[str] = []
    for cell in json.loads(notebook.read_text())["cells"]:
        if cell["cell_type"] == "code":
            output = io.StringIO()
            with redirect_stdout(output):
                exec(compile("".join(cell["source"]), f"{notebook.name} {cell['id']}", "exec"), namespace)
            printed.append(output.getvalue())
    return tuple(printed)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=[each.stem for each in NOTEBOOKS])
def test_a_notebook_runs(notebook: Path) -> None:
    definitions, *results = _run(notebook)
    assert definitions == ""  # of the scenario
    assert all(results)


def test_the_quota_change_compares_three_runs() -> None:
    _, waits, moved, _, _ = _run(NOTEBOOKS[0])
    assert [line.split(":")[0] for line in waits.splitlines()] == ["scenario", "training 48", "training 64"]
    assert len(moved.splitlines()) == 4


@pytest.mark.extra("pandas")
def test_the_quota_change_shows_a_data_frame() -> None:
    _, _, _, frame, _ = _run(NOTEBOOKS[0])
    assert frame.split()[:4] == ["run", "class", "jobs", "p50_s"]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=[each.stem for each in NOTEBOOKS])
def test_a_notebook_is_stored_without_outputs(notebook: Path) -> None:
    content = json.loads(notebook.read_text())
    assert (content["nbformat"], content["cells"][0]["cell_type"]) == (4, "markdown")
    code = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert len({cell["id"] for cell in content["cells"]}) == len(content["cells"])
