"""The stored template of the pods of a workload, as far as it constrains their nodes."""

from typing import Final

import msgspec

from quorate.api.core.pod import Pod
from quorate.api.core.pod_templates import HOST_NETWORK, template_pod
from quorate.api.core.scheduling import Affinity, PodAffinity, PodSpec
from quorate.api.interning import ContentCache, InternCache
from quorate.queueing.limits import MAX_TEMPLATES

_CLAIM: Final = b'"persistentVolumeClaim"'
_ANTI_AFFINITY: Final = b'"podAntiAffinity"'
# Without one of these texts a template has no constraint: most need not be decoded.
_MARKS: Final = (
    _CLAIM, _ANTI_AFFINITY, b'"podAffinity"', b'"topologySpreadConstraints"', b'"hostPort"', HOST_NETWORK,
)  # fmt: skip


class Template:
    """The template of the pods of one pod set."""

    __slots__ = ("_hash", "content", "has_constraints", "namespace", "repels")

    def __init__(self, namespace: str, content: msgspec.Raw) -> None:
        self.namespace = namespace
        self.content = content
        stored = bytes(content)
        self.has_constraints = False
        for mark in _MARKS:  # for each decision: a generator would cost more
            if mark in stored:
                self.has_constraints = True
        self.repels = self.has_constraints and _ANTI_AFFINITY in stored
        self._hash = hash((namespace, stored))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Template)
            and self._hash == other._hash
            and self.namespace == other.namespace
            and bytes(self.content) == bytes(other.content)
        )

    def __hash__(self) -> int:
        return self._hash

    def decode(self) -> Pod:
        """Return a pod of the template with the constraints that are required."""
        return _intern_pod(self.namespace.encode() + b"\n" + bytes(self.content))


def template_of(namespace: str, content: msgspec.Raw) -> Template:
    """Return the template, one object for all pod sets of equal content that are in use."""
    stored = bytes(content)
    return _templates.get_or(
        namespace.encode() + b"\n" + stored, lambda: Template(namespace, msgspec.Raw(stored))
    )


def has_claims(template: msgspec.Raw) -> bool:
    """Return False if pods of the template have no claim; True if they may have one."""
    return _CLAIM in bytes(template)


def _decode(content: bytes) -> Pod:
    namespace, _, stored = content.partition(b"\n")
    pod = template_pod(namespace.decode(), stored)
    given = pod.spec
    affinity = given.affinity
    if affinity is not None:
        affinity = Affinity(
            node_affinity=affinity.node_affinity,
            pod_affinity=_required(affinity.pod_affinity),
            pod_anti_affinity=_required(affinity.pod_anti_affinity),
        )
    spec = PodSpec(
        containers=given.containers,
        init_containers=given.init_containers,
        node_selector=given.node_selector,
        affinity=affinity,
        topology_spread_constraints=tuple(
            constraint
            for constraint in given.topology_spread_constraints
            if constraint.when_unsatisfiable == "DoNotSchedule"
        ),
        # The claim of an ephemeral volume does not exist before its pod.
        volumes=tuple(volume for volume in given.volumes if volume.persistent_volume_claim is not None),
    )
    return msgspec.structs.replace(pod, spec=spec)


def _required(terms: PodAffinity | None) -> PodAffinity | None:
    return None if terms is None else PodAffinity(required=terms.required)


_templates: Final[ContentCache[Template]] = ContentCache(entries=MAX_TEMPLATES)
_intern_pod = InternCache(_decode, entries=MAX_TEMPLATES)
