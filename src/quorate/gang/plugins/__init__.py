"""The plugins of sessions, by their names in the configuration."""

from collections.abc import Callable, Mapping
from typing import Final

from quorate.api.scheduler_configuration import PluginEntry
from quorate.gang.plugins.capacity import capacity
from quorate.gang.plugins.cdp import cdp
from quorate.gang.plugins.conformance import conformance
from quorate.gang.plugins.drf import drf
from quorate.gang.plugins.gang import gang
from quorate.gang.plugins.nodegroup import nodegroup
from quorate.gang.plugins.overcommit import overcommit
from quorate.gang.plugins.pdb import pdb
from quorate.gang.plugins.placement import binpack, network_topology_aware, nodeorder, predicates
from quorate.gang.plugins.priority import priority
from quorate.gang.plugins.proportion import proportion
from quorate.gang.plugins.resourcequota import resourcequota
from quorate.gang.plugins.sla import sla
from quorate.gang.session.callbacks import PluginCallbacks
from quorate.gang.session.session import Session

PLUGINS: Final[Mapping[str, Callable[[Session, PluginEntry], PluginCallbacks]]] = {
    "binpack": binpack,
    "capacity": capacity,
    "cdp": cdp,
    "conformance": conformance,
    "drf": drf,
    "gang": gang,
    "nodegroup": nodegroup,
    "network-topology-aware": network_topology_aware,
    "nodeorder": nodeorder,
    "overcommit": overcommit,
    "pdb": pdb,
    "predicates": predicates,
    "priority": priority,
    "proportion": proportion,
    "resourcequota": resourcequota,
    "sla": sla,
}
