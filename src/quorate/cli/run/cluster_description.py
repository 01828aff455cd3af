"""The description of the cluster that a directory of manifests is meant for.

    apiVersion: local.quorate.dev/v1alpha1
    kind: Cluster
    nodes: 1            # how many equal nodes
    cpu: "8"            # what each can give to pods
    memory: 8429Mi
    pods: 110

Every field may be left out; what the command line says goes first.  The file is read, not applied: it is
about the machine, not for the API.
"""

from typing import Final

import msgspec

from quorate.api.decoding.documents import Document
from quorate.api.decoding.strict import DecodeContext, Section, choice, integer, quantity, section
from quorate.api.findings import Finding
from quorate.api.quantity import Quantity

API_VERSION: Final = "local.quorate.dev/v1alpha1"


class ClusterDescription(msgspec.Struct, frozen=True, kw_only=True):
    """Equal nodes and what each offers; ``None`` is for somebody else to say."""

    nodes: int | None = None
    cpu: Quantity | None = None
    memory: Quantity | None = None
    pods: int | None = None

    def over(self, other: "ClusterDescription") -> "ClusterDescription":
        """``self``, and ``other`` where it says nothing."""
        ours = {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}
        return msgspec.structs.replace(other, **ours)


def read_description(document: Document) -> tuple[ClusterDescription, list[Finding]]:
    """What the document says, and what is wrong with it."""
    context = DecodeContext(document)
    return context.root().read(section(_fields), ClusterDescription()), context.findings


def _fields(fields: Section) -> ClusterDescription:
    fields.take("apiVersion", choice((API_VERSION,)), API_VERSION)
    fields.take("kind", choice(("Cluster",)), "Cluster")
    return ClusterDescription(
        nodes=fields.take("nodes", integer(0), None),
        cpu=fields.take("cpu", quantity, None),
        memory=fields.take("memory", quantity, None),
        pods=fields.take("pods", integer(0), None),
    )
