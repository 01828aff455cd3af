"""Runs one vector of ``admission-cases.yaml``: builds its world, runs its steps, and compares the results.

The comment on top of that file describes the format; ``tests.queueing.schema`` lists its keys.
"""

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from quorate.api.configuration.feature_gates import FEATURE_GATES, SUPPORTED_GATES, TopologyGates
from quorate.api.configuration.pods_ready import RequeuingStrategy
from quorate.api.kueue import Admission, PodSetAssignment
from quorate.api.meta import epoch
from quorate.api.quantity import parse_quantity
from quorate.queueing import conditions as c
from quorate.queueing.pods_ready import backoff_s
from quorate.queueing.scheduling.podset_reducer import PodSetCounts, reduce_counts
from quorate.quota import tree
from quorate.quota.amount import FlavorResource, base_units
from quorate.quota.fair_sharing import dominant_share
from quorate.quota.tree import Node
from tests.queueing.notation import Json
from tests.queueing.schema import findings
from tests.queueing.world import World

NODE_AMOUNTS: dict[str, Callable[[Node, FlavorResource], int]] = {
    "usage": tree.used,
    "subtreeQuota": tree.subtree_quota,
    "guaranteed": tree.guaranteed,
    "available": lambda node, pair: max(0, tree.available(node, pair)),
    "potentialAvailable": tree.potential_available,
}


TOPOLOGY_GATES = frozenset(
    ("TopologyAwareScheduling", *(field.encode_name for field in msgspec.structs.fields(TopologyGates)))
)


GRANULAR_REASONS = (
    c.WAITING_FOR_QUOTA,
    c.NO_MATCHING_FLAVOR,
    c.EXCEEDS_MAX_QUOTA,
    c.TOPOLOGY_PLACEMENT_FAILED,
    c.WAITING_FOR_PREEMPTED,
    c.WAITING_FOR_PODS_READY,
    c.PENDING_EVALUATION,
    c.SUSPENDED,
    c.MISCONFIGURED,
)

# Vectors of which we decide otherwise, and why.
OVERBOOKED = "Kueue checks the pod sets of a workload one by one, and so gives a host too many pods"
NO_PLACES = "Kueue admits pods without any place if they are fewer than a slice"
ASKS_NODES = "Kueue chooses a flavor by quota alone, and tries the next one in a later cycle"
EACH_HOST = "Kueue 0.19 compares pods with the sum of the nodes of a rack; 0.20 checks each node"
DEVIATIONS: Mapping[str, str] = {
    **dict.fromkeys(
        ("tas-113", "tas-122", "tas-340", "tas-379", "tas-401", "tas-428", "tas-430", "tas-432"), EACH_HOST
    ),
    **dict.fromkeys(("tas-138", "tas-385", "tas-387", "tas-389"), ASKS_NODES),
    "tas-167": "Kueue 0.19 places a leader by the selectors and tolerations of its workers; 0.20 does not",
    **dict.fromkeys(("tas-341", "tas-347", "tas-359"), OVERBOOKED),
    **dict.fromkeys(("tas-176", "tas-418", "tas-423", "tas-424"), NO_PLACES),
    **dict.fromkeys(
        ("tas-169", "tas-319", "tas-398", "tas-420", "tas-422"),
        "Kueue 0.19 gives pods beyond the last whole slice no place; 0.20 does",
    ),
    "tas-402": "Kueue counts the pods that stay twice while it places those that are added",
    "tas-134": "Kueue counts 3 out of 2 pods where only the leader does not fit",
    "tas-139": "Kueue gives a host twice in one cycle to workloads of two flavors",
    "tas-174": "Kueue lets a workload wait for the next event although the head that kept its place gave way",
    "tas-369": "Kueue nominates heads on the places before those of a failed host were replaced",
}


def run_vector(vector: Json) -> list[str]:
    """Return every difference between expected and actual results; empty if the vector passes."""
    vector = copy.deepcopy(vector)
    if unknown := [*findings(vector), *unread_gates(vector["given"])]:
        return unknown
    given, expected = vector["given"], vector["expected"]
    gates = given.setdefault("config", {}).setdefault("featureGates", {})
    gates.setdefault("UnadmittedWorkloadsObservability", _is_granular(vector))
    if "probe" in given:
        return probe(given["probe"], expected)
    world = World(given)
    found: list[str] = []
    for index, step in enumerate(given.get("steps", ["cycle"])):
        if isinstance(step, dict) and "expect" in step:
            found.extend(f"after step {index}: {difference}" for difference in compare(world, step["expect"]))
        else:
            world.run(step)
    return found + [f"expected.{difference}" for difference in compare(world, expected)]


def _is_granular(vector: Json) -> bool:
    """Return True if the vector expects reasons of Kueue 0.20; those of 0.19 are coarser."""
    text = repr(vector)
    return any(f"'reason': {reason!r}" in text for reason in GRANULAR_REASONS)


def unread_gates(given: Json) -> Iterator[str]:
    """Return gates that are set to a value that the core does not support."""
    for gate, on in given.get("config", {}).get("featureGates", {}).items():
        if on != FEATURE_GATES[gate] and gate not in SUPPORTED_GATES and gate not in TOPOLOGY_GATES:
            yield f"given.config.featureGates.{gate}: the core knows it only as {FEATURE_GATES[gate]}"


def compare(world: World, expected: Json) -> list[str]:
    return [
        difference
        for aspect, want in expected.items()
        for difference in differences(aspect, want, ASPECTS[aspect](world, want))
    ]


def differences(place: str, want: Any, got: Any) -> Iterator[str]:
    """Return the innermost paths at which the two differ."""
    if want == got:
        return
    if isinstance(want, dict) and isinstance(got, dict):
        for key in dict.fromkeys([*want, *got]):
            yield from differences(f"{place}.{key}", want.get(key), got.get(key))
    else:
        yield f"{place}: want {_shown(want)}, got {_shown(got)}"


def _shown(value: Any) -> str:
    return "nothing" if value is None else repr(value)


def _admitted(world: World, want: Json) -> Json:
    return {
        name: _as_written(world, name, admission, want.get(name))
        for name, admission in world.admitted().items()
    }


def _as_written(world: World, name: str, admission: Admission, want: Any) -> Any:
    """Return an admission in the notation of ``want``; a flavor name means full counts on that flavor."""
    pod_sets = {
        pods.name: {
            "count": pods.count,
            "flavors": pods.flavors,
            **_topology(pods, want.get(pods.name) if isinstance(want, dict) else None),
        }
        for pods in admission.pod_set_assignments
    }
    flavors = {flavor for pods in admission.pod_set_assignments for flavor in pods.flavors.values()}
    full = {pod_set.name: pod_set.count for pod_set in world.shape(name).pod_sets}
    whole = {pods.name: pods.count for pods in admission.pod_set_assignments} == full
    if isinstance(want, str) and whole and len(flavors) == 1:
        return flavors.pop()
    return pod_sets


def _topology(pods: PodSetAssignment, want: Json | None) -> Json:
    result: Json = {}
    if pods.topology_assignment is not None:
        result["topology"] = {",".join(values): count for values, count in pods.topology_assignment.domains()}
        if want is not None and "topology" in want:
            wanted = {str(domain): count for domain, count in (want["topology"] or {}).items()}
            if wanted == result["topology"]:
                result["topology"] = want["topology"]
    if pods.delayed_topology_request is not None:
        result["delayed"] = pods.delayed_topology_request
    return result


def _placements(world: World, want: Json) -> Json:
    result: Json = {}
    for name in want:
        admission = world.workloads[name].status.admission
        result[name] = None if admission is None else _as_written(world, name, admission, want[name])
    return result


def _pending(world: World, want: Json) -> Json:
    result: Json = {}
    for queue, lists in want.items():
        waiting = world.state.pending(queue)
        active = [key.name for key in waiting.active]
        inadmissible = [key.name for key in waiting.inadmissible]
        got: Json = {}
        if "active" in lists or active:
            got["active"] = active
        if "inadmissible" in lists or inadmissible:
            wanted = lists.get("inadmissible", [])
            same = sorted(inadmissible) == sorted(wanted)
            got["inadmissible"] = wanted if same else inadmissible
        result[queue] = got
    return result


def _conditions(world: World, want: Json) -> Json:
    return {
        name: {type_: _condition(world, name, type_, fields) for type_, fields in types.items()}
        for name, types in want.items()
    }


def _condition(world: World, name: str, type_: str, fields: Json | None) -> Json | None:
    condition = world.condition(name, type_)
    if condition is None or fields is None:
        return None if condition is None else {"status": condition.status, "reason": condition.reason}
    since = condition.last_transition_time
    everything: Json = {
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "at": epoch(since) if since is not None else None,
    }
    got = {field: everything[field] for field in fields}
    wanted = fields.get("message")
    if wanted is not None and wanted in condition.message:
        got["message"] = wanted
    return got


def _requeue_state(world: World, want: Json) -> Json:
    result: Json = {}
    for name, fields in want.items():
        state = world.workloads[name].status.requeue_state
        count, at = (state.count, state.requeue_at) if state is not None else (None, None)
        everything = {"count": count, "requeueAt": None if at is None else epoch(at)}
        if fields is None:
            result[name] = None if (count, at) == (None, None) else everything
        else:
            result[name] = {field: everything[field] for field in fields}
    return result


def _requests(world: World, want: Json) -> Json:
    """Return the requests of the listed resources; 0 for a resource that is not requested."""
    result: Json = {}
    for name, pod_sets in want.items():
        requested = world.requested(name)
        result[name] = {
            pod_set: {
                resource: _or_wanted(requested[pod_set].get(resource, 0), resource, value)
                for resource, value in resources.items()
            }
            for pod_set, resources in pod_sets.items()
        }
    return result


def _amounts(aspect: str) -> Callable[[World, Json], Json]:
    def read(world: World, want: Json) -> Json:
        return {
            name: {
                flavor: {
                    resource: _or_wanted(
                        NODE_AMOUNTS[aspect](world.node(name), FlavorResource(flavor, resource)),
                        resource,
                        value,
                    )
                    for resource, value in resources.items()
                }
                for flavor, resources in flavors.items()
            }
            for name, flavors in want.items()
        }

    return read


def _or_wanted(amount: int, resource: str, value: Any) -> Any:
    return value if amount == _base(resource, value) else amount


def _base(resource: str, value: Any) -> int:
    return base_units(resource, parse_quantity(str(value)))


def _shares(world: World, want: Json) -> Json:
    result: Json = {}
    for name in want:
        share = dominant_share(world.node(name))
        shown = math.inf if share.infinite else math.ceil(share.thousandths)
        result[name] = want[name] if float(want[name]) == shown else shown
    return result


ASPECTS: Mapping[str, Callable[[World, Json], Any]] = {
    "admitted": _admitted,
    "preempted": lambda world, want: world.preempted(),
    "placements": _placements,
    "unhealthyNodes": lambda world, want: {
        name: [node.name for node in world.workloads[name].status.unhealthy_nodes] for name in want
    },
    "secondPassFailed": lambda world, want: world.second_pass_failures,
    "pending": _pending,
    "conditions": _conditions,
    "requeueState": _requeue_state,
    "requests": _requests,
    "shares": _shares,
    **{aspect: _amounts(aspect) for aspect in NODE_AMOUNTS},
    "priority": lambda world, want: {name: world.workloads[name].spec.priority for name in want},
    "active": lambda world, want: {name: world.workloads[name].spec.active for name in want},
}


def probe(given: Json, expected: Json) -> list[str]:
    """Compare the results of a direct function call."""
    ((kind, argument),) = given.items()
    results = PROBES[kind](argument)
    return [
        difference
        for aspect, want in expected.items()
        for difference in differences(f"expected.{aspect}", want, results[aspect])
    ]


def _probe_reducer(given: Json) -> Json:
    counts = [PodSetCounts(pods["count"], pods.get("minCount", pods["count"])) for pods in given["podSets"]]
    got = reduce_counts(counts, lambda attempt: list(attempt) if sum(attempt) <= given["limit"] else None)
    return {"counts": got}


def _probe_backoff(given: Json) -> Json:
    longest = given.get("max")
    strategy = RequeuingStrategy(
        backoff_base_s=given["base"],
        backoff_max_s=math.inf if longest is None else longest,
        backoff_factor=given["factor"],
    )

    def total(retries: int) -> int:
        waited = sum(backoff_s(retry, strategy) for retry in range(1, retries + 1))
        return round(float(given.get("timeout", 0)) * (retries + 1) + waited)

    return {
        "delays": [backoff_s(retry, strategy) for retry in given["counts"]],
        "total": [total(retries) for retries in given["counts"]],
    }


PROBES: Mapping[str, Callable[[Json], Json]] = {"reducer": _probe_reducer, "backoff": _probe_backoff}
