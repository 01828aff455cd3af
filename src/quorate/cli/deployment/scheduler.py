"""The gang scheduler in a cluster: two replicas, of which one decides, and what surrounds them."""

from collections.abc import Iterator
from typing import Any, Final

from quorate.api.scheduler_configuration import DEFAULT_FILE
from quorate.cli.deployment import replicated
from quorate.cli.deployment.roles import NAME_LABEL, account_roles
from quorate.cli.deployment.scheduler_rules import DEMAND_RIGHTS, LEGACY_RIGHTS, SCHEDULER_RIGHTS

Json = dict[str, Any]

NAMESPACE: Final = "quorate-system"
ACCOUNT: Final = "quorate-scheduler"
SELECTOR: Final = {**NAME_LABEL, "app.kubernetes.io/component": "scheduler"}
CONFIGURATION: Final = "quorate-scheduler-configuration"
CONFIGURATION_FILE: Final = "volcano-scheduler.conf"  # as in Volcano's ConfigMap
CONFIGURATION_TEXT: Final = f"profile: design\n{DEFAULT_FILE}"
HEALTH_PORT: Final = 8081
METRICS_PORT: Final = 8443
METRICS: Final = "scheduler-metrics"  # apart from those of the controllers, which may be in the namespace too


def configuration(namespace: str) -> Json:
    return replicated.configuration(CONFIGURATION, namespace, CONFIGURATION_FILE, CONFIGURATION_TEXT)


def roles(namespace: str) -> Iterator[Json]:
    """What the scheduler may, and its binding to its service account."""
    return account_roles(ACCOUNT, ACCOUNT, SCHEDULER_RIGHTS, namespace)


def demand_roles(namespace: str) -> Iterator[Json]:
    """What it may besides when it asks an autoscaler for nodes."""
    return account_roles(f"{ACCOUNT}-demand", ACCOUNT, DEMAND_RIGHTS, namespace)


def legacy_roles(namespace: str) -> Iterator[Json]:
    """What it may besides when it reads the versions before v1beta1."""
    return account_roles(f"{ACCOUNT}-legacy", ACCOUNT, LEGACY_RIGHTS, namespace)


def workload(namespace: str, image: str) -> Iterator[Json]:
    yield replicated.service_account(ACCOUNT, namespace)
    yield _deployment(namespace, image)
    yield replicated.disruption_budget(ACCOUNT, namespace, SELECTOR)


def _deployment(namespace: str, image: str) -> Json:
    args = [
        "scheduler",
        "--scheduler-conf", f"/etc/quorate/{CONFIGURATION_FILE}",
        "--leader-elect",
        "--lease-namespace", namespace,
        "--health-address", f":{HEALTH_PORT}",
        "--metrics-address", f":{METRICS_PORT}",
        "--log-format", "json",
    ]  # fmt: skip
    resources = {
        "requests": {"cpu": "500m", "memory": "512Mi"},
        "limits": {"cpu": "2", "memory": "2Gi"},
    }
    ports = (("health", HEALTH_PORT), ("metrics", METRICS_PORT))
    container = replicated.container("scheduler", image, args, ports, resources)
    # Without it nobody is placed, so it must not give way to those whom it places.
    critical = {"priorityClassName": "system-cluster-critical"}
    return replicated.deployment(ACCOUNT, namespace, SELECTOR, container, CONFIGURATION, **critical)


def network_policy(namespace: str) -> Json:
    return replicated.network_policy(ACCOUNT, namespace, SELECTOR, (HEALTH_PORT, METRICS_PORT))


def service(namespace: str) -> Json:
    return replicated.service(
        f"quorate-{METRICS}", namespace, SELECTOR, ("metrics", METRICS_PORT), serves=METRICS
    )


def service_monitor(namespace: str) -> Json:
    return replicated.service_monitor(ACCOUNT, namespace, METRICS)
