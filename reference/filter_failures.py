"""The reference page of filter failures: the reasons why a pod does not fit a node."""

from typing import Final, NamedTuple

from quorate.placement import failures
from quorate.placement.failures import FilterFailure, Remedy

_HEAD: Final = """\
# Filter failures

If pods of a pod group fit no node, its condition `Unschedulable` gives the number of nodes with
insufficient resources, and the number of nodes that a filter rejects for one of the reasons below. Each
rejected node counts once, for the first reason in the order of this page that applies to it. The messages
are those of kube-scheduler where it has the same filter; only the taint is named here.

| resolved by | meaning | status code in kube-scheduler |
|---|---|---|
"""
_RESOLUTIONS: Final = {
    Remedy.PREEMPTION: ("eviction", "the node fits after other pods on it end or are preempted"),
    Remedy.WAITING: (
        "waiting",
        "another object has to change; no pods of the node are preempted for the pod",
    ),
    Remedy.OTHER_NODES: ("other nodes", "the pod fits only nodes with other labels or taints"),
}
_TABLE: Final = """
| reason | when | resolved by |
|---|---|---|
"""
_TAIL: Final = """
Preferences never reject a node: preferred affinity, `PreferNoSchedule`, `ScheduleAnyway`.

The arguments of the plugin `predicates` in the [scheduler configuration](scheduler-configuration.md)
disable each filter except those for nodes that are not ready or unschedulable, for instance
`predicate.NodeAffinityEnable: false`.

Terminating pods count until they no longer exist. Topology spread never counts them. The filters ignore
them for a pipelined pod, which starts after they have terminated.

## Constraints that are not evaluated

- The remaining storage capacity that drivers report, and volumes that are attached to a node without a
  pod there.
- The case that two claims of different pods match the same existing volume before either is bound. The
  bind of one of them is then refused, and its pod is scheduled again.
- In-tree volumes, of drivers without CSI, in the spec of the pod itself.
- The default topology spread that an administrator configures for the pods of services.
- Of devices that a pod claims by dynamic resource allocation: those that wait for conditions
  are not given, and DeviceTaintRules are not read. Claims with
  the constraint `distinctAttribute`, and with selectors that call functions over lists, are refused, with
  the reason.
- Tolerations with the operators `Lt` and `Gt`, which are disabled in Kubernetes 1.36: they tolerate
  nothing.
"""


class Reason(NamedTuple):
    failure: FilterFailure
    when: str


REASONS: Final = (
    Reason(failures.claim_not_found("NAME"), "the pod uses a claim that does not exist"),
    Reason(failures.claim_not_created("NAME"), "the claim of an ephemeral volume does not exist yet"),
    Reason(failures.claim_of_another_pod("NAME"), "a claim of that name exists, but not for this pod"),
    Reason(failures.claim_being_deleted("NAME"), "the claim has a deletion timestamp"),
    Reason(failures.claim_lost("NAME", "VOLUME"), "the claim is in the phase `Lost`"),
    Reason(
        failures.device_claim_not_created("NAME"),
        "the claim for devices of a ResourceClaimTemplate does not exist yet; `NAME` is that in the pod",
    ),
    Reason(failures.device_claim_not_found("NAME"), "the pod uses a claim for devices that does not exist"),
    Reason(failures.device_claim_of_another_pod("NAME"), "a claim of that name exists, but not for this pod"),
    Reason(failures.device_claim_being_deleted("NAME"), "the claim has a deletion timestamp"),
    Reason(failures.device_claim_in_use("NAME", 256), "no more pods may use one claim"),
    Reason(
        failures.device_request_not_evaluated("NAME", "REQUEST", "PROBLEM"),
        "the device class does not exist, or the request or a selector cannot be evaluated",
    ),
    Reason(
        failures.UNBOUND_CLAIMS,
        "a claim is not bound, and its class does not wait for the first consumer",
    ),
    Reason(failures.volume_not_found("NAME"), "a claim is bound to a volume that does not exist"),
    Reason(failures.NOT_READY, "the condition `Ready` of the node is not true"),
    Reason(failures.UNSCHEDULABLE, "the node is cordoned, and the pod does not tolerate that"),
    Reason(
        failures.untolerated_taint("KEY", "VALUE"),
        "the first taint of the node with effect `NoSchedule` or `NoExecute` that the pod does not tolerate",
    ),
    Reason(
        failures.untolerated_taint("node.kubernetes.io/KEY", ""),
        "such a taint, which describes a temporary state of the node",
    ),
    Reason(
        failures.unreadable_pod("NAME"),
        "a pod on the node cannot be read, so its requests are unknown; an event on the pod says why",
    ),
    Reason(
        failures.NODE_AFFINITY, "the labels or the name of the node do not match those that the pod requires"
    ),
    Reason(
        failures.NO_NODE_GROUP,
        "the node does not have the label `volcano.sh/nodegroup-name`, which the plugin `nodegroup` requires",
    ),
    Reason(
        failures.NO_NODE_GROUP_AFFINITY,
        "the node is in a node group, and the `affinity` of the queue names none",
    ),
    Reason(failures.NODE_GROUP, "the `affinity` of the queue does not allow the node group of the node"),
    Reason(
        failures.NODE_GROUP_LIMIT,
        "the queue would have more in the node group than its annotation "
        "`volcano.sh/nodegroup-resource-limits` allows",
    ),
    Reason(failures.NODE_GROUP_LIMITS_INVALID, "that annotation of the queue cannot be read"),
    Reason(
        failures.PORT_CONFLICT,
        "another pod on the node uses the host port, for the same address or for all addresses",
    ),
    Reason(
        failures.CLAIM_IN_USE,
        "a claim allows one pod at a time, and another pod uses it, on this or another node",
    ),
    Reason(
        failures.TOO_MANY_VOLUMES,
        "with the volumes of the pod, the volumes of one driver would exceed the limit in the `CSINode`",
    ),
    Reason(failures.DEVICES_ELSEWHERE, "the devices of a claim cannot be used on the node"),
    Reason(
        failures.device_claim_being_allocated("NAME"),
        "the pod names a claim that gets devices with another pod; then it is placed where they are",
    ),
    Reason(
        failures.devices_missing("SHORTAGE", is_permanent=False),
        "too few devices that a request selects are free on the node; `SHORTAGE` has the numbers",
    ),
    Reason(
        failures.devices_missing("SHORTAGE", is_permanent=True),
        "the node has too few devices that a request selects, even if all were free",
    ),
    Reason(failures.VOLUME_AFFINITY, "the `nodeAffinity` of a volume excludes the node"),
    Reason(
        failures.NO_VOLUME_TO_BIND,
        "a claim waits for its first consumer, and no free volume on the node matches and the class creates "
        "none there; or another pod that uses the claim is placed on another node",
    ),
    Reason(failures.NO_VOLUME_ZONE, "the zone or region labels of a volume differ from those of the node"),
    Reason(
        failures.TOPOLOGY_SPREAD_LABEL,
        "the node does not have the `topologyKey` label of a spread constraint",
    ),
    Reason(
        failures.TOPOLOGY_SPREAD,
        "the domain of the node would exceed the domain with the fewest pods by more than `maxSkew`",
    ),
    Reason(
        failures.AFFINITY,
        "the domain of the node does not have the pods that the required affinity of the pod selects",
    ),
    Reason(
        failures.ANTI_AFFINITY,
        "the domain of the node has pods that the required anti-affinity of the pod selects",
    ),
    Reason(
        failures.EXISTING_ANTI_AFFINITY,
        "the domain of the node has pods with a required anti-affinity that selects the pod",
    ),
)


def page() -> str:
    """Return the page as Markdown."""
    resolutions = (
        f"| {word} | {text} | `{FilterFailure(remedy, '').code}` |\n"
        for remedy, (word, text) in _RESOLUTIONS.items()
    )
    rows = (
        f"| `{reason.failure.reason}` | {reason.when} | {_RESOLUTIONS[reason.failure.remedy][0]} |\n"
        for reason in REASONS
    )
    return "".join((_HEAD, *resolutions, _TABLE, *rows, _TAIL))
