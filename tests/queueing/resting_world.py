"""A world with a history, and what a new process would still decide about it once it is at rest.

At rest no cycle decides anything, no eviction is under way, and time alone changes nothing.  A new model of
the stored objects must then admit nothing more and preempt nothing more: otherwise a workload waits although
it could start, because something remembered an outcome that is no longer true.
"""

import copy
from collections.abc import Collection
from typing import Any, Final

import msgspec

from quorate.api.kueue import UnhealthyNode
from quorate.api.meta import Key
from quorate.queueing import conditions as c
from quorate.queueing.decisions import AssignTopology, CycleResult, Evict, Preempt, Reserve
from quorate.queueing.explain import pending_facts, run
from quorate.queueing.inadmissible_reasons import AwaitingPodsReady
from quorate.queueing.lifecycle.statuses import release_status
from quorate.queueing.pending.entry import Entry
from tests.queueing.notation import Json
from tests.queueing.world import World

LONGER_THAN_DELAYS_S: Final = 40  # of the second pass, and between the samples of consumed usage
UNCHANGED_TURNS: Final = 3  # at rest: the first delay of the second pass begins with the next cycle
OF_WORKLOADS: Final = ("finish", "delete", "active", "reclaim", "unhealthy", "podsReady", "checks")  # steps
MAX_HEADS: Final = 2_000  # of one cycle
MAX_TURNS: Final = 150  # of worlds that come to rest


class RestingWorld(World):
    """A world that keeps its objects in ``given`` up to date, and knows more steps than vectors do.

    Beside those of vectors: ``run: n`` pauses the cycle after n heads, ``run: null`` runs it to its end;
    ``remove`` removes objects by kind and name; ``stop`` completes the evictions of workloads;
    ``limitRange`` is that of all namespaces from now on, ``null`` for none.
    """

    def run(self, step: Any) -> None:
        kind, argument = next(iter(step.items()))
        match kind:
            case "run":
                self._run_cycle(argument)
            case "remove":
                for of_kind, names in argument.items():
                    for name in names:
                        self._remove(of_kind, name)
            case "limitRange":
                self._set_limit_range(argument)
            case "stop":
                for name in filter(self._is_stopping, argument):
                    self.put_status(
                        name, release_status(self.workloads[name], self.now, self.configuration.gates)
                    )
            case "create":
                for name in argument:
                    if name not in self.workloads:
                        self.create(name)
            case _:
                super().run(self._about_known_workloads(step))
                return
        self.settle()

    def _about_known_workloads(self, step: Any) -> Any:
        """Leave out the workloads that do not exist (any more), and those that are finished."""
        kind, argument = next(iter(step.items()))
        if kind not in (*OF_WORKLOADS, "update"):
            return step
        if kind == "update":
            if "workloads" not in argument:
                return step
            return {kind: {"workloads": self._of_known(argument["workloads"])}}
        return {kind: self._of_known(argument)}

    def _of_known(self, argument: Any) -> Any:
        known = {name for name, workload in self.workloads.items() if not c.is_finished(workload)}
        if isinstance(argument, dict):
            return {name: value for name, value in argument.items() if name in known}
        return [name for name in argument if name in known]

    # Objects.

    def update(self, changes: Json) -> None:
        for kind in ("flavors", "namespaces", "pods", "admissionChecks", "reservations"):
            self.given.setdefault(kind, {}).update(changes.get(kind, {}))
        for name, check in changes.pop("admissionChecks", {}).items():
            self.put_admission_check(name, check)
        for name, reservation in changes.pop("reservations", {}).items():
            self.put_reservation(name, reservation)
        super().update(changes)
        namespaces = {workload.get("namespace", "default") for workload in self.given["workloads"]}
        for name in changes.get("localQueues", {}):  # also those that were removed
            for namespace in sorted({"default", *namespaces}):
                self.put_local_queue(namespace, name)

    def _set_limit_range(self, item: Json | None) -> None:
        self.given["limitRanges"] = [] if item is None else [item]
        for namespace in self.given["namespaces"]:
            key = Key(namespace, "l0")
            if item is None:
                self.state.request_updates.remove_limit_range(key)
            else:
                self.put_limit_range(key, item)

    def _remove(self, kind: str, name: str) -> None:
        state, objects = self.state, self.given[kind]
        if name not in objects:
            return
        objects.pop(name)
        match kind:
            case "clusterQueues":
                state.remove_cluster_queue(name)
            case "namespaces":
                state.remove_namespace(name)
            case "cohorts":
                state.remove_cohort(name)
            case "flavors":
                state.remove_flavor(name)
            case "topologies":
                state.remove_topology(name)
            case "admissionChecks":
                state.remove_admission_check(name)
            case "reservations":
                state.remove_window(name)
            case "nodes":
                state.nodes.retry_flavors(state.nodes.remove_node(name))
            case "pods":
                state.nodes.retry_flavors(state.nodes.remove_pod(Key("default", name)))
            case "localQueues":
                for key in [key for key in state.ledger.local_queues if key.name == name]:
                    state.remove_local_queue(key)
            case _:
                raise ValueError(f"{kind} cannot be removed")

    # Cycles.

    def _run_cycle(self, heads: int | None) -> CycleResult:
        self.now += 1
        seen = 0

        def pauses() -> bool:
            nonlocal seen
            seen += 1
            assert seen < MAX_HEADS, "the cycle does not end"
            return heads is not None and seen >= heads

        result = self.admission_cycle.run(self.now, pauses)
        assert result.faults == (), result.faults
        self.carry_out(result.decisions)
        return result

    def rest(self) -> None:
        """Run cycles, and complete evictions, until nothing happens any more."""
        unchanged = 0
        for _ in range(MAX_TURNS):
            before = self._standing()
            self.now += LONGER_THAN_DELAYS_S
            result = self._run_cycle(None)
            self.settle()
            stopping = [name for name in self.workloads if self._is_stopping(name)]
            self.run({"stop": stopping})
            self.run({"unhealthy": self._on_failed_hosts()})
            is_unchanged = self._standing() == before and not (result.is_paused or stopping)
            unchanged = unchanged + 1 if is_unchanged else 0
            if unchanged == UNCHANGED_TURNS:
                return
        raise AssertionError("the world does not come to rest")

    def _is_stopping(self, name: str) -> bool:
        workload = self.workloads.get(name)
        return workload is not None and c.is_evicted(workload) and c.has_quota_reservation(workload)

    def _standing(self) -> Any:
        return {
            name: (
                workload.spec.active,
                workload.status.admission,
                workload.status.unhealthy_nodes,
                c.is_evicted(workload),
            )
            for name, workload in self.workloads.items()
        }

    def _on_failed_hosts(self) -> Json:
        """Return the hosts of each workload with places that do not exist any more."""
        failed: dict[str, list[str]] = {}
        for key, reservation in self.state.ledger.reservations.items():
            hosts = {place.values[-1] for place in reservation.places.all if place.on_host}
            gone = sorted(hosts - self.given.get("nodes", {}).keys())
            unhealthy = tuple(UnhealthyNode(name=host) for host in gone)
            if unhealthy != reservation.workload.status.unhealthy_nodes:
                failed[key.name] = gone
        return failed

    # A new process.

    def fresh(self) -> "RestingWorld":
        """Return a world with a new model of the stored objects.

        The preemption history is taken over: objects tell only a part of it.  So is the consumed usage of
        local queues, which their statuses keep.
        """
        given = msgspec.to_builtins(self.given)
        later = [{**workload, "create": "later"} for workload in given["workloads"]]
        fresh = RestingWorld({**given, "workloads": later, "now": self.now})
        fresh._versions, fresh.ready = self._versions, set(self.ready)
        fresh.workloads = dict(self.workloads)
        for name in sorted(self.workloads):
            fresh.state.put_workload(self.workloads[name], self.now)
        old, new = self.state.ledger, fresh.state.ledger
        for key in new.local_queues.keys() & old.local_queues.keys():
            new.local_queues[key].consumed_usage = copy.deepcopy(old.local_queues[key].consumed_usage)
        fresh._take_over_history(self)
        fresh.settle()
        return fresh

    def _take_over_history(self, other: "RestingWorld") -> None:
        old, new = other.state.ledger, self.state.ledger
        for name, queue in new.cluster_queues.items():
            old_root = old.cluster_queues[name].node.root
            new.preemption_history.take_over(queue.node.root, old.preemption_history, old_root)

    def decided_anew(self) -> list[str]:
        """Return what a new process decides about this world, which is at rest; it should be nothing.

        A workload that waits for the pods of others has got a flavor that it may use as soon as these are
        ready.  A new process searches for a flavor again, and may find that it can preempt in another one.
        """
        fresh = self.fresh()
        waiting = {key for key, entry in self.state.ledger.entries.items() if _waits_for_pods(entry)}
        return next(filter(None, (fresh._decided(waiting) for _ in range(3))), [])

    def _decided(self, without_preemptors: Collection[Key] = ()) -> list[str]:
        """Return what the next cycle decides, but not what it preempts for some workloads."""
        self.now += LONGER_THAN_DELAYS_S
        return [
            f"{type(decision).__name__} {decision.key.name}"
            for decision in self._run_cycle(None).decisions
            if isinstance(decision, Reserve | Preempt | Evict | AssignTopology)
            and not (isinstance(decision, Preempt) and decision.preemptor in without_preemptors)
        ]

    def decided_about_later(self) -> list[str]:
        """Return what a new process decides about a pending workload that arrives after all others.

        It should be nothing: otherwise the workload lost to others that are pending as well.
        """
        for name in sorted(self.workloads):
            workload = self.workloads[name]
            entry = self.state.ledger.entries.get(workload.metadata.key)
            if entry is not None:
                fresh = self.fresh()
                fresh.state.remove_workload(workload.metadata.key)
                if fresh._decided():
                    continue  # it keeps others waiting, as the head of a StrictFIFO queue does
                fresh.state.put_workload(workload, fresh.now)
                fresh._take_over_history(self)
                if found := fresh._decided([entry.key] if _waits_for_pods(entry) else ()):
                    return [f"{name} later: {each}" for each in found]
        return []

    def unexplained(self) -> list[str]:
        """Return the workloads that wait as the first of their cluster queues without a reason."""
        facts = {key.name: run(pending_facts(self.state, key)) for key in self.state.ledger.entries}
        return [
            f"{name} waits without a reason"
            for name, of_entry in facts.items()
            if of_entry is not None and of_entry.hold is None and of_entry.ahead == 0
        ]


def _waits_for_pods(entry: Entry) -> bool:
    """Return True if pods of others must be ready before this one starts."""
    reasons = () if entry.hold is None else entry.hold.reasons
    return any(isinstance(reason, AwaitingPodsReady) for reason in reasons)


def one_queue(workloads: list[Json], **others: Any) -> Json:
    """Return a world with a node, a flavor and a queue of one cpu, unless ``others`` has more."""
    quota = [{"one": {"cpu": 1}}]
    return {
        "flavors": {"one": {}},
        "nodes": {"n1": {"allocatable": {"cpu": 1, "pods": 9}}},
        "clusterQueues": {"cq": {"quota": quota}},
        "localQueues": {"q": {"clusterQueue": "cq"}},
        "workloads": [{"queue": "q", "requests": {"cpu": 1}, **workload} for workload in workloads],
        **others,
    }
