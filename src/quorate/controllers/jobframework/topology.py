"""Topology requests of jobs, which nobody here honours: they are told so, not passed over in silence."""

from collections.abc import Iterable
from typing import Final

from quorate.api.batch import decode_template
from quorate.api.kueue import PodSet

_PREFIX: Final = "kueue.x-k8s.io/podset-"
_REQUESTS: Final = tuple(
    f"{_PREFIX}{request}"
    for request in (
        "required-topology",
        "preferred-topology",
        "slice-required-topology",
        "slice-required-topology-constraints",
    )
)
_RULE: Final = (
    "is without effect: there is no topology-aware scheduling here, pods are admitted by quota alone "
    "(affinity can keep them together)"
)


def topology_findings(pod_sets: Iterable[PodSet]) -> tuple[str, ...]:
    """The topology requests among the annotations of pod templates; each counts as not given."""
    return tuple(
        f"pod set {pod_set.name}: metadata.annotations[{key}]: {annotations[key]!r} {_RULE}"
        for pod_set in pod_sets
        if _PREFIX.encode() in bytes(pod_set.template)  # most have none, and are not worth decoding
        for annotations in (decode_template(pod_set.template).metadata.annotations,)
        for key in _REQUESTS
        if key in annotations
    )
