"""The configuration in force, which a process stores in the cluster for what judges by it.

The controllers that decide store their Configuration in a ConfigMap of ``kube-public``, a namespace that
every cluster has, so that a command finds it wherever the controllers are installed or run.  The gang
scheduler does the same.  What is stored differs from the file of an
installation: an invalid file is ignored, some fields take effect at a restart, and a process may have another
file.  A Configuration contains names of Secrets and no secret; comments are left out.
"""

from collections.abc import Callable
from typing import Final

import yaml

from quorate import __version__
from quorate.api.decoding.documents import read_documents
from quorate.api.meta import Key, micro_time
from quorate.api.scheduler_configuration import in_force as scheduler_in_force
from quorate.cli.configuration_reload import ConfigurationInForce
from quorate.cli.deployment.controllers import CONFIGURATION_FILE
from quorate.cli.deployment.roles import IN_FORCE, NAME_LABEL
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.errors import ApiError, Unreachable, Unreadable
from quorate.kube.log import logger
from quorate.kube.resources import CONFIG_MAPS
from quorate.observe.replica import Replica
from quorate.scheduler.observer import SchedulerStatus

KEY: Final = Key("kube-public", IN_FORCE)
SCHEDULER_KEY: Final = Key(scheduler_in_force.NAMESPACE, scheduler_in_force.NAME)
NEEDS_RESTART: Final = "needs-restart"
POLL_INTERVAL_S: Final = 1.0
RETRY_S: Final = 30.0


async def store_in_force(
    client: Client, clock: Clock, replica: Replica, in_force: ConfigurationInForce
) -> None:
    """Store the Configuration of the controllers; see ``_keep_stored``."""

    def decides() -> bool:
        return replica.ready.is_set() and replica.role != "follower"

    await _keep_stored(client, clock, KEY, decides, lambda: content(in_force.text, in_force.needs_restart))


async def store_scheduler_in_force(
    client: Client, clock: Clock, status: SchedulerStatus, text: Callable[[], str]
) -> None:
    """Store the configuration of the gang scheduler; see ``_keep_stored``."""

    def decides() -> bool:
        return status.ready.is_set() and status.model is not None

    await _keep_stored(
        client, clock, SCHEDULER_KEY, decides, lambda: {scheduler_in_force.FILE: _plain(text())}
    )


async def _keep_stored(
    client: Client, clock: Clock, key: Key, decides: Callable[[], bool], content: Callable[[], dict[str, str]]
) -> None:
    """Store ``content`` while this replica decides, and store every change of it, until cancelled.

    Followers write nothing.  A failure is logged once and retried: readers judge by another source.
    """
    stored: dict[str, str] = {}
    logged = ""
    while True:
        wait_s = POLL_INTERVAL_S
        wanted = content()
        if not decides():
            stored = {}  # another replica may store its own
        elif wanted != stored:
            try:
                await _store(client, key, wanted, clock.now())
                stored = wanted
            except (ApiError, Unreachable, Unreadable) as error:
                wait_s = RETRY_S
                if str(error) != logged:
                    logged = str(error)
                    logger(__name__).warning(
                        "configuration not stored for commands", configmap=key, error=logged
                    )
        await clock.sleep_until(clock.now() + wait_s)


def content(text: str, needs_restart: tuple[str, ...]) -> dict[str, str]:
    """Return the data of the ConfigMap for a valid file, without its comments."""
    return {CONFIGURATION_FILE: _plain(text), NEEDS_RESTART: ", ".join(needs_restart)}


def _plain(text: str) -> str:
    (document,) = read_documents(text)
    return yaml.safe_dump(document.value, sort_keys=False)


async def _store(client: Client, key: Key, data: dict[str, str], now: float) -> None:
    labelled = {
        "metadata": {"labels": NAME_LABEL},
        "data": {**data, "stored-by": f"quorate {__version__}", "stored-at": micro_time(now)},
    }
    await client.apply(CONFIG_MAPS, key, labelled)
