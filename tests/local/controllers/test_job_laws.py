"""Properties of every job, for any sequence of pod events."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from quorate.local.controllers.job.sync import finished_condition
from tests.local.controllers.simulated_job import SimulatedJob, a_job
from tests.search import examples

HAPPENINGS = ("run", "succeed", "fail", "delete", "stop", "wait", "suspend", "resume", "more", "fewer")


@st.composite
def simulated_jobs(draw: st.DrawFn) -> SimulatedJob:
    indexed = draw(st.booleans())
    completions = draw(st.integers(0, 4)) if indexed else draw(st.none() | st.integers(0, 4))
    per_index = indexed and draw(st.booleans())
    limits: dict[str, Any] = {"backoffLimitPerIndex": draw(st.integers(0, 1))} if per_index else {}
    return SimulatedJob(
        a_job(
            completions=completions,
            parallelism=draw(st.integers(0, 4)),
            completionMode="Indexed" if indexed else "NonIndexed",
            backoffLimit=draw(st.integers(0, 3)),
            podReplacementPolicy=draw(st.sampled_from(["TerminatingOrFailed", "Failed"])),
            suspend=draw(st.booleans()),
            **limits,
        )
    )


def happen(world: SimulatedJob, what: str, choice: int) -> None:
    """Apply one random event to the simulated job, if one is possible."""
    live = world.live
    ending = [pod for pod in world.pods.values() if pod.metadata.deletion_timestamp and pod.spec.node_name]
    match what:
        case "run" if live:
            world.run(live[choice % len(live)].metadata.name)
        case "succeed" | "fail" if live:
            world.finish(live[choice % len(live)].metadata.name, code=0 if what == "succeed" else 1)
        case "delete" if live:
            world.delete(live[choice % len(live)].metadata.name)
        case "stop" if ending:
            world.stop(ending[choice % len(ending)].metadata.name)
        case "wait":
            world.now += 15
        case "suspend" | "resume":
            world.change(suspend=what == "suspend")
        case "more" | "fewer":
            world.change(parallelism=max(0, world.job.spec.parallelism + (1 if what == "more" else -1)))


def check(world: SimulatedJob) -> None:
    live, spec, status = world.live, world.job.spec, world.status
    if (
        spec.completions is not None or not status.succeeded
    ):  # otherwise running pods finish (see pod_management)
        assert len(live) <= spec.parallelism, "more pods than the parallelism allows"
    if spec.indexed:
        assert len({pod.index for pod in live}) == len(live), "two pods of one index"
    if spec.suspend:
        assert not live, "a suspended job has pods"
    assert status.active == len(live), "the status is wrong about the active pods"
    if finished_condition(status):
        assert not live, "a finished job has pods"
        assert not any(pod.has_tracking_finalizer for pod in world.pods.values()), (
            "a finished job has a tracked pod"
        )


@given(
    world=simulated_jobs(),
    story=st.lists(st.tuples(st.sampled_from(HAPPENINGS), st.integers(0, 3)), max_size=25),
)
@examples(300)
def test_a_settled_job_matches_its_spec(world: SimulatedJob, story: list[tuple[str, int]]) -> None:
    world.settle()
    check(world)
    for what, choice in story:
        made, over = world.made, finished_condition(world.status)
        happen(world, what, choice)
        idle = world.settle()
        assert (idle.create, idle.discard, idle.delete, idle.release, idle.events) == ((), (), (), (), ())
        assert not (over and world.made > made), "a finished job created a pod"
        check(world)


@given(world=simulated_jobs(), ends=st.lists(st.booleans(), max_size=12))
@examples(200)
def test_every_finished_pod_is_counted_once(world: SimulatedJob, ends: list[bool]) -> None:
    world.change(suspend=False)
    world.settle()
    succeeded = failed = 0
    for success in ends:
        world.now += 1000
        world.settle()
        if not world.live or world.true_conditions:
            break
        world.finish(world.live[0].metadata.name, code=0 if success else 1)
        succeeded, failed = succeeded + success, failed + (not success)
        world.settle()
        if not world.true_conditions:
            kept = sum(
                pod.has_tracking_finalizer and pod.status.phase == "Failed" for pod in world.pods.values()
            )
            assert (world.status.succeeded, world.status.failed + kept) == (succeeded, failed)
