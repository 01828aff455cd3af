"""The rules of the built-in kinds, by resource; a kind that is not here only has a shape."""

from quorate.local.objects.crd import definition
from quorate.local.server.defaults import jobs as job_defaults
from quorate.local.server.defaults import others
from quorate.local.server.defaults import pods as pod_defaults
from quorate.local.server.kinds import Rules

RULES: dict[str, Rules] = {
    "customresourcedefinitions.apiextensions.k8s.io": Rules(
        default=definition.fill_in,
        validate=definition.findings,
        validate_new=definition.name_findings,
        validate_update=definition.update_findings,
    ),
    "pods": Rules(default=pod_defaults.default, begin=pod_defaults.begin, carry=pod_defaults.carry),
    "jobs.batch": Rules(default=job_defaults.default, begin=job_defaults.begin),
    "namespaces": Rules(default=others.namespace, begin=others.begin_namespace, carry=others.carry_namespace),
    "nodes": Rules(default=others.node),
    "secrets": Rules(default=others.secret),
    "limitranges": Rules(default=others.limit_range),
    "priorityclasses.scheduling.k8s.io": Rules(default=others.priority_class),
    "resourcequotas": Rules(begin=others.begin_without_status),
    "services": Rules(default=others.service, begin=others.begin_service, carry=others.carry_service),
}
