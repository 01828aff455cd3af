"""What the plugins that a Volcano Job names add to its pods, and what else they need.

Names, ports, paths and variables are Volcano's (v1.15); the programs in the pods read them.  A plugin is
made for one completed job.  It composes; whoever carries out creates.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from quorate.api.volcano_job import Job
from quorate.controllers.volcano.plugins.environment import Environment
from quorate.controllers.volcano.plugins.keys import Keys
from quorate.controllers.volcano.plugins.mpi import Mpi
from quorate.controllers.volcano.plugins.plugin import Plugin
from quorate.controllers.volcano.plugins.pytorch import Pytorch
from quorate.controllers.volcano.plugins.ray import Ray
from quorate.controllers.volcano.plugins.service import Service
from quorate.controllers.volcano.plugins.tensorflow import Tensorflow

__all__ = ["KNOWN", "Plugin", "plugins_of"]

KNOWN: Final[Mapping[str, Callable[[Job, Sequence[str]], Plugin]]] = {
    "env": Environment,
    "svc": Service,
    "ssh": Keys,
    "pytorch": Pytorch,
    "tensorflow": Tensorflow,
    "mpi": Mpi,
    "ray": Ray,
}


def plugins_of(job: Job) -> tuple[list[Plugin], list[str]]:
    """The plugins of a completed job in the order of their names, and the names that are not known."""
    named = sorted(job.spec.plugins.items())
    unknown = [name for name, _ in named if name not in KNOWN]
    return [KNOWN[name](job, arguments) for name, arguments in named if name in KNOWN], unknown
