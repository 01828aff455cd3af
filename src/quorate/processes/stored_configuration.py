"""The Configuration in force, which the controllers store in the cluster for the commands that judge by it.

The controllers that decide write it into a ConfigMap of ``kube-public``, a namespace that every cluster has,
so that a command finds it wherever the controllers are installed or run.  It differs from the file of an
installation: an invalid file is ignored, some fields take effect at a restart, and a process may have another
file.  A Configuration contains names of Secrets and no secret; comments are left out.
"""

from quorate.install.controllers import CONFIGURATION_FILE, IN_FORCE_KEY, NEEDS_RESTART
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.observe.replica import Replica
from quorate.processes.configuration_reload import ConfigurationInForce
from quorate.processes.stored_scheduler_configuration import keep_stored, plain


async def store_in_force(
    client: Client, clock: Clock, replica: Replica, in_force: ConfigurationInForce
) -> None:
    """Store the Configuration of the controllers; see ``keep_stored``."""

    def decides() -> bool:
        return replica.ready.is_set() and replica.role != "follower"

    await keep_stored(
        client, clock, IN_FORCE_KEY, decides, lambda: content(in_force.text, in_force.needs_restart)
    )


def content(text: str, needs_restart: tuple[str, ...]) -> dict[str, str]:
    """Return the data of the ConfigMap for a valid file, without its comments."""
    return {CONFIGURATION_FILE: plain(text), NEEDS_RESTART: ", ".join(needs_restart)}
