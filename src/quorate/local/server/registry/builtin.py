"""The built-in kinds: everything this server knows without a CustomResourceDefinition.

The subset of Kubernetes that batch work needs.  Endpoints that would reach into a container (exec, log, ...)
are listed as a real server lists them, since clients look them up before they ask.
"""

from dataclasses import replace
from functools import partial

from quorate.local.objects.crd.definition import ScalePaths
from quorate.local.server.errors import qualified
from quorate.local.server.registry.kinds import EVERY_VERB, SCALE, STATUS, Kind, Rules, Subresource
from quorate.local.server.registry.strategies import RULES
from quorate.local.server.storage import object_encoding, version_conversion

CREATE_ONLY = ("create",)
NO_COLLECTION_DELETE = tuple(verb for verb in EVERY_VERB if verb != "deletecollection")
PROXY_VERBS = ("create", "delete", "get", "patch", "update")
IN_PLACE = ("get", "patch", "update")

POD_SUBRESOURCES = (
    Subresource("attach", ("create", "get"), kind="PodAttachOptions"),
    Subresource("binding", CREATE_ONLY, kind="Binding"),
    Subresource("ephemeralcontainers", IN_PLACE),
    Subresource("eviction", CREATE_ONLY, "policy", "v1", "Eviction"),
    Subresource("exec", ("create", "get"), kind="PodExecOptions"),
    Subresource("log", ("get",)),
    Subresource("portforward", ("create", "get"), kind="PodPortForwardOptions"),
    Subresource("proxy", PROXY_VERBS, kind="PodProxyOptions"),
    Subresource("resize", IN_PLACE),
    STATUS,
)
POD_FIELDS = {
    "spec.nodeName": "",
    "spec.restartPolicy": "",
    "spec.schedulerName": "",
    "spec.serviceAccountName": "",
    "spec.hostNetwork": "false",
    "status.phase": "",
    "status.podIP": "",
    "status.nominatedNodeName": "",
}
CORE_EVENT_FIELDS = {
    f"involvedObject.{name}": ""
    for name in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
} | {"reason": "", "reportingComponent": "", "source": "", "type": ""}
EVENT_FIELDS = {
    label.replace("involvedObject", "regarding"): value for label, value in CORE_EVENT_FIELDS.items()
}


def core(kind: str, plural: str, *short_names: str, namespaced: bool = True, **more: object) -> Kind:
    return Kind("", "v1", kind, plural, namespaced, short_names=short_names, **more)  # type: ignore[arg-type]


def rbac(kind: str, plural: str, namespaced: bool) -> Kind:
    return Kind("rbac.authorization.k8s.io", "v1", kind, plural, namespaced, create_on_update=True)


CORE = (
    core("Binding", "bindings", verbs=CREATE_ONLY),
    core("ConfigMap", "configmaps", "cm"),
    core("Event", "events", "ev", selectable=CORE_EVENT_FIELDS, create_on_update=True),
    core("LimitRange", "limitranges", "limits", create_on_update=True),
    core(
        "Namespace",
        "namespaces",
        "ns",
        namespaced=False,
        verbs=NO_COLLECTION_DELETE,
        subresources=(Subresource("finalize", ("update",)), STATUS),
        selectable={"status.phase": ""},
    ),
    core(
        "Node",
        "nodes",
        "no",
        namespaced=False,
        subresources=(Subresource("proxy", PROXY_VERBS, kind="NodeProxyOptions"), STATUS),
        selectable={"spec.unschedulable": "false"},
    ),
    core(
        "Pod",
        "pods",
        "po",
        categories=("all",),
        subresources=POD_SUBRESOURCES,
        selectable=POD_FIELDS,
        counts_generations=True,
        deletion_answers_object=True,
    ),
    core("PodTemplate", "podtemplates", counts_generations=True, deletion_answers_object=True),
    core("ResourceQuota", "resourcequotas", "quota", subresources=(STATUS,), deletion_answers_object=True),
    core("Secret", "secrets", selectable={"type": ""}),
    core(
        "ServiceAccount",
        "serviceaccounts",
        "sa",
        subresources=(Subresource("token", CREATE_ONLY, "authentication.k8s.io", "v1", "TokenRequest"),),
        deletion_answers_object=True,
    ),
    core(
        "Service",
        "services",
        "svc",
        categories=("all",),
        subresources=(Subresource("proxy", PROXY_VERBS, kind="ServiceProxyOptions"), STATUS),
        selectable={"spec.clusterIP": "", "spec.type": ""},
        deletion_answers_object=True,
    ),
)


def apps(kind: str, plural: str, *short_names: str) -> Kind:
    return Kind(
        "apps",
        "v1",
        kind,
        plural,
        True,
        short_names=short_names,
        categories=("all",),
        subresources=(SCALE, STATUS),
        counts_generations=True,
        scale=ScalePaths(".spec.replicas", ".status.replicas", ".spec.selector"),
    )


GROUPED = (
    apps("Deployment", "deployments", "deploy"),
    apps("ReplicaSet", "replicasets", "rs"),
    apps("StatefulSet", "statefulsets", "sts"),
    Kind(
        "batch",
        "v1",
        "Job",
        "jobs",
        True,
        categories=("all",),
        subresources=(STATUS,),
        selectable={"status.successful": "0"},
        counts_generations=True,
    ),
    Kind(
        "coordination.k8s.io",
        "v1",
        "Lease",
        "leases",
        True,
        create_on_update=True,
        update_names_version=True,
    ),
    Kind(
        "events.k8s.io",
        "v1",
        "Event",
        "events",
        True,
        short_names=("ev",),
        selectable=EVENT_FIELDS,
        create_on_update=True,
        stored_as="events",
        convert=version_conversion.convert_events,
    ),
    Kind(
        "scheduling.k8s.io",
        "v1",
        "PriorityClass",
        "priorityclasses",
        False,
        short_names=("pc",),
        counts_generations=True,
    ),
    Kind("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", False),
    rbac("Role", "roles", True),
    rbac("RoleBinding", "rolebindings", True),
    rbac("ClusterRole", "clusterroles", False),
    rbac("ClusterRoleBinding", "clusterrolebindings", False),
    Kind(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        False,
        short_names=("crd", "crds"),
        categories=("api-extensions",),
        subresources=(STATUS,),
        counts_generations=True,
    ),
)


WEBHOOKS = "admissionregistration.k8s.io"
FLOW_CONTROL = "flowcontrol.apiserver.k8s.io"

CLUSTER = (
    Kind("", "v1", "Endpoints", "endpoints", True, short_names=("ep",), list_kind="EndpointsList"),
    Kind(
        "discovery.k8s.io",
        "v1",
        "EndpointSlice",
        "endpointslices",
        True,
        counts_generations=True,
    ),
    Kind(
        WEBHOOKS,
        "v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        False,
        categories=("api-extensions",),
        counts_generations=True,
    ),
    Kind(
        WEBHOOKS,
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        False,
        categories=("api-extensions",),
        counts_generations=True,
    ),
    Kind(
        "apiregistration.k8s.io",
        "v1",
        "APIService",
        "apiservices",
        False,
        categories=("api-extensions",),
        subresources=(STATUS,),
    ),
    Kind(
        "policy",
        "v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        True,
        short_names=("pdb",),
        subresources=(STATUS,),
        counts_generations=True,
    ),
    Kind(
        "networking.k8s.io",
        "v1",
        "NetworkPolicy",
        "networkpolicies",
        True,
        short_names=("netpol",),
        counts_generations=True,
    ),
    Kind(
        FLOW_CONTROL,
        "v1",
        "FlowSchema",
        "flowschemas",
        False,
        subresources=(STATUS,),
        counts_generations=True,
    ),
    Kind(
        FLOW_CONTROL,
        "v1",
        "PriorityLevelConfiguration",
        "prioritylevelconfigurations",
        False,
        subresources=(STATUS,),
        counts_generations=True,
    ),
)


STORAGE_GROUP = "storage.k8s.io"

STORAGE = (
    Kind(
        "",
        "v1",
        "PersistentVolume",
        "persistentvolumes",
        False,
        short_names=("pv",),
        subresources=(STATUS,),
        deletion_answers_object=True,
    ),
    Kind(
        "",
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        True,
        short_names=("pvc",),
        subresources=(STATUS,),
        deletion_answers_object=True,
    ),
    Kind(
        STORAGE_GROUP,
        "v1",
        "StorageClass",
        "storageclasses",
        False,
        short_names=("sc",),
        deletion_answers_object=True,
    ),
    Kind(STORAGE_GROUP, "v1", "CSINode", "csinodes", False, deletion_answers_object=True),
)


AUTHORIZATION, AUTHENTICATION = "authorization.k8s.io", "authentication.k8s.io"
REVIEWS = tuple(
    Kind(group, "v1", kind, kind.lower() + "s", namespaced, verbs=CREATE_ONLY)
    for group, kind, namespaced in (
        (AUTHORIZATION, "LocalSubjectAccessReview", True),
        (AUTHORIZATION, "SelfSubjectAccessReview", False),
        (AUTHORIZATION, "SelfSubjectRulesReview", False),
        (AUTHORIZATION, "SubjectAccessReview", False),
        (AUTHENTICATION, "SelfSubjectReview", False),
        (AUTHENTICATION, "TokenReview", False),
    )
)


def _complete(kind: Kind) -> Kind:
    """The kind with its type and rules."""
    rules = RULES.get(qualified(kind.group, kind.plural), Rules())
    rules = replace(rules, decode=partial(object_encoding.decode, kind))
    return replace(kind, type=object_encoding.type_of(kind), rules=rules)


KINDS = tuple(_complete(kind) for kind in CORE + GROUPED + STORAGE + CLUSTER) + REVIEWS
