"""Job plugins: what they add to the pods of a Volcano Job, and the objects they need.

Names, ports, paths and variables are Volcano's (v1.15): programs in the pods read them.  A plugin is created
for one defaulted job.  It only composes manifests; the job controller writes them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from quorate.api.volcano.job import Job
from quorate.controllers.volcano.job.plugins.distributed_frameworks import (
    HcclRankPlugin,
    MpiPlugin,
    PytorchPlugin,
    RayPlugin,
    TensorflowPlugin,
)
from quorate.controllers.volcano.job.plugins.env_ssh_svc import EnvPlugin, SshPlugin, SvcPlugin
from quorate.controllers.volcano.job.plugins.interface import Plugin

__all__ = ["KNOWN", "Plugin", "plugins_of"]

# In the order of their on_pod_create: hcclrank reads a variable that the plugins before it may have set.
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
    """Return the plugins of a defaulted job in the order of ``KNOWN``, and the unknown names."""
    named = job.spec.plugins
    plugins = [make(job, named[name]) for name, make in KNOWN.items() if name in named]
    return plugins, sorted(named.keys() - KNOWN.keys())
