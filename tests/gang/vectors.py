"""The runner of vectors; the comment on top of ``gang-cases.yaml`` describes the schema."""

from collections.abc import Callable, Mapping
from functools import cache
from itertools import product
from typing import Any

from quorate.api.scheduler_configuration import SchedulerConfiguration, load_scheduler_configuration
from tests import fast_yaml
from tests.gang.vector_keys import unread_keys
from tests.gang.vectors_admission import run_admission
from tests.gang.vectors_controllers import run_minres, run_queue_state, run_vcjob
from tests.gang.vectors_phases import run_phase
from tests.gang.vectors_rules import run_dispatch, run_resource, run_score
from tests.gang.vectors_shares import run_deserved
from tests.gang.world import World

Json = dict[str, Any]


def differences(got: Any, expected: Any, where: str) -> list[str]:
    return [] if got == expected else [f"{where}: expected {expected!r}, got {got!r}"]


def run_case(case: Json, confs: Mapping[str, Json]) -> list[str]:
    """Return the differences from what ``case`` expects."""
    profiles = case.get("profiles", [case.get("profile", "compat")])
    unread = unread_keys(case)
    if unread:
        return unread
    if case["kind"] == "session":
        conf = confs[case["given"]["conf"]]
        return [
            f"{profile}{', restarting' if restarting else ''}: {found}"
            for profile, restarting in product(profiles, (False, True))
            for found in run_session_case(case, conf, profile, restarting=restarting)
        ]
    return KINDS[case["kind"]](case["given"], case["expect"], profiles[0])


def run_session_case(case: Json, conf: Json, profile: str, *, restarting: bool) -> list[str]:
    world = World(case["given"], settings_of(conf, profile), restarting=restarting)
    found: list[str] = []
    for number, step in enumerate(case["steps"]):
        world.start_step()
        for operation in step.get("do", []):
            if isinstance(operation, str):
                world.do(operation, None)
            else:
                for name, argument in operation.items():
                    world.do(name, argument)
        for _ in range(step.get("cycles", 0 if "rounds" in step else 1)):
            world.session()
        for _ in range(step.get("rounds", 0)):
            world.session()
            for operation, argument in (("replace", None), ("start", "all"), ("advance", 1)):
                world.do(operation, argument)
        expect = step.get("expect", {})
        found += [
            f"step {number}: {difference}" for key in expect for difference in EXPECT[key](world, expect[key])
        ]
    return found


def settings_of(conf: Json, profile: str) -> SchedulerConfiguration:
    """Return a configuration from the short form in ``confs``, read by the normal reader."""
    document = {
        "profile": profile,
        "actions": conf["actions"],
        "tiers": [{"plugins": [_entry(plugin) for plugin in tier]} for tier in conf["tiers"]],
        "configurations": [
            {"name": name, "arguments": arguments}
            for name, arguments in conf.get("configurations", {}).items()
        ],
    }
    return _loaded(fast_yaml.dump(document))


@cache
def _loaded(text: str) -> SchedulerConfiguration:
    return load_scheduler_configuration(text).configuration


def _entry(plugin: str | Json) -> Json:
    if isinstance(plugin, str):
        return {"name": plugin}
    entry = {key: value for key, value in plugin.items() if key != "switches"}
    entry.update(plugin.get("switches", {}))
    return entry


def _of_listed(got: Callable[[World, str], Any], where: str) -> Callable[[World, Any], list[str]]:
    """Compare only the listed names."""

    def compare(world: World, expected: Mapping[str, Any]) -> list[str]:
        return [
            difference
            for name, value in expected.items()
            for difference in differences(got(world, name), value, f"{where}[{name}]")
        ]

    return compare


def _conditions(world: World, expected: Mapping[str, Mapping[str, str | None]]) -> list[str]:
    return [
        difference
        for group, types in expected.items()
        for type_, value in types.items()
        for difference in differences(world.condition(group, type_), value, f"conditions[{group}].{type_}")
    ]


def _messages(world: World, expected: Mapping[str, str]) -> list[str]:
    """Compare a part of each message."""
    return [
        f"messages[{group}]: {text!r} is not in {world.message(group)!r}"
        for group, text in expected.items()
        if text not in world.message(group)
    ]


def _counts(world: World, expected: Mapping[str, Mapping[str, int]]) -> list[str]:
    return [
        difference
        for group, counts in expected.items()
        for name, count in counts.items()
        for difference in differences(world.counts(group)[name], count, f"counts[{group}].{name}")
    ]


EXPECT: Mapping[str, Callable[[World, Any], list[str]]] = {
    "binds": lambda world, expected: differences(world.binds, expected, "binds"),
    "bindCount": _of_listed(lambda world, group: world.bound_for[group], "bindCount"),
    "bindTotal": lambda world, expected: differences(len(world.binds), expected, "bindTotal"),
    "evictions": lambda world, expected: differences(sorted(world.evictions), sorted(expected), "evictions"),
    "evictCount": lambda world, expected: differences(len(world.evictions), expected, "evictCount"),
    "evictFrom": _of_listed(lambda world, group: world.evicted_from[group], "evictFrom"),
    "pipelined": lambda world, expected: differences(world.pipelined, expected, "pipelined"),
    "pipelinedCount": lambda world, expected: differences(len(world.pipelined), expected, "pipelinedCount"),
    "created": lambda world, expected: differences(sorted(world.created), sorted(expected), "created"),
    "phases": _of_listed(World.phase, "phases"),
    "conditions": _conditions,
    "counts": _counts,
    "placed": _of_listed(World.placed, "placed"),
    "messages": _messages,
}

KINDS: Mapping[str, Callable[[Json, Json, str], list[str]]] = {
    "admission": lambda given, expect, profile: run_admission(given, expect),
    "deserved": run_deserved,
    "dispatch": run_dispatch,
    "minres": lambda given, expect, profile: run_minres(given, expect),
    "phase": run_phase,
    "queue_state": lambda given, expect, profile: run_queue_state(given, expect),
    "resource": run_resource,
    "score": run_score,
    "vcjob": lambda given, expect, profile: run_vcjob(given, expect),
}
