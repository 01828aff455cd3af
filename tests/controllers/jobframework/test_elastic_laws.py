"""Laws of elastic jobs in any order of resizes, admissions and evictions: templates and flavors."""

from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from quorate.api import codec
from quorate.api.kueue import Admission, PodSetAssignment, Workload
from quorate.api.meta import Key
from quorate.controllers.jobframework.job_plan import JobOptions, ReconcileContext
from quorate.controllers.jobframework.podset_info import read_template
from quorate.controllers.jobframework.rules import decide
from quorate.controllers.jobs.ray import RayCluster
from quorate.kube.patches import merged
from quorate.kube.writes import Create, Delete, Patch, Write
from quorate.queueing import conditions as c
from tests.controllers.jobs.test_ray import HEAD, a_cluster
from tests.controllers.jobs.test_unstructured import with_sections
from tests.controllers.objects import a_flavor

NOW = 2_000.0
KIND = RayCluster()
FLAVORS = {zone: a_flavor(zone, node_labels={"zone": zone}) for zone in ("a", "b")}
CONTEXT = ReconcileContext(flavors=FLAVORS, workload_classes={}, pod_classes={})


class Cluster:
    """An elastic RayCluster with two worker groups, and its workloads; the queue admits in any flavors."""

    def __init__(self, sizes: Sequence[int]) -> None:
        groups = [
            {"groupName": f"g{at}", "replicas": size, "template": HEAD} for at, size in enumerate(sizes)
        ]
        elastic = {"kueue.x-k8s.io/elastic-job": "true"}
        self.job = a_cluster(elastic, suspend=False, workerGroupSpecs=groups)
        self.workloads: dict[Key, Workload] = {}
        self.generation = 1
        self.run()
        self.written = self.templates()  # of the user, with the gate of the elastic job

    def templates(self) -> list[dict[str, Any]]:
        """Return the pod specs of the job; metadata is not compared."""
        spec = self.job.spec
        groups = (spec["headGroupSpec"], *spec["workerGroupSpecs"])
        return [{name: value for name, value in each["template"]["spec"].items() if value} for each in groups]

    def run(self) -> None:
        """Carry out the plans of the job until there is none."""
        for _ in range(20):
            workloads = sorted(self.workloads.values(), key=lambda each: each.metadata.name)
            plan = decide(KIND, self.job, workloads, CONTEXT, JobOptions(), NOW)
            if not plan.all_writes:
                return
            for write in plan.all_writes:
                self.apply(write)
        raise AssertionError("the plans have no end")

    def apply(self, write: Write) -> None:
        match write:
            case Create(body=Workload() as made):
                self.workloads[made.metadata.key] = made
            case Patch(resource, key, body=body) if resource == KIND.resource:
                body = codec.decode(dict[str, Any], codec.encode(body))
                self.job = with_sections(self.job, spec=merged(self.job.spec, body["spec"]))
                # KubeRay follows at once.
                state = {"state": "suspended" if self.job.spec["suspend"] else "ready"}
                self.job = with_sections(self.job, status=state)
            case Patch(key=key, body=body):
                known = codec.to_builtins(self.workloads[key])
                changed = codec.decode(dict[str, Any], codec.encode(body))
                self.workloads[key] = codec.convert(Workload, merged(known, changed))
            case Delete(key=key):
                self.workloads.pop(key)
            case _:
                raise AssertionError(write)

    def current(self) -> list[Workload]:
        """Return the workloads that have not finished, the replaced one first."""
        live = [each for each in self.workloads.values() if not c.is_finished(each)]
        return sorted(live, key=lambda each: not c.has_quota_reservation(each))

    def resize(self, sizes: Sequence[int]) -> None:
        groups = [
            {**group, "replicas": size}
            for group, size in zip(self.job.spec["workerGroupSpecs"], sizes, strict=True)
        ]
        self.generation += 1
        metadata = msgspec.structs.replace(self.job.metadata, generation=self.generation)
        job = msgspec.structs.replace(self.job, metadata=metadata)
        self.job = with_sections(job, spec={**self.job.spec, "workerGroupSpecs": groups})

    def admit(self, zones: Sequence[str]) -> None:
        """Admit the newest workload; pod sets that have pods keep their flavor."""
        *running, newest = self.current()
        if c.has_quota_reservation(newest):
            return
        kept = {
            each.name: each.flavors["cpu"]
            for workload in running
            if workload.status.admission is not None
            for each in workload.status.admission.pod_set_assignments
            if each.count
        }
        assigned = tuple(
            PodSetAssignment(name=pods.name, flavors={"cpu": kept.get(pods.name, zone)}, count=pods.count)
            for pods, zone in zip(newest.spec.pod_sets, zones, strict=True)
        )
        conditions = [
            c.new_condition(type_, "True", type_, "", NOW) for type_ in (c.QUOTA_RESERVED, c.ADMITTED)
        ]
        admission = Admission(cluster_queue="research", pod_set_assignments=assigned)
        status = msgspec.structs.replace(
            newest.status, conditions=c.with_conditions((), *conditions), admission=admission
        )
        self.workloads[newest.metadata.key] = msgspec.structs.replace(newest, status=status)

    def evict(self) -> None:
        for workload in self.current():
            if c.has_quota_reservation(workload):
                evicted = c.new_condition(c.EVICTED, "True", "Preempted", "", NOW)
                conditions = c.with_conditions(workload.status.conditions, evicted)
                status = msgspec.structs.replace(workload.status, conditions=conditions)
                self.workloads[workload.metadata.key] = msgspec.structs.replace(workload, status=status)

    def check(self) -> None:
        for workload in self.current():
            specs = [read_template(pods.template)["spec"] for pods in workload.spec.pod_sets]
            assert [each.get("nodeSelector") for each in specs] == [None] * 3, "the templates of the user"
        if KIND.is_suspended(self.job):
            assert self.templates() == self.written
            return
        running = next(each for each in self.current() if c.has_quota_reservation(each))
        assert running.status.admission is not None
        for template, assigned in zip(
            self.templates(), running.status.admission.pod_set_assignments, strict=True
        ):
            selector = template.get("nodeSelector", {})
            assert selector in ({}, {"zone": assigned.flavors["cpu"]}), "no pod is kept from its flavor"


SIZES = st.tuples(st.integers(0, 2), st.integers(0, 2))
STEPS = st.one_of(
    st.tuples(st.just("resize"), SIZES),
    st.tuples(st.just("admit"), st.tuples(*[st.sampled_from("ab")] * 3)),
    st.tuples(st.just("evict"), st.just(())),
)


@given(sizes=SIZES, steps=st.lists(STEPS, max_size=10))
def test_templates_have_the_flavor_of_running_pods_and_are_restored(
    sizes: tuple[int, int], steps: list[tuple[str, Any]]
) -> None:
    cluster = Cluster(sizes)
    for step, argument in steps:
        if step == "resize":
            cluster.resize(argument)
        elif step == "admit":
            cluster.admit(argument)
        else:
            cluster.evict()
        cluster.run()
        cluster.check()
