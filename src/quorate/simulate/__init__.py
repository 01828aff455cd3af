"""Simulation: recorded or generated jobs played through the cores in virtual time.

Entry points: ``world.read_world`` for the input, ``player.play`` for one run, ``summary.summarize`` for its
figures and ``comparison.compare`` for those of two runs.  No rule of admission or placement is
implemented here.  Imports ``api``, ``queueing``, ``gang``, ``quota``, ``kube`` and what ``controllers`` and
``scheduler`` feed to the models.
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
