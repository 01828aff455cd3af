"""What the plugins that a Volcano Job names add to its pods, and what else they need.

Names, ports, paths and variables are Volcano's (v1.15); the programs in the pods read them.  A plugin is
made for one completed job.  It composes; whoever carries out creates.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from quorate.api.volcano_job import Job
from quorate.controllers.volcano.job.plugins.environment import Environment
from quorate.controllers.volcano.job.plugins.hccl import HcclRank
from quorate.controllers.volcano.job.plugins.interface import Plugin
from quorate.controllers.volcano.job.plugins.keys import Keys
from quorate.controllers.volcano.job.plugins.mpi import Mpi
from quorate.controllers.volcano.job.plugins.pytorch import Pytorch
from quorate.controllers.volcano.job.plugins.ray import Ray
from quorate.controllers.volcano.job.plugins.service import Service
from quorate.controllers.volcano.job.plugins.tensorflow import Tensorflow

__all__ = ["KNOWN", "Plugin", "plugins_of"]

# In the order in which they dress a pod: the last reads what others have put into it.
KNOWN: Final[Mapping[str, Callable[[Job, Sequence[str]], Plugin]]] = {
    "env": Environment,
    "mpi": Mpi,
    "pytorch": Pytorch,
    "ray": Ray,
    "ssh": Keys,
    "svc": Service,
    "tensorflow": Tensorflow,
    "hcclrank": HcclRank,
}


def plugins_of(job: Job) -> tuple[list[Plugin], list[str]]:
    """The plugins of a completed job in the order of ``KNOWN``, and the names that are not known."""
    named = job.spec.plugins
    plugins = [make(job, named[name]) for name, make in KNOWN.items() if name in named]
    return plugins, sorted(named.keys() - KNOWN.keys())
