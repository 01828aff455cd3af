"""Vectors of kinds ``resource``, ``dispatch`` and ``score``: rules that need no session."""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

from quorate.api import codec
from quorate.api.core.pod import Pod
from quorate.api.meta import Uid
from quorate.api.quantity import NANOS, parse_quantity
from quorate.api.scheduler_configuration import load_scheduler_configuration
from quorate.api.scheduler_configuration.plugins import (
    BinpackArguments,
    NodeOrderArguments,
    PredicateArguments,
)
from quorate.gang.cache.queue_accounts import ResourceLimits
from quorate.gang.namespace_quota.evaluation import quota_claim
from quorate.gang.session.callbacks import (
    Vote,
    agreed_victims,
    all_callbacks,
    first_rejection,
    first_tier_agrees,
)
from quorate.placement import resources
from quorate.placement.cluster import Cluster
from quorate.placement.cluster.occupants import AllocationState
from quorate.placement.filters.engine import ConstraintEngine
from quorate.placement.resources import Amounts, DimensionDefault, in_base_units
from quorate.placement.scoring import SCORE_UNIT, ResourceColumns, Scoring, normalized_scores, resource_scores
from quorate.placement.shapes import Shape, Shapes
from quorate.quota.amount import CPU, PODS
from tests import fast_yaml
from tests.gang import objects

Json = dict[str, Any]


# Resources.  Vectors have amounts in Volcano's units: scalar resources in thousandths.


def run_resource(given: Json, expect: Json, profile: str) -> list[str]:
    got = OPERATIONS[given["op"]](given)
    result = got if isinstance(got, bool) else _as_volcano(got)
    return [] if result == expect["result"] else [f"result: expected {expect['result']}, got {result}"]


def _amounts(given: Mapping[str, Any] | None) -> dict[str, int]:
    return in_base_units({name: parse_quantity(str(amount)) for name, amount in (given or {}).items()})


def _exactly(given: Mapping[str, Any] | None) -> dict[str, Fraction]:
    """Return exact amounts: ``in_base_units`` rounds, and not every comparison has a tolerance."""
    return {
        name: Fraction(parse_quantity(str(amount)).nanos, NANOS // 1000 if name == CPU else NANOS)
        for name, amount in (given or {}).items()
    }


def _as_volcano(result: Mapping[str, int]) -> Json:
    scalars = {
        name: amount if name == PODS else amount * 1000
        for name, amount in result.items()
        if name not in (CPU, resources.MEMORY)
    }
    shown: Json = {"milli_cpu": result.get(CPU, 0), "memory": result.get(resources.MEMORY, 0)}
    return shown | ({"scalars": scalars} if scalars else {})


def _missing(given: Json) -> DimensionDefault:
    return DimensionDefault.INFINITY if given.get("default") == "infinity" else DimensionDefault.ZERO


def _pod_request(given: Json) -> dict[str, int]:
    def containers(requests: Sequence[Json]) -> list[Json]:
        return [
            {
                "name": f"c{index}",
                "resources": {"requests": objects.quantities(_without_policy(request))},
                "restartPolicy": request.get("restartPolicy", ""),
            }
            for index, request in enumerate(requests)
        ]

    spec = {
        "containers": containers(given["containers"]),
        "initContainers": containers(given.get("initContainers", [])),
        "overhead": objects.quantities(given.get("overhead", {})),
    }
    pod = codec.convert(Pod, {"metadata": {"name": "p", "namespace": "default"}, "spec": spec})
    return resources.pod_amounts(pod.spec)


def _without_policy(request: Json) -> Json:
    return {name: amount for name, amount in request.items() if name != "restartPolicy"}


def _two(rule: Callable[[Any, Any], Any]) -> Callable[[Json], Any]:
    return lambda given: rule(_amounts(given["left"]), _amounts(given["right"]))


def _where(rule: Callable[[Any, Any, Any], bool]) -> Callable[[Json], bool]:
    return lambda given: rule(
        _amounts(given["left"]), _amounts(given["right"]), _amounts(given.get("request"))
    )


def _fits_beside(total: Amounts, limits: Amounts, request: Amounts) -> bool:
    """Return True if ``request``, part of ``total``, fits in ``limits`` beside the rest."""
    return ResourceLimits(limits).allow(resources.minus(total, request), request)


OPERATIONS: Mapping[str, Callable[[Json], Any]] = {
    "parse": lambda given: _amounts(given["left"]),
    "isEmpty": lambda given: resources.is_empty(_amounts(given["left"])),
    "lessEqual": lambda given: resources.less_equal(
        _amounts(given["left"]), _amounts(given["right"]), _missing(given)
    ),
    "lessEqualDim": lambda given: _fits_beside(
        *(_amounts(given[key]) for key in ("left", "right", "request"))
    ),
    "exceeded": _two(quota_claim),
    "lessEqualPartly": _where(resources.less_equal_partly),
    "greaterPartly": _where(resources.greater_partly),
    "futureIdle": lambda given: resources.minus(
        resources.plus(_amounts(given["idle"]), _amounts(given["releasing"])), _amounts(given["pipelined"])
    ),
    "add": _two(resources.plus),
    "sub": _two(resources.minus),
    "max": _two(resources.maximum),
    "minDimension": lambda given: resources.minimum(
        _amounts(given["left"]), _amounts(given["right"]), _missing(given)
    ),
    "podRequest": _pod_request,
}


# Dispatch: the answers of plugins by tier; null is a plugin without a callback.


def run_dispatch(given: Json, expect: Json, profile: str) -> list[str]:
    tiers = [[answer for answer in tier if answer is not None] for tier in given["tiers"]]
    got = POINTS[given["point"]](tiers, profile)
    return [] if got == expect["result"] else [f"result: expected {expect['result']}, got {got}"]


def _victims(tiers: list[list[Any]], profile: str) -> list[str]:
    callbacks = [[partial(_choice, answer) for answer in tier] for tier in tiers]
    return list(agreed_victims(callbacks, empty_is_final=profile == "design")[0])


def _choice(answer: list[str] | str) -> Sequence[str] | None:
    return None if answer == "abstain" else answer


def _vote(tiers: list[list[Any]], profile: str) -> bool:
    return first_rejection([[partial(Vote, answer) for answer in tier] for tier in tiers]) is None


def _order(tiers: list[list[Any]], profile: str) -> int:
    """Return the comparison of two items by sort keys; each answer compares them for one plugin."""
    one, other = tuple(all_callbacks(tiers)), tuple(0 for _ in all_callbacks(tiers))
    return (one > other) - (one < other)


POINTS: Mapping[str, Callable[[list[list[Any]], str], Any]] = {
    "victims": _victims,
    "vote": _vote,
    "order": _order,
    "starving": lambda tiers, profile: first_tier_agrees(
        [[partial(bool, answer) for answer in tier] for tier in tiers]
    ),
    "overused": lambda tiers, profile: any(all_callbacks(tiers)),
    "allocatable": lambda tiers, profile: all(all_callbacks(tiers)),
    "preemptive": lambda tiers, profile: all(all_callbacks(tiers)),
    "ready": lambda tiers, profile: all(all_callbacks(tiers)),
    "nodeOrder": lambda tiers, profile: sum(all_callbacks(tiers)),
}


# Scores: each component of nodeorder by itself and unweighted; the whole of binpack.

_COMPONENTS = {
    "least": "least_requested",
    "most": "most_requested",
    "balanced": "balanced_resource",
    "tainttoleration": "taint_toleration",
}
_NO_WEIGHT: Json = dict.fromkeys(set(NodeOrderArguments.__struct_fields__) - {"balanced_devices"}, 0)


def run_score(given: Json, expect: Json, profile: str) -> list[str]:
    found = []
    for node, expected in expect["scores"].items():
        for component, value in (expected if isinstance(expected, dict) else {"": expected}).items():
            weights = {**_NO_WEIGHT, _COMPONENTS[component]: 1} if component else {}
            scoring = Scoring(NodeOrderArguments(**weights), None) if weights else _scoring(given)
            got = _scores(scoring, given)[node]
            if abs(got - value) > 1e-6 * max(1, abs(value)):
                where = f"{node}.{component}" if component else node
                found.append(f"scores[{where}]: expected {value}, got {got}")
    return found


def _scoring(given: Json) -> Scoring:
    plugin = {"name": given["plugin"], "arguments": given.get("arguments", {})}
    document = {"actions": "allocate", "tiers": [{"plugins": [plugin]}]}
    configuration = load_scheduler_configuration(fast_yaml.dump(document)).configuration
    arguments = configuration.tiers[0][0].arguments
    return Scoring(
        node_order=arguments if isinstance(arguments, NodeOrderArguments) else None,
        binpack=arguments if isinstance(arguments, BinpackArguments) else None,
    )


def _scores(scoring: Scoring, given: Json) -> dict[str, float]:
    cluster = Cluster()
    for node in given["nodes"]:
        cluster.set_node(objects.node(node))
        # One pod stands for the sum that is used; it names cpu and memory, so that no defaults count.
        used = Shape(amounts={CPU: 0, resources.MEMORY: 0} | _amounts(_flat(node.get("used", {}))))
        cluster.add_pod(Uid(node["name"]), used, node["name"], AllocationState.USED)
    shape = Shapes().of(_pod(given["pod"]))
    cluster.request(shape)  # adds a row for a resource that no node has
    load = ResourceColumns(cluster.allocatable, cluster.used, cluster.pipelined, cluster.non_zero_used)
    points = resource_scores(scoring, shape, cluster.rows, load)
    if scoring.node_order is not None:
        raw_scores = ConstraintEngine(cluster, PredicateArguments()).filter(shape).raw_scores
        points += normalized_scores(scoring.node_order, raw_scores, among=cluster.ready)
    return {name: int(points[cluster.index(name)]) / SCORE_UNIT for name in cluster.names()}


def _pod(given: Json) -> Pod:
    """Return the pod; scalar resources may be beside the others here."""
    about: Json = {name: given[name] for name in ("tolerations", "nodeSelector") if name in given}
    opened = _flat({name: amount for name, amount in given.items() if name not in about})
    named: Json = {name: opened.pop(name) for name in (CPU, resources.MEMORY) if name in opened}
    return next(objects.pods({"name": "p", **about, **named, "scalars": opened}, {}))


def _flat(given: Json) -> Json:
    amounts_given = {name: amount for name, amount in given.items() if name != "scalars"}
    amounts_given.update(given.get("scalars", {}))
    return amounts_given
