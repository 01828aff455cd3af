"""Manifests of the witness: a Deployment of one replica, its Service, and its RBAC rules.

The witness reads pods, limits and nodes, and writes events.  It shares the Configuration of the controllers,
because the resources that count are defined there.
"""

from collections.abc import Iterator
from typing import Final

from quorate.api.codec import Json
from quorate.api.kueue import GROUP
from quorate.install import manifest_builders
from quorate.install.controller_rules import JOB_PLURALS, PolicyRule
from quorate.install.controllers import CONFIGURATION, CONFIGURATION_FILE
from quorate.install.manifest_builders import Component
from quorate.install.roles import account_roles

WITNESS_RULES: Final = (
    PolicyRule("summing what pods use", "", ("pods",), ("list", "watch")),
    PolicyRule("comparing pods with their nodes", "", ("nodes",), ("list", "watch")),
    PolicyRule("limits, and the queue of each workload", GROUP, ("clusterqueues", "cohorts", "workloads"),
               ("list", "watch")),
    PolicyRule("devices that pods claim", "resource.k8s.io", ("resourceclaims", "resourceslices"),
               ("list", "watch")),
    *(
        PolicyRule("the job that owns a job with pods", group, plurals, ("get",))
        for group, plurals in sorted(JOB_PLURALS.items())
    ),
    PolicyRule("the set that owns pods", "apps", ("replicasets", "statefulsets"), ("get",)),
    PolicyRule("recording events", "events.k8s.io", ("events",), ("create", "get", "patch")),
    PolicyRule("authenticating clients of metrics", "authentication.k8s.io", ("tokenreviews",), ("create",)),
    PolicyRule("authorizing clients of metrics", "authorization.k8s.io",
               ("subjectaccessreviews",), ("create",)),
)  # fmt: skip

ACCOUNT: Final = "quorate-witness"
HEALTH_PORT: Final = 8081
METRICS_PORT: Final = 8443
WITNESS: Final = Component(
    ACCOUNT, "witness", {"health": HEALTH_PORT, "metrics": METRICS_PORT}, metrics="witness-metrics"
)


def roles(namespace: str) -> Iterator[Json]:
    """Yield the roles of the witness, and their bindings to its service account."""
    return account_roles(ACCOUNT, ACCOUNT, WITNESS_RULES, namespace)


def workload(namespace: str, image: str) -> Iterator[Json]:
    yield WITNESS.service_account(namespace)
    args = [
        "witness",
        "--config", f"/etc/quorate/{CONFIGURATION_FILE}",
        "--health-address", f":{HEALTH_PORT}",
        "--metrics-address", f":{METRICS_PORT}",
        "--log-format", "json",
    ]  # fmt: skip
    resources = {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    container = WITNESS.container(image, args, resources)
    volumes = [manifest_builders.configuration_volume(CONFIGURATION), manifest_builders.TMP_VOLUME]
    pod = {"containers": [container], "volumes": volumes}
    yield WITNESS.deployment(namespace, pod)


def service(namespace: str) -> Json:
    return WITNESS.service(ACCOUNT, namespace, "metrics", METRICS_PORT)
