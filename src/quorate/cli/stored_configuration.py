"""The Configuration in force, which the controllers store in the cluster for the commands that judge by it.

The controllers that decide write it into a ConfigMap of ``kube-public``, a namespace that every cluster has,
so that a command finds it wherever the controllers are installed or run.  It differs from the file of an
installation: an invalid file is ignored, some fields take effect at a restart, and a process may have another
file.  A Configuration contains names of Secrets and no secret; comments are left out.
"""

from typing import Final

import yaml

from quorate import __version__
from quorate.api.decoding.documents import read_documents
from quorate.api.meta import Key, micro_time
from quorate.cli.configuration_reload import ConfigurationInForce
from quorate.cli.deployment.controllers import CONFIGURATION_FILE
from quorate.cli.deployment.roles import IN_FORCE, NAME_LABEL
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.errors import ApiError, Unreachable, Unreadable
from quorate.kube.log import logger
from quorate.kube.resources import CONFIG_MAPS
from quorate.observe.replica import Replica

KEY: Final = Key("kube-public", IN_FORCE)
NEEDS_RESTART: Final = "needs-restart"
POLL_INTERVAL_S: Final = 1.0
RETRY_S: Final = 30.0


async def store_in_force(
    client: Client, clock: Clock, replica: Replica, in_force: ConfigurationInForce
) -> None:
    """Store the configuration while this replica decides, and store every change of it, until cancelled.

    Followers write nothing.  A failure is logged once and retried: the commands judge by another source.
    """
    stored: dict[str, str] = {}
    logged = ""
    while True:
        wait_s = POLL_INTERVAL_S
        decides = replica.ready.is_set() and replica.role != "follower"
        wanted = content(in_force.text, in_force.needs_restart)
        if not decides:
            stored = {}  # another replica may store its own
        elif wanted != stored:
            try:
                await _store(client, wanted, clock.now())
                stored = wanted
            except (ApiError, Unreachable, Unreadable) as error:
                wait_s = RETRY_S
                if str(error) != logged:
                    logged = str(error)
                    logger(__name__).warning(
                        "configuration not stored for commands", configmap=KEY, error=logged
                    )
        await clock.sleep_until(clock.now() + wait_s)


def content(text: str, needs_restart: tuple[str, ...]) -> dict[str, str]:
    """Return the data of the ConfigMap for a valid file, without its comments."""
    (document,) = read_documents(text)
    plain = yaml.safe_dump(document.value, sort_keys=False)
    return {CONFIGURATION_FILE: plain, NEEDS_RESTART: ", ".join(needs_restart)}


async def _store(client: Client, data: dict[str, str], now: float) -> None:
    labelled = {
        "metadata": {"labels": NAME_LABEL},
        "data": {**data, "stored-by": f"quorate {__version__}", "stored-at": micro_time(now)},
    }
    await client.apply(CONFIG_MAPS, KEY, labelled)
