"""Action enqueue in profile ``compat``: Volcano's rules and messages."""

import pytest

from tests.gang.enqueue_worlds import (
    Json,
    group,
    rq,
)
from tests.gang.vectors import settings_of
from tests.gang.world import World, key_of


@pytest.mark.parametrize(
    ("given", "plugins", "want"),
    [
        pytest.param(
            {"quotas": [rq({"cpu": 4}, {"cpu": 1})]}, ["resourcequota"],
            "resource quota insufficient, requested: cpu=5, used: cpu=1, limited: cpu=4", id="quota",
        ),
        pytest.param({}, ["overcommit"], "resource in cluster is overused: overused cpu", id="cluster"),
        pytest.param(
            {}, ["proportion"], "queue resource quota insufficient: insufficient cpu", id="queue"
        ),
        pytest.param(
            {"queues": [{"name": "default", "state": "Closed"}]}, ["proportion"],
            "queue default is not open", id="closed",
        ),
    ],
)  # fmt: skip
def test_the_event_of_a_rejection_has_volcanos_message(given: Json, plugins: list[str], want: str) -> None:
    conf = {"actions": "enqueue", "tiers": [["gang", *plugins]]}
    objects = {"nodes": [{"name": "n1", "cpu": 4}], "podGroups": [group("a", "5")], **given}
    here = World(objects, settings_of(conf, "compat"), restarting=False)
    (notice,) = here.session().events
    assert (notice.type, notice.reason, notice.message) == ("Normal", "Unschedulable", want)
    assert here.groups[key_of("a")].status.conditions == ()
    assert here.session().events == ()
