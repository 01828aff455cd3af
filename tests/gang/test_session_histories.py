"""Sessions keep their invariants under any history of groups, pods, nodes and queues.

Two leaders observe the same: one continues, and one starts anew before every session.  Only the first knows
of pods that end and are deleted between two sessions, so that there is a session before and after.
"""

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from quorate.api.meta import Key
from tests.gang.generated_worlds import confs, groups, nodes, picture, pods, worlds
from tests.gang.session_invariants import SessionStart, comparable, may_remove_ended_pods, violations
from tests.gang.vectors import settings_of
from tests.gang.world import World
from tests.search import examples

pytestmark = pytest.mark.no_cover  # many generated examples of rules that other tests measure

Json = dict[str, Any]


class SessionHistory(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.number = 0  # of objects created so far

    @initialize(given=worlds(), conf=confs, profile=st.sampled_from(("compat", "design")))
    def begin(self, given: Json, conf: Json, profile: str) -> None:
        rules = settings_of(conf, profile)
        self.queues = [queue["name"] for queue in given["queues"]]
        self.world = World(given, rules, restarting=False)
        self.twin = World(given, rules, restarting=True)

    def do(self, operation: str, argument: Any) -> None:
        removes_ended_pods = may_remove_ended_pods(operation, self.world)
        if removes_ended_pods:
            self.session()
        for world in (self.world, self.twin):
            world.do(operation, argument)
        if removes_ended_pods:
            self.session()

    def names(self) -> list[str]:
        return sorted(key.name for key in self.world.pods)

    @rule()
    def session(self) -> None:
        before = SessionStart(self.world)
        outcome = self.world.session()
        assert violations(self.world, before, outcome) == []
        assert comparable(self.twin.session()) == comparable(outcome)

    @rule(data=st.data())
    def add_gang(self, data: st.DataObject) -> None:
        self.number += 1
        group = data.draw(groups(f"h{self.number}", self.queues))
        group["phase"] = ""
        self.do("addPodGroups", [group])
        members = [
            data.draw(pods(f"h{self.number}-{index}", group["name"]))
            for index in range(data.draw(st.integers(0, 3)))
        ]
        self.do("addPods", members)

    @rule(data=st.data())
    def add_node(self, data: st.DataObject) -> None:
        self.number += 1
        self.do("addNodes", [data.draw(nodes(f"m{self.number}"))])

    @precondition(lambda self: len(self.world.nodes) > 1)
    @rule(data=st.data())
    def lose_node(self, data: st.DataObject) -> None:
        self.do("removeNodes", [data.draw(st.sampled_from(sorted(self.world.nodes)))])

    @precondition(lambda self: self.world.pods)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.names()))
        if self.world.pods[Key("default", name)].node_name:
            self.do("finish", {"pods": [name], "result": data.draw(st.sampled_from(("Succeeded", "Failed")))})

    @precondition(lambda self: self.world.pods)
    @rule(data=st.data())
    def delete_pod(self, data: st.DataObject) -> None:
        self.do("deletePods", [data.draw(st.sampled_from(self.names()))])

    @precondition(lambda self: self.world.groups)
    @rule(data=st.data())
    def delete_group(self, data: st.DataObject) -> None:
        names = sorted(key.name for key in self.world.groups)
        self.do("deletePodGroups", [data.draw(st.sampled_from(names))])

    @rule(data=st.data())
    def change_queue(self, data: st.DataObject) -> None:
        change: Json = {"name": data.draw(st.sampled_from(self.queues))}
        change |= data.draw(
            st.sampled_from(
                (
                    {"weight": 3},
                    {"state": "Closed"},
                    {"state": "Open"},
                    {"capability": {"cpu": 2}},
                    {"priority": 1},
                )
            )
        )
        self.do("setQueue", change)

    @rule()
    def kubelets(self) -> None:
        self.do("start", "all")
        self.do("reap", "all")

    @rule(seconds=st.sampled_from((1, 15, 301)))
    def time_passes(self, seconds: int) -> None:
        self.do("advance", seconds)

    @invariant()
    def the_model_is_what_the_objects_say(self) -> None:
        if hasattr(self, "world"):
            assert picture(self.world.model) == picture(self.world.fresh_model())


TestHistory = pytest.mark.slow(SessionHistory.TestCase)
TestHistory.settings = examples(25, steps=15)
