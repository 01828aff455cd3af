"""Which objects the API server is to ask about, and where: the table of these webhooks."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from quorate.api import volcano
from quorate.api.configuration.gang import PodGroupWebhooks
from quorate.api.volcano import job as volcano_job
from quorate.api.volcano.annotations import GROUP_NAME, QUEUE_ALLOCATION_GATE
from quorate.webhooks.admission_review import Operation

KUBE_SYSTEM: Final = "kube-system"  # its pods are never asked about

MUTATE_POD_GROUPS: Final = "/podgroups/mutate"
VALIDATE_POD_GROUPS: Final = "/podgroups/validate"
POD_GROUPS_MIN_RESOURCES: Final = "/podgroups/min-resources"
MUTATE_QUEUES: Final = "/queues/mutate"
VALIDATE_QUEUES: Final = "/queues/validate"
MUTATE_JOBS: Final = "/jobs/mutate"
VALIDATE_JOBS: Final = "/jobs/validate"
PODS_MIN_RESOURCES: Final = "/pods/min-resources"
MUTATE_PODS: Final = "/pods/mutate"
UNUSED: Final = "/pods/validate"  # Volcano's manifests ask there, too; nothing of what we do needs it


@dataclass(frozen=True, slots=True)
class WebhookRoute:
    """One webhook."""

    path: str
    name: str  # the API server says it in front of every refusal
    group: str
    version: str
    plural: str
    operations: tuple[Operation, ...]
    condition: str = ""  # CEL: about what to ask; empty: about all
    fails_open: bool = False  # nobody is ever refused for want of an answer

    @property
    def mutates(self) -> bool:
        return self.path.endswith("/mutate")

    @property
    def is_about_pods(self) -> bool:
        return self.plural == "pods"


def _scheduling(plural: str) -> tuple[str, str, str]:
    return volcano.GROUP, volcano.VERSION, plural


_JOBS: Final = (volcano_job.GROUP, volcano_job.VERSION, "jobs")
# A pod group has its status in the object itself: its scheduler's writes are not asked about.
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
    """Those that ``rules`` have a use for."""
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
    if rules.min_resources != "off" or rules.reject_pods_of_pending_groups:
        yield WebhookRoute(
            PODS_MIN_RESOURCES, "podminresources.volcano.sh", "", "v1", "pods", ("CREATE",), _NO_DAEMON
        )
    if rules.gate_pods_of_pending_groups:
        yield WebhookRoute(
            MUTATE_PODS, "mutatepod.volcano.sh", "", "v1", "pods", ("CREATE",),
            f"({_NO_DAEMON}) && {_MAY_BE_GATED}", fails_open=True,
        )  # fmt: skip
