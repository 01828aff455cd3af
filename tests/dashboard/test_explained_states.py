"""States and reasons of the summaries that the controllers serve, in lists and in the overview."""

import asyncio
import logging
from typing import Any

import pytest
from msgspec.structs import replace

from quorate.api import codec
from quorate.api.configuration import default_configuration
from quorate.api.explanation import ExplanationSummary
from quorate.api.kueue import Workload
from quorate.api.meta import ObjectMeta, Uid, at_epoch
from quorate.dashboard.model import explanation_feed
from quorate.dashboard.model.explanation_feed import ExplanationFeed
from quorate.dashboard.model.model import DashboardModel
from quorate.dashboard.model.workload_index import Listed
from quorate.dashboard.queries import ADMINISTRATOR, NO_ESTIMATES, Estimates, WorkloadQuery
from quorate.dashboard.views import overview, workload_views
from quorate.kube.clock import WallClock
from tests.dashboard.objects import NOW, Cluster, a_cluster_queue, a_condition, a_workload
from tests.kube.fake_server import Answer, FakeServer, Request

ADMITTED = a_condition("Admitted", second=20)
WAITING = a_condition("quorate.dev/Waiting", reason="QuotaShort", message="cpu: short by 2")


def summary_of(workload: Workload, state: Any, code: str = "", message: str = "") -> ExplanationSummary:
    metadata = workload.metadata
    known = ObjectMeta(
        namespace=metadata.namespace, name=metadata.name, uid=metadata.uid,
        resource_version=metadata.resource_version,
    )  # fmt: skip
    return ExplanationSummary(metadata=known, state=state, code=code, message=message)


PENDING = a_workload("w", conditions=(WAITING,))
RUNS = a_workload("w", admitted_in="q", conditions=(ADMITTED,))


NEWER = a_workload("w", conditions=(WAITING,), version=2)
SINCE_ADMITTED = a_workload("w", admitted_in="q", conditions=(ADMITTED,), version=2)
SINCE_READY = a_workload("w", admitted_in="q", conditions=(ADMITTED, a_condition("PodsReady")), version=2)
NEVER = ("NeverFits", "QuotaExceeded")
STUCK = ("Stuck", "NodesLackRoom")
STARTS = ("Admitted", "PodsStarting")


@pytest.mark.parametrize(
    ("before", "now", "summary", "want"),
    [
        pytest.param(PENDING, PENDING, NEVER, NEVER, id="it can never start"),
        pytest.param(PENDING, PENDING, ("Held", "QueueInactive"), ("Held", "QueueInactive"), id="held"),
        pytest.param(RUNS, RUNS, STUCK, STUCK, id="stuck"),
        pytest.param(RUNS, RUNS, STARTS, STARTS, id="its pods start"),
        pytest.param(RUNS, RUNS, ("Running", ""), ("Running", ""), id="its pods run"),
        pytest.param(PENDING, NEWER, NEVER, NEVER, id="its status has a newer reason"),
        pytest.param(PENDING, SINCE_ADMITTED, NEVER, ("Admitted", ""), id="it was admitted since"),
        pytest.param(RUNS, SINCE_READY, STUCK, ("Running", ""), id="its pods are ready since"),
    ],
)
def test_a_summary_counts_until_the_workload_is_in_another_state(
    before: Workload, now: Workload, summary: tuple[Any, str], want: tuple[str, str]
) -> None:
    listed = Listed(now, summary_of(before, *summary))
    assert (listed.state, listed.code) == want
    other = replace(now, metadata=replace(now.metadata, uid=Uid("other")))
    stored, unknown = Listed(other), Listed(other, summary_of(before, *summary))
    assert (stored.state, stored.code) == (unknown.state, unknown.code), "it is that of another object"


def test_the_overview_counts_what_cannot_start_and_why() -> None:
    cluster = Cluster()
    cluster.put_cluster_queue(a_cluster_queue("q"))
    cluster.put_local_queue("red", "q")
    states = {
        "never": ("NeverFits", "QuotaExceeded"), "held": ("Held", "QueueInactive"),
        "waits": ("Queued", "QuotaShort"), "stuck": ("Stuck", "NodesLackRoom"),
        "slow": ("Admitted", "PodsStarting"), "runs": ("Running", ""),
    }  # fmt: skip
    summaries = {}
    for name, (state, code) in states.items():
        has_quota = name in ("stuck", "slow", "runs")
        workload = (
            a_workload(name, admitted_in="q", conditions=(ADMITTED,)) if has_quota else a_workload(name)
        )
        cluster.put(workload)
        summaries[workload.metadata.key] = summary_of(workload, state, code, f"because of {code}")
    workloads = cluster.data.workloads
    changed = workloads.set_summaries(summaries)
    assert sorted(changed) == sorted(summaries)
    assert {key.name for key in changed if workloads.refresh(key)} == states.keys()
    assert workloads.set_summaries(dict(summaries)) == []

    seen = overview.overview(cluster.data, ADMINISTRATOR, NOW)
    counts = seen.counts
    assert (counts.pending, counts.reserving, counts.admitted) == (3, 0, 3)
    assert counts.states == dict.fromkeys(sorted(state for state, _ in states.values()), 1)
    assert {each.code: each.example for each in seen.reasons} == {
        code: f"because of {code}" for _, code in states.values() if code
    }
    page = workload_views.workloads(cluster.data, ADMINISTRATOR, WorkloadQuery(sort="position"), NO_ESTIMATES)
    assert [row.name for row in page.items if row.position is not None] == ["waits"]
    estimates = Estimates(None, dict.fromkeys(summaries, (at_epoch(1), at_epoch(2))))
    page = workload_views.workloads(cluster.data, ADMINISTRATOR, WorkloadQuery(), estimates)
    assert [row.name for row in page.items if row.starts_p50 is not None] == ["waits"]


def test_workloads_of_a_queue_that_admits_nothing_are_held_before_a_summary_says_so() -> None:
    cluster = Cluster()
    cluster.put_cluster_queue(a_cluster_queue("q", stopPolicy="Hold"))
    cluster.put_local_queue("red", "q")
    cluster.put(PENDING)
    counts = overview.overview(cluster.data, ADMINISTRATOR, NOW).counts
    assert (counts.pending, counts.states) == (1, {"Held": 1})
    for state, names in (("Held", ["w"]), ("Queued", [])):
        query = WorkloadQuery(state=state)
        page = workload_views.workloads(cluster.data, ADMINISTRATOR, query, NO_ESTIMATES)
        assert [row.name for row in page.items] == names
    query = WorkloadQuery(code="QueueInactive")
    for text in ("ClusterQueue q is inactive", "it was evicted; ClusterQueue q is inactive"):
        page = workload_views.workloads(cluster.data, ADMINISTRATOR, query, NO_ESTIMATES)
        assert [row.reason for row in page.items] == [text]
        served = summary_of(PENDING, "Held", "QueueInactive", "it was evicted; ClusterQueue q is inactive")
        cluster.data.workloads.set_summaries({PENDING.metadata.key: served})
        cluster.data.workloads.refresh(PENDING.metadata.key)
    cluster.data.workloads.set_summaries({})
    cluster.data.workloads.refresh(PENDING.metadata.key)
    cluster.put_cluster_queue(a_cluster_queue("q"))
    assert overview.overview(cluster.data, ADMINISTRATOR, NOW).counts.states == {"Queued": 1}


def test_each_time_that_the_controllers_stop_to_answer_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)  # an earlier test may have left a higher one
    served = False

    def answer(request: Request) -> Answer:
        if request.path.endswith("/workloads"):
            return Answer(200, {"items": [codec.to_builtins(PENDING)]})
        return Answer(200, {"items": []}) if served else Answer(404)

    async def story() -> list[int]:
        nonlocal served
        lines = []
        async with FakeServer(answer) as server, server.client() as client:
            model = DashboardModel(WallClock(), default_configuration(), lambda informers, data: None)
            feed = ExplanationFeed(model, client, WallClock(), lambda: True)
            for is_served in (False, False, True, False):
                served = is_served
                await feed.refresh()
                # An earlier test may have made the access log of servers visible.
                lines.append(sum(record.name == explanation_feed.__name__ for record in caplog.records))
        return lines

    assert asyncio.run(story()) == [1, 1, 1, 2]
