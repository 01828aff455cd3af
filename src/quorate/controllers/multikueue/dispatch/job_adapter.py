"""What dispatch asks of the kinds of jobs (Kueue: MultiKueueAdapter); ``multikueue.jobs`` implements it."""

from typing import Literal, Protocol

import msgspec

from quorate.api.kueue import Workload
from quorate.api.meta import Key, Uid
from quorate.controllers.jobframework.interface import Outcome
from quorate.controllers.multikueue.dispatch.plan import Components
from quorate.controllers.multikueue.workers import Worker


class Member(msgspec.Struct, frozen=True):
    """One object of a job: a job of most kinds is one object, a pod group has many."""

    name: str
    uid: Uid  # empty: not known


class JobRef(msgspec.Struct, frozen=True):
    """The job of a workload: ``kind`` is the name by which the kinds of jobs are told apart."""

    kind: str
    key: Key
    workload: Key
    members: tuple[Member, ...]


class NoKind(msgspec.Struct, frozen=True):
    """No job of the workload can run in another cluster; ``owner`` is its kind, empty: it has no owner."""

    owner: str = ""


class Synced(msgspec.Struct, frozen=True):
    """The job exists in the worker cluster, and its status is here unless that was deferred or refused."""

    deferred: bool = False  # the local job must first be started or stopped
    problem: str = ""  # why there can be no remote job, such as another job with its name
    copied: tuple[int, ...] = ()  # digests of the statuses that the members have now; 0: not known


class LocalJob(msgspec.Struct, frozen=True):
    """What is read of the local job before it is dispatched."""

    refusal: str = ""  # why it may not run in another cluster, in Kueue's words; empty: it may, or is gone
    workloads: int = 1  # how many the job will have


# Whether a job of ours exists in a worker cluster; "ending": its deletion waits, such as for its pods;
# "removed": it does not, and its last version is known.
Presence = Literal["absent", "present", "ending", "removed"]


class JobAdapter(Protocol):
    """What dispatch needs of jobs; nothing is remembered here: ``RemoteWrites`` has the state of each job."""

    def job_of(self, workload: Workload) -> JobRef | NoKind:
        """Return the job of a workload."""

    async def local_job(self, job: JobRef) -> LocalJob:
        """Return what the local job says about its dispatch."""

    def presence(self, worker: Worker, job: JobRef) -> Presence | None:
        """Return whether a job of ours exists in a worker cluster; None: that is not known."""

    def components(self, workload: Workload, job: JobRef, workloads: int) -> Components | None:
        """Return the other of the ``workloads`` workloads of a job; None for a kind with one workload."""

    async def sync(
        self, worker: Worker, job: JobRef, workload: Workload, copied: tuple[int, ...] | None
    ) -> Synced:
        """Create the remote job, or copy its status to the local one.

        ``copied`` is the value ``copied`` of the former ``Synced``. None: there was no former sync, so no
        earlier remote job has ended.
        """

    async def end(self, worker: Worker, job: JobRef) -> Outcome | None:
        """Copy the end of the remote job to the local one, also if it was deleted after its end; return it.

        None: it has not ended, or nothing is left that tells how.
        """

    async def delete(self, worker: Worker, job: JobRef, *, may_exist: bool, waits_for_pods: bool) -> None:
        """Delete the remote job of ``job`` if this manager created it; do nothing if it does not exist.

        ``may_exist``: delete also a job that the cache does not have yet.  ``waits_for_pods``: a job that has
        run exists until its pods are gone.
        """

    async def lost(self, job: JobRef) -> None:
        """Write into the local job that no pod of it runs: the cluster with its copy is given up."""
