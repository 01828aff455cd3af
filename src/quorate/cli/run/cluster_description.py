"""The cluster that a directory of manifests asks for, in its ``cluster.yaml``.

    apiVersion: local.quorate.dev/v1alpha1
    kind: Cluster
    nodes: 1            # how many equal nodes
    cpu: "8"            # allocatable on each node
    memory: 8429Mi
    pods: 110

Every field is optional, and options of the command line override it.  The file is read, not applied to the
API.
"""

from typing import Final

import msgspec

from quorate.api.decoding.documents import Document
from quorate.api.decoding.strict import DecodeContext, Section, choice, integer, quantity, section
from quorate.api.findings import Finding
from quorate.api.quantity import Quantity

API_VERSION: Final = "local.quorate.dev/v1alpha1"


class ClusterDescription(msgspec.Struct, frozen=True, kw_only=True):
    """The number of equal nodes and the allocatable resources of each; None: not specified."""

    nodes: int | None = None
    cpu: Quantity | None = None
    memory: Quantity | None = None
    pods: int | None = None

    def override(self, other: "ClusterDescription") -> "ClusterDescription":
        """Return ``self`` with the fields of ``other`` where ``self`` has none."""
        ours = {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}
        return msgspec.structs.replace(other, **ours)


def read_description(document: Document) -> tuple[ClusterDescription, list[Finding]]:
    """Return the description in the document, and the findings about it."""
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
