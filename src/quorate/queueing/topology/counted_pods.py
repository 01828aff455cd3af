"""What is added up over the pods that count for the constraints of others."""

from collections.abc import Iterator

from quorate.api.core.bound_pod import BoundPod
from quorate.api.core.scheduling import PodSpec
from quorate.queueing.topology.pod_templates import Template


def hash_of(pod: BoundPod, node: str) -> int:
    """Return a number for a pod without a place, by all of it that can change."""
    return hash((pod.metadata.key, node, frozenset(pod.metadata.labels.items())))


def hash_of_held(host: str, template: Template) -> int:
    """Return a number for a pod with a place."""
    return hash((host, template))


def repelled_namespaces(namespace: str, spec: PodSpec | None) -> Iterator[str]:
    """Yield the namespaces of pods that the anti-affinity of a pod may select; "" is all of them."""
    affinity = None if spec is None or spec.affinity is None else spec.affinity.pod_anti_affinity
    for term in () if affinity is None else affinity.required:
        if term.namespace_selector is not None:
            yield ""
        else:
            yield from term.namespaces or (namespace,)
