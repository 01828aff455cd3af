"""The cluster of a module."""

from collections.abc import Iterator

import pytest

from tests.local.runtime.world import shared_cluster


@pytest.fixture(scope="module")
def one_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Run the stories of a module on one cluster."""
    with shared_cluster(tmp_path_factory.mktemp("cluster")):
        yield
