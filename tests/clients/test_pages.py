"""Run the steps of the integration pages with the programs that they describe."""

from pathlib import Path

import pytest

from tests.clients.environments import commands
from tests.docs.walk import walk
from tests.e2e.commands import needs_kubectl

WITHIN_S = 120.0  # for one step: the programs import for seconds


@needs_kubectl()
@pytest.mark.parametrize("page", ["airflow", "dask", "torchx"])
def test_an_integration_page_is_correct(page: str, tmp_path: Path) -> None:
    walk(f"../integrations/{page}.md", tmp_path, commands(page), WITHIN_S)
