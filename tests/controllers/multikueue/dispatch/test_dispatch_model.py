"""Dispatch under faults, in a model of worker clusters: no job in two of them, none lost, nor its end.

The model has what the rules cannot know: what is really stored in each cluster.  The manager sees each
connected cluster as of the last time that its watch delivered something, and its writes may be lost, or take
effect without an answer.  A job may exist in two clusters only if one of them was lost for longer than
``workerLostTimeout`` when the other got it.
"""

from typing import Any, Final, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from quorate.api.configuration.feature_gates import Gates
from quorate.api.kueue import Admission, Workload
from quorate.api.meta import is_true
from quorate.controllers.jobframework.interface import Outcome
from quorate.controllers.multikueue.dispatch.dispatchers import Dispatcher, all_at_once, incremental_with
from quorate.controllers.multikueue.dispatch.plan import (
    CreateCopy,
    DeactivateCopy,
    DispatchInput,
    ReadEnd,
    RemoteAction,
    RemoteState,
    RemoveCopy,
    SyncJob,
    workload_copy,
)
from quorate.controllers.multikueue.dispatch.rules import decide, last_cluster
from quorate.queueing import conditions as c
from quorate.queueing.lifecycle.statuses import evict_status, release_status
from tests.controllers.multikueue.dispatch.dispatch_objects import LOST_S, NOW, SETTINGS, as_read, local

NAMES: Final = ("a", "b", "c")
DISPATCHERS: Final = (all_at_once, incremental_with(1, in_configured_order=True))


class Cluster:
    def __init__(self) -> None:
        self.copy: Workload | None = None
        self.has_job = False
        self.job_ended = False  # the job, or that which was deleted last, has ended
        self.was_removed = False  # and the watch has shown its last version
        self.end: Outcome | Literal["due"] | None = "due"  # as read
        self.is_forgiven = False  # its job may run beside another one
        self.lost_since: float | None = None
        self.in_flight: RemoteAction | None = None
        # The copy, the job and whether that has ended, by the watch.
        self.seen: tuple[Workload | None, bool, bool] = (None, False, False)
        self.is_stale = False  # the watch has not delivered our last write yet
        self.may_have_job = False  # as the manager remembers
        self.is_synced = False

    def deliver(self) -> None:
        if self.seen != self.newest:
            self.is_synced, self.end = False, "due"
        self.seen, self.is_stale = self.newest, False

    def set_condition(self, type_: str, status: Any, now: float, reason: str = "") -> None:
        assert self.copy is not None
        new = c.new_condition(type_, status, reason or type_, "", now)
        conditions = c.with_conditions(self.copy.status.conditions, new)
        self.copy = replace(self.copy, status=replace(self.copy.status, conditions=conditions))

    @property
    def newest(self) -> tuple[Workload | None, bool, bool]:
        return self.copy, self.has_job, self.job_ended

    @property
    def shows_end(self) -> bool:
        """Whether an object that still exists, or its last version, shows that the job has ended."""
        return (self.job_ended and (self.has_job or self.was_removed)) or (
            self.holds(c.FINISHED) and self.job_ended
        )

    def holds(self, type_: str) -> bool:
        return self.copy is not None and is_true(self.copy.status.conditions, type_)


class Model:
    def __init__(self, dispatcher: Dispatcher) -> None:
        self.now = NOW
        self.clusters = {name: Cluster() for name in NAMES}
        self.settings = replace(SETTINGS, dispatcher=dispatcher, orchestrates_preemption=False)
        self.has_ended = False  # the local job has the status of a copy that has ended
        self.workload = local()
        self.reserve()

    # The manager

    def decide(self, *, conflict: bool = False) -> None:
        info = self._input()
        plan = decide(info)
        if plan.status is not None:
            if conflict:
                return
            self.workload = replace(self.workload, status=plan.status)
        for action in plan.actions:
            cluster = self.clusters[action.cluster]
            assert cluster.lost_since is None
            assert cluster.in_flight is None
            cluster.in_flight = action
            if isinstance(action, SyncJob):
                cluster.may_have_job = True

    def _input(self) -> DispatchInput:
        remotes = {
            name: RemoteState(
                copy=None if cluster.seen[0] is None else as_read(cluster.seen[0]),
                has_job=cluster.may_have_job or cluster.seen[1],
                is_busy=cluster.in_flight is not None or cluster.is_stale,
                job="done" if cluster.is_synced else "due",
                end=cluster.end if cluster.may_have_job or cluster.has_job or cluster.was_removed else None,
            )
            for name, cluster in self.clusters.items()
            if cluster.lost_since is None
        }
        lost = {
            name: cluster.lost_since
            for name, cluster in self.clusters.items()
            if cluster.lost_since is not None
            and name in (self.workload.status.cluster_name, last_cluster(self.workload))
        }
        return DispatchInput(
            workload=self.workload,
            check=self.workload.status.admission_checks[0],
            clusters=NAMES,
            remotes=remotes,
            lost=lost,
            settings=self.settings,
            now=self.now,
        )

    def lifecycle(self) -> None:
        """Do what the workload controller does: evict on Retry, admit on Ready."""
        status = self.workload.status
        if status.admission_checks[0].state == "Retry" and not c.is_evicted(self.workload):
            self.evict("AdmissionCheck")
        elif status.admission_checks[0].state == "Ready" and not c.is_admitted(self.workload):
            admitted = c.new_condition(c.ADMITTED, "True", "Admitted", "", self.now)
            self.workload = replace(
                self.workload,
                status=replace(status, conditions=c.with_conditions(status.conditions, admitted)),
            )

    def evict(self, reason: str = "Preempted") -> None:
        if c.has_quota_reservation(self.workload) and not c.is_finished(self.workload):
            status = evict_status(self.workload, reason, reason, self.now, counted_as=(reason, ""))
            self.workload = replace(self.workload, status=status)

    def release(self) -> None:
        """Release the quota of an evicted workload, whether its job has ended or not."""
        status = release_status(self.workload, self.now, Gates())
        if status is not None:
            self.workload = replace(self.workload, status=status)

    def reserve(self) -> None:
        if c.has_quota_reservation(self.workload) or c.is_finished(self.workload):
            return
        status = self.workload.status
        reserved = c.new_condition(c.QUOTA_RESERVED, "True", "QuotaReserved", "", self.now)
        again = c.new_condition(c.EVICTED, "False", "QuotaReserved", "", self.now)
        status = replace(
            status,
            admission=Admission(cluster_queue="research"),
            conditions=c.with_conditions(status.conditions, reserved, again),
        )
        self.workload = replace(self.workload, status=status)

    def restart(self) -> None:
        """Start a new manager process: it lists, and remembers nothing."""
        for cluster in self.clusters.values():
            cluster.in_flight, cluster.may_have_job, cluster.is_synced = None, False, False
            cluster.was_removed, cluster.end = False, "due"
            if cluster.lost_since is None:
                cluster.deliver()
            else:
                cluster.lost_since = self.now

    # The worker clusters

    def complete(self, name: str, *, answered: bool = True, has_effect: bool = True) -> None:
        cluster = self.clusters[name]
        action = cluster.in_flight
        if action is None:
            return
        if has_effect:
            self._apply(name, action)
        cluster.in_flight = None
        if not answered or not has_effect:
            return
        match action:
            case ReadEnd():
                pass
            case SyncJob():
                cluster.is_synced = cluster.seen[0] == cluster.copy
            case RemoveCopy():
                cluster.may_have_job = False
                cluster.is_stale = True
            case _:
                cluster.is_stale = True

    def _apply(self, name: str, action: RemoteAction) -> None:
        cluster = self.clusters[name]
        match action:
            case CreateCopy():
                if cluster.copy is None:
                    copy = workload_copy(self.workload, "multikueue", is_gated=False)
                    version = replace(copy.metadata, resource_version=str(self.now))
                    cluster.copy = replace(copy, metadata=version)
            case RemoveCopy():
                is_seen = cluster.lost_since is None and cluster.seen == cluster.newest
                assert self.has_ended or not (is_seen and cluster.shows_end), f"{name} shows an unread end"
                cluster.was_removed |= cluster.has_job and cluster.lost_since is None
                cluster.copy, cluster.has_job, cluster.is_forgiven = None, False, False
            case SyncJob() | ReadEnd() if cluster.shows_end:
                self.has_ended, cluster.end = True, Outcome(True, "done")
            case SyncJob():
                if not cluster.has_job and not cluster.holds(c.FINISHED):
                    self._check_end()
                    cluster.has_job, cluster.job_ended, cluster.was_removed = True, False, False
                    self._check_jobs(name)
            case ReadEnd():
                cluster.end = None
            case DeactivateCopy():
                if cluster.copy is not None:
                    cluster.set_condition(c.DEACTIVATION_TARGET, "True", self.now)

    def interrupt(self, name: str) -> None:
        """End a removal after its first step: the job is gone, and its cluster finishes the workload."""
        cluster = self.clusters[name]
        if isinstance(cluster.in_flight, RemoveCopy):
            cluster.was_removed |= cluster.has_job and cluster.lost_since is None
            cluster.has_job, cluster.is_forgiven, cluster.in_flight = False, False, None
            cluster.may_have_job = False
            if cluster.copy is not None and not cluster.holds(c.FINISHED):
                cluster.set_condition(c.FINISHED, "True", self.now, c.OWNER_NOT_FOUND)

    def _check_end(self) -> None:
        """Check that no cluster shows the end of a job that is created now."""
        assert not self.has_ended, "a job that has ended runs again"
        for name, cluster in self.clusters.items():
            shows_end = cluster.shows_end and cluster.lost_since is None and not cluster.is_forgiven
            assert not shows_end, f"{name} shows the end of a job that runs again"

    def _check_jobs(self, created_in: str) -> None:
        for name, cluster in self.clusters.items():
            if name == created_in or not cluster.has_job or cluster.is_forgiven:
                continue
            lost = cluster.lost_since
            assert lost is not None, f"jobs in {name} and {created_in}"
            assert self.now - lost >= LOST_S, f"{name} is not lost for long, and {created_in} has the job"
            cluster.is_forgiven = True

    def admit(self, name: str) -> None:
        cluster = self.clusters[name]
        if cluster.copy is not None and not cluster.holds(c.DEACTIVATION_TARGET):
            for type_, status in ((c.EVICTED, "False"), (c.ADMITTED, "True")):
                cluster.set_condition(type_, status, self.now)

    def evict_there(self, name: str) -> None:
        cluster = self.clusters[name]
        if cluster.holds(c.ADMITTED) and not cluster.holds(c.FINISHED):
            for type_, status in ((c.EVICTED, "True"), (c.ADMITTED, "False")):
                cluster.set_condition(type_, status, self.now)

    def finish(self, name: str) -> None:
        cluster = self.clusters[name]
        if cluster.has_job and cluster.holds(c.ADMITTED):
            cluster.job_ended = True
            cluster.set_condition(c.FINISHED, "True", self.now, "Succeeded")

    def end(self, name: str) -> None:
        """End the job; its cluster has not finished the workload yet."""
        cluster = self.clusters[name]
        if cluster.has_job and cluster.holds(c.ADMITTED):
            cluster.job_ended = True

    def delete_job(self, name: str) -> None:
        """Delete the job after its end; its cluster then finishes the workload if it has not yet."""
        cluster = self.clusters[name]
        if cluster.has_job and cluster.job_ended:
            cluster.has_job, cluster.was_removed = False, cluster.lost_since is None
            if cluster.copy is not None and not cluster.holds(c.FINISHED):
                cluster.set_condition(c.FINISHED, "True", self.now, c.OWNER_NOT_FOUND)

    def delete_copy(self, name: str) -> None:
        """Delete the copy of a workload that has finished."""
        cluster = self.clusters[name]
        if cluster.holds(c.FINISHED) and cluster.job_ended:
            cluster.copy = None

    def lose(self, name: str, *, has_effect: bool) -> None:
        cluster = self.clusters[name]
        if cluster.lost_since is None:
            self.complete(name, answered=False, has_effect=has_effect)
            cluster.lost_since, cluster.is_stale = self.now, False

    def reconnect(self, name: str) -> None:
        cluster = self.clusters[name]
        if cluster.lost_since is not None:
            cluster.lost_since = None
            cluster.deliver()

    def deliver(self, name: str) -> None:
        if self.clusters[name].lost_since is None and self.clusters[name].in_flight is None:
            self.clusters[name].deliver()

    def run_all(self) -> None:
        """Let everything act once, without faults; no job ends."""
        for act in (self.lifecycle, self.reserve, self.decide):
            act()
        for name in NAMES:
            self.run(name)

    def run(self, name: str) -> None:
        self.complete(name)
        self.admit(name)
        self.deliver(name)
        self.decide()

    def step(self, kind: str, name: str, flag: bool) -> None:
        match kind:
            case "conflict":
                self.decide(conflict=True)
            case "unanswered":
                self.complete(name, answered=False, has_effect=flag)
            case "lose":
                self.lose(name, has_effect=flag)
            case "wait":
                self.now += LOST_S if flag else 10.0
            case "stop":
                self.evict()
                self.decide()
            case "run_all" | "decide" | "lifecycle" | "evict" | "release" | "reserve" | "restart":
                getattr(self, kind)()
            case _:
                getattr(self, kind)(name)

    def settle(self) -> None:
        """Let all faults end; every worker cluster does what it is asked to."""
        for name in NAMES:
            self.reconnect(name)
        for _ in range(60):
            if c.is_finished(self.workload) and not any(
                each.copy or each.has_job for each in self.clusters.values()
            ):
                assert self.has_ended, "the end of the job is lost"
                return
            self.now += LOST_S / 2
            for act in (self.lifecycle, self.release, self.reserve, self.decide):
                act()
            for name, cluster in self.clusters.items():
                self.complete(name)
                if cluster.holds(c.DEACTIVATION_TARGET):
                    self.evict_there(name)
                elif cluster.holds(c.ADMITTED):
                    self.finish(name)
                else:
                    self.admit(name)
                self.deliver(name)
        raise AssertionError(f"not finished: {self.workload.status}")


STEPS = st.tuples(
    st.sampled_from(
        [
            *("run_all", "run") * 3,
            *("lose", "reconnect", "evict_there", "stop", "release", "reserve", "wait") * 2,
            *("decide", "complete", "deliver", "admit", "lifecycle", "evict", "finish"),
            *("end", "delete_job", "delete_copy") * 2,
            *("conflict", "unanswered", "interrupt", "restart"),
        ]
    ),
    st.sampled_from(NAMES),
    st.booleans(),
)


@settings(max_examples=300)
@given(st.sampled_from(DISPATCHERS), st.lists(STEPS, max_size=60))
def test_a_job_is_never_in_two_clusters_and_never_lost(
    dispatcher: Dispatcher, steps: list[tuple[str, str, bool]]
) -> None:
    model = Model(dispatcher)
    for kind, name, flag in steps:
        model.step(kind, name, flag)
    model.settle()


@pytest.mark.parametrize("ends", [True, False])
def test_what_is_left_of_an_interrupted_removal_does_not_finish_the_next_run(ends: bool) -> None:
    model = Model(all_at_once)
    for _ in range(3):
        model.run("a")
    assert model.workload.status.cluster_name == "a"
    model.complete("a")
    if ends:
        model.finish("a")
    for step in (model.evict, model.release, model.decide):
        step()
    model.complete("a")  # it is read whether the job has ended
    for _ in range(1 + ends):
        model.decide()
    assert isinstance(model.clusters["a"].in_flight, RemoveCopy)
    assert c.is_finished(model.workload) is ends
    model.interrupt("a")
    model.deliver("a")
    model.reserve()
    model.settle()


def test_the_model_notices_a_second_job() -> None:
    model = Model(all_at_once)
    model.clusters["a"].has_job = True
    model.clusters["b"].has_job = True
    with pytest.raises(AssertionError, match="jobs in a and b"):
        model._check_jobs("b")
