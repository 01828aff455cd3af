"""The worlds of the benchmark: a supercomputer, a Lublin–Feitelson machine, and a GPU cluster.

The first two have jobs of the model in ``quorate.simulate.inputs.lublin_feitelson``, which names its source
and parameters: a two-stage uniform distribution of the logarithm of the size, a hyper-gamma distribution of
the logarithm of the run time, and gamma distributed times between submissions with a daily cycle.

- *supercomputer* is ``examples/simulate/supercomputer.yaml``: 128 processors, and the jobs as they are drawn.
- *Lublin–Feitelson* has the same machine, but one job in ten has more than half of the processors: its size
  is uniform in (64, 128], and that of the others is drawn until it is at most 64.  Run times are those of the
  model for the size.  The times between submissions are stretched until the load is 85 %: the processor
  seconds of all jobs are 0.85 of those of the machine until the last submission.
- *GPU cluster* is ``gpu-cluster.yaml``: 128 GPUs on 16 nodes in racks, of which gangs take whole nodes.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from msgspec.structs import replace

from quorate.api.configuration.planned_starts import BACKFILL
from quorate.kube.resources import CLUSTER_QUEUES
from quorate.queueing.planning.rules import DEPTH, SLACK
from quorate.simulate.inputs.distributions import Constant
from quorate.simulate.inputs.lublin_feitelson import ModelledJob, draw_run_time, draw_size, modelled_jobs
from quorate.simulate.inputs.scenario import Arrivals, Trace
from quorate.simulate.inputs.submissions import submissions
from quorate.simulate.inputs.world import World, read_world

SUPERCOMPUTER: Final = "supercomputer"
MODEL: Final = "Lublin–Feitelson"
GPUS: Final = "GPU cluster"
WORLDS: Final = (SUPERCOMPUTER, MODEL, GPUS)
EXAMPLE: Final = Path("examples/simulate/supercomputer.yaml")
GPU_CLUSTER: Final = Path(__file__).with_name("gpu-cluster.yaml")
PROCESSORS: Final = 128
LARGE_SHARE: Final = 0.1  # of the jobs of the second world, above half of the processors
LOAD: Final = 0.85
LARGE: Final = 64  # processors
SHORT_S: Final = 4 * 3600
RACK: Final = 32  # GPUs
STEPS_S: Final = tuple(hours * 3600 for hours in (2, 4, 6, 8))
# The modelled jobs are in one trace for each kind of work; the time 0 of all traces is that of this job,
# which is of a queue that they leave out.
_FIRST_LINE: Final = "0 0 -1 0 1 -1 -1 1 -1 -1 1 -1 -1 -1 9 -1 -1 -1\n"
_LONG_S: Final = 1_000  # between the two modes of the run times


class Setting(NamedTuple):
    """A policy, and what jobs declare."""

    strategy: str  # of the queue
    backfill: str = ""  # the annotation
    overestimate: float | None = None  # the declared maximum ÷ the run time; None: nothing is declared
    learns: bool = False  # whether run times are learned from finished jobs
    depth: int = 10  # how many planned starts with ``Conservative``
    slack: int = 0  # the annotation, in percent
    classes: Callable[[int, float], int] | None = None  # priority by processors or GPUs, and declared seconds

    def priority(self, size: int, runs_s: float) -> int:
        return self.classes(size, runs_s * (self.overestimate or math.inf)) if self.classes else 0

    @property
    def has_declared_bounds(self) -> bool:
        """Return True if planned starts depend on declared bounds alone."""
        return bool(self.backfill) and self.overestimate is not None


def large_then_short(size: int, declared_s: float) -> int:
    """Return 2 for a job of at least half of the machine, 1 for one of at most four hours, else 0."""
    return 2 if size >= LARGE else int(declared_s <= SHORT_S)


def racks_then_tens(size: int, declared_s: float) -> int:
    """Return 10 for a gang of a rack, 5 for one of ten nodes, else 0, and 1 for each step of its maximum.

    The steps are 2, 4, 6 and 8 hours: 4 more for a job of at most two hours, 1 more for one of at most eight.
    """
    of_size = 10 if size == RACK else 5 if size >= LARGE else 0
    return of_size + sum(declared_s <= step_s for step_s in STEPS_S)


def world_of(name: str, setting: Setting, jobs: int, seed: int, directory: Path) -> World:
    """Return one of the worlds with so many jobs; ``directory`` is for the files of its jobs."""
    if name == GPUS:
        world = _gpu_cluster(jobs, seed)
        return _with_setting(_with_priorities(world, setting) if setting.classes else world, setting)
    world = read_world(EXAMPLE)
    (model,) = world.scenario.models
    if name == SUPERCOMPUTER:
        rng = Random(f"{seed} {model.name} {model.queue}")  # as the model in a scenario is drawn
        drawn, stretch = list(modelled_jobs(jobs, PROCESSORS, rng)), model.stretch
    else:
        drawn, stretch = loaded_jobs(jobs, seed)
    files = _write_traces(drawn, setting, directory)
    traces = tuple(
        Trace(
            file=file,
            priority=priority,
            namespace=model.namespace,
            queues={"1": model.queue},
            resource=model.resource,
            per_processor=model.per_processor,
            stretch=stretch,
        )
        for file, priority in files.items()
    )
    scenario = replace(world.scenario, seed=seed, models=(), traces=traces)
    return _with_setting(replace(world, scenario=scenario, directory=directory), setting)


def loaded_jobs(jobs: int, seed: int) -> tuple[list[ModelledJob], float]:
    """Return the jobs of the second world, and the factor of the times between their submissions."""
    rng = Random(f"{seed} large jobs")
    drawn = [_resized(job, rng) for job in modelled_jobs(jobs, PROCESSORS, rng)]
    work = sum(job.runs_s * job.processors for job in drawn)
    return drawn, work / (PROCESSORS * LOAD) / drawn[-1].submitted_s


def _resized(job: ModelledJob, rng: Random) -> ModelledJob:
    half = PROCESSORS // 2
    if rng.random() < LARGE_SHARE:
        size = rng.randint(half + 1, PROCESSORS)
    else:
        size = job.processors
        while size > half:
            size = draw_size(PROCESSORS, rng)
    return ModelledJob(job.submitted_s, draw_run_time(size, rng), size)


def _write_traces(jobs: Sequence[ModelledJob], setting: Setting, directory: Path) -> dict[str, int]:
    """Write one file for each kind of work and priority; return the priorities by file.

    A kind has sizes up to the next power of two, with short or long run times.  Run times are learned by
    kind.  Users run the same programs again, so that short and long jobs differ in their names.
    """
    lines: defaultdict[str, list[str]] = defaultdict(lambda: [_FIRST_LINE])
    priorities: dict[str, int] = {}
    for number, job in enumerate(jobs, 1):
        length = "long" if job.runs_s > _LONG_S else "short"
        priority = setting.priority(job.processors, job.runs_s)
        kind = f"{length}-{'abcdefgh'[math.ceil(math.log2(job.processors))]}{priority or ''}.swf"
        priorities[kind] = priority
        lines[kind].append(
            f"{number} {job.submitted_s:.3f} -1 {job.runs_s:.3f} {job.processors} -1 -1 {job.processors}"
            " -1 -1 1 -1 -1 -1 1 -1 -1 -1\n"
        )
    for file, of_kind in lines.items():
        (directory / file).write_text("".join(of_kind))
    return dict(sorted(priorities.items()))


def _gpu_cluster(jobs: int, seed: int) -> World:
    world = read_world(GPU_CLUSTER)
    counts = [class_.arrivals.count or 0 for class_ in world.scenario.classes]
    classes = tuple(
        replace(class_, arrivals=replace(class_.arrivals, count=math.ceil(count * jobs / sum(counts))))
        for class_, count in zip(world.scenario.classes, counts, strict=True)
    )
    return replace(world, scenario=replace(world.scenario, seed=seed, classes=classes))


def _with_priorities(world: World, setting: Setting) -> World:
    """Return a world with the same jobs, each of a class with its own priority."""
    scenario = world.scenario
    classes = []
    for job in submissions(scenario, world.directory):
        class_, runs_s = scenario.classes[job.class_index], job.runs_ms / 1000
        classes.append(
            replace(
                class_,
                name=f"{class_.name}-{job.number}",
                arrivals=Arrivals(at=(job.at_ms / 1000,)),
                runs=Constant(runs_s),
                priority=setting.priority(gpus_of(class_.name, sum(job.counts)), runs_s),
            )
        )
    return replace(world, scenario=replace(scenario, classes=tuple(classes)))


def gpus_of(class_name: str, pods: int) -> int:
    """Return the GPUs of a job of the GPU cluster, of which only ``tuning`` takes no whole nodes."""
    return pods if class_name.startswith("tuning") else 8 * pods


def _with_setting(world: World, setting: Setting) -> World:
    (queue,) = world.of_kind(CLUSTER_QUEUES)
    changed = replace(
        queue,
        metadata=replace(
            queue.metadata,
            annotations={BACKFILL: setting.backfill, DEPTH: str(setting.depth), SLACK: str(setting.slack)},
        ),
        spec=replace(queue.spec, queueing_strategy=setting.strategy),
    )
    key = CLUSTER_QUEUES.api_version, CLUSTER_QUEUES.kind, queue.metadata.key
    scenario = world.scenario
    classes = tuple(replace(class_, overestimate=setting.overestimate) for class_ in scenario.classes)
    traces = tuple(replace(trace, overestimate=setting.overestimate) for trace in scenario.traces)
    scenario = replace(scenario, classes=classes, traces=traces)
    return replace(world, scenario=scenario, objects={**world.objects, key: changed})
