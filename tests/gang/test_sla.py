"""The plugin sla beyond the shared vectors: who has waited long enough, and what that changes."""

from typing import Any

import pytest

from quorate.gang.session.callbacks import Vote, all_callbacks
from tests.gang.plugin_session import Json, PluginSession


def opened(
    annotations: Json, waiting: str | None = None, profile: str = "compat", now: float = 100
) -> PluginSession:
    """Over one group, made at 90."""
    group = {"name": "a", "created": 90, "annotations": annotations, "minResources": {"cpu": 99}}
    arguments = {} if waiting is None else {"sla-waiting-time": waiting}
    return PluginSession(
        {"now": now, "podGroups": [group]}, [{"name": "sla", "arguments": arguments}], profile
    )


def votes(of: PluginSession, point: str) -> list[Any]:
    return [callback(of.gang("a")) for callback in all_callbacks(getattr(of.session.callbacks, point))]


@pytest.mark.parametrize(
    ("annotations", "waiting", "enough"),
    [
        pytest.param({"volcano.sh/sla-waiting-time": "10s"}, None, True, id="on the second"),
        pytest.param({"volcano.sh/sla-waiting-time": "10001ms"}, None, False, id="a moment before"),
        pytest.param({"sla-waiting-time": "5s"}, None, True, id="by its older name"),
        pytest.param({}, "9s", True, id="for all"),
        pytest.param({}, "1m", False, id="for all, later"),
        pytest.param({"volcano.sh/sla-waiting-time": "1h"}, "1s", False, id="its own word counts"),
        pytest.param({"volcano.sh/sla-waiting-time": "soon"}, "1s", True, id="unless it is none"),
        pytest.param({"volcano.sh/sla-waiting-time": "-1s"}, None, False, id="or no time to wait"),
        pytest.param({"volcano.sh/sla-waiting-time": "0s"}, None, False, id="or none at all"),
        pytest.param({}, "0s", False, id="for all neither"),
        pytest.param({}, None, False, id="nobody said how long"),
    ],
)
def test_who_has_waited_long_enough(annotations: Json, waiting: str | None, enough: bool) -> None:
    of = opened(annotations, waiting)
    assert votes(of, "job_enqueueable") == [Vote.PERMIT if enough else Vote.ABSTAIN]
    assert votes(of, "job_pipelined") == [Vote.PERMIT if enough else Vote.ABSTAIN]

    of = opened(annotations, waiting, "design")
    assert votes(of, "job_enqueueable") == [], "queues and quotas have their say"
    assert votes(of, "job_overdue") == [enough]
    assert votes(of, "job_pipelined") == [Vote.PERMIT if enough else Vote.ABSTAIN]


def test_a_session_is_due_when_somebody_will_have_waited_enough() -> None:
    of = opened({}, "20s")
    votes(of, "job_enqueueable")
    assert of.session.wake_at == 110.0
    of = opened({}, "20s", now=110)
    votes(of, "job_enqueueable")
    assert of.session.wake_at is None


def test_earlier_deadlines_go_first_and_those_without_last() -> None:
    def group(name: str, created: int, waiting: str | None) -> Json:
        annotations = {} if waiting is None else {"volcano.sh/sla-waiting-time": waiting}
        return {"name": name, "created": created, "annotations": annotations}

    groups = [
        group("never", 1, None),
        group("late", 2, "1h"),
        group("soon", 40, "10s"),
        group("sooner", 20, "25s"),
    ]
    assert PluginSession({"podGroups": groups}, ["sla"]).gang_order() == ["sooner", "soon", "late", "never"]
