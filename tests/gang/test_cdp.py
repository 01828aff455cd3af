"""Plugin cdp: a pod is no victim in the first minutes that it runs."""

import pytest

from quorate.gang.actions.whole_gang_eviction import is_evictable
from tests.gang.plugin_session import Json, PluginSession

COOLDOWN = "volcano.sh/cooldown-time"
PREEMPTABLE = {"volcano.sh/preemptable": "true"}
STARTED = 1000.0


def opened(now: float, **more: object) -> PluginSession:
    """Open a session at ``now`` with a running pod of group a and a pending one of group b."""
    running: Json = {
        "name": "old",
        "group": "a",
        "node": "n1",
        "phase": "Running",
        "started": STARTED,
        "cpu": 1,
    }
    world = {
        "now": now,
        "nodes": [{"name": "n1", "cpu": 4}],
        "podGroups": [{"name": "a", "minMember": 0, "annotations": PREEMPTABLE}, {"name": "b"}],
        "pods": [{**running, **more}, {"name": "new", "group": "b", "cpu": 1}],
    }
    return PluginSession(world, ["cdp"])


@pytest.mark.parametrize(
    ("pod", "now", "protected"),
    [
        pytest.param({"annotations": {COOLDOWN: "5m"}}, STARTED + 299, True, id="before its end"),
        pytest.param({"annotations": {COOLDOWN: "5m"}}, STARTED + 300, False, id="at its end"),
        pytest.param({"labels": {COOLDOWN: "5m"}}, STARTED + 1, True, id="as a label"),
        pytest.param({"labels": {COOLDOWN: "5s"}, "annotations": {COOLDOWN: "5m"}}, STARTED + 6, False,
                     id="the label overrides the annotation"),
        pytest.param({}, STARTED + 1, False, id="no cooldown time"),
        pytest.param({"annotations": {COOLDOWN: "soon"}}, STARTED + 1, False, id="not a duration"),
        pytest.param({"annotations": {COOLDOWN: "5m"}, "phase": "Pending"}, STARTED + 1, False,
                     id="a pod that does not run yet"),
    ],
)  # fmt: skip
def test_victims(pod: Json, now: float, protected: bool) -> None:
    session = opened(now, **pod)
    want = [] if protected else ["old"]
    assert session.preemptable("new", ["old"]) == want
    assert session.reclaimable("new", ["old"]) == want


@pytest.mark.parametrize(("now", "evictable"), [(STARTED + 299, False), (STARTED + 300, True)])
def test_a_gang_with_a_protected_pod_is_not_evicted_as_a_whole(now: float, evictable: bool) -> None:
    of = opened(now, annotations={COOLDOWN: "5m"}, preemptable=True)
    assert is_evictable(of.session, of.gang("a")) == evictable


def test_a_session_is_due_when_the_protection_ends() -> None:
    session = opened(STARTED + 10, annotations={COOLDOWN: "5m"})
    session.preemptable("new", ["old"])
    assert session.session.wake_at == STARTED + 300
