"""Profiles of Hypothesis, the order of the modules, and the tests that need a package of the extras.

Properties are tested with the same examples in every run; ``make search`` generates new ones.
Examples have no deadline: their duration depends on the machine.
"""

import gc
import os
import sys
from collections import Counter
from collections.abc import Generator
from importlib.util import find_spec

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers

from quorate.quick_import import freeze_imported

pytest_plugins = ("tests.forked_workers",)

# A third of Hypothesis' default: with all of them, a run of all tests takes more than ten minutes.
settings.register_profile("steady", max_examples=30, derandomize=True, deadline=None)
# For `make quick`: the laws meet some worlds, and `make test` the rest.
settings.register_profile("quick", max_examples=5, derandomize=True, deadline=None)
settings.register_profile("search", max_examples=2_000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

# Hypothesis parses all imported modules for constants to draw: a module had other examples in a run of all
# tests than in one of its own, and took a seventh more processor time.  ``make search`` draws them.
if settings().derandomize:
    providers._get_local_constants = lambda: providers._local_constants

# kubectl spent a fifth of its 60 ms of processor time on garbage collections, in hundreds of processes.
os.environ.setdefault("GOGC", "400")

# The collector took a tenth of the time of stories: after 700 new objects, and again after ten of those.
gc.set_threshold(20_000, 5, 20)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect the tests without garbage collections: nearly all that is made then is kept until the end."""
    gc.disable()
    result = yield
    freeze_imported()
    gc.enable()
    return result


@pytest.hookimpl(trylast=True)  # after the tests that -m and -k leave out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with the modules that have most slow tests: at the end of a run no core waits for a story."""
    slow_tests = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: -slow_tests[item.path])


@pytest.hookimpl(tryfirst=True)  # before the workers are forked
def pytest_runtestloop(session: pytest.Session) -> None:
    """Start the command of the stories once for all workers: it imports for 1.5 s of processor time."""
    commands = sys.modules.get("tests.forked_command")  # None: no module of the tests uses it
    runs_stories = any(item.get_closest_marker("slow") for item in session.items)
    if commands is not None and runs_stories and session.config.getoption("--workers"):
        commands.forked_command()


def pytest_sessionfinish() -> None:
    """End the clusters that stories left for the next, in each worker."""
    shared_clusters = sys.modules.get("tests.e2e.shared_clusters")
    if shared_clusters is not None:
        shared_clusters.end_all()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test marked ``extra`` if its package is not installed."""
    for mark in item.iter_markers("extra"):
        if find_spec(mark.args[0]) is None:
            pytest.skip(f"{mark.args[0]} is not installed: make test-extras installs it and runs this test")
