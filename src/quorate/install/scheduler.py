"""Manifests of the gang scheduler: a Deployment of two replicas with leader election, and its RBAC rules.

The scheduler binds pods, writes their conditions and deletes preempted ones.  It writes the status of pod
groups, which is not a subresource in Volcano's definition, and the node or volume chosen for a claim.
"""

from collections.abc import Iterator
from typing import Final

from quorate.api import kueue, native_groups, quorate, volcano
from quorate.api.codec import Json
from quorate.api.core import device_claims
from quorate.api.kueue import provisioning
from quorate.api.scheduler_configuration import DEFAULT_FILE, in_force
from quorate.api.volcano import topology as volcano_topology
from quorate.install import manifest_builders
from quorate.install.controller_rules import OWN, READ, PolicyRule
from quorate.install.manifest_builders import Component
from quorate.install.roles import account_roles

SCHEDULER_RULES: Final = (
    PolicyRule("reading pods", "", ("pods",), READ),
    PolicyRule("preempting pods", "", ("pods",), ("delete",)),
    PolicyRule("binding pods", "", ("pods/binding",), ("create",)),
    PolicyRule("writing conditions of pods", "", ("pods/status",), ("patch",)),
    PolicyRule("reading nodes", "", ("nodes",), READ),
    PolicyRule("namespaceSelector of pod affinity", "", ("namespaces",), READ),
    PolicyRule("reading volumes of pods", "", ("persistentvolumeclaims", "persistentvolumes"), READ),
    PolicyRule("binding volumes that wait for the first consumer", "",
               ("persistentvolumeclaims", "persistentvolumes"), ("patch",)),
    PolicyRule("volume topology and volume limits", "storage.k8s.io",
               ("storageclasses", "csinodes"), READ),
    PolicyRule("devices, and claims of pods for them", device_claims.GROUP,
               ("resourceclaims", "resourceslices", "deviceclasses"), READ),
    PolicyRule("protecting claims that get devices", device_claims.GROUP, ("resourceclaims",), ("patch",)),
    PolicyRule("allocating devices to claims", device_claims.GROUP,
               ("resourceclaims/status", "resourceclaims/binding"), ("patch",)),
    PolicyRule("writing the status of pod groups", volcano.GROUP, ("podgroups",), (*READ, "patch")),
    PolicyRule(
        "writing the status of pod groups as a subresource", volcano.GROUP, ("podgroups/status",),
        ("patch",),
    ),
    PolicyRule("reading Kubernetes' own pod groups", native_groups.GROUP, ("podgroups",), READ),
    PolicyRule("writing conditions of Kubernetes' own pod groups", native_groups.GROUP,
               ("podgroups/status",), ("patch",)),
    PolicyRule("reading queues, and creating the two default queues", volcano.GROUP, ("queues",),
               (*READ, "create")),
    PolicyRule("writing the status of queues", volcano.GROUP, ("queues/status",), ("patch",)),
    PolicyRule("reading the network topology", volcano_topology.GROUP, ("hypernodes",), READ),
    PolicyRule("nodes that Reservations keep", quorate.GROUP, ("reservations",), READ),
    PolicyRule("room that admitted workloads hold", kueue.GROUP, ("workloads",), READ),
    PolicyRule("checking ResourceQuotas of pod groups", "", ("resourcequotas",), READ),
    PolicyRule("reading priorities of pod groups", "scheduling.k8s.io", ("priorityclasses",), READ),
    PolicyRule("protecting pods by their budgets (plugin pdb)", "policy", ("poddisruptionbudgets",), READ),
    PolicyRule("recording events", "events.k8s.io", ("events",), ("create", "get", "patch")),
    PolicyRule("authenticating clients of metrics", "authentication.k8s.io", ("tokenreviews",), ("create",)),
    PolicyRule("authorizing clients of metrics", "authorization.k8s.io",
               ("subjectaccessreviews",), ("create",)),
    PolicyRule("storing the configuration in force", "", ("configmaps",), ("create", "patch"),
               in_force.NAMESPACE, (in_force.NAME,)),
    PolicyRule(
        "electing a leader", "coordination.k8s.io", ("leases",),
        ("get", "watch", "create", "patch"), OWN,
    ),
)  # fmt: skip
# For ``--provisioning-class`` only.
PROVISIONING_RULES: Final = (
    PolicyRule("creating ProvisioningRequests for pod groups", provisioning.GROUP, ("provisioningrequests",),
               ("create", "delete", "get", "list")),
    PolicyRule("pod templates of ProvisioningRequests", "", ("podtemplates",), ("create", "delete")),
    PolicyRule("owner references to pod groups", volcano.GROUP, ("podgroups/finalizers",), ("update",)),
)  # fmt: skip

NAMESPACE: Final = "quorate-system"
ACCOUNT: Final = "quorate-scheduler"
CONFIGURATION: Final = "quorate-scheduler-configuration"
CONFIGURATION_FILE: Final = in_force.FILE
CONFIGURATION_TEXT: Final = f"profile: design\n{DEFAULT_FILE}"
HEALTH_PORT: Final = 8081
METRICS_PORT: Final = 8443
SCHEDULER: Final = Component(
    ACCOUNT, "scheduler", {"health": HEALTH_PORT, "metrics": METRICS_PORT}, metrics="scheduler-metrics"
)


def configuration(namespace: str) -> Json:
    return manifest_builders.configuration(CONFIGURATION, namespace, CONFIGURATION_FILE, CONFIGURATION_TEXT)


def roles(namespace: str) -> Iterator[Json]:
    """Yield the roles of the scheduler, and their bindings to its service account."""
    return account_roles(ACCOUNT, ACCOUNT, SCHEDULER_RULES, namespace)


def demand_roles(namespace: str) -> Iterator[Json]:
    """Yield the additional roles for creating ProvisioningRequests."""
    return account_roles(f"{ACCOUNT}-demand", ACCOUNT, PROVISIONING_RULES, namespace)


def workload(namespace: str, image: str) -> Iterator[Json]:
    yield SCHEDULER.service_account(namespace)
    args = [
        "scheduler",
        "--scheduler-conf", f"/etc/quorate/{CONFIGURATION_FILE}",
        "--leader-elect",
        "--lease-namespace", namespace,
        "--health-address", f":{HEALTH_PORT}",
        "--metrics-address", f":{METRICS_PORT}",
        "--log-format", "json",
    ]  # fmt: skip
    resources = {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"cpu": "2", "memory": "2Gi"}}
    container = SCHEDULER.container(image, args, resources)
    # No pod is scheduled without it, so the pods that it schedules must not preempt it.
    critical = {"priorityClassName": "system-cluster-critical"}
    yield SCHEDULER.elected_deployment(namespace, container, CONFIGURATION, **critical)
    yield SCHEDULER.disruption_budget(namespace)


def service(namespace: str) -> Json:
    return SCHEDULER.service("quorate-scheduler-metrics", namespace, "metrics", METRICS_PORT)
