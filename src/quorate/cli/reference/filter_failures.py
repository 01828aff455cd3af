"""The page of the reasons why a node does not take a pod."""

from typing import Final, NamedTuple

from quorate.placement.filters import failures
from quorate.placement.filters.failures import FilterFailure, Remedy

_HEAD: Final = """\
# Why a pod does not fit a node

When pods of a pod group find no node, its condition `Unschedulable` says how many nodes have too little of a
resource, and how many do not take the pod whatever room they have, with one of the reasons below. Each such
node is counted once, for the first reason that is true of it in the order of this page. The wording is
kube-scheduler's where that has the same rule.

| what helps | that is | code in kube-scheduler |
|---|---|---|
"""
_WHAT_HELPS: Final = {
    Remedy.PREEMPTION: ("eviction", "other pods of the node end, or are preempted"),
    Remedy.WAITING: ("time", "something else changes; no pods of the node are preempted for it"),
    Remedy.OTHER_NODES: ("other nodes", "or other labels and taints; without them the pod can never fit"),
}
_TABLE: Final = """
| reason | when | what helps |
|---|---|---|
"""
_TAIL: Final = """
What only prefers nodes never keeps a pod away: preferred affinity, `PreferNoSchedule`, `ScheduleAnyway`.

Each rule but those about ready and unschedulable nodes can be switched off by the arguments of the plugin
`predicates` in the scheduler's configuration, for instance `predicate.NodeAffinityEnable: false`.

Pods that are being deleted count until they are gone, except for topology spread, which never counts them. A
place that is promised for when they are gone is judged without them.

## What is not looked at

- The storage that drivers say they have left, and volumes that are attached to a node without a pod there.
- That two claims of different pods would be bound to the same volume that is there already, as long as it is
  for neither: then the bind of one of them is refused, and it is placed again.
- Volumes of drivers of old written into the pod itself.
- The topology spread that an administrator sets for all pods of a cluster's services.
- Devices that a pod claims by dynamic resource allocation (`predicate.DynamicResourceAllocationEnable`).
- Tolerations with the operators `Lt` and `Gt`, which Kubernetes 1.36 has switched off: they tolerate nothing.
"""


class Reason(NamedTuple):
    objection: FilterFailure
    when: str


REASONS: Final = (
    Reason(failures.claim_not_found("NAME"), "the pod uses a claim that does not exist"),
    Reason(failures.claim_not_created("NAME"), "the claim of an ephemeral volume does not exist yet"),
    Reason(failures.claim_of_another_pod("NAME"), "a claim of that name exists, but not for this pod"),
    Reason(failures.claim_being_deleted("NAME"), "the claim has a deletion timestamp"),
    Reason(failures.claim_lost("NAME", "VOLUME"), "the claim is in the phase `Lost`"),
    Reason(
        failures.UNBOUND_CLAIMS,
        "a claim is not bound, and its class does not wait for the first consumer",
    ),
    Reason(failures.BOUND_VOLUME_MISSING, "a claim is bound to a volume that does not exist"),
    Reason(failures.NOT_READY, "its condition `Ready` is not true"),
    Reason(failures.UNSCHEDULABLE, "it is cordoned, and the pod does not tolerate that"),
    Reason(
        failures.untolerated_taint("KEY", "VALUE"),
        "the first of its taints of effect `NoSchedule` or `NoExecute` that the pod does not tolerate",
    ),
    Reason(
        failures.untolerated_taint("node.kubernetes.io/KEY", ""),
        "such a taint tells of a state of the node that passes",
    ),
    Reason(failures.NODE_AFFINITY, "its labels or its name are not among those the pod asks for"),
    Reason(
        failures.PORT_CONFLICT,
        "another pod of the node has the host port, for the same address or for all of them",
    ),
    Reason(
        failures.CLAIM_IN_USE,
        "a claim may be used by one pod at a time, and another pod uses it, on whichever node",
    ),
    Reason(
        failures.TOO_MANY_VOLUMES,
        "with the pod's volumes, those of one driver would be more than its `CSINode` allows",
    ),
    Reason(failures.VOLUME_AFFINITY, "a volume cannot be reached from the node, by its `nodeAffinity`"),
    Reason(
        failures.NO_VOLUME_TO_BIND,
        "a claim waits for its consumer: no free volume there suits it and the class makes none there, or "
        "another pod that uses the claim goes to another node",
    ),
    Reason(failures.NO_VOLUME_ZONE, "a volume has labels of another zone or region than the node"),
    Reason(failures.TOPOLOGY_SPREAD_LABEL, "it lacks the label by which the pod is to be spread"),
    Reason(
        failures.TOPOLOGY_SPREAD,
        "its domain would have more than `maxSkew` pods more than the domain that has fewest",
    ),
    Reason(failures.AFFINITY, "its domain lacks pods that the pod requires near"),
    Reason(failures.ANTI_AFFINITY, "its domain has pods that the pod must be apart from"),
    Reason(failures.EXISTING_ANTI_AFFINITY, "its domain has pods that must be apart from the pod"),
)


def page() -> str:
    helps = (
        f"| {word} | {text} | `{FilterFailure(remedy, '').code}` |\n"
        for remedy, (word, text) in _WHAT_HELPS.items()
    )
    rows = (
        f"| `{reason.objection.reason}` | {reason.when} | {_WHAT_HELPS[reason.objection.remedy][0]} |\n"
        for reason in REASONS
    )
    return "".join((_HEAD, *helps, _TABLE, *rows, _TAIL))
