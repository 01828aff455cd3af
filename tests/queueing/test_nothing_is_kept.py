"""Nothing is kept of objects that were deleted: all that a state and its cycle refer to is empty again."""

import gc
import weakref
from collections import deque
from collections.abc import Iterator
from enum import Enum
from types import FunctionType, MethodType
from typing import Any, Final

import pytest

from tests.queueing.resting_histories import History, HistoryKind
from tests.queueing.resting_world import RestingWorld

SEEDS: Final = 12  # worlds of one test
KINDS: Final[tuple[HistoryKind, ...]] = ("any", "planning", "backfilling", "aging", "reserving", "placing")
OBJECTS: Final = (
    "pods", "localQueues", "clusterQueues", "cohorts", "reservations", "admissionChecks",
    "flavors", "topologies", "nodes", "namespaces",
)  # fmt: skip
# What stays: settings and caches of bounded size, by class, and attributes by the end of their path.
SETTINGS: Final = (
    "Configuration",
    "Gates",
    "ResourceOptions",
    "InternCache",
    "PlacementMemo",
    "ConstraintView",
)
STAYS: Final = (
    ".cluster._total_allocatable",  # numbers by resource
    ".cluster._total_used",
    ".cluster.resources",
    ".cluster.rows",
    ".cluster.nodes",  # rows of nodes, which the next ones take
    ".cluster._vacant",
    ".cluster.node_changes._entries",  # a log of bounded length
    ".cluster.usage_changes._entries",
    ".topology._trees",  # one without nodes, of no flavor
    ".constraints.shapes._shapes",  # weak references to what the last ``ConstraintView`` checked
)


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a value refers to, with the way to it."""
    match value:
        case dict():
            for key, item in value.items():
                yield f"[{key!r:.40}]", key
                yield f"[{key!r:.40}]", item
        case list() | tuple() | set() | frozenset() | deque():
            for item in value:
                yield "[]", item
        case MethodType():
            yield "()", value.__self__
        case FunctionType():
            for cell in value.__closure__ or ():
                yield "()", cell.cell_contents
        case _ if type(value).__module__.startswith("quorate."):
            names = {name for cls in type(value).__mro__ for name in getattr(cls, "__slots__", ())}
            for name in sorted({*names, *getattr(value, "__dict__", ())}):
                if hasattr(value, name):
                    yield f".{name}", getattr(value, name)


def kept(root: Any) -> list[str]:
    """Return where something is kept in containers that ``root`` refers to."""
    found: list[str] = []
    seen: set[int] = set()
    pending: deque[tuple[str, Any]] = deque([("", root)])
    while pending:
        path, value = pending.popleft()
        if id(value) in seen or isinstance(value, str | bytes | int | float | Enum | type | None):
            continue
        seen.add(id(value))
        if type(value).__name__ in SETTINGS or path.endswith(STAYS):
            continue
        has_fixed_keys = isinstance(value, dict) and value.keys() <= {"workload", "group", None}
        if (
            not has_fixed_keys
            and isinstance(value, dict | list | set | deque | weakref.WeakValueDictionary)
            and len(value)
        ):
            found.append(f"{path}: {list(value)[:2]!r:.160}")
            continue
        pending += [(path + way, part) for way, part in _parts(value)]
    return found


def _delete_all(world: RestingWorld) -> None:
    for name in sorted(world.workloads):
        world.run({"delete": [name]})
    world._set_limit_range(None)
    for kind in OBJECTS:
        for name in sorted(world.given.get(kind, {})):
            world._remove(kind, name)
    for key in list(world.state.ledger.local_queues):
        world.state.remove_local_queue(key)


@pytest.mark.no_cover
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_kept_of_deleted_objects(kind: HistoryKind) -> None:
    gc.collect()
    gc.freeze()  # objects of earlier tests took nine tenths of the time of the collections below
    for seed in range(SEEDS):
        history = History(seed, kind)
        world = RestingWorld(history.given)
        for step in history.steps:
            world.run(step)
        world._run_cycle(None)
        _delete_all(world)
        world._run_cycle(None)
        gc.collect()  # shapes are in a dictionary of weak references
        assert kept((world.state, world.admission_cycle)) == [], f"seed {seed}"


def test_what_is_kept_is_found() -> None:
    world = RestingWorld(History(1, "planning").given)
    world._run_cycle(None)
    assert any(".cluster_queues" in path for path in kept(world.state))
