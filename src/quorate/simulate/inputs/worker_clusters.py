"""Worker clusters as a scenario states them.

clusters:                       # in the configured order
- {name: east, share: 0.5}      # half of each quota and of each pool of nodes
- name: west
  share: 0.25
  nodes: [{name: gpu, count: 2, capacity: {cpu: 64}}]
  manifests: west.yaml          # objects of this cluster, beside the scenario
dispatchers: [Incremental, EarliestStart]
"""

from typing import Final

import msgspec

from quorate.api.decoding import strict as d
from quorate.simulate.inputs.node_pools import NodePool, node_pools, short_name

ALL_AT_ONCE: Final = "AllAtOnce"
INCREMENTAL: Final = "Incremental"
EARLIEST_START: Final = "EarliestStart"
DISPATCHERS: Final = (ALL_AT_ONCE, INCREMENTAL, EARLIEST_START)
MAX_CLUSTERS: Final = 20  # that can be nominated at once
MAX_SHARE: Final = 1_000.0


class WorkerCluster(msgspec.Struct, frozen=True):
    """A cluster that runs jobs of the manager."""

    name: str
    share: float = 1.0  # of each quota, and of the nodes of each pool, beside the scenario
    nodes: tuple[NodePool, ...] | None = None  # None: its share of the pools of the scenario
    manifests: str = ""  # a file or directory beside the scenario, applied after ``share``


def worker_clusters(field: d.Field) -> tuple[WorkerCluster, ...]:
    """Decode ``clusters``."""
    clusters = d.list_of(d.section(_worker_cluster), minimum=1, maximum=MAX_CLUSTERS)(field)
    _reject_double([cluster.name for cluster in clusters], "give each cluster a name of its own")
    return clusters


def dispatchers(field: d.Field) -> tuple[str, ...]:
    """Decode ``dispatchers``."""
    names = d.list_of(d.choice(DISPATCHERS), minimum=1)(field)
    _reject_double(list(names), "each is played once")
    return names


def _reject_double(names: list[str], hint: str) -> None:
    double = next((name for name in names if names.count(name) > 1), None)
    if double is not None:
        raise d.InvalidValue(f"has {double} twice ({hint})")


def _worker_cluster(fields: d.Section) -> WorkerCluster:
    fields.require("name", hint="write a short name, such as east")
    return WorkerCluster(
        name=fields.take("name", short_name, ""),
        share=fields.take("share", _share, 1.0),
        nodes=fields.take("nodes", node_pools, None),
        manifests=fields.take("manifests", d.text, ""),
    )


_share = d.satisfying(
    d.number,
    lambda value: 0 < value <= MAX_SHARE,
    f"is not above 0 and at most {MAX_SHARE:g} (write 0.5 for half of each quota)",
)
