"""The explanation of a pending workload and its queues: amounts of quota, and names a tenant may read."""

from typing import get_args, get_type_hints

import pytest
from msgspec.structs import replace

from quorate.api import codec
from quorate.api.explanation import Explanation
from quorate.api.meta import Key
from quorate.queueing import inadmissible_reasons as r
from quorate.queueing.explain import pending_facts, run
from quorate.queueing.explanation.queues import explain_cluster_queue, explain_local_queue
from quorate.queueing.explanation.scope import HIDDEN, UNLIMITED_SCOPE, Scope, namespaces_of, scoped
from quorate.queueing.explanation.workload import NEVER, explain_workload
from tests.queueing.test_explanation_states import a_world
from tests.queueing.world import World


def explain_pending(world: World, scope: Scope = UNLIMITED_SCOPE) -> Explanation:
    key = Key("default", "mine")
    facts = run(pending_facts(world.state, key))
    assert facts is not None
    assert namespaces_of(facts) <= {"default"}
    return explain_workload(world.state, world.workloads["mine"], scoped(facts, scope))


def test_a_queued_workload_has_numbers_and_the_holders_of_what_is_short() -> None:
    found = explain_pending(a_world())
    assert (found.state, found.ahead, found.can_never_fit) == ("Queued", 0, False)
    (reason,) = found.reasons
    assert (reason.code, str(reason.object)) == ("QuotaShort", "ClusterQueue b")
    assert (reason.needed, reason.free, reason.short_by, reason.at_most) == ("3", "2", "1", "4")
    assert reason.enough == "1 more cpu of flavor default must become free"
    assert [(each.workload, each.cluster_queue, each.amount) for each in reason.held_by] == [
        ("default/theirs", "a", "2")
    ]


def test_names_of_other_tenants_are_left_out() -> None:
    found = explain_pending(a_world(), Scope(frozenset(), cluster_queues=False))
    (reason,) = found.reasons
    assert [(each.workload, each.cluster_queue, each.amount) for each in reason.held_by] == [("", "", "2")]
    assert b"theirs" not in codec.encode(found)


THEIRS = Key("theirs", "secret")


NAMING = (
    r.AwaitingPodsReady(THEIRS),
    r.NoLongerFits(THEIRS, ()),
    r.TargetsOverlap(THEIRS, THEIRS),
    r.AwaitingPreemption((THEIRS,)),
    r.AwaitingOtherPreemption((THEIRS,)),
    r.ReservedForEarlierWorkload(THEIRS, 60.0, ()),
)


def test_every_reason_that_names_a_workload_is_covered() -> None:
    naming = {
        reason
        for reason in get_args(r.InadmissibleReason)
        if any("Key" in str(hint) for hint in get_type_hints(reason).values())
    }
    assert naming == {type(reason) for reason in NAMING}


@pytest.mark.parametrize("reason", NAMING, ids=lambda each: type(each).__name__)
def test_remedies_do_not_name_workloads_that_may_not_be_read(reason: r.InadmissibleReason) -> None:
    world = a_world()
    known = run(pending_facts(world.state, Key("default", "mine")))
    assert known is not None
    assert known.hold is not None
    facts = replace(known, hold=replace(known.hold, reasons=(reason,)))
    assert "theirs" in namespaces_of(facts)
    workload = world.workloads["mine"]
    hidden = explain_workload(world.state, workload, scoped(facts, Scope(frozenset({"default"}))))
    assert b"secret" not in codec.encode(hidden)
    assert HIDDEN.name in hidden.enough[0]
    assert str(THEIRS) in explain_workload(world.state, workload, facts).enough[0]


def test_more_than_the_quota_can_never_fit() -> None:
    found = explain_pending(a_world(requests={"cpu": 9}))
    assert (found.state, found.code, found.can_never_fit) == ("NeverFits", "QuotaExceeded", True)
    assert found.message == (
        f"{NEVER}: couldn't assign flavors to pod set main: insufficient quota for cpu in flavor default, "
        "previously considered podsets requests (0) + current podset request (9) > maximum capacity (4)"
    )


def test_quota_that_is_only_short_now_is_not_why_a_workload_can_never_start() -> None:
    quota = [{"default": {"cpu": 4, "memory": 4}}]
    workloads = [
        {"name": "theirs", "queue": "q", "requests": {"cpu": 2}, "admitted": "default"},
        {"name": "mine", "queue": "q", "requests": {"cpu": 3, "memory": 5}, "created": 2},
    ]
    world = World({"flavors": ["default"], "clusterQueues": {"q": {"quota": quota}}, "workloads": workloads})
    world.run("cycle")
    found = explain_pending(world)
    assert [reason.code for reason in found.reasons] == ["QuotaShort", "QuotaExceeded"]
    assert (found.state, found.code) == ("NeverFits", "QuotaExceeded")
    raised = "raise nominalQuota of memory of flavor default in cluster queue q by 1"
    assert any(f"{raised} and 1 more cpu of flavor default must become free" in way for way in found.enough)


def test_a_stopped_queue_holds_its_workloads() -> None:
    found = explain_pending(a_world(queue="stopped"))
    assert (found.state, found.message) == ("Held", "ClusterQueue stopped is inactive")
    assert str(found.reasons[0].object) == "ClusterQueue stopped"
    assert found.enough == ("resume cluster queue stopped, which is stopped (quorate queue resume stopped)",)


def test_queues_tell_whether_they_admit_and_what_is_free() -> None:
    state = a_world().state
    first = (Key("default", "mine"),)
    found = explain_cluster_queue(state, "a", first)
    assert found is not None
    assert (found.state, found.message) == ("Active", "it admits; 0 pending and 1 with quota")
    assert [(each.code, each.resource, each.free, each.at_most) for each in found.reasons] == [
        ("Quota", "cpu", "2", "4")
    ]
    hidden = explain_cluster_queue(state, "b", first, Scope(frozenset()))
    assert hidden is not None
    assert (hidden.ahead, hidden.first_ahead) == (1, ())
    stopped = explain_cluster_queue(state, "stopped")
    assert stopped is not None
    assert (stopped.state, stopped.enough) == (
        "Inactive", ("quorate queue resume stopped (spec.stopPolicy: None)",)
    )  # fmt: skip
    assert explain_cluster_queue(state, "gone") is None
    assert explain_local_queue(state, Key("default", "gone")) is None
    local = explain_local_queue(state, Key("default", "b"), first)
    assert local is not None
    assert (local.state, local.cluster_queue, local.first_ahead) == ("Active", "b", ("default/mine",))
