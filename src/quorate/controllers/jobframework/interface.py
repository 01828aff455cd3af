"""Job kinds: what the queueing controllers must know of an object that runs pods.

One file per kind implements ``JobKind``; everything else here is written once for all of them.  A kind
answers questions about one object and composes patches; it reads nothing else and sends nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from quorate.api.findings import Finding
from quorate.api.kueue import PodSet, ReclaimablePod, Workload
from quorate.api.meta import Condition, ObjectMeta
from quorate.controllers.jobframework.podset_info import InjectionConflict, PodSetInfo
from quorate.kube.resources import Resource
from quorate.kube.writes import Patch


class JobObject(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


J = TypeVar("J", bound=JobObject)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended, in its own words."""

    success: bool
    message: str


@dataclass(frozen=True, slots=True)
class Stop:
    """What is left to do to stop a job, in order; nothing, when it is stopped."""

    patches: tuple[Patch, ...] = ()
    begins: bool = False  # False also when an earlier attempt, cut short, is resumed
    waits: bool = False  # the rest cannot be done before the last pod is gone


@dataclass(frozen=True, slots=True)
class JobScope:
    """What judges a job besides the job itself."""

    queued: bool  # it names a queue, or jobs are queued that name none
    elastic: bool  # it may change its size while it runs


class JobKind(Protocol[J]):
    """A kind of job: it is held back suspended until its workload is admitted, and suspended to stop it.

    Whatever reads a job may raise ``paths.Unfit``: it does not hold what jobs of its kind must hold.
    A kind derives from this class, and so has the usual answer to what it does not answer itself.
    """

    supports_elastic: bool = False  # jobs may say that they change their size while they run
    has_slices: bool = False  # those that do so get a workload for each size, and go on running
    supports_prebuilt: bool = True  # jobs may name a workload that somebody else made

    @property
    def resource(self) -> Resource[J]: ...

    def findings(self, old: J | None, new: J, scope: JobScope) -> Iterable[Finding]:
        """What is wrong with a new job, or with a change of one, beyond the rules for jobs of any kind."""
        return ()

    def is_skipped(self, job: J) -> bool:
        """Whether the job is none of ours, though it names a queue."""
        return False

    def is_on_hold(self, job: J) -> bool:
        """Whether the job wants to keep its workload for now, but no quota."""
        return False

    def is_wanted(self, job: J) -> bool | None:
        """Whether its workload is to be active; ``None`` where the kind leaves that to users."""
        return None

    def conditions(self, job: J, workload: Workload) -> tuple[Condition, ...]:
        """What the kind itself has to say on the workload, complete for the types it speaks of."""
        return ()

    def is_suspended(self, job: J) -> bool:
        """Whether nothing of the job will start, and a stop that was begun is complete."""
        ...

    def is_active(self, job: J) -> bool:
        """Whether pods of the job still hold capacity."""
        ...

    def pod_sets(self, job: J) -> tuple[PodSet, ...]:
        """The groups of equal pods the job now asks for, always in the same order."""
        ...

    def is_gated(self, job: J) -> bool:
        """Whether new pods of an elastic job are held until they are let go.  For kinds with slices."""
        return False

    def gate(self, job: J) -> tuple[Patch, ...]:
        """Have new pods of a suspended job held.  For kinds with slices."""
        return ()

    def pods_label(self, job: J) -> tuple[str, str] | None:
        """The label of the job's pods, and its value; none when all may go.  For kinds with slices."""
        return None

    def priority_class(self, job: J) -> str | None:
        """The PriorityClass the kind itself names; ``None`` when the kind has no such field."""
        return None

    def finished(self, job: J) -> Outcome | None: ...

    def pods_ready(self, job: J) -> bool:
        """Whether as many pods as the job asks for are ready or have succeeded."""
        ...

    def reclaimable(self, job: J) -> tuple[ReclaimablePod, ...]:
        """Pods, by pod set, whose quota the job will not need again."""
        return ()

    def start(self, job: J, infos: Sequence[PodSetInfo]) -> tuple[Patch, ...] | InjectionConflict:
        """Unsuspend with what admission injects, one info per pod set and in their order."""
        ...

    def stop(self, job: J, originals: Sequence[PodSet] | None) -> Stop:
        """Suspend, and put back the pod sets as they were before the start; ``None``: that is not known."""
        ...
