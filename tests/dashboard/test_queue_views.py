"""Totals of queues, what is borrowed and lent, and what a tenant sees of queues that it shares."""

from msgspec.structs import replace

from quorate.api import codec
from quorate.api.kueue import Cohort
from quorate.api.kueue.multikueue import MultiKueueCluster
from quorate.api.meta import Key, at_epoch
from quorate.api.quorate import Reservation
from quorate.dashboard.limits import MAX_DEPTH
from quorate.dashboard.queries import ADMINISTRATOR, Viewer
from quorate.dashboard.schema import CohortNode, Counts, QuotaUse
from quorate.dashboard.views import overview, queue_views
from quorate.queueing.planning.announced_starts import AnnouncedStart
from tests.dashboard.objects import (
    NOW,
    Cluster,
    a_cluster_queue,
    a_condition,
    a_workload,
    tenant,
    two_tenants,
)


def amounts(quota: QuotaUse) -> dict[str, float]:
    names = ("nominal", "reserved", "admitted", "borrowed", "lent")
    return {name: getattr(quota, name).value for name in names}


def test_what_one_queue_borrows_the_other_lends() -> None:
    (root,) = overview.overview(two_tenants().data, ADMINISTRATOR, NOW).cohorts
    assert root.name == "all"
    assert amounts(root.quota[0]) == {"nominal": 8, "reserved": 8, "admitted": 8, "borrowed": 0, "lent": 0}
    blue, red = root.cluster_queues
    assert (blue.name, red.name) == ("blue-queue", "red-queue")
    assert amounts(blue.quota[0]) == {"nominal": 4, "reserved": 6, "admitted": 6, "borrowed": 2, "lent": 0}
    assert amounts(red.quota[0]) == {"nominal": 4, "reserved": 2, "admitted": 2, "borrowed": 0, "lent": 2}
    assert (red.pending, red.reserving, red.admitted) == (1, 1, 1)


def test_quota_lent_by_several_is_counted_in_proportion_to_what_they_do_not_use() -> None:
    cluster = Cluster()
    for name, cpu in (("lends-most", "6"), ("lends-some", "3"), ("borrows", "1"), ("keeps", "5")):
        limit = {"lendingLimit": "0"} if name == "keeps" else {}
        quota = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": cpu, **limit}]}
        groups = [{"coveredResources": ["cpu"], "flavors": [quota]}]
        cluster.put_cluster_queue(a_cluster_queue(name, cohort="all", resourceGroups=groups))
    cluster.put_local_queue("red", "borrows")
    cluster.put(a_workload("large", cpu="4", admitted_in="borrows"))
    lent = {
        each.name: each.quota[0].lent.value
        for each in queue_views.cluster_queues(cluster.data, ADMINISTRATOR, NOW)
    }
    assert lent == {"borrows": 0, "keeps": 0, "lends-most": 2, "lends-some": 1}
    found = queue_views.cluster_queue(cluster.data, ADMINISTRATOR, "borrows", NOW, ())
    assert found is not None
    assert found.borrows_from == ("lends-most", "lends-some")
    lender = queue_views.cluster_queue(cluster.data, ADMINISTRATOR, "lends-some", NOW, ())
    assert lender is not None
    assert lender.lends_to == ("borrows",)


def test_a_tenant_sees_its_queue_and_its_own_reasons_only() -> None:
    cluster = two_tenants()
    cluster.put_local_queue("green", "red-queue")
    waiting = a_condition("quorate.dev/Waiting", reason="QuotaShort", message="short of something secret")
    cluster.put(a_workload("other", "green", conditions=(waiting,)))
    red = tenant("red")
    assert [each.name for each in queue_views.cluster_queues(cluster.data, red, NOW)] == ["red-queue"]
    assert queue_views.cluster_queue(cluster.data, red, "blue-queue", NOW, ()) is None
    found = queue_views.cluster_queue(cluster.data, red, "red-queue", NOW, ())
    assert found is not None
    assert found.summary.pending == 2  # a total
    assert [(each.code, each.workloads) for each in found.summary.reasons] == [("PendingEvaluation", 1)]
    assert [(each.namespace, each.name) for each in found.local_queues] == [("red", "queue")]
    assert found.lends_to == ()  # not even the name of blue-queue
    seen = overview.overview(cluster.data, red, NOW)
    assert seen.counts == Counts(pending=1, reserving=0, admitted=1, states={"Admitted": 1, "Queued": 1})
    assert seen.nodes is None
    assert [[each.name for each in cohort.cluster_queues] for cohort in seen.cohorts] == [["red-queue"]]


def test_a_workload_in_a_queue_that_admits_nothing_waits_for_the_queue() -> None:
    cluster = two_tenants()
    cluster.put_cluster_queue(a_cluster_queue("red-queue", cohort="all", stopPolicy="Hold"))
    summary = queue_views.cluster_queues(cluster.data, ADMINISTRATOR, NOW)[1]
    assert (summary.active, summary.stop_policy) == (False, "Hold")
    assert summary.inactive_reason == "Can't admit new workloads: is stopped."
    assert [(each.code, each.example) for each in summary.reasons] == [
        ("QueueInactive", "ClusterQueue red-queue is inactive")
    ]


def test_cluster_queues_without_a_cohort_are_listed_apart() -> None:
    cluster = two_tenants()
    cluster.put_cluster_queue(a_cluster_queue("alone"))
    trees = overview.overview(cluster.data, ADMINISTRATOR, NOW).cohorts
    assert [(tree.name, [each.name for each in tree.cluster_queues]) for tree in trees] == [
        ("all", ["blue-queue", "red-queue"]),
        ("", ["alone"]),
    ]


def test_a_deep_tree_of_cohorts_is_shown_with_a_bounded_depth() -> None:
    cluster = two_tenants()
    for number in range(200):
        cohort = {"metadata": {"name": f"c{number}"}, "spec": {"parentName": f"c{number + 1}"}}
        cluster.data.state.put_cohort(codec.convert(Cohort, cohort))
    cluster.put_cluster_queue(a_cluster_queue("deep", cohort="c0"))

    def depth(node: CohortNode) -> int:
        return 1 + max(map(depth, node.cohorts), default=0)

    trees = overview.overview(cluster.data, ADMINISTRATOR, NOW).cohorts
    assert max(map(depth, trees)) == MAX_DEPTH + 1
    shown = [trees[-1]]
    for node in shown:
        shown.extend(node.cohorts)
    assert {"c0", "c199"} <= {node.name for node in shown}


def test_the_revision_decides_whether_an_answer_is_computed_again() -> None:
    cluster = two_tenants()
    first = overview.overview(cluster.data, ADMINISTRATOR, NOW)
    later = overview.overview(cluster.data, ADMINISTRATOR, NOW + 5)
    assert later.cohorts is first.cohorts
    assert later.at != first.at
    cluster.remove(Key("red", "waits"))
    assert overview.overview(cluster.data, ADMINISTRATOR, NOW).counts.pending == 0


def planned_at(second: int) -> dict[str, object]:
    announced = AnnouncedStart(
        at=NOW + second, origin="Declared", ended=1, made_at=NOW, planned_at=NOW + second
    )
    return {
        "type": "quorate.dev/PlannedStart",
        "status": "True",
        "reason": "Planned",
        "message": announced.message,
    }


def test_a_queue_that_plans_starts_has_a_schedule() -> None:
    cluster = Cluster()
    queue = a_cluster_queue("batch")
    metadata = replace(queue.metadata, annotations={"quorate.dev/backfill": "EASY"})
    cluster.put_cluster_queue(replace(queue, metadata=metadata))
    for namespace in ("red", "blue"):
        cluster.put_local_queue(namespace, "batch")
    admitted = a_condition("Admitted")
    runs = a_workload("runs", cpu="2", admitted_in="batch", conditions=(admitted,))
    bounded = replace(runs, spec=replace(runs.spec, maximum_execution_time_seconds=600))
    open_ended = a_workload("open", "blue", cpu="1", admitted_in="batch", conditions=(admitted,))
    large = a_workload("large", cpu="4", conditions=(planned_at(500),))
    large = replace(large, spec=replace(large.spec, maximum_execution_time_seconds=60))
    cluster.put(
        bounded, open_ended, large, a_workload("other", "blue", cpu="4", conditions=(planned_at(560),))
    )

    def shown(viewer: Viewer) -> list[tuple[str, str, bool]]:
        detail = queue_views.cluster_queue(cluster.data, viewer, "batch", NOW, ())
        assert detail is not None
        return [(row.name, row.state, row.ends is not None) for row in detail.schedule]

    of_red = [("runs", "Running", True), ("large", "Planned", True)]
    of_blue = [("open", "Running", False), ("other", "Planned", False)]
    assert sorted(shown(ADMINISTRATOR)) == sorted([*of_red, *of_blue])
    assert shown(tenant("red")) == of_red
    detail = queue_views.cluster_queue(cluster.data, ADMINISTRATOR, "batch", NOW, ())
    assert detail is not None
    (planned,) = [row for row in detail.schedule if row.name == "large"]
    assert (planned.starts, planned.ends) == (at_epoch(NOW + 500), at_epoch(NOW + 560))
    assert (planned.origin, planned.was, planned.cause) == ("Declared", None, "")


def test_a_schedule_has_the_windows_of_reservations_that_concern_the_queue() -> None:
    cluster, now = two_tenants(), 1_800_000_000.0  # a Reservation begins after the year 2000
    for name, flavor in (("maintenance", "default"), ("elsewhere", "gpu")):
        spec = {
            "start": at_epoch(now + 600),
            "durationSeconds": 60,
            "purpose": "Maintenance",
            "amounts": [{"flavor": flavor, "resources": {"cpu": "1"}}],
        }
        cluster.data.state.put_window(codec.convert(Reservation, {"metadata": {"name": name}, "spec": spec}))

    def shown(viewer: Viewer) -> list[tuple[str, str, object, object]]:
        detail = queue_views.cluster_queue(cluster.data, viewer, "red-queue", now, ())
        assert detail is not None
        return [(row.name, row.cause, row.starts, row.ends) for row in detail.schedule if not row.namespace]

    window = ("maintenance", "Maintenance", at_epoch(now + 600), at_epoch(now + 660))
    assert shown(ADMINISTRATOR) == [window]
    assert shown(tenant("red")) == []


def test_a_queue_that_plans_nothing_has_no_schedule() -> None:
    found = queue_views.cluster_queue(two_tenants().data, ADMINISTRATOR, "red-queue", NOW, ())
    assert found is not None
    assert found.schedule == ()


def test_worker_clusters_are_shown_with_their_workloads_to_administrators_only() -> None:
    cluster = two_tenants()
    lost = a_condition("Active", "False", "ClientConnectionFailed", "refused", second=3)
    for name, conditions in (("east", [a_condition("Active")]), ("west", [lost]), ("new", [])):
        body = {"metadata": {"name": name}, "status": {"conditions": conditions}}
        cluster.data.worker_clusters[name] = codec.convert(MultiKueueCluster, body)
    there = a_workload("there", admitted_in="red-queue")
    waiting = a_workload("waiting", admitted_in="red-queue")
    cluster.put(replace(there, status=replace(there.status, cluster_name="east")))
    both = replace(waiting.status, nominated_cluster_names=("east", "west"))
    cluster.put(replace(waiting, status=both))
    shown = overview.overview(cluster.data, ADMINISTRATOR, NOW).worker_clusters
    assert [(each.name, each.connected, each.message) for each in shown] == [
        ("east", True, ""), ("new", None, ""), ("west", False, "refused"),
    ]  # fmt: skip
    assert [(each.workloads, each.nominated) for each in shown] == [(1, 1), (0, 0), (0, 1)]
    assert overview.overview(cluster.data, tenant("red"), NOW).worker_clusters == ()
