"""The queueing core in arbitrary histories of workloads, queues, quota and restarts."""

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from quorate.api.meta import Key
from quorate.queueing import conditions as c
from quorate.queueing.scheduling.cycle import AdmissionCycle
from quorate.queueing.state import State
from quorate.quota import tree
from quorate.quota.amount import FlavorResource
from tests.queueing.notation import Json
from tests.queueing.test_laws import QUEUES, policies, quotas, writes
from tests.queueing.world import World, differences
from tests.search import examples

pytestmark = pytest.mark.no_cover  # many generated examples of rules that other tests measure

COHORTS = ("", "left", "right", "top")
which = st.integers(0, 7)


class AnyHistory(RuleBasedStateMachine):
    """After every step usage is the sum of the reservations, and every reservation is allowed."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World({"flavors": ["one", "two"], "clusterQueues": {}, "workloads": []})
        # By how much each node was over its quota after the last change of quota: it may only decrease.
        self.debts: dict[tuple[str, FlavorResource], int] = {}
        self.made = 0

    @initialize(fair=st.booleans(), data=st.data(), limit=st.sampled_from((None, 1)))
    def begin(self, fair: bool, data: Any, limit: int | None) -> None:
        wait = {"timeout": "60s", "requeuingStrategy": {"backoffBaseSeconds": 10, "backoffLimitCount": limit}}
        queues = {
            name: {
                "cohort": data.draw(st.sampled_from(COHORTS)),
                "strategy": data.draw(st.sampled_from(("BestEffortFIFO", "StrictFIFO"))),
                "preemption": data.draw(policies()),
                "quota": data.draw(quotas(in_cohort=True)),
            }
            for name in QUEUES
        }
        config = {"waitForPodsReady": wait, **({"fairSharing": {}} if fair else {})}
        cohorts = {"left": {"parent": "top"}, "right": {"parent": "top"}, "top": {}}
        self.world = World(
            {
                "config": config,
                "flavors": ["one", "two"],
                "cohorts": cohorts,
                "clusterQueues": queues,
                "workloads": [],
            }
        )

    def chosen(self, index: int, **states: bool) -> str | None:
        """Return one of the workloads with the given states."""
        kinds = {"reserving": c.has_quota_reservation, "evicted": c.is_evicted, "finished": c.is_finished}
        names = [
            name
            for name, workload in self.world.workloads.items()
            if all(kinds[kind](workload) == value for kind, value in states.items())
        ]
        return names[index % len(names)] if names else None

    @rule(
        queue=st.sampled_from(QUEUES),
        priority=st.integers(0, 2),
        cpu=st.integers(1, 3),
        count=st.integers(1, 3),
        min_count=st.integers(1, 3),
    )
    def submit(self, queue: str, priority: int, cpu: int, count: int, min_count: int) -> None:
        self.made += 1
        name = f"w{self.made:02}"
        pod_set = {"count": count, "minCount": min(min_count, count), "requests": {"cpu": cpu}}
        given: Json = {"name": name, "queue": queue, "priority": priority, "podSets": [pod_set]}
        self.world.given["workloads"].append({**given, "created": self.world.now})
        self.world.create(name)
        self.world.settle()

    @rule()
    def cycle(self) -> None:
        decisions = self.world.admission_cycle.run(self.world.now).decisions
        assert writes(self.world.admission_cycle.run(self.world.now).decisions) == set()
        self.world.carry_out(decisions)
        self.world.settle()

    @rule(index=which)
    def finish(self, index: int) -> None:
        name = self.chosen(index, reserving=True, evicted=False, finished=False)
        if name is not None:
            self.world.run({"finish": [name]})

    @rule(index=which)
    def delete(self, index: int) -> None:
        name = self.chosen(index)
        if name is not None:
            self.world.run({"delete": [name]})

    @rule(index=which)
    def stop(self, index: int) -> None:
        name = self.chosen(index, reserving=True, evicted=True, finished=False)
        if name is not None:
            self.world.run({"evictionDone": [name]})

    @rule(index=which, active=st.booleans())
    def set_active(self, index: int, active: bool) -> None:
        name = self.chosen(index, finished=False)
        if name is not None:
            self.world.run({"active": {name: active}})

    @rule(index=which, ready=st.booleans())
    def set_ready(self, index: int, ready: bool) -> None:
        name = self.chosen(index, reserving=True, evicted=False, finished=False)
        if name is not None:
            self.world.run({"podsReady": {name: ready}})

    @rule(seconds=st.sampled_from((1, 30, 61)))
    def wait(self, seconds: int) -> None:
        self.world.run({"advance": seconds})

    @rule(queue=st.sampled_from(QUEUES), quota=quotas(in_cohort=True), cohort=st.sampled_from(COHORTS))
    def set_quota(self, queue: str, quota: list[Json], cohort: str) -> None:
        self.update("clusterQueues", queue, {"quota": quota, "cohort": cohort})

    @rule(cohort=st.sampled_from(COHORTS[1:]), quota=quotas(in_cohort=False))
    def set_cohort_quota(self, cohort: str, quota: list[Json]) -> None:
        self.update("cohorts", cohort, {"quota": quota})

    @rule(queue=st.sampled_from(QUEUES), policy=st.sampled_from(("None", "Hold", "HoldAndDrain")))
    def set_stop_policy(self, queue: str, policy: str) -> None:
        self.update("clusterQueues", queue, {"stopPolicy": policy})

    @rule(flavor=st.sampled_from(("one", "two")), present=st.booleans())
    def set_flavor(self, flavor: str, present: bool) -> None:
        if present:
            self.world.put_flavor(flavor, {})
        else:
            self.world.state.remove_flavor(flavor)
        self.world.settle()

    def update(self, kind: str, name: str, fields: Json) -> None:
        self.world.run({"update": {kind: {name: fields}}})
        self.debts = {
            (node.name, pair): min(0, tree.available(node, pair))
            for node in self.nodes()
            for pair in (*node.usage, *node.limits)
        }

    @rule()
    def restart(self) -> None:
        """Rebuild the state from the stored objects: reservations and queues are as before."""
        old, world = self.world.state, self.world
        world.state = State(world.configuration)
        world.admission_cycle = AdmissionCycle(world.state)
        world.state.put_namespace("default", {})
        for flavor in old.flavors.values():
            world.state.put_flavor(flavor)
        for name in world.given.get("cohorts", {}):
            world.put_cohort(name)
        for queue in old.ledger.cluster_queues.values():
            world.state.put_cluster_queue(queue.object)
        for local_queue in old.ledger.local_queues.values():
            if local_queue.object is not None:
                world.state.put_local_queue(local_queue.object)
        for workload in world.workloads.values():
            world.state.put_workload(workload, world.now)
        assert {key: one.usage for key, one in world.state.ledger.reservations.items()} == {
            key: one.usage for key, one in old.ledger.reservations.items()
        }
        assert self.queued(world.state) == self.queued(old)

    def queued(self, state: State) -> dict[str, list[Key]]:
        """Return the queues in queue order, without sticky workloads: these are not stored."""
        return {
            name: [
                entry.key
                for entry in sorted(
                    (*queue.pending.active(), *queue.pending.inadmissible()), key=lambda entry: entry.order
                )
            ]
            for name, queue in state.ledger.cluster_queues.items()
        }

    def nodes(self) -> list[tree.Node]:
        quota = self.world.state.ledger.quota
        return [*quota.queues.values(), *quota.cohorts.values()]

    @invariant()
    def usage_is_the_sum_of_reservations(self) -> None:
        assert differences(self.world.state, self.world.workloads.values()) == []

    @invariant()
    def usage_stays_within_limits(self) -> None:
        for node in self.nodes():
            for pair in (*node.usage, *node.limits):
                assert tree.available(node, pair) >= self.debts.get((node.name, pair), 0)

    @invariant()
    def every_reservation_belongs_to_an_active_workload(self) -> None:
        state = self.world.state
        assert state.ledger.reservations.keys().isdisjoint(state.ledger.entries)
        for key, reservation in state.ledger.reservations.items():
            workload = self.world.workloads[key.name]
            assert workload.spec.active
            assert not c.is_finished(workload)
            (pod_set,), (got,) = workload.spec.pod_sets, reservation.admission.pod_set_assignments
            assert isinstance(pod_set.min_count, int)
            assert got.count is not None
            assert pod_set.min_count <= got.count <= pod_set.count


TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = examples(60, steps=30)
