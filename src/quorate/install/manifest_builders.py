"""Builders of the manifests that controllers, scheduler, witness and dashboard have in common.

Each process is a Deployment under the restricted pod security standard.  Controllers and scheduler have two
replicas with leader election, on different nodes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from quorate.api.codec import Json
from quorate.install.roles import NAME_LABEL, manifest, metadata

POD_SECURITY: Final = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
TMP_VOLUME: Final = {"name": "tmp", "emptyDir": {"sizeLimit": "16Mi"}}
_SERVES: Final = "quorate.dev/serves"
CONTAINER_SECURITY: Final = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}


@dataclass(frozen=True, slots=True)
class Component:
    """The objects that each process of an installation has, in any namespace."""

    account: str  # the name of its service account and of most of its objects
    name: str  # the value of its label app.kubernetes.io/component
    ports: Mapping[str, int]  # of its container, by name
    metrics: str = "metrics"  # the label value of the Service that ServiceMonitors select

    @property
    def selector(self) -> Mapping[str, str]:
        return {**NAME_LABEL, "app.kubernetes.io/component": self.name}

    def service_account(self, namespace: str) -> Json:
        return manifest("v1", "ServiceAccount", metadata(self.account, namespace))

    def elected_deployment(self, namespace: str, container: Json, configuration: str, **pod: Any) -> Json:
        """Return a Deployment of two replicas, one of them leader; ``pod``: fields of the pod spec."""
        spec = {
            "terminationGracePeriodSeconds": 30,
            **_spread(self.selector),
            "containers": [container],
            **pod,
            "volumes": [configuration_volume(configuration), TMP_VOLUME],
        }
        return self.deployment(namespace, spec, replicas=2)

    def deployment(self, namespace: str, pod: Json, *, replicas: int = 1, **spec: Any) -> Json:
        """Return a Deployment; ``pod`` and ``spec``: further fields of the pod spec and of its spec."""
        template = {
            "metadata": {"labels": self.selector},
            "spec": {"serviceAccountName": self.account, "securityContext": POD_SECURITY, **pod},
        }
        selector = {"matchLabels": self.selector}
        spec = {"replicas": replicas, **spec, "selector": selector, "template": template}
        return manifest("apps/v1", "Deployment", metadata(self.account, namespace), spec=spec)

    def container(self, image: str, args: Iterable[str], resources: Json) -> Json:
        """Return a container that serves probes at its port ``health``."""

        def probe(path: str, **more: int) -> Json:
            return {"httpGet": {"path": path, "port": "health"}, **more}

        return {
            "name": self.name,
            "image": image,
            "args": list(args),
            "ports": [
                {"name": name, "containerPort": port, "protocol": "TCP"} for name, port in self.ports.items()
            ],
            "livenessProbe": probe("/healthz", initialDelaySeconds=15, periodSeconds=20),
            "readinessProbe": probe("/readyz", initialDelaySeconds=5, periodSeconds=10),
            "resources": resources,
            "securityContext": CONTAINER_SECURITY,
            "volumeMounts": [
                {"name": "configuration", "mountPath": "/etc/quorate", "readOnly": True},
                {"name": "tmp", "mountPath": "/tmp"},
            ],
        }

    def disruption_budget(self, namespace: str) -> Json:
        spec = {"minAvailable": 1, "selector": {"matchLabels": self.selector}}
        return manifest("policy/v1", "PodDisruptionBudget", metadata(self.account, namespace), spec=spec)

    def service(self, name: str, namespace: str, port_name: str, number: int) -> Json:
        """Return a Service that maps its port ``number`` to a port of the container."""
        serves = self.metrics if port_name == "metrics" else port_name
        port = {"name": port_name, "port": number, "targetPort": port_name, "protocol": "TCP"}
        spec = {"type": "ClusterIP", "selector": self.selector, "ports": [port]}
        return manifest("v1", "Service", metadata(name, namespace, {_SERVES: serves}), spec=spec)

    def service_monitor(self, namespace: str) -> Json:
        """Return a ServiceMonitor for the port ``metrics`` of the component."""
        endpoint = {
            "port": "metrics",
            "path": "/metrics",
            "scheme": "https",
            "bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
            "tlsConfig": {"insecureSkipVerify": True},
        }
        selector = {"matchLabels": {**NAME_LABEL, _SERVES: self.metrics}}
        spec = {"selector": selector, "endpoints": [endpoint]}
        named = metadata(self.account, namespace)
        return manifest("monitoring.coreos.com/v1", "ServiceMonitor", named, spec=spec)

    def network_policy(self, namespace: str) -> Json:
        """Return an ingress policy; egress is open: API server addresses differ between clusters."""
        ports = [{"port": port, "protocol": "TCP"} for port in self.ports.values()]
        selector = {"matchLabels": self.selector}
        spec = {"podSelector": selector, "policyTypes": ["Ingress"], "ingress": [{"ports": ports}]}
        named = metadata(self.account, namespace)
        return manifest("networking.k8s.io/v1", "NetworkPolicy", named, spec=spec)


def configuration_volume(config_map: str) -> Json:
    return {"name": "configuration", "configMap": {"name": config_map}}


def _spread(selector: Mapping[str, str]) -> Json:
    """Return affinity and spread that keep the standby off the leader's node, to survive its failure."""
    replicas = {"labelSelector": {"matchLabels": selector}}
    term = {"topologyKey": "kubernetes.io/hostname", **replicas}
    return {
        "affinity": {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]
            }
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                **replicas,
            }
        ],
    }


def namespace_object(namespace: str) -> Json:
    level = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")}
    return manifest("v1", "Namespace", metadata(namespace, labels=level))


def configuration(name: str, namespace: str, file: str, text: str) -> Json:
    return manifest("v1", "ConfigMap", metadata(name, namespace), data={file: text})
