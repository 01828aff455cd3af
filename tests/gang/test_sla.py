"""Plugin sla, beyond the shared vectors: waiting times and their effects."""

from typing import Any

import pytest

from quorate.gang.session.callbacks import Vote, all_callbacks
from tests.gang.plugin_session import Json, PluginSession


def opened(
    annotations: Json, waiting: str | None = None, profile: str = "compat", now: float = 100
) -> PluginSession:
    """Open a session with one group, created at time 90."""
    group = {"name": "a", "created": 90, "annotations": annotations, "minResources": {"cpu": 99}}
    arguments = {} if waiting is None else {"sla-waiting-time": waiting}
    return PluginSession(
        {"now": now, "podGroups": [group]}, [{"name": "sla", "arguments": arguments}], profile
    )


def votes(of: PluginSession, point: str) -> list[Any]:
    callbacks = getattr(of.session.callbacks, point)
    is_flat = point == "job_overdue"
    return [callback(of.gang("a")) for callback in (callbacks if is_flat else all_callbacks(callbacks))]


@pytest.mark.parametrize(
    ("annotations", "waiting", "enough"),
    [
        pytest.param({"volcano.sh/sla-waiting-time": "10s"}, None, True, id="exactly at the deadline"),
        pytest.param({"volcano.sh/sla-waiting-time": "10001ms"}, None, False, id="just before the deadline"),
        pytest.param({"sla-waiting-time": "5s"}, None, True, id="the legacy annotation"),
        pytest.param({}, "9s", True, id="the plugin's argument"),
        pytest.param({}, "1m", False, id="the plugin's argument, later"),
        pytest.param(
            {"volcano.sh/sla-waiting-time": "1h"}, "1s", False, id="the annotation overrides the argument"
        ),
        pytest.param(
            {"volcano.sh/sla-waiting-time": "soon"}, "1s", True, id="an invalid annotation is ignored"
        ),
        pytest.param(
            {"volcano.sh/sla-waiting-time": "-1s"}, None, False, id="an annotation of zero is ignored"
        ),
        pytest.param({"volcano.sh/sla-waiting-time": "0s"}, None, False, id="an empty annotation is ignored"),
        pytest.param({}, "0s", False, id="an argument of zero is ignored"),
        pytest.param({}, None, False, id="no waiting time"),
    ],
)
def test_the_waiting_time(annotations: Json, waiting: str | None, enough: bool) -> None:
    of = opened(annotations, waiting)
    assert votes(of, "job_enqueueable") == [Vote.PERMIT if enough else Vote.ABSTAIN]
    assert votes(of, "job_pipelined") == [Vote.PERMIT if enough else Vote.ABSTAIN]

    of = opened(annotations, waiting, "design")
    assert votes(of, "job_enqueueable") == [], "no vote on queues and quotas"
    assert votes(of, "job_overdue") == [enough]
    assert votes(of, "job_pipelined") == [Vote.PERMIT if enough else Vote.ABSTAIN]


def test_a_session_is_due_at_the_next_deadline() -> None:
    of = opened({}, "20s")
    votes(of, "job_enqueueable")
    assert of.session.wake_at == 110.0
    of = opened({}, "20s", now=110)
    votes(of, "job_enqueueable")
    assert of.session.wake_at is None


def test_job_order_by_deadline_with_groups_without_one_last() -> None:
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
