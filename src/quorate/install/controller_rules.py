"""The RBAC rules that the controllers need: one table for the roles, ``preflight`` and the tests.

A new request of a controller to the API server needs a rule here; a test compares the requests of its
scenarios with this table.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from quorate.api import native_groups, quorate, volcano
from quorate.api.configuration.integrations import Integrations
from quorate.api.configuration.webhooks import CertificateManagement
from quorate.api.core import device_claims
from quorate.api.kueue import GROUP, visibility
from quorate.api.kueue.conversion import CONVERTED_KINDS
from quorate.api.kueue.multikueue import PROFILE_GROUP
from quorate.api.volcano import job as volcano_job
from quorate.api.volcano import topology as volcano_topology
from quorate.controllers.integrations import INTEGRATIONS
from quorate.controllers.serving.kinds import SETS
from quorate.kube.serving.delegated_auth import FRONT_PROXY_CONFIG_MAP, FRONT_PROXY_NAMESPACE
from quorate.webhooks.serving_certificate import INSTALLERS

READ: Final = ("get", "list", "watch")
OWN: Final = "the controllers' own namespace"


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """Verbs on resources of one API group; subresources are written ``workloads/status``."""

    needed_for: str  # shown by ``preflight`` when the rule is missing
    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    namespace: str = (
        ""  # empty: every namespace; or ``OWN``, kube-public, or one in which the cluster has the role
    )
    names: tuple[str, ...] = ()  # resourceNames; empty: all objects

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yield each verb with each resource."""
        return ((verb, resource) for resource in self.resources for verb in self.verbs)


# The kinds of job that the controllers read, suspend and resume, and no more; and their plurals by API group.
JOBS: Final = tuple(row.resource for row in INTEGRATIONS.values() if row.makes_pods_elsewhere)
JOB_PLURALS: Final = {
    group: tuple(job.plural for job in JOBS if job.group == group)
    for group in dict.fromkeys(job.group for job in JOBS)
}

_SERVING_GROUPS: Final = {kind.resource.group for kind in SETS.values()}


def _job_rules() -> tuple[PolicyRule, ...]:
    """Return the rules for all kinds of job, one per API group and purpose.

    The admission plugin OwnerReferencesPermissionEnforcement requires ``update`` on ``finalizers`` of an
    owner with ``blockOwnerDeletion``.  Serving workloads are never deactivated, so they need no ``delete``.
    """
    rules: list[PolicyRule] = []
    for group, plurals in JOB_PLURALS.items():
        finalizers = tuple(f"{plural}/finalizers" for plural in plurals)
        rules += [
            PolicyRule("suspending and resuming jobs", group, plurals, (*READ, "patch")),
            PolicyRule("owner references to jobs", group, finalizers, ("update",)),
        ]
        if group not in _SERVING_GROUPS:
            statuses = tuple(f"{plural}/status" for plural in plurals)
            rules += [
                PolicyRule("deleting deactivated jobs", group, plurals, ("delete",)),
                PolicyRule(
                    "status of stopped jobs, and of jobs in worker clusters", group, statuses, ("patch",)
                ),
            ]
    return tuple(rules)


def declared_kind_rules(integrations: Integrations) -> Iterator[PolicyRule]:
    """Yield the rules for ``declaredFrameworks``; the administrator adds a role that grants them."""
    for kind in integrations.declared:
        needed_for = f"queueing {kind.kind}"
        yield PolicyRule(needed_for, kind.group, (kind.plural,), (*READ, "patch", "delete"))
        yield PolicyRule(needed_for, kind.group, (f"{kind.plural}/finalizers",), ("update",))
        yield PolicyRule(needed_for, kind.group, (f"{kind.plural}/status",), ("patch",))


CONTROLLER_RULES: Final = (
    PolicyRule(
        "creating workloads of jobs", GROUP, ("workloads",),
        (*READ, "create", "delete", "patch"),
    ),
    PolicyRule("writing the status of workloads", GROUP, ("workloads/status",), ("patch",)),
    PolicyRule(
        "adding finalizers to objects in use", GROUP,
        ("clusterqueues", "localqueues", "cohorts", "resourceflavors", "topologies", "admissionchecks"),
        (*READ, "patch"),
    ),
    PolicyRule(
        "writing the status of queues, cohorts and admission checks", GROUP,
        ("clusterqueues/status", "localqueues/status", "cohorts/status", "admissionchecks/status"),
        ("patch",),
    ),
    PolicyRule("keeping quota and nodes for Reservations", quorate.GROUP, ("reservations",), READ),
    PolicyRule("writing the status of Reservations", quorate.GROUP, ("reservations/status",), ("patch",)),
    PolicyRule("reading priorities of workloads", GROUP, ("workloadpriorityclasses",), READ),
    PolicyRule("reading parameters of ProvisioningRequests", GROUP, ("provisioningrequestconfigs",), READ),
    PolicyRule("creating ProvisioningRequests", "autoscaling.x-k8s.io", ("provisioningrequests",),
               (*READ, "create", "delete")),
    PolicyRule("owner references to ProvisioningRequests", "autoscaling.x-k8s.io",
               ("provisioningrequests/finalizers",), ("update",)),
    PolicyRule("pod templates of ProvisioningRequests", "", ("podtemplates",),
               (*READ, "create", "patch", "delete")),
    PolicyRule("reading the worker clusters of MultiKueue", GROUP,
               ("multikueueclusters", "multikueueconfigs"), READ),
    PolicyRule("writing the status of worker clusters", GROUP, ("multikueueclusters/status",), ("patch",)),
    PolicyRule("reading the serving certificate, and kubeconfigs of worker clusters by their names", "",
               ("secrets",), ("get", "watch"), OWN),
    PolicyRule("reading ClusterProfiles of worker clusters", PROFILE_GROUP, ("clusterprofiles",),
               ("get", "watch"), OWN),
    *_job_rules(),
    PolicyRule("reading runtimes of TrainJobs", "trainer.kubeflow.org",
               ("trainingruntimes", "clustertrainingruntimes"), READ),
    PolicyRule("finding the owners of jobs and pods", "apps", ("replicasets",), ("get",)),
    PolicyRule("queueing pods and pod groups", "", ("pods",), (*READ, "delete", "patch")),
    PolicyRule("writing conditions of stopped pods", "", ("pods/status",), ("patch",)),
    PolicyRule("places in topologies, and detecting lost nodes", "", ("nodes",), READ),
    PolicyRule("claims of pods that nodes are checked for", "", ("persistentvolumeclaims",),
               ("list", "watch")),
    PolicyRule("volumes of pods that nodes are checked for", "", ("persistentvolumes",), READ),
    PolicyRule("volumes of pods that nodes are checked for", "storage.k8s.io",
               ("storageclasses", "csinodes"), READ),
    PolicyRule("owner references to pods", "", ("pods/finalizers",), ("update",)),
    PolicyRule("requests of pods, and namespaceSelector of queues", "", ("namespaces", "limitranges"), READ),
    PolicyRule("devices that pods claim", device_claims.GROUP,
               ("resourceclaimtemplates", "deviceclasses", "resourceslices"), READ),
    PolicyRule("remedies of pod groups", device_claims.GROUP, ("resourceclaims",), ("list",)),
    PolicyRule("remedies of pod groups", "policy", ("poddisruptionbudgets",), ("list",)),
    PolicyRule("reading priorities of pods", "scheduling.k8s.io", ("priorityclasses",), READ),
    PolicyRule("reading overhead of pods", "node.k8s.io", ("runtimeclasses",), READ),
    PolicyRule("reading pod groups of Kubernetes", native_groups.GROUP, ("podgroups", "workloads"), READ),
    PolicyRule("creating pod groups of jobs and pods", volcano.GROUP, ("podgroups",),
               (*READ, "create", "delete", "patch")),
    PolicyRule("owner references to pod groups", volcano.GROUP, ("podgroups/finalizers",), ("update",)),
    PolicyRule("checking ResourceQuotas in the pod group webhooks", "", ("resourcequotas",), READ),
    PolicyRule("creating queues of pod groups", volcano.GROUP, ("queues",), (*READ, "create", "patch")),
    PolicyRule("writing the status of queues of pod groups", volcano.GROUP, ("queues/status",), ("patch",)),
    PolicyRule("making HyperNodes from node labels", volcano_topology.GROUP, ("hypernodes",),
               (*READ, "create", "patch", "delete")),
    PolicyRule("counting the nodes of HyperNodes", volcano_topology.GROUP, ("hypernodes/status",),
               ("patch",)),
    PolicyRule("reading pod group annotations of pod owners", "apps", ("daemonsets",), ("get",)),
    PolicyRule("running and queueing Volcano Jobs", volcano_job.GROUP, ("jobs",), (*READ, "patch", "delete")),
    PolicyRule("writing the status of Volcano Jobs", volcano_job.GROUP, ("jobs/status",), ("patch",)),
    PolicyRule("owner references to Volcano Jobs", volcano_job.GROUP, ("jobs/finalizers",), ("update",)),
    PolicyRule("executing commands of Volcano", volcano_job.BUS_GROUP, ("commands",), (*READ, "delete")),
    PolicyRule("creating pods of Volcano Jobs", "", ("pods",), ("create",)),
    PolicyRule("host lists, services and claims of Volcano Jobs; snapshots of the runtimes of TrainJobs", "",
               ("configmaps", "services", "persistentvolumeclaims"), ("create", "get")),
    PolicyRule("deleting host lists and services of ended Volcano Jobs", "", ("configmaps", "services"),
               ("delete",)),
    PolicyRule("updating host lists of scaled Volcano Jobs", "", ("configmaps",), ("patch",)),
    PolicyRule("network policies of Volcano Jobs", "networking.k8s.io", ("networkpolicies",),
               ("create", "get", "delete")),
    PolicyRule("SSH keys of Volcano Jobs", "", ("secrets",), ("create", "delete")),
    PolicyRule("recording events", "events.k8s.io", ("events",), ("create", "get", "patch")),
    PolicyRule("why pods of a job are not created", "events.k8s.io", ("events",), ("list",)),
    PolicyRule(
        "electing a leader", "coordination.k8s.io", ("leases",),
        ("get", "watch", "create", "patch"), OWN,
    ),
    PolicyRule("storing the serving certificate", "", ("secrets",), ("create",), OWN),
    PolicyRule(
        "storing the serving certificate", "", ("secrets",), ("patch",), OWN,
        (CertificateManagement().secret,),
    ),
    PolicyRule(
        "injecting the CA bundle", "admissionregistration.k8s.io",
        ("mutatingwebhookconfigurations",), ("get", "patch"),
        names=tuple(f"{installer}-mutating-webhook-configuration" for installer in INSTALLERS),
    ),
    PolicyRule(
        "injecting the CA bundle", "admissionregistration.k8s.io",
        ("validatingwebhookconfigurations",), ("get", "patch"),
        names=tuple(f"{installer}-validating-webhook-configuration" for installer in INSTALLERS),
    ),
    PolicyRule(
        "injecting the CA bundle", "apiextensions.k8s.io",
        ("customresourcedefinitions",), ("get", "patch"),
        names=tuple(f"{kind.lower()}s.{GROUP}" for kind in CONVERTED_KINDS),
    ),
    PolicyRule("authenticating clients of metrics and visibility", "authentication.k8s.io",
               ("tokenreviews",), ("create",)),
    PolicyRule("authorizing clients of metrics and visibility", "authorization.k8s.io",
               ("subjectaccessreviews",), ("create",)),
    PolicyRule(
        "verifying the API server as a client of the visibility API", "", ("configmaps",), READ,
        FRONT_PROXY_NAMESPACE, (FRONT_PROXY_CONFIG_MAP,),
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class QueueingKind:
    """A queueing kind with an editor and a viewer role, and the roles that these are aggregated to."""

    plural: str
    singular: str
    editors: tuple[str, ...]
    viewers: tuple[str, ...]
    built_in_viewers: tuple[str, ...] = ()  # view, edit, admin
    group: str = GROUP


ADMIN: Final = "batch-admin"
USER: Final = "batch-user"
QUEUEING_KINDS: Final = (
    QueueingKind("clusterqueues", "clusterqueue", (ADMIN,), (ADMIN,), ("admin",)),
    QueueingKind("cohorts", "cohort", (ADMIN,), (ADMIN,), ("admin",)),
    QueueingKind("localqueues", "localqueue", (ADMIN,), (ADMIN, USER), ("view", "edit", "admin")),
    QueueingKind("resourceflavors", "resourceflavor", (ADMIN,), (ADMIN,), ("admin",)),
    QueueingKind("topologies", "topology", (ADMIN,), (ADMIN,), ("admin",)),
    QueueingKind("workloads", "workload", (ADMIN,), (ADMIN, USER), ("view", "edit", "admin")),
    QueueingKind("admissionchecks", "admissioncheck", (ADMIN,), (ADMIN,)),
    QueueingKind("multikueueclusters", "multikueuecluster", (ADMIN,), (ADMIN,)),
    QueueingKind("multikueueconfigs", "multikueueconfig", (ADMIN,), (ADMIN,)),
    QueueingKind("provisioningrequestconfigs", "provisioningrequestconfig", (ADMIN,), (ADMIN,)),
    QueueingKind("workloadpriorityclasses", "workloadpriorityclass", (ADMIN,), (ADMIN,)),
    QueueingKind("reservations", "reservation", (ADMIN,), (ADMIN, USER), ("admin",), quorate.GROUP),
)
PENDING_GROUP: Final = visibility.GROUP
