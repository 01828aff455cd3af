"""What the plugins that a Volcano Job names add to its pods, and what else they need.

Names, ports, paths and variables are Volcano's (v1.15); the programs in the pods read them.  A plugin is
made for one completed job.  It composes; whoever carries out creates.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from quorate.api.volcano.job import Job
from quorate.controllers.volcano.job.plugins.environment import EnvPlugin
from quorate.controllers.volcano.job.plugins.hccl import HcclRankPlugin
from quorate.controllers.volcano.job.plugins.interface import Plugin
from quorate.controllers.volcano.job.plugins.keys import SshPlugin
from quorate.controllers.volcano.job.plugins.mpi import MpiPlugin
from quorate.controllers.volcano.job.plugins.pytorch import PytorchPlugin
from quorate.controllers.volcano.job.plugins.ray import RayPlugin
from quorate.controllers.volcano.job.plugins.service import SvcPlugin
from quorate.controllers.volcano.job.plugins.tensorflow import TensorflowPlugin

__all__ = ["KNOWN", "Plugin", "plugins_of"]

# In the order in which they dress a pod: the last reads what others have put into it.
KNOWN: Final[Mapping[str, Callable[[Job, Sequence[str]], Plugin]]] = {
    "env": EnvPlugin,
    "mpi": MpiPlugin,
    "pytorch": PytorchPlugin,
    "ray": RayPlugin,
    "ssh": SshPlugin,
    "svc": SvcPlugin,
    "tensorflow": TensorflowPlugin,
    "hcclrank": HcclRankPlugin,
}


def plugins_of(job: Job) -> tuple[list[Plugin], list[str]]:
    """The plugins of a completed job in the order of ``KNOWN``, and the names that are not known."""
    named = job.spec.plugins
    plugins = [make(job, named[name]) for name, make in KNOWN.items() if name in named]
    return plugins, sorted(named.keys() - KNOWN.keys())
