"""The nodes of a local cluster, as ``cluster.yaml`` and the options of the command line describe them.

    apiVersion: local.quorate.dev/v1alpha1
    kind: Cluster
    nodes: 1            # how many equal nodes
    cpu: "8"            # allocatable on each node
    memory: 8429Mi
    pods: 110
    topology: block=2,rack=4,host=8  # instead of nodes: hosts in racks in blocks
    pools:              # nodes of other sizes, see ``node_pools``
    - {name: gpu, count: 4, capacity: {cpu: 64, memory: 512Gi, nvidia.com/gpu: 8}}

Every field is optional, and options of the command line override it.  ``cpu``, ``memory`` and ``pods`` also
complete the capacity of pools.  The file is read, not applied to the API.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from quorate.api.decoding.documents import Document, InvalidYaml, read_documents
from quorate.api.decoding.strict import DecodeContext, Section, choice, integer, quantity, section
from quorate.api.findings import Finding
from quorate.api.quantity import PODS, Quantity, parse_quantity
from quorate.inspect.configuration_files import InvalidFiles, compiler_lines, read_text
from quorate.local.nodes import NodePool
from quorate.processes.local.node_pools import (
    NODE_LABELS,
    NodePoolDescription,
    NodeTopology,
    decode_node_topology,
    node_pools,
    pool_fields,
)

API_VERSION: Final = "local.quorate.dev/v1alpha1"


class ClusterDescription(msgspec.Struct, frozen=True, kw_only=True):
    """The number of equal nodes, or their topology, and pools of other nodes; None: not specified."""

    nodes: int | None = None
    cpu: Quantity | None = None
    memory: Quantity | None = None
    pods: int | None = None
    topology: NodeTopology | None = None
    pools: tuple[NodePoolDescription, ...] | None = None

    @property
    def has_nodes(self) -> bool:
        """Return True if it specifies how many nodes there are."""
        return self.nodes is not None or self.topology is not None or self.pools is not None

    def override(self, other: "ClusterDescription") -> "ClusterDescription":
        """Return ``self`` with the fields of ``other`` where ``self`` has none."""
        ours = {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}
        if self.has_nodes:
            ours = {"nodes": None, "topology": None, "pools": None, **ours}
        return msgspec.structs.replace(other, **ours)


def read_description(document: Document) -> tuple[ClusterDescription, list[Finding]]:
    """Return the description in the document, and the findings about it."""
    context = DecodeContext(document)
    return context.root().decode(section(_fields), ClusterDescription()), context.findings


def read_description_file(path: Path) -> ClusterDescription:
    """Return the description in a file.  Raises ``InvalidFiles``."""
    try:
        documents = read_documents(read_text(path))
    except InvalidYaml as error:
        raise InvalidFiles([f"{path}:{error.line}: {error.problem}"]) from error
    if len(documents) != 1:
        raise InvalidFiles([f"{path}: has {len(documents)} documents (write one, of kind Cluster)"])
    description, findings = read_description(documents[0])
    if findings:
        raise InvalidFiles(compiler_lines(path, findings))
    return description


def description_text(description: ClusterDescription) -> str:
    """Return the text of a file that ``read_description_file`` reads."""
    fields: dict[str, Any] = {"apiVersion": API_VERSION, "kind": "Cluster"}
    for name, value in msgspec.structs.asdict(description).items():
        if isinstance(value, Quantity | NodeTopology):
            fields[name] = str(value)
        elif value is not None and name != "pools":
            fields[name] = value
    if description.pools is not None:
        fields["pools"] = [pool_fields(pool) for pool in description.pools]
    return yaml.safe_dump(fields, sort_keys=False)


def _fields(fields: Section) -> ClusterDescription:
    fields.take("apiVersion", choice((API_VERSION,)), API_VERSION)
    fields.take("kind", choice(("Cluster",)), "Cluster")
    nodes = fields.take("nodes", integer(0), None)
    topology = fields.take("topology", decode_node_topology, None)
    if nodes is not None and topology is not None:
        fields.at("nodes").reject("has no effect beside topology (drop one of the two)")
    pools = fields.take("pools", node_pools, None)
    return ClusterDescription(
        nodes=nodes,
        topology=topology,
        pools=pools,
        cpu=fields.take("cpu", quantity, None),
        memory=fields.take("memory", quantity, None),
        pods=fields.take("pods", integer(0), None),
    )


DEFAULT: Final = ClusterDescription(nodes=1, cpu=parse_quantity("8"), memory=parse_quantity("16Gi"), pods=110)


def simulated_pools(description: ClusterDescription) -> tuple[NodePool, ...]:
    """Return the pools of nodes to simulate, the equal nodes first; defaults complete the description."""
    chosen = description.override(DEFAULT)
    assert chosen.pods is not None, "the defaults leave nothing open"
    equal = NodePool(chosen.nodes or 0, str(chosen.cpu), str(chosen.memory), chosen.pods)
    topology = chosen.topology
    if topology is not None:
        equal = replace(equal, count=topology.nodes, labels=NODE_LABELS, levels=topology.levels)
    return (equal, *(_named_pool(pool, equal) for pool in chosen.pools or ()))


def _named_pool(pool: NodePoolDescription, equal: NodePool) -> NodePool:
    """Return a pool with the amounts of ``equal`` nodes where its capacity lacks them."""
    amounts = equal.resources() | {name: str(amount) for name, amount in pool.capacity.items()}
    return NodePool(
        pool.count,
        amounts.pop("cpu"),
        amounts.pop("memory"),
        parse_quantity(amounts.pop(PODS)).units,
        pool.labels,
        amounts,
        name=pool.name,
        taints=pool.taints,
    )
