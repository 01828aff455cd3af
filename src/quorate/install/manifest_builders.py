"""Builders of the manifests that controllers, scheduler, witness and dashboard have in common.

Each process is a Deployment under the restricted pod security standard.  Controllers and scheduler have two
replicas with leader election, on different nodes.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from quorate.install.roles import NAME_LABEL, metadata

Json = dict[str, Any]

POD_SECURITY: Final = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
TMP_VOLUME: Final = {"name": "tmp", "emptyDir": {"sizeLimit": "16Mi"}}
_SERVES: Final = "quorate.dev/serves"
CONTAINER_SECURITY: Final = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}


def elected_deployment(
    name: str, namespace: str, selector: Mapping[str, str], container: Json, configuration: str, **pod: Any
) -> Json:
    """Return a Deployment of two replicas, of which one is the leader; ``pod``: fields of the pod spec."""
    spec = {
        "terminationGracePeriodSeconds": 30,
        **_spread(selector),
        "containers": [container],
        **pod,
        "volumes": [configuration_volume(configuration), TMP_VOLUME],
    }
    return deployment(name, namespace, selector, spec, replicas=2)


def deployment(
    name: str, namespace: str, selector: Mapping[str, str], pod: Json, *, replicas: int = 1, **spec: Any
) -> Json:
    """Return a Deployment with service account ``name``.

    ``pod`` are further fields of the pod spec, ``spec`` of the Deployment's spec.
    """
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(name, namespace),
        "spec": {
            "replicas": replicas,
            **spec,
            "selector": {"matchLabels": selector},
            "template": {
                "metadata": {"labels": selector},
                "spec": {"serviceAccountName": name, "securityContext": POD_SECURITY, **pod},
            },
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


def container(
    name: str, image: str, args: Iterable[str], ports: Iterable[tuple[str, int]], resources: Json
) -> Json:
    """Return a container that serves probes at its port ``health``."""

    def probe(path: str, **more: int) -> Json:
        return {"httpGet": {"path": path, "port": "health"}, **more}

    return {
        "name": name,
        "image": image,
        "args": list(args),
        "ports": [{"name": name, "containerPort": port, "protocol": "TCP"} for name, port in ports],
        "livenessProbe": probe("/healthz", initialDelaySeconds=15, periodSeconds=20),
        "readinessProbe": probe("/readyz", initialDelaySeconds=5, periodSeconds=10),
        "resources": resources,
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": [
            {"name": "configuration", "mountPath": "/etc/quorate", "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }


def namespace_object(namespace: str) -> Json:
    level = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata(namespace, labels=level)}


def service_account(name: str, namespace: str) -> Json:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(name, namespace)}


def configuration(name: str, namespace: str, file: str, text: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(name, namespace),
        "data": {file: text},
    }


def disruption_budget(name: str, namespace: str, selector: Mapping[str, str]) -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(name, namespace),
        "spec": {"minAvailable": 1, "selector": {"matchLabels": selector}},
    }


def service(
    name: str, namespace: str, selector: Mapping[str, str], port: tuple[str, int], serves: str = ""
) -> Json:
    """Return a Service for a named container port; ``serves``: the label value for ServiceMonitors."""
    port_name, number = port
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(name, namespace, {_SERVES: serves or port_name}),
        "spec": {
            "type": "ClusterIP",
            "selector": selector,
            "ports": [{"name": port_name, "port": number, "targetPort": port_name, "protocol": "TCP"}],
        },
    }


def service_monitor(name: str, namespace: str, serves: str) -> Json:
    """Return a ServiceMonitor for the port ``metrics`` of Services with the label value ``serves``."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": metadata(name, namespace),
        "spec": {
            "selector": {"matchLabels": {**NAME_LABEL, _SERVES: serves}},
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


def network_policy(name: str, namespace: str, selector: Mapping[str, str], ports: Iterable[int]) -> Json:
    """Return an ingress policy; egress stays open, because API server addresses differ between clusters."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(name, namespace),
        "spec": {
            "podSelector": {"matchLabels": selector},
            "policyTypes": ["Ingress"],
            "ingress": [{"ports": [{"port": port, "protocol": "TCP"} for port in ports]}],
        },
    }
