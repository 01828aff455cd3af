"""A simulated cluster for the queueing core, built from the notation of ``admission-cases.yaml``.

It does the work of the controllers: it writes the decisions of the core, and runs the steps of a case.  It
contains no rule of admission.
"""

from collections.abc import Iterable
from typing import Any

from quorate.api import codec
from quorate.api.kueue import Admission, PodSetUpdate, ReclaimablePod, UnhealthyNode, Workload
from quorate.api.meta import Condition, Key, find_condition, is_true
from quorate.queueing import conditions as c
from quorate.queueing.decisions import Decision, Hold, Reserve, SecondPassFailed
from quorate.queueing.lifecycle.decided_status import decided_status
from quorate.queueing.lifecycle.rules import decide_workload
from quorate.queueing.lifecycle.statuses import admit_status as admit
from quorate.queueing.lifecycle.statuses import finish_status, hold_status, release_status, unplaced_status
from quorate.queueing.limits import FIRST_DELAY_S, QUEUE_AUDIT_SLICE
from quorate.queueing.model_audit import ModelDifference, audit_model
from quorate.queueing.pending.shape import Shape
from quorate.queueing.pods_ready import pods_ready_condition
from quorate.queueing.state import State
from quorate.quota.amount import PODS
from tests.queueing.given import PENDING_CHECK, GivenWorld, replace
from tests.queueing.notation import Json, seconds


def differences(
    state: State, workloads: Iterable[Workload], queue_slice: int = QUEUE_AUDIT_SLICE
) -> list[ModelDifference]:
    """Return all differences that the audit of the model finds."""
    by_key = {workload.metadata.key: workload for workload in workloads}
    return [difference for slice_ in audit_model(state, by_key, queue_slice) for difference in slice_]


class World(GivenWorld):
    def __init__(self, given: Json) -> None:
        super().__init__(given)
        self.second_pass_failures: list[str] = []
        self.settle()

    def settle(self) -> None:
        """Run the controllers until they write nothing."""
        self.state.ledger.sample_consumed_usage(self.now)
        self.state.ledger.age(self.now)
        for _ in range(100):
            changed = [name for name in list(self.workloads) if self._step(name)]
            if not changed and not self._resume():
                self.state.ledger.flush_requeues()  # without the batching of a cycle
                return
        raise AssertionError("the controllers do not become idle")

    def _step(self, name: str) -> bool:
        workload = self.workloads[name]
        if self.configuration.wait_for_pods_ready is not None and c.has_quota_reservation(workload):
            condition = pods_ready_condition(workload, name in self.ready, self.now)
            if condition is not None:
                conditions = c.with_conditions(workload.status.conditions, condition)
                return self.put_status(name, replace(workload.status, conditions=conditions))
        transition = self.decide(name)
        if transition.deactivate:
            self.respecify(name, active=False)
            return True
        return self.put_status(name, transition.status)

    def decide(self, name: str) -> Any:
        workload = self.workloads[name]
        view = self.state.queue_view(workload)
        if name in self.checked and view.cluster_queue is not None:
            checks = (*view.cluster_queue.checks, PENDING_CHECK)
            view = replace(view, cluster_queue=replace(view.cluster_queue, checks=checks))
        replaced_by = self.state.replaced_by(workload.metadata.key)
        return decide_workload(workload, view, self.configuration, self.now, 0.0, None, replaced_by)

    def _resume(self) -> bool:
        suspended = self.admission_cycle.suspended
        if suspended is None or self.state.ledger.unready:
            return False
        self.carry_out(suspended.run(self.now))
        return True

    def carry_out(self, decisions: Iterable[Decision]) -> None:
        for decision in decisions:
            name = decision.key.name
            match decision:
                case Reserve():
                    admitted = decision.admitted and name not in self.checked
                    reserve = replace(decision, admitted=admitted)
                    self.put_status(name, admit(self.workloads[name], reserve, self.now))
                case Hold():
                    gates = self.configuration.gates
                    self.put_status(name, hold_status(self.workloads[name], decision, self.now, gates))
                case SecondPassFailed(message=message):
                    self.second_pass_failures.append(f"{self.now:g} {name}: {message}")
                    gates = self.configuration.gates
                    self.put_status(name, unplaced_status(self.workloads[name], self.now, gates))
                case _:
                    status = decided_status(self.workloads[name], decision, self.now, self.configuration)
                    self.put_status(name, status)

    # Steps.

    def run(self, step: Any) -> None:
        kind: str
        argument: Any
        kind, argument = (step, None) if isinstance(step, str) else next(iter(step.items()))
        match kind:
            case "cycle":
                self.cycle(argument)
            case "create":
                for name in argument:
                    self.create(name)
            case "finish":
                for name in argument:
                    self.put_status(name, finish_status(self.workloads[name], "Succeeded", "", self.now))
            case "delete":
                for name in argument:
                    self.state.remove_workload(self.workloads.pop(name).metadata.key)
            case "deletePods":
                for name in argument:
                    self.state.nodes.retry_flavors(self.state.nodes.remove_pod(Key("default", name)))
            case "evictionDone":
                for name in argument:
                    self.ready.discard(name)
                    self.put_status(
                        name, release_status(self.workloads[name], self.now, self.configuration.gates)
                    )
            case "advance":
                self.advance(self.now + seconds(argument))
            case "podsReady":
                for name, ready in argument.items():
                    (self.ready.add if ready else self.ready.discard)(name)
            case "active":
                for name, active in argument.items():
                    self.respecify(name, active=active)
            case "reclaim":
                for name, counts in argument.items():
                    pods = tuple(ReclaimablePod(name=pod_set, count=n) for pod_set, n in counts.items())
                    self.put_status(name, replace(self.workloads[name].status, reclaimable_pods=pods))
            case "flush":
                self.state.ledger.note_external_change(self.state.ledger.cluster_queues[argument])
            case "checks":
                for name, states in argument.items():
                    self.put_checks(name, states)
            case "unhealthy":
                for name, nodes in argument.items():
                    unhealthy = tuple(UnhealthyNode(name=node) for node in nodes)
                    self.put_status(name, replace(self.workloads[name].status, unhealthy_nodes=unhealthy))
            case "update":
                self.update(argument)
            case _:
                raise ValueError(f"{kind!r} is no step")
        self.settle()

    def put_checks(self, name: str, states: Json) -> None:
        """Set the states of admission checks; with updates of pods as ``{state: Ready, updates: [...]}``."""
        status = self.workloads[name].status
        checks = []
        for check in status.admission_checks:
            given = states.get(check.name, {})
            given = given if isinstance(given, dict) else {"state": given}
            updates = [codec.convert(PodSetUpdate, each) for each in given.get("updates", [])]
            state = given.get("state", check.state)
            checks.append(replace(check, state=state, pod_set_updates=tuple(updates)))
        self.put_status(name, replace(status, admission_checks=tuple(checks)))

    def cycle(self, argument: Any) -> None:
        times = argument if isinstance(argument, int) else 1
        steps = argument.get("mid", []) if isinstance(argument, dict) else []
        for _ in range(times):
            self.state.advance_windows(self.now)
            while self.state.request_updates.are_pending:
                self.state.request_updates.run_slice()
            # Vectors cycle when the first delay for failed hosts is over.
            self.state.ledger.second_pass.begin_delays(self.now - FIRST_DELAY_S)
            with self.admission_cycle.second_pass(self.now) as second_pass:
                self.carry_out(second_pass.decide())
                assert second_pass.faults == []
                if self.admission_cycle.suspended is not None:
                    self.settle()
                    return
                self.state.ledger.flush_requeues()
                round_ = self.admission_cycle.start_round(self.state.ledger.cluster_queues.values())
                self.carry_out(round_.process(self.now))
                assert round_.pop_faults() == []
            for step in steps:
                self.run(step)
            if not round_.is_suspended:
                round_.requeue()
            self.settle()

    def advance(self, until: float) -> None:
        """Move the clock, stopping at each ``wake_at`` of a controller."""
        while True:
            alarms = [self.decide(name).wake_at for name in self.workloads]
            alarms.append(self.state.ledger.sample_consumed_usage(self.now).next_at)
            due = [alarm for alarm in alarms if alarm is not None and alarm <= until]
            self.now = max(self.now, min(due)) if due else until
            self.settle()
            if self.now >= until:
                return

    def update(self, changes: Json) -> None:
        for kind, objects in changes.items():
            for name, fields in objects.items():
                match kind:
                    case "clusterQueues":
                        queues = self.given.setdefault("clusterQueues", {})
                        queues[name] = {**(queues.get(name) or {}), **fields}
                        self.put_cluster_queue(name)
                    case "cohorts":
                        cohorts = self.given.setdefault("cohorts", {})
                        cohorts[name] = {**(cohorts.get(name) or {}), **fields}
                        self.put_cohort(name)
                    case "localQueues":
                        queues = self.given.setdefault("localQueues", {})
                        queues[name] = {**queues.get(name, {"clusterQueue": name}), **fields}
                        for key in list(self.state.ledger.local_queues):
                            if key.name == name:
                                self.put_local_queue(key.namespace, name)
                    case "workloads":
                        given = self.given_workload(name)
                        if {"requests", "count"} & fields.keys():
                            given.pop("podSets", None)  # the shorthand replaces them
                        if "workloadPriorityClass" in fields:
                            given.pop("priority", None)
                        given.update(fields)
                        self.put_queue_of(given)
                        new = self.read_workload(given)
                        self.respecify(
                            name,
                            **{field: getattr(new.spec, field) for field in new.spec.__struct_fields__},
                        )
                    case "flavors" if fields is None:
                        self.state.remove_flavor(name)
                    case "flavors":
                        self.put_flavor(name, fields)
                    case "topologies":
                        self.put_topology(name, fields)
                    case "nodes":
                        nodes = self.given.setdefault("nodes", {})
                        if fields is None:
                            del nodes[name]
                            self.state.nodes.retry_flavors(self.state.nodes.remove_node(name))
                        else:
                            nodes[name] = {**nodes.get(name, {}), **fields}
                            self.put_node(name)
                    case "namespaces":
                        self.state.put_namespace(name, fields)
                    case "pods":
                        self.put_pod(name, fields)
                    case "claims":
                        self.put_claim(name, fields)
                    case _:
                        raise ValueError(f"{kind!r} cannot be updated")

    # Results.

    def shape(self, name: str) -> Shape:
        return self.state.ledger.shapes.shape_of(self.workloads[name])

    def requested(self, name: str) -> dict[str, dict[str, int]]:
        """Return the counted requests by pod set, without reclaimed pods."""
        admission = self.workloads[name].status.admission
        taken = {pods.name: pods for pods in admission.pod_set_assignments} if admission is not None else {}
        requested = {}
        for pod_set in self.shape(name).pod_sets:
            count = pod_set.count
            if pod_set.name in taken:
                count = min(count, taken[pod_set.name].count or 0)
            requested[pod_set.name] = pod_set.request(count)
            if pod_set.name in taken and PODS in taken[pod_set.name].flavors:
                requested[pod_set.name][PODS] = count
        return requested

    def condition(self, name: str, type_: str) -> Condition | None:
        if name not in self.workloads:
            self.given_workload(name)  # deleted or not created yet; an unknown name raises
            return None
        return find_condition(self.workloads[name].status.conditions, type_)

    def admitted(self) -> dict[str, Admission]:
        """Return the admissions of workloads that had none at the beginning."""
        return {
            name: workload.status.admission
            for name, workload in self.workloads.items()
            if name not in self.given_admitted
            and workload.status.admission is not None
            and is_true(workload.status.conditions, c.QUOTA_RESERVED)
            and not c.is_finished(workload)
        }

    def preempted(self) -> dict[str, str]:
        result = {}
        for name in self.workloads:
            evicted, preempted = self.condition(name, c.EVICTED), self.condition(name, c.PREEMPTED)
            if evicted is not None and (evicted.status, evicted.reason) == ("True", "Preempted"):
                result[name] = preempted.reason if preempted is not None else ""
        return result
