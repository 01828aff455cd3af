"""What an installation can do without."""

from collections.abc import Iterator
from typing import Any, Final

from quorate.api import visibility
from quorate.cli.deployment.controllers import SELECTOR, VISIBILITY_PORT
from quorate.cli.deployment.roles import ACCOUNT, metadata

Json = dict[str, Any]

_VERSIONS: Final = ("v1beta1", "v1beta2")
_FLOW: Final = "flowcontrol.apiserver.k8s.io/v1"


def visibility_service(namespace: str) -> Iterator[Json]:
    """The aggregated API of who waits in which place."""
    service = "kueue-visibility-server"
    yield {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(service, namespace),
        "spec": {
            "selector": SELECTOR,
            "ports": [{"name": "visibility", "port": 443, "targetPort": VISIBILITY_PORT, "protocol": "TCP"}],
        },
    }
    yield {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": metadata("kueue-visibility-server-auth-reader", "kube-system"),
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "Role",
            "name": "extension-apiserver-authentication-reader",
        },
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}],
    }
    for version in _VERSIONS:
        yield {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": metadata(f"{version}.{visibility.GROUP}"),
            "spec": {
                "group": visibility.GROUP,
                "version": version,
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "insecureSkipTLSVerify": True,
                "service": {"name": service, "namespace": namespace},
            },
        }


def priority_and_fairness() -> Iterator[Json]:
    """A level of its own for the visibility API (Kubernetes' API priority and fairness)."""
    name = "visibility"
    queuing = {"queues": 16, "handSize": 4, "queueLengthLimit": 50}
    yield {
        "apiVersion": _FLOW,
        "kind": "PriorityLevelConfiguration",
        "metadata": metadata(name),
        "spec": {
            "type": "Limited",
            "limited": {
                "nominalConcurrencyShares": 10,
                "lendablePercent": 90,
                "limitResponse": {"type": "Queue", "queuing": queuing},
            },
        },
    }
    everybody = [
        {"kind": "Group", "group": {"name": f"system:{group}"}}
        for group in ("authenticated", "unauthenticated")
    ]
    rule = {
        "apiGroups": [visibility.GROUP],
        "resources": ["*"],
        "verbs": ["*"],
        "clusterScope": True,
        "namespaces": ["*"],
    }
    yield {
        "apiVersion": _FLOW,
        "kind": "FlowSchema",
        "metadata": metadata(name),
        "spec": {
            "distinguisherMethod": {"type": "ByUser"},
            "matchingPrecedence": 9000,
            "priorityLevelConfiguration": {"name": name},
            "rules": [{"subjects": everybody, "resourceRules": [rule]}],
        },
    }
