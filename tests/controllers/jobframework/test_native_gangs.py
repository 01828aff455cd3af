"""Gangs on the stock scheduler: the native pod groups with which a job starts."""

from typing import Any

import msgspec
import pytest

from quorate.api.codec import to_builtins
from quorate.api.kueue import ClusterQueue, PodSet, Workload
from quorate.api.kueue.topology import PodSetTopologyRequest
from quorate.api.meta import ObjectMeta
from quorate.api.native_groups import (
    AllPods,
    DisruptionMode,
    GangPolicy,
    PodGroup,
    PodGroupResourceClaim,
    PodGroupSpec,
    SchedulingConstraints,
    SchedulingPolicy,
    TopologyConstraint,
)
from quorate.api.syntax import is_label_value
from quorate.controllers.jobframework.construct_workload import owner_of
from quorate.controllers.jobframework.job_plan import JobOptions, JobPlan
from quorate.controllers.jobframework.native_gangs import wants_native_gangs, with_native_groups
from quorate.controllers.jobframework.podset_info import PodSetInfo
from quorate.controllers.native_groups import Missing, NativeGangs, NativeGroupView
from quorate.kube.resources import JOBS, NATIVE_POD_GROUPS
from quorate.kube.writes import Apply, Patch
from tests.controllers.jobframework.plans import events, plan, show
from tests.controllers.objects import a_job, a_workload, template, with_admitted_count

LABEL = "quorate.dev/pod-group"
NAME = "job-train-e4af4-main-3"
SAME_RACK = SchedulingConstraints(topology=(TopologyConstraint(key="rack"),))
GANG_SPEC = PodGroupSpec(scheduling_policy=SchedulingPolicy(gang=GangPolicy(min_count=3)))
GANG = {"schedulingPolicy": {"gang": {"minCount": 3}}}


def started(workload: Workload, native: NativeGangs = NATIVE_POD_GROUPS, **options: Any) -> JobPlan:
    return plan(a_job(), workload, native_gangs=native, options=JobOptions(**options))


def groups(got: JobPlan) -> list[Apply]:
    return [write for write in got.writes if isinstance(write, Apply)]


def labels(got: JobPlan) -> dict[str, str]:
    (patch,) = (write for write in got.writes if isinstance(write, Patch))
    injected: dict[str, str] = patch.body["spec"]["template"]["metadata"]["labels"]
    return injected


def test_a_group_of_all_admitted_pods_is_written_before_the_job_starts() -> None:
    got = started(a_workload(admitted_to=["spot"]))
    assert show(got) == ["apply PodGroup", "patch Job spec.suspend spec.template"]
    (group,) = groups(got)
    assert (group.key.name, to_builtins(group.body["spec"])) == (NAME, GANG)
    (owner,) = group.body["metadata"]["ownerReferences"]
    assert (owner.kind, owner.name, owner.uid) == ("Job", "train", "u1")
    assert labels(got)[LABEL] == NAME


def test_a_job_without_native_gangs_starts_as_before() -> None:
    workload = a_workload(admitted_to=["spot"])
    got = plan(a_job(), workload)
    assert show(got) == ["patch Job spec.suspend spec.template"]
    assert LABEL not in labels(got)


@pytest.mark.parametrize(
    ("pod_set", "admitted", "spec"),
    [
        pytest.param({"minCount": 2}, 3, {"schedulingPolicy": {"gang": {"minCount": 2}}}, id="least count"),
        pytest.param({}, 2, {"schedulingPolicy": {"gang": {"minCount": 2}}}, id="fewer pods admitted"),
        pytest.param(
            {"topologyRequest": {"required": "cloud.com/rack"}}, 3,
            {**GANG, "schedulingConstraints": {"topology": [{"key": "cloud.com/rack"}]}},
            id="one domain",
        ),
        pytest.param({"topologyRequest": {"preferred": "cloud.com/rack"}}, 3, GANG, id="a preference"),
        pytest.param({"priorityClassName": "high"}, 3, {**GANG, "priorityClassName": "high"}, id="priority"),
    ],
)  # fmt: skip
def test_what_a_group_demands(pod_set: dict[str, Any], admitted: int, spec: dict[str, Any]) -> None:
    request = pod_set.get("topologyRequest")
    made = PodSet(
        count=3,
        template=template(**{key: value for key, value in pod_set.items() if key == "priorityClassName"}),
        min_count=pod_set.get("minCount", msgspec.UNSET),
        topology_request=msgspec.UNSET if request is None else PodSetTopologyRequest(**request),
    )
    workload = with_admitted_count(a_workload(admitted_to=["spot"], pod_sets=[made]), admitted)
    info = PodSetInfo(name="main", count=admitted)
    _, (group,) = with_native_groups(
        NATIVE_POD_GROUPS, [info], workload, owner_of(JOBS, a_job().metadata), ()
    )
    assert to_builtins(group.body["spec"]) == spec


@pytest.mark.parametrize(
    ("pod_set", "count"),
    [
        pytest.param(template(), 1, id="one pod"),
        pytest.param(template(schedulingGroup={"podGroupName": "own"}), 3, id="a group of its own"),
        pytest.param(template(schedulerName="volcano"), 3, id="a gang scheduler of its own"),
    ],
)
def test_pod_sets_without_a_group(pod_set: msgspec.Raw, count: int) -> None:
    workload = a_workload(admitted_to=["spot"], pod_sets=[PodSet(count=count, template=pod_set)])
    infos = (PodSetInfo(name="main", count=count),)
    assert with_native_groups(
        NATIVE_POD_GROUPS, infos, workload, owner_of(JOBS, a_job().metadata), ("volcano",)
    ) == (infos, ())


def test_the_name_of_a_group_is_a_label_value_and_differs_by_count() -> None:
    workload = a_workload(admitted_to=["spot"], name="job-" + "n" * 200)
    names = set()
    for count in (2, 3):
        info = PodSetInfo(name="main", count=count)
        _, (group,) = with_native_groups(
            NATIVE_POD_GROUPS, [info], workload, owner_of(JOBS, a_job().metadata), ()
        )
        names.add(group.key.name)
    assert len(names) == 2
    assert all(map(is_label_value, names))


@pytest.mark.parametrize(
    ("missing", "text"),
    [
        (Missing.GROUPS, "the API server has no podgroups of scheduling.k8s.io/v1alpha2"),
        (Missing.POLICY, "apply the optional manifest native-gangs.yaml"),
    ],
)
def test_a_job_waits_for_what_the_api_server_does_not_have(missing: Missing, text: str) -> None:
    got = started(a_workload(admitted_to=["spot"]), missing)
    assert got.writes == ()
    assert got.wake_at is not None
    (event,) = events(got)
    assert (event.type, event.reason) == ("Warning", "NotStarted")
    assert text in event.message


@pytest.mark.parametrize(
    ("made", "writes_one"),
    [
        pytest.param(None, True, id="no group"),
        pytest.param(PodGroupSpec(), True, id="a group with the basic policy, of a job that asks for none"),
        pytest.param(GANG_SPEC, False, id="a gang"),
        pytest.param(PodGroupSpec(scheduling_constraints=SAME_RACK), False, id="a topology"),
        pytest.param(PodGroupSpec(disruption_mode=DisruptionMode(all=AllPods())), False, id="evicted whole"),
        pytest.param(
            PodGroupSpec(resource_claims=(PodGroupResourceClaim(name="gpus"),)), False, id="a claim"
        ),
    ],
)
def test_a_group_of_the_job_controller_that_says_something_is_kept(
    made: PodGroupSpec | None, writes_one: bool
) -> None:
    group = None if made is None else PodGroup(metadata=ObjectMeta(name="made"), spec=made)
    view = NativeGroupView(True, lambda _: None, group)
    native: dict[str, Any] = {"native_gangs": NATIVE_POD_GROUPS, "native_groups": view}
    got = plan(a_job(), a_workload(admitted_to=["spot"]), **native)
    assert bool(groups(got)) == (LABEL in labels(got)) == writes_one


def test_an_elastic_job_has_no_group() -> None:
    job = a_job(annotations={"kueue.x-k8s.io/elastic-job": "true"})
    got = plan(job, a_workload(admitted_to=["spot"]), native_gangs=NATIVE_POD_GROUPS)
    assert groups(got) == []


@pytest.mark.parametrize(
    ("job", "queue", "default", "wanted"),
    [
        (None, None, False, False),
        (None, None, True, True),
        (None, "native", False, True),
        (None, "none", True, False),
        ("native", "none", False, True),
        ("none", "native", True, False),
    ],
)
def test_the_job_decides_then_its_queue_then_the_configuration(
    job: str | None, queue: str | None, default: bool, wanted: bool
) -> None:
    def metadata(name: str, mode: str | None) -> ObjectMeta:
        return ObjectMeta(name=name, annotations={} if mode is None else {"quorate.dev/gangs": mode})

    queues = {"research": ClusterQueue(metadata=metadata("research", queue))}
    workload = a_workload(admitted_to=["spot"])
    assert wants_native_gangs(metadata("train", job), workload, queues, default) is wanted
