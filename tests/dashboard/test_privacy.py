"""A tenant sees nothing of another tenant: no name, namespace, label or message, in any answer."""

from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.api import codec
from quorate.api.meta import Key
from quorate.dashboard.model.changes import Changed, ChangeFeed
from quorate.dashboard.queries import NO_ESTIMATES, PodGroupQuery, Viewer, WorkloadQuery
from quorate.dashboard.views import (
    node_views,
    overview,
    pod_group_views,
    queue_views,
    search,
    workload_views,
)
from quorate.queueing.explanation.scope import Scope
from quorate.queueing.inadmissible_reasons import (
    AwaitingOtherPreemption,
    AwaitingPodsReady,
    AwaitingPreemption,
    NoLongerFits,
    TargetsOverlap,
    inadmissible_message,
)
from quorate.queueing.typed_reasons import waiting_condition
from tests.dashboard.objects import NOW, Cluster, a_cluster_queue, a_condition, a_workload
from tests.kube.virtual_clock import VirtualClock

# Each word of an object says its namespace, so that a text search finds what must not be there.
NAMESPACES = ("ns-amber", "ns-blue", "ns-coral")
STATES = ("new", "waits", "reserves", "admitted", "evicted", "stopped", "finished")


def secret(namespace: str, what: str) -> str:
    return f"{what}-of-{namespace.removeprefix('ns-')}"


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    cluster = Cluster()
    cohorts = st.sampled_from(("", "all"))
    for name in ("shared", *(secret(namespace, "queue") for namespace in NAMESPACES)):
        cluster.put_cluster_queue(a_cluster_queue(name, cohort=draw(cohorts), stopPolicy=draw(
            st.sampled_from(("None", "None", "Hold")))))  # fmt: skip
    for namespace in NAMESPACES:
        for number in range(draw(st.integers(0, 3))):
            target = draw(st.sampled_from(("shared", secret(namespace, "queue"), "missing")))
            cluster.put_local_queue(namespace, target, secret(namespace, f"lq{number}"))
        cluster.data.state.put_namespace(namespace, {})
        cluster.put_gang_queue(secret(namespace, "vcqueue"))
        cluster.put_pod_group(
            secret(namespace, "gang"),
            namespace,
            labels={secret(namespace, "key"): secret(namespace, "value")},
            spec={"queue": draw(st.sampled_from(("default", secret(namespace, "vcqueue"))))},
            status={"phase": draw(st.sampled_from(("", "Pending", "Running"))), "conditions": [
                a_condition("Unschedulable", reason="x", message=secret(namespace, "message"))]},
        )  # fmt: skip
    keys = [
        Key(namespace, secret(namespace, f"w{number}"))
        for namespace in NAMESPACES
        for number in range(draw(st.integers(0, 3)))
    ]
    for key in keys:
        cluster.put(draw(workloads(key, st.sampled_from(keys))))
    cluster.put_node("node-of-all")
    return cluster


@st.composite
def workloads(draw: st.DrawFn, key: Key, others: st.SearchStrategy[Key]) -> Any:
    namespace = key.namespace
    reason = draw(
        st.one_of(
            st.builds(AwaitingPodsReady, others, st.sampled_from((None, "default"))),
            st.builds(NoLongerFits, others, st.just(())),
            st.builds(TargetsOverlap, others, others),
            st.builds(AwaitingPreemption, st.tuples(others)),
            st.builds(AwaitingOtherPreemption, st.tuples(others, others)),
        )
    )
    message = f"{inadmissible_message([reason])}; preceded by {draw(others)}; {secret(namespace, 'message')}"
    state = draw(st.sampled_from(STATES))
    conditions: list[Any] = []
    if state in ("waits", "evicted"):
        conditions.append(a_condition("QuotaReserved", "False", "Pending", message))
        if draw(st.booleans()):
            conditions += codec.to_builtins(waiting_condition([reason], NOW, 1))
    if state == "evicted":
        conditions.append(a_condition("Evicted", reason="Preempted", message=message))
    if state in ("admitted", "finished"):
        conditions.append(a_condition("Admitted", message=message))
    if state == "finished":
        conditions.append(a_condition("Finished", message=message))
    return a_workload(
        key.name,
        namespace,
        secret(namespace, f"lq{draw(st.integers(0, 2))}"),
        labels={secret(namespace, "key"): secret(namespace, "value")},
        admitted_in=draw(st.sampled_from(("shared", secret(namespace, "queue"))))
        if state in ("reserves", "admitted", "finished")
        else "",
        conditions=conditions,
        active=state != "stopped",
    )


def a_viewer(workloads: frozenset[str], pod_groups: frozenset[str] | None) -> Viewer:
    return Viewer(Scope(workloads, False), False, workloads if pod_groups is None else pod_groups)


some_namespaces = st.frozensets(st.sampled_from(NAMESPACES), max_size=2)
viewers = st.builds(a_viewer, some_namespaces, st.one_of(st.none(), some_namespaces))


def answers(cluster: Cluster, viewer: Viewer, words: list[str]) -> Iterator[object]:
    """Yield every answer that a caller can get, also when it guesses names."""
    data = cluster.data
    yield overview.overview(data, viewer, NOW)
    yield queue_views.cluster_queues(data, viewer, NOW)
    yield queue_views.local_queues(data, viewer, NOW)
    yield pod_group_views.gang_queues(data, viewer)
    yield node_views.nodes(data, viewer, "", None)
    for sort in workload_views.SORTS:
        yield workload_views.workloads(data, viewer, WorkloadQuery(sort=sort), NO_ESTIMATES)
    for sort in pod_group_views.SORTS:
        yield pod_group_views.pod_groups(data, viewer, PodGroupQuery(sort=sort))
    for word in words:
        yield queue_views.cluster_queue(data, viewer, word, NOW, ())
        found = search.search(data, viewer, word, 50)
        assert not found.hits, f"{word} is found"
        for query in (WorkloadQuery(q=word), WorkloadQuery(namespace=word), WorkloadQuery(label=word)):
            assert workload_views.workloads(data, viewer, query, NO_ESTIMATES).total == 0, query
        assert pod_group_views.pod_groups(data, viewer, PodGroupQuery(q=word)).total == 0, word
    feed = ChangeFeed(VirtualClock(), data.cluster_queues)
    for key, listed in data.workloads.by_key.items():
        feed.note(Changed("workload", key, (data.cluster_queue_of(listed.group),)))
    for key in data.state.ledger.local_queues:
        feed.note(Changed("local_queue", key))
    for key in data.pod_groups:
        feed.note(Changed("pod_group", key))
    yield feed.topics_since(0, viewer)


@given(clusters(), viewers)
@settings(max_examples=60, deadline=None)
def test_no_answer_has_a_word_of_a_namespace_that_the_caller_may_not_read(
    cluster: Cluster, viewer: Viewer
) -> None:
    allowed = viewer.scope.namespaces
    assert allowed is not None
    groups = viewer.pod_group_namespaces
    assert groups is not None
    hidden = [each.removeprefix("ns-") for each in NAMESPACES if each not in allowed | groups]
    words = [
        f"{what}-of-{each}" for each in hidden for what in ("w0", "lq0", "gang", "key", "value", "queue")
    ]
    for answer in answers(cluster, viewer, words):
        text = codec.encode(answer).decode()
        for colour in hidden:
            assert colour not in text, f"{colour} is in {text}"


@given(clusters(), viewers)
@settings(max_examples=25, deadline=None)
def test_pods_groups_and_workloads_are_separate_permissions(cluster: Cluster, viewer: Viewer) -> None:
    namespaces, groups = viewer.scope.namespaces, viewer.pod_group_namespaces
    assert namespaces is not None
    assert groups is not None
    listed = workload_views.workloads(cluster.data, viewer, WorkloadQuery(limit=500), NO_ESTIMATES)
    assert {row.namespace for row in listed.items} <= namespaces
    gangs = pod_group_views.pod_groups(cluster.data, viewer, PodGroupQuery(limit=500))
    assert {row.namespace for row in gangs.items} == groups
