"""``pytest tests/e2e --real``: run the stories on a kube-apiserver instead of the local server."""

from collections.abc import Iterator

import pytest

from quorate.witness.report import Reason
from tests import witnessed
from tests.e2e import world
from tests.e2e.real_server import (
    PROGRAMS,
    assets,
    control_plane,
    kube_scheduler,
    minor_version,
    native_options,
    unavailable_reason,
)
from tests.e2e.real_server import SCHEDULER as KUBE_SCHEDULER

OPTION = "--real"
SCHEDULER = "--kube-scheduler"
STORY_RUNNERS = frozenset(
    {"run_story", "running_cluster", "run_gang_story", "running_gang_cluster", "story_runner"}
)
TIMEOUT_S = 900  # per test; some start several servers in sequence


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, action="store_true", help="run the stories on the server of KUBEBUILDER_ASSETS")
    parser.addoption(SCHEDULER, action="store_true", help="with --real: bind pods by its kube-scheduler")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption(OPTION, default=False):
        return
    stories = [item for item in items if _runs_stories(item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in stories])
    items[:] = stories
    problem = unavailable_reason((*PROGRAMS, KUBE_SCHEDULER) if config.getoption(SCHEDULER) else PROGRAMS)
    for item in items:
        item.add_marker(pytest.mark.timeout(TIMEOUT_S))
        if problem:
            item.add_marker(pytest.mark.skip(reason=problem))


def _runs_stories(item: pytest.Item) -> bool:
    """Return True if the module has stories; other modules need the local server or none."""
    module = item.getparent(pytest.Module)
    assert module is not None
    return not STORY_RUNNERS.isdisjoint(vars(module.obj))


@pytest.fixture(autouse=True)
def server_of_the_stories(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.config.getoption(OPTION, default=False):
        options = native_options(minor_version(assets()))  # of the local server, too
        monkeypatch.setattr(world, "SERVER", lambda: control_plane(assets(), *options))
        if request.config.getoption(SCHEDULER):
            monkeypatch.setattr(world, "SCHEDULER", lambda cluster: kube_scheduler(assets(), cluster))
        monkeypatch.setattr(world, "SERVERS_AT_ONCE", 1)  # one server uses most of a small machine


@pytest.fixture(autouse=True)
def witness_of_the_stories(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let the witness pass over the differences that the test provokes on purpose.

    It runs beside every cluster of the stories and fails a test in which pods run outside of quota, or beyond
    their node.
    """
    marker = request.node.get_closest_marker("provokes")
    expected = set() if marker is None else {str(Reason(reason)) for reason in marker.args}
    witnessed.EXPECTED.update(expected)
    yield
    witnessed.EXPECTED.difference_update(expected)
