"""Run the steps of the integration pages with the programs that they describe."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.clients.environments import commands
from tests.clients.operators import BUILT_WITHIN_S, running
from tests.docs.walk import walk
from tests.e2e.commands import needs_kubectl
from tests.local.runtime.world import runs_in_namespaces

pytestmark = pytest.mark.long  # to install or build the programs alone takes up to ten minutes each
WITHIN_S = 120.0  # for one step: the programs import for seconds


@needs_kubectl()
@pytest.mark.parametrize(
    "page",
    [
        "airflow",
        "dask",
        pytest.param("spark", marks=pytest.mark.skipif(shutil.which("java") is None, reason="needs Java")),
        "torchx",
    ],
)
def test_an_integration_page_is_correct(page: str, tmp_path: Path) -> None:
    walk(f"../integrations/{page}.md", tmp_path, [commands(page)], WITHIN_S)


@needs_kubectl()
def test_the_page_of_prefect_and_dagster_is_correct(tmp_path: Path) -> None:
    programs = [commands("prefect"), commands("dagster")]
    walk("../integrations/prefect-and-dagster.md", tmp_path, programs, WITHIN_S)


@needs_kubectl()
@pytest.mark.timeout(BUILT_WITHIN_S + 600)
@pytest.mark.parametrize(
    ("page", "operators", "client"),
    [
        ("jobset", ("jobset",), None),
        ("mpi", ("mpi",), None),
        ("leaderworkerset", ("lws",), None),
        ("kubeflow", ("jobset", "trainer"), None),
        pytest.param("ray", ("kuberay",), "ray", marks=runs_in_namespaces),
    ],
)
def test_the_page_of_an_operator_is_correct(
    page: str, operators: tuple[str, ...], client: str | None, tmp_path: Path
) -> None:
    programs = [] if client is None else [commands(client)]

    @contextmanager
    def beside(kubeconfig: Path) -> Iterator[None]:
        with ExitStack() as stack:
            for operator in operators:
                stack.enter_context(running(operator, kubeconfig))
            yield

    walk(f"../integrations/{page}.md", tmp_path, programs, WITHIN_S, beside)
