"""By which Configuration a verb judges: the one it is given, or else the one the controllers have."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quorate.api.configuration import (
    DEFAULT_NAMESPACE,
    Configuration,
    default_configuration,
    load_configuration,
)
from quorate.api.decoding.strict import InvalidConfiguration
from quorate.api.meta import Key
from quorate.cli.deployment.controllers import CONFIGURATION, CONFIGURATION_FILE
from quorate.cli.files import read_configuration
from quorate.kube.client import Client
from quorate.kube.errors import Forbidden, NotFound
from quorate.kube.resources import CONFIG_MAPS

# Ours before Kueue's: who came from there may have kept its ConfigMap.
PLACES: Final = tuple(Key(DEFAULT_NAMESPACE, name) for name in (CONFIGURATION, "kueue-manager-config"))


@dataclass(frozen=True, slots=True)
class ConfigurationInForce:
    configuration: Configuration
    origin: str  # in words


async def configuration_in_force(client: Client, path: Path | None) -> ConfigurationInForce:
    """Raises ``InvalidFiles`` for a file; what cannot be had from the cluster leaves the defaults."""
    if path is not None:
        return ConfigurationInForce(read_configuration(path).configuration, str(path))
    for key in PLACES:
        try:
            text = (await client.get(CONFIG_MAPS, key)).data.get(CONFIGURATION_FILE, "")
        except NotFound:
            continue
        except Forbidden:
            return _defaults(f"ConfigMap {key} is not yours to read")
        try:
            return ConfigurationInForce(load_configuration(text).configuration, f"ConfigMap {key}")
        except InvalidConfiguration as error:
            return _defaults(f"ConfigMap {key}: {error.findings[0]}")
    return _defaults(f"there is no ConfigMap {PLACES[0]}")


def _defaults(why: str) -> ConfigurationInForce:
    return ConfigurationInForce(default_configuration(), f"the defaults ({why}; --config FILE gives another)")
