"""The pytest plugin ``quorate``: the fixture ``quorate_cluster`` is a fresh local cluster.

Only pytest is imported here: a run of tests without a cluster costs nothing more.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from quorate.testing.server import ClusterServer, ClusterSettings, LocalCluster

MARKER: Final = "quorate"
_PACKAGE: Final = Path(__file__).parents[1]
_SETTINGS: Final = {  # of a cluster: the default, and what it means
    "nodes": ("1", "how many nodes to simulate"),
    "cpu": ("8", "allocatable cpu of each node"),
    "memory": ("16Gi", "allocatable memory of each node"),
    "pods": ("110", "allocatable pods of each node"),
    "speed": ("10", "how many times faster than real time simulated pods start and run"),
    "configuration": ("", "the path of a Configuration of the queueing controllers, from the root directory"),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    for name, (default, text) in _SETTINGS.items():
        parser.addini(f"quorate_{name}", f"Clusters of quorate_cluster: {text}.", default=default)


def pytest_configure(config: pytest.Config) -> None:
    names = ", ".join(_SETTINGS)
    config.addinivalue_line(
        "markers", f"{MARKER}({names}): settings of the cluster that quorate_cluster starts for a test"
    )


@pytest.fixture(scope="session")
def quorate_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterServer]:
    """Start clusters: ``start(settings)`` and ``stop(cluster)``, for fixtures with other scopes."""
    from quorate.testing.server import ClusterServer

    server = ClusterServer(tmp_path_factory.mktemp("quorate"))
    yield server
    server.close()


@pytest.fixture
def quorate_cluster(request: pytest.FixtureRequest, quorate_server: ClusterServer) -> Iterator[LocalCluster]:
    """Return a fresh local cluster: API server, queueing controllers, gang scheduler, simulated nodes."""
    cluster = quorate_server.start(_settings(request))
    yield cluster
    quorate_server.stop(cluster)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to the report of a failed test what has not started in its cluster, and why.

    The traceback of an error that this package reports ends at the line of the test.
    """
    error = call.excinfo
    if error is not None and type(error.value).__module__.startswith("quorate."):
        frame: TracebackType | None = error.tb
        while frame is not None and (inner := frame.tb_next) is not None:
            if _PACKAGE in Path(inner.tb_frame.f_code.co_filename).parents:
                frame.tb_next = None
            frame = frame.tb_next
    report = yield
    cluster: LocalCluster | None = getattr(item, "funcargs", {}).get("quorate_cluster")
    if cluster is not None and report.when == "call" and report.failed:
        lines = cluster.unstarted()
        if lines:
            report.sections.append(("Not started in quorate_cluster", "\n".join(lines)))
    return report


def _settings(request: pytest.FixtureRequest) -> ClusterSettings:
    """Return the settings of the ini file, overridden by the markers of the test, the nearest first."""
    from quorate.testing.server import ClusterSettings

    config = request.config
    written: dict[str, Any] = {name: config.getini(f"quorate_{name}") for name in _SETTINGS}
    for marker in reversed([*request.node.iter_markers(MARKER)]):
        unknown = sorted(marker.kwargs.keys() - _SETTINGS.keys())
        if unknown or marker.args:
            what = unknown[0] if unknown else repr(marker.args[0])
            names = ", ".join(_SETTINGS)
            raise pytest.UsageError(
                f"{request.node.nodeid}: {MARKER} has no argument {what} (it has {names})"
            )
        written |= marker.kwargs
    try:
        return ClusterSettings(
            nodes=int(written["nodes"]),
            cpu=str(written["cpu"]),
            memory=str(written["memory"]),
            pods=int(written["pods"]),
            speed=float(written["speed"]),
            configuration=config.rootpath / written["configuration"] if written["configuration"] else None,
        )
    except ValueError as error:
        raise pytest.UsageError(f"{request.node.nodeid}: a setting of {MARKER}: {error}") from error
