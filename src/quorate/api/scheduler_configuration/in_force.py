"""The scheduler's configuration in force, which the gang scheduler stores in a ConfigMap.

Webhooks and commands judge by it.  It is in ``kube-public``, a namespace that every cluster has, so that they
find it wherever the scheduler is installed or runs.
"""

from collections.abc import Mapping
from typing import Final

from quorate.api.decoding.strict import InvalidConfiguration
from quorate.api.meta import Key
from quorate.api.scheduler_configuration import load_scheduler_configuration

NAMESPACE: Final = "kube-public"
NAME: Final = "quorate-scheduler-configuration-in-force"
KEY: Final = Key(NAMESPACE, NAME)
FILE: Final = "volcano-scheduler.conf"  # the key of the text, as in Volcano's ConfigMap


def admits_groups(stored: Mapping[str, str]) -> bool:
    """Return False if the scheduler has no action ``enqueue``, so that it admits groups without a check.

    ``stored``: the data of the ConfigMap.  Data that cannot be read counts as the default configuration.
    """
    try:
        return "enqueue" in load_scheduler_configuration(stored.get(FILE, "")).configuration.actions
    except InvalidConfiguration:
        return True
