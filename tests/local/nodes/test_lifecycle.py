"""The lifecycle of a simulated pod, step by step, without node, server or clock."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from quorate.api import codec
from quorate.api.meta import at_epoch, find_condition
from quorate.api.quantity import parse_quantity
from quorate.kube.patches import status_merge_patch
from quorate.local.nodes.behavior import InvalidBehavior, PodBehavior, parse_behavior
from quorate.local.nodes.lifecycle import (
    PodCounts,
    Progress,
    Stage,
    Step,
    behavior_of,
    counts_as_running,
    next_step,
    stage_of,
    waits_to_run,
)
from quorate.local.nodes.pod_status import PodAddresses
from quorate.local.nodes.pod_types import ContainerState, Pod

START = 1_700_000_000.0
ADDRESSES = PodAddresses(host_ip="10.0.0.1", pod_ip="10.64.0.1")


def a_pod(
    script: Mapping[str, str] | None = None,
    policy: str = "Never",
    deleted: bool = False,
    index: int | None = None,
    subdomain: str = "",
    with_sidecar: bool = False,
) -> Pod:
    wire: dict[str, Any] = {
        "metadata": {
            "name": "p",
            "namespace": "ns",
            "annotations": {f"simulate.quorate.dev/{name}": value for name, value in (script or {}).items()},
        },
        "spec": {
            "nodeName": "node-1",
            "restartPolicy": policy,
            "containers": [{"name": "main", "image": "busybox"}],
            "subdomain": subdomain,
        },
    }
    if with_sidecar:
        sidecar = {"name": "sidecar", "image": "busybox", "restartPolicy": "Always"}
        wire["spec"]["initContainers"] = [{"name": "first", "image": "busybox"}, sidecar]
    if index is not None:
        wire["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] = str(index)
    if deleted:
        wire["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z"
    return codec.decode(Pod, codec.encode(wire))


class SimulatedPod:
    """A pod on which steps take effect, in a process that may restart."""

    def __init__(self, pod: Pod, speed: float = 1.0) -> None:
        self.pod, self.speed, self.now, self.counts = pod, speed, START, PodCounts(1)
        self.progress: Progress | None = None
        self.writes = 0

    def step(self) -> Step:
        step = next_step(self.pod, self.progress, self.counts, ADDRESSES, self.now, self.speed)
        self.progress = step.progress
        if step.status is not None:
            assert step.status != self.pod.status, "a write that changes nothing"
            self.pod = replace(self.pod, status=step.status)
            self.writes += 1
        return step

    def until(self, stage: Stage) -> float:
        """Advance to each requested wake-up until the stage is reached; return the elapsed seconds."""
        began = self.now
        for _ in range(20):
            wake_at = self.step().wake_at
            if stage_of(self.pod) is stage:
                return self.now - began
            assert wake_at is not None, f"the pod sleeps for ever in {stage_of(self.pod)}"
            self.now = wake_at
        raise AssertionError(f"still {stage_of(self.pod)}")

    def reason(self, type_: str) -> tuple[str, str, str]:
        condition = find_condition(self.pod.status.conditions, type_)
        assert condition is not None
        return condition.status, condition.reason, condition.message


def test_a_pod_starts_runs_and_succeeds() -> None:
    life = SimulatedPod(a_pod({"start-delay": "500ms", "duration": "2s"}))
    life.step()
    assert (life.pod.status.phase, stage_of(life.pod)) == ("Pending", Stage.CREATING)
    (container,) = life.pod.status.container_statuses
    assert container.state.waiting is not None
    assert container.state.waiting.reason == "ContainerCreating"
    assert life.reason("Ready")[:2] == ("False", "ContainersNotReady")
    assert life.until(Stage.RUNNING) == 0.5
    assert (life.pod.status.phase, life.pod.status.pod_ip) == ("Running", "10.64.0.1")
    assert life.reason("Ready")[0] == "True"
    assert life.until(Stage.ENDED) == 2.0
    assert life.pod.status.phase == "Succeeded"
    assert life.reason("Ready")[:2] == ("False", "PodCompleted")
    assert life.writes == 3, "one write a transition"


@pytest.mark.parametrize(
    ("exit_code", "deleted", "of_sidecar"), [("0", False, 0), ("7", False, 0), ("0", True, 143)]
)
def test_sidecars_end_with_their_pod(exit_code: str, deleted: bool, of_sidecar: int) -> None:
    life = SimulatedPod(a_pod({"exit-code": exit_code}, with_sidecar=True))
    life.step()
    assert life.reason("Initialized") == (
        "False",
        "ContainersNotInitialized",
        "containers with incomplete status: [first sidecar]",
    )
    life.until(Stage.RUNNING)
    assert life.reason("Initialized")[0] == "True"
    if deleted:
        life.pod = replace(life.pod, metadata=replace(life.pod.metadata, deletion_timestamp=at_epoch(START)))
    life.until(Stage.ENDED)
    first, sidecar = life.pod.status.init_container_statuses
    assert first.state.terminated is not None
    assert sidecar.state.terminated is not None
    assert (first.state.terminated.exit_code, sidecar.state.terminated.exit_code) == (0, of_sidecar)
    assert (sidecar.ready, sidecar.started) == (False, False)


def test_a_sidecar_runs_on_while_a_container_restarts() -> None:
    life = SimulatedPod(a_pod({"exit-code": "1"}, "OnFailure", with_sidecar=True))
    life.until(Stage.CRASHED)
    (_, before) = life.pod.status.init_container_statuses
    life.until(Stage.RUNNING)
    (_, after) = life.pod.status.init_container_statuses
    assert (after, after.ready, after.restart_count) == (before, True, 0)


@pytest.mark.parametrize("speed", [0.5, 1.0, 20.0])
def test_speed_scales_all_delays(speed: float) -> None:
    life = SimulatedPod(a_pod({"duration": "3s"}), speed)
    life.step()
    assert life.until(Stage.RUNNING) == pytest.approx(1 / speed)
    assert life.until(Stage.ENDED) == pytest.approx(3 / speed)


def test_a_non_zero_exit_code_fails_the_pod() -> None:
    life = SimulatedPod(a_pod({"exit-code": "7"}))
    life.until(Stage.ENDED)
    (container,) = life.pod.status.container_statuses
    assert container.state.terminated is not None
    assert (life.pod.status.phase, container.state.terminated.exit_code) == ("Failed", 7)
    assert container.state.terminated.reason == "Error"


@pytest.mark.parametrize(("exit_code", "policy"), [("7", "OnFailure"), ("7", "Always"), ("0", "Always")])
def test_a_restarted_container_backs_off_exponentially(exit_code: str, policy: str) -> None:
    life = SimulatedPod(a_pod({"duration": "1s", "exit-code": exit_code}, policy))
    life.until(Stage.CRASHED)
    assert life.until(Stage.RUNNING) == 10.0
    assert [status.restart_count for status in life.pod.status.container_statuses] == [1]
    life.until(Stage.CRASHED)
    assert life.until(Stage.RUNNING) == 20.0
    assert life.pod.status.phase == "Running"


@pytest.mark.parametrize(
    ("policy", "script"),
    [
        pytest.param("Never", {"duration": "forever"}, id="as annotated"),
        pytest.param("Always", {}, id="restart policy Always runs forever"),
    ],
)
def test_a_pod_that_runs_forever_schedules_no_wake_up(policy: str, script: dict[str, str]) -> None:
    life = SimulatedPod(a_pod(script, policy))
    life.until(Stage.RUNNING)
    assert life.step() == Step(Progress(since=START + 1.0))


def test_time_counts_only_while_enough_peers_run() -> None:
    life = SimulatedPod(a_pod({"duration": "10s", "together": "3"}))
    life.until(Stage.RUNNING)
    waiting = ("False", "WaitingForPeers", "1 of 3 pods run")
    assert life.reason("simulate.quorate.dev/Progressing") == waiting
    life.now += 100
    assert life.step().wake_at is None
    life.counts = PodCounts(3)
    assert life.step().wake_at == life.now + 10
    assert life.reason("simulate.quorate.dev/Progressing") == ("True", "PeersRun", "3 of 3 pods run")
    life.now += 4
    life.counts = PodCounts(2)
    assert life.step().wake_at is None
    life.now += 100
    life.counts = PodCounts(3)
    assert life.step().wake_at == life.now + 6, "the four seconds before are kept"


def test_pods_of_an_indexed_job_with_a_subdomain_wait_until_all_run() -> None:
    life = SimulatedPod(a_pod(index=0, subdomain="workers"))
    life.counts = PodCounts(running=1, waiting=2)
    life.until(Stage.RUNNING)
    waiting = ("False", "WaitingForPeers", "1 of 3 pods run")
    assert life.reason("simulate.quorate.dev/Progressing") == waiting
    life.counts = PodCounts(running=2, waiting=1)
    assert life.step().wake_at is None
    life.counts = PodCounts(running=3)
    assert life.step().wake_at == life.now + 10
    assert life.reason("simulate.quorate.dev/Progressing") == ("True", "PeersRun", "3 of 3 pods run")


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(a_pod(), PodBehavior(), id="alone"),
        pytest.param(a_pod(index=3), PodBehavior(), id="indexed"),
        pytest.param(a_pod(subdomain="workers"), PodBehavior(), id="subdomain"),
        pytest.param(
            a_pod(index=3, subdomain="workers"),
            PodBehavior(duration_s=10.0, together=None),
            id="communicates",
        ),
        pytest.param(
            a_pod({"together": "2", "duration": "3s"}, index=3, subdomain="workers"),
            PodBehavior(duration_s=3.0, together=2),
            id="annotations first",
        ),
        pytest.param(
            a_pod(policy="Always", index=3, subdomain="web"), PodBehavior(duration_s=None), id="a service"
        ),
    ],
)
def test_the_behavior_without_annotations(pod: Pod, want: PodBehavior) -> None:
    assert behavior_of(pod) == want


def test_an_irrelevant_change_of_peers_is_not_written() -> None:
    life = SimulatedPod(a_pod({"duration": "10s", "together": "4"}))
    life.until(Stage.RUNNING)
    writes = life.writes
    for life.counts in (PodCounts(2), PodCounts(3), PodCounts(2)):
        life.step()
    assert life.writes == writes


@pytest.mark.parametrize(
    ("phase", "deleted", "runs", "waits"),
    [
        pytest.param("Running", False, True, False, id="running"),
        pytest.param("Pending", False, False, True, id="pending"),
        pytest.param("Pending", True, False, False, id="deleted before its start"),
        pytest.param("Running", True, False, False, id="terminating"),
        pytest.param("Succeeded", False, True, False, id="succeeded"),
        pytest.param("Failed", False, False, False, id="failed"),
    ],
)
def test_what_counts_as_running_or_waiting(phase: str, deleted: bool, runs: bool, waits: bool) -> None:
    pod = a_pod(deleted=deleted)
    pod = replace(pod, status=replace(pod.status, phase=phase))
    assert (counts_as_running(pod), waits_to_run(pod)) == (runs, waits)


def test_a_deleted_pod_is_stopped_and_then_removed() -> None:
    life = SimulatedPod(a_pod({"duration": "forever"}))
    life.until(Stage.RUNNING)
    marked = replace(life.pod.metadata, deletion_timestamp=at_epoch(life.now))
    life.pod = replace(life.pod, metadata=marked)
    stopped = life.step()
    assert stopped.status is not None
    assert (stopped.delete, stopped.status.phase) == (False, "Failed")
    assert life.step() == Step(None, delete=True)


@pytest.mark.parametrize(("grace_s", "ends_after_s"), [(30, 3.0), (1, 1.0)])
def test_a_deleted_pod_ends_after_its_delay_or_its_grace_period(grace_s: int, ends_after_s: float) -> None:
    life = SimulatedPod(a_pod({"duration": "forever", "stop-delay": "3s"}))
    life.until(Stage.RUNNING)
    marked = replace(life.pod.metadata, deletion_timestamp=at_epoch(life.now + grace_s))
    life.pod = replace(life.pod, metadata=marked)
    assert life.until(Stage.ENDED) == ends_after_s


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("duration", "2", "is not a duration (write 500ms, 2s or 1m30s)"),
        ("start-delay", "forever", "is not a duration (write 500ms, 2s or 1m30s)"),
        ("together", "0", "is not a whole number from 1 to 1000000"),
        ("exit-code", "256", "is not a whole number from 0 to 255"),
        ("exit-code", "-1", "is not a whole number from 0 to 255"),
    ],
)
def test_an_invalid_annotation_prevents_the_start(name: str, value: str, rule: str) -> None:
    life = SimulatedPod(a_pod({name: value}))
    message = f"annotation simulate.quorate.dev/{name}: {value!r} {rule}"
    with pytest.raises(InvalidBehavior, match="annotation"):
        parse_behavior(life.pod.metadata.annotations, "Never")
    life.step()
    (container,) = life.pod.status.container_statuses
    assert container.state.waiting is not None
    assert (container.state.waiting.reason, container.state.waiting.message) == (
        "CreateContainerConfigError",
        message,
    )
    assert life.step() == Step(None), "said once"


def test_durations_may_mix_units() -> None:
    annotations = {"simulate.quorate.dev/duration": "1h1m1.5s250ms"}
    assert parse_behavior(annotations, "Never") == PodBehavior(duration_s=3661.75)


@given(
    forget=st.sets(st.integers(0, 5)),
    delay_s=st.integers(0, 5),
    duration_s=st.integers(0, 50),
    speed=st.sampled_from([1.0, 3.0, 100.0]),
)
def test_a_restarted_process_resumes_from_the_status(
    forget: set[int], delay_s: int, duration_s: int, speed: float
) -> None:
    """Timestamps have whole seconds, so time in a stage may be up to a second short."""
    life = SimulatedPod(a_pod({"duration": f"{duration_s}s", "start-delay": f"{delay_s}s"}), speed)
    for turn in range(6):
        if turn in forget:
            life.progress = None
        wake_at = life.step().wake_at
        if wake_at is not None:
            life.now = max(life.now, wake_at)
    assert stage_of(life.pod) is Stage.ENDED
    whole = (delay_s + duration_s) / speed
    assert whole - 2.0 <= life.now - START <= whole + 1e-5


def test_no_write_removes_the_phase() -> None:
    """A decoded status and one composed here must not differ in their encoded defaults."""
    life = SimulatedPod(a_pod())
    life.pod = codec.decode(Pod, b'{"metadata": {"name": "p"}, "status": {"phase": "Pending"}}')
    before = life.pod
    life.step()
    patch = status_merge_patch(before.metadata, before.status, life.pod.status)
    assert "phase" not in patch["status"]


def test_each_transition_of_a_running_pod_keeps_what_a_resize_has_stored() -> None:
    life = SimulatedPod(a_pod({"duration": "1s", "exit-code": "1"}, "OnFailure"))
    life.until(Stage.RUNNING)
    (container,) = life.pod.status.container_statuses
    allocated = {"cpu": parse_quantity("1")}
    resized = replace(container, allocated_resources=allocated, state=ContainerState())
    life.pod = replace(life.pod, status=replace(life.pod.status, container_statuses=(resized,)))
    for stage in (Stage.RUNNING, Stage.CRASHED, Stage.RUNNING):
        life.until(stage)
        (container,) = life.pod.status.container_statuses
        assert container.allocated_resources == allocated, stage


def test_a_pod_fails_at_its_deadline() -> None:
    pod = a_pod({"duration": "1h"}, policy="Always")
    pod = replace(pod, spec=replace(pod.spec, active_deadline_seconds=30))
    step = next_step(pod, None, PodCounts(), ADDRESSES, START, 1.0)
    assert step.status is not None
    pod = replace(pod, status=step.status)
    step = next_step(pod, step.progress, PodCounts(), ADDRESSES, START + 29, 1.0)
    assert (step.status is not None, step.wake_at) == (True, START + 30)
    assert step.status is not None
    pod = replace(pod, status=step.status)
    step = next_step(pod, step.progress, PodCounts(), ADDRESSES, START + 30, 1.0)
    assert step.status is not None
    assert (step.status.phase, step.status.reason) == ("Failed", "DeadlineExceeded")
