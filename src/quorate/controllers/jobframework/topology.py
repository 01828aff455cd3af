"""Topology requests of jobs: made of the annotations of pod templates, and validated with them.

Without topology-aware scheduling jobs make no requests, and annotations are not validated.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from quorate.api.batch import decode_template
from quorate.api.configuration.feature_gates import TopologyGates
from quorate.api.findings import Finding
from quorate.api.kueue import PodSet
from quorate.api.kueue.topology_annotations import NO_INDEX, PodIndex, topology_request
from quorate.api.names.topology import PREFERRED, REQUIRED, UNCONSTRAINED
from quorate.api.validation.topology import (
    AnnotatedPodSet,
    annotated_topology_findings,
    pod_set_group_findings,
)

_MARK: Final = b"podset-"  # in each of the annotations


@dataclass(frozen=True, slots=True)
class TopologySource:
    """Where a job has the topology annotations of a pod set, and how the pods of the set are numbered."""

    path: str  # of the annotations
    index: PodIndex = NO_INDEX
    annotations: Mapping[str, str] | None = None  # None: those of the pod set's template


def with_topology_requests(
    pod_sets: Sequence[PodSet],
    sources: Sequence[TopologySource],
    gates: TopologyGates,
    defaults: Sequence[Mapping[str, str]] = (),
) -> tuple[PodSet, ...]:
    """Return ``pod_sets`` with their topology requests; each has its own of ``sources``, in the same order.

    ``defaults``: annotations of each pod set, which count if the annotations of its template name no level.
    """
    requests = (
        topology_request(
            _with_defaults(_annotations(pod_set, source), default),
            source.index,
            multi_layer=gates.multi_layer,
        )
        for pod_set, source, default in zip(pod_sets, sources, defaults or [{}] * len(pod_sets), strict=True)
    )
    return tuple(
        pod_set if request is None else msgspec.structs.replace(pod_set, topology_request=request)
        for pod_set, request in zip(pod_sets, requests, strict=True)
    )


def topology_findings(
    pod_sets: Sequence[PodSet], sources: Sequence[TopologySource], gates: TopologyGates, *, grouped: bool
) -> tuple[Finding, ...]:
    """Validate the topology annotations of a job; ``grouped``: its pod sets may form groups."""
    annotated = [
        AnnotatedPodSet(source.path, pod_set.count, _annotations(pod_set, source))
        for pod_set, source in zip(pod_sets, sources, strict=True)
    ]
    findings: list[Finding] = []
    for pod_set in annotated:
        findings += annotated_topology_findings(pod_set, gates)
    if grouped:
        findings += pod_set_group_findings(annotated)
    return tuple(findings)


def _with_defaults(annotations: Mapping[str, str], defaults: Mapping[str, str]) -> Mapping[str, str]:
    is_requested = any(key in annotations for key in (REQUIRED, PREFERRED, UNCONSTRAINED))
    return annotations if is_requested or not defaults else {**annotations, **defaults}


def _annotations(pod_set: PodSet, source: TopologySource) -> Mapping[str, str]:
    if source.annotations is not None:
        return source.annotations
    if _MARK not in bytes(pod_set.template):  # decode only templates that may have one
        return {}
    return decode_template(pod_set.template).metadata.annotations
