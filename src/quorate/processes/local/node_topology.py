"""Simulated nodes in blocks, racks or other domains, such as ``block=2,rack=4,host=8``.

The numbers are those of one domain above: 2 blocks of 4 racks each, with 8 hosts each.  The nodes get labels
for a Topology and a topology flavor, which have the names of Kueue's documentation.
"""

from collections.abc import Mapping
from math import prod
from typing import Any, Final

import msgspec

from quorate.api.decoding.strict import Field, InvalidValue
from quorate.api.decoding.strict import text as decode_text
from quorate.api.kueue import GROUP, VERSION
from quorate.api.kueue.topology import HOSTNAME
from quorate.api.syntax import is_qualified_name
from quorate.local.nodes import FleetLevel
from quorate.processes.local.node_pools import MOST_NODES

TOPOLOGY: Final = "default"
FLAVOR: Final = "tas-flavor"
NODE_LABELS: Final[Mapping[str, str]] = {"cloud.provider.com/node-group": "tas"}
EXAMPLE: Final = "block=2,rack=4,host=8"

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

    A name with a slash is the label of a level; others are the end of one.  Raises ``InvalidValue``.
    """
    counts: dict[str, int] = {}
    for item in text.split(","):
        name, equals, number = item.strip().partition("=")
        if not equals or not name:
            raise InvalidValue(f"has {item.strip()!r}, which is not NAME=NUMBER (write {EXAMPLE})")
        if not (number.isascii() and number.isdigit() and len(number) < 10 and int(number) > 0):
            raise InvalidValue(f"has {number!r} for {name}, which is not a number from 1 (write {EXAMPLE})")
        if name in counts:
            raise InvalidValue(f"has {name} twice (drop one of the two)")
        counts[name] = int(number)
    *above, last = counts
    if last != _HOST:
        raise InvalidValue(f"ends with {last}, must end with the number of hosts (add {_HOST}=8)")
    if len(counts) > _MAX_LEVELS:
        raise InvalidValue(f"has {len(counts)} levels, must have at most {_MAX_LEVELS}")
    topology = NodeTopology(tuple(_level(name, counts[name]) for name in above), counts[last])
    if len({level.label for level in topology.levels}) < len(above):
        raise InvalidValue(f"has two levels with the same label (write {EXAMPLE})")
    if topology.nodes > MOST_NODES:
        raise InvalidValue(f"makes {topology.nodes} nodes, must make at most {MOST_NODES}")
    return topology


def _level(name: str, count: int) -> FleetLevel:
    label = name if "/" in name else f"{_LEVEL_PREFIX}{name}"
    if not is_qualified_name(label) or label == HOSTNAME:
        raise InvalidValue(f"has {name!r}, which is neither a word nor a node label (write {EXAMPLE})")
    # Values of the label begin with this, and have a number for each level.
    short = label.rpartition("/")[2].removeprefix("topology-")[:_PREFIX_CHARACTERS].strip("-_.")
    return FleetLevel(label, short, count)


def _short_name(label: str) -> str:
    name = label.removeprefix(_LEVEL_PREFIX)
    return label if "/" in name else name


def decode_node_topology(field: Field) -> NodeTopology:
    return parse_node_topology(decode_text(field))
