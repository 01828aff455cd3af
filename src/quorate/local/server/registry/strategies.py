"""The rules of the built-in kinds, by resource and group; a kind that is not here only has a shape."""

from quorate.local.objects.crd import definition
from quorate.local.server.registry.defaults import cluster as cluster_defaults
from quorate.local.server.registry.defaults import pods as pod_defaults
from quorate.local.server.registry.defaults import workloads as workload_defaults
from quorate.local.server.registry.kinds import Strategy
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

STRATEGIES: dict[str, Strategy] = {
    "customresourcedefinitions.apiextensions.k8s.io": Strategy(
        default=definition.set_defaults,
        validate=custom_resource_definitions.validate,
        validate_create=definition.creation_findings,
        validate_update=definition.update_findings,
    ),
    "pods": Strategy(
        default=pod_defaults.default_pod,
        prepare_for_create=pod_defaults.prepare_pod_for_create,
        prepare_for_update=pod_defaults.prepare_pod_for_update,
        prepare_for_status_update=pod_defaults.prepare_pod_for_status_update,
        validate=pod_spec.validate,
        validate_create=pod_spec.validate_create,
        validate_update=updates.validate_update,
        validate_status=updates.validate_status,
        warnings=pod_spec.warnings,
    ),
    "jobs.batch": Strategy(
        default=workload_defaults.default_job,
        prepare_for_create=workload_defaults.prepare_job_for_create,
        default_on_read=workload_defaults.default_job_on_read,
        validate=jobs.validate,
        validate_update=jobs.validate_update,
        validate_status=job_status.validate_status,
    ),
    "deployments.apps": Strategy(
        default=workload_defaults.default_deployment,
        prepare_for_create=workload_defaults.clear_status,
        validate=apps.deployment,
        validate_update=apps.unchanged_selector,
    ),
    "replicasets.apps": Strategy(
        default=workload_defaults.default_replica_set,
        prepare_for_create=workload_defaults.clear_status,
        validate=apps.replica_set,
        validate_update=apps.unchanged_selector,
    ),
    "statefulsets.apps": Strategy(
        default=workload_defaults.default_stateful_set,
        prepare_for_create=workload_defaults.clear_status,
        validate=apps.stateful_set,
        validate_update=apps.stateful_set_update,
    ),
    "namespaces": Strategy(
        default=cluster_defaults.default_namespace,
        prepare_for_create=cluster_defaults.prepare_namespace_for_create,
        prepare_for_update=cluster_defaults.prepare_namespace_for_update,
        validate=cluster.namespace,
    ),
    "nodes": Strategy(
        default=cluster_defaults.default_node,
        validate=cluster.node,
        validate_update=cluster.node_update,
        validate_status=cluster.node_status,
    ),
    "configmaps": Strategy(
        validate=configuration.config_map,
        validate_update=configuration.config_map_update,
    ),
    "secrets": Strategy(
        default=cluster_defaults.default_secret,
        validate=configuration.secret,
        validate_update=configuration.secret_update,
    ),
    "limitranges": Strategy(default=cluster_defaults.default_limit_range, validate=quota.limit_range),
    "priorityclasses.scheduling.k8s.io": Strategy(
        default=cluster_defaults.default_priority_class,
        validate=cluster.priority_class,
        validate_update=cluster.priority_class_update,
    ),
    "resourcequotas": Strategy(
        prepare_for_create=cluster_defaults.clear_status,
        validate=quota.resource_quota,
        validate_update=quota.resource_quota_update,
        validate_status=quota.resource_quota_status,
    ),
    "services": Strategy(
        default=cluster_defaults.default_service,
        prepare_for_create=cluster_defaults.prepare_service_for_create,
        prepare_for_update=cluster_defaults.prepare_service_for_update,
        validate=networking.validate,
        validate_update=networking.validate_update,
    ),
    "leases.coordination.k8s.io": Strategy(validate=leases_and_events.lease),
    "runtimeclasses.node.k8s.io": Strategy(
        validate=cluster.runtime_class, validate_update=cluster.runtime_class_update
    ),
    "events": Strategy(validate=leases_and_events.core_event),
    "events.events.k8s.io": Strategy(
        validate_create=leases_and_events.new_event, validate_update=leases_and_events.event_update
    ),
    "roles.rbac.authorization.k8s.io": Strategy(validate=rbac.role),
    "clusterroles.rbac.authorization.k8s.io": Strategy(validate=rbac.cluster_role),
    "rolebindings.rbac.authorization.k8s.io": Strategy(
        validate=rbac.role_binding, validate_update=rbac.binding_update
    ),
    "clusterrolebindings.rbac.authorization.k8s.io": Strategy(
        validate=rbac.cluster_role_binding, validate_update=rbac.binding_update
    ),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": Strategy(
        default=cluster_defaults.default_mutating_webhooks, validate=webhook_configurations.validate
    ),
    "validatingwebhookconfigurations.admissionregistration.k8s.io": Strategy(
        default=cluster_defaults.default_validating_webhooks, validate=webhook_configurations.validate
    ),
    "poddisruptionbudgets.policy": Strategy(
        default=cluster_defaults.default_disruption_budget,
        prepare_for_create=cluster_defaults.clear_status,
        validate=policy.disruption_budget,
    ),
    "persistentvolumes": Strategy(
        default=cluster_defaults.default_volume,
        prepare_for_create=cluster_defaults.set_pending,
        validate=storage.volume,
        validate_update=storage.volume_update,
    ),
    "persistentvolumeclaims": Strategy(
        default=cluster_defaults.default_claim,
        prepare_for_create=cluster_defaults.set_pending,
        validate=storage.claim,
        validate_update=storage.claim_update,
    ),
    "storageclasses.storage.k8s.io": Strategy(
        default=cluster_defaults.default_storage_class,
        validate=storage.storage_class,
        validate_update=storage.storage_class_update,
    ),
    "csinodes.storage.k8s.io": Strategy(validate=storage.csi_node),
    "networkpolicies.networking.k8s.io": Strategy(
        default=cluster_defaults.default_network_policy, validate=policy.network_policy
    ),
    "apiservices.apiregistration.k8s.io": Strategy(
        default=cluster_defaults.default_api_service,
        prepare_for_create=cluster_defaults.clear_status,
        validate=api_services.validate,
    ),
    "endpoints": Strategy(default=cluster_defaults.default_endpoints, validate=endpoints.endpoints),
    "endpointslices.discovery.k8s.io": Strategy(
        default=cluster_defaults.default_endpoint_slice,
        validate=endpoints.endpoint_slice,
        validate_update=endpoints.endpoint_slice_update,
    ),
}
