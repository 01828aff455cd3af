"""Simulation: recorded or generated jobs played through the cores in virtual time.

Packages: ``inputs`` has the world and the jobs that are submitted, ``engine`` plays it, ``results`` has the
figures of runs, and ``estimates`` plays snapshots of a cluster to tell when workloads start.  No rule of
admission or placement is implemented here.  Imports ``api``, ``queueing``, ``gang``, ``quota``, ``kube`` and
what ``controllers`` and ``scheduler`` feed to the models.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Package(ModuleType):
    """This package has the name of the function ``quorate.simulate``, and calls it.

    Importing any module of the package makes it the attribute ``simulate`` of ``quorate``, whatever that was.
    """

    def __call__(self, *args: Any, **options: Any) -> Any:
        return import_module("quorate.sdk.api").simulate(*args, **options)


sys.modules[__name__].__class__ = _Package
