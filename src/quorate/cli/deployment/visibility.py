"""The visibility API as an aggregated API, and its own level of priority."""

from collections.abc import Iterator
from typing import Any, Final

from quorate.api.kueue import visibility
from quorate.cli.deployment.controllers import VISIBILITY_SERVICE
from quorate.cli.deployment.roles import ACCOUNT, metadata

Json = dict[str, Any]

_FLOW: Final = "flowcontrol.apiserver.k8s.io/v1"


def auth_reader(namespace: str) -> Json:
    """Lets the controllers know by its certificate that it is the API server who asks them."""
    return {
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


def api_services(namespace: str) -> Iterator[Json]:
    """Their certificate is made at the start and known to nobody, so it is not verified: as in Kueue."""
    for version in visibility.VERSIONS:
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
                "service": {"name": VISIBILITY_SERVICE, "namespace": namespace},
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
