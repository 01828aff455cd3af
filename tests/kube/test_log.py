"""Console and JSON lines of the structured log."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from quorate.api.meta import Key
from quorate.kube.log import Format, configure, logger


@pytest.fixture(autouse=True)
def _restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    before = (root.level, list(root.handlers))
    yield
    root.setLevel(before[0])
    root.handlers[:] = before[1]


def written(format_: Format) -> str:
    stream = io.StringIO()
    configure(format_, stream=stream)
    log = logger("quorate.test").bind(queue="research")
    log.debug("below the level")
    log.info("workload admitted", workload=Key("default", "a"), waited_s=12.34567)
    try:
        raise ZeroDivisionError("oops")
    except ZeroDivisionError as error:
        log.fault("reconcile raised", error, note='two "words"')
    return stream.getvalue()


def test_console_lines() -> None:
    first, second, *trace = written("console").splitlines()
    assert first[9:] == "INFO    workload admitted  queue=research workload=default/a waited_s=12.346"
    assert second[9:] == r'ERROR   reconcile raised  queue=research note="two \"words\""'
    assert trace[-1] == "ZeroDivisionError: oops"


def test_json_lines() -> None:
    first, second = (json.loads(line) for line in written("json").splitlines())
    assert first.pop("time").endswith("+00:00")
    assert first == {
        "level": "info",
        "logger": "quorate.test",
        "message": "workload admitted",
        "queue": "research",
        "workload": "default/a",
        "waited_s": 12.34567,
    }
    assert second["traceback"].endswith("ZeroDivisionError: oops")
