"""Hierarchical DRF: shares in a weighted tree, queue order and reclaim."""

from fractions import Fraction
from itertools import permutations
from typing import Any, get_args

import pytest

from quorate.api.scheduler_configuration.actions import Profile
from quorate.gang.plugins.drf import GangUsage, Path, TreeShare, tree_shares
from tests.gang.plugin_session import Json, PluginSession
from tests.gang.vectors import settings_of
from tests.gang.world import World

HDRF: list[str | Json] = [{"name": "drf", "enableHierarchy": True}]
TOTAL = {"cpu": 10, "memory": 10}


def holding(path: str, taken: dict[str, int], **wants: int) -> GangUsage:
    return GangUsage(tuple(path.split("/")), taken, {**taken, **wants})


@pytest.mark.parametrize(
    ("holdings", "path", "want"),
    [
        pytest.param(
            [holding("a", {}, cpu=9)],
            ("a",),
            TreeShare(False, Fraction(0)),
            id="a gang without tasks has share 0",
        ),
        pytest.param(
            [holding("a", {"cpu": 2, "memory": 3}, cpu=9, memory=9)],
            ("a",),
            TreeShare(False, Fraction(3, 10)),
            id="the dominant resource counts",
        ),
        pytest.param(
            [holding("a", {"cpu": 2})],
            ("a",),
            TreeShare(True, Fraction(1, 5)),
            id="a gang with all that it requests is saturated",
        ),
        pytest.param(
            [holding("a", {"cpu": 2}, cpu=9), holding("b", {"cpu": 8}, cpu=9)],
            ("a",),
            TreeShare(True, Fraction(1, 5)),
            id="a gang that requests a used-up resource is saturated",
        ),
        pytest.param(
            [holding("d/a", {"cpu": 4}, cpu=9), holding("d/b", {"memory": 2}, memory=9)],
            ("d",),
            TreeShare(False, Fraction(1, 5)),
            id="children are scaled to the smallest share",
        ),
        pytest.param(
            [holding("d/a", {"cpu": 4}), holding("d/b", {"memory": 2}, memory=9)],
            ("d",),
            TreeShare(False, Fraction(2, 5)),
            id="saturated children are not scaled",
        ),
        pytest.param(
            [holding("d/a", {"cpu": 4}, cpu=9), holding("d/b", {}, memory=9)],
            ("d",),
            TreeShare(False, Fraction(2, 5)),
            id="children without tasks do not scale others",
        ),
        pytest.param(
            [holding("d/a", {"cpu": 4}), holding("d/b", {"memory": 2})],
            ("d",),
            TreeShare(True, Fraction(2, 5)),
            id="a node with only saturated children is saturated",
        ),
    ],
)
def test_tree_shares(holdings: list[GangUsage], path: Path, want: TreeShare) -> None:
    assert tree_shares(TOTAL, holdings)[path] == want


def annotated(name: str, path: str, weights: str) -> Json:
    return {
        "name": name,
        "annotations": {"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights},
    }


def played(queues: list[Json], pods: list[Json], profile: Profile = "design", **node: Any) -> dict[str, int]:
    """Return how many pods of each group get a node; each queue has one group of its name."""
    groups = [{"name": queue["name"], "queue": queue["name"], "minMember": 1} for queue in queues]
    given = {
        "nodes": [{"name": "n1", **node}],
        "queues": queues,
        "podGroups": groups,
        "pods": [{"group": pod["name"], **pod} for pod in pods],
    }
    conf = {"actions": "allocate", "tiers": [["gang", *HDRF, "predicates", "nodeorder"]]}
    world = World(given, settings_of(conf, profile), restarting=False)
    world.start_step()
    world.session()
    return dict(world.bound_for)


def test_a_node_ahead_in_one_resource_still_gets_another() -> None:
    queues = [
        annotated("sci", "root/sci", "100/50"),
        annotated("dev", "root/eng/dev", "100/50/50"),
        annotated("prod", "root/eng/prod", "100/50/50"),
    ]
    pods = [
        {"name": "sci", "count": 10, "cpu": 1},
        {"name": "dev", "count": 10, "cpu": 1},
        {"name": "prod", "count": 10, "memory": "1Gi"},
    ]
    assert played(queues, pods, cpu=10, memory="10Gi") == {"sci": 5, "dev": 5, "prod": 10}


def test_a_saturated_queue_does_not_delay_its_parent() -> None:
    queues = [
        annotated("a", "root/a", "100/25"),
        annotated("b", "root/b", "100/25"),
        annotated("c", "root/d/c", "100/25/50"),
        annotated("m", "root/d/m", "100/25/50"),
        annotated("n", "root/n", "100/25"),
    ]
    pods = [
        *({"name": name, "count": 30, "cpu": 1} for name in "abc"),
        *({"name": name, "count": 30, "memory": "1Gi"} for name in "mn"),
    ]
    assert played(queues, pods, cpu=30, memory="30Gi") == {"a": 10, "b": 10, "c": 10, "m": 15, "n": 15}


SUBTREES = {
    "sci": annotated("sci", "root/sci", "1/1"),
    "dev": annotated("dev", "root/eng/dev", "1/1/1"),
    "prod": annotated("prod", "root/eng/prod", "1/1/1"),
}


@pytest.mark.parametrize("order", list(permutations(SUBTREES)), ids=" ".join)
@pytest.mark.parametrize("profile", get_args(Profile))
def test_an_allocation_to_one_queue_counts_for_its_siblings(profile: Profile, order: tuple[str, ...]) -> None:
    """It counts at once, but in profile compat when a sibling is compared in a heap, as in Volcano."""
    queues = [{**SUBTREES[name], "created": place} for place, name in enumerate(order)]
    pods = [{"name": name, "count": 8, "cpu": 1} for name in order]
    older = min("dev", "prod", key=order.index)
    younger = "prod" if older == "dev" else "dev"
    want = {"sci": 3, older: 3, younger: 2} if profile == "compat" else {"sci": 4, "dev": 2, "prod": 2}
    assert played(queues, pods, profile, cpu=8) == want


def test_without_annotations_parents_and_weights_of_queues_count() -> None:
    queues: list[Json] = [
        {"name": "dept", "weight": 2},
        {"name": "a", "parent": "dept"},
        {"name": "b", "parent": "dept"},
        {"name": "c"},
    ]
    pods = [{"name": name, "count": 20, "cpu": 1} for name in "abc"]
    assert played(queues, pods, cpu=12) == {"a": 4, "b": 4, "c": 4}


@pytest.mark.parametrize(
    ("path", "weights"),
    [
        pytest.param("root/x", "1", id="too few weights"),
        pytest.param("root/x", "1/many", id="a weight that is not a number"),
        pytest.param("root/x", "1/-3", id="a negative weight"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_invalid_annotations_are_ignored(path: str, weights: str) -> None:
    opened = PluginSession({"queues": [annotated("a", path, weights)]}, HDRF)
    assert opened.queue("a").weighted_path == ()


def test_reclaim_for_the_queue_with_the_smaller_share() -> None:
    queues: list[Json] = [{"name": "a", "weight": 2}, {"name": "b"}]
    groups = [{"name": name, "queue": name, "minMember": 0} for name in "ab"]
    pods = [
        {"name": "a", "count": 6, "cpu": 1, "group": "a", "node": "n1", "phase": "Running"},
        {"name": "more", "cpu": 1, "count": 4, "group": "a"},
        {"name": "b", "count": 4, "cpu": 1, "group": "b"},
    ]
    world = {"nodes": [{"name": "n1", "cpu": 9}], "queues": queues, "podGroups": groups, "pods": pods}
    opened = PluginSession(world, HDRF)
    assert opened.reclaimable("b-0", ["a-5", "a-4", "a-3", "a-2"]) == ["a-5", "a-4", "a-3"]
    assert opened.queue_order() == ["b", "a"]
    for name in ("a-5", "a-4", "a-3", "a-2", "a-1", "a-0"):
        opened.evict(name)
    assert opened.queue_order() == ["a", "b"]


def test_a_group_that_is_not_served_does_not_change_the_order_of_other_queues() -> None:
    """In the tree of ``capacity`` too, a group in an inner queue waits; its queue stays saturated."""
    queues: list[Json] = [{"name": "dept"}, {"name": "a", "parent": "dept"}, {"name": "b"}]
    groups = [{"name": name, "queue": name, "minMember": 0} for name in ("a", "b", "dept")]
    pods = [
        {"name": "a-0", "cpu": 1, "group": "a", "node": "n1", "phase": "Running"},
        {"name": "a-1", "memory": "1Gi", "group": "a"},
        {"name": "b", "count": 3, "cpu": 1, "group": "b", "node": "n1", "phase": "Running"},
        {"name": "b-x", "cpu": 1, "group": "b"},
        {"name": "waits", "cpu": 1, "group": "dept"},
    ]
    world = {"nodes": [{"name": "n1", "cpu": 9, "memory": "9Gi"}], "queues": queues, "podGroups": groups}
    opened = PluginSession({**world, "pods": pods}, [*HDRF, {"name": "capacity", "enableHierarchy": True}])
    assert opened.queue_order()[0] == "b"
