"""The visibility APIs as aggregated APIs, and their priority level."""

from collections.abc import Iterator
from typing import Final

from quorate.api import explanation
from quorate.api.codec import Json
from quorate.api.kueue import visibility
from quorate.install.controllers import VISIBILITY_SERVICE
from quorate.install.roles import ACCOUNT, manifest, metadata, role_binding

# The groups and versions that the controllers serve.
AGGREGATED: Final = (
    *((visibility.GROUP, version) for version in visibility.VERSIONS),
    (explanation.GROUP, explanation.VERSION),
)
_FLOW: Final = "flowcontrol.apiserver.k8s.io/v1"
_REGISTRATION: Final = "apiregistration.k8s.io/v1"


def auth_reader(namespace: str) -> Json:
    """Return the binding with which the controllers verify the client certificate of the API server."""
    name, role = "kueue-visibility-server-auth-reader", "extension-apiserver-authentication-reader"
    return role_binding(name, ACCOUNT, namespace, "kube-system", role)


def api_services(namespace: str) -> Iterator[Json]:
    """Yield the APIServices.  As in Kueue, the self-signed serving certificate is not verified."""
    for group, version in AGGREGATED:
        service = {"name": VISIBILITY_SERVICE, "namespace": namespace}
        named = metadata(f"{version}.{group}")
        yield manifest(_REGISTRATION, "APIService", named, spec=api_service_spec(group, version, service))


def api_service_spec(group: str, version: str, service: Json) -> Json:
    """Return the spec of an APIService that ``service`` serves."""
    return {
        "group": group,
        "version": version,
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "insecureSkipTLSVerify": True,
        "service": service,
    }


def priority_and_fairness() -> Iterator[Json]:
    """Yield the priority level and flow schema of the visibility API (API Priority and Fairness)."""
    name = "visibility"
    queuing = {"queues": 16, "handSize": 4, "queueLengthLimit": 50}
    limited = {
        "nominalConcurrencyShares": 10,
        "lendablePercent": 90,
        "limitResponse": {"type": "Queue", "queuing": queuing},
    }
    level = {"type": "Limited", "limited": limited}
    yield manifest(_FLOW, "PriorityLevelConfiguration", metadata(name), spec=level)
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
    schema = {
        "distinguisherMethod": {"type": "ByUser"},
        "matchingPrecedence": 9000,
        "priorityLevelConfiguration": {"name": name},
        "rules": [{"subjects": all_users, "resourceRules": [rule]}],
    }
    yield manifest(_FLOW, "FlowSchema", metadata(name), spec=schema)
