"""The built-in kinds: all that the server serves without a CustomResourceDefinition.

The subset of Kubernetes that batch workloads need.  Subresources that need a kubelet (exec, log, ...) are
listed in discovery as by kube-apiserver, since clients look them up there.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from quorate.local.objects.crd.definition import ScalePaths
from quorate.local.server.errors import group_resource
from quorate.local.server.registry import infrastructure_kinds
from quorate.local.server.registry.kinds import ALL_VERBS, SCALE, STATUS, Kind, Strategy, Subresource
from quorate.local.server.registry.strategies import STRATEGIES
from quorate.local.server.storage import object_encoding, version_conversion

AUTHENTICATION = "authentication.k8s.io"
AUTHORIZATION = "authorization.k8s.io"

CREATE_ONLY = ("create",)
NO_COLLECTION_DELETE = tuple(verb for verb in ALL_VERBS if verb != "deletecollection")
PROXY_VERBS = ("create", "delete", "get", "patch", "update")
GET_AND_UPDATE = ("get", "patch", "update")

POD_SUBRESOURCES = (
    Subresource("attach", ("create", "get"), kind="PodAttachOptions"),
    Subresource("binding", CREATE_ONLY, kind="Binding"),
    Subresource("ephemeralcontainers", GET_AND_UPDATE),
    Subresource("eviction", CREATE_ONLY, "policy", "v1", "Eviction"),
    Subresource("exec", ("create", "get"), kind="PodExecOptions"),
    Subresource("log", ("get",)),
    Subresource("portforward", ("create", "get"), kind="PodPortForwardOptions"),
    Subresource("proxy", PROXY_VERBS, kind="PodProxyOptions"),
    Subresource("resize", GET_AND_UPDATE),
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


def core_kind(kind: str, plural: str, *short_names: str, namespaced: bool = True, **more: object) -> Kind:
    return Kind("", "v1", kind, plural, namespaced, short_names=short_names, **more)  # type: ignore[arg-type]


def rbac_kind(kind: str, plural: str, namespaced: bool) -> Kind:
    return Kind("rbac.authorization.k8s.io", "v1", kind, plural, namespaced, allow_create_on_update=True)


CORE = (
    core_kind("Binding", "bindings", verbs=CREATE_ONLY),
    core_kind("ConfigMap", "configmaps", "cm"),
    core_kind("Event", "events", "ev", selectable_fields=CORE_EVENT_FIELDS, allow_create_on_update=True),
    core_kind("LimitRange", "limitranges", "limits", allow_create_on_update=True),
    core_kind(
        "Namespace",
        "namespaces",
        "ns",
        namespaced=False,
        verbs=NO_COLLECTION_DELETE,
        subresources=(Subresource("finalize", ("update",)), STATUS),
        selectable_fields={"status.phase": ""},
    ),
    core_kind(
        "Node",
        "nodes",
        "no",
        namespaced=False,
        subresources=(Subresource("proxy", PROXY_VERBS, kind="NodeProxyOptions"), STATUS),
        selectable_fields={"spec.unschedulable": "false"},
    ),
    core_kind(
        "Pod",
        "pods",
        "po",
        categories=("all",),
        subresources=POD_SUBRESOURCES,
        selectable_fields=POD_FIELDS,
        tracks_generation=True,
        return_deleted_object=True,
    ),
    core_kind("PodTemplate", "podtemplates", tracks_generation=True, return_deleted_object=True),
    core_kind(
        "ReplicationController",
        "replicationcontrollers",
        "rc",
        categories=("all",),
        subresources=(SCALE, STATUS),
        selectable_fields={"status.replicas": "0"},
        tracks_generation=True,
        scale=ScalePaths(".spec.replicas", ".status.replicas", ".spec.selector"),
    ),
    core_kind("ResourceQuota", "resourcequotas", "quota", subresources=(STATUS,), return_deleted_object=True),
    core_kind("Secret", "secrets", selectable_fields={"type": ""}),
    core_kind(
        "ServiceAccount",
        "serviceaccounts",
        "sa",
        subresources=(Subresource("token", CREATE_ONLY, "authentication.k8s.io", "v1", "TokenRequest"),),
        return_deleted_object=True,
    ),
    core_kind(
        "Service",
        "services",
        "svc",
        categories=("all",),
        subresources=(Subresource("proxy", PROXY_VERBS, kind="ServiceProxyOptions"), STATUS),
        selectable_fields={"spec.clusterIP": "", "spec.type": ""},
        allow_create_on_update=True,
        return_deleted_object=True,
    ),
)


def apps_kind(kind: str, plural: str, *short_names: str) -> Kind:
    return Kind(
        "apps",
        "v1",
        kind,
        plural,
        True,
        short_names=short_names,
        categories=("all",),
        subresources=(SCALE, STATUS),
        tracks_generation=True,
        scale=ScalePaths(".spec.replicas", ".status.replicas", ".spec.selector"),
    )


API_GROUPS = (
    apps_kind("Deployment", "deployments", "deploy"),
    apps_kind("ReplicaSet", "replicasets", "rs"),
    apps_kind("StatefulSet", "statefulsets", "sts"),
    Kind(
        "apps",
        "v1",
        "DaemonSet",
        "daemonsets",
        True,
        short_names=("ds",),
        categories=("all",),
        subresources=(STATUS,),
        tracks_generation=True,
    ),
    Kind("apps", "v1", "ControllerRevision", "controllerrevisions", True),
    Kind(
        "batch",
        "v1",
        "CronJob",
        "cronjobs",
        True,
        short_names=("cj",),
        categories=("all",),
        subresources=(STATUS,),
        tracks_generation=True,
    ),
    Kind(
        "batch",
        "v1",
        "Job",
        "jobs",
        True,
        categories=("all",),
        subresources=(STATUS,),
        selectable_fields={"status.successful": "0"},
        tracks_generation=True,
    ),
    Kind(
        "coordination.k8s.io",
        "v1",
        "Lease",
        "leases",
        True,
        allow_create_on_update=True,
        require_resource_version=True,
    ),
    Kind(
        "events.k8s.io",
        "v1",
        "Event",
        "events",
        True,
        short_names=("ev",),
        selectable_fields=EVENT_FIELDS,
        allow_create_on_update=True,
        storage_resource="events",
        convert=version_conversion.convert_events,
    ),
    Kind(
        "scheduling.k8s.io",
        "v1",
        "PriorityClass",
        "priorityclasses",
        False,
        short_names=("pc",),
        tracks_generation=True,
        fixed_generation=True,
    ),
    Kind(
        "node.k8s.io",
        "v1",
        "RuntimeClass",
        "runtimeclasses",
        False,
        allow_create_on_update=True,
        require_resource_version=True,
    ),
    rbac_kind("Role", "roles", True),
    rbac_kind("RoleBinding", "rolebindings", True),
    rbac_kind("ClusterRole", "clusterroles", False),
    rbac_kind("ClusterRoleBinding", "clusterrolebindings", False),
    Kind(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        False,
        short_names=("crd", "crds"),
        categories=("api-extensions",),
        subresources=(STATUS,),
        tracks_generation=True,
    ),
)

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


def _completing(kind: Kind, default: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
    """Return a function that sets defaults and then all fields that Go writes."""

    def default_and_complete(obj: dict[str, Any]) -> None:
        default(obj)
        form = object_encoding.complete(kind, obj)
        obj.clear()
        obj |= form

    return default_and_complete


def typed(kind: Kind) -> Kind:
    """Return a built-in kind with its type, which its objects are decoded with, and its strategy."""
    resource = group_resource(kind.group, kind.plural)
    strategy = STRATEGIES.get(f"{resource}/{kind.version}") or STRATEGIES.get(resource, Strategy())
    strategy = replace(
        strategy,
        decode=partial(object_encoding.decode, kind),
        default=_completing(kind, strategy.default),
        default_on_read=_completing(kind, strategy.default_on_read),
    )
    return replace(kind, type=object_encoding.type_of(kind), strategy=strategy)


KINDS = (
    *(typed(kind) for kind in CORE + API_GROUPS + infrastructure_kinds.KINDS + REVIEWS),
    *infrastructure_kinds.METRICS,
)
