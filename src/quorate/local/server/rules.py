"""The rules of the built-in kinds, by resource and group; a kind that is not here only has a shape."""

from quorate.local.objects.crd import definition
from quorate.local.server.defaults import apps as app_defaults
from quorate.local.server.defaults import jobs as job_defaults
from quorate.local.server.defaults import others as other_defaults
from quorate.local.server.defaults import pods as pod_defaults
from quorate.local.server.defaults import storage as storage_defaults
from quorate.local.server.defaults import webhooks as webhook_defaults
from quorate.local.server.kinds import Rules
from quorate.local.server.validation import (
    api_services,
    apps,
    cluster,
    configuration,
    definitions,
    endpoints,
    job_status,
    jobs,
    limits,
    pod_updates,
    pods,
    policies,
    rbac,
    records,
    services,
    storage,
    webhooks,
)

RULES: dict[str, Rules] = {
    "customresourcedefinitions.apiextensions.k8s.io": Rules(
        default=definition.set_defaults,
        validate=definitions.validate,
        validate_new=definition.creation_findings,
        validate_update=definition.update_findings,
    ),
    "pods": Rules(
        default=pod_defaults.default,
        begin=pod_defaults.begin,
        carry=pod_defaults.carry,
        carry_status=pod_defaults.carry_status,
        validate=pods.validate,
        validate_new=pods.validate_new,
        validate_update=pod_updates.validate_update,
        validate_status=pod_updates.validate_status,
        warn=pods.warn,
    ),
    "jobs.batch": Rules(
        default=job_defaults.default,
        begin=job_defaults.begin,
        read_back=job_defaults.read_back,
        validate=jobs.validate,
        validate_update=jobs.validate_update,
        validate_status=job_status.validate_status,
    ),
    "deployments.apps": Rules(
        default=app_defaults.deployment,
        begin=app_defaults.begin,
        validate=apps.deployment,
        validate_update=apps.unchanged_selector,
    ),
    "replicasets.apps": Rules(
        default=app_defaults.replica_set,
        begin=app_defaults.begin,
        validate=apps.replica_set,
        validate_update=apps.unchanged_selector,
    ),
    "statefulsets.apps": Rules(
        default=app_defaults.stateful_set,
        begin=app_defaults.begin,
        validate=apps.stateful_set,
        validate_update=apps.stateful_set_update,
    ),
    "namespaces": Rules(
        default=other_defaults.namespace,
        begin=other_defaults.begin_namespace,
        carry=other_defaults.carry_namespace,
        validate=cluster.namespace,
    ),
    "nodes": Rules(
        default=other_defaults.node,
        validate=cluster.node,
        validate_update=cluster.node_update,
        validate_status=cluster.node_status,
    ),
    "configmaps": Rules(
        validate=configuration.config_map,
        validate_update=configuration.config_map_update,
    ),
    "secrets": Rules(
        default=other_defaults.secret,
        validate=configuration.secret,
        validate_update=configuration.secret_update,
    ),
    "limitranges": Rules(default=other_defaults.limit_range, validate=limits.limit_range),
    "priorityclasses.scheduling.k8s.io": Rules(
        default=other_defaults.priority_class,
        validate=cluster.priority_class,
        validate_update=cluster.priority_class_update,
    ),
    "resourcequotas": Rules(
        begin=other_defaults.begin_without_status,
        validate=limits.resource_quota,
        validate_update=limits.resource_quota_update,
        validate_status=limits.resource_quota_status,
    ),
    "services": Rules(
        default=other_defaults.service,
        begin=other_defaults.begin_service,
        carry=other_defaults.carry_service,
        validate=services.validate,
        validate_update=services.validate_update,
    ),
    "leases.coordination.k8s.io": Rules(validate=records.lease),
    "runtimeclasses.node.k8s.io": Rules(
        validate=cluster.runtime_class, validate_update=cluster.runtime_class_update
    ),
    "events": Rules(validate=records.core_event),
    "events.events.k8s.io": Rules(validate_new=records.new_event, validate_update=records.event_update),
    "roles.rbac.authorization.k8s.io": Rules(validate=rbac.role),
    "clusterroles.rbac.authorization.k8s.io": Rules(validate=rbac.cluster_role),
    "rolebindings.rbac.authorization.k8s.io": Rules(
        validate=rbac.role_binding, validate_update=rbac.binding_update
    ),
    "clusterrolebindings.rbac.authorization.k8s.io": Rules(
        validate=rbac.cluster_role_binding, validate_update=rbac.binding_update
    ),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": Rules(
        default=webhook_defaults.mutating, validate=webhooks.validate
    ),
    "validatingwebhookconfigurations.admissionregistration.k8s.io": Rules(
        default=webhook_defaults.validating, validate=webhooks.validate
    ),
    "poddisruptionbudgets.policy": Rules(
        default=other_defaults.disruption_budget,
        begin=other_defaults.begin_without_status,
        validate=policies.disruption_budget,
    ),
    "persistentvolumes": Rules(
        default=storage_defaults.volume,
        begin=storage_defaults.begin,
        validate=storage.volume,
        validate_update=storage.volume_update,
    ),
    "persistentvolumeclaims": Rules(
        default=storage_defaults.claim,
        begin=storage_defaults.begin,
        validate=storage.claim,
        validate_update=storage.claim_update,
    ),
    "storageclasses.storage.k8s.io": Rules(
        default=storage_defaults.storage_class,
        validate=storage.storage_class,
        validate_update=storage.storage_class_update,
    ),
    "csinodes.storage.k8s.io": Rules(validate=storage.csi_node),
    "networkpolicies.networking.k8s.io": Rules(
        default=other_defaults.network_policy, validate=policies.network_policy
    ),
    "apiservices.apiregistration.k8s.io": Rules(
        default=other_defaults.api_service,
        begin=other_defaults.begin_without_status,
        validate=api_services.validate,
    ),
    "endpoints": Rules(default=other_defaults.endpoints, validate=endpoints.endpoints),
    "endpointslices.discovery.k8s.io": Rules(
        default=other_defaults.endpoint_slice,
        validate=endpoints.endpoint_slice,
        validate_update=endpoints.endpoint_slice_update,
    ),
}
