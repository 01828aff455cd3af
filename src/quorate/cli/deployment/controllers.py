"""The controllers in a cluster: two replicas, of which one decides, and what surrounds them."""

from collections.abc import Iterator
from typing import Any, Final

from quorate.api.configuration_webhooks import CertificateManagement
from quorate.cli.deployment.roles import ACCOUNT, NAME_LABEL, metadata

Json = dict[str, Any]

SELECTOR: Final = {**NAME_LABEL, "app.kubernetes.io/component": "controllers"}
CONFIGURATION: Final = "quorate-configuration"
CONFIGURATION_FILE: Final = "controller_manager_config.yaml"
# As in Kueue; webhooks are installed for these.
FRAMEWORKS: Final = (
    "batch/job",
    "kubeflow.org/mpijob",
    "ray.io/rayjob",
    "ray.io/raycluster",
    "ray.io/rayservice",
    "jobset.x-k8s.io/jobset",
    "kubeflow.org/paddlejob",
    "kubeflow.org/pytorchjob",
    "kubeflow.org/tfjob",
    "kubeflow.org/xgboostjob",
    "kubeflow.org/jaxjob",
    "workload.codeflare.dev/appwrapper",
    "trainer.kubeflow.org/trainjob",
    "pod",
    "deployment",
    "statefulset",
    "leaderworkerset.x-k8s.io/leaderworkerset",
)
WEBHOOK_SERVICE: Final = CertificateManagement().service
VISIBILITY_SERVICE: Final = "kueue-visibility-server"
WEBHOOK_PORT: Final = 9443
METRICS_PORT: Final = 8443
HEALTH_PORT: Final = 8081
VISIBILITY_PORT: Final = 8082


def configuration_text(namespace: str) -> str:
    """The Configuration as shipped: Kueue's frameworks, election on, everything else by default."""
    frameworks = "".join(f"  - {name}\n" for name in FRAMEWORKS)
    return f"""\
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
namespace: {namespace}
health:
  healthProbeBindAddress: :{HEALTH_PORT}
metrics:
  bindAddress: :{METRICS_PORT}
visibilityServer:
  bindAddress: 0.0.0.0
  bindPort: {VISIBILITY_PORT}
webhook:
  port: {WEBHOOK_PORT}
leaderElection:
  leaderElect: true
integrations:
  frameworks:
{frameworks}"""


def namespace_object(namespace: str) -> Json:
    level = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata(namespace, labels=level)}


def service_account(namespace: str) -> Json:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(ACCOUNT, namespace)}


def configuration(namespace: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(CONFIGURATION, namespace),
        "data": {CONFIGURATION_FILE: configuration_text(namespace)},
    }


def deployment(namespace: str, image: str) -> Json:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(ACCOUNT, namespace),
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": SELECTOR},
            "template": {"metadata": {"labels": SELECTOR}, "spec": _pod(image)},
        },
    }


def _pod(image: str) -> Json:
    spread = {"labelSelector": {"matchLabels": SELECTOR}}
    return {
        "serviceAccountName": ACCOUNT,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "terminationGracePeriodSeconds": 30,
        # A standby on the same node would be lost with the leader; on another it takes over.
        "affinity": {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 100, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", **spread}}
                ]
            }
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                **spread,
            }
        ],
        "containers": [_container(image)],
        "volumes": [
            {"name": "configuration", "configMap": {"name": CONFIGURATION}},
            {"name": "tmp", "emptyDir": {"sizeLimit": "16Mi"}},
        ],
    }


def _container(image: str) -> Json:
    def probe(path: str, **more: int) -> Json:
        return {"httpGet": {"path": path, "port": "health"}, **more}

    ports = (
        ("webhook", WEBHOOK_PORT),
        ("metrics", METRICS_PORT),
        ("visibility", VISIBILITY_PORT),
        ("health", HEALTH_PORT),
    )
    return {
        "name": "controllers",
        "image": image,
        "args": ["controllers", "--config", f"/etc/quorate/{CONFIGURATION_FILE}", "--log-format", "json"],
        "ports": [{"name": name, "containerPort": port, "protocol": "TCP"} for name, port in ports],
        "livenessProbe": probe("/healthz", initialDelaySeconds=15, periodSeconds=20),
        "readinessProbe": probe("/readyz", initialDelaySeconds=5, periodSeconds=10),
        "resources": {
            "requests": {"cpu": "500m", "memory": "512Mi"},
            "limits": {"cpu": "2", "memory": "1Gi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [
            {"name": "configuration", "mountPath": "/etc/quorate", "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }


def disruption_budget(namespace: str) -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(ACCOUNT, namespace),
        "spec": {"minAvailable": 1, "selector": {"matchLabels": SELECTOR}},
    }


def services(namespace: str) -> Iterator[Json]:
    """Those the API server asks have Kueue's names: whatever was made to lead there leads here."""
    yield _service(WEBHOOK_SERVICE, namespace, "webhook", 443)
    yield _service(VISIBILITY_SERVICE, namespace, "visibility", 443)
    yield _service("quorate-metrics", namespace, "metrics", METRICS_PORT)


def _service(name: str, namespace: str, port_name: str, port: int) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(name, namespace, {"quorate.dev/serves": port_name}),
        "spec": {
            "selector": SELECTOR,
            "ports": [{"name": port_name, "port": port, "targetPort": port_name, "protocol": "TCP"}],
        },
    }


def network_policy(namespace: str) -> Json:
    """Who may connect; not to whom, since where an API server listens differs from cluster to cluster."""
    ports = (WEBHOOK_PORT, METRICS_PORT, VISIBILITY_PORT, HEALTH_PORT)
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(ACCOUNT, namespace),
        "spec": {
            "podSelector": {"matchLabels": SELECTOR},
            "policyTypes": ["Ingress"],
            "ingress": [{"ports": [{"port": port, "protocol": "TCP"} for port in ports]}],
        },
    }


def service_monitor(namespace: str) -> Json:
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": metadata(ACCOUNT, namespace),
        "spec": {
            "selector": {"matchLabels": {**NAME_LABEL, "quorate.dev/serves": "metrics"}},
            "endpoints": [
                {
                    "port": "metrics",
                    "path": "/metrics",
                    "scheme": "https",
                    "bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
                    "tlsConfig": {"insecureSkipVerify": True},
                }
            ],
        },
    }
