"""A manager with three workers, generated from a seed: queues, jobs, clocks, and what happens to them.

Each job fits into the queue of each worker, so all jobs that are not deleted must complete.
"""

import dataclasses
import random
from dataclasses import dataclass
from typing import Any, Final, Literal

from msgspec.structs import replace

from quorate.api.configuration import Configuration
from quorate.api.configuration.multikueue import MultiKueue
from quorate.api.names.multikueue import ALL_AT_ONCE, INCREMENTAL
from tests.faults.scene import PRIORITIES

MANAGER: Final = "manager"
WORKERS: Final = ("worker1", "worker2", "worker3")
SHORT_TIMEOUT_S: Final = 1.0  # workerLostTimeout of some runs
STOPPED_S: Final = 1.0  # less than the grace of the witness, with the time to start again
LONG_TIMEOUT_S: Final = 900.0  # of all others: no job is given to another worker because of a lost one
PROMPT: Final = MultiKueue(  # garbage is soon collected, and a lost worker soon connected again
    gc_interval_s=0.5, worker_lost_timeout_s=LONG_TIMEOUT_S, first_retry_s=0.5, longest_retry_s=2.0
)

Happening = Literal[
    "cut",  # connections of the manager to a worker are closed and refused
    "stall",  # they stay open, and nothing answers
    "slow",  # whatever passes is late
    "expire",  # the kubeconfig of a worker has a token that is not valid any more
    "dead",  # "cut", and the controllers of the worker do not run
    "remove ended",  # jobs of a worker are deleted as soon as they have ended
    "remove copy",  # the Workloads of a worker are deleted
    "restart",  # new processes of the controllers of one cluster
    "restart all",  # of all clusters
]
RARE: Final[tuple[Happening, ...]] = ("remove ended", "remove copy", "restart all")


@dataclass(frozen=True, slots=True)
class Event:
    at_s: float
    what: Happening
    cluster: str
    for_s: float


@dataclass(frozen=True, slots=True)
class RemoteJob:
    """A job that the manager dispatches, to create ``at_s`` after the start."""

    name: str
    at_s: float
    pods: int
    runs: str
    stops: str
    priority: str
    delete_at_s: float | None


@dataclass(frozen=True)
class ClusterScene:
    configuration: Configuration
    cpu: dict[str, int]  # quota of the queue by cluster
    queue: dict[str, Any]  # more fields of all cluster queues
    clocks_off_s: dict[str, float]
    jobs: tuple[RemoteJob, ...]
    events: tuple[Event, ...]

    @property
    def gives_back(self) -> bool:
        """Return True if jobs of a lost worker are given to others while it is lost."""
        return self.configuration.multikueue.worker_lost_timeout_s == SHORT_TIMEOUT_S


def generate_cluster_scene(seed: int) -> ClusterScene:
    rng = random.Random(f"clusters {seed}")
    if seed % 8 in (0, 4):
        removals: tuple[Happening, ...] = ("remove copy", "remove ended")
        what: Happening = rng.choice(removals if seed % 8 else ("cut", "dead"))
        return _one_event(Event(3.0, what, rng.choice(WORKERS), 9.0))  # the jobs end meanwhile
    multikueue = replace(
        PROMPT,
        worker_lost_timeout_s=rng.choice((SHORT_TIMEOUT_S, LONG_TIMEOUT_S, LONG_TIMEOUT_S)),
        dispatcher=rng.choice((ALL_AT_ONCE, ALL_AT_ONCE, INCREMENTAL)),
        step_size=rng.choice((1, 2, 3)),
    )
    jobs = tuple(_job(rng, number) for number in range(rng.randint(5, 8)))
    events = tuple(_event(rng) for _ in range(rng.randint(3, 7)))
    if any(event.what == "remove copy" for event in events):
        # Pods that end late run without a workload then, which the witness of that worker reports.
        jobs = tuple(dataclasses.replace(job, stops="0s") for job in jobs)
        # No controller stops them while those of their worker do not run.
        events = tuple(
            dataclasses.replace(event, for_s=min(event.for_s, STOPPED_S)) if event.what == "dead" else event
            for event in events
        )
    return ClusterScene(
        replace(Configuration(), multikueue=multikueue),
        {MANAGER: rng.choice((5, 8, 12))} | {name: rng.choice((3, 4)) for name in WORKERS},
        {
            "preemption": {"withinClusterQueue": rng.choice(("Never", "LowerPriority"))},
            "queueingStrategy": rng.choice(("BestEffortFIFO", "StrictFIFO")),
        },
        {name: rng.choice((0.0, 0.0, 3600.0, -3600.0, 1.5)) for name in (MANAGER, *WORKERS)},
        jobs,
        events,
    )


def _one_event(event: Event) -> ClusterScene:
    """Return a scene in which all workers have time and quota to run the jobs of the one with the event."""
    return ClusterScene(
        replace(Configuration(), multikueue=PROMPT),
        {MANAGER: 12} | dict.fromkeys(WORKERS, 4),
        {},
        dict.fromkeys((MANAGER, *WORKERS), 0.0),
        tuple(RemoteJob(f"job{number}", 0.0, 1, "8s", "0s", "", None) for number in range(3)),
        (event,),
    )


def _job(rng: random.Random, number: int) -> RemoteJob:
    at_s = rng.choice((0.0, 0.0, 0.5, 2.0))
    return RemoteJob(
        f"job{number}",
        at_s,
        rng.choice((1, 1, 2, 3)),
        f"{rng.choice((30, 1000, 4000, 8000))}ms",
        rng.choice(("0s", "0s", "1500ms")),
        rng.choice(("", *PRIORITIES)),
        at_s + rng.choice((0.05, 1.0, 3.0)) if rng.random() < 0.15 else None,
    )


def _event(rng: random.Random) -> Event:
    what: Happening = rng.choice(("cut", "stall", "slow", "expire", "dead", "restart", *RARE))
    cluster = rng.choice((MANAGER, *WORKERS)) if what == "restart" else rng.choice(WORKERS)
    return Event(rng.uniform(0.1, 5.0), what, cluster, rng.choice((0.1, 1.0, 3.0, 8.0)))
