"""What replaces the values of every kubeconfig that is loaded, as the command line says."""

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Overrides:
    """An empty value replaces nothing."""

    server: str = ""
    token: str = field(default="", repr=False)
    user: str = ""  # for which requests are made, with ``groups``
    groups: tuple[str, ...] = ()


OVERRIDES: Final = ContextVar("OVERRIDES", default=Overrides())  # noqa: B039  it is frozen
