"""The actions a session can be configured to run, by their names in the configuration."""

from collections.abc import Callable, Mapping
from typing import Final

from quorate.gang.session import Session

ACTIONS: Final[Mapping[str, Callable[[Session], None]]] = {}
