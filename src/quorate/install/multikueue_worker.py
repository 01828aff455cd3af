"""Manifests for a worker cluster of MultiKueue: the account with which a manager works in it.

The manager creates jobs and copies of workloads, watches them, and deletes them.  It reads queues to estimate
when a job would start.  The token of the account goes into a kubeconfig, which a Secret of the manager holds.
"""

from collections.abc import Iterator
from typing import Final

from quorate.api import explanation, quorate, volcano
from quorate.api.codec import Json
from quorate.api.kueue import GROUP
from quorate.api.volcano import job as volcano_job
from quorate.install.controller_rules import JOB_PLURALS, READ, PolicyRule
from quorate.install.roles import account_roles, manifest, metadata

ACCOUNT: Final = "quorate-multikueue-manager"
_WRITE: Final = (*READ, "create", "delete", "patch")
MANAGER_RULES: Final = (
    PolicyRule("copies of workloads", GROUP, ("workloads",), _WRITE),
    PolicyRule("preemption gates and evictions of copies", GROUP, ("workloads/status",), ("patch",)),
    *(
        PolicyRule("jobs of admitted copies", group, plurals, _WRITE)
        for group, plurals in sorted(JOB_PLURALS.items())
    ),
    PolicyRule("pods of admitted copies", "", ("pods",), _WRITE),
    PolicyRule("Volcano Jobs of admitted copies", volcano_job.GROUP, ("jobs",), _WRITE),
    PolicyRule("pod groups of admitted copies", volcano.GROUP, ("podgroups",), _WRITE),
    PolicyRule("estimates of starts", GROUP, ("clusterqueues", "localqueues", "cohorts", "resourceflavors"),
               READ),
    PolicyRule("estimates of starts", GROUP, ("admissionchecks", "topologies"), READ),
    PolicyRule("estimates of starts", quorate.GROUP, ("reservations",), READ),
    PolicyRule("estimates of starts", "", ("namespaces", "nodes"), READ),
    PolicyRule("estimates of starts", explanation.GROUP, (explanation.ESTIMATES,), ("list", "create")),
)  # fmt: skip


def account(namespace: str) -> Iterator[Json]:
    """Yield the service account of a manager, its roles, and the Secret that gets its token."""
    yield manifest("v1", "ServiceAccount", metadata(ACCOUNT, namespace))
    yield from account_roles(ACCOUNT, ACCOUNT, MANAGER_RULES, namespace)
    secret = metadata(ACCOUNT, namespace)
    secret["annotations"] = {"kubernetes.io/service-account.name": ACCOUNT}
    yield {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/service-account-token",
        "metadata": secret,
    }


def manager_kubeconfig(server: str, token: str, authority: str) -> Json:
    """Return the kubeconfig of a manager; ``authority`` is the certificate of the server in base64."""
    name = "worker"
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": server, "certificate-authority-data": authority}}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
