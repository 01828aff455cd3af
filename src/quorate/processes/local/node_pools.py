"""Pools of simulated nodes, and nodes in blocks, racks or other domains.

``pools`` of a cluster description, and a text with one pool:

    pools:
    - name: gpu                     # gpu-1 to gpu-4
      count: 4
      capacity: {cpu: 64, memory: 512Gi, nvidia.com/gpu: 8}
      labels: {accelerator: h100}
      taints: [{key: nvidia.com/gpu, value: present, effect: NoSchedule}]

The text has the same fields in one line; ``label`` and ``taint`` may be repeated:

    name=gpu,count=4,cpu=64,memory=512Gi,nvidia.com/gpu=8,label=accelerator=h100,taint=nvidia.com/gpu=present:NoSchedule

A topology is a text such as ``block=2,rack=4,host=8``.  The numbers are those of one domain above: 2 blocks
of 4 racks each, with 8 hosts each.  The nodes get labels for a Topology and a topology flavor, which have the
names of Kueue's documentation.
"""

from collections.abc import Mapping
from math import prod
from typing import Any, Final

import msgspec

from quorate.api.core import Taint
from quorate.api.decoding import strict as d
from quorate.api.decoding.documents import Document
from quorate.api.decoding.nodes import check_pool_names, taint
from quorate.api.kueue import GROUP, VERSION
from quorate.api.kueue.topology import HOSTNAME
from quorate.api.quantity import PODS, Quantity
from quorate.api.syntax import is_dns_label, is_qualified_name
from quorate.local.nodes import FleetLevel
from quorate.local.nodes.fleet import POOL

EXAMPLE: Final = "name=gpu,count=4,cpu=64,memory=512Gi,nvidia.com/gpu=8"
MOST_NODES: Final = 10_000

EQUAL_NODES: Final = "node"  # the pool that ``nodes`` and ``topology`` describe

_NAME_CHARACTERS: Final = 50
_NATIVE: Final = ("cpu", "memory", PODS, "ephemeral-storage")
_OF_KUBELET: Final = (HOSTNAME, "kubernetes.io/os", "kubernetes.io/arch", POOL)


class NodePoolDescription(msgspec.Struct, frozen=True):
    """Equal nodes; ``capacity`` has no entry for what is not specified."""

    name: str
    count: int
    capacity: dict[str, Quantity] = {}
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()


def node_pools(field: d.Field) -> tuple[NodePoolDescription, ...]:
    """Decode a list of pools.  Raises ``InvalidValue``."""
    pools = d.list_of(d.section(_pool))(field)
    check_pools(pools)
    return pools


def check_pools(pools: tuple[NodePoolDescription, ...]) -> None:
    """Raise ``InvalidValue`` for pools that cannot be had together."""
    check_pool_names([pool.name for pool in pools])
    nodes = sum(pool.count for pool in pools)
    if nodes > MOST_NODES:
        raise d.InvalidValue(f"makes {nodes} nodes, must make at most {MOST_NODES}")


def _pool(fields: d.Section) -> NodePoolDescription:
    fields.require("name", hint="write a short name, such as gpu")
    return NodePoolDescription(
        name=fields.take("name", _name, ""),
        count=fields.take("count", d.integer(0, MOST_NODES), 1),
        capacity=fields.take("capacity", _capacity, {}),
        labels=fields.take("labels", _labels, {}),
        taints=fields.take("taints", d.list_of(d.section(taint)), ()),
    )


def _name(field: d.Field) -> str:
    name = d.text(field)
    if name == EQUAL_NODES:
        raise d.InvalidValue("is the name of the equal nodes of nodes or topology (choose another)")
    if not is_dns_label(name) or len(name) > _NAME_CHARACTERS:
        rule = f"is not a name of small letters, digits and hyphens, at most {_NAME_CHARACTERS} (write gpu)"
        raise d.InvalidValue(rule)
    return name


def _capacity(field: d.Field) -> dict[str, Quantity]:
    amounts = d.map_of(d.quantity)(field)
    for name, amount in amounts.items():
        entry = field.entry(name)
        is_native = name in _NATIVE or name.startswith("hugepages-")
        if not is_native and not ("/" in name and is_qualified_name(name)):
            entry.reject(f"is of no resource ({', '.join(_NATIVE)}, or one with a domain: nvidia.com/gpu)")
        elif amount < Quantity(0):
            entry.reject("is negative (write 0 or more)")
        elif (not is_native or name == PODS) and amount != Quantity.of_units(amount.units):
            entry.reject("is not a whole number (write 8)")
    return amounts


def _labels(field: d.Field) -> dict[str, str]:
    values = d.labels(field)
    for key in values:
        if key in _OF_KUBELET:
            field.entry(key).reject("is the value of a label that each node gets by itself (drop it)")
    return values


def parse_pool(written: str) -> NodePoolDescription:
    """Return the pool in a text.  Raises ``InvalidValue``, or ``InvalidConfiguration`` with all mistakes."""
    context = d.DecodeContext(Document(_fields(written), {"": 0}, ()))
    pool = context.root().decode(d.section(_pool), None)
    if context.findings or pool is None:
        raise d.InvalidConfiguration(context.findings)
    return pool


def _fields(written: str) -> dict[str, Any]:
    """Return the fields of a pool, as in YAML."""
    fields: dict[str, Any] = {}
    capacity: dict[str, Any] = {}
    for item in written.split(","):
        key, equals, value = item.strip().partition("=")
        if not equals or not key or not value:
            raise d.InvalidValue(f"has {item.strip()!r}, which is not KEY=VALUE (write {EXAMPLE})")
        if key == "label":
            name, _, label = value.partition("=")
            _put(fields.setdefault("labels", {}), name, label)
        elif key == "taint":
            fields.setdefault("taints", []).append(_taint_fields(value))
        elif key == "count":
            _put(
                fields, key, int(value) if value.isascii() and value.isdigit() and len(value) < 10 else value
            )
        elif key == "name":
            _put(fields, key, value)
        else:
            _put(capacity, key, value)
    return fields | ({"capacity": capacity} if capacity else {})


def _put(fields: dict[str, Any], key: str, value: object) -> None:
    if key in fields:
        raise d.InvalidValue(f"has {key} twice (drop one of the two)")
    fields[key] = value


def _taint_fields(written: str) -> dict[str, str]:
    """Return the fields of ``key=value:effect`` or ``key:effect``, as kubectl reads them."""
    pair, colon, effect = written.rpartition(":")
    if not colon:
        raise d.InvalidValue(f"has the taint {written!r} without effect (write {written}:NoSchedule)")
    key, _, value = pair.partition("=")
    return {"key": key, "value": value, "effect": effect}


def pool_fields(pool: NodePoolDescription) -> dict[str, Any]:
    """Return the fields of a pool as they are written in a cluster description."""
    fields: dict[str, Any] = {"name": pool.name, "count": pool.count}
    if pool.capacity:
        fields["capacity"] = {name: str(amount) for name, amount in pool.capacity.items()}
    if pool.labels:
        fields["labels"] = pool.labels
    if pool.taints:
        fields["taints"] = [_present(taint) for taint in pool.taints]
    return fields


def _present(taint: Taint) -> Mapping[str, str]:
    return {name: value for name, value in msgspec.structs.asdict(taint).items() if value}


TOPOLOGY: Final = "default"
FLAVOR: Final = "tas-flavor"
NODE_LABELS: Final[Mapping[str, str]] = {"cloud.provider.com/node-group": "tas"}
TOPOLOGY_EXAMPLE: Final = "block=2,rack=4,host=8"

_LEVEL_PREFIX: Final = "cloud.provider.com/topology-"
_HOST: Final = "host"
_MAX_LEVELS: Final = 16  # of a Topology
_PREFIX_CHARACTERS: Final = 20


class NodeTopology(msgspec.Struct, frozen=True):
    levels: tuple[FleetLevel, ...]  # above the hosts, the outermost first
    hosts: int  # in each of the lowest domains

    @property
    def nodes(self) -> int:
        return self.hosts * prod(level.count for level in self.levels)

    def __str__(self) -> str:
        """Return the text that ``parse_node_topology`` reads."""
        counts = [*((_short_name(level.label), level.count) for level in self.levels), (_HOST, self.hosts)]
        return ",".join(f"{name}={count}" for name, count in counts)

    @property
    def topology(self) -> dict[str, Any]:
        """Return the Topology of the nodes."""
        labels = [*(level.label for level in self.levels), HOSTNAME]
        return _object("Topology", TOPOLOGY, {"levels": [{"nodeLabel": label} for label in labels]})

    @property
    def flavor(self) -> dict[str, Any]:
        """Return the ResourceFlavor of the nodes."""
        spec = {"nodeLabels": dict(NODE_LABELS), "topologyName": TOPOLOGY}
        return _object("ResourceFlavor", FLAVOR, spec)


def _object(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": kind, "metadata": {"name": name}, "spec": spec}


def parse_node_topology(text: str) -> NodeTopology:
    """Return the topology in ``text``.

    A name with a slash is the label of a level, any other is the end of a label.  Raises ``InvalidValue``.
    """
    counts: dict[str, int] = {}
    for item in text.split(","):
        name, equals, number = item.strip().partition("=")
        if not equals or not name:
            raise d.InvalidValue(f"has {item.strip()!r}, which is not NAME=NUMBER (write {TOPOLOGY_EXAMPLE})")
        if not (number.isascii() and number.isdigit() and len(number) < 10 and int(number) > 0):
            raise d.InvalidValue(
                f"has {number!r} for {name}, which is not a number from 1 (write {TOPOLOGY_EXAMPLE})"
            )
        if name in counts:
            raise d.InvalidValue(f"has {name} twice (drop one of the two)")
        counts[name] = int(number)
    *above, last = counts
    if last != _HOST:
        raise d.InvalidValue(f"ends with {last}, must end with the number of hosts (add {_HOST}=8)")
    if len(counts) > _MAX_LEVELS:
        raise d.InvalidValue(f"has {len(counts)} levels, must have at most {_MAX_LEVELS}")
    topology = NodeTopology(tuple(_level(name, counts[name]) for name in above), counts[last])
    if len({level.label for level in topology.levels}) < len(above):
        raise d.InvalidValue(f"has two levels with the same label (write {TOPOLOGY_EXAMPLE})")
    if topology.nodes > MOST_NODES:
        raise d.InvalidValue(f"makes {topology.nodes} nodes, must make at most {MOST_NODES}")
    return topology


def _level(name: str, count: int) -> FleetLevel:
    label = name if "/" in name else f"{_LEVEL_PREFIX}{name}"
    if not is_qualified_name(label) or label == HOSTNAME:
        raise d.InvalidValue(
            f"has {name!r}, which is neither a word nor a node label (write {TOPOLOGY_EXAMPLE})"
        )
    # Values of the label begin with this, and have a number for each level.
    short = label.rpartition("/")[2].removeprefix("topology-")[:_PREFIX_CHARACTERS].strip("-_.")
    return FleetLevel(label, short, count)


def _short_name(label: str) -> str:
    name = label.removeprefix(_LEVEL_PREFIX)
    return label if "/" in name else name


def decode_node_topology(field: d.Field) -> NodeTopology:
    return parse_node_topology(d.text(field))
