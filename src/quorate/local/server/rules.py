"""The rules of the built-in kinds, by resource; a kind that is not here only has a shape."""

from quorate.local.objects.crd import definition
from quorate.local.server.defaults import jobs as job_defaults
from quorate.local.server.defaults import others as other_defaults
from quorate.local.server.defaults import pods as pod_defaults
from quorate.local.server.kinds import Rules
from quorate.local.server.validation import jobs, others, pods

RULES: dict[str, Rules] = {
    "customresourcedefinitions.apiextensions.k8s.io": Rules(
        default=definition.fill_in,
        validate=definition.findings,
        validate_new=definition.name_findings,
        validate_update=definition.update_findings,
    ),
    "pods": Rules(
        default=pod_defaults.default,
        begin=pod_defaults.begin,
        carry=pod_defaults.carry,
        carry_status=pod_defaults.carry_status,
        validate=pods.validate,
        validate_update=pods.validate_update,
        warn=pods.warn,
    ),
    "jobs.batch": Rules(
        default=job_defaults.default,
        begin=job_defaults.begin,
        validate=jobs.validate,
        validate_update=jobs.validate_update,
        validate_status=jobs.validate_status,
    ),
    "namespaces": Rules(
        default=other_defaults.namespace,
        begin=other_defaults.begin_namespace,
        carry=other_defaults.carry_namespace,
    ),
    "nodes": Rules(default=other_defaults.node),
    "configmaps": Rules(validate_update=others.config_map_update),
    "secrets": Rules(default=other_defaults.secret, validate_update=others.secret_update),
    "limitranges": Rules(default=other_defaults.limit_range, validate=others.limit_range),
    "priorityclasses.scheduling.k8s.io": Rules(
        default=other_defaults.priority_class,
        validate=others.priority_class,
        validate_update=others.priority_class_update,
    ),
    "resourcequotas": Rules(begin=other_defaults.begin_without_status, validate=others.resource_quota),
    "services": Rules(
        default=other_defaults.service,
        begin=other_defaults.begin_service,
        carry=other_defaults.carry_service,
        validate=others.service,
        validate_update=others.service_update,
    ),
}
