"""The worlds of the benchmark of planned starts are what they claim to be, and late starts are counted."""

import pytest
from bench.backfill.figures import play_setting
from bench.backfill.late_starts import LateStarts
from bench.backfill.worlds import (
    GPUS,
    LARGE_SHARE,
    LOAD,
    MODEL,
    PROCESSORS,
    SUPERCOMPUTER,
    WORLDS,
    Setting,
    large_then_short,
    loaded_jobs,
    racks_then_tens,
)

from tests.queueing.test_planned_starts import FIRST, LARGE, a_world, job


def test_the_second_world_has_the_load_and_the_large_jobs_that_it_claims() -> None:
    jobs, stretch = loaded_jobs(2_000, seed=1)
    work = sum(one.runs_s * one.processors for one in jobs)
    assert work / (PROCESSORS * jobs[-1].submitted_s * stretch) == pytest.approx(LOAD)
    large = sum(one.processors > PROCESSORS // 2 for one in jobs)
    assert large / len(jobs) == pytest.approx(LARGE_SHARE, rel=0.2)
    assert max(one.processors for one in jobs) <= PROCESSORS


CLASSES = Setting("BestEffortFIFO", "Conservative", 2, depth=3, classes=large_then_short)


def test_the_gpu_cluster_has_the_same_jobs_with_and_without_classes() -> None:
    setting = Setting("BestEffortFIFO")
    of_one_priority = setting._replace(classes=lambda size, declared_s: 0)
    assert play_setting(GPUS, of_one_priority, 150, seed=1) == play_setting(GPUS, setting, 150, seed=1)


@pytest.mark.parametrize(
    ("world", "setting"),
    [
        *((world, Setting("BestEffortFIFO", "EASY", 2)) for world in WORLDS),
        (SUPERCOMPUTER, CLASSES),
        (MODEL, CLASSES),
        (GPUS, Setting("BestEffortFIFO", "EASY", 1, slack=50, classes=racks_then_tens)),
    ],
)
def test_with_declared_bounds_no_start_is_late(world: str, setting: Setting) -> None:
    figures = play_setting(world, setting, 150, seed=1)
    assert figures.late == 0
    assert figures.planned > 0


def test_a_start_is_late_if_another_workload_delays_it() -> None:
    starts = LateStarts()
    world = a_world(FIRST, LARGE)
    world.given["workloads"] = (FIRST, LARGE, job("higher", 8, 5, 50, priority=1))
    starts.observe(world.state, 10)
    world.run({"create": ["higher"]})
    world.run({"cycle": 12})
    starts.observe(world.state, 10)
    assert (starts.made, starts.late, starts.revised) == (2, 0, 0)
    starts.observe(world.state, 111)  # both wait; what delays the large one comes first
    assert (starts.made, starts.late, starts.revised) == (2, 1, 2)


def test_run_times_are_learned_from_workloads_that_have_ended() -> None:
    figures = play_setting(WORLDS[0], Setting("BestEffortFIFO", "EASY", learns=True), 150, seed=1)
    assert figures.planned > 0  # without bounds no time is known
