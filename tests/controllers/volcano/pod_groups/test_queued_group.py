"""A pod group that a cluster queue admits: its pod set, its start and its stop."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from quorate.api import codec
from quorate.api.names.kueue import STOPPING
from quorate.api.names.volcano import ADMITTED_POD_SETS, SUSPENDED
from quorate.api.volcano import PodGroup
from quorate.controllers.jobframework.interface import Outcome
from quorate.controllers.jobframework.job_plan import JobOptions, JobPlan, ReconcileContext
from quorate.controllers.jobframework.podset_info import PodSetInfo
from quorate.controllers.jobframework.rules import decide
from quorate.controllers.volcano.pod_groups.queued_group import VolcanoPodGroup
from quorate.gang.cache.quota_admission import QuotaAdmission, is_suspended, quota_admission
from quorate.kube.patches import merged
from quorate.kube.writes import Create, Patch

KIND = VolcanoPodGroup()


def a_group(phase: str = "", annotations: dict[str, str] | None = None, **spec: Any) -> PodGroup:
    counts = {name: spec.pop(name) for name in ("running", "succeeded", "failed") if name in spec}
    body: dict[str, Any] = {
        "metadata": {"name": "g", "namespace": "ns", "uid": "u1", "annotations": annotations or {}},
        "spec": {"minMember": 3, "minResources": {"cpu": "6"}, **spec},
        "status": {"phase": phase, **counts},
    }
    return codec.convert(PodGroup, body)


def patched(group: PodGroup, *patches: Patch) -> PodGroup:
    for patch in patches:
        annotations = merged(dict(group.metadata.annotations), patch.body["metadata"]["annotations"])
        group = replace(group, metadata=replace(group.metadata, annotations=annotations))
    return group


@pytest.mark.parametrize(
    ("min_member", "min_resources", "want"),
    [
        pytest.param(3, {"cpu": "6"}, (3, {"cpu": "2"}), id="equal parts"),
        pytest.param(3, {"cpu": "1"}, (3, {"cpu": "334m"}), id="cpu rounded up to thousandths"),
        pytest.param(3, {"nvidia.com/gpu": "4"}, (3, {"nvidia.com/gpu": "2"}), id="whole devices"),
        pytest.param(2, {"memory": "3Gi"}, (2, {"memory": "1536Mi"}), id="bytes"),
        pytest.param(0, {"cpu": "2"}, (1, {"cpu": "2"}), id="at least one pod"),
        pytest.param(2, {}, (2, {}), id="pods that request nothing"),
        pytest.param(2, {"pods": "2", "count/jobs.batch": "1", "cpu": "2"}, (2, {"cpu": "1"}),
                     id="only what containers may request"),
    ],
)  # fmt: skip
def test_quota_is_counted_from_the_spec(
    min_member: int, min_resources: dict[str, str], want: tuple[int, dict[str, str]]
) -> None:
    (pod_set,) = KIND.pod_sets(a_group(minMember=min_member, minResources=min_resources))
    template = msgspec.json.decode(pod_set.template)
    (container,) = template["spec"]["containers"]
    assert (pod_set.count, container["resources"]["requests"]) == want


def planned(group: PodGroup) -> JobPlan:
    labels = {"kueue.x-k8s.io/queue-name": "q"}
    named = replace(group, metadata=replace(group.metadata, labels=labels))
    context = ReconcileContext(flavors={}, workload_classes={}, pod_classes={})
    return decide(KIND, named, (), context, JobOptions(), now=0.0)


def test_a_group_without_min_resources_is_held_without_a_workload() -> None:
    new = a_group(minResources=None)
    (stop,) = planned(new).writes
    assert isinstance(stop, Patch)
    held = planned(patched(new, stop))
    assert held.writes == ()
    (problem,) = held.events
    assert problem.event.reason == "ErrWorkloadCompose"
    assert "spec.minResources is required" in problem.event.message
    (create,) = planned(a_group(annotations={SUSPENDED: "true"})).writes
    assert isinstance(create, Create)


@pytest.mark.parametrize(
    ("group", "want"),
    [
        pytest.param(a_group(), "suspend", id="a new group"),
        pytest.param(a_group("Pending"), "suspend", id="one that waits"),
        pytest.param(a_group("Inqueue"), "suspend, wait for pods", id="its pods may exist"),
        pytest.param(a_group("Running", running=3), "suspend, wait for pods", id="one that runs"),
        pytest.param(a_group(annotations={SUSPENDED: "true"}), "", id="suspended already"),
        pytest.param(a_group(annotations={SUSPENDED: "true", STOPPING: "true"}), "wait for pods",
                     id="its last pods are leaving"),
    ],
)  # fmt: skip
def test_a_stop_suspends_the_group(group: PodGroup, want: str) -> None:
    stop = KIND.stop(group, None)
    stopped = patched(group, *stop.patches)
    steps = [*(["suspend"] if stop.begins else []), *(["wait for pods"] if stop.waits_for_pods else [])]
    assert ", ".join(steps) == want
    assert KIND.is_stopped(stopped)
    assert KIND.is_active(stopped) == (stop.waits_for_pods or group.status.running > 0)
    assert is_suspended(stopped.metadata.annotations), "as the scheduler reads it"


def test_a_start_records_what_the_scheduler_reads() -> None:
    group = a_group(annotations={SUSPENDED: "true"})
    started = patched(group, *KIND.start(group, [PodSetInfo(name="main", count=3, node_selector={"z": "a"})]))
    assert not KIND.is_suspended(started)
    assert not is_suspended(started.metadata.annotations)
    assert quota_admission(started) == QuotaAdmission(3, (("z", "a"),))
    copy = replace(started, metadata=replace(started.metadata, uid=msgspec.convert("another", str)))
    assert quota_admission(copy) is None
    again = patched(started, *KIND.stop(started, None).patches)
    assert ADMITTED_POD_SETS not in again.metadata.annotations


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"jobUid": "u1"}', '{"jobUid": "u1", "podSets": [{"count": "x"}]}']
)
def test_a_record_that_cannot_be_read_is_none(text: str) -> None:
    assert quota_admission(a_group(annotations={ADMITTED_POD_SETS: text})) is None


@pytest.mark.parametrize(
    ("group", "want"),
    [
        pytest.param(a_group("Running", succeeded=2, running=1), None, id="it runs"),
        pytest.param(a_group("Completed", succeeded=3), Outcome(True, "Pod group completed successfully"),
                     id="all pods succeeded"),
        pytest.param(a_group("Completed", succeeded=2, failed=1), Outcome(False, "1 of 3 pods failed"),
                     id="a pod failed"),
    ],
)  # fmt: skip
def test_the_end_of_a_group(group: PodGroup, want: Outcome | None) -> None:
    assert KIND.finished(group) == want


def test_the_group_of_a_queued_job_is_never_suspended() -> None:
    running = a_group("Running", running=3)
    assert not KIND.child_plan(running, ancestor_admitted=False).writes, "the job removes it"
    adopted = a_group(annotations={SUSPENDED: "true"})
    (write,) = KIND.child_plan(adopted, ancestor_admitted=True).writes
    assert isinstance(write, Patch)
    assert not is_suspended(patched(adopted, write).metadata.annotations)
