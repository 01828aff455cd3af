"""Invariants of Volcano Jobs under any events and any interruption of a plan."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from quorate.api.meta import Uid, at_epoch
from quorate.api.volcano import PodGroup
from quorate.api.volcano.job import Job, with_defaults
from quorate.controllers.volcano.job.job_pod_group import awaits_admission
from quorate.controllers.volcano.job.job_pods import JobPod, LostPod
from quorate.controllers.volcano.job.job_sync import JobInfo, JobPlan, decide
from tests.controllers.volcano.job.notation import NOW, a_group, a_job, changed, job_pods
from tests.search import examples

ACTIONS = ("RestartJob", "RestartTask", "RestartPod", "AbortJob", "CompleteJob", "SyncJob")
EVENTS = ("PodFailed", "PodEvicted", "TaskCompleted", "*")
FINAL = ("Completed", "Failed", "Terminated", "Aborted")


class World:
    """A job with its pods and its pod group, as the API server would store them."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.pods: dict[str, JobPod] = {}
        self.group: PodGroup | None = None
        self.lost: dict[str, LostPod] = {}
        self.created = 0

    def plan(self) -> JobPlan:
        pods = [self.pods[name] for name in sorted(self.pods)]
        return decide(
            JobInfo(self.job, pods, self.group, (), tuple(self.lost.values()), {}, NOW + self.created)
        )

    def execute(self, plan: JobPlan, steps: int) -> None:
        """Execute the first ``steps`` writes of ``plan``, in its order."""
        writes = [
            *([lambda: self._write_status(plan)] if plan.status is not None else []),
            *([self._create_group] if plan.group is not None and self.group is None else []),
            *[lambda pod=pod: self._delete(pod) for pod in plan.pods_to_delete],
            *([self._delete_group] if plan.group_to_delete is not None else []),
            *[lambda new=new: self._create(new.task, new.index) for new in plan.pods_to_create],
        ]
        for write in writes[:steps]:
            write()

    def _write_status(self, plan: JobPlan) -> None:
        assert plan.status is not None
        old, new = self.job.status, plan.status
        assert new.version >= old.version, "the version decreased"
        assert new.retry_count >= old.retry_count
        assert new.retry_count <= max(old.retry_count, with_defaults(self.job).spec.max_retry), (
            "more retries than maxRetry"
        )
        self.job = replace(self.job, status=new)
        for lost in plan.handled_losses:
            del self.lost[lost.key.name]

    def _delete(self, pod: JobPod) -> None:
        self.pods.pop(pod.metadata.name, None)

    def _delete_group(self) -> None:
        self.group = None

    def _create_group(self) -> None:
        self.group = a_group("")

    def _create(self, task: str, index: int) -> None:
        assert not awaits_admission(self.group), "a pod was created while its group is pending"
        (pod,) = job_pods(
            f"{task}: " + "- " * index + "pending@",
            version=self.job.status.version,
            retry=self.job.status.retry_count,
        )
        assert pod.metadata.name not in self.pods, "a pod was created twice"
        self.created += 1
        uid = Uid(f"{pod.metadata.uid}-{self.created}")
        created = at_epoch(NOW + self.created)
        metadata = replace(pod.metadata, uid=uid, creation_timestamp=created)
        self.pods[pod.metadata.name] = changed(pod, metadata=metadata)

    # Changes by the scheduler, the kubelet and users.

    def set_group_phase(self, phase: str) -> None:
        if self.group is not None:
            self.group = a_group(phase)

    def set_pod_phase(self, index: int, phase: str) -> None:
        names = sorted(name for name, pod in self.pods.items() if not pod.is_finished)
        if names:
            name = names[index % len(names)]
            pod = self.pods[name]
            status = replace(pod.pod.status, phase=phase)
            self.pods[name] = changed(pod, status=status, node_name="node-1")

    def lose_pod(self, index: int) -> None:
        names = sorted(name for name, pod in self.pods.items() if not pod.is_finished and pod.node_name)
        if names:
            pod = self.pods.pop(names[index % len(names)])
            key = pod.metadata.key
            self.lost[key.name] = LostPod(
                key, pod.metadata.uid, pod.task, pod.index, "", pod.version, NOW + self.created
            )


def run(world: World, events: Sequence[tuple[str, int, int]]) -> None:
    for event, index, steps in events:
        match event:
            case "Pending" | "Inqueue" | "Unknown":
                world.set_group_phase(event)
            case "lose":
                world.lose_pod(index)
            case _:
                world.set_pod_phase(index, event.capitalize())
        world.execute(world.plan(), steps)


def settle(world: World) -> int:
    """Return the number of complete plans until one changes nothing."""
    for count in range(20):
        before = (world.job.status, dict(world.pods), world.group)
        world.execute(world.plan(), 1000)
        if (world.job.status, world.pods, world.group) == before:
            return count
    raise AssertionError(f"the job does not settle: {world.job.status}")


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(
            ["Pending", "Inqueue", "Inqueue", "Unknown", "running", "succeeded", "failed", "lose"]
        ),
        st.integers(0, 5),
        st.integers(0, 8),
    ),
    max_size=25,
)
JOBS = st.builds(
    lambda tasks, policies, minimum, retries: a_job(
        tasks, phase="", policies=policies, minAvailable=minimum, maxRetry=retries
    ),
    st.sampled_from(["worker=3", "ps=1 worker=2", "worker=1/3"]),
    st.lists(
        st.fixed_dictionaries({"event": st.sampled_from(EVENTS), "action": st.sampled_from(ACTIONS)}),
        max_size=2,
    ),
    st.integers(0, 3),
    st.integers(1, 3),
)


@examples(150)
@given(job=JOBS, events=CHANGES)
def test_no_pod_is_created_while_the_group_is_pending_and_the_job_settles(
    job: Job, events: list[tuple[str, int, int]]
) -> None:
    world = World(job)
    run(world, events)
    settle(world)
    if world.job.status.state.phase in FINAL:
        assert world.group is None
        assert not any(not pod.is_finished for pod in world.pods.values())
    elif awaits_admission(world.group):
        assert all(pod.node_name or pod.is_finished for pod in world.pods.values())


@examples(100)
@given(events=CHANGES, retries=st.integers(1, 3))
def test_a_restarted_job_runs_pods_of_one_version(events: list[tuple[str, int, int]], retries: int) -> None:
    policies = [{"event": "PodFailed", "action": "RestartJob"}]
    world = World(a_job("worker=3", phase="", policies=policies, maxRetry=retries))
    run(world, events)
    settle(world)
    versions = {pod.version for pod in world.pods.values() if not pod.is_finished}
    assert versions <= {world.job.status.version}
    assert world.job.status.retry_count == world.job.status.version


def test_the_order_of_the_pods_does_not_matter() -> None:
    job = a_job("ps=1 worker=3", phase="Running", policies=[{"event": "*", "action": "RestartPod"}])
    pods = job_pods("ps: failed; worker: failed pending running")
    forward, backward = (
        decide(JobInfo(job, each, a_group("Running"), (), (), {}, NOW))
        for each in (pods, list(reversed(pods)))
    )
    assert forward.status == backward.status
    assert [pod.metadata.name for pod in forward.pods_to_delete] == [
        pod.metadata.name for pod in backward.pods_to_delete
    ]
