"""Builders of the manifests that controllers, scheduler, witness and dashboard have in common.

Each process is a Deployment under the restricted pod security standard.  Controllers and scheduler have two
replicas with leader election, on different nodes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from quorate.api.codec import Json
from quorate.install.roles import NAME_LABEL, metadata

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
        return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(self.account, namespace)}

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
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata(self.account, namespace),
            "spec": {
                "replicas": replicas,
                **spec,
                "selector": {"matchLabels": self.selector},
                "template": {
                    "metadata": {"labels": self.selector},
                    "spec": {"serviceAccountName": self.account, "securityContext": POD_SECURITY, **pod},
                },
            },
        }

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
        return {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": metadata(self.account, namespace),
            "spec": {"minAvailable": 1, "selector": {"matchLabels": self.selector}},
        }

    def service(self, name: str, namespace: str, port_name: str, number: int) -> Json:
        """Return a Service that maps its port ``number`` to a port of the container."""
        serves = self.metrics if port_name == "metrics" else port_name
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata(name, namespace, {_SERVES: serves}),
            "spec": {
                "type": "ClusterIP",
                "selector": self.selector,
                "ports": [{"name": port_name, "port": number, "targetPort": port_name, "protocol": "TCP"}],
            },
        }

    def service_monitor(self, namespace: str) -> Json:
        """Return a ServiceMonitor for the port ``metrics`` of the component."""
        return {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "ServiceMonitor",
            "metadata": metadata(self.account, namespace),
            "spec": {
                "selector": {"matchLabels": {**NAME_LABEL, _SERVES: self.metrics}},
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

    def network_policy(self, namespace: str) -> Json:
        """Return an ingress policy; egress is open: API server addresses differ between clusters."""
        ports = [{"port": port, "protocol": "TCP"} for port in self.ports.values()]
        return {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": metadata(self.account, namespace),
            "spec": {
                "podSelector": {"matchLabels": self.selector},
                "policyTypes": ["Ingress"],
                "ingress": [{"ports": ports}],
            },
        }


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
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata(namespace, labels=level)}


def configuration(name: str, namespace: str, file: str, text: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(name, namespace),
        "data": {file: text},
    }
