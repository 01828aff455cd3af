"""The rules of the built-in kinds, by resource and group; a kind that is not here only has a shape."""

from quorate.local.objects.crd import definition
from quorate.local.server.registry.defaults import cluster as cluster_defaults
from quorate.local.server.registry.defaults import pods as pod_defaults
from quorate.local.server.registry.defaults import workloads as workload_defaults
from quorate.local.server.registry.kinds import Rules
from quorate.local.server.registry.validation import (
    api_services,
    cluster,
    configuration,
    custom_resource_definitions,
    endpoints,
    leases_and_events,
    networking,
    policy,
    quota,
    rbac,
    storage,
    webhook_configurations,
)
from quorate.local.server.registry.validation.pods import pod_spec, updates
from quorate.local.server.registry.validation.workloads import apps, job_status, jobs

RULES: dict[str, Rules] = {
    "customresourcedefinitions.apiextensions.k8s.io": Rules(
        default=definition.set_defaults,
        validate=custom_resource_definitions.validate,
        validate_new=definition.creation_findings,
        validate_update=definition.update_findings,
    ),
    "pods": Rules(
        default=pod_defaults.default,
        begin=pod_defaults.begin,
        carry=pod_defaults.carry,
        carry_status=pod_defaults.carry_status,
        validate=pod_spec.validate,
        validate_new=pod_spec.validate_new,
        validate_update=updates.validate_update,
        validate_status=updates.validate_status,
        warn=pod_spec.warn,
    ),
    "jobs.batch": Rules(
        default=workload_defaults.default_job,
        begin=workload_defaults.begin_job,
        read_back=workload_defaults.read_back_job,
        validate=jobs.validate,
        validate_update=jobs.validate_update,
        validate_status=job_status.validate_status,
    ),
    "deployments.apps": Rules(
        default=workload_defaults.deployment,
        begin=workload_defaults.clear_status,
        validate=apps.deployment,
        validate_update=apps.unchanged_selector,
    ),
    "replicasets.apps": Rules(
        default=workload_defaults.replica_set,
        begin=workload_defaults.clear_status,
        validate=apps.replica_set,
        validate_update=apps.unchanged_selector,
    ),
    "statefulsets.apps": Rules(
        default=workload_defaults.stateful_set,
        begin=workload_defaults.clear_status,
        validate=apps.stateful_set,
        validate_update=apps.stateful_set_update,
    ),
    "namespaces": Rules(
        default=cluster_defaults.namespace,
        begin=cluster_defaults.begin_namespace,
        carry=cluster_defaults.carry_namespace,
        validate=cluster.namespace,
    ),
    "nodes": Rules(
        default=cluster_defaults.node,
        validate=cluster.node,
        validate_update=cluster.node_update,
        validate_status=cluster.node_status,
    ),
    "configmaps": Rules(
        validate=configuration.config_map,
        validate_update=configuration.config_map_update,
    ),
    "secrets": Rules(
        default=cluster_defaults.secret,
        validate=configuration.secret,
        validate_update=configuration.secret_update,
    ),
    "limitranges": Rules(default=cluster_defaults.limit_range, validate=quota.limit_range),
    "priorityclasses.scheduling.k8s.io": Rules(
        default=cluster_defaults.priority_class,
        validate=cluster.priority_class,
        validate_update=cluster.priority_class_update,
    ),
    "resourcequotas": Rules(
        begin=cluster_defaults.begin_without_status,
        validate=quota.resource_quota,
        validate_update=quota.resource_quota_update,
        validate_status=quota.resource_quota_status,
    ),
    "services": Rules(
        default=cluster_defaults.service,
        begin=cluster_defaults.begin_service,
        carry=cluster_defaults.carry_service,
        validate=networking.validate,
        validate_update=networking.validate_update,
    ),
    "leases.coordination.k8s.io": Rules(validate=leases_and_events.lease),
    "runtimeclasses.node.k8s.io": Rules(
        validate=cluster.runtime_class, validate_update=cluster.runtime_class_update
    ),
    "events": Rules(validate=leases_and_events.core_event),
    "events.events.k8s.io": Rules(
        validate_new=leases_and_events.new_event, validate_update=leases_and_events.event_update
    ),
    "roles.rbac.authorization.k8s.io": Rules(validate=rbac.role),
    "clusterroles.rbac.authorization.k8s.io": Rules(validate=rbac.cluster_role),
    "rolebindings.rbac.authorization.k8s.io": Rules(
        validate=rbac.role_binding, validate_update=rbac.binding_update
    ),
    "clusterrolebindings.rbac.authorization.k8s.io": Rules(
        validate=rbac.cluster_role_binding, validate_update=rbac.binding_update
    ),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": Rules(
        default=cluster_defaults.mutating, validate=webhook_configurations.validate
    ),
    "validatingwebhookconfigurations.admissionregistration.k8s.io": Rules(
        default=cluster_defaults.validating, validate=webhook_configurations.validate
    ),
    "poddisruptionbudgets.policy": Rules(
        default=cluster_defaults.disruption_budget,
        begin=cluster_defaults.begin_without_status,
        validate=policy.disruption_budget,
    ),
    "persistentvolumes": Rules(
        default=cluster_defaults.volume,
        begin=cluster_defaults.begin_pending,
        validate=storage.volume,
        validate_update=storage.volume_update,
    ),
    "persistentvolumeclaims": Rules(
        default=cluster_defaults.claim,
        begin=cluster_defaults.begin_pending,
        validate=storage.claim,
        validate_update=storage.claim_update,
    ),
    "storageclasses.storage.k8s.io": Rules(
        default=cluster_defaults.storage_class,
        validate=storage.storage_class,
        validate_update=storage.storage_class_update,
    ),
    "csinodes.storage.k8s.io": Rules(validate=storage.csi_node),
    "networkpolicies.networking.k8s.io": Rules(
        default=cluster_defaults.network_policy, validate=policy.network_policy
    ),
    "apiservices.apiregistration.k8s.io": Rules(
        default=cluster_defaults.api_service,
        begin=cluster_defaults.begin_without_status,
        validate=api_services.validate,
    ),
    "endpoints": Rules(default=cluster_defaults.endpoints, validate=endpoints.endpoints),
    "endpointslices.discovery.k8s.io": Rules(
        default=cluster_defaults.endpoint_slice,
        validate=endpoints.endpoint_slice,
        validate_update=endpoints.endpoint_slice_update,
    ),
}
