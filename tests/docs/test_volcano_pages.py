"""The pages about Volcano Jobs and about the protocol for operators, done step by step."""

from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from tests.docs.walk import walk
from tests.e2e.commands import needs_kubectl
from tests.side_by_side import asked_for, side_by_side

pytestmark = [pytest.mark.slow, needs_kubectl()]
PAGES = ("volcano-jobs.md", "../reference/operator-protocol.md")


@pytest.fixture(scope="module")
def walks(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[None]]]:
    directories = {page: tmp_path_factory.mktemp("walk") for page in PAGES}
    with side_by_side(lambda page: walk(page, directories[page]), asked_for(request, "page")) as under_way:
        yield under_way


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_true(page: str, walks: dict[str, Future[None]]) -> None:
    walks[page].result()
