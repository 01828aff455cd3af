"""Topology requests of plain pods and of pod groups, which are made of the pods' own annotations."""

from collections.abc import Iterator, Sequence
from typing import Final

from quorate.api.configuration.feature_gates import TopologyGates
from quorate.api.core.pod import Pod
from quorate.api.findings import Finding
from quorate.api.kueue import PodSet
from quorate.api.kueue.topology_annotations import PodIndex
from quorate.api.names.kueue import TOPOLOGY_GATE
from quorate.api.names.topology import GROUP_POD_INDEX, REQUESTS
from quorate.controllers.jobframework.construct_workload import NotComposed
from quorate.controllers.jobframework.topology import (
    TopologySource,
    topology_findings,
    with_topology_requests,
)
from quorate.controllers.pods.queued_pod import is_gated

_INDEX: Final = PodIndex(GROUP_POD_INDEX)


def topology_source(pod: Pod) -> TopologySource:
    return TopologySource("metadata.annotations", _INDEX, pod.metadata.annotations)


def missing_gate_findings(pod: Pod) -> Iterator[Finding]:
    """Report a pod that requests a place and could not wait for it: gates cannot be added to a pod."""
    requests = any(key in pod.metadata.annotations for key in REQUESTS)
    if requests and is_gated(pod) and TOPOLOGY_GATE not in pod.gates:
        rule = f"lack {TOPOLOGY_GATE}, with which the pod waits for its place (create it again with the gate)"
        yield Finding("spec.schedulingGates", list(pod.gates), rule)


def request_topology(
    pods: Sequence[Pod], pod_sets: Sequence[PodSet], gates: TopologyGates
) -> tuple[PodSet, ...] | NotComposed:
    """Return the pod sets of a group with their requests; ``pods``: the first one of each set."""
    sources = [topology_source(pod) for pod in pods]
    problems = [
        f"pod {pod.metadata.name}: {finding}"
        for pod, pod_set, source in zip(pods, pod_sets, sources, strict=True)
        for finding in (
            *topology_findings((pod_set,), (source,), gates, grouped=False),
            *missing_gate_findings(pod),
        )
    ]
    if problems:
        return NotComposed("; ".join(problems))
    return with_topology_requests(pod_sets, sources, gates)
