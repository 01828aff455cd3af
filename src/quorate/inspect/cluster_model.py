"""The queueing model of a cluster for commands that explain: its Configuration and its state, loaded once.

The controllers evaluate the same model with the same cycle; a command never writes its result.
"""

from collections.abc import Iterator, Mapping
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
from quorate.controllers.topology.node_feeds import load_model
from quorate.inspect.configuration_files import read_configuration
from quorate.install.controllers import (
    CONFIGURATION,
    CONFIGURATION_FILE,
    IN_FORCE_KEY,
    KUEUE_CONFIGURATION,
    NEEDS_RESTART,
)
from quorate.kube.client import Client
from quorate.kube.errors import Forbidden, NotFound
from quorate.kube.resources import CONFIG_MAPS
from quorate.queueing.decisions import Decision
from quorate.queueing.scheduling.cycle import AdmissionCycle
from quorate.queueing.state import State

# Quorate's ConfigMap before Kueue's, which a migrated cluster may still use.
CONFIG_MAPS_TO_TRY: Final = tuple(
    Key(DEFAULT_NAMESPACE, name) for name in (CONFIGURATION, KUEUE_CONFIGURATION)
)


@dataclass(frozen=True, slots=True)
class EffectiveConfiguration:
    configuration: Configuration
    origin: str  # the file or ConfigMap, for messages
    text: str = ""  # in YAML; empty: the defaults


async def effective_configuration(client: Client, path: Path | None) -> EffectiveConfiguration:
    """Return the Configuration of a file or of the controllers; the defaults if neither can be read.

    The controllers store the Configuration in force; without it the Configuration of an installation counts.
    Raises ``InvalidFiles`` for an invalid file.
    """
    if path is not None:
        return _of_file(path)
    problems: list[str] = []
    for key in (IN_FORCE_KEY, *CONFIG_MAPS_TO_TRY):
        try:
            data = (await client.get(CONFIG_MAPS, key)).data
        except NotFound:
            continue
        except Forbidden:
            problems.append(f"no permission to get ConfigMap {key}")
            continue
        try:
            text = data.get(CONFIGURATION_FILE, "")
            configuration = load_configuration(text).configuration
        except InvalidConfiguration as error:
            problems.append(f"ConfigMap {key}: {error.findings[0]}")
            break
        remarks = "; ".join([*problems, *(_remarks(data) if key == IN_FORCE_KEY else ())])
        return EffectiveConfiguration(
            configuration, f"ConfigMap {key}{f' ({remarks})' if remarks else ''}", text
        )
    reason = "; ".join(problems) or f"no ConfigMap {CONFIG_MAPS_TO_TRY[0]}"
    return EffectiveConfiguration(
        default_configuration(), f"the defaults ({reason}; --config FILE sets another)"
    )


def _of_file(path: Path) -> EffectiveConfiguration:
    return EffectiveConfiguration(read_configuration(path).configuration, str(path), path.read_text())


def _remarks(stored: Mapping[str, str]) -> Iterator[str]:
    """Yield what to know about a configuration that the controllers have stored."""
    yield f"stored by {stored.get('stored-by', 'another client')} at {stored.get('stored-at', '?')}"
    if waiting := stored.get(NEEDS_RESTART):
        yield f"these fields need a restart of the controllers: {waiting}"


_MAX_CYCLES: Final = 10_000  # each decides on hundreds of workloads; stop evaluating a larger backlog


async def load_state(client: Client, configuration: Configuration, now: float) -> State:
    """Return the model that a controller process would have if it started now."""
    state = State(configuration)
    await load_model(client, state, now)
    return state


def evaluate_all(state: State, now: float) -> dict[Key, Decision]:
    """Return the decision on every workload, as if each cycle's decisions were written to ``state``."""
    decided: dict[Key, Decision] = {}
    admission_cycle = AdmissionCycle(state)
    for _ in range(_MAX_CYCLES):
        cycle = admission_cycle.run(now)
        decided |= {decision.key: decision for decision in cycle.decisions}
        if cycle.wake_at != now:
            break
    return decided
