"""What a new Configuration changes in a process that runs: at once, or only once it is started anew.

Whatever the controllers decide by can change: they build their model anew, as at every start.  What was
opened, or agreed on with others, when the process began stays as it was until the next begins.
"""

from typing import Final

import msgspec

from quorate.api.configuration import Configuration

# Fields of the struct by those of the file.
RESTART_FIELDS: Final = {
    "clientConnection": "client_connection",
    "health": "health",
    "internalCertManagement": "certificates",
    "leaderElection": "leader_election",
    "metrics": "metrics",
    "namespace": "namespace",
    "podGroupWebhooks": "pod_group_webhooks",
    "tls": "tls",
    "visibilityServer": "visibility",
    "webhook": "webhooks",
}
_WEBHOOK_GATES: Final = "featureGates, for webhooks"


def apply_reload(running: Configuration, new: Configuration) -> tuple[Configuration, tuple[str, ...]]:
    """What to go on with, and the fields of the file whose new values have to wait for a restart."""
    kept = {name: getattr(running, name) for name in (*RESTART_FIELDS.values(), "webhook_gates")}
    waiting = [field for field, name in RESTART_FIELDS.items() if getattr(new, name) != kept[name]]
    if new.webhook_gates != running.webhook_gates:
        waiting.append(_WEBHOOK_GATES)
    return msgspec.structs.replace(new, **kept), tuple(waiting)
