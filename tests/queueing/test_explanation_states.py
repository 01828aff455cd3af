"""The state that an explanation gives to a workload, one row for each, and what would be enough."""

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from quorate.api import codec
from quorate.api.core.scheduling import HostNode
from quorate.api.core.started_pod import StartedPod
from quorate.api.explanation import Explanation, Reason
from quorate.api.kueue import AdmissionCheck, Workload
from quorate.api.meta import Key, OwnerReference, Uid
from quorate.queueing import inadmissible_reasons as r
from quorate.queueing.explain import pending_facts, run
from quorate.queueing.explanation.pods import explain_pod, selector_of
from quorate.queueing.explanation.scope import HIDDEN, Scope, namespaces_of, scoped
from quorate.queueing.explanation.workload import Started, explain_workload
from quorate.queueing.state import State
from tests.queueing.notation import Json, read_configuration
from tests.queueing.world import World

HOSTNAME = "kubernetes.io/hostname"
SINCE = "2026-01-01T00:00:00Z"
QUEUES: Json = {
    "flavors": ["default"],
    "clusterQueues": {
        "a": {"cohort": "c", "quota": [{"default": {"cpu": 4}}]},
        "b": {"cohort": "c", "quota": [{"default": {"cpu": 0}}]},
        "stopped": {"quota": [{"default": {"cpu": 4}}], "stopPolicy": "Hold"},
    },
}


def condition(type_: str, reason: str = "R", message: str = "", status: str = "True") -> Json:
    return {
        "type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": SINCE,
    }  # fmt: skip


ADMITTED = (condition("QuotaReserved"), condition("Admitted"))


def a_workload(
    *conditions: Json, requested: int = 3, admitted: int = 3, active: bool = True, **status: Any
) -> Workload:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "2"}}}
    template = {"spec": {"containers": [container]}}
    spec = {
        "podSets": [{"name": "main", "count": requested, "template": template}],
        "active": active,
        "queueName": "a",
    }
    assigned = {"name": "main", "count": admitted, "flavors": {"cpu": "default"}}
    if conditions[:1] == ADMITTED[:1]:
        status["admission"] = {"clusterQueue": "a", "podSetAssignments": [assigned]}
    metadata = {"name": "w", "namespace": "default", "uid": "u", "creationTimestamp": SINCE}
    body = {"metadata": metadata, "spec": spec, "status": {"conditions": list(conditions), **status}}
    return codec.decode(Workload, codec.encode(body))


def a_pod(phase: str = "Running", workload: str = "w", **fields: Any) -> StartedPod:
    annotations = {"kueue.x-k8s.io/workload": workload}
    metadata = {
        "name": "p", "namespace": "default", "annotations": annotations, "creationTimestamp": SINCE,
        "labels": {"kueue.x-k8s.io/podset": "main"},
    }  # fmt: skip
    status = {"phase": phase, **fields.pop("status", {})}
    return codec.convert(StartedPod, {"metadata": metadata, "spec": fields, "status": status})


def a_state(**nodes: str) -> State:
    state: State = World(QUEUES).state
    for name, cpu in nodes.items():
        allocatable = {"cpu": cpu, "memory": "8Gi", "pods": "10"}
        body = {
            "metadata": {"name": name, "labels": {HOSTNAME: name}},
            "status": {"allocatable": allocatable, "conditions": [READY]},
        }
        state.nodes.put_node(codec.decode(HostNode, codec.encode(body)))
    return state


READY = condition("Ready")
RUNNING = a_pod(nodeName="n")
NO_NODE = condition("PodScheduled", "Unschedulable", "0/2 nodes are available: 2 Insufficient cpu", "False")
UNSCHEDULED = a_pod("Pending", status={"conditions": [NO_NODE]})
OF_BEFORE = condition("PodScheduled", "SchedulingGated", "Scheduling is blocked due to gates", "False")
UNGATED = a_pod("Pending", status={"conditions": [OF_BEFORE]})
GATED = a_pod("Pending", schedulingGates=[{"name": "kueue.x-k8s.io/topology"}])
WAITING = {"containerStatuses": [{"name": "m", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}
NO_IMAGE = {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}
UNPULLABLE = a_pod("Pending", nodeName="n", status={"containerStatuses": [{"name": "m", "state": NO_IMAGE}]})
PULLING = a_pod("Pending", nodeName="n", status=WAITING)


def explained(
    workload: Workload, pods: list[StartedPod] | None = None, state: State | None = None, **started: Any
) -> Explanation:
    return explain_workload(state or a_state(), workload, None, Started(pods=pods, **started))


@pytest.mark.parametrize(
    ("pods", "state", "text"),
    [
        pytest.param([RUNNING] * 3, "Running", "it is admitted", id="all run"),
        pytest.param([RUNNING, RUNNING, a_pod("Succeeded")], "Running", "it is admitted", id="one ended"),
        pytest.param(
            [RUNNING, RUNNING, UNSCHEDULED],
            "RunningInPart",
            "it is admitted; 2 of 3 pods run: 1 without a node (0/2 nodes are available: 2 Insufficient cpu)",
            id="one without a node",
        ),
        pytest.param(
            [RUNNING, RUNNING, UNGATED],
            "RunningInPart",
            "it is admitted; 2 of 3 pods run: 1 without a node",
            id="the scheduler has not looked at a pod since its gate was removed",
        ),
        pytest.param(
            [a_pod("Succeeded")] * 5 + [RUNNING, UNSCHEDULED, UNSCHEDULED],
            "RunningInPart",
            "it is admitted; 1 of 3 pods run: 2 without a node (0/2 nodes are available: 2 Insufficient cpu)",
            id="ended pods do not hide pods without a node",
        ),
        pytest.param(
            [GATED, PULLING],
            "Stuck",
            "it is admitted; 0 of 3 pods run: 1 starting on a node (ImagePullBackOff); "
            "1 with the gate kueue.x-k8s.io/topology; 1 not created yet",
            id="gated and pulling",
        ),
        pytest.param(
            [UNPULLABLE, RUNNING, RUNNING],
            "Stuck",
            "it is admitted; 2 of 3 pods run: 1 starting on a node (ErrImagePull), pod p: no such image",
            id="the message of a container",
        ),
        pytest.param(
            [a_pod(workload="other")] * 3,
            "Admitted",
            "it is admitted; 0 of 3 pods run: 3 not created yet",
            id="pods of another workload",
        ),
        pytest.param(
            [RUNNING, RUNNING, a_pod("Failed")],
            "RunningInPart",
            "it is admitted; 2 of 3 pods run: 1 failed",
            id="one failed",
        ),
        pytest.param([RUNNING] * 3 + [a_pod("Failed")], "Running", "it is admitted", id="one was replaced"),
        pytest.param(
            None, "Admitted", "it is admitted; whether its pods run is not known here", id="pods not read"
        ),
    ],
)
def test_an_admitted_workload_runs_only_if_all_its_pods_do(
    pods: list[StartedPod] | None, state: str, text: str
) -> None:
    found = explained(a_workload(*ADMITTED), pods)
    assert (found.state, found.message) == (state, text)
    assert found.cluster_queue == "a"


def test_a_workload_with_ready_pods_runs_without_a_look_at_the_pods() -> None:
    found = explained(a_workload(*ADMITTED, condition("PodsReady")))
    assert (found.state, found.message) == ("Running", "it is admitted, and all its pods are ready")


def test_a_pod_that_no_node_can_hold_has_the_numbers_of_the_placement_core() -> None:
    found = explained(a_workload(*ADMITTED), [RUNNING, RUNNING, UNSCHEDULED], a_state(n1="1", n2="1500m"))
    lack = found.reasons[-1]
    assert (lack.code, lack.resource) == ("NodesLackRoom", "cpu")
    assert (lack.needed, lack.free, lack.short_by, lack.at_most) == ("2", "1500m", "500m", "1500m")
    assert lack.enough == "1 more node with 2 cpu free would do"
    assert (found.state, found.code) == ("Stuck", "NodesLackRoom")
    assert "no node of the cluster can ever hold it" in found.message


def test_pods_that_nodes_can_hold_only_one_after_another_are_stuck() -> None:
    state = a_state(n1="3", n2="3")
    for name in ("n1", "n2"):
        state.ledger.topology.put_unreadable_pod(Key("default", name), name, {"cpu": 2000})
    found = explained(a_workload(*ADMITTED), [RUNNING, RUNNING, UNSCHEDULED], state)
    assert (found.state, found.code) == ("Stuck", "NodesLackRoom")
    assert found.message.endswith("; 2 of 3 pods can ever have a node")
    assert "1 more node with 2 cpu free would do" in found.enough


def test_a_container_that_is_being_created_starts() -> None:
    creating = {"containerStatuses": [{"name": "m", "state": {"waiting": {"reason": "ContainerCreating"}}}]}
    found = explained(a_workload(*ADMITTED), [a_pod("Pending", nodeName="n", status=creating)] * 3)
    assert (found.state, found.code) == ("Admitted", "PodsStarting")
    assert found.message == "it is admitted; 0 of 3 pods run: 3 starting on a node"


def test_a_pod_that_a_node_can_hold_once_other_pods_are_gone_may_wait() -> None:
    state = a_state(n1="4")
    state.ledger.topology.put_unreadable_pod(Key("default", "other"), "n1", {"cpu": 3000})
    found = explained(a_workload(*ADMITTED, requested=2, admitted=2), [RUNNING, UNSCHEDULED], state)
    lack = found.reasons[-1]
    assert (lack.needed, lack.free, lack.short_by, lack.at_most) == ("2", "1", "1", "4")
    assert (found.state, found.code) == ("RunningInPart", "NodesLackRoom")
    assert lack.enough == "1 more cpu must become free on one node"
    assert "ever" not in found.message


def test_a_container_that_crashes_in_a_loop_does_not_run() -> None:
    crashing = {"containerStatuses": [{"name": "m", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}
    found = explained(a_workload(*ADMITTED), [RUNNING, RUNNING, a_pod(nodeName="n", status=crashing)])
    assert (found.state, found.code) == ("Stuck", "ContainersWaiting")
    assert found.message.startswith("it is admitted; 2 of 3 pods run: 1 restarting (CrashLoopBackOff)")


def test_the_pods_of_a_partial_admission_are_counted() -> None:
    found = explained(a_workload(*ADMITTED, requested=10, admitted=7), [RUNNING] * 7)
    assert (found.state, found.message) == ("Running", "it is admitted with 7 of 10 pods of main")
    assert found.pods is not None
    assert (found.pods.requested, found.pods.admitted, found.pods.running) == (10, 7, 7)


def test_the_pods_of_a_job_are_found_whatever_slice_they_name() -> None:
    workload = a_workload(*ADMITTED, admitted=1)
    owner = OwnerReference(api_version="batch/v1", kind="Job", name="j", uid=Uid("job"), controller=True)
    of_job = replace(workload, metadata=replace(workload.metadata, owner_references=(owner,)))
    pod = a_pod(workload="earlier-slice")
    pod = replace(pod, metadata=replace(pod.metadata, owner_references=(owner,)))
    assert selector_of(of_job) == "batch.kubernetes.io/controller-uid=job"
    assert explained(of_job, [pod]).state == "Running"
    assert explained(workload, [pod]).state == "Admitted"


def test_pods_that_the_job_gave_back_are_not_expected() -> None:
    workload = a_workload(*ADMITTED, reclaimablePods=[{"name": "main", "count": 1}])
    assert explained(workload, [RUNNING, RUNNING]).state == "Running"
    ended = a_pod(phase="Succeeded")
    assert explained(workload, [RUNNING, RUNNING, ended]).state == "Running"
    assert explained(workload, [RUNNING, ended]).state == "RunningInPart", "one is to be created"


def test_an_admitted_job_may_wait_for_its_pod_group() -> None:
    group = Reason(code="NotEnoughResources", text="its pod group waits: cpu: need 6, have 2 now")
    found = explained(a_workload(*ADMITTED), [], group=group)
    assert found.state == "Admitted"
    assert found.message.startswith("it is admitted; its pod group waits: cpu: need 6, have 2 now; 0 of 3")
    assert explained(a_workload(*ADMITTED), [RUNNING] * 3, group=group).state == "Running"


CHECK = {"name": "prov", "state": "Pending", "message": ""}
LIMIT = "exceeding the maximum number of re-queuing retries"
ROWS = (
    pytest.param(
        a_workload(condition("Finished", "Succeeded", "Job finished")),
        "Finished", "Job finished", "", id="finished",
    ),
    pytest.param(
        a_workload(*ADMITTED, condition("Evicted", "Preempted", "for default/x")),
        "Evicted", "it is being evicted and holds its quota until its pods are gone: for default/x",
        "its pods must end", id="being evicted",
    ),
    pytest.param(
        a_workload(condition("Evicted", "DeactivatedDueToRequeuingLimitExceeded", LIMIT), active=False),
        "Deactivated", f"it is deactivated: the controllers set spec.active to false: {LIMIT}",
        "quorate workload resume w -n default (spec.active: true) queues it again",
        id="deactivated by the controllers",
    ),
    pytest.param(
        a_workload(active=False),
        "Deactivated", "it is deactivated: a user set spec.active to false",
        "quorate workload resume w -n default (spec.active: true) queues it again",
        id="deactivated by a user",
    ),
    pytest.param(
        a_workload(*ADMITTED[:1], admissionChecks=[CHECK | {"message": "no node"}]),
        "Held", "it has quota, and waits for admission checks: prov (prov: no node)",
        "admission check prov must become Ready", id="held by an admission check",
    ),
    pytest.param(
        a_workload(condition("QuotaReserved", "OnHold", "stopped by team", "False")),
        "Held", "its job is on hold: stopped by team", "its job must no longer be on hold", id="on hold",
    ),
    pytest.param(
        a_workload(
            condition("QuotaReserved", "Inadmissible", "ClusterQueue a is inactive", "False"),
            condition("quorate.dev/Waiting", "QueueInactive", "ClusterQueue a is inactive"),
        ),
        "Held", "ClusterQueue a is inactive", "", id="as the status says, without a model",
    ),
    pytest.param(
        a_workload(), "Queued", "not evaluated yet", "", id="not in the model",
    ),
)  # fmt: skip


@pytest.mark.parametrize(("workload", "state", "message", "enough"), ROWS)
def test_the_state_of_a_workload(workload: Workload, state: str, message: str, enough: str) -> None:
    found = explained(workload)
    assert (found.state, found.message) == (state, message)
    assert found.enough == ((enough,) if enough else ())


def test_an_evicted_workload_says_why_and_when_it_is_tried_again() -> None:
    state = a_world().state
    evicted = a_workload(
        condition("QuotaReserved", "Pending", "exceeded the timeout", "False"),
        condition("Evicted", "PodsReadyTimeout", "exceeded the PodsReady timeout"),
        condition("Requeued", "PodsReadyTimeout", "exceeded the PodsReady timeout", "False"),
        requeueState={"count": 1, "requeueAt": "2026-01-01T00:10:00Z"},
    )
    state.put_workload(evicted, 0.0)
    facts = run(pending_facts(state, evicted.metadata.key))
    found = explain_workload(state, evicted, facts)
    assert (found.state, found.retry_at) == ("Evicted", datetime(2026, 1, 1, 0, 10, tzinfo=UTC))
    assert found.message == (
        "it was evicted: exceeded the PodsReady timeout, and it is tried again at 00:10:00 UTC"
    )
    assert [each.code for each in found.reasons] == ["PodsReadyTimeout", "BackingOff"]


def preempted_by(uid: str) -> Workload:
    text = f"Preempted to accommodate a workload (UID: {uid}, JobUID: UNKNOWN) due to prioritization"
    return a_workload(
        condition("QuotaReserved", "Pending", text, "False"),
        condition("Evicted", "Preempted", text),
        condition("Preempted", "InClusterQueue", text),
        condition("Requeued", "Preempted", text),
    )


def test_a_preempted_workload_names_the_one_for_which_it_was() -> None:
    world = a_world()
    preempted = preempted_by(world.workloads["theirs"].metadata.uid)
    world.state.put_workload(preempted, 0.0)
    facts = run(pending_facts(world.state, preempted.metadata.key))
    assert facts is not None
    found = explain_workload(world.state, preempted, facts)
    assert found.state == "NeverFits"  # all of them need 6 cpu, and the queue has 4
    assert found.message == "it was preempted for default/theirs; it is queued again"
    assert (found.reasons[0].code, str(found.reasons[0].object)) == ("Preempted", "Workload default/theirs")
    assert namespaces_of(facts) == {"default"}
    hidden = explain_workload(world.state, preempted, scoped(facts, Scope(frozenset())))
    assert hidden.message == f"it was preempted for {HIDDEN.name}; it is queued again"
    assert hidden.reasons[0].object is None
    mine = run(pending_facts(world.state, Key("default", "mine")))
    assert mine is not None
    evaluated = explain_workload(world.state, preempted, replace(facts, hold=mine.hold))
    assert evaluated.message.startswith(
        "it was preempted for default/theirs; it is queued again: it can never "
    )
    assert [each.code for each in evaluated.reasons] == ["Preempted", "QuotaShort"]


def test_a_preempted_workload_outlives_the_one_for_which_it_was() -> None:
    world = a_world()
    preempted = preempted_by("gone")
    world.state.put_workload(preempted, 0.0)
    facts = run(pending_facts(world.state, preempted.metadata.key))
    found = explain_workload(world.state, preempted, facts)
    assert found.message == "it was preempted for another workload; it is queued again"
    assert found.reasons[0].object is None


def test_reasons_tell_when_they_were_found_and_quota_is_that_of_now() -> None:
    world = a_world()
    known = run(pending_facts(world.state, Key("default", "mine")))
    assert known is not None
    assert known.hold is not None
    reasons = (*known.hold.reasons, r.PlacementRefused("main", "no rack has room", 2, 3))
    facts = replace(known, hold=replace(known.hold, reasons=reasons, evaluated_at=1767225600.0))
    found = explain_workload(world.state, world.workloads["mine"], facts)
    assert [(each.code, each.evaluated_at) for each in found.reasons] == [
        ("QuotaShort", None), ("PlacementRefused", datetime(2026, 1, 1, tzinfo=UTC)),
    ]  # fmt: skip


def test_gates_and_deletion_hold_a_workload() -> None:
    workload = a_workload()
    gated = replace(
        workload.metadata, annotations={"kueue.x-k8s.io/admission-gated-by": "lab.example/budget"}
    )
    gates = {"featureGates": {"AdmissionGatedBy": True}}
    found = explained(replace(workload, metadata=gated), state=State(read_configuration(gates)))
    assert (found.state, found.reasons[0].code) == ("Held", "AdmissionGated")
    assert found.enough == ("the controllers of these gates must remove them: lab.example/budget",)
    deleted = replace(workload.metadata, deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC))
    found = explained(replace(workload, metadata=deleted))
    assert (found.state, found.message) == ("Held", "it is being deleted")


@pytest.mark.parametrize(
    ("pod", "state", "message"),
    [
        pytest.param(RUNNING, "Running", "its phase is Running", id="runs"),
        pytest.param(a_pod("Failed"), "Finished", "its phase is Failed", id="ended"),
        pytest.param(
            GATED,
            "Admitted",
            "it is with the gate kueue.x-k8s.io/topology; its workload w: it is admitted; "
            "2 of 3 pods run: 1 with the gate kueue.x-k8s.io/topology",
            id="gated",
        ),
    ],
)
def test_a_pod_has_its_own_wait_and_that_of_its_workload(pod: StartedPod, state: str, message: str) -> None:
    of_workload = explained(a_workload(*ADMITTED), [RUNNING, RUNNING, GATED])
    found = explain_pod(pod, of_workload)
    assert (found.object.kind, found.state, found.message) == ("Pod", state, message)


@pytest.mark.parametrize(
    ("gates", "text", "must_be_removed"),
    [
        (("kueue.x-k8s.io/admission",), "with the gate kueue.x-k8s.io/admission", False),
        (
            ("kueue.x-k8s.io/topology", "kueue.x-k8s.io/admission"),
            "with the gates kueue.x-k8s.io/admission, kueue.x-k8s.io/topology",
            False,
        ),
        (("lab.example/data",), "with the gate lab.example/data", True),
    ],
)
def test_a_gated_pod_of_a_waiting_workload_needs_what_the_workload_needs(
    gates: tuple[str, ...], text: str, must_be_removed: bool
) -> None:
    of_workload = explained(a_workload())
    assert of_workload.state == "Queued"
    pod = a_pod("Pending", schedulingGates=[{"name": gate} for gate in gates])
    found = explain_pod(pod, of_workload)
    assert found.reasons[0].text == text
    removal = ("the controller of the gate must remove it",) if must_be_removed else ()
    assert found.enough == (*removal, *of_workload.enough)


def test_an_autoscaled_flavor_says_which_nodes_must_come() -> None:
    state = a_state()
    spec = {"controllerName": "kueue.x-k8s.io/provisioning-request"}
    state.put_admission_check(codec.convert(AdmissionCheck, {"metadata": {"name": "prov"}, "spec": spec}))
    workload = a_workload(
        *ADMITTED[:1], admissionChecks=[{"name": "prov", "state": "Pending", "message": ""}]
    )
    found = explained(workload, state=state)
    assert not found.can_never_fit
    (reason,) = found.reasons
    assert reason.enough.startswith("nodes must come for 3 pods of main, each with 2 cpu")


@pytest.mark.parametrize(
    ("status", "enough", "text"),
    [
        pytest.param({}, "a worker cluster must be nominated", None, id="not nominated"),
        pytest.param(
            {"nominatedClusterNames": ["east"]},
            "worker cluster east must admit it",
            "nominated worker cluster: east",
            id="one",
        ),
        pytest.param(
            {"nominatedClusterNames": ["east", "west"]},
            "one of the worker clusters east, west must admit it",
            "nominated worker clusters: east, west",
            id="two",
        ),
    ],
)
def test_a_dispatched_workload_waits_for_its_worker_clusters(
    status: dict[str, Any], enough: str, text: str | None
) -> None:
    state = a_state()
    spec = {"controllerName": "kueue.x-k8s.io/multikueue"}
    state.put_admission_check(codec.convert(AdmissionCheck, {"metadata": {"name": "mk"}, "spec": spec}))
    check = {"name": "mk", "state": "Pending", "message": ""}
    found = explained(a_workload(*ADMITTED[:1], admissionChecks=[check], **status), state=state)
    assert found.enough == (enough,)
    assert (None if found.dispatch is None else found.dispatch.text) == text


def test_pods_of_a_workload_in_a_worker_cluster_are_not_counted_here() -> None:
    choice = {
        "type": "quorate.dev/ClusterChoice", "status": "True", "reason": "EarliestStart",
        "message": "east: 3 min, west: 12 min", "lastTransitionTime": "2026-11-29T10:00:00Z",
    }  # fmt: skip
    workload = a_workload(*ADMITTED, choice, clusterName="east")
    found = explained(workload, [])
    assert found.message == "it is admitted in worker cluster east; whether its pods run is not known here"
    assert found.dispatch is not None
    assert found.dispatch.text == "worker cluster east has admitted it (east: 3 min, west: 12 min)"


def a_world(**queue: Any) -> World:
    pending = {"queue": "b", "requests": {"cpu": 3}, "created": 2, **queue}
    theirs = {"name": "theirs", "queue": "a", "requests": {"cpu": 2}, "admitted": "default"}
    world = World(QUEUES | {"workloads": [theirs, {"name": "mine", **pending}]})
    world.run("cycle")
    return world


def test_a_state_without_objects_is_enough() -> None:
    assert explained(a_workload(), state=State(read_configuration({}))).state == "Queued"
