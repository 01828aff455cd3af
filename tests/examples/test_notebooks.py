"""The notebooks of examples/ run from the first cell to the last, and are stored with their outputs."""

import json
from functools import cache
from pathlib import Path

import pytest

from tests.examples.notebooks import NOTEBOOKS, Json, executed, text_of

IDS = [notebook.stem for notebook in NOTEBOOKS]


@cache
def code_cells(notebook: Path) -> tuple[Json, ...]:
    """Return the code cells with the outputs that they have now."""
    return tuple(cell for cell in executed(notebook)["cells"] if cell["cell_type"] == "code")


def stored_cells(notebook: Path) -> tuple[Json, ...]:
    return tuple(cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code")


def uses_pandas(cell: Json) -> bool:
    return "pandas" in "".join(cell["source"])


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=IDS)
def test_a_notebook_is_stored_with_the_outputs_of_its_cells(notebook: Path) -> None:
    again = "run: python -m tests.examples.notebooks"
    for stored, cell in zip(stored_cells(notebook), code_cells(notebook), strict=True):
        if not uses_pandas(cell):
            assert stored["outputs"] == cell["outputs"], again
        assert stored["execution_count"] == cell["execution_count"], again


@pytest.mark.extra("pandas")
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=IDS)
def test_data_frames_are_stored_as_pandas_shows_them(notebook: Path) -> None:
    assert [*map(text_of, stored_cells(notebook))] == [*map(text_of, code_cells(notebook))]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=IDS)
def test_all_cells_but_the_definitions_show_something(notebook: Path) -> None:
    definitions, *results = code_cells(notebook)
    assert definitions["outputs"] == []  # of the scenario
    assert all(cell["outputs"] for cell in results)


def test_the_quota_change_compares_three_runs() -> None:
    _, waits, moved, _, _ = code_cells(NOTEBOOKS[0])
    runs = [line.split(":")[0] for line in text_of(waits).splitlines()]
    assert runs == ["scenario", "training 48", "training 64"]
    (table,) = (output["data"]["text/html"] for output in waits["outputs"] if "data" in output)
    assert all(run in "".join(table) for run in runs)
    assert len(text_of(moved).splitlines()) == 4


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=IDS)
def test_a_notebook_has_a_title_and_cells_with_ids(notebook: Path) -> None:
    content = json.loads(notebook.read_text())
    assert (content["nbformat"], content["cells"][0]["cell_type"]) == (4, "markdown")
    assert len({cell["id"] for cell in content["cells"]}) == len(content["cells"])
