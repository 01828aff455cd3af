"""Each remedy of a waiting pod group is true: after its changes the group starts.  Numbers are typed."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from quorate.api.explanation import Change, Remedy
from quorate.api.meta import epoch
from quorate.api.quantity import Quantity, parse_quantity
from quorate.gang.explanation import GroupFacts
from quorate.gang.remedies import group_facts
from quorate.placement.supposed_nodes import supposed_nodes
from tests.gang.enqueue_worlds import group, pod, rq
from tests.gang.vectors import settings_of
from tests.gang.world import World, key_of
from tests.search import examples

Json = dict[str, Any]


def a_world(given_: Json, plugins: tuple[str, ...]) -> World:
    tiers = [["priority", "gang", *plugins, "predicates", "nodeorder"]]
    conf = {"actions": "enqueue, allocate, backfill", "tiers": tiers}
    return World(given_, settings_of(conf, "design"), restarting=False)


def facts_of(here: World, name: str) -> GroupFacts:
    """Return the facts of a group, computed on a model of its own."""
    model, steps = here.fresh_model(), here.groups[key_of(name)]
    search = group_facts(model, steps, here.settings, here.now)
    while True:
        try:
            next(search)
        except StopIteration as end:
            facts: GroupFacts = end.value
            return facts


def carried_out(given_: Json, remedy: Remedy, name: str) -> Json:
    """Return the world with the changes of ``remedy``, without the other groups that wait."""
    changed = {**given_, "podGroups": [dict(each) for each in given_["podGroups"]]}
    changed["podGroups"] = [
        each
        for each in changed["podGroups"]
        if each["name"] == name or each.get("phase", "") not in ("", "Pending")
    ]
    for change in remedy.all_of:
        _carry_out(changed, change, name)
    return changed


def _carry_out(world_: Json, change: Change, name: str) -> None:
    target = "" if change.object is None else change.object.name
    own = next(each for each in world_["podGroups"] if each["name"] == name)
    match change.action:
        case "RaiseQuota" | "FreeQuota":
            is_queue = change.object is not None and change.object.kind == "Queue"
            kind, field = ("queues", "capability") if is_queue else ("quotas", "hard")
            _raise(world_, kind, field, target, change.resource, change.amount)
        case "RaisePodGroups":
            _set(world_, "queues", target, maxPodGroups=int(change.amount))
        case "ResumeQueue":
            _set(world_, "queues", target, state="Open")
        case "SetQueue":
            own["queue"] = target
        case "CreateQueue":
            world_["queues"] = [*world_["queues"], {"name": target}]
        case "LowerMinMember":
            fewer = int(change.amount)
            least = own.get("minResources")
            if least is not None:
                own["minResources"] = {
                    key: str(Quantity(-(-parse_quantity(str(value)).nanos * fewer // own["minMember"])))
                    for key, value in least.items()
                }
            own["minMember"] = fewer
        case "ProvideNodes":
            assert change.nodes is not None
            more = [
                {
                    "name": node.metadata.name, "labels": dict(node.metadata.labels),
                    **{key: str(value) for key, value in node.status.allocatable.items()},
                }
                for node in supposed_nodes(change.nodes, "x", "new")
            ]  # fmt: skip
            world_["nodes"] = [*world_["nodes"], *more]
        case "RaiseTier":
            own["networkTopology"] = own["networkTopology"] | {"highestTierAllowed": int(change.amount)}
        case "Wait":
            if change.until is not None:
                world_["now"] = epoch(change.until)
        case _:
            raise AssertionError(change.action)


def _raise(world_: Json, kind: str, field: str, name: str, resource: str, amount: str) -> None:
    (of,) = (each for each in world_[kind] if each["name"] == name)
    limit = parse_quantity(str(of[field][resource])).nanos + parse_quantity(amount).nanos
    _set(world_, kind, name, **{field: {**of[field], resource: str(Quantity(limit))}})


def _set(world_: Json, kind: str, name: str, **fields: Any) -> None:
    world_[kind] = [each | (fields if each["name"] == name else {}) for each in world_[kind]]


PLUGINS = st.sampled_from(((), ("capacity",), ("overcommit", "proportion"), ("proportion",)))
CPU = st.integers(1, 9)


@st.composite
def worlds(draw: st.DrawFn) -> Json:
    """Draw nodes, queues, a quota, running groups, and groups that wait with and without pods."""
    queues: list[Json] = []
    for name in ("alpha", "b"):
        queue: Json = {"name": name}
        if draw(st.booleans()):
            queue["capability"] = {"cpu": draw(st.integers(1, 12))}
        if not draw(st.integers(0, 5)):
            queue["maxPodGroups"] = draw(st.integers(0, 2))
        if not draw(st.integers(0, 7)):
            queue["state"] = "Closed"
        if not draw(st.integers(0, 5)):
            queue["dequeueStrategy"] = "fifo"
        queues.append(queue)
    nodes = [
        {"name": f"n{number}", "cpu": draw(st.integers(2, 8))} for number in range(draw(st.integers(1, 3)))
    ]
    groups, pods = [], []
    for number in range(draw(st.integers(1, 4))):
        queue_name = draw(st.sampled_from(("alpha", "alpha", "alpha", "b", "b", "alphx")))
        members, cpu = draw(st.integers(1, 4)), draw(st.integers(1, 3))
        one: Json = group(
            f"g{number}", str(members * cpu), minMember=members, created=number, queue=queue_name
        )
        if draw(st.booleans()):
            one["phase"] = draw(st.sampled_from(("Pending", "Inqueue")))
        if not draw(st.integers(0, 3)):
            del one["minResources"]
        if draw(st.booleans()):
            pods += [pod(f"g{number}", f"g{number}-{each}", cpu=str(cpu)) for each in range(members)]
        groups.append(one)
    running = draw(st.integers(0, 2))
    if running:
        groups.append(group("r", "2", queue="alpha", phase="Running"))
        pods.append({**pod("r", cpu="2"), "node": "n0", "phase": "Running"})
    quotas = [rq({"cpu": draw(st.integers(1, 12))}, {"cpu": 1})] if not draw(st.integers(0, 3)) else []
    return {"queues": queues, "nodes": nodes, "podGroups": groups, "pods": pods, "quotas": quotas}


def waiting_facts(here: World) -> Iterator[tuple[str, GroupFacts]]:
    for key, each in sorted(here.groups.items()):
        if each.status.phase in ("", "Pending", "Inqueue"):
            yield key.name, facts_of(here, key.name)


def starts(here: World, name: str) -> bool:
    """Return True if the group starts in the next session: admitted, and bound if it has its pods."""
    here.session()
    names = [each.metadata.annotations["scheduling.k8s.io/group-name"] for each in here.pods.values()]
    members, least = names.count(name), here.groups[key_of(name)].spec.min_member
    is_admitted = here.phase(name) not in ("", "Pending")
    return is_admitted and (members < least or here.placed(name) >= least)


@examples(60)
@given(worlds(), PLUGINS)
def test_every_remedy_lets_the_group_start(given_: Json, plugins: tuple[str, ...]) -> None:
    here = a_world(given_, plugins)
    for name, facts in list(waiting_facts(here)):
        for reason in facts.reasons:
            event(reason.code)
        for remedy in facts.remedies:
            event(" and ".join(change.action for change in remedy.all_of))
            after = a_world(carried_out(given_, remedy, name), plugins)
            assert starts(after, name), f"{name}: {facts.text}: {remedy.text}"


ONE_NODE: Json = {"nodes": [{"name": "n0", "cpu": 4}]}
TREE: Json = {
    "nodes": [{"name": f"n{number}", "cpu": 4} for number in range(4)],
    "hyperNodes": [
        {"name": "leaf-1", "tier": 1, "nodes": "n0 n1"},
        {"name": "leaf-2", "tier": 1, "nodes": "n2 n3"},
        {"name": "spine", "tier": 2, "hyperNodes": "leaf-1 leaf-2"},
    ],
}
BACK_OFF = {
    "scheduling.volcano.sh/requeue-not-before": "1970-01-01T00:20:00Z",
    "scheduling.volcano.sh/requeue-attempts": "2",
}


@pytest.mark.parametrize(
    ("given_", "want"),
    [
        pytest.param(
            {**TREE, "podGroups": [
                group("g", "12", minMember=3, networkTopology={"mode": "hard", "highestTierAllowed": 1})
            ]},
            ["raise highestTierAllowed of its networkTopology to 2", "lower minMember to 2"],
            id="no HyperNode of the tier is large enough",
        ),
        pytest.param(
            {**ONE_NODE, "podGroups": [group("g", "12", minMember=4)]},
            ["3 more nodes must have 3 cpu free", "lower minMember to 1"],
            id="nodes for as few members as are enough",
        ),
        pytest.param(
            {**ONE_NODE, "podGroups": [group("g", "30", minMember=10)]},
            ["5 more nodes must have 6 cpu free", "lower minMember to 1"],
            id="larger nodes instead of many",
        ),
        pytest.param(
            {**ONE_NODE, "podGroups": [group("g", "1", annotations=BACK_OFF)]},
            ["wait until 00:20:00 UTC"],
            id="its back-off has not ended",
        ),
        pytest.param(
            {**ONE_NODE, "queues": [{"name": "research"}], "podGroups": [group("g", "1", queue="reserch")]},
            ["create queue reserch", "set its queue to research (did you mean research?)"],
            id="a queue that does not exist",
        ),
        pytest.param(
            {
                **ONE_NODE,
                "queues": [{"name": "q", "capability": {"cpu": 2}}],
                "podGroups": [group("g", "2", queue="q"), group("r", "1", queue="q", phase="Running")],
                "pods": [{**pod("r"), "node": "n0", "phase": "Running"}],
            },
            ["1 cpu must become free in queue q", "raise capability of queue q to 3 cpu"],
            id="others use the queue",
        ),
        pytest.param(
            {
                **ONE_NODE,
                "queues": [{"name": "q", "capability": {"cpu": 2}}],
                "podGroups": [group("g", None, queue="q", minMember=3, phase="Inqueue"), group("r")],
                "pods": [
                    *({**pod("g"), "name": f"g{at}"} for at in range(3)),
                    {**pod("r"), "cpu": 4, "node": "n0", "phase": "Running"},
                ],
            },
            ["raise capability of queue q to 3 cpu and 3 more nodes must have 1 cpu free"],
            id="pods of a group without minResources beyond the limit of the queue, on full nodes",
        ),
    ],
)  # fmt: skip
def test_remedies_in_words(given_: Json, want: list[str]) -> None:
    given_ = {"queues": [{"name": "default"}], "pods": [], "quotas": [], **given_}
    facts = facts_of(a_world(given_, ("capacity",)), "g")
    assert [remedy.text for remedy in facts.remedies] == want
    for remedy in facts.remedies:
        assert starts(a_world(carried_out(given_, remedy, "g"), ("capacity",)), "g")
