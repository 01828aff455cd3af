"""The dispatch of one workload, as Kueue's, and never to two clusters."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from quorate.api.kueue import (
    Admission,
    PodSet,
    PodSetAssignment,
    PriorityClassRef,
    Workload,
)
from quorate.api.kueue.topology import TopologyAssignment
from quorate.api.meta import at_epoch, find_condition
from quorate.api.names.multikueue import LAST_CLUSTER
from quorate.controllers.jobframework.interface import Outcome
from quorate.controllers.multikueue.dispatch.plan import Components, DispatchPlan, UpdateCopy
from quorate.controllers.multikueue.dispatch.rules import decide
from quorate.queueing import conditions as c
from tests.controllers.multikueue.dispatch.dispatch_objects import (
    LOST_S,
    NOW,
    SETTINGS,
    a_check,
    a_copy,
    an_input,
    local,
    message_of,
    remote,
    show,
)

PENDING = local()
NOMINATED = local(nominated=("a", "b"))
CHOSEN = local(cluster="a")
READY = local(check="Ready", cluster="a")
EVICTED = local("Evicted")
ENDED = Outcome(True, "done")
ADMITTED = ("QuotaReserved", "Admitted")
ELASTIC = {"kueue.x-k8s.io/elastic-job": "true"}
REPLACING = {**ELASTIC, "kueue.x-k8s.io/workload-slice-replacement-for": "default/old"}


def last_cluster(workload: Workload, name: str) -> Workload:
    last = c.new_condition(LAST_CLUSTER, "True", "Dispatched", name, NOW)
    status = replace(workload.status, conditions=(*workload.status.conditions, last))
    return replace(workload, status=status)


def without_quota(workload: Workload) -> Workload:
    return replace(workload, status=replace(workload.status, conditions=()))


def decided(workload: Workload, remotes: dict[str, Any], **fields: Any) -> DispatchPlan:
    """Decide about a workload; a remote is None, the words of its conditions, or a state."""
    states = {}
    for name, given in remotes.items():
        if given is None:
            states[name] = remote()
        elif isinstance(given, str):
            states[name] = remote(a_copy(workload, *given.split()))
        else:
            states[name] = given
    return decide(an_input(workload, states, **fields))


def synced(workload: Workload, conditions: str, **state: Any) -> Any:
    return remote(a_copy(workload, *conditions.split()), **{"job": "done", **state})


REPLACED = local("Finished=WorkloadSliceReplaced", check="Ready", cluster="a", annotations=ELASTIC)


def components(words: str, *clusters: str) -> dict[str, Any]:
    others = Components(
        are_complete="incomplete" not in words, is_primary="primary" in words, clusters=clusters
    )
    return {"components": others}


CASES: list[tuple[str, Workload, dict[str, Any], dict[str, Any], str]] = [
    # What is not to be dispatched
    ("no check", PENDING, {"a": None}, {"check": None}, ""),
    ("a rejected check", local(check="Rejected"), {"a": None}, {}, ""),
    ("a job that no other cluster can run", PENDING, {"a": None}, {"rejection": "no"}, "check=Rejected"),
    ("no configuration", PENDING, {"a": None}, {"clusters": None}, ""),
    ("another check is not ready", local(others=(replace(a_check(), name="x"),)), {"a": None}, {}, ""),
    ("an eviction by the check", local(check="Retry", cluster="a"), {"a": "Admitted"}, {}, ""),
    # Removal
    ("deleted", READY, {"a": "Admitted", "b": None, "c": ""}, {"is_deleted": True}, "-a -c"),
    ("a job is left of a deleted one", PENDING, {"a": remote(has_job=True)}, {"is_deleted": True}, "-a"),
    ("its pods are ending", PENDING, {"a": remote(has_job=True, is_ending=True)}, {"is_deleted": True}, ""),
    ("its copy is left while pods end", PENDING, {"a": remote(a_copy(PENDING), has_job=True, is_ending=True)},
     {"is_deleted": True}, "-a"),
    ("deleted, once more", PENDING, {"a": None}, {"is_deleted": True}, ""),
    ("deleted, its job runs", last_cluster(READY, "a"), {"a": "Admitted"}, {"is_deleted": True}, "-a"),
    ("deleted, no cluster runs its job", last_cluster(READY, "a"), {"a": None}, {"is_deleted": True},
     "ends-job"),
    ("deleted, its cluster is lost", last_cluster(READY, "a"), {}, {"is_deleted": True, "lost": {"a": NOW}},
     ""),
    ("finished", local("Finished"), {"a": "Admitted Finished", "b": None}, {}, "-a"),
    ("finished, its job gone", local("Finished"), {"a": ""}, {"rejection": "gone"}, "-a"),
    ("a removal in flight", local("Finished"), {"a": remote(a_copy(PENDING), is_busy=True)}, {}, ""),
    # Nomination
    ("all at once", PENDING, {"b": None, "a": None}, {}, "nominated=a,b +a +b"),
    ("nominated before", NOMINATED, {"a": None, "b": ""}, {}, "+a"),
    ("a cluster was lost", NOMINATED, {"a": ""}, {}, ""),
    ("a cluster that is not configured", NOMINATED,
     {"a": "", "b": "", "z": ""}, {"clusters": ("a", "b")}, "-z"),
    ("one is not configured any more", NOMINATED, {"a": "", "b": ""}, {"clusters": ("a",)}, "nominated=a -b"),
    ("a cluster was added", NOMINATED, {"a": "", "b": "", "c": None}, {}, "nominated=a,b,c +c"),
    ("a creation in flight", NOMINATED, {"a": remote(is_busy=True), "b": ""}, {}, ""),
    ("not gated", PENDING, {"a": None},
     {"settings": replace(SETTINGS, orchestrates_preemption=False)}, "nominated=a +a(ungated)"),
    ("another program nominates", PENDING, {"a": None, "b": None},
     {"settings": replace(SETTINGS, dispatcher=None)}, ""),
    ("another program has nominated", local(nominated=("b",)), {"a": "", "b": None},
     {"settings": replace(SETTINGS, dispatcher=None)}, "+b -a"),
    # The first cluster that admits its copy
    ("one admits", NOMINATED, {"a": "Admitted", "b": ""}, {},
     "cluster=a nominated= +last -b sync:a"),
    ("the earlier one", NOMINATED, {"a": synced(PENDING, "Admitted@9", has_job=False), "b": "Admitted@5"},
     {}, "cluster=b nominated= +last -a sync:b"),
    ("equal times, in the configured order", local(nominated=("c", "b")),
     {"c": remote(a_copy(PENDING, "Admitted"), has_job=False), "b": "Admitted"}, {},
     "cluster=b nominated= +last -c sync:b"),
    ("one that is not nominated", local(nominated=("b",)), {"a": "Admitted", "b": None},
     {"settings": replace(SETTINGS, dispatcher=None)}, "+b -a"),
    ("the job is created", CHOSEN, {"a": "Admitted"}, {}, "sync:a"),
    ("the job is seen, and has changed", CHOSEN,
     {"a": synced(CHOSEN, "Admitted", job="due", job_seen=True)}, {}, "check=Ready +last Admitted sync:a"),
    ("the job of the former size is seen", local(cluster="a", annotations=ELASTIC),
     {"a": remote(a_copy(CHOSEN, "Admitted"), job_seen=True)}, {}, "sync:a"),
    ("the job exists", CHOSEN, {"a": synced(CHOSEN, "Admitted")}, {}, "check=Ready +last Admitted"),
    ("the status comes later", CHOSEN, {"a": synced(CHOSEN, "Admitted", job="deferred", sync_at=NOW + 2)}, {},
     "check=Ready +last Admitted"),
    ("something changed", READY, {"a": "Admitted"}, {}, "sync:a"),
    ("a copy is left elsewhere", READY, {"a": "Admitted", "b": "Admitted@-9"}, {}, "-b sync:a"),
    ("chosen by an older version", local(check="Ready"), {"a": "Admitted", "b": ""}, {}, "-b sync:a"),
    # No job in two clusters
    ("a job may run elsewhere", NOMINATED, {"a": "Admitted@1", "b": "Admitted@2"}, {}, "-b"),
    ("no job runs elsewhere", NOMINATED,
     {"a": "Admitted@1", "b": remote(a_copy(PENDING, "Admitted@2"), has_job=False)}, {},
     "cluster=a nominated= +last -b sync:a"),
    ("a job is being deleted elsewhere", NOMINATED,
     {"a": "Admitted@1", "b": remote(has_job=True, is_busy=True)}, {}, ""),
    ("whether the job has ended in the last cluster is read first", last_cluster(NOMINATED, "b"),
     {"a": "Admitted", "b": remote(has_job=False, end="due")}, {}, "ReadEnd:b"),
    ("that is being read", last_cluster(NOMINATED, "b"),
     {"a": "Admitted", "b": remote(has_job=False, end="due", is_busy=True)}, {}, ""),
    ("the last cluster is lost", last_cluster(NOMINATED, "b"), {"a": "Admitted"},
     {"lost": {"b": NOW - 1}}, ""),
    ("the last cluster is lost for long", last_cluster(NOMINATED, "b"), {"a": "Admitted"},
     {"lost": {"b": NOW - LOST_S}}, "cluster=a nominated= sync:a"),
    ("another cluster is lost", last_cluster(NOMINATED, "a"), {"a": "Admitted"}, {"lost": {"b": NOW - 1}},
     "cluster=a nominated= sync:a"),
    # The chosen cluster loses it
    ("evicted there", READY, {"a": "Admitted Evicted"}, {}, "check=Retry"),
    ("evicted there before the job", CHOSEN, {"a": "!Admitted Evicted"}, {}, "check=Retry"),
    ("evicted where it was not chosen", NOMINATED, {"a": "!Admitted Evicted", "b": ""}, {}, ""),
    ("evicted and admitted again", READY, {"a": "Admitted !Evicted"}, {}, "sync:a"),
    ("the copy is gone", READY, {"a": None}, {}, "check=Retry"),
    ("the cluster is not configured any more", READY, {}, {"clusters": ("b",)}, "check=Retry"),
    ("the cluster is lost", READY, {}, {"lost": {"a": NOW - LOST_S + 1}}, ""),
    ("the cluster is lost for long", READY, {}, {"lost": {"a": NOW - LOST_S}}, "check=Retry"),
    ("the copy is not seen yet", READY, {"a": remote(is_busy=True)}, {}, ""),
    ("no cluster is recorded", local(check="Ready"), {"a": None}, {}, "check=Retry"),
    # Evicted here
    ("stop it there", EVICTED, {"a": "Admitted"}, {}, "DeactivateCopy:a"),
    ("it is being stopped", EVICTED, {"a": "Admitted DeactivationTarget"}, {}, ""),
    ("it is stopped", EVICTED, {"a": "!Admitted Evicted"}, {}, "sync:a"),
    ("its status is here", EVICTED, {"a": synced(EVICTED, "!Admitted Evicted")}, {}, ""),
    ("a job without a workload is left", EVICTED, {"a": remote(has_job=True)}, {}, "-a"),
    ("its cluster is lost", last_cluster(EVICTED, "a"), {"b": None}, {"lost": {"a": NOW - 1}}, ""),
    ("its cluster is lost for long", last_cluster(EVICTED, "a"), {"b": None}, {"lost": {"a": NOW - LOST_S}},
     "ends-job"),
    ("its job is gone", last_cluster(EVICTED, "a"), {"a": None}, {}, "ends-job"),
    ("its job is gone, and its end is read first", last_cluster(EVICTED, "a"), {"a": remote(end="due")}, {},
     "ReadEnd:a"),
    ("it never ran there", EVICTED, {"a": "", "b": None}, {}, "-a"),
    # Finished there
    ("the last status first", READY, {"a": "Admitted Finished"}, {}, "sync:a"),
    ("finished", READY, {"a": synced(READY, "Admitted Finished")}, {}, "Finished"),
    ("finished while lost", NOMINATED, {"a": synced(READY, "Admitted Finished"), "b": None}, {}, "Finished"),
    ("finished in a former cluster", READY, {"a": synced(READY, "Admitted"), "b": "Admitted Finished"}, {},
     "+last Admitted -b"),
    ("left of a removal", NOMINATED, {"a": synced(READY, "Admitted Finished", has_job=False)}, {}, "-a"),
    ("its job was deleted there", READY, {"a": "Admitted Finished=OwnerNotFound"}, {}, "check=Retry"),
    ("deleted before the check was ready", CHOSEN, {"a": "Admitted Finished=OwnerNotFound"}, {}, "-a"),
    ("deleted there after its end", READY,
     {"a": remote(a_copy(READY, "Admitted", "Finished=OwnerNotFound"), end=ENDED)}, {}, "Finished"),
    ("whether it had ended is read first", READY,
     {"a": remote(a_copy(READY, "Admitted", "Finished=OwnerNotFound"), end="due")}, {}, "ReadEnd:a"),
    ("its copy is gone, its end is read first", READY, {"a": remote(end="due")}, {}, "ReadEnd:a"),
    ("its copy is gone after its end", READY, {"a": remote(end=ENDED)}, {}, "Finished"),
    ("its copy was gone before its end", READY, {"a": remote(end=None)}, {}, "check=Retry"),
    ("evicted here, its copy is gone there", last_cluster(EVICTED, "a"),
     {"a": remote(has_job=True, end="due")}, {}, "ReadEnd:a"),
    ("evicted here after its end there", last_cluster(EVICTED, "a"), {"a": remote(end=ENDED)}, {},
     "Finished"),
    ("out of sync", READY, {"a": "Finished=OutOfSync"}, {}, "check=Retry"),
    ("out of sync before the job", NOMINATED, {"a": "Finished=OutOfSync", "b": ""}, {}, "-a"),
    # Another spec
    ("another spec", NOMINATED, {"a": "", "b": remote(a_copy(PENDING, queue_name="other"))}, {}, "-b"),
    ("another spec where it runs", READY, {"a": remote(a_copy(PENDING, "Admitted", active=False))}, {}, "-a"),
    # Elastic jobs
    ("a replaced slice", REPLACED,
     {"a": "Admitted"}, {}, ""),
    ("a replaced slice is deleted",
     REPLACED,
     {"a": "Admitted"}, {"is_deleted": True}, "-a(keeps job)"),
    ("a slice goes where the job is", local(cluster="b", annotations=REPLACING),
     {"a": None, "b": None}, {}, "+b"),
    ("the new slice is admitted", local(cluster="b", annotations=REPLACING), {"a": None, "b": "Admitted"}, {},
     "sync:b"),
    ("the old slice is replaced there", local(check="Ready", cluster="a", annotations=ELASTIC),
     {"a": synced(local(annotations=ELASTIC), "Finished=OutOfSync")}, {}, "Finished"),
    # Several workloads of one job
    ("not all exist", PENDING, {"a": None}, components("incomplete primary"), ""),
    ("the first chooses", PENDING, {"a": None}, components("primary"),
     "nominated=a +a"),
    ("the second waits", PENDING, {"a": None}, components(""), ""),
    ("the second follows", PENDING, {"a": None, "b": None},
     components("", "b"), "nominated=b +b(ungated)"),
    ("its cluster is lost", PENDING, {"a": None},
     components("", "b"), ""),
    ("one of several is deleted", READY, {"a": "Admitted"},
     {**components("", "a"), "is_deleted": True},
     "-a(keeps job)"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("workload", "remotes", "fields", "expected"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_the_plan_follows_from_the_workload_and_its_copies(
    workload: Workload, remotes: dict[str, Any], fields: dict[str, Any], expected: str
) -> None:
    assert sorted(show(decided(workload, remotes, **fields), workload).split()) == sorted(expected.split())


def test_a_workload_without_quota_keeps_no_copies() -> None:
    workload = without_quota(PENDING)
    assert show(decided(workload, {"a": "Admitted", "b": ""}), workload) == "-a -b"


def test_a_new_slice_without_quota_leaves_the_copies_alone() -> None:
    workload = without_quota(local(annotations=REPLACING))
    assert show(decided(workload, {"a": "Admitted"}), workload) == ""


@pytest.mark.parametrize(
    ("workload", "remotes", "fields", "message"),
    [
        (PENDING, {}, {"rejection": "No multikueue adapter found"},
         'No multikueue adapter found, Previously: "Pending"'),
        (CHOSEN, {"a": synced(CHOSEN, "Admitted")}, {}, 'The workload was admitted on "a"'),
        (READY, {"a": "Evicted"}, {},
         'Workload evicted on worker cluster: "a", resetting for re-admission. Previously: "Ready"'),
        (READY, {}, {"lost": {"a": 0.0}}, 'Admitting remote lost, Previously: "Ready"'),
        (READY, {"a": None}, {}, 'Admitting remote no longer exists, Previously: "Ready"'),
        (READY, {"a": "Finished=OutOfSync"}, {},
         'Remote workload on worker cluster "a" is out of sync with its user job, resetting for re-dispatch, '
         'Previously: "Ready"'),
    ],
)  # fmt: skip
def test_the_check_says_what_happened(
    workload: Workload, remotes: dict[str, Any], fields: dict[str, Any], message: str
) -> None:
    assert message_of(decided(workload, remotes, **fields)) == message


def test_admissions_and_evictions_are_counted_by_cluster() -> None:
    assert decided(CHOSEN, {"a": synced(CHOSEN, "Admitted")}).admitted_in == "a"
    assert decided(READY, {"a": synced(READY, "Admitted")}).admitted_in == ""
    assert decided(READY, {"a": "Evicted"}).evicted_in == "a"


def test_a_lost_cluster_is_waited_for_until_the_timeout() -> None:
    assert decided(READY, {}, lost={"a": NOW - 100}).wake_at == NOW - 100 + LOST_S


def test_the_priority_of_a_copy_is_edited_in_place() -> None:
    workload = local(
        nominated=("a",), priority_class_ref=PriorityClassRef(group="kueue.x-k8s.io", kind="x", name="high")
    )
    low = PriorityClassRef(group="kueue.x-k8s.io", kind="x", name="low")
    remotes = {"a": remote(a_copy(workload, priority_class_ref=low, priority=-1))}
    (edit,) = decided(workload, remotes).actions
    assert isinstance(edit, UpdateCopy)
    assert edit.changes == {
        "priorityClassRef": workload.spec.priority_class_ref,
        "priority": workload.spec.priority,
    }


@pytest.mark.parametrize(
    ("encoded", "plan"),
    [
        ('{"metadata": {}, "spec": {"containers": [{"resources": {"limits": {"cpu": "500m"}}}]}}', ""),
        ('{"spec": {"nodeName": "", "containers": [{"resources": {"limits": {"cpu": "0.50"}}}]}}', ""),
        ('{"spec": {"containers": [{"resources": {"limits": {"cpu": "501m"}}}]}}', "-a"),
        ('{"spec": {"containers": [{"resources": {"requests": {"cpu": "500m"}}}]}}', "-a"),
    ],
)
def test_a_copy_that_a_worker_cluster_encodes_anew_stays(encoded: str, plan: str) -> None:
    template = '{"spec": {"containers": [{"resources": {"limits": {"cpu": "0.5"}}}]}}'
    mine, theirs = (PodSet(template=msgspec.Raw(text.encode())) for text in (template, encoded))
    workload = local(nominated=("a",), pod_sets=(mine,))
    remotes = {"a": remote(a_copy(workload, pod_sets=(theirs,)))}
    assert show(decided(workload, remotes), workload) == plan


def test_an_elastic_copy_shrinks_in_place() -> None:
    workload = local(check="Ready", cluster="a", annotations=ELASTIC, pod_sets=(PodSet(count=2),))
    remotes = {"a": remote(a_copy(workload, "Admitted", pod_sets=(PodSet(count=5),)))}
    assert show(decided(workload, remotes), workload) == "edit:a"
    grown = {"a": remote(a_copy(workload, "Admitted", pod_sets=(PodSet(count=1),)))}
    assert show(decided(workload, grown), workload) == "-a"


def test_places_found_by_the_worker_cluster_let_the_workload_be_admitted() -> None:
    assignment = PodSetAssignment(count=3, delayed_topology_request="Pending")
    placed = replace(assignment, topology_assignment=TopologyAssignment())
    workload = replace(
        CHOSEN, status=replace(CHOSEN.status, admission=Admission(pod_set_assignments=(assignment,)))
    )
    copy = a_copy(workload, "Admitted")
    copy = replace(copy, status=replace(copy.status, admission=Admission(pod_set_assignments=(placed,))))
    plan = decided(workload, {"a": remote(copy, job="done")})
    assert plan.status is not None
    assert not c.awaits_places(plan.status.admission)


def test_a_workload_is_admitted_with_its_last_check() -> None:
    copies = {"a": synced(CHOSEN, "Admitted")}
    plan = decided(CHOSEN, copies)
    assert [event.reason for event in plan.events] == ["MultiKueue", "Admitted"]
    assignment = PodSetAssignment(count=3, delayed_topology_request="Pending")
    status = replace(CHOSEN.status, admission=Admission(pod_set_assignments=(assignment,)))
    waiting = decided(replace(CHOSEN, status=status), copies)
    assert [event.reason for event in waiting.events] == ["MultiKueue"]


def test_the_last_cluster_is_recorded_and_replaced() -> None:
    plan = decided(last_cluster(NOMINATED, "b"), {"a": "Admitted"})
    assert plan.status is not None
    last = find_condition(plan.status.conditions, LAST_CLUSTER)
    assert last is not None
    assert (last.message, last.last_transition_time) == ("a", at_epoch(NOW))
