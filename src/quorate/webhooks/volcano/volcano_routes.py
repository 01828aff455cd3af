"""The table of webhooks for Volcano's kinds and pods, and their configurations."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from quorate.api import volcano
from quorate.api.configuration import NAMESPACE_NAME_LABEL
from quorate.api.configuration.gang import PodGroupWebhooks
from quorate.api.names.volcano import GROUP_NAME, QUEUE_ALLOCATION_GATE
from quorate.api.volcano import job as volcano_job
from quorate.api.volcano import topology as volcano_topology
from quorate.kube.resources import Json
from quorate.webhooks.admission_review import Operation
from quorate.webhooks.limits import VOLCANO_TIMEOUT_S
from quorate.webhooks.routes import WebhookEndpoint

KUBE_SYSTEM: Final = "kube-system"  # requests about its pods are not sent

MUTATE_POD_GROUPS: Final = "/podgroups/mutate"
VALIDATE_POD_GROUPS: Final = "/podgroups/validate"
POD_GROUPS_MIN_RESOURCES: Final = "/podgroups/min-resources"
MUTATE_QUEUES: Final = "/queues/mutate"
VALIDATE_QUEUES: Final = "/queues/validate"
MUTATE_JOBS: Final = "/jobs/mutate"
VALIDATE_JOBS: Final = "/jobs/validate"
VALIDATE_HYPER_NODES: Final = "/hypernodes/validate"
PODS_MIN_RESOURCES: Final = "/pods/min-resources"
MUTATE_PODS: Final = "/pods/mutate"
UNUSED: Final = "/pods/validate"  # named in Volcano's configurations; all requests are allowed


@dataclass(frozen=True, slots=True)
class WebhookRoute:
    """One webhook, with the requests that the API server sends to it."""

    path: str
    name: str  # the API server prefixes every refusal with it
    group: str
    version: str
    plural: str
    operations: tuple[Operation, ...]
    condition: str = ""  # CEL: which requests are sent; empty: all
    fails_open: bool = False  # failurePolicy is Ignore, whatever is configured

    @property
    def mutates(self) -> bool:
        return self.path.endswith("/mutate")

    @property
    def is_for_pods(self) -> bool:
        return self.plural == "pods"


def _scheduling(plural: str) -> tuple[str, str, str]:
    return volcano.GROUP, volcano.VERSION, plural


_JOBS: Final = (volcano_job.GROUP, volcano_job.VERSION, "jobs")
_HYPER_NODES: Final = (volcano_topology.GROUP, volcano_topology.VERSION, "hypernodes")
# PodGroup has no status subresource: the scheduler's writes of the status are not sent.
_NEW_SPEC: Final = (
    "oldObject == null || has(object.spec) != has(oldObject.spec) || "
    "(has(object.spec) && object.spec != oldObject.spec)"
)
_NEW_MINIMUM: Final = (
    "has(object.spec) && has(object.spec.minResources) && (oldObject == null || !has(oldObject.spec) || "
    "!has(oldObject.spec.minResources) || object.spec.minResources != oldObject.spec.minResources)"
)
_NO_DAEMON: Final = (
    "!has(object.metadata.ownerReferences) || !object.metadata.ownerReferences.exists(owner, "
    "owner.kind == 'DaemonSet' && has(owner.controller) && owner.controller)"
)
_MAY_BE_GATED: Final = (
    f"has(object.metadata.annotations) && ('{GROUP_NAME}' in object.metadata.annotations || "
    f"'{QUEUE_ALLOCATION_GATE}' in object.metadata.annotations)"
)


def webhook_routes(rules: PodGroupWebhooks) -> Iterator[WebhookRoute]:
    """Yield the webhooks that ``rules`` need."""
    yield WebhookRoute(MUTATE_POD_GROUPS, "mutatepodgroup.volcano.sh", *_scheduling("podgroups"), ("CREATE",))
    yield WebhookRoute(
        VALIDATE_POD_GROUPS, "validatepodgroup.volcano.sh", *_scheduling("podgroups"), ("CREATE", "UPDATE"),
        _NEW_SPEC,
    )  # fmt: skip
    if rules.min_resources != "off":
        yield WebhookRoute(
            POD_GROUPS_MIN_RESOURCES, "podgroupminresources.volcano.sh", *_scheduling("podgroups"),
            ("CREATE", "UPDATE"), _NEW_MINIMUM,
        )  # fmt: skip
    yield WebhookRoute(MUTATE_QUEUES, "mutatequeue.volcano.sh", *_scheduling("queues"), ("CREATE",))
    yield WebhookRoute(
        VALIDATE_QUEUES, "validatequeue.volcano.sh", *_scheduling("queues"), ("CREATE", "UPDATE", "DELETE")
    )
    yield WebhookRoute(MUTATE_JOBS, "mutatejob.volcano.sh", *_JOBS, ("CREATE",))
    yield WebhookRoute(VALIDATE_JOBS, "validatejob.volcano.sh", *_JOBS, ("CREATE", "UPDATE"))
    yield WebhookRoute(
        VALIDATE_HYPER_NODES, "validatehypernode.volcano.sh", *_HYPER_NODES, ("CREATE", "UPDATE")
    )
    if rules.min_resources != "off" or rules.reject_pods_of_pending_groups:
        yield WebhookRoute(
            PODS_MIN_RESOURCES, "podminresources.volcano.sh", "", "v1", "pods", ("CREATE",), _NO_DAEMON
        )
    if rules.gate_pods_of_pending_groups:
        yield WebhookRoute(
            MUTATE_PODS, "mutatepod.volcano.sh", "", "v1", "pods", ("CREATE",),
            f"({_NO_DAEMON}) && {_MAY_BE_GATED}", fails_open=True,
        )  # fmt: skip


def volcano_webhooks(
    rules: PodGroupWebhooks, namespace: str, endpoint: WebhookEndpoint
) -> tuple[Iterable[Json], Iterable[Json]]:
    """Return the mutating and the validating webhooks; ``namespace``: of the server."""
    webhooks = [(route, _webhook(route, rules, namespace, endpoint)) for route in webhook_routes(rules)]
    return (
        [webhook for route, webhook in webhooks if route.mutates],
        [webhook for route, webhook in webhooks if not route.mutates],
    )


def _webhook(route: WebhookRoute, rules: PodGroupWebhooks, namespace: str, endpoint: WebhookEndpoint) -> Json:
    webhook: Json = {
        "name": route.name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": endpoint.client_config(route.path),
        "failurePolicy": "Ignore" if route.fails_open else rules.failure_policy,
        "sideEffects": "None",
        "timeoutSeconds": VOLCANO_TIMEOUT_S,
        "rules": [
            {
                "apiGroups": [route.group],
                "apiVersions": [route.version],
                "operations": list(route.operations),
                "resources": [route.plural],
            }
        ],
    }
    if route.is_for_pods:
        # Without this, failurePolicy Fail would keep the pods of the webhook server from being created again.
        exempt = {"key": NAMESPACE_NAME_LABEL, "operator": "NotIn", "values": [KUBE_SYSTEM, namespace]}
        webhook["namespaceSelector"] = {"matchExpressions": [exempt]}
    if route.condition:
        webhook["matchConditions"] = [{"name": "worth-asking", "expression": route.condition}]
    return webhook
