"""The visibility APIs as aggregated APIs, and their priority level."""

from collections.abc import Iterator
from typing import Final

from quorate.api import explanation
from quorate.api.codec import Json
from quorate.api.kueue import visibility
from quorate.install.controllers import VISIBILITY_SERVICE
from quorate.install.roles import ACCOUNT, metadata

# The groups and versions that the controllers serve.
AGGREGATED: Final = (
    *((visibility.GROUP, version) for version in visibility.VERSIONS),
    (explanation.GROUP, explanation.VERSION),
)
_FLOW: Final = "flowcontrol.apiserver.k8s.io/v1"


def auth_reader(namespace: str) -> Json:
    """Return the binding with which the controllers verify the client certificate of the API server."""
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
    """Yield the APIServices.  As in Kueue, the self-signed serving certificate is not verified."""
    for group, version in AGGREGATED:
        yield {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": metadata(f"{version}.{group}"),
            "spec": {
                "group": group,
                "version": version,
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "insecureSkipTLSVerify": True,
                "service": {"name": VISIBILITY_SERVICE, "namespace": namespace},
            },
        }


def priority_and_fairness() -> Iterator[Json]:
    """Yield the priority level and flow schema of the visibility API (API Priority and Fairness)."""
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
    all_users = [
        {"kind": "Group", "group": {"name": f"system:{group}"}}
        for group in ("authenticated", "unauthenticated")
    ]
    rule = {
        "apiGroups": list(dict.fromkeys(group for group, _ in AGGREGATED)),
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
            "rules": [{"subjects": all_users, "resourceRules": [rule]}],
        },
    }
