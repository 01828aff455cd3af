"""Quorate decides which batch jobs may start, when, and where.

The Python API is here: ``Scenario`` and ``simulate`` play jobs through queues; ``Cluster``, ``submit``,
``wait`` and ``explain`` work on a cluster.  Their modules are imported at first use.
"""

from typing import TYPE_CHECKING, Any

from quorate.version import VERSION

if TYPE_CHECKING:
    from quorate.sdk.api import Cluster, InvalidWorld, Scenario, explain, simulate, submit, wait

__all__ = ["Cluster", "InvalidWorld", "Scenario", "__version__", "explain", "simulate", "submit", "wait"]
__version__ = VERSION


def __dir__() -> list[str]:
    """Return the public names only, which is what Tab completes."""
    return sorted(__all__)


if not TYPE_CHECKING:  # for a type checker, any other name is an error

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        if name == "simulate":  # a package that can be called, see there
            return import_module("quorate.simulate")
        return getattr(import_module("quorate.sdk.api"), name)
