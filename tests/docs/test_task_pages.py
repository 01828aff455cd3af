"""Run the steps of the task pages and of the protocol page with kubectl, each on a separate cluster."""

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from tests.concurrent_stories import requested_parameters, run_concurrently
from tests.docs.walk import walk
from tests.e2e.commands import needs_kubectl

pytestmark = [
    pytest.mark.slow,
    needs_kubectl(),
]
PAGES = (
    "all-or-nothing.md",
    "delay-pod-creation.md",
    "give-up-and-come-back.md",
    "many-clusters.md",
    "native-pod-groups.md",
    "plain-pods.md",
    "rack-aware-training.md",
    "requeue-by-time.md",
    "start-a-large-job.md",
    "start-smaller.md",
    "volcano-jobs.md",
    "../reference/operator-protocol.md",
)


@pytest.fixture(scope="module")
def walks(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[None]]]:
    directories = {page: tmp_path_factory.mktemp(Path(page).stem) for page in PAGES}
    with run_concurrently(
        lambda page: walk(page, directories[page]), requested_parameters(request, "page")
    ) as futures:
        yield futures


@pytest.mark.parametrize("page", PAGES)
def test_a_task_page_is_correct(page: str, walks: dict[str, Future[None]]) -> None:
    walks[page].result()
