"""The plans for StatefulSets and LeaderWorkerSets, one state per line."""

from typing import Any

import msgspec
import pytest

from quorate.api import codec
from quorate.api.field_path import InvalidTemplate
from quorate.api.kueue import PodSet, Workload
from quorate.api.meta import OwnerReference, Uid, at_epoch
from quorate.api.names.kueue import JOB_UID, PREBUILT_WORKLOAD, PRIORITY_CLASS
from quorate.api.names.multikueue import ORIGIN, ORIGIN_UID
from quorate.controllers.executor import Plan
from quorate.controllers.jobframework.construct_workload import workload_name
from quorate.controllers.jobframework.job_plan import JobOptions, ReconcileContext
from quorate.controllers.limits import MAX_REPLICAS
from quorate.controllers.pods import constants
from quorate.controllers.serving.kinds import SETS, ServingFramework, ServingSet
from quorate.controllers.serving.reconciler import REPLICAS_BEFORE_GATING, gate_plan
from quorate.controllers.serving.workloads import serving_plans
from quorate.kube.resources import Json
from quorate.kube.writes import Create, Patch
from tests.controllers.pods.notation import NOW, a_group_workload, a_pod, show

NOTHING = ReconcileContext(flavors={}, workload_classes={}, pod_classes={})
STATEFUL_SET = SETS["statefulset"]
LWS, LWS_GROUP = "LeaderWorkerSet", "leaderworkerset.x-k8s.io"
LEADER_WORKER_SET = SETS["leaderworkerset.x-k8s.io/leaderworkerset"]
QUEUE = {"kueue.x-k8s.io/queue-name": "queue"}
DB = "statefulset-db-f9210"
AVAILABLE = {"type": "Available", "status": "True"}
CHANGED = "spec podSets; +UpdatedWorkload"
OLDER = workload_name("StatefulSet", "apps", "db", Uid(""))


def a_set(
    replicas: int = 2,
    *,
    marked: bool = True,
    annotations: Json | None = None,
    status: Json | None = None,
    priority_class: str = "",
) -> ServingSet:
    template: Json = {"spec": {"containers": [{"name": "main"}]}}
    if marked:
        template["metadata"] = {"annotations": {constants.SUSPENDING_PARENT: "statefulset"}}
    metadata = {
        "name": "db",
        "namespace": "default",
        "uid": "uid-db",
        "resourceVersion": "1",
        "generation": 2,
        "labels": {**QUEUE, **({PRIORITY_CLASS: priority_class} if priority_class else {})},
        "annotations": annotations or {},
    }
    spec = {"replicas": replicas, "template": template}
    return codec.convert(ServingSet, {"metadata": metadata, "spec": spec, "status": status or {}})


def groups_of(size: int, replicas: int, leader: bool = True, container: object = "main") -> ServingSet:
    template: Json = {"spec": {"containers": [{"name": container}]}}
    templates = {"workerTemplate": template, **({"leaderTemplate": template} if leader else {})}
    spec = {"replicas": replicas, "leaderWorkerTemplate": {"size": size, **templates}}
    metadata = {"name": "serve", "namespace": "default", "uid": "uid-serve", "labels": QUEUE}
    return codec.convert(ServingSet, {"metadata": metadata, "spec": spec})


def test_a_malformed_template_is_an_invalid_template() -> None:
    serving = LEADER_WORKER_SET.serving
    assert serving is not None
    odd = groups_of(2, 1, leader=False, container=False)  # YAML reads the name n as that
    with pytest.raises(
        InvalidTemplate, match=r"spec\.leaderWorkerTemplate\.workerTemplate: is no pod template"
    ):
        serving.groups(odd, short_names=False)


def serving_plan(*arguments: Any) -> Plan:
    """Return all plans for a set as one."""
    whole = Plan()
    for plan in serving_plans(*arguments):
        whole = whole.then(plan)
    return whole


def decide(obj: ServingSet, *workloads: Workload, pods: Any = (), kind: Any = STATEFUL_SET) -> str:
    """Show the plans for a set; ``workloads`` without pod templates have those of the set."""
    workloads = tuple(owned(with_templates(kind, obj, workload)) for workload in workloads)
    return show(serving_plan(kind.serving, obj, workloads, pods, NOTHING, JobOptions(), NOW))


@pytest.mark.parametrize(
    ("replicas", "conditions", "want"),
    [
        pytest.param(2, "not-QuotaReserved:Pending", "", id="pending"),
        pytest.param(2, "QuotaReserved Admitted", "", id="admitted"),
        pytest.param(
            3, "not-QuotaReserved:Pending", "spec podSets; +UpdatedWorkload", id="scaled up while pending"
        ),
        pytest.param(3, "QuotaReserved", "!NotResized", id="scaled up with reserved quota"),
        pytest.param(
            0,
            "QuotaReserved Admitted",
            "status QuotaReserved=False:OnHold Admitted=False:NoReservation",
            id="scaled to 0",
        ),
        pytest.param(0, "not-QuotaReserved:OnHold", "", id="on hold"),
        pytest.param(
            2, "not-QuotaReserved:OnHold", "status Admitted=False:NoReservation", id="scaled up again"
        ),
        pytest.param(
            3,
            "not-QuotaReserved:OnHold",
            "spec podSets; status Admitted=False:NoReservation; +UpdatedWorkload",
            id="scaled up again with more replicas",
        ),
        pytest.param(2, "Finished:Succeeded", "", id="finished"),
    ],
)
def test_the_workload_of_a_stateful_set(replicas: int, conditions: str, want: str) -> None:
    assert decide(a_set(replicas), a_group_workload("main=2", conditions, name=DB)) == want


SMALLER: Json = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}


@pytest.mark.parametrize(
    ("spec", "conditions", "want"),
    [
        pytest.param(SMALLER, "not-QuotaReserved:Pending", CHANGED, id="requests of a waiting set"),
        pytest.param(SMALLER, "Evicted:Preempted not-QuotaReserved:Pending", CHANGED, id="of an evicted set"),
        pytest.param(
            {"containers": [{"name": "main"}], "nodeSelector": {"zone": "b"}},
            "not-QuotaReserved:Pending",
            CHANGED,
            id="node selector of a waiting set",
        ),
        pytest.param(SMALLER, "QuotaReserved Admitted", "", id="requests of a set with quota"),
    ],
)
@pytest.mark.parametrize("kind", [STATEFUL_SET, LEADER_WORKER_SET], ids=["StatefulSet", LWS])
def test_the_workload_of_a_set_without_quota_follows_its_template(
    kind: ServingFramework, spec: Json, conditions: str, want: str
) -> None:
    before: ServingSet = a_set() if kind is STATEFUL_SET else groups_of(2, 1)
    assert kind.serving is not None
    (group,) = kind.serving.groups(before, short_names=False)
    roles = " ".join(f"{each.name}={each.count}" for each in group.pod_sets)
    workload = with_templates(kind, before, a_group_workload(roles, conditions, name=group.workload))
    assert decide(before, workload, kind=kind) == ""
    changed = codec.convert(ServingSet, codec.to_builtins(before))
    template = changed.spec["template"] if kind is STATEFUL_SET else changed.spec["leaderWorkerTemplate"]
    (template if kind is STATEFUL_SET else template["workerTemplate"])["spec"] = spec
    assert decide(changed, workload, kind=kind) == want


def test_the_workload_of_a_stateful_set_is_created_before_its_pods() -> None:
    assert decide(a_set()) == f"create {DB} main=2; +CreatedWorkload"
    (create,) = serving_plan(STATEFUL_SET.serving, a_set(), (), (), NOTHING, JobOptions(), NOW).writes
    assert isinstance(create, Create)
    assert create.body.metadata.labels == {JOB_UID: "uid-db"}
    assert decide(a_set(0)) == ""


def test_a_workload_of_kueue_is_adopted_with_its_older_name() -> None:
    """Kueue named it without the UID, and makes the set an owner that does not control it.

    An earlier version made it the controller: Kueue would stop the pods of such a workload.
    """
    conditions = "QuotaReserved Admitted"
    older = a_group_workload("main=2", conditions, name=OLDER)
    owner = OwnerReference(api_version="apps/v1", kind="StatefulSet", name="db", uid=Uid("uid-db"))
    unnamed = msgspec.structs.replace(older.metadata, owner_references=(owner,))
    controlling = msgspec.structs.replace(owner, controller=True, block_owner_deletion=True)
    by_earlier_version = msgspec.structs.replace(owned(older).metadata, owner_references=(controlling,))
    for metadata in (older.metadata, unnamed, by_earlier_version):
        found = msgspec.structs.replace(older, metadata=metadata)
        assert STATEFUL_SET.serving is not None
        pod = a_pod("db-0", group=OLDER, has_finalizer=False, role="main")
        plan = serving_plan(STATEFUL_SET.serving, a_set(), (found,), (pod,), NOTHING, JobOptions(), NOW)
        (patch,) = plan.writes
        assert isinstance(patch, Patch)
        (reference,) = patch.body["metadata"]["ownerReferences"]
        assert (reference.uid, reference.controller) == ("uid-db", False)
        assert patch.body["metadata"]["annotations"][constants.OWNER_NAME] == "db"
        ((labels,),) = plan.concurrent
        assert isinstance(labels, Patch)
        assert labels.body["metadata"]["annotations"][PREBUILT_WORKLOAD] == OLDER


def test_beside_a_workload_with_the_current_name_the_older_one_is_surplus() -> None:
    both = (a_group_workload("main=2", "", name=name, owners=[]) for name in (DB, OLDER))
    assert decide(a_set(), *map(owned, both)) == "delete workload"


def with_templates(kind: ServingFramework, obj: ServingSet, workload: Workload) -> Workload:
    assert kind.serving is not None
    groups = kind.serving.groups(obj, short_names=False)
    templates = {each.name: each.template for each in groups[0].pod_sets} if groups else {}
    pod_sets = tuple(
        msgspec.structs.replace(each, template=templates.get(each.name, each.template))
        if each.template == PodSet().template
        else each
        for each in workload.spec.pod_sets
    )
    return msgspec.structs.replace(workload, spec=msgspec.structs.replace(workload.spec, pod_sets=pod_sets))


def owned(workload: Workload) -> Workload:
    owner = OwnerReference(api_version="apps/v1", kind="StatefulSet", name="db", uid=Uid("uid-db"))
    named = {constants.OWNER_KIND: "apps/v1, Kind=StatefulSet", constants.OWNER_NAME: "db"}
    annotations = {**workload.metadata.annotations, **named}
    metadata = msgspec.structs.replace(workload.metadata, owner_references=(owner,), annotations=annotations)
    return msgspec.structs.replace(workload, metadata=metadata)


def test_without_its_priority_class_there_is_no_workload() -> None:
    shown = decide(a_set(priority_class="high"))
    assert shown.startswith(
        "!WorkloadPriorityClassNotFound; missing WorkloadPriorityClass high doesn't exist"
    )


def test_the_last_pods_of_a_set_that_is_scaled_to_0_keep_the_size_of_their_group() -> None:
    pod = a_pod("db-0", group=DB, has_finalizer=False, role="main")
    workload = a_group_workload("main=2", "QuotaReserved Admitted", name=DB)
    assert STATEFUL_SET.serving is not None
    plan = serving_plan(STATEFUL_SET.serving, a_set(0), (workload,), (pod,), NOTHING, JobOptions(), NOW)
    assert plan.concurrent == ()


@pytest.mark.parametrize(("state", "moves"), [("gated", True), ("pending", False), ("running", False)])
def test_only_gated_pods_move_to_another_queue_with_their_set(state: str, moves: bool) -> None:
    pod = a_pod("db-0", state, group="", has_finalizer=False, role="main", queue="earlier")
    workload = a_group_workload("main=2", "not-QuotaReserved:Pending", name=DB)
    assert STATEFUL_SET.serving is not None
    plan = serving_plan(STATEFUL_SET.serving, a_set(), (workload,), (pod,), NOTHING, JobOptions(), NOW)
    ((patch,),) = plan.concurrent
    assert isinstance(patch, Patch)
    assert ("kueue.x-k8s.io/queue-name" in patch.body["metadata"]["labels"]) is moves


@pytest.mark.parametrize(
    ("state", "status", "strategy", "deleted"),
    [
        pytest.param("gated", {}, {}, True, id="gated"),
        pytest.param("pending", {}, {}, False, id="with quota"),
        pytest.param("gated", {"observedGeneration": 1}, {}, False, id="the status is from before"),
        pytest.param("gated", {"updateRevision": "db-1"}, {}, False, id="of the present template"),
        pytest.param(
            "gated", {}, {"rollingUpdate": {"partition": 1}}, False, id="it may be below the partition"
        ),
        pytest.param("gated", {"updateRevision": None}, {}, False, id="a set without revisions"),
    ],
)
def test_a_gated_pod_of_an_earlier_template_is_deleted(
    state: str, status: Json, strategy: Json, deleted: bool
) -> None:
    obj = a_set(1, status={"updateRevision": "db-2", "observedGeneration": 2, **status})
    obj.spec["updateStrategy"] = strategy
    pod = a_pod("db-0", state, labels={"controller-revision-hash": "db-1"})
    workload = a_group_workload("main=1", "not-QuotaReserved:Pending", name=DB)
    assert ("delete db-0" in decide(obj, workload, pods=[pod])) == deleted


def test_pods_get_the_labels_of_their_group() -> None:
    pod = a_pod("db-0", group="", has_finalizer=False, role="other")
    workload = a_group_workload("main=2", "not-QuotaReserved:Pending", name=DB)
    assert STATEFUL_SET.serving is not None
    plan = serving_plan(STATEFUL_SET.serving, a_set(), (workload,), (pod,), NOTHING, JobOptions(), NOW)
    ((patch,),) = plan.concurrent
    assert isinstance(patch, Patch)
    metadata = patch.body["metadata"]
    assert metadata["labels"] == {constants.GROUP_NAME: DB, PREBUILT_WORKLOAD: DB}
    assert metadata["annotations"] == {
        constants.GROUP_NAME: DB,
        constants.TOTAL_COUNT: "2",
        constants.FAST_ADMISSION: "true",
        constants.SERVING: "true",
        constants.ROLE_HASH: "main",
        PREBUILT_WORKLOAD: DB,
    }


def test_a_leader_worker_set_has_one_workload_for_each_replica() -> None:
    assert decide(groups_of(3, 2), kind=LEADER_WORKER_SET).count("leader=1 worker=2") == 2
    assert decide(groups_of(3, 1, leader=False), kind=LEADER_WORKER_SET).count("main=3") == 1
    assert decide(groups_of(1, 1), kind=LEADER_WORKER_SET).count("leader=1 worker=0") == 1


def test_workloads_of_a_leader_worker_set_have_the_names_that_kueue_gives_them() -> None:
    """Otherwise the groups of a set that Kueue has started would lose their workloads."""
    kind = LEADER_WORKER_SET.serving
    assert kind is not None
    groups = kind.groups(groups_of(2, 2), short_names=True)
    named = [workload_name(LWS, LWS_GROUP, f"serve-{index}", Uid("uid-serve")) for index in (0, 1)]
    assert [group.workload for group in groups] == named
    assert named[1].startswith("leaderworkerset-serve-1-")


@pytest.mark.parametrize("workload_pods", ["leader=1 worker=0", "leader=1"])
def test_a_group_of_a_leader_worker_set_keeps_the_workload_of_an_earlier_version(workload_pods: str) -> None:
    earlier = workload_name(LWS, LWS_GROUP, "serve", Uid("uid-serve"), "0")
    workload = a_group_workload(workload_pods, "QuotaReserved", name=earlier)
    assert decide(groups_of(1, 1), workload, kind=LEADER_WORKER_SET) == ""


def test_a_leader_worker_set_with_too_many_replicas_stops_no_controller() -> None:
    kind, most = LEADER_WORKER_SET.serving, MAX_REPLICAS
    assert kind is not None
    assert len(kind.groups(groups_of(1, most), short_names=False)) == most
    with pytest.raises(InvalidTemplate, match=rf"spec\.replicas: is {2**31 - 1}, must be at most {most}"):
        kind.groups(groups_of(1, 2**31 - 1), short_names=False)
    odd = msgspec.structs.replace(groups_of(1, 2), status={"replicas": 2**31 - 1})
    assert len(kind.groups(odd, short_names=False)) == 2 * most


def test_workloads_of_a_leader_worker_set_have_copied_labels_and_annotations() -> None:
    options = JobOptions(label_keys_to_copy=("team",), annotation_keys_to_copy=("cost",))
    obj = groups_of(2, 1)
    metadata = msgspec.structs.replace(
        obj.metadata, labels={**QUEUE, "team": "a"}, annotations={"cost": "high", "note": "n"}
    )
    assert LEADER_WORKER_SET.serving is not None
    obj = msgspec.structs.replace(obj, metadata=metadata)
    plan = serving_plan(LEADER_WORKER_SET.serving, obj, (), (), NOTHING, options, NOW)
    (create,) = plan.writes
    assert isinstance(create, Create)
    assert create.body.metadata.labels == {"team": "a", JOB_UID: "uid-serve"}
    assert {key: create.body.metadata.annotations.get(key) for key in ("cost", "note")} == {
        "cost": "high",
        "note": None,
    }


def test_the_workload_of_a_surplus_replica_is_deleted() -> None:
    surplus = a_group_workload("leader=1 worker=2", "QuotaReserved", name="of-a-group-that-was")
    shown = decide(groups_of(3, 1), surplus, kind=LEADER_WORKER_SET)
    assert "delete workload" in shown
    going = a_group_workload(name="of-a-group-that-was", deletion_timestamp=at_epoch(NOW))
    assert "release workload" in decide(groups_of(3, 1), going, kind=LEADER_WORKER_SET)


@pytest.mark.parametrize(
    ("obj", "want"),
    [
        pytest.param(a_set(), None, id="annotated by the webhook"),
        pytest.param(
            a_set(marked=False), {"template", "replicas"}, id="not annotated: gated and scaled to 0"
        ),
        pytest.param(a_set(0, marked=False), {"template"}, id="scaled to 0 already"),
        pytest.param(
            a_set(0, annotations={REPLICAS_BEFORE_GATING: "2"}, status={"observedGeneration": 1}),
            set(),
            id="the scale to 0 is not observed yet",
        ),
        pytest.param(
            a_set(
                0, annotations={REPLICAS_BEFORE_GATING: "2"}, status={"observedGeneration": 2, "replicas": 1}
            ),
            set(),
            id="pods remain",
        ),
        pytest.param(
            a_set(0, annotations={REPLICAS_BEFORE_GATING: "2"}, status={"observedGeneration": 2}),
            {"replicas"},
            id="scaled up again",
        ),
        pytest.param(
            a_set(0, annotations={REPLICAS_BEFORE_GATING: "2"}, status={"conditions": [AVAILABLE]}),
            {"replicas"},
            id="scaled up again without observedGeneration",
        ),
        pytest.param(
            a_set(
                0,
                annotations={REPLICAS_BEFORE_GATING: "2"},
                status={"conditions": [AVAILABLE | {"status": "False"}]},
            ),
            set(),
            id="the scale to 0 is not observed yet, without observedGeneration",
        ),
    ],
)
def test_without_webhooks_a_set_is_scaled_down_and_gated(obj: ServingSet, want: set[str] | None) -> None:
    plan = gate_plan(STATEFUL_SET.templates, STATEFUL_SET.resource, obj)
    if want is None:
        assert plan is None
        return
    assert plan is not None
    changed = {field for write in plan.writes if isinstance(write, Patch) for field in write.body["spec"]}
    assert changed == want


def test_a_set_that_is_scaled_while_its_pods_without_the_gate_end_is_scaled_down_again() -> None:
    scaled = a_set(
        3, annotations={REPLICAS_BEFORE_GATING: "2"}, status={"observedGeneration": 2, "replicas": 1}
    )
    plan = gate_plan(STATEFUL_SET.templates, STATEFUL_SET.resource, scaled)
    assert plan is not None
    (patch,) = plan.writes
    assert isinstance(patch, Patch)
    assert patch.body == {
        "metadata": {"annotations": {REPLICAS_BEFORE_GATING: "3"}},
        "spec": {"replicas": 0},
    }


def test_a_set_is_not_scaled_up_while_a_pod_is_left_that_its_status_does_not_count() -> None:
    scaled_down = a_set(0, annotations={REPLICAS_BEFORE_GATING: "2"}, status={"conditions": [AVAILABLE]})
    resource = LEADER_WORKER_SET.resource
    assert gate_plan(LEADER_WORKER_SET.templates, resource, scaled_down, has_pods=True) == Plan()


def test_a_managed_set_without_a_queue_name_is_gated_once() -> None:
    queued = a_set(0, marked=False)
    nameless = msgspec.structs.replace(queued, metadata=msgspec.structs.replace(queued.metadata, labels={}))
    plan = gate_plan(STATEFUL_SET.templates, STATEFUL_SET.resource, nameless)
    assert plan is not None
    (write,) = plan.writes
    assert isinstance(write, Patch)
    marked = write.body["spec"]["template"]["metadata"]["annotations"]
    assert marked == {constants.SUSPENDING_PARENT: "statefulset"}


def test_a_set_with_ready_pods_only_gets_an_event() -> None:
    serving = a_set(marked=False, status={"readyReplicas": 1})
    plan = gate_plan(STATEFUL_SET.templates, STATEFUL_SET.resource, serving)
    assert plan is not None
    assert show(plan) == "!NotGated"


def copy_of(original: ServingSet) -> ServingSet:
    """Return the copy of a set in a worker cluster, which has another uid."""
    metadata = msgspec.structs.replace(
        original.metadata,
        uid=Uid("uid-there"),
        labels={**original.metadata.labels, ORIGIN: "manager"},
        annotations={**original.metadata.annotations, ORIGIN_UID: original.metadata.uid},
    )
    return msgspec.structs.replace(original, metadata=metadata)


@pytest.mark.parametrize(
    ("framework", "original"), [(STATEFUL_SET, a_set()), (LEADER_WORKER_SET, groups_of(3, 2))]
)
def test_the_copy_of_a_set_has_the_workloads_of_its_original(
    framework: ServingFramework, original: ServingSet
) -> None:
    """The manager cluster makes the workloads; the copy adopts them and gives its pods to their groups."""
    serving, copy = framework.serving, copy_of(original)
    assert serving is not None
    made = serving_plan(serving, original, [], [], NOTHING, JobOptions(), NOW)
    workloads = [
        msgspec.structs.replace(
            write.body, metadata=msgspec.structs.replace(write.body.metadata, owner_references=())
        )
        for write in made.writes
        if isinstance(write, Create)
    ]
    names = [group.workload for group in serving.groups(copy, short_names=False)]
    assert names == [workload.metadata.name for workload in workloads]
    assert serving_plan(serving, copy, [], [], NOTHING, JobOptions(), NOW) == Plan()
    adopted = serving_plan(serving, copy, workloads, [], NOTHING, JobOptions(), NOW)
    owners = [
        write.body["metadata"]["ownerReferences"] for write in adopted.writes if isinstance(write, Patch)
    ]
    assert [[owner.uid for owner in each] for each in owners] == [["uid-there"]] * len(workloads)


def test_the_workload_of_a_copy_follows_the_manager_cluster() -> None:
    serving, original = STATEFUL_SET.serving, a_set()
    assert serving is not None
    (create,) = serving_plan(serving, original, [], [], NOTHING, JobOptions(), NOW).writes
    assert isinstance(create, Create)
    workload = msgspec.structs.replace(
        create.body, spec=msgspec.structs.replace(create.body.spec, queue_name="elsewhere")
    )
    assert serving_plan(serving, original, [workload], [], NOTHING, JobOptions(), NOW) != Plan()
    assert serving_plan(serving, copy_of(a_set(3)), [workload], [], NOTHING, JobOptions(), NOW) == Plan()
