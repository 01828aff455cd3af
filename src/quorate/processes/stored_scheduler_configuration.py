"""Storing the gang scheduler's configuration in force in the cluster, for what judges by it.

The process of the gang scheduler imports this module, and nothing of the controllers.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import yaml

from quorate.api.decoding.documents import read_documents
from quorate.api.meta import Key, micro_time
from quorate.api.scheduler_configuration import in_force
from quorate.install.labels import NAME_LABEL
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.errors import RequestFailed
from quorate.kube.log import logger
from quorate.kube.resources import CONFIG_MAPS
from quorate.version import VERSION

if TYPE_CHECKING:  # it imports the gang core, which the controllers do not run
    from quorate.scheduler.observer import SchedulerStatus

POLL_INTERVAL_S: Final = 1.0
RETRY_S: Final = 30.0


async def store_scheduler_in_force(
    client: Client, clock: Clock, status: "SchedulerStatus", text: Callable[[], str]
) -> None:
    """Store the configuration of the gang scheduler; see ``keep_stored``."""

    def decides() -> bool:
        return status.ready.is_set() and status.model is not None

    await keep_stored(client, clock, in_force.KEY, decides, lambda: {in_force.FILE: plain(text())})


async def keep_stored(
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
            except RequestFailed as error:
                wait_s = RETRY_S
                if str(error) != logged:
                    logged = str(error)
                    logger(__name__).warning(
                        "configuration not stored for commands", configmap=key, error=logged
                    )
        await clock.sleep_until(clock.now() + wait_s)


@lru_cache(maxsize=4)  # ``keep_stored`` asks every second
def plain(text: str) -> str:
    """Return a valid configuration without its comments."""
    (document,) = read_documents(text)
    return yaml.safe_dump(document.value, sort_keys=False)


async def _store(client: Client, key: Key, data: dict[str, str], now: float) -> None:
    labelled = {
        "metadata": {"labels": NAME_LABEL},
        "data": {**data, "stored-by": f"quorate {VERSION}", "stored-at": micro_time(now)},
    }
    await client.apply(CONFIG_MAPS, key, labelled)
