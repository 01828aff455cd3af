"""No job runs in two clusters at once, and each runs to its end once, checked on the states of all clusters.

A job runs in a cluster while it has a Job there that is not suspended and not finished, or a pod that is
neither ended nor being deleted.  States of several clusters are in the order in which their watches delivered
them to one process.  A job that was given back, because its worker was lost for longer than the timeout, may
run there until the worker is connected again.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import TypeVar

from quorate.api.batch import Job
from quorate.api.core import Pod
from quorate.api.meta import Key, Uid, is_true
from tests.faults.history import Step

T = TypeVar("T")


class ClusterPromises:
    def __init__(self, gives_back: bool) -> None:
        self._gives_back = gives_back  # jobs of lost workers run elsewhere while these cannot be reached
        self._jobs: dict[str, dict[str, set[Uid]]] = defaultdict(lambda: defaultdict(set))  # by job, worker
        self._pods: dict[str, dict[str, set[Key]]] = defaultdict(lambda: defaultdict(set))
        self.completed: dict[str, set[Uid]] = defaultdict(set)  # the Jobs of workers that completed, by job

    def step(self, worker: str, step: Step) -> Iterator[str]:
        """Check the next stored state of a worker and yield its findings."""
        match step.object:
            case Job() as job:
                name, conditions = job.metadata.name, job.status.conditions
                if is_true(conditions, "Complete"):
                    self.completed[name].add(job.metadata.uid)
                ended = is_true(conditions, "Complete") or is_true(conditions, "Failed")
                runs = not (step.deleted or job.spec.suspend or ended)
                runs = runs and job.metadata.deletion_timestamp is None
                yield from self._changed(self._jobs[name], worker, name, job.metadata.uid, runs, step)
            case Pod() as pod:
                name = pod.metadata.labels.get("job-name", "")
                ended = pod.status.phase in ("Succeeded", "Failed")
                runs = not (step.deleted or ended) and pod.metadata.deletion_timestamp is None
                yield from self._changed(self._pods[name], worker, name, pod.metadata.key, runs, step)

    def _changed(
        self, running: dict[str, set[T]], worker: str, name: str, identity: T, runs: bool, step: Step
    ) -> Iterator[str]:
        if not runs:
            running[worker].discard(identity)
            return
        began = not running[worker]
        running[worker].add(identity)
        if not began:
            return
        for other, left in running.items():
            if other != worker and left and not self._gives_back:
                what = type(step.object).__name__
                yield f"{name} begins to run in {worker} while {what}s of it run in {other}, at {step.at:.3f}"
