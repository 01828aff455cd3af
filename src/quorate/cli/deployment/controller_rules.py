"""Which rights each part of the controllers needs: the one table behind roles, ``preflight`` and tests.

Whoever makes a controller ask the API server for something new adds it here, or is told so by the test that
compares what is asked in its stories with this table.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from quorate.api import volcano
from quorate.api.configuration.integrations import Integrations
from quorate.api.configuration.webhooks import CertificateManagement
from quorate.api.kueue import GROUP, visibility
from quorate.api.kueue.conversion import CONVERTED_KINDS
from quorate.api.volcano import job as volcano_job
from quorate.controllers.serving.kinds import SETS
from quorate.kube.serving import front_proxy
from quorate.webhooks.ca_injection import INSTALLERS

READ: Final = ("get", "list", "watch")
OWN: Final = "the controllers' own namespace"


@dataclass(frozen=True, slots=True)
class Right:
    """Verbs on kinds of objects; subresources are written ``workloads/status``."""

    needed_for: str
    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    namespace: str = ""  # empty: the whole cluster; or ``OWN``, or one where the cluster has a role for it
    names: tuple[str, ...] = ()  # of the objects meant; none: all of them

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Each verb with each resource."""
        return ((verb, resource) for resource in self.resources for verb in self.verbs)


@dataclass(frozen=True, slots=True)
class JobResource:
    """A kind of job: who queues it needs to see it, to stop and start it, and no more."""

    framework: str  # as the Configuration names it
    group: str
    plural: str
    singular: str


JOBS: Final = (
    JobResource("batch/job", "batch", "jobs", "job"),
    JobResource("jobset.x-k8s.io/jobset", "jobset.x-k8s.io", "jobsets", "jobset"),
    JobResource("kubeflow.org/mpijob", "kubeflow.org", "mpijobs", "mpijob"),
    JobResource("kubeflow.org/tfjob", "kubeflow.org", "tfjobs", "tfjob"),
    JobResource("kubeflow.org/pytorchjob", "kubeflow.org", "pytorchjobs", "pytorchjob"),
    JobResource("kubeflow.org/paddlejob", "kubeflow.org", "paddlejobs", "paddlejob"),
    JobResource("kubeflow.org/xgboostjob", "kubeflow.org", "xgboostjobs", "xgboostjob"),
    JobResource("kubeflow.org/jaxjob", "kubeflow.org", "jaxjobs", "jaxjob"),
    JobResource("trainer.kubeflow.org/trainjob", "trainer.kubeflow.org", "trainjobs", "trainjob"),
    JobResource("ray.io/rayjob", "ray.io", "rayjobs", "rayjob"),
    JobResource("ray.io/raycluster", "ray.io", "rayclusters", "raycluster"),
    JobResource("ray.io/rayservice", "ray.io", "rayservices", "rayservice"),
    JobResource("workload.codeflare.dev/appwrapper", "workload.codeflare.dev", "appwrappers", "appwrapper"),
    JobResource(
        "sparkoperator.k8s.io/sparkapplication",
        "sparkoperator.k8s.io",
        "sparkapplications",
        "sparkapplication",
    ),
    JobResource(
        "leaderworkerset.x-k8s.io/leaderworkerset",
        "leaderworkerset.x-k8s.io",
        "leaderworkersets",
        "leaderworkerset",
    ),
    JobResource("statefulset", "apps", "statefulsets", "statefulset"),
    JobResource("deployment", "apps", "deployments", "deployment"),
)

_SERVING_GROUPS: Final = {kind.resource.group for kind in SETS.values()}


def _jobs() -> tuple[Right, ...]:
    """One right for each group, since that is how roles are written.

    ``finalizers``: where owner references are enforced, naming a job as the owner that blocks takes it.
    What serves is never given up, so it is never deleted either.
    """
    rights: list[Right] = []
    for group in dict.fromkeys(job.group for job in JOBS):
        plurals = tuple(job.plural for job in JOBS if job.group == group)
        finalizers = tuple(f"{plural}/finalizers" for plural in plurals)
        rights += [
            Right("starting and stopping jobs", group, plurals, (*READ, "patch")),
            Right("owning workloads by jobs", group, finalizers, ("update",)),
        ]
        if group not in _SERVING_GROUPS:
            rights.append(Right("deleting jobs that were given up", group, plurals, ("delete",)))
    return tuple(rights)


def rights_of_declared(integrations: Integrations) -> Iterator[Right]:
    """What the kinds take that only a Configuration knows; who declares them adds a role that grants it."""
    for kind in integrations.declared:
        needed_for = f"queueing {kind.kind}"
        yield Right(needed_for, kind.group, (kind.plural,), (*READ, "patch", "delete"))
        yield Right(needed_for, kind.group, (f"{kind.plural}/finalizers",), ("update",))


RIGHTS: Final = (
    Right(
        "giving each job its workload", GROUP, ("workloads",),
        (*READ, "create", "delete", "patch"),
    ),
    Right("writing down what was decided", GROUP, ("workloads/status",), ("patch",)),
    Right(
        "keeping objects while they are used", GROUP,
        ("clusterqueues", "localqueues", "cohorts", "resourceflavors", "admissionchecks"),
        (*READ, "patch"),
    ),
    Right(
        "showing counts and use", GROUP,
        ("clusterqueues/status", "localqueues/status", "cohorts/status", "admissionchecks/status"),
        ("patch",),
    ),
    Right("priorities of workloads", GROUP, ("workloadpriorityclasses",), READ),
    Right("how capacity is asked for", GROUP, ("provisioningrequestconfigs",), READ),
    Right("asking autoscalers for capacity", "autoscaling.x-k8s.io", ("provisioningrequests",),
          (*READ, "create", "delete")),
    Right("owning templates by requests", "autoscaling.x-k8s.io", ("provisioningrequests/finalizers",),
          ("update",)),
    Right("the pods that capacity is asked for", "", ("podtemplates",), (*READ, "create", "patch")),
    *_jobs(),
    Right("making a stopped job forget when it started", "batch", ("jobs/status",),
          ("patch",)),
    Right("the templates of training jobs", "trainer.kubeflow.org",
          ("trainingruntimes", "clustertrainingruntimes"), READ),
    Right("following the owners of jobs and pods", "apps", ("replicasets",), ("get",)),
    Right("queueing pods and groups of pods", "", ("pods",), (*READ, "delete", "patch")),
    Right("telling why a pod is stopped", "", ("pods/status",), ("patch",)),
    Right("seeing which nodes are lost", "", ("nodes",), READ),
    Right("owning workloads by pods", "", ("pods/finalizers",), ("update",)),
    Right("what pods ask for, and which queues a namespace may use", "", ("namespaces", "limitranges"), READ),
    Right("priorities of pods", "scheduling.k8s.io", ("priorityclasses",), READ),
    Right("overhead of pods", "node.k8s.io", ("runtimeclasses",), READ),
    Right("pod groups of jobs and pods", volcano.GROUP, ("podgroups",),
          (*READ, "create", "delete", "patch")),
    Right("webhooks for pod groups: what quotas leave", "", ("resourcequotas",), READ),
    Right("queues of pod groups", volcano.GROUP, ("queues",), (*READ, "create", "patch")),
    Right("showing what becomes of those queues", volcano.GROUP, ("queues/status",), ("patch",)),
    Right("what owners say of the groups of their pods", "apps", ("daemonsets",), ("get",)),
    Right("Volcano Jobs", volcano_job.GROUP, ("jobs",), (*READ, "delete")),
    Right("what Volcano Jobs have come to", volcano_job.GROUP, ("jobs/status",), ("patch",)),
    Right("owning pods and pod groups by Volcano Jobs", volcano_job.GROUP, ("jobs/finalizers",), ("update",)),
    Right("commands to Volcano Jobs and queues", volcano_job.BUS_GROUP, ("commands",), (*READ, "delete")),
    Right("the pods of Volcano Jobs", "", ("pods",), ("create",)),
    Right("hosts, services and claims of Volcano Jobs", "",
          ("configmaps", "services", "persistentvolumeclaims"), ("create", "get")),
    Right("hosts of Volcano Jobs that grow", "", ("configmaps",), ("patch",)),
    Right("keeping others off the pods of Volcano Jobs", "networking.k8s.io", ("networkpolicies",),
          ("create", "get")),
    Right("keys of Volcano Jobs", "", ("secrets",), ("create",)),
    Right("telling what happened", "events.k8s.io", ("events",), ("create", "get", "patch")),
    Right(
        "one of several replicas decides", "coordination.k8s.io", ("leases",),
        ("get", "create", "patch"), OWN,
    ),
    Right("the certificate that replicas share", "", ("secrets",), ("create",), OWN),
    Right(
        "the certificate that replicas share", "", ("secrets",), ("get", "patch"), OWN,
        (CertificateManagement().secret,),
    ),
    Right(
        "letting the API server trust that certificate", "admissionregistration.k8s.io",
        ("mutatingwebhookconfigurations",), ("get", "patch"),
        names=tuple(f"{installer}-mutating-webhook-configuration" for installer in INSTALLERS),
    ),
    Right(
        "letting the API server trust that certificate", "admissionregistration.k8s.io",
        ("validatingwebhookconfigurations",), ("get", "patch"),
        names=tuple(f"{installer}-validating-webhook-configuration" for installer in INSTALLERS),
    ),
    Right(
        "letting the API server trust that certificate", "apiextensions.k8s.io",
        ("customresourcedefinitions",), ("get", "patch"),
        names=tuple(f"{kind.lower()}s.{GROUP}" for kind in CONVERTED_KINDS),
    ),
    Right("who asks for metrics or for places", "authentication.k8s.io", ("tokenreviews",), ("create",)),
    Right("what they may see", "authorization.k8s.io", ("subjectaccessreviews",), ("create",)),
    Right(
        "knowing the API server that asks for places", "", ("configmaps",), READ,
        front_proxy.NAMESPACE, (front_proxy.NAME,),
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class QueueingKind:
    """A kind whose editing or viewing is handed out as a role."""

    plural: str
    singular: str
    edited_by: tuple[str, ...]
    seen_by: tuple[str, ...]
    aggregated_to: tuple[str, ...] = ()  # built-in roles that see it


ADMIN: Final = "batch-admin"
USER: Final = "batch-user"
QUEUEING_KINDS: Final = (
    QueueingKind("clusterqueues", "clusterqueue", (ADMIN,), (ADMIN,), ("admin",)),
    QueueingKind("cohorts", "cohort", (ADMIN,), (ADMIN,), ("admin",)),
    QueueingKind("localqueues", "localqueue", (ADMIN,), (ADMIN, USER), ("view", "edit", "admin")),
    QueueingKind("resourceflavors", "resourceflavor", (ADMIN,), (ADMIN,), ("admin",)),
    QueueingKind("topologies", "topology", (ADMIN,), (ADMIN,), ("admin",)),
    QueueingKind("workloads", "workload", (ADMIN,), (ADMIN, USER), ("view", "edit", "admin")),
)
PENDING_GROUP: Final = visibility.GROUP
