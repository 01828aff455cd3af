"""Laws of native workloads that are queued: their pods are counted once, and none before all can be."""

from collections import Counter
from dataclasses import dataclass

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.core.pod import Pod
from quorate.api.kueue import Workload
from quorate.api.meta import ObjectMeta
from quorate.api.native_groups import (
    GangPolicy,
    PodGroup,
    PodGroupSpec,
    PodGroupTemplate,
    SchedulingPolicy,
    TemplateReference,
    WorkloadSpec,
    WorkloadTemplateReference,
)
from quorate.api.native_groups import Workload as NativeWorkload
from quorate.controllers.jobframework.construct_workload import NotComposed
from quorate.controllers.jobframework.job_plan import JobOptions, ReconcileContext
from quorate.controllers.pods.group_workload import construct_group_workload, unknown_total
from quorate.controllers.pods.native_workloads import native_group_name, native_unit
from quorate.controllers.pods.pod_group import PodGroup as PodsOfGroup
from quorate.controllers.pods.queued_pod import can_count
from tests.controllers.pods.notation import NOW, a_pod

TEMPLATES = ("workers", "driver")
NOTHING = ReconcileContext(flavors={}, workload_classes={}, pod_classes={})
QUEUE = "kueue.x-k8s.io/queue-name"


@dataclass(frozen=True)
class World:
    groups: tuple[PodGroup, ...]
    pods: tuple[Pod, ...]
    workload: NativeWorkload

    def construct(self) -> Workload | NotComposed:
        unit = native_unit(self.workload, self.groups, self.pods)
        group = PodsOfGroup.of("train", self.pods, NOW).as_unit(unit)
        return construct_group_workload(group, NOTHING, JobOptions()) if group.total else unknown_total(group)


def policy(least: int) -> SchedulingPolicy:
    return SchedulingPolicy(gang=GangPolicy(min_count=least) if least else None)


def member(name: str, group: str, state: str, role: str) -> Pod:
    pod = a_pod(name, state, group="", role=role, queue="")
    spec = msgspec.json.decode(pod.written) | {"schedulingGroup": {"podGroupName": group}}
    return Pod(metadata=pod.metadata, written=msgspec.Raw(msgspec.json.encode(spec)), status=pod.status)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    groups: list[PodGroup] = []
    pods: list[Pod] = []
    for number in range(draw(st.integers(1, 4))):
        template = WorkloadTemplateReference(
            workload_name="train", pod_group_template_name=draw(st.sampled_from(TEMPLATES))
        )
        spec = PodGroupSpec(
            pod_group_template_ref=TemplateReference(workload=template),
            scheduling_policy=policy(draw(st.integers(0, 3))),
        )
        groups.append(PodGroup(metadata=ObjectMeta(name=f"group-{number}", namespace="default"), spec=spec))
        states = draw(st.lists(st.sampled_from(["gated", "gated", "failed", "gated-gone"]), max_size=4))
        pods += [
            member(f"p{number}-{at}", f"group-{number}", state, draw(st.sampled_from(["big", "small"])))
            for at, state in enumerate(states)
        ]
    workload = NativeWorkload(
        metadata=ObjectMeta(name="train", namespace="default", labels={QUEUE: "night"}),
        spec=WorkloadSpec(pod_group_templates=tuple(PodGroupTemplate(name=name) for name in TEMPLATES)),
    )
    return World(tuple(groups), tuple(pods), workload)


@given(world=worlds().filter(lambda world: world.pods))
def test_a_workload_counts_each_pod_once_and_waits_for_whole_groups(world: World) -> None:
    running = Counter(native_group_name(pod) for pod in world.pods if can_count(pod))
    is_whole = {group.spec.template_name for group in world.groups} == set(TEMPLATES) and all(
        running[group.metadata.name]
        >= (group.spec.scheduling_policy.gang or GangPolicy(min_count=1)).min_count
        for group in world.groups
    )
    got = world.construct()
    assert isinstance(got, Workload) == is_whole
    if isinstance(got, Workload):
        assert sum(pod_set.count for pod_set in got.spec.pod_sets) == running.total()
        assert got.spec.queue_name == "night"
        by_template: Counter[str] = Counter()
        for pod_set in got.spec.pod_sets:
            by_template[pod_set.name.rpartition("-")[0]] += pod_set.count
        for template in TEMPLATES:
            of_template = [group for group in world.groups if group.spec.template_name == template]
            assert by_template[template] == sum(running[group.metadata.name] for group in of_template)


@given(world=worlds().filter(lambda world: world.pods))
def test_the_order_of_groups_and_pods_changes_nothing(world: World) -> None:
    turned = World(world.groups[::-1], world.pods[::-1], world.workload)
    one, other = world.construct(), turned.construct()
    if isinstance(one, Workload):
        assert isinstance(other, Workload)
        assert one.spec == other.spec
    else:
        assert isinstance(other, NotComposed)


def test_a_pod_of_a_group_with_the_name_of_the_unit_stops_no_workload() -> None:
    """It is found beside the pods of the groups, but is in none of them."""
    template = WorkloadTemplateReference(workload_name="train", pod_group_template_name="driver")
    spec = PodGroupSpec(
        pod_group_template_ref=TemplateReference(workload=template), scheduling_policy=policy(1)
    )
    group = PodGroup(metadata=ObjectMeta(name="own", namespace="default"), spec=spec)
    workload = NativeWorkload(metadata=ObjectMeta(name="train", namespace="default"), spec=WorkloadSpec())
    foreign = member("p", "workload-train-12345", "gated", "big")
    assert "pod group own" in native_unit(workload, (group,), (foreign,)).incomplete
    assert native_unit(workload, (group,), (foreign, member("q", "own", "gated", "big"))).incomplete == ""
