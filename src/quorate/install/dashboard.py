"""Manifests of the dashboard: a Deployment of one replica, its Service, and its RBAC rules.

The dashboard reads the objects that it shows and asks which user may see them.  It changes nothing with its
own rights: what a user changes is sent with the user's token.  Sessions are in its memory and the history is
in one file, so that there is one replica.
"""

from collections.abc import Iterator
from typing import Final

from quorate.api import explanation, native_groups, quorate, volcano
from quorate.api.codec import Json
from quorate.api.kueue import GROUP
from quorate.api.scheduler_configuration import in_force
from quorate.install import manifest_builders
from quorate.install.controller_rules import OWN, PolicyRule
from quorate.install.controllers import CONFIGURATION, KUEUE_CONFIGURATION
from quorate.install.manifest_builders import Component
from quorate.install.roles import IN_FORCE, account_roles

DASHBOARD_RULES: Final = (
    PolicyRule(
        "showing queues, workloads and what explains them", GROUP,
        ("clusterqueues", "localqueues", "workloads", "cohorts", "resourceflavors", "topologies",
         "admissionchecks", "multikueueclusters"),
        ("list", "watch"),
    ),
    PolicyRule("priorities in forecasts and comparisons", GROUP, ("workloadpriorityclasses",), ("list",)),
    PolicyRule("showing pod groups and their queues", volcano.GROUP, ("podgroups", "queues"),
               ("list", "watch")),
    PolicyRule("showing Kubernetes' own pod groups", native_groups.GROUP, ("podgroups",), ("list", "watch")),
    PolicyRule("showing nodes and what uses them", "", ("nodes", "pods"), ("list", "watch")),
    PolicyRule("requests of pods, and namespaceSelector of queues", "", ("namespaces", "limitranges"),
               ("list", "watch")),
    PolicyRule("showing what Reservations keep", quorate.GROUP, ("reservations",), ("list", "watch")),
    PolicyRule("overhead of pods", "node.k8s.io", ("runtimeclasses",), ("list", "watch")),
    PolicyRule("authorizing users", "authorization.k8s.io", ("subjectaccessreviews",), ("create",)),
    PolicyRule("showing when workloads start, and why they do not", explanation.GROUP,
               (explanation.ESTIMATES, explanation.EXPLANATIONS), ("list",)),
    PolicyRule("reading the Configuration in force", "", ("configmaps",), ("get",),
               in_force.NAMESPACE, (IN_FORCE,)),
    PolicyRule("evaluating workloads where the controllers do not answer", "", ("configmaps",), ("get",),
               OWN, (CONFIGURATION, KUEUE_CONFIGURATION)),
)  # fmt: skip

ACCOUNT: Final = "quorate-dashboard"
PORT: Final = 8443
HEALTH_PORT: Final = 8081
DASHBOARD: Final = Component(ACCOUNT, "dashboard", {"dashboard": PORT, "health": HEALTH_PORT})
HISTORY: Final = "/var/lib/quorate"


def roles(namespace: str) -> Iterator[Json]:
    """Yield the roles of the dashboard, and their bindings to its service account."""
    return account_roles(ACCOUNT, ACCOUNT, DASHBOARD_RULES, namespace)


def workload(namespace: str, image: str) -> Iterator[Json]:
    yield DASHBOARD.service_account(namespace)
    args = [
        "dashboard",
        "--address", f":{PORT}",
        "--health-address", f":{HEALTH_PORT}",
        "--history", f"{HISTORY}/history.sqlite",
        "--log-format", "json",
    ]  # fmt: skip
    resources = {
        "requests": {"cpu": "250m", "memory": "256Mi"},
        "limits": {"cpu": "2", "memory": "2Gi"},  # with the process of a simulation
    }
    container = DASHBOARD.container(image, args, resources)
    container["volumeMounts"] = [
        {"name": "history", "mountPath": HISTORY},
        {"name": "tmp", "mountPath": "/tmp"},
    ]
    pod = {
        "securityContext": {**manifest_builders.POD_SECURITY, "fsGroup": 65532},
        "terminationGracePeriodSeconds": 30,
        "containers": [container],
        "volumes": [{"name": "history", "emptyDir": {"sizeLimit": "2Gi"}}, manifest_builders.TMP_VOLUME],
    }
    one_writer = {"type": "Recreate"}  # of the history
    yield DASHBOARD.deployment(namespace, pod, strategy=one_writer)


def service(namespace: str) -> Json:
    return DASHBOARD.service(ACCOUNT, namespace, "dashboard", 443)
