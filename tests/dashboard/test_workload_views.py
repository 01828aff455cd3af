"""Pages of workloads: states, reasons, positions, filters and orders."""

from typing import Any

import pytest

from quorate.api.kueue import Workload
from quorate.api.meta import Key, at_epoch
from quorate.dashboard.model.workload_index import Listed
from quorate.dashboard.queries import ADMINISTRATOR, NO_ESTIMATES, Estimates, WorkloadQuery
from quorate.dashboard.schema import WorkloadRow
from quorate.dashboard.views import workload_views
from tests.dashboard.objects import Cluster, a_cluster_queue, a_condition, a_workload, tenant, two_tenants

ADMITTED = a_condition("Admitted", second=20)
EVICTED = a_condition("Evicted", reason="Preempted", message="for x", second=30)


def no_quota(message: str) -> Any:
    return a_condition("QuotaReserved", "False", "Pending", message)


@pytest.mark.parametrize(
    ("workload", "want"),
    [
        pytest.param(a_workload("w"), ("Queued", 1, "PendingEvaluation", "not evaluated yet"), id="new"),
        pytest.param(
            a_workload(
                "w",
                conditions=(
                    no_quota("no quota"),
                    a_condition("quorate.dev/Waiting", reason="QuotaShort", message="cpu: short by 2"),
                ),
            ),
            ("Queued", 1, "QuotaShort", "no quota"),
            id="waiting, with the typed reason and its numbers",
        ),
        pytest.param(
            a_workload("w", conditions=(no_quota("no quota"),)),
            ("Queued", 1, "Pending", "no quota"),
            id="waiting, by controllers that write no typed reason",
        ),
        pytest.param(
            a_workload(
                "w", admitted_in="q",
                admissionChecks=[{"name": "license", "state": "Pending", "message": ""}],
            ),
            ("Held", 1, "AdmissionCheckPending", "it has quota, and waits for admission checks: license"),
            id="with quota, and an admission check that is not ready",
        ),
        pytest.param(
            a_workload("w", pods=2, admitted_in="q", conditions=(ADMITTED,)), ("Admitted", 20, "", ""),
            id="admitted",
        ),
        pytest.param(
            a_workload(
                "w", admitted_in="q", conditions=(ADMITTED, a_condition("PodsReady", second=25))
            ),
            ("Running", 20, "", ""),
            id="its pods were ready",
        ),
        pytest.param(
            a_workload("w", conditions=(EVICTED, no_quota("for x"))),
            ("Queued", 1, "Preempted", "it was preempted for another workload; it is queued again"),
            id="evicted",
        ),
        pytest.param(
            a_workload(
                "w",
                conditions=(
                    EVICTED,
                    no_quota("no quota"),
                    a_condition("quorate.dev/Waiting", reason="QuotaShort", message="cpu: short by 2"),
                ),
            ),
            (
                "Queued", 1, "QuotaShort",
                "it was preempted for another workload; it is queued again: no quota",
            ),
            id="evicted, and evaluated again since",
        ),
        pytest.param(
            a_workload(
                "w", active=False,
                conditions=(a_condition("Evicted", reason="DeactivatedDueToX", message="x", second=40),),
            ),
            (
                "Deactivated", 40, "DeactivatedDueToX",
                "it is deactivated: the controllers set spec.active to false: x",
            ),
            id="deactivated",
        ),
        pytest.param(
            a_workload("w", admitted_in="q", conditions=(ADMITTED, a_condition("Finished", second=50))),
            ("Finished", 50, "", ""),
            id="finished",
        ),
    ],
)  # fmt: skip
def test_state_and_reason(workload: Workload, want: tuple[str, int, str, str]) -> None:
    listed = Listed(workload)
    assert (listed.state, listed.since, listed.code, listed.message) == (
        want[0],
        at_epoch(want[1]),
        *want[2:],
    )


def page(cluster: Cluster, viewer: Any = ADMINISTRATOR, **query: Any) -> list[WorkloadRow]:
    return list(workload_views.workloads(cluster.data, viewer, WorkloadQuery(**query), NO_ESTIMATES).items)


def names(cluster: Cluster, viewer: Any = ADMINISTRATOR, **query: Any) -> str:
    return " ".join(row.name for row in page(cluster, viewer, **query))


def many() -> Cluster:
    cluster = two_tenants()
    cluster.put(
        a_workload("urgent", "red", cpu="1", second=40, priority=100, labels={"team": "vision", "size": "S"}),
        a_workload("Late", "red", cpu="1", second=50, labels={"team": "speech"}),
        a_workload("blocked", "blue", cpu="1", second=41),
    )
    return cluster


@pytest.mark.parametrize(
    ("query", "want"),
    [
        pytest.param({}, "Late blocked urgent waits runs borrows", id="the newest first"),
        pytest.param({"sort": "created"}, "borrows runs waits urgent blocked Late", id="the oldest first"),
        pytest.param({"sort": "name"}, "blocked borrows Late runs urgent waits", id="by namespace and name"),
        pytest.param({"sort": "-name"}, "waits urgent runs Late borrows blocked", id="the other way round"),
        pytest.param({"sort": "-priority"}, "urgent blocked borrows Late runs waits", id="by priority"),
        pytest.param(
            {"sort": "position", "cluster_queue": "red-queue"}, "urgent waits Late runs",
            id="in the order of the queue, then what does not wait",
        ),
        pytest.param({"state": "Admitted"}, "runs borrows", id="of a state"),
        pytest.param({"cluster_queue": "blue-queue"}, "blocked borrows", id="of a cluster queue"),
        pytest.param({"namespace": "blue"}, "blocked borrows", id="of a namespace"),
        pytest.param({"local_queue": "other"}, "", id="of a local queue without any"),
        pytest.param({"q": "LATE"}, "Late", id="by a part of the name, whatever its case"),
        pytest.param({"q": "job-urg"}, "urgent", id="by the name of the job"),
        pytest.param({"q": "vision"}, "urgent", id="by the value of a label"),
        pytest.param({"label": "team"}, "Late urgent", id="with a label"),
        pytest.param({"label": "team=speech"}, "Late", id="with a label of a value"),
        pytest.param({"limit": 2, "offset": 1}, "blocked urgent", id="a page"),
        pytest.param({"limit": 0}, "", id="no rows, only the total"),
    ],
)  # fmt: skip
def test_a_page_has_what_matches_in_the_order_asked_for(query: dict[str, Any], want: str) -> None:
    assert names(many(), **query) == want


def test_a_page_has_the_workloads_that_wait_for_one_reason() -> None:
    cluster = many()
    short = a_condition("quorate.dev/Waiting", reason="QuotaShort", message="short")
    cluster.put(a_workload("waits", "red", cpu="1", conditions=(no_quota("short"), short)))
    assert names(cluster, code="QuotaShort") == "waits"
    assert names(cluster, code="NodesLackRoom") == ""


def test_a_tenant_gets_rows_and_totals_of_its_own_workloads() -> None:
    cluster = many()
    found = workload_views.workloads(cluster.data, tenant("blue"), WorkloadQuery(limit=1), NO_ESTIMATES)
    assert ([row.name for row in found.items], found.total) == (["blocked"], 2)
    assert names(cluster, tenant("blue"), q="urgent") == ""
    assert names(cluster, tenant(), q="") == ""


def test_a_row_has_the_position_in_the_queue_and_the_estimated_start() -> None:
    cluster, key = many(), Key("red", "waits")
    estimates = Estimates(
        at=at_epoch(7), starts={key: (at_epoch(60), at_epoch(90)), Key("red", "runs"): (at_epoch(1), None)}
    )
    found = workload_views.workloads(cluster.data, ADMINISTRATOR, WorkloadQuery(namespace="red"), estimates)
    rows = {row.name: row for row in found.items}
    assert {name: row.position for name, row in rows.items()} == {
        "Late": 2, "urgent": 0, "waits": 1, "runs": None,
    }  # fmt: skip
    assert (rows["waits"].starts_p50, rows["waits"].starts_p90) == (at_epoch(60), at_epoch(90))
    assert rows["runs"].starts_p50 is None  # it has started
    assert found.forecast_at == at_epoch(7)
    assert (rows["runs"].pods, rows["runs"].admitted_pods, rows["waits"].admitted_pods) == (1, 1, None)
    assert (rows["runs"].job_kind, rows["runs"].job_name) == ("Job", "job-runs")


def test_a_workload_moves_with_its_local_queue() -> None:
    cluster = two_tenants()
    cluster.put_cluster_queue(a_cluster_queue("other"))
    cluster.put_local_queue("red", "other")
    assert names(cluster, cluster_queue="other") == "waits"
    assert names(cluster, cluster_queue="red-queue") == "runs"  # where it has its quota


def test_messages_name_no_workload_that_the_caller_may_not_read() -> None:
    cluster = two_tenants()
    text = (
        "waiting for blue/borrows, admitted to flavor default, to be in PodsReady condition; nvidia.com/gpu"
    )
    cluster.put(a_workload("waits", "red", conditions=(no_quota(text),)))
    (row,) = page(cluster, tenant("red"), state="Queued")
    assert row.reason == text.replace("blue/borrows", "a workload that you may not read")
    assert page(cluster, tenant("red", "blue"), state="Queued")[0].reason == text
    assert page(cluster, state="Queued")[0].reason == text


def test_the_order_does_not_depend_on_the_order_of_arrival() -> None:
    workloads = [listed.workload for listed in many().data.workloads.by_key.values()]
    shuffled = many()
    for each in workloads:
        shuffled.remove(each.metadata.key)
    shuffled.put(*reversed(workloads))
    for sort in workload_views.SORTS:
        assert names(shuffled, sort=sort) == names(many(), sort=sort), sort


def test_the_number_of_lists_that_are_kept_is_bounded() -> None:
    cluster = many()
    for number in range(1_000):
        names(cluster, q=f"word-{number}")
    assert len(cluster.data._answers["workloads"]) == 64
    computed: list[str] = []

    def ask(word: str) -> None:
        cluster.data.remembered(("workloads", word), 1, lambda: computed.append(word))

    for number in range(200):
        ask("often")
        ask(f"once-{number}")
    assert computed.count("often") == 1  # what is read again is kept
