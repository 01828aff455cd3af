"""Queued jobs with Kubernetes' own pod groups: what the groups demand of the pod sets."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.configuration.feature_gates import TopologyGates
from quorate.api.kueue import PodSet
from quorate.api.kueue.topology import PodSetTopologyRequest
from quorate.api.meta import Key, ObjectMeta
from quorate.api.native_groups import (
    BasicPolicy,
    GangPolicy,
    PodGroup,
    PodGroupSpec,
    SchedulingConstraints,
    SchedulingPolicy,
    TopologyConstraint,
)
from quorate.controllers.jobframework.job_plan import JobOptions
from quorate.controllers.jobframework.native_terms import NativeTerms, native_terms, with_least_counts
from quorate.controllers.jobframework.topology import TopologySource, with_topology_requests
from quorate.controllers.native_groups import NativeGroupView
from quorate.kube.writes import Create, Patch
from tests.controllers.jobframework.plans import RUNNING, events, plan, reasons, show
from tests.controllers.objects import a_job, a_workload, template, with_admitted_count

PLACES = JobOptions(topology=TopologyGates())
RACK = "cloud.com/rack"
REQUIRED = "kueue.x-k8s.io/podset-required-topology"
PREFERRED = "kueue.x-k8s.io/podset-preferred-topology"
MIN_PARALLELISM = {"kueue.x-k8s.io/job-min-parallelism": "1"}


def group(name: str, least: int = 0, level: str = "") -> PodGroup:
    """Return a group of at least ``least`` pods; 0: with the basic policy."""
    gang = GangPolicy(min_count=least) if least else None
    constraint = SchedulingConstraints(topology=(TopologyConstraint(key=level),)) if level else None
    policy = SchedulingPolicy(gang=gang, basic=None if gang else BasicPolicy())
    return PodGroup(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=PodGroupSpec(scheduling_policy=policy, scheduling_constraints=constraint),
    )


def view(*groups: PodGroup, made: PodGroup | None = None, known: bool = True) -> NativeGroupView:
    by_key: Mapping[Key, PodGroup] = {each.metadata.key: each for each in groups}
    return NativeGroupView(known, by_key.get, made, topology_levels=frozenset({RACK}))


def members(name: str, **annotations: str) -> msgspec.Raw:
    return template(annotations=annotations, schedulingGroup={"podGroupName": name})


def pod_set(count: int, min_count: int | None, name: str = "ring") -> PodSet:
    least = msgspec.UNSET if min_count is None else min_count
    return PodSet(count=count, min_count=least, template=members(name) if name else template())


@pytest.mark.parametrize(
    ("declared", "least", "may_shrink", "wanted"),
    [
        pytest.param(2, 3, True, 3, id="the group needs more than the job declares"),
        pytest.param(3, 2, True, 3, id="the job declares more"),
        pytest.param(2, 4, True, None, id="the group needs all pods"),
        pytest.param(2, 9, True, None, id="the group needs more pods than there are"),
        pytest.param(None, 2, True, None, id="the job declares no minimum"),
        pytest.param(1, 0, True, 1, id="a basic group"),
        pytest.param(1, 2, False, None, id="a job that may not shrink"),
        pytest.param(1, 0, False, 1, id="a basic group of a job that may not shrink"),
    ],
)
def test_the_least_count_of_a_pod_set(
    declared: int | None, least: int, may_shrink: bool, wanted: int | None
) -> None:
    pod_sets = (pod_set(4, declared),)
    terms = native_terms("default", pod_sets, view(group("ring", least)))
    assert terms is not None
    (got,) = with_least_counts(pod_sets, terms, may_shrink=may_shrink)
    assert got.min_count == (msgspec.UNSET if wanted is None else wanted)


@given(
    sizes=st.lists(
        st.tuples(st.integers(1, 6), st.integers(1, 6), st.sampled_from(["a", "b", ""])), min_size=1
    ),
    least=st.fixed_dictionaries({"a": st.integers(0, 8), "b": st.integers(0, 8)}),
    may_shrink=st.booleans(),
)
def test_no_gang_is_admitted_with_fewer_pods_than_its_minimum_unless_it_has_fewer(
    sizes: list[tuple[int, int, str]], least: dict[str, int], may_shrink: bool
) -> None:
    pod_sets = tuple(pod_set(count, min(declared, count), name) for count, declared, name in sizes)
    groups = [group(name, minimum) for name, minimum in least.items()]
    terms = native_terms("default", pod_sets, view(*groups))
    assert terms is not None
    got = with_least_counts(pod_sets, terms, may_shrink=may_shrink)
    for name, minimum in least.items():
        named = [each for each, (_, _, of) in zip(got, sizes, strict=True) if of == name]
        fewest = sum(each.count if each.min_count is msgspec.UNSET else each.min_count for each in named)
        assert fewest >= min(minimum, sum(each.count for each in named))
    for each, before in zip(got, pod_sets, strict=True):
        assert each.count == before.count
        assert before.min_count is not msgspec.UNSET
        assert each.min_count is msgspec.UNSET or before.min_count <= each.min_count <= each.count


def created(groups: NativeGroupView | None, **job: Any) -> PodSet:
    (create,) = plan(a_job(**job), options=PLACES, native_groups=groups).writes
    assert isinstance(create, Create)
    (got,) = create.body.spec.pod_sets
    assert isinstance(got, PodSet)
    return got


def level_of(got: PodSet) -> str:
    assert isinstance(got.topology_request, PodSetTopologyRequest)
    return got.topology_request.required


def test_a_job_of_a_gang_is_admitted_whole_because_kubernetes_keeps_its_parallelism() -> None:
    job: dict[str, Any] = {"template": members("ring"), "annotations": MIN_PARALLELISM}
    assert created(view(group("ring", 2)), **job).min_count is msgspec.UNSET
    assert created(view(group("ring")), **job).min_count == 1
    assert created(None, **job).min_count == 1


def test_the_group_that_the_job_controller_has_made_counts_as_one_that_is_named() -> None:
    assert created(view(made=group("made", 3)), annotations=MIN_PARALLELISM).min_count is msgspec.UNSET


@pytest.mark.parametrize("least", [0, 2, 3], ids=["not declared: all pods", "some pods", "all pods"])
def test_the_group_that_a_job_of_1_37_declares_counts_before_it_is_made(least: int) -> None:
    gang = {"minCount": least} if least else {}
    declared = {
        "schedulingPolicy": {"gang": gang},
        "schedulingConstraints": {"topology": [{"key": RACK}]},
        "disruptionMode": {"all": {}},
    }
    got = created(view(), scheduling=declared, annotations=MIN_PARALLELISM)
    assert got.min_count is msgspec.UNSET
    assert level_of(got) == RACK
    assert level_of(created(None, scheduling=declared)) == ""
    made = created(view(made=group("made")), scheduling=declared, annotations=MIN_PARALLELISM)
    assert (made.min_count, level_of(made)) == (1, "")


def test_the_topology_of_a_group_is_required_of_quota_if_a_topology_has_its_level() -> None:
    assert level_of(created(view(group("ring", 3, RACK)), template=members("ring"))) == RACK
    assert level_of(created(view(group("ring", 3, "cloud.com/zone")), template=members("ring"))) == ""
    block = created(view(group("ring", 3, RACK)), template=members("ring", **{REQUIRED: "cloud.com/block"}))
    assert level_of(block) == "cloud.com/block"
    preferred = created(view(group("ring", 3, RACK)), template=members("ring", **{PREFERRED: RACK}))
    assert level_of(preferred) == ""


@pytest.mark.parametrize(
    ("counts", "together"),
    [([4], False), ([1, 4], True), ([4, 1], True), ([2, 4], False), ([1, 1, 4], False)],
)
def test_a_leader_and_its_workers_in_one_group_get_places_together(counts: list[int], together: bool) -> None:
    pod_sets = [pod_set(count, None) for count in counts]
    terms = native_terms("default", pod_sets, view(group("ring", 4, RACK)))
    assert terms is not None
    requests = [each.topology_request for each in requested(pod_sets, terms)]
    assert [each.required for each in requests if each] == [RACK] * len(counts)
    assert [each.pod_set_group_name for each in requests if each] == ["ring" if together else ""] * len(
        counts
    )


def requested(pod_sets: list[PodSet], terms: NativeTerms) -> tuple[PodSet, ...]:
    sources = [TopologySource("")] * len(pod_sets)
    return with_topology_requests(pod_sets, sources, TopologyGates(), terms.topology)


def test_a_job_waits_for_a_group_that_does_not_exist() -> None:
    got = plan(a_job(template=members("ring")), native_groups=view())
    (event,) = events(got)
    assert event.message == "pod group ring of scheduling.k8s.io does not exist (create it)"
    assert got.writes == ()
    assert got.missing_dependency


def test_nothing_is_decided_before_the_groups_are_known() -> None:
    got = plan(a_job(template=members("ring")), a_workload(), native_groups=view(known=False))
    assert got.writes == ()
    assert got.wake_at is not None
    assert reasons(plan(a_job(), native_groups=view(known=False))) == ["CreatedWorkload"]


def test_a_pending_workload_follows_a_group_that_is_made_later() -> None:
    job = a_job(template=members("ring"), annotations=MIN_PARALLELISM)
    before = a_workload(pod_sets=[PodSet(count=3, min_count=1, template=members("ring"))])
    assert show(plan(job, before, native_groups=view(group("ring", 2)))) == [
        "patch Workload spec.maximumExecutionTimeSeconds spec.podSets spec.priority "
        "spec.priorityClassRef spec.queueName"
    ]


def test_a_pending_workload_gets_the_topology_of_a_group_that_is_made_later() -> None:
    job, before = (
        a_job(template=members("ring")),
        a_workload(pod_sets=[PodSet(count=3, template=members("ring"))]),
    )
    (patch,) = plan(job, before, options=PLACES, native_groups=view(group("ring", 3, RACK))).writes
    assert isinstance(patch, Patch)
    (got,) = patch.body["spec"]["podSets"]
    assert level_of(got) == RACK
    after = a_workload(pod_sets=[got])
    assert plan(job, after, options=PLACES, native_groups=view(group("ring", 3, RACK))).writes == ()


@pytest.mark.parametrize("groups", [None, view(), view(group("ring", 2)), view(group("ring", 2, RACK))])
def test_a_running_job_is_not_stopped_for_a_group_that_appears_or_disappears(
    groups: NativeGroupView | None,
) -> None:
    job = a_job(template=members("ring"), annotations=MIN_PARALLELISM, **{**RUNNING, "parallelism": 2})
    pod_sets = [PodSet(count=3, min_count=1, template=members("ring"))]
    workload = with_admitted_count(a_workload(admitted_to=["spot"], pod_sets=pod_sets), 2)
    assert plan(job, workload, options=PLACES, native_groups=groups).writes == ()
