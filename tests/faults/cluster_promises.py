"""No job runs in two clusters at once, and each runs to its end once, checked on the states of all clusters.

A job runs in a cluster while it has a Job there that is not suspended and not finished, or a pod that has not
ended, which includes a pod that is being deleted.  States of several clusters are in the order in which their
watches delivered them to one process.

The promise is weaker for one case only: the job of a worker that was lost for longer than the timeout is
given to another worker, and may run in the lost one until that is connected again.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator

from quorate.api.batch import Job
from quorate.api.core import Pod
from quorate.api.meta import Uid, is_true
from tests.faults.history import Step

# Gets a worker, a job, and the times from which it ran there and at which it began elsewhere; returns True if
# the worker may have been lost in between.
MayBeLost = Callable[[str, str, float, float], bool]


class ClusterPromises:
    def __init__(self, may_be_lost: MayBeLost) -> None:
        self._may_be_lost = may_be_lost
        # Since when the Jobs and pods of a job run, by job and worker.
        self._running: dict[str, dict[str, dict[Uid, float]]] = defaultdict(lambda: defaultdict(dict))
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
                yield from self._changed(worker, name, job.metadata.uid, runs, step)
            case Pod() as pod:
                name = pod.metadata.labels.get("job-name", "")
                runs = not (step.deleted or pod.status.phase in ("Succeeded", "Failed"))
                yield from self._changed(worker, name, pod.metadata.uid, runs, step)

    def _changed(self, worker: str, name: str, uid: Uid, runs: bool, step: Step) -> Iterator[str]:
        of_workers = self._running[name]
        if not runs:
            of_workers[worker].pop(uid, None)
            return
        began = not of_workers[worker]
        of_workers[worker].setdefault(uid, step.at)
        if not began:
            return
        for other, left in of_workers.items():
            if other == worker or not left:
                continue
            what, since = type(step.object).__name__, min(left.values())
            if not self._may_be_lost(other, name, since, step.at):
                yield f"a {what} of {name} runs in {worker} {step.at - since:.3f} s after it began in {other}"
