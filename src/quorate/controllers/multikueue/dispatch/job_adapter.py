"""What dispatch asks of the kinds of jobs (Kueue: MultiKueueAdapter); ``multikueue.jobs`` implements it."""

from typing import Protocol

import msgspec

from quorate.api.kueue import Workload
from quorate.api.meta import Key, Uid
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


class JobAdapter(Protocol):
    def job_of(self, workload: Workload) -> JobRef | NoKind:
        """Return the job of a workload."""

    async def unmanaged_reason(self, job: JobRef) -> str:
        """Return why the local job may not run in another cluster; empty if it may."""

    def has_job(self, worker: Worker, job: JobRef) -> bool | None:
        """Return whether a job of ours exists in a worker cluster; None: that is not known."""

    def components(self, workload: Workload, job: JobRef) -> Components | None:
        """Return the other workloads of a job that has several; None: it has one."""

    async def sync(self, worker: Worker, job: JobRef, workload: Workload) -> Synced:
        """Create the remote job, or copy its status to the local one."""

    async def delete(self, worker: Worker, job: JobRef) -> None:
        """Delete the remote job if it is ours and that of the local job, also if it does not exist."""

    async def lost(self, job: JobRef) -> None:
        """Write into the local job that no pod of it runs: the cluster with its copy is given up."""
