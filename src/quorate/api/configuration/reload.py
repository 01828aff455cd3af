"""Which fields of a changed Configuration a running process applies, and which need a restart.

Fields that controllers decide by are applied by rebuilding their model, as at startup. Listening sockets and
settings shared with other replicas keep their values until a restart.
"""

from typing import Final

import msgspec

from quorate.api.configuration import Configuration

# Fields of the file, and the corresponding attributes of ``Configuration``.
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
    """Return the configuration to use now, and the fields of the file that need a restart."""
    kept = {name: getattr(running, name) for name in (*RESTART_FIELDS.values(), "webhook_gates")}
    waiting = [field for field, name in RESTART_FIELDS.items() if getattr(new, name) != kept[name]]
    if new.webhook_gates != running.webhook_gates:
        waiting.append(_WEBHOOK_GATES)
    return msgspec.structs.replace(new, **kept), tuple(waiting)
