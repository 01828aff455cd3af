"""The strategies of the built-in kinds.

The tables of field rules, constants and statuses have what most kinds need, by the names of kinds.  The rules
``RuntimeClass`` hold for all objects, ``RuntimeClass.create``, ``.update`` and ``.status`` for writes.  A
kind in no table is checked for the types of its fields only.
"""

from dataclasses import fields

from quorate.api.codec import Json
from quorate.local.objects.crd import definition
from quorate.local.objects.errors import group_resource
from quorate.local.server.registry.defaults import cluster as cluster_defaults
from quorate.local.server.registry.defaults import pods as pod_defaults
from quorate.local.server.registry.defaults import workloads as workload_defaults
from quorate.local.server.registry.defaults.constants import CONSTANTS, new_status, set_constants
from quorate.local.server.registry.kinds import Kind, Strategy
from quorate.local.server.registry.validation import (
    api_extensions,
    cluster,
    containers,
    infrastructure,
    job_status,
    networking,
    pod_groups,
    pod_updates,
    pods,
    quota,
    storage,
    workloads,
)
from quorate.local.server.registry.validation.field_rules import (
    rule_table,
    validate_as,
    validate_status_as,
    validate_update_as,
)
from quorate.local.server.registry.validation.pod_warnings import (
    pod_warnings,
    stateful_set_warnings,
    template_warnings,
)

RELATIONS_OF_FIELD_RULES = (
    api_extensions,
    cluster,
    containers,
    infrastructure,
    networking,
    pod_groups,
    pods,
    quota,
    storage,
    workloads,
)
"""The modules that register, on import, the relations that the table of field rules names."""

TEMPLATE_WARNINGS = template_warnings("spec", "template")

_OWN_FUNCTIONS: dict[str, Strategy] = {
    "customresourcedefinitions.apiextensions.k8s.io": Strategy(
        default=definition.set_defaults,
        validate=api_extensions.validate_definition,
        validate_create=definition.creation_findings,
        validate_update=definition.update_findings,
        evaluates=True,
    ),
    "pods": Strategy(
        default=pod_defaults.default_pod,
        prepare_for_create=pod_defaults.prepare_pod_for_create,
        prepare_for_update=pod_defaults.prepare_pod_for_update,
        prepare_for_status_update=pod_defaults.prepare_pod_for_status_update,
        default_on_read=pod_defaults.default_pod_on_read,
        validate_update=pod_updates.validate_update,
        validate_status=pod_updates.validate_status,
        warnings=pod_warnings,
    ),
    "jobs.batch": Strategy(
        default=workload_defaults.default_job,
        prepare_for_create=workload_defaults.prepare_job_for_create,
        default_on_read=workload_defaults.default_job_on_read,
        validate_update=workloads.validate_job_update,
        validate_status=job_status.validate_status,
        warnings=TEMPLATE_WARNINGS,
    ),
    "cronjobs.batch": Strategy(
        default=workload_defaults.default_cron_job,
        warnings=template_warnings("spec", "jobTemplate", "spec", "template"),
    ),
    "daemonsets.apps": Strategy(
        default=workload_defaults.default_daemon_set,
        prepare_for_create=workload_defaults.prepare_daemon_set_for_create,
        prepare_for_update=workload_defaults.prepare_daemon_set_for_update,
        validate_update=validate_update_as("Deployment.update"),
        warnings=template_warnings("spec", "template", named=False),
    ),
    "podtemplates": Strategy(
        default=workload_defaults.default_pod_template, warnings=template_warnings("template", named=False)
    ),
    "replicationcontrollers": Strategy(
        default=workload_defaults.default_replication_controller, warnings=TEMPLATE_WARNINGS
    ),
    "deployments.apps": Strategy(
        default=workload_defaults.default_deployment,
        prepare_for_status_update=cluster_defaults.keep_labels,
        warnings=TEMPLATE_WARNINGS,
    ),
    "replicasets.apps": Strategy(
        default=workload_defaults.default_replica_set,
        validate_update=validate_update_as("Deployment.update"),
        warnings=TEMPLATE_WARNINGS,
    ),
    "statefulsets.apps": Strategy(
        default=workload_defaults.default_stateful_set,
        validate=workloads.validate_stateful_set,
        validate_update=workloads.validate_stateful_set_update,
        warnings=stateful_set_warnings,
    ),
    "namespaces": Strategy(
        default=cluster_defaults.default_namespace,
        prepare_for_create=cluster_defaults.prepare_namespace_for_create,
        prepare_for_update=cluster_defaults.prepare_namespace_for_update,
    ),
    "nodes": Strategy(default=cluster_defaults.default_node),
    "configmaps": Strategy(validate_update=cluster.validate_config_map_update),
    "secrets": Strategy(
        default=cluster_defaults.default_secret, validate_update=cluster.validate_secret_update
    ),
    "limitranges": Strategy(default=cluster_defaults.default_limit_range),
    "services": Strategy(
        default=cluster_defaults.default_service,
        prepare_for_create=cluster_defaults.prepare_service_for_create,
        prepare_for_update=cluster_defaults.prepare_service_for_update,
        validate_create=networking.validate_new_service,
        validate_update=networking.validate_service_update,
        validate_status=networking.validate_service_status,
    ),
    "events": Strategy(validate=validate_as("CoreEvent")),
    "events.events.k8s.io": Strategy(
        validate_create=validate_as("EventV1.create"), validate_update=cluster.validate_event_update
    ),
    "rolebindings.rbac.authorization.k8s.io": Strategy(default=cluster_defaults.default_binding),
    "clusterrolebindings.rbac.authorization.k8s.io": Strategy(
        default=cluster_defaults.default_binding,
        validate_update=validate_update_as("RoleBinding.update"),
    ),
    "persistentvolumes": Strategy(validate_update=storage.validate_volume_update),
    "persistentvolumeclaims": Strategy(validate_update=storage.validate_claim_update),
    "csinodes.storage.k8s.io": Strategy(validate_update=storage.validate_csi_node_update),
    "horizontalpodautoscalers.autoscaling": Strategy(default=cluster_defaults.default_autoscaler),
    "horizontalpodautoscalers.autoscaling/v1": Strategy(
        default=cluster_defaults.default_autoscaler_v1,
        prepare_for_create=new_status(currentReplicas=0, desiredReplicas=0),
        validate=validate_as("HorizontalPodAutoscalerV1"),
    ),
    "resourceclaims.resource.k8s.io": Strategy(
        default=cluster_defaults.default_claim, prepare_for_status_update=cluster_defaults.keep_metadata
    ),
    "resourceclaimtemplates.resource.k8s.io": Strategy(default=cluster_defaults.default_claim_template),
    "podgroups.scheduling.k8s.io": Strategy(prepare_for_status_update=cluster_defaults.keep_metadata),
    "volumeattachments.storage.k8s.io": Strategy(prepare_for_status_update=cluster_defaults.keep_metadata),
    "certificatesigningrequests.certificates.k8s.io": Strategy(
        prepare_for_update=cluster_defaults.keep_request,
        prepare_for_status_update=cluster_defaults.prepare_request_status,
        validate_status=infrastructure.validate_request_status,
    ),
    "validatingadmissionpolicies.admissionregistration.k8s.io": Strategy(
        prepare_for_status_update=cluster_defaults.keep_metadata,
        warnings=infrastructure.policy_warnings,
    ),
    "networkpolicies.networking.k8s.io": Strategy(default=cluster_defaults.default_network_policy),
}
"""By resource, and by resource and version if the versions differ."""

NEW_STATUS: dict[str, Json] = {
    "APIService": {},
    "CertificateSigningRequest": {},
    "CronJob": {},
    "CustomResourceDefinition": {},
    "Deployment": {},
    "HorizontalPodAutoscaler": {"desiredReplicas": 0},
    "Ingress": {"loadBalancer": {}},
    "PersistentVolume": {"phase": "Pending"},
    "PersistentVolumeClaim": {"phase": "Pending"},
    "PodDisruptionBudget": {},
    "PodGroup": {},
    "ReplicaSet": {},
    "ReplicationController": {"replicas": 0},
    "ResourceClaim": {},
    "ResourceQuota": {},
    "StatefulSet": {},
    "ValidatingAdmissionPolicy": {},
    "VolumeAttachment": {"attached": False},
}
"""The status of new objects, which their creators cannot set, by kind."""


def strategy_of(kind: Kind) -> Strategy:
    """Return the strategy of a built-in kind: its own functions, else the rows with its name."""
    resource, name = group_resource(kind.group, kind.plural), kind.kind
    own = _OWN_FUNCTIONS.get(f"{resource}/{kind.version}") or _OWN_FUNCTIONS.get(resource, Strategy())
    functions: Json = {
        field.name: function
        for field in fields(Strategy)
        if (function := getattr(own, field.name)) is not field.default
    }
    tables: Json = {"default": set_constants(name)} if name in CONSTANTS else {}
    if name in NEW_STATUS:
        tables["prepare_for_create"] = new_status(**NEW_STATUS[name])
    for part, validation in (
        ("", validate_as),
        ("create", validate_as),
        ("update", validate_update_as),
        ("status", validate_status_as),
    ):
        type_name = f"{name}.{part}" if part else name
        if type_name in rule_table():
            tables[f"validate_{part}" if part else "validate"] = validation(type_name)
    return Strategy(**tables | functions)


SUBRESOURCE_STRATEGIES: dict[tuple[str, str], Strategy] = {
    ("certificatesigningrequests.certificates.k8s.io", "approval"): Strategy(
        prepare_for_status_update=cluster_defaults.keep_certificate,
        validate_status=infrastructure.validate_request_approval,
    ),
    ("pods", "ephemeralcontainers"): Strategy(
        default=pod_defaults.default_pod,
        prepare_for_update=pod_defaults.prepare_pod_for_ephemeral_containers,
        validate=validate_as("Pod"),
        validate_update=pod_updates.validate_ephemeral_containers,
    ),
    ("pods", "resize"): Strategy(
        default=pod_defaults.default_pod,
        prepare_for_update=pod_defaults.prepare_pod_for_resize,
        validate=validate_as("Pod"),
        validate_update=pod_updates.validate_resize,
    ),
}
"""The strategies of subresources that change a part of the object, by resource and subresource."""
