"""The plugins a session can be configured to ask, by their names in the configuration."""

from collections.abc import Callable, Mapping
from typing import Final

from quorate.api.scheduler_configuration import PluginEntry
from quorate.gang.policy import Policy
from quorate.gang.session import Session

PLUGINS: Final[Mapping[str, Callable[[Session, PluginEntry], Policy]]] = {}
