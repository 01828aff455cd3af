"""The keys of a vector, as listed in the comment on top of ``admission-cases.yaml``.

A key that is not listed here is an error, so that no key of a vector is silently ignored.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, assert_never

from quorate.api.configuration.feature_gates import FEATURE_GATES


class Leaf(NamedTuple):
    """A scalar."""


class Anything(NamedTuple):
    """An object as Kubernetes has it."""


class Each(NamedTuple):
    """An object with any keys and with values of one kind: names, resources, labels."""

    of: "Schema"


class Either(NamedTuple):
    """One of several forms, selected by the value: scalar, list or object."""

    forms: tuple["Schema", ...]


# An object with the given keys, or a list of one kind, or one of the above.
Schema = Mapping[str, "Schema"] | list["Schema"] | Leaf | Anything | Each | Either

LEAF: Final = Leaf()


def _fields(names: str, /, **others: Schema) -> dict[str, Schema]:
    """Return an object with the scalars ``names`` and the fields ``others``."""
    return dict.fromkeys(names.split(), LEAF) | others


_LABELS = _QUANTITIES = Each(LEAF)
_NAMES: Final[Schema] = [LEAF]
_QUOTAS: Final = Each(Either((LEAF, _fields("nominal borrowingLimit lendingLimit"))))
_QUOTA: Final[dict[str, Schema]] = {
    "quota": [Each(_QUOTAS)],
    "resourceGroups": [{"covered": _NAMES, "flavors": [_fields("name", quotas=_QUOTAS)]}],
}
_TAINT: Final = _fields("key value effect")
_TOLERATIONS: Final[Schema] = [_fields("key operator value effect tolerationSeconds")]
_RESOURCES: Final = {"requests": _QUANTITIES, "limits": _QUANTITIES}
_CONTAINER: Final = _fields("restartPolicy", **_RESOURCES)
_POD: Final = _fields(
    "runtimeClassName",
    containers=[_CONTAINER],
    initContainers=[_CONTAINER],
    overhead=_QUANTITIES,
    resources=Each(Either((LEAF, _QUANTITIES))),  # of the pod, or divided into requests and limits
)
_POD_SET: Final = _fields(
    "name count minCount priorityClassName hostPort",
    labels=_LABELS,
    spec=Anything(),
    requests=_QUANTITIES,
    pod=_POD,
    nodeSelector=_LABELS,
    tolerations=_TOLERATIONS,
    nodeAffinityRequired=[[_fields("key operator", values=_NAMES)]],
    topology=_fields(
        "required preferred unconstrained sliceLevel sliceSize group",
        sliceConstraints=[_fields("level size")],
    ),
    nodeAffinityPreferred=[_fields("weight", expressions=[_fields("key operator", values=_NAMES)])],
)
_ADMITTED: Final = _fields(
    "flavor at clusterQueue state",
    podSets=Each(_fields("count", flavors=Each(LEAF), topology=Each(LEAF))),
)
_CONDITION: Final = _fields("status reason message at")
_REQUEUE_STATE: Final = _fields("count requeueAt")
_WORKLOAD_SPEC: Final = _fields(
    "queue priority workloadPriorityClass active count", podSets=[_POD_SET], requests=_QUANTITIES
)
_WORKLOAD: Final = _WORKLOAD_SPEC | _fields(
    "name uid namespace created podsReady create elastic replaces",
    admitted=Either((LEAF, _ADMITTED)),
    conditions=Each(_CONDITION),
    requeueState=_REQUEUE_STATE,
    reclaimablePods=Each(LEAF),
)
_FLAVOR: Final = _fields(
    "topologyName nodeFit", nodeLabels=_LABELS, nodeTaints=[_TAINT], tolerations=_TOLERATIONS
)
_NODE: Final = _fields(
    "ready unschedulable",
    labels=_LABELS,
    allocatable=_QUANTITIES,
    taints=[_TAINT],
    nonTASUsage=_QUANTITIES,
)
_POD_ON_NODE: Final = _fields("node hostPort namespace cpu workload deleted", labels=_LABELS, spec=Anything())
_COHORT: Final = _fields("parent weight", **_QUOTA)
_CLUSTER_QUEUE: Final = _fields(
    "cohort strategy weight stopPolicy admissionMode",
    admissionChecks=_NAMES,
    preemption=_fields(
        "withinClusterQueue reclaimWithinCohort",
        borrowWithinCohort=_fields("policy maxPriorityThreshold"),
    ),
    flavorFungibility=_fields("whenCanBorrow whenCanPreempt preference"),
    namespaceSelector=_LABELS,
    **_QUOTA,
)
_LOCAL_QUEUE: Final = _fields("clusterQueue stopPolicy weight", consumed=_QUANTITIES)
_CONFIG: Final[Schema] = {
    "fairSharing": {"preemptionStrategies": _NAMES},
    "admissionFairSharing": _fields("usageHalfLifeTime usageSamplingInterval", resourceWeights=Each(LEAF)),
    "waitForPodsReady": _fields(
        "timeout recoveryTimeout blockAdmission blockAdmissionScope",
        requeuingStrategy=_fields("timestamp backoffLimitCount backoffBaseSeconds backoffMaxSeconds"),
    ),
    "resources": _fields(
        "quotaCheckStrategy",
        excludeResourcePrefixes=_NAMES,
        transformations=[_fields("input strategy multiplyBy", outputs=_QUANTITIES)],
    ),
    "featureGates": dict.fromkeys(FEATURE_GATES, LEAF),
    "nodeFit": _fields("mode"),
}
_AMOUNTS: Final = Each(Each(_QUANTITIES))  # by node, flavor and resource
_ASSIGNED: Final = _fields("count delayed", flavors=Each(LEAF), topology=Each(LEAF))
_EXPECTED: Final[Schema] = {
    "admitted": Each(Either((LEAF, Each(_ASSIGNED)))),
    "preempted": Each(LEAF),
    "pending": Each({"active": _NAMES, "inadmissible": _NAMES}),
    "conditions": Each(Each(_CONDITION)),
    "requeueState": Each(_REQUEUE_STATE),
    "requests": Each(Each(_QUANTITIES)),
    "usage": _AMOUNTS,
    "subtreeQuota": _AMOUNTS,
    "guaranteed": _AMOUNTS,
    "available": _AMOUNTS,
    "potentialAvailable": _AMOUNTS,
    "shares": Each(LEAF),
    "priority": Each(LEAF),
    "active": Each(LEAF),
    "placements": Each(Either((LEAF, Each(_ASSIGNED)))),
    "unhealthyNodes": Each(_NAMES),
    "secondPassFailed": _NAMES,
    "counts": [LEAF],
    "delays": [LEAF],
    "total": [LEAF],
}
_STEP: Final[dict[str, Schema]] = {
    "create": _NAMES,
    "finish": _NAMES,
    "delete": _NAMES,
    "deletePods": _NAMES,
    "evictionDone": _NAMES,
    "advance": LEAF,
    "podsReady": Each(LEAF),
    "active": Each(LEAF),
    "reclaim": Each(Each(LEAF)),
    "flush": LEAF,
    "unhealthy": Each(_NAMES),
    "checks": Each(Each(Either((LEAF, _fields("state", updates=[Anything()]))))),
    "update": {
        "clusterQueues": Each(_CLUSTER_QUEUE),
        "cohorts": Each(_COHORT),
        "localQueues": Each(_LOCAL_QUEUE),
        "workloads": Each(_WORKLOAD_SPEC),
        "flavors": Each(_FLAVOR),
        "topologies": Each({"levels": _NAMES}),
        "namespaces": Each(_LABELS),
        "nodes": Each(_NODE),
        "pods": Each(_POD_ON_NODE),
        "claims": Each(Anything()),
    },
    "expect": _EXPECTED,
}
_STEP["cycle"] = Either((LEAF, {"mid": [Either((LEAF, _STEP))]}))
_PROBE: Final[Schema] = {
    "reducer": _fields("limit", podSets=[_fields("count minCount")]),
    "backoff": _fields("base max factor timeout", counts=[LEAF]),
}
VECTOR: Final[Schema] = _fields(
    "id area title",
    expected=_EXPECTED,
    given=_fields(
        "now",
        config=_CONFIG,
        priorityClasses={"workload": Each(LEAF), "pod": Each(_fields("value globalDefault"))},
        runtimeClasses=Each(_QUANTITIES),
        limitRanges=[_fields("type", default=_QUANTITIES, defaultRequest=_QUANTITIES)],
        namespaces=Each(_LABELS),
        flavors=Either((_NAMES, Each(_FLAVOR))),
        topologies=Each({"levels": _NAMES}),
        nodes=Each(_NODE),
        pods=Each(_POD_ON_NODE),
        claims=Each(Anything()),
        volumes=Each(Anything()),
        storageClasses=Each(Anything()),
        cohorts=Each(_COHORT),
        clusterQueues=Each(_CLUSTER_QUEUE),
        localQueues=Each(_LOCAL_QUEUE),
        workloads=[_WORKLOAD],
        probe=_PROBE,
        steps=[Either((LEAF, _STEP))],
    ),
)


def findings(value: Any, schema: Schema = VECTOR, path: str = "") -> Iterator[str]:
    """Return every part of ``value`` that the schema does not allow; null counts as absent."""
    if value is None:
        return
    match schema:
        case Leaf():
            if isinstance(value, dict | list):
                yield f"{path} is no single value"
        case Anything():
            return
        case Either(forms):
            form = next((form for form in forms if _has_form(value, form)), forms[-1])
            yield from findings(value, form, path)
        case list():
            if not isinstance(value, list):
                yield f"{path} is no list"
                return
            for index, entry in enumerate(value):
                yield from findings(entry, schema[0], f"{path}[{index}]")
        case Each() | Mapping():
            if not isinstance(value, dict):
                yield f"{path} is no object"
                return
            for key, entry in value.items():
                below = f"{path}.{key}" if path else str(key)
                if isinstance(schema, Each):
                    yield from findings(entry, schema.of, below)
                elif key in schema:
                    yield from findings(entry, schema[key], below)
                else:
                    yield f"{below} is no key of the schema (known: {', '.join(sorted(schema))})"
        case _:
            assert_never(schema)


def _has_form(value: Any, form: Schema) -> bool:
    match form:
        case Leaf():
            return not isinstance(value, dict | list)
        case list():
            return isinstance(value, list)
        case _:
            return isinstance(value, dict)
