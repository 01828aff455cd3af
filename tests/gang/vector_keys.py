"""The keys of vectors that their runners read.  A misspelt key would otherwise seem to have an effect.

The description of a case (``title``, ``why``) is not checked.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Keys:
    """The keys of a mapping, and of the mappings, single or in lists, under some of them."""

    own: frozenset[str]
    inner: Mapping[str, "Keys"] = field(default_factory=dict)

    def unread(self, given: Mapping[str, Any], where: str) -> Iterator[str]:
        yield from (f"{where}.{key}: unknown key" for key in sorted(given.keys() - self.own))
        for key in self.inner.keys() & given.keys():
            below = given[key] or ()
            if isinstance(below, Mapping):
                yield from self.inner[key].unread(below, f"{where}.{key}")
                continue
            for index, each in enumerate(below):
                yield from self.inner[key].unread(each, f"{where}.{key}[{index}]")


def _keys(own: str, **inner: Keys) -> Keys:
    return Keys(frozenset((*own.split(), *inner)), inner)


_NODE = _keys("name cpu memory pods scalars labels taints unschedulable")
_QUEUE = _keys(
    "name weight capability deserved guarantee reclaimable parent state priority created maxPodGroups "
    "dequeueStrategy annotations"
)
_QUOTA = _keys("namespace name hard used scopes scopeSelector")
_HYPER_NODE = _keys("name tier tierName nodes hyperNodes regex labels")
_TOPOLOGY = _keys("mode highestTierAllowed highestTierName")
_POD_GROUP = _keys(
    "name namespace queue minMember minTaskMember minResources priorityClassName phase created annotations "
    "owner quota",
    networkTopology=_TOPOLOGY,
    subGroupPolicy=_keys(
        "name subGroupSize minSubGroups matchLabelKeys",
        networkTopology=_TOPOLOGY,
        labelSelector=Keys(frozenset({"matchLabels"})),
    ),
)
_POD = _keys(
    "name count group namespace cpu memory scalars node phase deleting role priority priorityClassName "
    "preemptable preemptionPolicy nodeSelector tolerations gated nominated created schedulerName labels "
    "annotations"
)
_OPERATION = _keys(
    "controller start reap replace advance removeNodes deletePods deletePodGroups",
    finish=_keys("pods result"),
    setQueue=_QUEUE,
    setQuota=_QUOTA,
    setGroupQuota=_keys("name namespace quota"),
    addPods=_POD,
    delayPods=_POD,
    addPodGroups=_POD_GROUP,
    addNodes=_NODE,
    setHyperNode=_HYPER_NODE,
)
_SESSION = _keys(
    "conf now priorityClasses defaultPriority",
    nodes=_NODE,
    hyperNodes=_HYPER_NODE,
    queues=_QUEUE,
    quotas=_QUOTA,
    podGroups=_POD_GROUP,
    pods=_POD,
    delayedPods=_POD,
)
_GIVEN: Mapping[str, Keys] = {
    "session": _SESSION,
    "resource": _keys(
        "op left right default request idle releasing pipelined containers initContainers overhead"
    ),
    "deserved": _keys("total", queues=_keys("name weight capability guarantee request allocated")),
    "dispatch": _keys("point tiers"),
    "phase": _keys("phase minMember unschedulable tasks"),
    "minres": _keys("minAvailable", tasks=_keys("name replicas minAvailable priority requests limits")),
    "score": _keys("plugin arguments pod", nodes=_keys("name cpu memory pods scalars used taints")),
    "admission": _keys(
        "webhook operation object oldObject old options mode rejectPodsOfPendingGroups maxPodGroupsHard "
        "refuseDeletionOfUsedQueues maxQueueDepth namespaces",
        queues=Keys(_QUEUE.own | {"allocated"}),
        quotas=_QUOTA,
        podGroups=Keys(_POD_GROUP.own | {"podRequests"}),
        pods=_POD,
    ),
    "vcjob": _keys(
        "job pods taskPods phase podGroupPhase retryCount version event eventVersion task exitCode action"
    ),
    "queue_state": _keys("queue state action podGroups"),
}
_EXPECTED: Mapping[str, Keys] = {  # other kinds look up each expected key
    "deserved": _keys("deserved share overused"),
    "score": _keys("scores"),
    "minres": _keys("minResources minTaskMember"),
    "admission": _keys("allowed reason patch"),
}
_STEP = _keys("cycles rounds expect", do=_OPERATION)


def unread_keys(case: Mapping[str, Any]) -> list[str]:
    """Return the paths of the keys of ``case`` that no runner reads."""
    kind = case["kind"]
    found = list(_GIVEN[kind].unread(case["given"], "given"))
    for index, step in enumerate(case.get("steps", ())):
        operations = [{each: None} if isinstance(each, str) else each for each in step.get("do", ())]
        found += _STEP.unread({**step, "do": operations}, f"steps[{index}]")
    if kind in _EXPECTED:
        found += _EXPECTED[kind].unread(case["expect"], "expect")
    return found
