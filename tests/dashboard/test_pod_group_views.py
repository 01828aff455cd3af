"""Pod groups and their queues: phases, reasons, filters, and what a tenant sees."""

from typing import Any

import pytest
from msgspec.structs import replace

from quorate.dashboard.queries import ADMINISTRATOR, PodGroupQuery
from quorate.dashboard.views import overview, pod_group_views, search
from tests.dashboard.objects import NOW, Cluster, a_condition, tenant


def gangs() -> Cluster:
    cluster = Cluster()
    cluster.put_gang_queue("root")
    cluster.put_gang_queue(
        "research",
        spec={"weight": 3, "deserved": {"cpu": "4"}, "capability": {"cpu": "10"}},
        status={"state": "Open", "allocated": {"cpu": "2500m"}},
    )
    cluster.put_gang_queue("other", spec={"parent": "research"})
    short = a_condition("Unschedulable", reason="NotEnoughResources", message="cpu: need 4, see blue/runs")
    waiting = {"phase": "Pending", "conditions": [short]}
    cluster.put_pod_group("waits", "red", labels={"team": "vision"},
                          spec={"minMember": 4, "queue": "research"}, status=waiting)  # fmt: skip
    running = {"phase": "Running", "running": 2, "failed": 1}
    cluster.put_pod_group("runs", "blue", spec={"minMember": 3, "queue": "other"}, status=running)
    cluster.put_pod_group("new", "blue", spec={"minMember": 1})
    return cluster


def with_native() -> Cluster:
    cluster = gangs()
    gang = {"schedulingPolicy": {"gang": {"minCount": 3}}}
    cluster.put_native_group("runs", "blue", spec=gang)
    return cluster


def names(cluster: Cluster, viewer: Any = ADMINISTRATOR, **query: Any) -> str:
    found = pod_group_views.pod_groups(cluster.data, viewer, PodGroupQuery(**query))
    return " ".join(row.name for row in found.items)


def test_a_native_group_beside_one_of_the_same_name_needs_its_own_permission() -> None:
    cluster = with_native()
    assert names(cluster, sort="name") == "new runs scheduling.k8s.io/runs waits"
    for volcano, native, want in (
        (None, frozenset(), "new runs waits"),
        (frozenset(), None, "scheduling.k8s.io/runs"),
    ):
        viewer = replace(ADMINISTRATOR, pod_group_namespaces=volcano, native_group_namespaces=native)
        assert names(cluster, viewer, sort="name") == want
        hits = search.search(cluster.data, viewer, "runs", 10).hits
        assert [hit.name for hit in hits] == [name for name in want.split() if "runs" in name]


@pytest.mark.parametrize(
    ("query", "want"),
    [
        pytest.param({"sort": "name"}, "new runs waits", id="by namespace and name"),
        pytest.param({"sort": "-members"}, "waits runs new", id="the largest first"),
        pytest.param({"phase": "Pending", "sort": "name"}, "new waits", id="no phase is Pending"),
        pytest.param({"queue": "other"}, "runs", id="of a queue"),
        pytest.param({"namespace": "red"}, "waits", id="of a namespace"),
        pytest.param({"q": "VISION"}, "waits", id="by a label"),
        pytest.param({"sort": "name", "offset": 1, "limit": 1}, "runs", id="a page"),
    ],
)
def test_a_page_has_what_matches(query: dict[str, Any], want: str) -> None:
    assert names(gangs(), **query) == want


def test_a_row_says_why_a_group_waits() -> None:
    found = pod_group_views.pod_groups(gangs().data, ADMINISTRATOR, PodGroupQuery(sort="name"))
    rows = {row.name: row for row in found.items}
    assert rows["waits"].reason == "cpu: need 4, see blue/runs"
    assert rows["new"].reason == "its phase is Pending"
    assert (rows["runs"].reason, rows["runs"].running, rows["runs"].failed, rows["runs"].pending) == (
        "",
        2,
        1,
        0,
    )
    assert (rows["waits"].pending, rows["waits"].min_member) == (4, 4)


def test_a_tenant_sees_its_own_groups_and_their_queues() -> None:
    cluster, red = gangs(), tenant("red")
    cluster.data.state.put_namespace("blue", {})
    assert names(cluster, red) == "waits"
    (row,) = pod_group_views.pod_groups(cluster.data, red, PodGroupQuery()).items
    assert row.reason == "cpu: need 4, see a workload that you may not read"
    assert [each.name for each in pod_group_views.gang_queues(cluster.data, red)] == ["research"]
    assert overview.overview(cluster.data, red, NOW).pod_groups == {"Pending": 1}
    assert overview.overview(cluster.data, ADMINISTRATOR, NOW).pod_groups == {"Pending": 2, "Running": 1}


def test_a_queue_has_its_amounts_and_the_phases_of_its_groups() -> None:
    rows = {row.name: row for row in pod_group_views.gang_queues(gangs().data, ADMINISTRATOR)}
    assert list(rows) == ["other", "research", "root"]
    research = rows["research"]
    assert (research.parent, research.state, research.weight) == ("root", "Open", 3)
    assert {name: amount.value for name, amount in research.allocated.items()} == {"cpu": 2.5}
    assert research.deserved["cpu"].quantity == "4"
    assert research.capability["cpu"].value == 10
    assert research.pod_groups == {"Pending": 1}
    assert (rows["root"].parent, rows["other"].parent) == ("", "research")
